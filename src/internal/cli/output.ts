/**
 * What the program writes: tables for people, an object a line for programs. Whatever the store holds is written without
 * characters that a terminal obeys.
 *
 * 1. On a terminal a table is as wide as the terminal at the most: the widest columns are cut. In a pipe nothing is cut.
 * 2. Whoever reads a pipe may close it: then the program ends, and that is no failure (main.ts).
 */
import { displayWidth } from "effect/cli/CliOutput"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as readline from "node:readline"
import { printable } from "../data/text.ts"
import { Refused } from "./errors.ts"

/** Where a program's output goes. */
export interface Stream {
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
  readonly write: (text: string) => unknown
}

/** What the program writes to, and whom it can ask. */
export interface Output {
  readonly out: Stream
  readonly err: Stream
  /** Where an answer to a question comes from; absent where nobody can be asked. */
  readonly input?: NodeJS.ReadableStream | undefined
  /** Whether a signal is how the command ends well: one that serves says so. */
  readonly ending?: { isBySignal: boolean } | undefined
}

export const OutputOf = Context.Service<Output, Output>("effect-dgen/cli/Output")

/** Writes to the output, as it is. */
export const write = (text: string): Effect.Effect<void, never, Output> =>
  Effect.map(OutputOf, ({ out }) => void out.write(text))

/** A text on one line, as it can be shown. */
export const oneLine = (text: string): string =>
  printable(text.replace(/[\r\n\t]/g, (character) => ESCAPES[character]!)).replace(
    INVISIBLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

const ESCAPES: Readonly<Record<string, string>> = { "\r": "\\r", "\n": "\\n", "\t": "\\t" }

const INVISIBLE = /[\u00ad\u200b-\u200f\u2060-\u206f\ufff9-\ufffb]/g

/** A line of text for people. */
export const say = (text: string): Effect.Effect<void, never, Output> => write(`${oneLine(text)}\n`)

// oxlint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

/** JSON without characters that a terminal obeys: it has them escaped. */
export const jsonText = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, undefined, indent) ?? "null").replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

export const writeJson = (value: unknown): Effect.Effect<void, never, Output> => write(`${jsonText(value)}\n`)

/** A column: its title, and the text of a row. */
export type Column<A> = readonly [title: string, text: (row: A) => string | number | undefined]

const GAP = "  "

/** No column is cut below this. */
const LEAST_WIDTH = 6

const cutTo = (text: string, width: number): string => {
  if (displayWidth(text) <= width) return text
  let cut = ""
  let at = 0
  for (const character of text) {
    const own = displayWidth(character)
    if (at + own > width - 1) break
    cut += character
    at += own
  }
  return `${cut}…`
}

const padded = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - displayWidth(text)))

/** Widths that fit: the widest is cut until they do (1). */
const fitting = (widths: ReadonlyArray<number>, columns: number | undefined): ReadonlyArray<number> => {
  const fit = [...widths]
  if (columns === undefined) return fit
  const all = () => fit.reduce((sum, width) => sum + width, GAP.length * (fit.length - 1))
  while (all() > columns) {
    const widest = fit.indexOf(Math.max(...fit))
    if (fit[widest]! <= LEAST_WIDTH) break
    fit[widest]!--
  }
  return fit
}

/** The lines of a table. Numbers stand at the right. */
export const tableOf = <A>(
  rows: ReadonlyArray<A>,
  columns: ReadonlyArray<Column<A>>,
  width: number | undefined
): ReadonlyArray<string> => {
  const cells = rows.map((row) =>
    columns.map(([, text]) => {
      const cell = text(row)
      return typeof cell === "number" ? cell.toLocaleString("en") : oneLine(cell ?? "")
    })
  )
  const isNumber = columns.map(([, text]) => rows.length > 0 && rows.every((row) => typeof text(row) === "number"))
  const titles = columns.map(([title]) => title)
  const widths = fitting(
    titles.map((title, at) => Math.max(title.length, ...cells.map((row) => displayWidth(row[at]!)))),
    width
  )
  const line = (texts: ReadonlyArray<string>) =>
    texts.map((text, at) => {
      const cut = cutTo(text, widths[at]!)
      return isNumber[at] ? " ".repeat(Math.max(0, widths[at]! - displayWidth(cut))) + cut : padded(cut, widths[at]!)
    }).join(GAP).trimEnd()
  return [line(titles), ...cells.map(line)]
}

/** Writes rows: as a table, or each as an object. */
export const writeRows = <A>(
  rows: ReadonlyArray<A>,
  columns: ReadonlyArray<Column<A>>,
  json: boolean
): Effect.Effect<void, never, Output> =>
  Effect.flatMap(OutputOf, ({ out }) => {
    if (json) return Effect.forEach(rows, writeJson, { discard: true })
    const width = out.isTTY === true ? out.columns : undefined
    return rows.length === 0 ? Effect.void : write(`${tableOf(rows, columns, width).join("\n")}\n`)
  })

/** A remark for people beside the rows: not in a pipe's output. */
export const remark = (text: string): Effect.Effect<void, never, Output> =>
  Effect.map(OutputOf, ({ err }) => void err.write(`${oneLine(text)}\n`))

/** Shows how far something has come, on a terminal, in one line. */
export const progress: Effect.Effect<
  { readonly show: (text: string) => void; readonly end: Effect.Effect<void> },
  never,
  Output
> = Effect.map(OutputOf, ({ err }) => {
  let drawn = -Infinity
  let isOpen = false
  return {
    show: (text) => {
      const now = performance.now()
      if (err.isTTY !== true || now - drawn < DRAW_MILLIS) return
      drawn = now
      isOpen = true
      err.write(`\r${cutTo(oneLine(text), (err.columns ?? 80) - 1)}\u001b[K`)
    },
    end: Effect.sync(() => {
      if (isOpen) err.write("\r\u001b[K")
      isOpen = false
    })
  }
})

/** A terminal is not drawn on more often than the eye follows. */
const DRAW_MILLIS = 100

/** Asks whether to delete, unless the arguments say yes. Where nobody can be asked, it is refused. */
export const confirm = (question: string, yes: boolean): Effect.Effect<void, Refused, Output> => {
  if (yes) return Effect.void
  return Effect.flatMap(OutputOf, ({ err, input }) =>
    input === undefined
      ? Effect.fail(new Refused({ message: `${oneLine(question)} Nobody can be asked: say --yes` }))
      : Effect.flatMap(ask(input, err, `${oneLine(question)} [y/N] `), (answer) =>
        /^\s*(y|yes)\s*$/i.test(answer) ? Effect.void : Effect.fail(new Refused({ message: "nothing was changed" }))))
}

const ask = (input: NodeJS.ReadableStream, err: Stream, question: string): Effect.Effect<string> =>
  Effect.callback<string>((resume) => {
    err.write(question)
    const lines = readline.createInterface({ input })
    lines.once("line", (line) => {
      resume(Effect.succeed(line))
      lines.close()
    })
    lines.once("close", () => resume(Effect.succeed("")))
    return Effect.sync(() => lines.close())
  })

// --- values ---

/** A time of the store. */
export const timeText = (millis: number | undefined): string =>
  millis === undefined
    ? ""
    : Option.match(DateTime.make(millis), {
      onNone: () => "",
      onSome: (time) => DateTime.formatIso(time).replace(/\.\d+Z$/, "Z")
    })

/** How long ago something was, in the two largest units. */
export const ageText = (millis: number | undefined, now: number): string => {
  if (millis === undefined) return ""
  const seconds = Math.max(0, Math.round((now - millis) / 1_000))
  const units: ReadonlyArray<readonly [string, number]> = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]]
  const first = units.findIndex(([, size]) => seconds >= size)
  if (first < 0) return "0s"
  return units.slice(first, first + 2).reduce(
    ({ rest, text }, [unit, size]) => ({ rest: rest % size, text: `${text}${Math.floor(rest / size)}${unit}` }),
    { rest: seconds, text: "" }
  ).text
}

/**
 * How far a copy has come, for people: a bar that is drawn over itself on a terminal, else a line for each tenth.
 */
import * as Effect from "effect/Effect"
import type { Progress } from "./copy.ts"

const BAR_CELLS = 30

/** A terminal is not drawn on more often than the eye follows. */
const DRAW_MILLIS = 100

const titles = {
  counting: "counting",
  copying: "copying",
  reading: "reading the source again",
  verifying: "reading the target"
}

const amount = (bytes: number): string =>
  bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${bytes} B`

/** One line of progress. */
export const lineOf = ({ bytes, phase, rows, totalRows }: Progress): string => {
  const title = titles[phase].padEnd(titles.reading.length)
  const counted = `${rows.toLocaleString("en")} rows, ${amount(bytes)}`
  if (totalRows === undefined) return `${title} ${counted}`
  const part = totalRows === 0 ? 1 : Math.min(1, rows / totalRows)
  const cells = Math.floor(part * BAR_CELLS)
  const bar = "#".repeat(cells) + "-".repeat(BAR_CELLS - cells)
  return `${title} [${bar}] ${String(Math.floor(part * 100)).padStart(3)} %  ${counted}`
}

/** What shows progress on a stream. */
export const make = (stream: {
  readonly isTTY?: boolean | undefined
  readonly write: (text: string) => unknown
}): { readonly show: (progress: Progress) => Effect.Effect<void>; readonly end: Effect.Effect<void> } => {
  let drawn = -Infinity
  let last = ""
  let open = false
  const terminal = (progress: Progress) => {
    const isNew = progress.phase !== last
    const isWhole = progress.rows === progress.totalRows
    const now = performance.now()
    if (!isNew && !isWhole && now - drawn < DRAW_MILLIS) return
    drawn = now
    if (isNew && open) stream.write("\n")
    last = progress.phase
    open = true
    stream.write(`\r${lineOf(progress)}\u001b[K`)
  }
  const plain = (progress: Progress) => {
    const tenth = progress.totalRows === undefined ? 0 : Math.floor((progress.rows / progress.totalRows) * 10)
    const step = `${progress.phase} ${tenth}`
    if (step === last) return
    last = step
    stream.write(`${lineOf(progress)}\n`)
  }
  return {
    show: (progress) => Effect.sync(() => stream.isTTY === true ? terminal(progress) : plain(progress)),
    end: Effect.sync(() => {
      if (open) stream.write("\n")
      open = false
    })
  }
}

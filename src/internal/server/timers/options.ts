/**
 * When a timer is due, as programs say it: checked before anything is written.
 */
import type * as Cron from "effect/Cron"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { show } from "../../data/show.ts"
import { expressionOf } from "../../schedules/expression.ts"
import { every, type Ticks } from "../../schedules/ticks.ts"
import { isTime } from "../../tenant/limits.ts"
import { InvalidOption } from "../definition/errors.ts"
import type { Missed, Recurrence } from "./rows.ts"

/** An id stands in a key. */
const ID_LIMIT_BYTES = 256

/** Timers that come more often would be a loop. */
const PERIOD_LEAST_MILLIS = 1_000

/** What a program asked for, checked. */
export interface Timing {
  readonly id: string | undefined
  /** When it is due first, by the clock of the transaction that sets it, and when it comes again. */
  readonly at: (nowMillis: number) => { readonly due: number; readonly recurrence: Recurrence | undefined }
}

type Checked = Result.Result<Timing, InvalidOption>

const KINDS = ["after", "at", "every", "cron"] as const

const KNOWN: Readonly<Record<(typeof KINDS)[number], ReadonlyArray<string>>> = {
  after: ["after", "id", "key", "tuid"],
  at: ["at", "id", "key", "tuid"],
  every: ["every", "first", "missed", "id", "tuid"],
  cron: ["cron", "timeZone", "missed", "id", "tuid"]
}

/** The ticks of a timer that comes again; `undefined` where what is stored cannot be followed. */
export const ticksOf = (recurrence: Recurrence): Ticks | undefined => {
  if ("every" in recurrence) return every(recurrence.first, recurrence.every)
  const { cron, timeZone } = recurrence
  return Result.getOrUndefined(Result.map(expressionOf({ cron, timeZone }), ({ ticks }) => ticks))
}

/** Checks when a timer is due; `server` is for the error. */
export const timingOf = (server: string, options: unknown): Checked => {
  const wrong = (option: string, problem: string) => Result.fail(new InvalidOption({ server, option, problem }))
  if (!Predicate.isObject(options)) {
    return wrong("options", `must say when, such as { after: "30 minutes" }, not ${show(options)}`)
  }
  const given = options as Readonly<Record<string, unknown>>
  const kinds = KINDS.filter((kind) => given[kind] !== undefined)
  const [kind] = kinds
  if (kind === undefined) return wrong("after", `or one of at, every and cron must say when the timer is due`)
  if (kinds.length > 1) return wrong(kinds[1]!, `cannot be used together with ${kind}: a timer has one time`)
  const unknown = Object.keys(given).find((name) => given[name] !== undefined && !KNOWN[kind].includes(name))
  if (unknown !== undefined) return wrong(unknown, `is no option of a timer with ${kind}`)
  const { id } = given
  const isId = id === undefined ||
    typeof id === "string" && id !== "" && id.isWellFormed() && Buffer.byteLength(id) <= ID_LIMIT_BYTES
  if (!isId) return wrong("id", `must be a text of 1 to ${ID_LIMIT_BYTES} bytes, not ${show(id)}`)
  const missed = given["missed"] ?? "latest"
  if (missed !== "latest" && missed !== "skip") {
    return wrong("missed", `must be "latest" or "skip", not ${show(missed)}`)
  }
  switch (kind) {
    case "after":
      return afterOf(wrong, id, given["after"])
    case "at":
      return atOf(wrong, id, given["at"])
    case "every":
      return everyOf(wrong, id, given, missed)
    case "cron":
      return cronOf(wrong, id, given, missed)
  }
}

type Wrong = (option: string, problem: string) => Result.Result<never, InvalidOption>

const afterOf = (wrong: Wrong, id: string | undefined, after: unknown): Checked => {
  const millis = millisOf(after)
  return millis >= 0 && isTime(millis)
    ? Result.succeed({ id, at: (now) => ({ due: Math.ceil(now + millis), recurrence: undefined }) })
    : wrong("after", `must be a finite duration from zero, not ${show(after)}`)
}

const atOf = (wrong: Wrong, id: string | undefined, at: unknown): Checked => {
  const millis = timeOf(at)
  return millis === undefined
    ? wrong("at", `must be a time, such as a Date, a DateTime or "2030-01-31T10:00:00Z", not ${show(at)}`)
    : Result.succeed({ id, at: () => ({ due: Math.ceil(millis), recurrence: undefined }) })
}

const everyOf = (
  wrong: Wrong,
  id: string | undefined,
  given: Readonly<Record<string, unknown>>,
  missed: Missed
): Checked => {
  const period = millisOf(given["every"])
  if (!(period >= PERIOD_LEAST_MILLIS) || !isTime(period)) {
    return wrong("every", `must be a finite duration of a second or more, not ${show(given["every"])}`)
  }
  const first = given["first"] === undefined ? undefined : timeOf(given["first"])
  if (given["first"] !== undefined && first === undefined) {
    return wrong("first", `must be a time, not ${show(given["first"])}`)
  }
  return Result.succeed({
    id,
    at: (now) => {
      const start = Math.ceil(first ?? now + period)
      // one in the past says where the grid lies
      return { due: every(start, period).next(now - 1)!, recurrence: { every: period, first: start, missed } }
    }
  })
}

const cronOf = (
  wrong: Wrong,
  id: string | undefined,
  given: Readonly<Record<string, unknown>>,
  missed: Missed
): Checked => {
  const { cron, timeZone } = given as { readonly cron: string | Cron.Cron; readonly timeZone?: string }
  return Result.match(expressionOf({ cron, timeZone }), {
    onFailure: ({ option, problem }) => wrong(option, problem),
    onSuccess: ({ text, ticks, timeZone: zone }) =>
      Result.succeed({
        id,
        at: (now) => ({ due: ticks.next(now)!, recurrence: { cron: text, timeZone: zone, missed } })
      })
  })
}

const millisOf = (input: unknown): number => {
  const duration = Duration.fromInput(input as Duration.Input)
  return Option.isSome(duration) ? Duration.toMillis(duration.value) : Number.NaN
}

const timeOf = (input: unknown): number | undefined => {
  try {
    const made = DateTime.make(input as DateTime.DateTime.Input)
    const millis = Option.isSome(made) ? DateTime.toEpochMillis(made.value) : Number.NaN
    return isTime(millis) ? millis : undefined
  } catch {
    return undefined
  }
}

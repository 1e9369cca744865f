/**
 * Cron expressions as users write them: five fields, six with seconds first, a name such as `@daily`, or a `Cron` of
 * Effect, in a time zone.
 */
import * as Cron from "effect/Cron"
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { fieldsOf } from "./calendar.ts"
import { type Changes, onCalendar, type Ticks } from "./ticks.ts"
import { UTC, zoneOf } from "./zone.ts"

export interface Options {
  readonly cron: string | Cron.Cron
  readonly timeZone?: string | undefined
  readonly onDstOverlap?: Cron.DstOverlapPolicy | undefined
  readonly onDstGap?: "run" | "skip" | undefined
}

/** An expression that can be followed. */
export interface Expression {
  readonly ticks: Ticks
  /** As it was written. */
  readonly text: string
  readonly timeZone: string
  /** Two expressions with the same identity have the same ticks. */
  readonly identity: string
}

/** Which option cannot be used, and why. */
export interface Problem {
  readonly option: string
  readonly problem: string
}

const NAMES: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *"
}

const ALL_HOURS = 24

/** Fewer hours than these can be a step or a list: where only the hours are known, they count as a list. */
const STEPPED_HOURS = 3

/** Whether hours are those of a star or a stepped star, as far as they tell. */
const goOn = (hours: ReadonlySet<number>): boolean => {
  const [first, second] = hours
  if (hours.size === 0 || hours.size === ALL_HOURS) return true
  if (hours.size < STEPPED_HOURS || first !== 0) return false
  return hours.size === Math.ceil(ALL_HOURS / second!) && Array.from(hours).every((hour, i) => hour === i * second!)
}

const zoneProblem = (timeZone: unknown): Problem | undefined => {
  const exists = timeZone === undefined ||
    (typeof timeZone === "string" && Option.isSome(DateTime.zoneFromString(timeZone)))
  return exists ? undefined : { option: "cron", problem: "must be in a time zone that exists, such as \"Europe/Rome\"" }
}

interface Parsed {
  readonly cron: Cron.Cron
  readonly text: string
  readonly hoursGoOn: boolean
}

const parse = ({ cron, onDstOverlap, timeZone }: Options): Result.Result<Parsed, Problem> => {
  if (Cron.isCron(cron)) {
    for (const [option, value] of Object.entries({ timeZone, onDstOverlap })) {
      if (value !== undefined) return Result.fail({ option, problem: "cannot be used together with a Cron" })
    }
    return Result.succeed({ cron, text: Cron.format(cron), hoursGoOn: goOn(cron.hours) })
  }
  const problem = zoneProblem(timeZone)
  if (problem !== undefined) return Result.fail(problem)
  if (typeof cron !== "string") return Result.fail({ option: "cron", problem: "must be a string, or a Cron" })
  const text = cron.trim()
  const fields = NAMES[text.toLowerCase()] ?? text
  return Result.match(Cron.parse(fields, timeZone ?? "UTC", { onDstOverlap }), {
    onFailure: (error) =>
      Result.fail({
        option: "cron",
        problem: `must be a cron expression, or one of ${Object.keys(NAMES).join(", ")}: ${error.message}`
      }),
    onSuccess: (parsed) =>
      Result.succeed({
        cron: parsed,
        text,
        hoursGoOn: fields.split(/\s+/).at(-4)!.startsWith("*") || parsed.hours.size === ALL_HOURS
      })
  })
}

const OVERLAPS = ["earlier", "later", "both"]
const GAPS = ["run", "skip"]

const choice = (option: string, value: unknown, values: ReadonlyArray<string>): Problem | undefined =>
  value === undefined || values.includes(value as string)
    ? undefined
    : { option, problem: `must be one of ${values.map((name) => JSON.stringify(name)).join(", ")}` }

const identityOf = (cron: Cron.Cron, timeZone: string, changes: Changes | undefined): string => {
  const { days, hours, minutes, months, seconds, weekdays } = cron
  const { and } = cron as { readonly and?: boolean }
  const sets = [seconds, minutes, hours, days, months, weekdays].map((set) => Array.from(set).join())
  return [...sets, and === true ? "and" : "or", timeZone, changes?.onOverlap, changes?.onGap].join(" ")
}

/** An expression with all that is needed to follow it, or what is wrong with it. */
export const expressionOf = (options: Options): Result.Result<Expression, Problem> => {
  const problem = choice("onDstOverlap", options.onDstOverlap, OVERLAPS) ?? choice("onDstGap", options.onDstGap, GAPS)
  if (problem !== undefined) return Result.fail(problem)
  return Result.flatMap(parse(options), ({ cron, hoursGoOn, text }) => {
    const zone = Option.getOrUndefined(cron.tz)
    const timeZone = zone === undefined ? "UTC" : DateTime.zoneToString(zone)
    const changes = hoursGoOn ? undefined : { onOverlap: cron.onDstOverlap, onGap: options.onDstGap ?? "run" }
    const ticks = onCalendar(fieldsOf(cron), zone === undefined ? UTC : zoneOf(zone), changes)
    return ticks.next(0) === undefined
      ? Result.fail({ option: "cron", problem: `must have a tick at some time: no date fits ${JSON.stringify(text)}` })
      : Result.succeed({ ticks, text, timeZone, identity: identityOf(cron, timeZone, changes) })
  })
}

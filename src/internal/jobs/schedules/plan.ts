/**
 * A schedule of jobs with its options checked.
 */
import type * as Cron from "effect/Cron"
import type * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import { type Expression, expressionOf } from "../../schedules/expression.ts"
import { InvalidOption } from "../definition/errors.ts"
import { elementProblem, isPriority, millisOf, type Model, PRIORITY_LIMIT } from "../definition/model.ts"

/** So many missed ticks are made up for at the most unless a schedule says otherwise, and so many it can say. */
const MISSED_DEFAULT = 1_000
const MISSED_LIMIT = 10_000

/** A schedule that nobody ran for so long is taken up again: nothing of that time is missed. */
const REST_DEFAULT = "30 days"

/**
 * When and how jobs are added by the clock.
 *
 * @since 0.1.0
 * @category models
 */
export interface CronOptions<A> {
  /**
   * Five fields (minute, hour, day of the month, month, day of the week), six (with seconds first), one of `@hourly`,
   * `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually`, or a `Cron`.
   */
  readonly cron: string | Cron.Cron
  /** An IANA name, such as `"Europe/Berlin"`; UTC if absent. Not together with a `Cron`, which has its own. */
  readonly timeZone?: string | undefined
  /**
   * Where the clock is put back, and shows an hour twice: whether a time of an expression with hours of its own is the
   * `"earlier"` one (if absent), the `"later"` one, or `"both"`. Expressions whose hours begin with a star always go on.
   * Not together with a `Cron`, which has its own.
   */
  readonly onDstOverlap?: Cron.DstOverlapPolicy | undefined
  /**
   * Where the clock is put forward, and skips an hour: whether times of an expression with hours of its own that are
   * skipped `"run"` once, when the clock is put forward (if absent), or are a `"skip"`.
   */
  readonly onDstGap?: "run" | "skip" | undefined
  /**
   * What happens with ticks that passed while no process ran: `"latest"` (if absent) adds a job for the latest of them,
   * `"skip"` does so only if that one is less than a minute late, `"all"` adds a job for each, `missedLimit` at the most.
   */
  readonly missed?: "skip" | "latest" | "all" | undefined
  /** With `missed: "all"`, so many of the missed ticks get a job, the latest ones: 1,000 if absent, 10,000 at the most. */
  readonly missedLimit?: number | undefined
  /**
   * A schedule that no process ran for longer than this begins anew, and nothing of that time is made up for: 30 days if
   * absent, or twice the time between its ticks if that is longer.
   */
  readonly restLimit?: Duration.Input | undefined
  /**
   * The data of a tick's job; a function gets the tick's time in milliseconds since 1970. A tick for which it throws, or
   * gives data that does not fit the schema, gets no job: that is logged as an error, and the next tick comes.
   */
  readonly data: A | ((tickMillis: number) => A)
  readonly priority?: number | undefined
}

export interface Plan extends Expression {
  readonly name: string
  readonly missed: "skip" | "latest" | "all"
  readonly missedLimit: number
  readonly restLimitMillis: number
  readonly priority: number
  readonly dataOf: (tickMillis: number) => unknown
}

/** A time that no tick is later than: for the length of an id. */
const LATEST_MILLIS = Number.MAX_SAFE_INTEGER

const problemOf = (model: Model, name: string, options: CronOptions<any>): readonly [string, string] | undefined => {
  const { data, missed = "latest", missedLimit = 1, priority = 0, restLimit = REST_DEFAULT } = options
  if (typeof name !== "string" || name.length === 0 || !name.isWellFormed()) {
    return ["name", "must be a string that is not empty"]
  }
  const long = elementProblem([name, LATEST_MILLIS])
  if (long !== undefined) return ["name", `cannot be part of an id: ${long}`]
  if (!["skip", "latest", "all"].includes(missed)) return ["missed", "must be \"skip\", \"latest\" or \"all\""]
  if (!Number.isInteger(missedLimit) || missedLimit < 1 || missedLimit > MISSED_LIMIT) {
    return ["missedLimit", `must be a whole number from 1 to ${MISSED_LIMIT}`]
  }
  if (millisOf(restLimit) === undefined) return ["restLimit", "must be a duration"]
  if (!isPriority(priority)) {
    return ["priority", `must be a whole number from -${PRIORITY_LIMIT} to ${PRIORITY_LIMIT}`]
  }
  return typeof data !== "function" && Result.isFailure(model.codec.encode(data))
    ? ["data", "must fit the schema of the type, or be a function"]
    : undefined
}

/** A schedule with its options checked. */
export const planOf = (model: Model, name: string, options: CronOptions<any>): Result.Result<Plan, InvalidOption> => {
  const problem = problemOf(model, name, options)
  if (problem !== undefined) {
    return Result.fail(new InvalidOption({ type: model.type, option: problem[0], problem: problem[1] }))
  }
  const { data, missed = "latest", missedLimit = MISSED_DEFAULT, priority = 0, restLimit = REST_DEFAULT } = options
  return Result.mapBoth(expressionOf(options), {
    onFailure: (problem) => new InvalidOption({ type: model.type, ...problem }),
    onSuccess: (expression) => ({
      ...expression,
      name,
      missed,
      missedLimit,
      restLimitMillis: millisOf(restLimit)!,
      priority,
      dataOf: typeof data === "function" ? data : () => data
    })
  })
}

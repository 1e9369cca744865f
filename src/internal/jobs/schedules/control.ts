/**
 * What can be asked of schedules from outside, by any process, whether it runs them or not: transaction effects on what
 * the store keeps of them.
 */
import * as Effect from "effect/Effect"
import type { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { InvalidOption, ScheduleNotFound } from "../definition/errors.ts"
import { type Model, type Place, within } from "../definition/model.ts"
import { touchedOf } from "../kept/lateWrites.ts"
import { tryLoad } from "../kept/places.ts"
import * as Row from "./row.ts"

/** So many schedules of a type are listed. */
const LIST_LIMIT = 1_000

/** So many runs can be asked for that nobody has begun: more are a sign that no process runs the schedule. */
const REQUESTS_LIMIT = 100

/**
 * A schedule as a list shows it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scheduled {
  readonly name: string
  /** The cron expression, as it was written. */
  readonly cron: string
  readonly timeZone: string
  readonly isPaused: boolean
  /** The last tick that was handled, in milliseconds since 1970; `undefined` before the first. */
  readonly lastTick: number | undefined
  /** The tick that comes next, or is overdue because no process runs the schedule; `undefined` while it is paused. */
  readonly nextTick: number | undefined
}

const shown = (name: string, row: Row.Row): Scheduled => ({
  name,
  cron: row.expression,
  timeZone: row.timeZone,
  isPaused: row.isPaused,
  lastTick: row.lastMillis,
  nextTick: row.isPaused ? undefined : row.nextMillis
})

export const list = (model: Model): Effect.Effect<ReadonlyArray<Scheduled>, InvalidOption, Transaction> =>
  within(model, ({ keys, state }) => {
    const { begin, end } = Tuple.range([], keys.schedules)
    return Effect.map(
      state.getRange(begin, end, { limit: LIST_LIMIT, snapshot: true }),
      (rows) =>
        rows.flatMap(({ key, value }) => {
          const name = keys.lastOf(key, keys.schedules)
          const row = Row.decode(value)
          return typeof name === "string" && typeof row === "object" ? [shown(name, row)] : []
        })
    )
  })

type Refused = ScheduleNotFound | InvalidOption

/** Changes a schedule, and tells the processes that run it. */
const change = <A>(
  model: Model,
  name: string,
  use: (place: Place, row: Row.Row) => Effect.Effect<A, InvalidOption>
): Effect.Effect<A, Refused, Transaction> =>
  within(model, (place): Effect.Effect<A, Refused> => {
    const notFound = Effect.suspend(() => Effect.fail(new ScheduleNotFound({ type: model.type, name: String(name) })))
    if (typeof name !== "string" || !name.isWellFormed()) return notFound
    return Effect.flatMap(Row.read(place, name), (row): Effect.Effect<A, Refused> => {
      if (typeof row !== "object") return notFound
      return Effect.tap(use(place, row), () => Effect.sync(() => touchedOf(place.state).ring(place.keys.schedulesBell)))
    })
  })

const rewrite = (
  model: Model,
  name: string,
  update: (row: Row.Row, nowMillis: number) => Row.Row
): Effect.Effect<void, Refused, Transaction> =>
  change(model, name, (place, row) => Effect.sync(() => Row.write(place, name, update(row, place.state.timeMillis))))

/** The row of a schedule that begins now. */
const anew = (row: Row.Row, nowMillis: number): Row.Row => ({
  ...row,
  handledMillis: nowMillis,
  nextMillis: undefined,
  seenMillis: nowMillis
})

export const pause = (model: Model, name: string) => rewrite(model, name, (row) => ({ ...row, isPaused: true }))

export const resume = (model: Model, name: string) =>
  rewrite(model, name, (row, now) => row.isPaused ? { ...anew(row, now), isPaused: false } : row)

export const reset = (model: Model, name: string) =>
  rewrite(model, name, (row, now) => ({ ...anew(row, now), requests: [] }))

export const remove = (model: Model, name: string): Effect.Effect<void, Refused, Transaction> =>
  change(model, name, ({ keys, state }) => Effect.sync(() => state.clear(keys.schedule(name))))

export const run = (
  model: Model,
  name: string
): Effect.Effect<readonly [name: string, millis: number], Refused, Transaction> =>
  change(model, name, (place, row) => {
    if (row.requests.length >= REQUESTS_LIMIT) {
      const problem =
        `names a schedule with ${REQUESTS_LIMIT} runs that were asked for and not begun: does a process run it?`
      return Effect.fail(new InvalidOption({ type: model.type, option: "name", problem }))
    }
    return Effect.map(freeFrom(place, name, row), (millis) => {
      Row.write(place, name, { ...row, requests: [...row.requests, millis] })
      return [name, millis] as const
    })
  })

/** A time of which there is no job, and that is no tick: now, or soon after. */
const freeFrom = Effect.fnUntraced(function*(place: Place, name: string, { nextMillis, requests }: Row.Row) {
  let millis = Math.max(place.state.timeMillis, 1 + (requests.at(-1) ?? -Infinity))
  while (millis === nextMillis || (yield* tryLoad(place, [name, millis])) !== undefined) millis++
  return millis
})

/**
 * Times that very many wait for: those of one moment share a timer, so that ten thousand idle servers cost some dozens of
 * them, and nothing of a fiber each.
 *
 * Owner: one set of alarms a clock, as long as the clock lives. A moment's fiber ends with the last one who waits for it.
 *
 * 1. Who set an alarm and did not cancel it is called once, no earlier than the moment that was asked for.
 * 2. A moment without waiters keeps no timer, so an idle process can end.
 */
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { reading } from "../data/show.ts"

interface Moment {
  readonly waiting: Set<() => void>
  readonly timer: Fiber.Fiber<void>
}

const NANOS_A_MILLI = 1_000_000n

/** Moments by the millisecond of the clock that never jumps. */
type Alarms = Map<number, Moment>

const alarmsOf = new WeakMap<Clock.Clock, Alarms>()

/** The moment in `delayMillis`, or up to `spreadMillis` earlier, where others may wait already. */
const momentOf = (nowMillis: number, delayMillis: number, spreadMillis: number): number =>
  spreadMillis <= 1
    ? nowMillis + delayMillis
    : Math.max(nowMillis, Math.floor((nowMillis + delayMillis) / spreadMillis) * spreadMillis)

const start = (
  alarms: Alarms,
  atMillis: number,
  millis: number,
  clock: Clock.Clock,
  context: Context.Context<never>
): Moment => {
  const waiting = new Set<() => void>()
  const ring = Effect.sync(() => {
    alarms.delete(atMillis)
    // nobody waits in vain because another's call throws
    for (const run of waiting) reading(run, undefined)
  })
  const timer = Effect.runForkWith(context)(Effect.andThen(clock.sleep(Duration.millis(millis)), ring))
  return { waiting, timer }
}

/** Calls back in `delayMillis`, or up to `spreadMillis` earlier together with others; what it returns cancels that. */
export const setAlarm = (
  clock: Clock.Clock,
  context: Context.Context<never>,
  delayMillis: number,
  spreadMillis: number,
  run: () => void
): () => void => {
  let alarms = alarmsOf.get(clock)
  if (alarms === undefined) alarmsOf.set(clock, alarms = new Map())
  const nowMillis = Number(clock.monotonicTimeNanosUnsafe() / NANOS_A_MILLI)
  const atMillis = momentOf(nowMillis, delayMillis, spreadMillis)
  let moment = alarms.get(atMillis)
  if (moment === undefined) {
    moment = start(alarms, atMillis, atMillis - nowMillis, clock, context)
    alarms.set(atMillis, moment)
  }
  const { timer, waiting } = moment
  waiting.add(run)
  return () => {
    if (!waiting.delete(run) || waiting.size > 0 || alarms.get(atMillis)?.waiting !== waiting) return
    alarms.delete(atMillis)
    timer.interruptUnsafe()
  }
}

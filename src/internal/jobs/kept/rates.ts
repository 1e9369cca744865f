/**
 * How many runs began lately, of a type or of a key: for limits over a window of time that hold over all processes.
 *
 * 1. The runs that began within the window are written down with their times, and are read for conflict by who begins
 *    one: no window of that length ever has more than the limit, by the clocks of those who take jobs.
 * 2. A job of a full key gets the next slot: it is due again at that time, so that no look meets it before. Jobs of the
 *    key that come later get later slots: none overtakes another one.
 * 3. What is written of a key is cleared by who takes jobs when its window is over: keys may be as many as jobs, so as much
 *    is cleared as is written, and more.
 * 4. What was written by a clock that is further ahead than a window says nothing: that clock was wrong, or this one is.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import type { Place, Rate } from "../definition/model.ts"
import type { Row } from "./row.ts"

/** So many keys whose window is over one transaction clears besides as many as it has written of. */
const CLEAR_LIMIT = 16

const EMPTY = new Uint8Array(0)

interface Log {
  /** When runs began, within the window, the oldest first. */
  readonly starts: ReadonlyArray<number>
  /** The latest slots that were given, all to come. */
  readonly slots: ReadonlyArray<number>
}

const timesOf = (value: unknown): ReadonlyArray<number> =>
  Array.isArray(value) ? value.filter((time) => Number.isSafeInteger(time)).sort((a, b) => a - b) : []

const readLog = ({ state }: Place, at: Uint8Array, { windowMillis }: Rate): Effect.Effect<Log> =>
  Effect.map(state.get(at), (bytes) => {
    const unpacked = bytes === undefined ? undefined : Result.getOrUndefined(unpackValue(bytes))
    const [starts, slots, writtenAt] = Array.isArray(unpacked) ? unpacked : []
    const now = state.timeMillis
    return {
      starts: timesOf(starts).filter((time) => time > now - windowMillis && time <= now + windowMillis),
      slots: writtenAt > now + windowMillis ? [] : timesOf(slots).filter((time) => time > now)
    }
  })

/** When the first of so many starts leaves the window, of which one more would be too many. */
const freeAt = (times: ReadonlyArray<number>, { limit, windowMillis }: Rate): number =>
  times[times.length - limit]! + windowMillis

/** How many runs of the type may begin now, and when the next one may if that is none. */
export interface Allowed {
  readonly jobs: number
  readonly nextAt: number
}

export const allowed = (place: Place, rate: Rate): Effect.Effect<Allowed> =>
  Effect.map(readLog(place, place.keys.rate, rate), ({ starts }) => {
    const jobs = Math.max(0, rate.limit - starts.length)
    return { jobs, nextAt: jobs > 0 ? Infinity : freeAt(starts, rate) }
  })

/** So many runs of the type begin in this transaction, for which `allowed` had room. */
export const began = (place: Place, rate: Rate, jobs: number): Effect.Effect<void> =>
  Effect.map(readLog(place, place.keys.rate, rate), ({ starts }) => {
    const now = place.state.timeMillis
    place.state.set(place.keys.rate, packValue([[...starts, ...Array.from({ length: jobs }, () => now)], [], now]))
  })

/** A run of a key begins now, or its job gets the slot that is given (2). */
export const beginOfKey = (
  place: Place,
  rate: Rate,
  key: Tuple.Element,
  { hasSlot }: Row
): Effect.Effect<number | undefined> => {
  const at = place.keys.rateOf(key)
  return Effect.map(readLog(place, at, rate), ({ slots, starts }) => {
    const now = place.state.timeMillis
    const isFree = starts.length < rate.limit
    if (isFree && (hasSlot || slots.length === 0)) {
      writeLog(place, rate, key, at, { starts: [...starts, now], slots })
      return undefined
    }
    // who had a slot and came late to it, or whose run was handed back, is first of those who wait
    const taken = hasSlot ? starts : [...starts, ...slots].sort((a, b) => a - b)
    const slot = Math.max(now + 1, taken.length < rate.limit ? slots.at(-1) ?? 0 : freeAt(taken, rate))
    if (!hasSlot) writeLog(place, rate, key, at, { starts, slots: [...slots, slot].slice(-rate.limit) })
    return slot
  })
}

const writeLog = ({ keys, state }: Place, rate: Rate, key: Tuple.Element, at: Uint8Array, log: Log): void => {
  state.set(at, packValue([log.starts, log.slots, state.timeMillis]))
  const last = Math.max(...log.starts, ...log.slots)
  state.set(keys.rateEnd(last + rate.windowMillis, key), EMPTY)
}

/** Clears what is written of keys whose window is over, by who has written of so many (3). */
export const clearEnded = Effect.fnUntraced(function*(place: Place, rate: Rate, written: number) {
  const { keys, state } = place
  const { begin } = Tuple.range([], keys.rateEnds)
  const end = Tuple.pack([state.timeMillis], keys.rateEnds)
  const ended = yield* state.getRange(begin, end, { limit: CLEAR_LIMIT + written, snapshot: true })
  const logs = ended.flatMap((entry) => {
    state.clear(entry.key)
    const key = keys.lastOf(entry.key, keys.rateEnds)
    return key === undefined ? [] : [keys.rateOf(key)]
  })
  yield* state.prefetch(() => logs)
  for (const at of logs) {
    const { slots, starts } = yield* readLog(place, at, rate)
    if (slots.length + starts.length === 0) state.clear(at)
  }
})

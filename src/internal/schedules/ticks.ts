/**
 * The times at which something recurs. Everything that walks a schedule walks it by its `next` alone, so whoever asks
 * for the next tick, for the latest one, or for all in between gets one answer.
 *
 * Ticks of a period are counted from its first time, and do not drift. Ticks of a cron expression are found on the wall
 * clock of its zone:
 *
 * 1. An expression whose hours go on (a star, a stepped star, all hours) has a tick whenever the wall shows a time that
 *    it names: in a repeated hour twice, in a skipped one never.
 * 2. An expression with hours of its own has one tick for each wall time that it names. One that the wall shows twice is
 *    the first of the two, unless `onOverlap` says otherwise; those that the wall skips are one tick, at the moment when
 *    the clock is put forward, unless `onGap` says otherwise.
 */
import * as Effect from "effect/Effect"
import { type Fields, firstFrom } from "./calendar.ts"
import { DAY_MILLIS, firstChange, type Zone } from "./zone.ts"

export interface Ticks {
  /** The first tick after a time, in milliseconds since 1970; `undefined` when none ever comes. */
  readonly next: (afterMillis: number) => number | undefined
}

/** A tick each so many milliseconds, from a first one on: that and all later ones are ticks. */
export const every = (firstMillis: number, periodMillis: number): Ticks => ({
  next: (afterMillis) =>
    firstMillis + Math.max(0, Math.floor((afterMillis - firstMillis) / periodMillis) + 1) * periodMillis
})

/** What happens to the wall times of an expression with hours of its own where the clock is changed. */
export interface Changes {
  readonly onOverlap: "earlier" | "later" | "both"
  readonly onGap: "run" | "skip"
}

/** So much of the calendar is walked at once: changes of a zone lie further apart than this. */
const STEP_MILLIS = DAY_MILLIS

/** Where the search goes on after a tick that is none because its wall time is shown twice, or `undefined` if it is one. */
const afterRepeated = (
  zone: Zone,
  onOverlap: Changes["onOverlap"],
  tick: number,
  offset: number
): number | undefined => {
  if (onOverlap === "both") return undefined
  const other = onOverlap === "earlier" ? zone(tick - STEP_MILLIS) : zone(tick + STEP_MILLIS)
  const shift = Math.abs(other - offset)
  const isEarlier = onOverlap === "earlier"
  // only a clock that is put back shows a time twice
  if (isEarlier ? other <= offset : other >= offset) return undefined
  const twin = isEarlier ? tick - shift : tick + shift
  if (zone(twin) !== other) return undefined
  const changedAt = firstChange(zone, Math.min(twin, tick), Math.max(twin, tick))!
  return isEarlier ? changedAt + shift : changedAt
}

/** The ticks of an expression; `changes` only if it has hours of its own. */
export const onCalendar = (fields: Fields, zone: Zone, changes: Changes | undefined): Ticks => ({
  next: (afterMillis) => {
    // the first moment that can be a tick, and a moment from which on the offset is known, one before it at first: the
    // first moment can be that of a change
    let from = Math.floor(afterMillis / 1_000) * 1_000 + 1_000
    let since = from - 1_000
    for (;;) {
      const offset = zone(since)
      const wall = firstFrom(fields, from + offset)
      if (wall === undefined) return undefined
      const tick = wall - offset
      const until = since + STEP_MILLIS
      const changedAt = firstChange(zone, since, until)
      if (tick < (changedAt ?? until)) {
        const goOn = changes === undefined ? undefined : afterRepeated(zone, changes.onOverlap, tick, offset)
        if (goOn === undefined) return tick
        from = goOn
        since = goOn
      } else if (changedAt !== undefined) {
        // the wall goes on somewhere else: what it skips ends there
        if (changes?.onGap === "run" && wall < changedAt + zone(changedAt)) return changedAt
        from = changedAt
        since = changedAt
      } else {
        // nothing before the tick can be one, whatever becomes of the offset: no change moves the wall by two days
        from = Math.max(until, tick - 2 * STEP_MILLIS)
        since = from
      }
    }
  }
})

/** Nothing is looked for further back: the widest gap between two ticks is that of 29 February on a day of the week. */
const BACK_LIMIT_MILLIS = 41 * 366 * DAY_MILLIS

/**
 * The latest tick up to a time, itself included; `undefined` if there is none. It is found fastest when it lies about
 * `guessMillis` back.
 */
export const latestTick = ({ next }: Ticks, upToMillis: number, guessMillis = 1_000): number | undefined => {
  const isPast = (tick: number | undefined): tick is number => tick !== undefined && tick <= upToMillis
  let back = guessMillis
  while (!isPast(next(upToMillis - back))) {
    if (back > BACK_LIMIT_MILLIS) return undefined
    back *= 2
  }
  let tick = next(upToMillis - back)!
  let late = upToMillis
  while (isPast(next(tick))) {
    const middle = Math.floor((tick + late) / 2)
    const later = next(middle)
    if (isPast(later)) tick = later
    else late = middle
  }
  return tick
}

/** The ticks after a time up to another, at most so many of them, the first ones. */
export const ticksBetween = (
  { next }: Ticks,
  afterMillis: number,
  upToMillis: number,
  limit: number
): ReadonlyArray<number> => {
  const ticks: Array<number> = []
  let tick = next(afterMillis)
  while (tick !== undefined && tick <= upToMillis && ticks.length < limit) {
    ticks.push(tick)
    tick = next(tick)
  }
  return ticks
}

/** So many steps are taken at once: others get their turn between them. */
const STEPS_AT_ONCE = 200

/**
 * From where on there are at most so many ticks up to a time: `afterMillis`, or the last tick before the latest ones.
 */
export const startOfLatest = Effect.fnUntraced(function*(
  ticks: Ticks,
  afterMillis: number,
  upToMillis: number,
  limit: number
) {
  let reached = afterMillis
  for (let i = 0; i <= limit; i++) {
    if (i % STEPS_AT_ONCE === STEPS_AT_ONCE - 1) yield* Effect.yieldNow
    const next = ticks.next(reached)
    if (next === undefined || next > upToMillis) return afterMillis
    reached = next
  }
  let tick = latestTick(ticks, upToMillis)!
  let gap = 1_000
  for (let i = 0; i < limit; i++) {
    if (i % STEPS_AT_ONCE === STEPS_AT_ONCE - 1) yield* Effect.yieldNow
    const before = latestTick(ticks, tick - 1, gap)!
    gap = tick - before
    tick = before
  }
  return tick
})

/** Clocks that differ by so much are usual: nobody's is called wrong for it. */
export const CLOCK_DIFFERENCE_MILLIS = 60_000

/**
 * Whether a next tick that was stored lies further ahead than the schedule can reach from now: it was stored by a clock
 * that was wrong, or this one is.
 */
export const isBeyondReach = ({ next }: Ticks, storedMillis: number, nowMillis: number): boolean => {
  const furthest = next(nowMillis + CLOCK_DIFFERENCE_MILLIS)
  return furthest === undefined || storedMillis > furthest
}

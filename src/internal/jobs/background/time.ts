/**
 * The two times of a process. How long something takes, a lease or a time limit, is measured by the time that passes,
 * which nobody can set. When something is due is said by the clock, which can be set, and which goes on while the machine
 * sleeps though no timer does.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Who waits for a time looks at the clock at least so often: what is due is late by so much at the most. */
const CLOCK_LOOK_MILLIS = 60_000

/**
 * The time that has passed, in whole milliseconds since some moment of this process: as fine as a timer, so that who sleeps
 * for what is left of a time finds that some of it has passed.
 */
export const passedMillis: Effect.Effect<number> = Effect.map(
  Clock.monotonicTimeNanos,
  (nanos) => Number(nanos / 1_000_000n)
)

/** Ends when the clock shows a time, or is found to have been set back: then what is waited for may be wrong. */
export const clockShows = (atMillis: number): Effect.Effect<void> => clockShowsAfter(atMillis, -Infinity)

const clockShowsAfter = (atMillis: number, beforeMillis: number): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    now >= atMillis || now < beforeMillis
      ? Effect.void
      : Effect.flatMap(
        Effect.sleep(Math.min(CLOCK_LOOK_MILLIS, atMillis - now)),
        () => clockShowsAfter(atMillis, now)
      ))

/**
 * What a server runs outside of transactions: actions, locked handlers, the handler of dead letters. Each runs in a fiber
 * of its own, so that whatever a program does there, its server goes on, and its handle ends in bounded time.
 *
 * Owner: who asks for a run waits for it. A run that was left behind is nobody's.
 *
 * 1. A run goes on until it ends, until the handle has ended and its grace is over, until its time limit, or until
 *    `until` says that nobody needs it any more.
 * 2. Then it is interrupted, and has `INTERRUPT_LIMIT_MILLIS` for its finalizers; one that nobody needs is not waited for
 *    at all. After that it is left behind, and nothing that it comes to counts.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { runningIn, RunsIn, type Within } from "../sending/within.ts"
import type { Server } from "./server.ts"

/** An interrupted run has so long for its finalizers before it is left behind. */
export const INTERRUPT_LIMIT_MILLIS = 1_000

const live = Context.get(Context.empty(), Clock.Clock)

/**
 * Whether an effect ends within a time, by the clock or by the process's own: an end must come although a test's clock
 * stands still.
 */
export const endsWithin = (effect: Effect.Effect<unknown>, millis: number): Effect.Effect<boolean> =>
  Effect.clockWith((clock) => {
    const duration = Duration.millis(millis)
    const clocks = clock === live ? [clock] : [clock, live]
    return Effect.raceAllFirst([Effect.as(effect, true), ...clocks.map((one) => Effect.as(one.sleep(duration), false))])
  })

/** Why a run had to end. */
export type Cut = "expired" | "limit" | "unneeded"

/** What became of a run. */
export interface Ran<A, E> {
  /** Absent when it was left behind. */
  readonly exit: Exit.Exit<A, E> | undefined
  readonly cut: Cut | undefined
}

export interface Bounds {
  /** Whether the queue waits for the run, besides where the consumer itself runs it. */
  readonly holdsQueue?: boolean
  readonly limitMillis?: number
  /** Ends when nobody needs the run any more. */
  readonly until?: Effect.Effect<void>
  /** Goes on beside the run, for as long as it takes. */
  readonly beside?: Effect.Effect<never>
}

/** Runs an effect of a user's (1, 2). */
export const runOutside = Effect.fnUntraced(function*<A, E>(
  server: Server,
  run: Effect.Effect<A, E>,
  { beside, holdsQueue = false, limitMillis = Infinity, until }: Bounds
): Effect.fn.Return<Ran<A, E>> {
  const around = yield* RunsIn
  const within: Within = { place: server, holdsQueue: holdsQueue || around?.holdsQueue === true, isOver: false }
  const fiber = yield* Effect.forkDetach(runningIn(within, run), { startImmediately: true })
  const exit = fiber.pollUnsafe()
  if (exit !== undefined) {
    within.isOver = true
    return { exit, cut: undefined }
  }
  const ends: Array<Effect.Effect<Cut | undefined>> = [
    Effect.as(Fiber.await(fiber), undefined),
    Effect.as(Deferred.await(server.expired), "expired")
  ]
  if (limitMillis < Infinity) ends.push(Effect.as(Effect.sleep(limitMillis), "limit"))
  if (until !== undefined) ends.push(Effect.as(until, "unneeded"))
  if (beside !== undefined) ends.push(beside)
  const cut = yield* Effect.raceAllFirst(ends)
  if (cut !== undefined) {
    fiber.interruptUnsafe()
    if (cut !== "unneeded") yield* endsWithin(Fiber.await(fiber), INTERRUPT_LIMIT_MILLIS)
  }
  within.isOver = true
  return { exit: fiber.pollUnsafe(), cut }
})

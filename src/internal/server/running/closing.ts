/**
 * The end of a handle, in bounded time whatever its handlers do.
 *
 * Owner: who asks for the end waits for it. The fiber of the grace period ends with it, or when nothing runs any more.
 *
 * 1. From the beginning of the end no message is taken, and no call of the handle waits. A transaction in flight is
 *    finished, with its actions (rule R25).
 * 2. Actions, locked handlers and the handler of dead letters that run have `grace` to end, counted once, for all of them
 *    and all who ask. Then `expired` is done: they are interrupted, and what was locked is put back.
 * 3. What has not come to an end `LEAVE_LIMIT_MILLIS` after that is left behind. It is more than an interruption takes and
 *    more than the time limit of a transaction, so only a store that does not answer comes to that.
 * 4. What the server itself runs does not wait for its end.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { TRANSACTION_LIMIT_MILLIS } from "../../../Backend.ts"
import { logWarning } from "../../observing/logging.ts"
import { endsWithin, INTERRUPT_LIMIT_MILLIS } from "../handling/outside.ts"
import { type Server, stop } from "../handling/server.ts"
import { runsWithin } from "../sending/within.ts"

/** An interruption, and a transaction after it. */
const LEAVE_LIMIT_MILLIS = INTERRUPT_LIMIT_MILLIS + TRANSACTION_LIMIT_MILLIS

/** Ends a handle, and waits until nothing of it runs any more (3, 4). */
export const close = (server: Server, reason: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    stop(server, reason)
    return Effect.andThen(
      beginGrace(server),
      Effect.flatMap(runsWithin(server), (isOwn) => isOwn ? Effect.void : settled(server))
    )
  })

const beginGrace = (server: Server): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (server.isClosing) return Effect.void
    server.isClosing = true
    const grace = endsWithin(server.inFlight.idle, server.options.graceMillis)
    return Effect.asVoid(Effect.forkDetach(
      Effect.flatMap(grace, (isIdle) => isIdle ? Effect.void : Deferred.succeed(server.expired, undefined)),
      { startImmediately: true }
    ))
  })

const settled = (server: Server): Effect.Effect<void> =>
  Effect.andThen(
    Effect.raceFirst(server.inFlight.idle, Deferred.await(server.expired)),
    Effect.flatMap(
      endsWithin(server.inFlight.idle, LEAVE_LIMIT_MILLIS),
      (isIdle) =>
        isIdle
          ? Effect.void
          : logWarning(`${server.name}: a transaction had not ended when the server stopped, and goes on`)
    )
  )

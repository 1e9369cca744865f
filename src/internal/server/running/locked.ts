/**
 * The locked section: what runs between the commit that took the lock and the one that gives it back, outside of any
 * transaction.
 *
 * Owner: the fiber that committed the lock. The handler runs in a fiber of its own (`handling/outside.ts`).
 *
 * 1. State, answer, and the end of the lock commit together, and only while the head still has the lock's token: a lock
 *    that was broken meanwhile fences off its holder (rule R18). Who broke it has put the message back (rule R19); the
 *    holder's handler is interrupted, and nobody waits for it.
 * 2. The message is kept under the token until it is done, whether it came through the queue or is a call that ran inline.
 *    A scope that closes puts it back with no attempt counted. A message that came past the queue is not kept: its sender
 *    is told.
 * 3. What others changed while the lock was held is not lost: the handler's changes are laid over it entry by entry, and
 *    where both changed one entry the handler runs again on the fresh state, the lock renewed, at most
 *    `RERUNS_LIMIT` times; then it counts as fenced (rule R20).
 * 4. A handler that dies ends the lock. With a `deadLetterThreshold` its message is put back in the same commit, with one
 *    attempt more, or becomes a dead letter; without one it is not run again, and its caller is told. One that met a full
 *    queue is put back with no attempt counted.
 * 5. A state that cannot be read is the fault of no message: the lock ends as if the scope had closed, and the handle
 *    stops (rule R16).
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import { equalsBytes } from "../../../Tuple.ts"
import { logWarning } from "../../observing/logging.ts"
import { traced, under } from "../../observing/tracing.ts"
import { begun, withId } from "../../queue/envelope.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { awaitWatch, watchKey } from "../../transactions/watching.ts"
import type { LockedOutcome } from "../definition/model.ts"
import { passing } from "../durable/asking.ts"
import { runActions } from "../handling/actions.ts"
import { guarded } from "../handling/frozen.ts"
import { fullIn } from "../handling/full.ts"
import { contextOf, type Incoming } from "../handling/handlers.ts"
import { record } from "../handling/metrics.ts"
import { runOutside } from "../handling/outside.ts"
import { HeldLogs } from "../handling/purity.ts"
import { gone, type Server, stopUnreadable, type Unreadable } from "../handling/server.ts"
import type { Lock } from "../kept/head.ts"
import * as Heads from "../kept/head.ts"
import { giveWork } from "../kept/indexes.ts"
import { identityOf } from "../kept/layout.ts"
import { afterDeath } from "../mending/failures.ts"
import { keep } from "../mending/requeue.ts"
import { type Acquired, type Ended, finish, LOOK_AGAIN_MILLIS, RERUNS_LIMIT } from "./unlocking.ts"

export type { Acquired } from "./unlocking.ts"

/** Makes a lock in the transaction that runs; `queued` is the message to keep, with its failed attempts (2). */
export const acquire = (
  server: Server,
  state: TransactionState,
  input: Incoming,
  queued: { readonly message: Uint8Array; readonly attempts: number } | undefined
): Lock => {
  const token = state.operationId.slice(0, 20)
  if (queued !== undefined) keep(state, server.keys, token, begun(withId(queued.message, input.id)))
  const { kind, tag } = input.message
  // its entry stays while it is locked: whoever takes the server over sees the lock, and breaks it in time
  if (server.definition.hosted) giveWork(state, server.keys.place)
  return { token, millis: state.timeMillis, tag, kind, attempts: queued?.attempts }
}

/** Runs the locked handler of a lock, and gives the lock back. */
export const runLocked = (server: Server, acquired: Acquired): Effect.Effect<Ended, BackendError | Unreadable> =>
  traced(sectionOf(server, acquired), "DgenServer.locked", () => ({
    ...under(acquired.span),
    attributes: { ...identityOf(server), tag: acquired.input.message.tag, message: acquired.input.id }
  }))

const sectionOf = Effect.fnUntraced(function*(server: Server, acquired: Acquired) {
  let { state, version } = acquired
  for (let reruns = 0;; reruns++) {
    const exit = yield* runHandler(server, acquired, state)
    const finished = yield* finish(server, acquired, {
      exit,
      state,
      version,
      isLast: reruns >= RERUNS_LIMIT,
      held: { logs: HeldLogs.none }
    })
    if (finished._tag === "Again") {
      state = finished.state
      version = finished.version
      continue
    }
    const { died, ended, handled, unreadable } = finished
    if (unreadable !== undefined) yield* stopUnreadable(server, unreadable)
    if (ended._tag === "Killed") gone(server)
    if (ended._tag === "Fenced") yield* logFenced(server, acquired, ended.requeued)
    if (ended._tag === "Crashed" && fullIn(ended.cause) === undefined) {
      record(server, server.metrics.outcome("crash"), 1)
    }
    if (died !== undefined) yield* afterDeath(server, died)
    if (handled !== undefined) {
      record(server, server.metrics.outcome(handled.crashed === undefined ? handled.outcome : "crash"), 1)
    }
    if (handled !== undefined) {
      const requests = passing(server.definition, handled.actions)
      yield* runActions(server, [{ id: acquired.input.id, span: undefined, requests }], handled.state)
    }
    return ended
  }
})

const logFenced = (server: Server, acquired: Acquired, requeued: boolean) =>
  logWarning(
    `${server.name}: the lock of "${acquired.input.message.tag}" was broken, the handler's outcome is not written ` +
      (requeued ? "and its message has been put back" : "and its caller is told")
  )

/**
 * Runs the handler: to its end, to the end of the grace period, or until its lock is broken. What had to end has been
 * interrupted, as far as anybody will know.
 */
const runHandler = (
  server: Server,
  acquired: Acquired,
  state: unknown
): Effect.Effect<Exit.Exit<LockedOutcome, unknown>> => {
  const { input, lock } = acquired
  const handler = server.effects.locked.get(input.message.tag)!
  const handling = Effect.suspend(() => {
    const result = handler(input.payload, state, { ...contextOf(server, input), kind: lock.kind })
    return (Effect.isEffect(result) ? result : Effect.succeed(result)) as Effect.Effect<LockedOutcome, unknown>
  })
  const run = guarded(server, `the locked handler of "${input.message.tag}"`, state, handling)
  const bounds = { holdsQueue: true, until: untilBroken(server, lock) }
  return Effect.map(runOutside(server, run, bounds), ({ cut, exit }) => {
    const isOwn = exit !== undefined && !(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    if (isOwn) return exit
    return cut === undefined ? Exit.die(new Error("the locked handler interrupted itself")) : Exit.interrupt()
  })
}

/** Ends when a lock is held no more. */
const untilBroken = (server: Server, { token }: Lock): Effect.Effect<void> => {
  const look = transact(
    server.tenant,
    Effect.flatMap(Transaction, (state) =>
      Effect.map(state.get(server.keys.head), (bytes) => {
        const head = bytes === undefined ? undefined : Result.getOrUndefined(Heads.decode(bytes))
        const isHeld = head?.lock !== undefined && equalsBytes(head.lock.token, token)
        return isHeld ? watchKey(state, server.keys.head) : undefined
      }))
  )
  const wait = Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      look,
      (watch) =>
        watch === undefined
          ? Effect.succeed(true)
          : Effect.as(Effect.ensuring(restore(awaitWatch(server.tenant, watch)), Effect.sync(watch.cancel)), false)
    )
  )
  return Effect.asVoid(Effect.repeat(
    Effect.catch(wait, () => Effect.as(Effect.sleep(LOOK_AGAIN_MILLIS), false)),
    { until: (isBroken) => isBroken }
  ))
}

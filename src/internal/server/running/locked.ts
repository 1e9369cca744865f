/**
 * The locked section: what runs between the commit that took the lock and the
 * one that gives it back, outside of any transaction.
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
 *    attempt more, or becomes a dead letter; without one it is not run again, and its caller is told.
 * 5. A state that cannot be read is the fault of no message: the lock ends as if the scope had closed, and the handle
 *    stops (rule R16).
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Tracer from "effect/Tracer"
import type { BackendError } from "../../../BackendError.ts"
import type { StateError } from "../../../StateCodec.ts"
import { Transaction } from "../../../Transaction.ts"
import { equalsBytes } from "../../../Tuple.ts"
import { show } from "../../data/show.ts"
import { textOfCause } from "../../data/thrown.ts"
import { begun, withId } from "../../queue/envelope.ts"
import { logError, logWarning } from "../../transactions/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { traced, under } from "../../transactions/tracing.ts"
import { awaitWatch, signalKey, watchKey } from "../../transactions/watching.ts"
import type { LockedOutcome, Message, Settled } from "../definition/model.ts"
import { runActions } from "../handling/actions.ts"
import {
  answerOf,
  contextOf,
  Crash,
  type Handled,
  handledOf,
  type Incoming,
  nothing,
  problemOfLocked,
  settle
} from "../handling/handlers.ts"
import { record } from "../handling/metrics.ts"
import { runOutside } from "../handling/outside.ts"
import { type Held, HeldLogs, holdLogs, PureRunner } from "../handling/purity.ts"
import {
  gone,
  type HeadChange,
  type Loaded,
  loadState,
  save,
  type Server,
  stop,
  stopUnreadable,
  Unreadable
} from "../handling/server.ts"
import type { Head, Lock } from "../kept/head.ts"
import * as Heads from "../kept/head.ts"
import { giveWork } from "../kept/indexes.ts"
import { identityOf } from "../kept/layout.ts"
import { headOf, writeHead } from "../kept/state.ts"
import { afterDeath, isOfMessage } from "../mending/failures.ts"
import { type Died, forget, keep, requeue } from "../mending/requeue.ts"
import * as Answers from "../sending/answerCodec.ts"
import { answerCaller } from "../sending/answering.ts"
import { runsFor } from "../sending/messages.ts"

/** How often a handler runs again for one lock, when others keep changing what it changes. */
const RERUNS_LIMIT = 5

/** A lock that this process has just acquired. */
export interface Acquired {
  readonly lock: Lock
  readonly input: Incoming
  /** The span that its handler ran in. */
  readonly span: Tracer.AnySpan | undefined
  /** The state that the commit left, and its version. */
  readonly state: unknown
  readonly version: string
}

/** How a locked section ended. */
export type Ended =
  /** The message was handled; `crashed` says how its locked handler died, if it did. */
  | { readonly _tag: "Answered"; readonly answer: Uint8Array | undefined; readonly crashed: string | undefined }
  /** Its message is put back, or a dead letter; `requeued` is false where it came past the queue. */
  | { readonly _tag: "Fenced"; readonly requeued: boolean }
  /** The locked handler died, and its message is put back, or a dead letter (4). */
  | { readonly _tag: "Crashed"; readonly cause: Cause.Cause<unknown> }
  /** The handle ended; a message that is kept is put back. */
  | { readonly _tag: "Interrupted" }
  | { readonly _tag: "Killed" }

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

/** What the transaction after a run of the handler came to. */
type Finished =
  | { readonly _tag: "Again"; readonly state: unknown; readonly version: string }
  | {
    readonly _tag: "Done"
    readonly ended: Ended
    readonly handled?: Handled
    readonly died?: Died | undefined
    /** Why the state could not be read. */
    readonly unreadable?: Unreadable
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
    if (ended._tag === "Crashed") record(server, server.metrics.outcome("crash"), 1)
    if (died !== undefined) yield* afterDeath(server, died)
    if (handled !== undefined) {
      record(server, server.metrics.outcome(handled.crashed === undefined ? handled.outcome : "crash"), 1)
    }
    if (handled !== undefined && handled.actions.length > 0) {
      const { id } = acquired.input
      yield* runActions(server, [{ id, span: undefined, requests: handled.actions }], handled.state)
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
  const run = Effect.suspend(() => {
    const result = handler(input.payload, state, { ...contextOf(server, input), kind: lock.kind })
    return (Effect.isEffect(result) ? result : Effect.succeed(result)) as Effect.Effect<LockedOutcome, unknown>
  })
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

interface Run {
  readonly exit: Exit.Exit<LockedOutcome, unknown>
  /** What the handler was given. */
  readonly state: unknown
  readonly version: string
  readonly isLast: boolean
  readonly held: Held
}

/** The transaction after a run; one that cannot be written ends the lock as a crash (4). */
const finish = (server: Server, acquired: Acquired, run: Run): Effect.Effect<Finished, BackendError | Unreadable> => {
  // a store that is away holds up the end, and does not take it away: nobody else can end a lock without a time limit
  const attempt = (exit: Run["exit"]) =>
    Effect.retry(transact(server.tenant, finishBody(server, acquired, { ...run, exit })), {
      while: (error) => error._tag === "BackendError" && isAway(error) && !Deferred.isDoneUnsafe(server.expired),
      schedule: Schedule.spaced(LOOK_AGAIN_MILLIS)
    })
  const crashed = (cause: Cause.Cause<unknown>) =>
    Effect.andThen(
      logError(
        `${server.name}: the locked handler of "${acquired.input.message.tag}" crashed, ` +
          fateOf(server, acquired.lock),
        cause
      ),
      Effect.catchIf(
        attempt(Exit.failCause(cause)),
        (error) => error._tag === "Crash" || error._tag === "StateError",
        (error) => Effect.die(error)
      )
    )
  if (Exit.isFailure(run.exit)) {
    const crash = crashOf(acquired.input.message, run.exit.cause)
    if (crash !== undefined) return crashed(crash)
  }
  return Effect.catchDefect(
    Effect.catch(attempt(run.exit), (error) => {
      if (error._tag === "Crash") {
        error.logs.release()
        return crashed(error.cause)
      }
      if (error._tag === "Unreadable") return Effect.fail(error)
      if (error._tag !== "StateError" && !isTooMuch(error)) return Effect.fail(error)
      run.held.logs.release()
      return crashed(Cause.die(error))
    }),
    (defect) => crashed(Cause.die(defect))
  )
}

/** Between two tries to end a lock on a store that cannot take it. */
const LOOK_AGAIN_MILLIS = 500

/** Whether what the handler came to is more than the store takes. */
const isTooMuch = (error: BackendError): boolean => isOfMessage(error) || error.reason._tag === "TransactionTooOld"

/** Whether a transaction surely wrote nothing, and the store may take it later: when it answers, or has room again. */
const isAway = (error: BackendError): boolean =>
  !error.isMaybeCommitted && !isTooMuch(error) && error.reason._tag !== "Closed"

/** What a handler died of; it died of nothing when it failed with its call's error, or had to end. */
const crashOf = (message: Message, cause: Cause.Cause<unknown>): Cause.Cause<unknown> | undefined => {
  if (Cause.hasFails(cause)) return message.kind === "call" ? undefined : Cause.die(Cause.squash(cause))
  return Cause.hasInterruptsOnly(cause) ? undefined : cause
}

/** Whether the message of a handler that died is tried again, at least as far as its threshold (4). */
const isTriedAgain = ({ options }: Server, { attempts }: Lock): boolean =>
  attempts !== undefined && options.deadLetterThreshold < Infinity

/** What becomes of the message of a handler that died, in words. */
const fateOf = (server: Server, lock: Lock): string => {
  if (lock.attempts === undefined) return "its message came past the queue and is lost"
  if (!isTriedAgain(server, lock)) return "its message is lost: without a deadLetterThreshold it is not tried again"
  return lock.attempts + 1 < server.options.deadLetterThreshold ? "its message is queued again" : "its message dies"
}

const finishBody = Effect.fnUntraced(function*(
  server: Server,
  acquired: Acquired,
  run: Run
): Effect.fn.Return<Finished, Crash | StateError | Unreadable, Transaction> {
  const state = yield* Transaction
  const { keys } = server
  const bytes = yield* state.get(keys.head)
  if (bytes === undefined) return { _tag: "Done", ended: { _tag: "Killed" } }
  const head = yield* Effect.mapError(headOf(bytes), (error) => new Unreadable(error))
  const { token } = acquired.lock
  if (head.lock === undefined || !equalsBytes(head.lock.token, token)) {
    return { _tag: "Done", ended: { _tag: "Fenced", requeued: acquired.lock.attempts !== undefined } }
  }
  if (Exit.isFailure(run.exit) && !Cause.hasFails(run.exit.cause)) {
    const { cause } = run.exit
    if (Cause.hasInterruptsOnly(cause)) return yield* letGo(server, state, acquired, head)
    if (isTriedAgain(server, acquired.lock)) return yield* tryAgain(server, state, acquired, head, cause)
  }
  const found = yield* Effect.result(loadState(server, head))
  if (Result.isFailure(found)) {
    const released = yield* letGo(server, state, acquired, head)
    return { ...released, unreadable: new Unreadable(found.failure) }
  }
  const loaded = found.success
  const handled = yield* outcomeOf(server, state, acquired, run, loaded)
  if (handled === undefined) {
    if (run.isLast) return yield* giveUp(server, state, acquired, loaded)
    yield* save(server, state, loaded, loaded.state, { lock: { ...head.lock, millis: state.timeMillis } })
    return { _tag: "Again", state: loaded.state, version: loaded.head.version }
  }
  yield* unlock(server, state, loaded, handled.state)
  forget(state, keys, token)
  return { _tag: "Done", ended: yield* answer(server, state, acquired, handled), handled }
})

/** Ends a lock whose message has to be handled anew, and not by its own fault: no attempt is counted. */
const letGo = (server: Server, state: TransactionState, { lock }: Acquired, head: Head) =>
  Effect.map(
    free(server, state, head, lock, lock.attempts, ""),
    (died) => ({ _tag: "Done", ended: { _tag: "Interrupted" }, died } as const)
  )

/** Ends the lock of a handler that died: the state stays what it is, the message has one attempt more (4). */
const tryAgain = (
  server: Server,
  state: TransactionState,
  { lock }: Acquired,
  head: Head,
  cause: Cause.Cause<unknown>
) =>
  Effect.map(
    free(server, state, head, lock, lock.attempts! + 1, textOfCause(cause), server.options.deadLetterThreshold),
    (died) => ({ _tag: "Done", ended: { _tag: "Crashed", cause }, died } as const)
  )

/** Writes the head without the lock, and puts its message back. */
const free = (
  server: Server,
  state: TransactionState,
  head: Head,
  { token }: Lock,
  attempts: number | undefined,
  cause: string,
  threshold = Infinity
): Effect.Effect<Died | undefined> => {
  signalKey(server.tenant, state, server.keys.head)
  server.keys.ring(state)
  writeHead(state, server.keys, { ...head, lock: undefined })
  return attempts === undefined
    ? Effect.undefined
    : requeue(state, server.keys, token, { attempts, threshold, cause })
}

/** Writes the state, and the head without the lock; wakes those of this process who wait. */
const unlock = (server: Server, state: TransactionState, loaded: Loaded, value: unknown, change: HeadChange = {}) => {
  signalKey(server.tenant, state, server.keys.head)
  server.keys.ring(state)
  return save(server, state, loaded, value, { lock: undefined, ...change })
}

/** What the handling of the message comes to on the fresh state; `undefined` when the handler must run again (3). */
const outcomeOf = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  { input }: Acquired,
  run: Run,
  loaded: Loaded
): Effect.fn.Return<Handled | undefined, Crash | StateError, Transaction> {
  if (Exit.isFailure(run.exit)) {
    const failure = run.exit.cause.reasons.find((reason) => reason._tag === "Fail")
    return failure === undefined
      ? { ...nothing(loaded.state), crashed: textOfCause(run.exit.cause) }
      : { ...nothing(loaded.state), answer: Exit.fail(failure.error) }
  }
  const outcome = run.exit.value
  const logs = run.held.logs = yield* holdLogs
  const problem = problemOfLocked(server, input.message, outcome)
  if (problem !== undefined) {
    return yield* Effect.fail(new Crash([input.message.tag], Cause.die(new TypeError(problem)), logs, undefined))
  }
  if (outcome._tag === "Update") {
    const runner = yield* PureRunner.make(server, state, logs)
    runsFor(state, server.definition, server.tuid)
    state.onCommit.push(() => logs.release())
    const callback = Effect.suspend(() => {
      const result = outcome.apply(loaded.state)
      return (Effect.isEffect(result) ? result : Effect.succeed(result)) as Effect.Effect<
        Settled,
        unknown,
        Transaction
      >
    })
    return yield* settle(server, runner, logs, input, loaded.state, undefined, callback)
  }
  const handled = handledOf(outcome)
  if (run.version === loaded.head.version) return handled
  const merged = yield* server.codec.merge(run.state, handled.state, loaded.state)
  return Option.isNone(merged) ? undefined : { ...handled, state: merged.value }
})

/** Answers the call behind the lock, if there is one. */
const answer = Effect.fnUntraced(
  function*(server: Server, state: TransactionState, acquired: Acquired, handled: Handled): Effect.fn.Return<Ended> {
    const { input } = acquired
    const bytes = handled.crashed === undefined ? answerOf(input.message, handled) : Answers.crashed(handled.crashed)
    if (handled.stopped) state.onCommit.unshift(() => stop(server, show(handled.stop)))
    if (input.caller !== undefined && bytes !== undefined) {
      yield* answerCaller(server.keys, state, input.caller, bytes)
    }
    return { _tag: "Answered", answer: bytes, crashed: handled.crashed }
  }
)

/** The handler ran as often as it may: it counts as fenced (3). */
const giveUp = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  { lock }: Acquired,
  loaded: Loaded
): Effect.fn.Return<Finished, StateError, Transaction> {
  yield* unlock(server, state, loaded, loaded.state)
  const ended = { _tag: "Fenced", requeued: lock.attempts !== undefined } as const
  if (lock.attempts === undefined) return { _tag: "Done", ended }
  const { deadLetterThreshold } = server.options
  return {
    _tag: "Done",
    ended,
    died: yield* requeue(state, server.keys, lock.token, {
      attempts: lock.attempts + 1,
      threshold: deadLetterThreshold,
      cause: `others changed what its locked handler changes, ${RERUNS_LIMIT + 1} times in a row`
    })
  }
})

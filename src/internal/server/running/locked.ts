/**
 * The locked section: what runs between the commit that took the lock and the
 * one that gives it back, outside of any transaction.
 *
 * Owner: the fiber that committed the lock, in the server's scope. Only the locked handler itself can be interrupted.
 *
 * 1. State, answer, and the end of the lock commit together, and only while the head still has the lock's token: a lock
 *    that was broken meanwhile fences off its holder (rule R18).
 * 2. The message is kept under the token until it is handled. Whoever finds its lock broken puts it back with one more
 *    attempt; a scope that closes puts it back with no attempt counted (rule R19). A message that came past the queue is
 *    not kept: its caller is told.
 * 3. What others changed while the lock was held is not lost: the handler's changes are laid over it entry by entry, and
 *    where both changed one entry the handler runs again on the fresh state, the lock renewed, at most
 *    `RUNS_LIMIT` times; then it counts as fenced (rule R20).
 * 4. A handler that dies ends the lock and is not run again.
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
import type { BackendError } from "../../../BackendError.ts"
import type { StateError } from "../../../StateCodec.ts"
import { Transaction } from "../../../Transaction.ts"
import { equalsBytes } from "../../../Tuple.ts"
import { show } from "../../data/show.ts"
import { withId } from "../../queue/envelope.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { traced } from "../../transactions/tracing.ts"
import { signalKey } from "../../transactions/watching.ts"
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
import { type Held, HeldLogs, holdLogs, PureRunner } from "../handling/purity.ts"
import {
  gone,
  type HeadChange,
  isEnded,
  type Loaded,
  loadState,
  save,
  type Server,
  stop,
  stopUnreadable,
  Unreadable
} from "../handling/server.ts"
import type { Head, Lock } from "../kept/head.ts"
import { giveWork } from "../kept/indexes.ts"
import { headOf, writeHead } from "../kept/state.ts"
import { afterDeath, isOfMessage } from "../mending/failures.ts"
import { type Died, forget, keep, requeue } from "../mending/requeue.ts"
import * as Answers from "../sending/answerCodec.ts"
import { answerCaller } from "../sending/answering.ts"
import { runsFor } from "../sending/messages.ts"

/** How often a handler runs for one lock, when others keep changing what it changes. */
const RUNS_LIMIT = 5

/** A lock that this process has just acquired. */
export interface Acquired {
  readonly lock: Lock
  readonly input: Incoming
  /** The state that the commit left, and its version. */
  readonly state: unknown
  readonly version: string
}

/** How a locked section ended. */
export type Ended =
  /** The message was handled; `crashed` says how its locked handler died, if it did. */
  | { readonly _tag: "Answered"; readonly answer: Uint8Array | undefined; readonly crashed: string | undefined }
  | { readonly _tag: "Fenced"; readonly requeued: boolean }
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
  if (queued !== undefined) keep(state, server.keys, token, withId(queued.message, input.id))
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
    attributes: { server: server.definition.name, tag: acquired.input.message.tag }
  }))

const sectionOf = Effect.fnUntraced(function*(server: Server, acquired: Acquired) {
  let { state, version } = acquired
  for (let runs = 1;; runs++) {
    const exit = yield* Effect.exit(Effect.interruptible(runHandler(server, acquired, state)))
    const finished = yield* finish(server, acquired, {
      exit,
      state,
      version,
      isLast: runs >= RUNS_LIMIT,
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
    if (died !== undefined) yield* afterDeath(server, died)
    if (handled !== undefined) {
      record(server, server.metrics.outcome(handled.crashed === undefined ? handled.outcome : "crash"), 1)
    }
    if (handled !== undefined && handled.actions.length > 0) {
      yield* runActions(server, [handled.actions], handled.state)
    }
    return ended
  }
})

const logFenced = (server: Server, acquired: Acquired, requeued: boolean) =>
  Effect.logWarning(
    `${server.definition.name}: the lock of "${acquired.input.message.tag}" was broken, its outcome is not written ` +
      (requeued ? "and its message is queued again" : "and its caller is told")
  )

/** Runs the handler; the end of the handle interrupts it. */
const runHandler = (
  server: Server,
  { input, lock }: Acquired,
  state: unknown
): Effect.Effect<LockedOutcome, unknown> => {
  const handler = server.effects.locked.get(input.message.tag)!
  const run = Effect.suspend(() => {
    const result = handler(input.payload, state, { ...contextOf(server, input), kind: lock.kind })
    return (Effect.isEffect(result) ? result : Effect.succeed(result)) as Effect.Effect<LockedOutcome, unknown>
  })
  return Effect.raceFirst(run, Effect.andThen(Deferred.await(server.ended), Effect.interrupt))
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
      while: (error) => error._tag === "BackendError" && isAway(error) && !isEnded(server),
      schedule: Schedule.spaced(LOOK_AGAIN_MILLIS)
    })
  const crashed = (cause: Cause.Cause<unknown>) =>
    Effect.andThen(
      Effect.logError(
        `${server.definition.name}: the locked handler of "${acquired.input.message.tag}" crashed`,
        cause
      ),
      Effect.catchIf(
        attempt(Exit.failCause(cause)),
        (error) => error._tag === "Crash" || error._tag === "StateError",
        (error) => Effect.die(error)
      )
    )
  if (Exit.isFailure(run.exit)) {
    const crash = crashOf(server, acquired.input.message, run.exit.cause)
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

/** What a handler died of; it died of nothing when it failed with its call's error, or when the end of the handle ended it. */
const crashOf = (
  server: Server,
  message: Message,
  cause: Cause.Cause<unknown>
): Cause.Cause<unknown> | undefined => {
  if (Cause.hasFails(cause)) return message.kind === "call" ? undefined : Cause.die(Cause.squash(cause))
  if (!Cause.hasInterruptsOnly(cause)) return cause
  return isEnded(server) ? undefined : Cause.die(new Error("the locked handler interrupted itself"))
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
    return yield* fenced(server, state, acquired, head)
  }
  if (Exit.isFailure(run.exit) && Cause.hasInterruptsOnly(run.exit.cause)) {
    return yield* letGo(server, state, acquired, head)
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
const letGo = (server: Server, state: TransactionState, { lock }: Acquired, head: Head) => {
  signalKey(server.tenant, state, server.keys.head)
  server.keys.ring(state)
  writeHead(state, server.keys, { ...head, lock: undefined })
  const { attempts, token } = lock
  return Effect.map(
    attempts === undefined ? Effect.undefined : requeue(state, server.keys, token, attempts, Infinity),
    (died) => ({ _tag: "Done", ended: { _tag: "Interrupted" }, died } as const)
  )
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
      ? { ...nothing(loaded.state), crashed: Cause.pretty(run.exit.cause) }
      : { ...nothing(loaded.state), answer: Exit.fail(failure.error) }
  }
  const outcome = run.exit.value
  const logs = run.held.logs = yield* holdLogs
  const problem = problemOfLocked(server, input.message, outcome)
  if (problem !== undefined) {
    return yield* Effect.fail(new Crash(input.message.tag, Cause.die(new TypeError(problem)), logs, undefined))
  }
  if (outcome._tag === "Update") {
    const runner = yield* PureRunner.make(server.definition.name, state, logs)
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

/** The lock was broken: the message is put back by whoever comes first (2). */
const fenced = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  { lock }: Acquired,
  head: Head
): Effect.fn.Return<Finished, never, Transaction> {
  const ended = { _tag: "Fenced", requeued: lock.attempts !== undefined } as const
  const kept = head.fenced.find((entry) => equalsBytes(entry.token, lock.token))
  if (kept === undefined) return { _tag: "Done", ended }
  return { _tag: "Done", ended, died: yield* requeueFenced(server, state, head, kept) }
})

/** Puts the message of a broken lock back with one more attempt, or among the dead letters. */
export const requeueFenced = (
  server: Server,
  state: TransactionState,
  head: Head,
  kept: Head["fenced"][number]
): Effect.Effect<Died | undefined> => {
  writeHead(state, server.keys, { ...head, fenced: head.fenced.filter((entry) => entry !== kept) })
  return requeue(state, server.keys, kept.token, kept.attempts + 1, server.options.deadLetterThreshold)
}

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
    died: yield* requeue(state, server.keys, lock.token, lock.attempts + 1, deadLetterThreshold)
  }
})

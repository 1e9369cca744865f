/**
 * The transaction after a run of a locked handler: it ends the lock, or gives it more time for another run. The numbers
 * are those of locked.ts.
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
import { logError, logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import type { LockedOutcome, Message, Settled } from "../definition/model.ts"
import { keep, prepare } from "../durable/asking.ts"
import { fullIn, pauses } from "../handling/full.ts"
import {
  answerOf,
  Crash,
  type Handled,
  handledOf,
  type Incoming,
  nothing,
  problemOfLocked,
  settle
} from "../handling/handlers.ts"
import { type Held, holdLogs, PureRunner } from "../handling/purity.ts"
import {
  gone,
  type HeadChange,
  type Loaded,
  loadState,
  save,
  type Server,
  stop,
  Unreadable
} from "../handling/server.ts"
import type { Head, Lock } from "../kept/head.ts"
import { headOf, writeHead } from "../kept/state.ts"
import { conclude } from "../keys/meeting.ts"
import { end } from "../mending/ending.ts"
import { isOfMessage } from "../mending/failures.ts"
import { type Died, forget, requeue } from "../mending/requeue.ts"
import * as Answers from "../sending/answerCodec.ts"
import { answerCaller, leaveOpen } from "../sending/answering.ts"
import { runsFor } from "../sending/messages.ts"

/** How often a handler runs again for one lock, when others keep changing what it changes. */
export const RERUNS_LIMIT = 5

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

/** What the transaction after a run of the handler came to. */
export type Finished =
  | { readonly _tag: "Again"; readonly state: unknown; readonly version: string }
  | {
    readonly _tag: "Done"
    readonly ended: Ended
    readonly handled?: Handled
    readonly died?: Died | undefined
    /** Why the state could not be read. */
    readonly unreadable?: Unreadable
  }

/** A run of a locked handler. */
export interface Run {
  readonly exit: Exit.Exit<LockedOutcome, unknown>
  /** What the handler was given. */
  readonly state: unknown
  readonly version: string
  readonly isLast: boolean
  readonly held: Held
}

/** The transaction after a run; one that cannot be written ends the lock as a crash (4). */
export const finish = (
  server: Server,
  acquired: Acquired,
  run: Run
): Effect.Effect<Finished, BackendError | Unreadable> => {
  // a store that is away holds up the end, and does not take it away: nobody else can end a lock without a time limit
  const attempt = (exit: Run["exit"]) =>
    Effect.retry(transact(server.tenant, finishBody(server, acquired, { ...run, exit })), {
      while: (error) => error._tag === "BackendError" && isAway(error) && !Deferred.isDoneUnsafe(server.expired),
      schedule: Schedule.spaced(LOOK_AGAIN_MILLIS)
    })
  const crashed = (cause: Cause.Cause<unknown>) =>
    Effect.andThen(
      logCrash(server, acquired, cause),
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

const logCrash = (server: Server, { input, lock }: Acquired, cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const what = `${server.name}: the locked handler of "${input.message.tag}"`
  const full = lock.attempts === undefined ? undefined : fullIn(cause)
  return full === undefined
    ? logError(`${what} crashed, ${fateOf(server, lock)}`, cause)
    : logWarning(`${what} waits for room, and its message is queued again: ${full.message}`)
}

/** Between two tries on a store that does not answer, or has no room. */
export const LOOK_AGAIN_MILLIS = 500

/** Whether what the handler came to is more than the store takes. */
const isTooMuch = (error: BackendError): boolean => isOfMessage(error) || error.reason._tag === "TransactionTooOld"

/** Whether a transaction surely wrote nothing, and the store may take it later: when it answers, or has room again. */
const isAway = (error: BackendError): boolean =>
  !error.isMaybeCommitted && !isTooMuch(error) && error.reason._tag !== "Closed"

/** What a handler died of; it died of nothing when it failed with its call's error, or had to end. */
const crashOf = (message: Message, cause: Cause.Cause<unknown>): Cause.Cause<unknown> | undefined => {
  if (pauses(message, cause)) return Cause.die(Cause.squash(cause))
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
    if (acquired.lock.attempts !== undefined && fullIn(cause) !== undefined) {
      return yield* waitForRoom(server, state, acquired, head, cause)
    }
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
  const { tag } = acquired.input.message
  const durable = yield* prepare(server, handled, { tag, logs: run.held.logs, index: undefined })
  const keyed = conclude(server, state, acquired.input, handled, answerOf(acquired.input.message, handled))
  if (handled.isGone === true) {
    keys.ring(state)
    // keys that are still open then go with the server
    yield* keyed
    yield* end(server, state, { ...loaded.head, lock: undefined }, handled.state)
    if (!server.isHosted) state.onCommit.unshift(() => gone(server))
  } else {
    const written = yield* Effect.result(unlock(server, state, loaded, handled.state))
    if (Result.isFailure(written)) {
      if (!(written.failure instanceof Unreadable)) return yield* Effect.fail(written.failure)
      return { ...yield* letGo(server, state, acquired, head), unreadable: written.failure }
    }
    yield* keyed
  }
  yield* keep(server, state, durable)
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

/** Ends the lock of a handler that met a full queue: no attempt is counted. */
const waitForRoom = (
  server: Server,
  state: TransactionState,
  { lock }: Acquired,
  head: Head,
  cause: Cause.Cause<unknown>
) =>
  Effect.map(
    free(server, state, head, lock, lock.attempts, ""),
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
  const handled = handledOf(outcome, loaded.state)
  if (handled.isGone === true) return handled
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
    if (input.caller !== undefined) {
      yield* bytes === undefined
        ? leaveOpen(state, server.keys, input.caller)
        : answerCaller(server.keys, state, input.caller, bytes)
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
): Effect.fn.Return<Finished, StateError | Unreadable, Transaction> {
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

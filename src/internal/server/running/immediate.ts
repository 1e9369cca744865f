/**
 * Messages that run at once, in a transaction of their own: inline calls (rule R11), and priority and info messages.
 *
 * Owner: a fiber each, which the server's scope waits for; the caller only awaits, so that its timeout or interruption loses no
 * action and leaves no lock behind. Inline calls hold the server's permit from their reads until later transactions read
 * their writes.
 *
 * 1. An inline call runs only while the queue is empty and the lock is free. Its look at the queue is by snapshot: a
 *    message that is pushed meanwhile is ordered after it.
 * 2. An inline call that conflicts, or crashes, is queued: it is never answered and queued. A crash is its first attempt;
 *    one whose handler met a full queue has none behind it.
 * 3. A priority message that crashes is lost, and its sender is told so. One that asks for the lock while it is held
 *    writes nothing (rule R21).
 * 4. A call whose handler answers later, or asks for the lock, waits as if it had been queued: anybody may answer it. The
 *    lock keeps the message of an inline call, and whoever finds it put back handles it anew (`locked.ts`).
 * 5. Inline calls that wait for one another may share a transaction (`together.ts`); what follows is each one's own.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import type { StateError } from "../../../StateCodec.ts"
import { Transaction } from "../../../Transaction.ts"
import { isA, show } from "../../data/show.ts"
import { messageOfThrown, textOfCause } from "../../data/thrown.ts"
import { logError } from "../../observing/logging.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { ImpureTransaction } from "../../transactions/strictMode.ts"
import {
  DefinitionMismatch,
  HandlerCrashed,
  Locked,
  LockFenced,
  ServerKilled,
  ServerStopped
} from "../definition/errors.ts"
import { keep, passing, prepare } from "../durable/asking.ts"
import { runActions } from "../handling/actions.ts"
import { answerOf, Crash, handle, type Incoming } from "../handling/handlers.ts"
import { record, retried } from "../handling/metrics.ts"
import { type Held, HeldLogs, holdLogs, PureRunner } from "../handling/purity.ts"
import {
  endError,
  gone,
  isEnded,
  loadState,
  newborn,
  otherOwner,
  save,
  type Server,
  stop,
  stopUnreadable,
  Unreadable
} from "../handling/server.ts"
import { identityOf, textOfTuid } from "../kept/layout.ts"
import { headOf } from "../kept/state.ts"
import { conclude, keyedChange, meet, type Met, rowsOf } from "../keys/meeting.ts"
import { end } from "../mending/ending.ts"
import { afterDeath, buryDirect, isOfMessage } from "../mending/failures.ts"
import * as Answers from "../sending/answerCodec.ts"
import { inlineAnswer, markWaiting, openInline } from "../sending/answering.ts"
import { exists, forget } from "../sending/client.ts"
import { runsFor, sentNow } from "../sending/messages.ts"
import { type Direct, type Progress, type Ran, TO_QUEUE } from "./direct.ts"
import { acquire, type Acquired, runLocked } from "./locked.ts"
import { enter, leave, together } from "./together.ts"

type Failure = BackendError | ServerKilled | ServerStopped | HandlerCrashed | Locked | LockFenced

const TRIED: Progress = { _tag: "Queue", attempts: 0, isTried: true }

const body = Effect.fnUntraced(function*(
  server: Server,
  direct: Direct,
  inline: boolean,
  held: Held
): Effect.fn.Return<Ran | Progress | undefined, Crash | Unreadable | ServerKilled | Locked, Transaction> {
  const state = yield* Transaction
  const logs = held.logs = yield* holdLogs
  const [bytes, waiting] = yield* Effect.all([
    state.get(server.keys.head),
    inline ? Queue.peek(state, server.keys, 1) : Effect.succeed([]),
    direct.key === undefined ? Effect.void : state.prefetch(() => rowsOf(server, [{ key: direct.key }]))
  ], { concurrency: "unbounded" })
  if (bytes === undefined && !server.isHosted) return yield* new ServerKilled(identityOf(server))
  const id = Buffer.from(state.operationId.subarray(0, 20)).toString("hex")
  const { key } = direct
  if (waiting.length > 0) return undefined
  const { tag } = direct.message
  const wrong = (error: StateError | Unreadable) =>
    error instanceof Unreadable ? error : new Crash([tag], Cause.die(error), logs, undefined)
  const unreadable = (error: StateError) => new Unreadable(error)
  const head = bytes === undefined ? undefined : yield* Effect.mapError(headOf(bytes), unreadable)
  const owner = head && (yield* otherOwner(server, state, head))
  if (owner !== undefined) return yield* misdirected(server, direct, owner, logs)
  const runner = yield* PureRunner.make(server, state, logs)
  const loaded = head === undefined
    ? yield* newborn(server, runner)
    : yield* Effect.mapError(loadState(server, head), unreadable)
  const isLocked = loaded.head.lock !== undefined
  if (inline && isLocked) return undefined
  if (key !== undefined) {
    const met = yield* meet(server, state, { ...direct, key }, id, direct.data)
    if (met._tag !== "Fresh") return progressOf(server, met)
  }
  runsFor(state, server.definition, server.tuid)
  openInline(state, direct.caller)
  const input: Incoming = { ...direct, id }
  const handled = yield* handle(server, runner, logs, input, loaded.state, undefined)
  if ((handled.locks || handled.isGone) && isLocked) return yield* new Locked({ ...identityOf(server), tag })
  const durable = yield* prepare(server, handled, { tag, logs, index: undefined })
  const kept = handled.locks && inline ? { message: yield* envelopeOf(direct, state), attempts: 0 } : undefined
  const lock = handled.locks ? acquire(server, state, input, kept) : undefined
  const answer = answerOf(input.message, handled) ?? inlineAnswer(state)
  yield* conclude(server, state, input, handled, answer)
  const isWaiting = answer === undefined && input.caller !== undefined
  const isNeeded = lock !== undefined || isWaiting
  const keyed = keyedChange(server, loaded.head, key !== undefined)
  const change = lock === undefined ? keyed : { lock, ...keyed }
  const saved = handled.isGone === true
    ? yield* end(server, state, loaded.head, handled.state)
    : yield* Effect.mapError(save(server, state, loaded, handled.state, change, isNeeded), wrong)
  yield* keep(server, state, durable)
  state.onCommit.push(() => {
    logs.release()
    record(server, server.metrics.outcome(handled.outcome), 1)
  })
  // before the answer: who has it finds the handle stopped
  if (handled.stopped) state.onCommit.push(() => stop(server, show(handled.stop)))
  if (handled.isGone === true && !server.isHosted) state.onCommit.push(() => gone(server))
  if (isWaiting && handled.isGone !== true) markWaiting(state, server.keys, input.caller, lock === undefined)
  return {
    handled: { ...handled, state: saved.state },
    progress: isWaiting ? { _tag: "Waits" } : { _tag: "Handled", answer },
    id: input.id,
    acquired: lock && { lock, input, span: handled.span, ...saved },
    caller: input.caller
  }
})

/** What becomes of a message whose tuid belongs to another definition: a call is answered, of another one its sender hears. */
const misdirected = (
  { definition, tuid }: Server,
  { message }: Direct,
  owner: string,
  logs: HeldLogs
): Effect.Effect<Progress, Crash> => {
  const text = textOfTuid(tuid)
  if (message.kind === "call") return Effect.succeed({ _tag: "Handled", answer: Answers.mismatched(owner, text) })
  const error = new DefinitionMismatch({ server: definition.name, stored: owner, tuid: text })
  return Effect.fail(new Crash([message.tag], Cause.fail(error), logs, undefined))
}

/** What becomes of a call that is not handled, for its key. */
const progressOf = ({ definition }: Server, met: Exclude<Met, { readonly _tag: "Fresh" }>): Progress => {
  if (met._tag === "TooMany") return { _tag: "Handled", answer: Answers.tooManyKeys(definition.maxKeys) }
  return Answers.isWaits(met.answer) ? { _tag: "Keyed" } : { _tag: "Handled", answer: met.answer }
}

/** The message of an inline call, as if it had been queued. */
const envelopeOf = ({ caller, data, key, message }: Direct, state: TransactionState): Effect.Effect<Uint8Array> =>
  Effect.map(
    sentNow,
    ({ trace }) =>
      Envelopes.encode({ tag: message.tag, payload: data, caller, trace, millis: Math.floor(state.timeMillis), key })
  )

/** What comes after the commit: the answer, the actions, the lock. */
const after = (
  server: Server,
  ran: Ran,
  progress: (progress: Progress) => void
): Effect.Effect<void, Failure> => {
  const { acquired, handled } = ran
  // a call that locks hears how its lock ends, if it was not answered before
  if (acquired === undefined || ran.progress._tag === "Handled" && ran.caller !== undefined) progress(ran.progress)
  const requests = passing(server.definition, handled.actions)
  const rest = acquired !== undefined
    ? locked(server, acquired, progress)
    : requests.length === 0
    ? Effect.void
    : runActions(server, [{ id: ran.id, span: handled.span, requests }], handled.state)
  return ran.progress._tag === "Waits" ? Effect.andThen(forgetIfGone(server, ran.caller), rest) : rest
}

/** Takes away the key of a call that ended before the commit that says that it waits. */
const forgetIfGone = (server: Server, caller: Envelopes.Caller | undefined): Effect.Effect<void> =>
  caller === undefined || server.tenant.calls.has(caller.instance, caller.id)
    ? Effect.void
    : Effect.ignore(forget(server.tenant, server.keys, caller))

/** Runs the locked handler; its end is the message's. */
const locked = (
  server: Server,
  acquired: Acquired,
  progress: (progress: Progress) => void
): Effect.Effect<void, Failure> =>
  Effect.flatMap(
    Effect.catchTag(runLocked(server, acquired), "Unreadable", (error) => failed(server, error)),
    (ended): Effect.Effect<void, Failure> => {
      const { message } = acquired.input
      const named = { ...identityOf(server), tag: message.tag }
      switch (ended._tag) {
        case "Answered":
          if (ended.crashed !== undefined && message.kind !== "call") {
            return Effect.fail(new HandlerCrashed({ ...named, cause: ended.crashed }))
          }
          progress(
            ended.answer === undefined && message.kind === "call"
              ? { _tag: "Waits" }
              : { _tag: "Handled", answer: ended.answer }
          )
          return Effect.void
        case "Crashed":
          progress({ _tag: "Waits" })
          return Effect.void
        case "Fenced":
          if (!ended.requeued) return Effect.fail(new LockFenced({ ...named, requeued: false }))
          progress({ _tag: "Waits" })
          return Effect.void
        case "Killed":
          return Effect.fail(new ServerKilled(named))
        case "Interrupted":
          return Effect.fail(new ServerStopped({ ...named, reason: "the server stopped while the locked handler ran" }))
      }
    }
  )

/** A failure that is not the message's own; one of the server ends the handle. */
const failed = (
  server: Server,
  error: BackendError | Unreadable | ServerKilled | Locked
): Effect.Effect<never, Failure> => {
  if (error._tag === "ServerKilled") gone(server)
  if (error._tag !== "Unreadable") return Effect.fail(error)
  return Effect.andThen(
    stopUnreadable(server, error),
    new ServerStopped({ ...identityOf(server), reason: messageOfThrown(error.error) })
  )
}

/** The failure of what came too late. */
const ended = (server: Server): Effect.Effect<never, Failure> =>
  Effect.flatMap(Deferred.await(server.ended), (end) => Effect.fail(endError(server, end)))

/** What the store refuses of a message is its crash. */
const crashOf = (direct: Direct, held: Held) => (error: BackendError | Crash | Unreadable | ServerKilled | Locked) =>
  error._tag === "BackendError" && isOfMessage(error)
    ? new Crash([direct.message.tag], Cause.die(error), held.logs, undefined)
    : error

/** A transaction whose failure, or death, is its message's crash where the message did that; strict mode tells its caller. */
const orCrash = <A>(
  run: Effect.Effect<A, BackendError | Crash | Unreadable | ServerKilled | Locked>,
  direct: Direct,
  held: Held
) =>
  Effect.catchDefect(
    Effect.mapError(run, crashOf(direct, held)),
    (defect) =>
      isA(defect, ImpureTransaction)
        ? Effect.die(defect)
        : Effect.fail(new Crash([direct.message.tag], Cause.die(defect), held.logs, undefined))
  )

/** What a call conflicted with may have been the end of the server: then there is no queue to go to. */
const unlessKilled = (server: Server): Effect.Effect<Progress, Failure> =>
  Effect.flatMap(
    // the next message of a hosted server begins its life
    server.isHosted ? Effect.succeed(true) : Effect.orElseSucceed(exists(server), () => true),
    (still): Effect.Effect<Progress, Failure> =>
      still ? Effect.succeed(TRIED) : failed(server, new ServerKilled(identityOf(server)))
  )

/** Runs a call inline, or says that it has to be queued (2). */
export const runInline = (
  server: Server,
  direct: Direct,
  progress: (progress: Progress) => void
): Effect.Effect<void, Failure> =>
  Effect.withFiber((fiber) => {
    const waiting = enter(server, direct, fiber.context)
    let permitted = true
    const release = () => {
      if (!permitted) return
      permitted = false
      leave(server, waiting)
      Effect.runSync(server.inline.release(1))
    }
    const held: Held = { logs: HeldLogs.none }
    const run = transact(server.tenant, body(server, direct, true, held), {
      tries: 1,
      // the end of the handle comes with the commit: who waits behind it must not overtake it
      accepted: (ran) => ran !== undefined && "handled" in ran && ran.handled.stopped ? undefined : release()
    })
    const attempt = Effect.matchEffect(orCrash(run, direct, held), {
      onSuccess: (ran) => Effect.succeed(ran ?? TO_QUEUE),
      onFailure: (error): Effect.Effect<Progress | Crash, Failure> => {
        if (error._tag === "Crash") return Effect.succeed(error)
        if (error._tag !== "BackendError" || !error.isRetryable) return failed(server, error)
        retried(server, error)
        return unlessKilled(server)
      }
    })
    // the call before it may have ended the handle: nothing is handled after that
    const alone = Effect.suspend((): typeof attempt => {
      waiting.isAlone = true
      return isEnded(server) ? ended(server) : attempt
    })
    const settled = Effect.suspend((): typeof attempt => {
      if (waiting.failure !== undefined) return failed(server, waiting.failure)
      return waiting.ran === undefined ? alone : Effect.succeed(waiting.ran)
    })
    const inTurn = Effect.andThen(together(server, waiting), settled)
    return Effect.flatMap(
      Effect.andThen(server.inline.take(1), Effect.ensuring(inTurn, Effect.sync(release))),
      (ran) => {
        if ("handled" in ran) return after(server, ran, progress)
        return ran._tag === "Crash" ? crashedInline(server, direct, ran, progress) : Effect.sync(() => progress(ran))
      }
    )
  })

/** The crash was the first attempt (2): the message is queued, or dies at a threshold of one. */
const crashedInline = (
  server: Server,
  direct: Direct,
  error: Crash,
  progress: (progress: Progress) => void
): Effect.Effect<void, BackendError> => {
  error.logs.release()
  // it waits in its place of the queue until there is room where its handler sends to
  if (error.full !== undefined) return Effect.sync(() => progress(TRIED))
  record(server, server.metrics.outcome("crash"), 1)
  const told = (what: string) => logError(`${server.name}: ${error.what} inline crashed, ${what}`, error.cause)
  if (server.options.deadLetterThreshold > 1) {
    return Effect.andThen(
      told("it is queued"),
      Effect.sync(() => progress({ _tag: "Queue", attempts: 1, isTried: true }))
    )
  }
  const { caller, data, key, message, trace } = direct
  const buried = Effect.flatMap(Clock.currentTimeMillis, (millis) =>
    buryDirect(server, {
      message: Envelopes.encode({
        tag: message.tag,
        payload: data,
        caller,
        trace,
        millis,
        server: server.definition.name,
        key
      }),
      attempts: 1,
      cause: textOfCause(error.cause)
    }))
  return Effect.flatMap(Effect.andThen(told("it dies"), buried), (died) => {
    progress({ _tag: "Handled", answer: Answers.deadLettered(died.attempts, died.cause) })
    return afterDeath(server, died)
  })
}

/** Runs a priority or info message. */
export const runPriority = (
  server: Server,
  direct: Direct,
  progress: (progress: Progress) => void
): Effect.Effect<void, Failure> => {
  const held: Held = { logs: HeldLogs.none }
  const run = transact(server.tenant, body(server, direct, false, held), { retried: (error) => retried(server, error) })
  return Effect.flatMap(
    Effect.catch(
      orCrash(run, direct, held),
      (error): Effect.Effect<never, Failure> =>
        error._tag === "Crash" ? crashedPriority(server, direct, error) : failed(server, error)
    ),
    (ran) => {
      if (ran === undefined) return Effect.void
      return "handled" in ran ? after(server, ran, progress) : Effect.sync(() => progress(ran))
    }
  )
}

const crashedPriority = (server: Server, direct: Direct, crash: Crash): Effect.Effect<never, HandlerCrashed> => {
  crash.logs.release()
  record(server, server.metrics.outcome("crash"), 1)
  return Effect.andThen(
    logError(`${server.name}: ${crash.what} crashed, it is lost`, crash.cause),
    new HandlerCrashed({ ...identityOf(server), tag: direct.message.tag, cause: textOfCause(crash.cause) })
  )
}

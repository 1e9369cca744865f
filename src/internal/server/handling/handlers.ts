/**
 * Runs handlers within a transaction: one message after another, each on the state that the one before left.
 *
 * 1. A call that fails with its declared error is answered with it, and leaves the state as it was and nothing that its
 *    handler wrote or sent.
 * 2. A defect, a failure that nobody declared, and whatever cannot be run at all, is a crash of that message: the
 *    transaction writes nothing.
 * 3. Answers and actions leave only with the commit.
 * 4. A handler that does not catch the `QueueFull` of a cast waits for room: that is a crash which nobody is charged for.
 */
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Tracer from "effect/Tracer"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { checkerOf, codecOf } from "../../data/codec.ts"
import { reading, show } from "../../data/show.ts"
import { messageOfThrown } from "../../data/thrown.ts"
import type { Trace } from "../../data/trace.ts"
import { traced } from "../../observing/tracing.ts"
import type { Caller, Envelope } from "../../queue/envelope.ts"
import { INSTANCE_BYTES } from "../../tenant/limits.ts"
import type { QueueFull } from "../definition/errors.ts"
import type {
  ActionRequest,
  Answer,
  From,
  HandlerContext,
  LockedOutcome,
  Message,
  Outcome,
  Settled
} from "../definition/model.ts"
import { isGone } from "../definition/outcome.ts"
import { identityOf } from "../kept/layout.ts"
import * as Answers from "../sending/answerCodec.ts"
import { guarded } from "./frozen.ts"
import { fullIn, pauses } from "./full.ts"
import { record } from "./metrics.ts"
import type { HeldLogs, PureRunner } from "./purity.ts"
import type { Server } from "./server.ts"

/** A message whose handling must not commit (2). */
export class Crash {
  readonly _tag = "Crash"
  /** The names of the messages that it was about: several, when only the state that they came to cannot be kept. */
  readonly tags: ReadonlyArray<string>
  readonly cause: Cause.Cause<unknown>
  readonly logs: HeldLogs
  /** The message's place in its batch, when it is known which one it was. */
  readonly index: number | undefined
  /** The full queue that its handler waits for (4). */
  readonly full: QueueFull | undefined
  constructor(tags: ReadonlyArray<string>, cause: Cause.Cause<unknown>, logs: HeldLogs, index: number | undefined) {
    this.tags = tags
    this.cause = cause
    this.logs = logs
    this.index = index
    this.full = fullIn(cause)
  }

  /** What crashed, for people to read. */
  get what(): string {
    return `handling ${namesOf(this.tags)}`
  }
}

/** A line of the log names so many messages. */
const NAMES_LIMIT = 5

const namesOf = (tags: ReadonlyArray<string>): string => {
  if (tags.length === 0) return "a message that cannot be read"
  const some = tags.slice(0, NAMES_LIMIT).map((tag) => `"${tag}"`).join(", ")
  return tags.length > NAMES_LIMIT ? `${some} and ${tags.length - NAMES_LIMIT} more` : some
}

/** What handling a message came to. */
export interface Handled {
  readonly state: unknown
  readonly answer: Answer | undefined
  readonly actions: ReadonlyArray<ActionRequest>
  readonly stop: unknown
  readonly stopped: boolean
  /** Whether the message asks for the lock. */
  readonly locks: boolean
  /** Whether the server ends with it; then `state` is the last one before. */
  readonly isGone?: boolean
  /** What the outcome is called in metrics. */
  readonly outcome: "reply" | "noReply" | "error" | "stop" | "lock"
  /** The span of its handler's run, where there is a tracer: what it asks for belongs under it. */
  readonly span?: Tracer.AnySpan | undefined
  /** What the caller of a locked handler that died is told. */
  readonly crashed?: string
}

/** A message ready to be handled. */
export interface Incoming {
  readonly message: Message
  readonly payload: unknown
  readonly caller: Caller | undefined
  readonly attempt: number
  readonly id: string
  readonly trace: Trace | undefined
  readonly timer: { readonly id: string; readonly due: number } | undefined
  readonly key: string | undefined
}

/** The caller of a call whose message names none. */
const NOBODY: Caller = { instance: new Uint8Array(INSTANCE_BYTES), id: 0, millis: 0 }

/** What a handler sees of a caller: calls have one, and nothing else has. */
const fromOf = (
  server: string,
  tuid: Tuple.Tuple,
  { kind, tag }: Message,
  { id, instance, millis }: Caller,
  keyed: Pick<From, "key" | "message"> | undefined
): From | undefined => kind === "call" ? { server, tag, tuid, process: instance, id, millis, ...keyed } : undefined

/** What a handler gets besides payload and state. */
export const contextOf = (server: Server, input: Incoming): HandlerContext => ({
  from: fromOf(
    server.definition.name,
    server.tuid,
    input.message,
    input.caller ?? NOBODY,
    input.key === undefined ? undefined : { key: input.key, message: input.id }
  ),
  attempt: input.attempt,
  id: input.id,
  tuid: server.tuid,
  timer: input.timer && { id: input.timer.id, due: DateTime.makeUnsafe(input.timer.due) }
})

/** Why a message cannot be handled. */
export interface Unread {
  /** `undefined` where not even its name can be read. */
  readonly tag: string | undefined
  readonly problem: string
  /** Whether another version may be able to. */
  readonly isForeign: boolean
}

/** The message of an envelope, or why there is none. */
export const incoming = (
  server: Server,
  envelope: Envelope,
  attempt: number,
  id: string
): Result.Result<Incoming, Unread> => {
  const { tag } = envelope
  const message = server.definition.messages.get(envelope.tag)
  if (message === undefined || !server.behaviour.handlers.has(envelope.tag)) {
    return Result.fail({ tag, problem: `${server.definition.name} has no handler for "${tag}"`, isForeign: true })
  }
  if (message.payload === undefined) {
    return Result.succeed({
      message,
      payload: undefined,
      caller: envelope.caller,
      attempt,
      id,
      trace: envelope.trace,
      timer: envelope.timer,
      key: envelope.key
    })
  }
  const decoded = codecOf(message.payload).decode(envelope.payload)
  if (Result.isFailure(decoded)) {
    const { field, problem, threw } = decoded.failure
    const where = field === "" ? "" : ` at "${field}"`
    return Result.fail({
      tag,
      problem: `the payload of "${tag}"${where} does not fit its schema: ${problem}`,
      isForeign: threw !== true
    })
  }
  return Result.succeed({
    message,
    payload: decoded.success,
    caller: envelope.caller,
    attempt,
    id,
    trace: envelope.trace,
    timer: envelope.timer,
    key: envelope.key
  })
}

/** Runs the handler of a message on a state. */
export const handle = (
  server: Server,
  runner: PureRunner,
  logs: HeldLogs,
  input: Incoming,
  state: unknown,
  index: number | undefined
): Effect.Effect<Handled, Crash> => {
  const { message } = input
  const handler = server.behaviour.handlers.get(message.tag)!
  const context = contextOf(server, input)
  const callback = Effect.suspend(() => {
    const result = handler(input.payload, state, context)
    return (Effect.isEffect(result) ? result : Effect.succeed(result)) as Effect.Effect<Outcome, unknown, Transaction>
  })
  return settle(server, runner, logs, input, state, index, callback)
}

/** Runs a pure effect that ends the handling of a message on a state. */
export const settle = (
  server: Server,
  runner: PureRunner,
  logs: HeldLogs,
  input: Incoming,
  state: unknown,
  index: number | undefined,
  callback: Effect.Effect<Outcome, unknown, Transaction>
): Effect.Effect<Handled, Crash> => {
  const { message } = input
  const pure = guarded(server, `the handler of "${message.tag}"`, state, callback)
  const takeBack = runner.mark()
  const cutLogs = logs.mark()
  let span: Tracer.AnySpan | undefined
  const run = observed(server, input, runner.run(message.tag, pure), (own) => {
    span = own
  })
  return Effect.matchCauseEffect(run, {
    onFailure: (cause) => {
      const failure = cause.reasons.find((reason) => reason._tag === "Fail")
      if (failure === undefined || message.kind !== "call" || pauses(message, cause)) {
        const crash = new Crash([message.tag], cause, logs, runner.hasSpentTime ? index : undefined)
        if (crash.full !== undefined && index !== undefined && index > 0) {
          // the messages before it are committed without it
          takeBack()
          cutLogs()
        }
        return Effect.fail(crash)
      }
      takeBack()
      return Effect.succeed({ ...nothing(state), answer: Exit.fail(failure.error) })
    },
    onSuccess: (outcome) => {
      const problem = problemOf(server, message, outcome)
      // what is returned can be something else each time that it is looked at
      const handled = problem === undefined ? reading(() => handledOf(outcome, state), undefined) : undefined
      if (handled !== undefined) return Effect.succeed(span === undefined ? handled : { ...handled, span })
      const defect = new TypeError(problem ?? `the handler of "${message.tag}" returned what cannot be read`)
      return Effect.fail(new Crash([message.tag], Cause.die(defect), logs, index))
    }
  })
}

/** A run of a callback, in a span under the one that the message was sent in, and with the time that it took. */
const observed = <A, E>(
  server: Server,
  input: Incoming,
  run: Effect.Effect<A, E>,
  began: (span: Tracer.AnySpan) => void
): Effect.Effect<A, E> => {
  const timed = Effect.clockWith((clock) => {
    const begun = clock.monotonicTimeNanosUnsafe()
    return Effect.onExit(run, () => {
      record(server, server.metrics.callbackMillis, Number(clock.monotonicTimeNanosUnsafe() - begun) / 1_000_000)
      return Effect.void
    })
  })
  return traced(timed, "DgenServer.callback", () => ({
    ...(input.trace === undefined ? {} : { parent: Tracer.externalSpan(input.trace) }),
    attributes: {
      ...identityOf(server),
      tag: input.message.tag,
      message: input.id,
      attempt: input.attempt
    }
  }), began)
}

/** A message that changes nothing. */
export const nothing = (state: unknown): Handled => ({
  state,
  answer: undefined,
  actions: [],
  stop: undefined,
  stopped: false,
  locks: false,
  outcome: "error"
})

/** What an outcome comes to; `state` is the one that the message was handled on. */
export const handledOf = (outcome: Outcome, state: unknown): Handled => {
  const handled = settledOf(outcome)
  return isGone(outcome.state) ? { ...handled, state, isGone: true } : handled
}

const settledOf = (outcome: Outcome): Handled => {
  switch (outcome._tag) {
    case "Reply":
      return {
        ...nothing(outcome.state),
        answer: Exit.succeed(outcome.value),
        actions: outcome.actions,
        outcome: "reply"
      }
    case "NoReply":
      return { ...nothing(outcome.state), actions: outcome.actions, outcome: "noReply" }
    case "Stop":
      return {
        ...nothing(outcome.state),
        actions: outcome.actions,
        stop: outcome.reason,
        stopped: true,
        outcome: "stop"
      }
    case "Lock":
      return { ...nothing(outcome.state), locks: true, outcome: "lock" }
  }
}

/** What is wrong with what a program without types returned. */
const problemOf = (server: Server, message: Message, outcome: Outcome): string | undefined => {
  const name = `the handler of "${message.tag}" in ${server.definition.name}`
  return looking(name, () => {
    if ((outcome as Outcome | undefined)?._tag !== "Lock") return problemOfSettled(server, message, name, outcome)
    if (isGone(outcome.state)) return `${name} must lock with a state: a server that is gone has no lock`
    return message.locks ? undefined : `${name} must not lock: "${message.tag}" has no locks: true`
  })
}

/** What is wrong with what a locked handler returned. */
export const problemOfLocked = (server: Server, message: Message, outcome: LockedOutcome): string | undefined => {
  const name = `the locked handler of "${message.tag}" in ${server.definition.name}`
  return looking(name, () => {
    if ((outcome as LockedOutcome | undefined)?._tag !== "Update") {
      return problemOfSettled(server, message, name, outcome)
    }
    return Predicate.isFunction((outcome as { readonly apply: unknown }).apply)
      ? undefined
      : `${name} must return an update with a function`
  })
}

/** What is returned can throw when it is looked at. */
const looking = (name: string, problem: () => string | undefined): string | undefined => {
  try {
    return problem()
  } catch (cause) {
    return `${name} returned what cannot be read: ${messageOfThrown(cause)}`
  }
}

const problemOfSettled = (
  server: Server,
  message: Message,
  name: string,
  outcome: Outcome | LockedOutcome
): string | undefined => {
  const tag = (outcome as Settled | undefined)?._tag
  if (tag !== "Reply" && tag !== "NoReply" && tag !== "Stop") return `${name} must return an outcome of DgenServer`
  if (tag === "Reply" && message.kind !== "call") return `${name} must not reply: "${message.tag}" is no call`
  if (tag === "Stop" && isGone((outcome as Settled).state)) {
    return `${name} must stop with a state: a server that is gone has nothing to stop`
  }
  const actions: unknown = (outcome as Settled).actions
  if (!Array.isArray(actions)) return `${name} must return its actions as an array, not ${show(actions)}`
  for (const action of actions) {
    const problem = problemOfAction(server, action)
    if (problem !== undefined) return `${name} asks for ${problem}`
  }
  return undefined
}

const problemOfAction = ({ definition }: Server, action: Partial<ActionRequest> | null | undefined) => {
  const known = action?.server === definition.name ? definition.actions.get(action.tag!) : undefined
  if (known === undefined) {
    return `the action "${show(action?.tag)}" of ${show(action?.server)}, which is not its own`
  }
  if (known.payload === undefined) {
    return action!.payload === undefined ? undefined : `the action "${known.tag}" with a payload, and it takes none`
  }
  const checked = checkerOf(known.payload)(action!.payload)
  if (Result.isSuccess(checked)) return undefined
  const { field, problem } = checked.failure
  return `the action "${known.tag}" with a payload that does not fit${field === "" ? "" : ` at "${field}"`}: ${problem}`
}

/** The bytes that answer a call for what its handler came to; `undefined` when the answer comes later. */
export const answerOf = (message: Message, handled: Handled): Uint8Array | undefined => {
  if (message.kind !== "call") return undefined
  if (handled.stopped) return Answers.stopped(show(handled.stop))
  return handled.answer === undefined ? undefined : Answers.encode(message, handled.answer)
}

/**
 * Runs handlers within a transaction: one message after another, each on the state that the one before left.
 *
 * 1. A message that fails with its declared error answers its call and leaves the state as it was.
 * 2. A defect, and whatever cannot be run at all, is a crash of that message: the transaction writes nothing.
 * 3. Answers and actions leave only with the commit.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import { writeAnswer } from "../calls.ts"
import { codecOf } from "../codec.ts"
import { processPrefix } from "../layout.ts"
import type { TransactionState } from "../transactionState.ts"
import { signalKey } from "../watching.ts"
import * as Answers from "./answer.ts"
import { type Caller, type Envelope, fromOf } from "./envelope.ts"
import type { ActionRequest, Answer, Message, Outcome } from "./model.ts"
import type { HeldLogs, PureRunner } from "./purity.ts"
import type { Server } from "./server.ts"

/** A message whose handling must not commit (2). */
export class Crash {
  readonly _tag = "Crash"
  readonly messageTag: string
  readonly cause: Cause.Cause<unknown>
  readonly logs: HeldLogs
  /** The message's place in its batch, when it is known which one it was. */
  readonly index: number | undefined
  constructor(messageTag: string, cause: Cause.Cause<unknown>, logs: HeldLogs, index: number | undefined) {
    this.messageTag = messageTag
    this.cause = cause
    this.logs = logs
    this.index = index
  }
}

/** What handling a message came to. */
export interface Handled {
  readonly state: unknown
  readonly answer: Answer | undefined
  readonly actions: ReadonlyArray<ActionRequest>
  readonly stop: unknown
  readonly stopped: boolean
}

/** A message ready to be handled. */
export interface Incoming {
  readonly message: Message
  readonly payload: unknown
  readonly caller: Caller | undefined
  readonly attempt: number
  readonly id: string
}

/** The message of an envelope, or why there is none. */
export const incoming = (
  server: Server,
  envelope: Envelope,
  attempt: number,
  id: string
): Result.Result<Incoming, string> => {
  const message = server.definition.messages.get(envelope.tag)
  if (message === undefined || !server.behaviour.handlers.has(envelope.tag)) {
    return Result.fail(`${server.definition.name} has no handler for "${envelope.tag}"`)
  }
  if (message.payload === undefined) {
    return Result.succeed({ message, payload: undefined, caller: envelope.caller, attempt, id })
  }
  const decoded = codecOf(message.payload).decode(envelope.payload)
  return Result.isFailure(decoded)
    ? Result.fail(`the payload of "${envelope.tag}" does not fit its schema: ${decoded.failure.problem}`)
    : Result.succeed({ message, payload: decoded.success, caller: envelope.caller, attempt, id })
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
  const context = {
    from: fromOf(server.definition.name, server.tuid, message.tag, input.caller),
    attempt: input.attempt,
    id: input.id,
    tuid: server.tuid
  }
  const callback = Effect.suspend(() => {
    const result = handler(input.payload, state, context)
    return (Effect.isEffect(result) ? result : Effect.succeed(result)) as Effect.Effect<Outcome, unknown, Transaction>
  })
  return Effect.matchCauseEffect(runner.run(message.tag, callback), {
    onFailure: (cause) => {
      const failure = cause.reasons.find((reason) => reason._tag === "Fail")
      return failure === undefined
        ? Effect.fail(new Crash(message.tag, cause, logs, index))
        : Effect.succeed({ ...nothing(state), answer: Exit.fail(failure.error) })
    },
    onSuccess: (outcome) => {
      const problem = problemOf(server, message, outcome)
      return problem === undefined
        ? Effect.succeed(handledOf(outcome))
        : Effect.fail(new Crash(message.tag, Cause.die(new TypeError(problem)), logs, index))
    }
  })
}

const nothing = (state: unknown): Handled => ({
  state,
  answer: undefined,
  actions: [],
  stop: undefined,
  stopped: false
})

const handledOf = (outcome: Outcome): Handled => {
  switch (outcome._tag) {
    case "Reply":
      return { ...nothing(outcome.state), answer: Exit.succeed(outcome.value), actions: outcome.actions }
    case "NoReply":
      return { ...nothing(outcome.state), actions: outcome.actions }
    case "Stop":
      return { ...nothing(outcome.state), actions: outcome.actions, stop: outcome.reason, stopped: true }
  }
}

/** What is wrong with an outcome that a program without types returned. */
const problemOf = (server: Server, message: Message, outcome: Outcome): string | undefined => {
  const name = `the handler of "${message.tag}" in ${server.definition.name}`
  const tag = (outcome as Outcome | undefined)?._tag
  if (tag !== "Reply" && tag !== "NoReply" && tag !== "Stop") return `${name} must return an outcome of DgenServer`
  if (tag === "Reply" && message.kind !== "call") return `${name} must not reply: "${message.tag}" is no call`
  const foreign = (outcome as { readonly actions: ReadonlyArray<ActionRequest> }).actions.find((action) =>
    action.server !== server.definition.name || !server.definition.actions.has(action.tag)
  )
  return foreign === undefined
    ? undefined
    : `${name} asks for the action "${foreign.tag}" of ${foreign.server}, which is not its own`
}

/** Answers a call with the commit of a transaction, if it still waits. */
export const answerCaller = (
  server: Server,
  state: TransactionState,
  caller: Caller,
  answer: Uint8Array
): Effect.Effect<void> => {
  const key = server.keys.waitingKey(caller.millis, caller.instance, caller.id)
  return Effect.map(state.get(key), (waiting) => {
    if (waiting === undefined) return
    state.clear(key)
    const { calls } = server.tenant
    if (calls.has(caller.instance, caller.id)) {
      state.onCommit.push(() => calls.settle(caller.id, Exit.succeed(answer)))
      return
    }
    writeAnswer(state, caller.instance, caller.id, answer)
    signalKey(server.tenant, state, Tuple.pack(["bell"], processPrefix(state.prefix, caller.instance)))
  })
}

/** The bytes that answer a call for what its handler came to; `undefined` when the answer comes later. */
export const answerOf = (message: Message, handled: Handled): Uint8Array | undefined => {
  if (message.kind !== "call") return undefined
  if (handled.stopped) return Answers.stopped(String(handled.stop))
  return handled.answer === undefined ? undefined : Answers.encode(message, handled.answer)
}

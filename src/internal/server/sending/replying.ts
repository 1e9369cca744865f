/**
 * Answers that come later: a handler returned `noReply` and kept its caller, and some later transaction answers it.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import { checkerOf } from "../../data/codec.ts"
import { show } from "../../data/show.ts"
import { From as FromSchema } from "../definition/from.ts"
import type { Definition, From } from "../definition/model.ts"
import { settle } from "../kept/keyed.ts"
import { problemOfTuid, ServerKeys } from "../kept/layout.ts"
import * as Answers from "./answerCodec.ts"
import { answerCaller } from "./answering.ts"

const fits = checkerOf(FromSchema)

const isFrom = (value: From): boolean => Result.isSuccess(fits(value)) && problemOfTuid(value.tuid) === undefined

/** Answers a call, if it still waits. A caller of another server, or an answer of another type, is a defect. */
export const replyTo = (
  definition: Definition,
  from: From,
  exit: Exit.Exit<unknown, unknown>
): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state): Effect.Effect<unknown> => {
    const wrong = (problem: string) => Effect.die(new TypeError(`${definition.name}.replyTo: ${problem}`))
    if (!isFrom(from)) return wrong(`a caller is what a handler of a call gets as its from, not ${show(from)}`)
    if (!Exit.isExit(exit)) return wrong(`an answer is an Exit, not ${show(exit)}`)
    const message = from.server === definition.name ? definition.messages.get(from.tag) : undefined
    if (message === undefined || message.kind !== "call") {
      return wrong(`the caller waits for "${from.tag}" of ${from.server}, not of this server`)
    }
    const { bytes, problem } = Answers.encodeChecked(message, exit)
    if (problem !== undefined) return wrong(problem)
    const caller = { instance: from.process, id: from.id, millis: from.millis }
    const keys = new ServerKeys(state.prefix, from.tuid, definition)
    const answered = answerCaller(keys, state, caller, bytes)
    const { key, message: id } = from
    return key === undefined || id === undefined
      ? answered
      : Effect.andThen(answered, settle(state, definition, keys, { key, message: id, tag: from.tag, answer: bytes }))
  }).pipe(Effect.asVoid)

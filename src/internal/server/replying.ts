/**
 * Answers that come later: a handler returned `noReply` and kept its caller, and some later transaction answers it.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { Transaction } from "../../Transaction.ts"
import * as Answers from "./answer.ts"
import { answerCaller } from "./answering.ts"
import { ServerKeys } from "./layout.ts"
import type { Definition, From } from "./model.ts"

/** Answers a call, if it still waits. A caller of another server, or an answer of another type, is a defect. */
export const replyTo = (
  definition: Definition,
  from: From,
  exit: Exit.Exit<unknown, unknown>
): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const message = from.server === definition.name ? definition.messages.get(from.tag) : undefined
    if (message === undefined || message.kind !== "call") {
      return Effect.die(
        new TypeError(
          `${definition.name}.replyTo: the caller waits for "${from.tag}" of ${from.server}, not of this server`
        )
      )
    }
    const { bytes, problem } = Answers.encodeChecked(message, exit)
    if (problem !== undefined) return Effect.die(new TypeError(`${definition.name}.replyTo: ${problem}`))
    const caller = { instance: from.process, id: from.id, millis: from.millis }
    return answerCaller(new ServerKeys(state.prefix, from.tuid), state, caller, bytes)
  })

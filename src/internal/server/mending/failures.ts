/**
 * What follows when handling a queued message failed: its attempt is counted in a transaction of its own, and at the
 * threshold the message moves to the dead letters (rule R12).
 *
 * 1. An attempt is counted only if the store has the message and its count as the failed run saw them, so that two
 *    consumers that fail on one message count one attempt.
 * 2. The message, its counters, its caller's answer and the dead letter change in one commit.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Tracer from "effect/Tracer"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import { codecOf } from "../../data/codec.ts"
import { printable } from "../../data/text.ts"
import { logError, logWarning } from "../../observing/logging.ts"
import { traced, under } from "../../observing/tracing.ts"
import * as Envelopes from "../../queue/envelope.ts"
import { stampText } from "../../queue/pieces.ts"
import * as Queue from "../../queue/queue.ts"
import { transact } from "../../transactions/loop.ts"
import { runAfterCommit } from "../handling/actions.ts"
import { contextOf, incoming } from "../handling/handlers.ts"
import { record } from "../handling/metrics.ts"
import type { Server } from "../handling/server.ts"
import { identityOf, shownPayload } from "../kept/layout.ts"
import { bury, type Died } from "./requeue.ts"

/** What the store refuses because of what one message did. */
const REASONS_OF_MESSAGE: ReadonlySet<BackendError["reason"]["_tag"]> = new Set([
  "KeyTooLarge",
  "ValueTooLarge",
  "TransactionTooLarge",
  "AccessedUnreadable",
  "InvalidArgument"
])

/** Whether a transaction that handled one message failed because of the message: that is its crash (rule R3). */
export const isOfMessage = (error: BackendError): boolean => REASONS_OF_MESSAGE.has(error.reason._tag)

/** Counts a failed attempt of an item; at the threshold the item dies. */
export const charge = (server: Server, item: Queue.Item, cause: string): Effect.Effect<void, BackendError> => {
  const run = Effect.flatMap(Transaction, (state): Effect.Effect<Died | undefined> => {
    return Effect.flatMap(Queue.charge(state, item), (counted) => {
      if (!counted) return Effect.undefined
      const attempts = item.attempts + 1
      if (attempts < server.options.deadLetterThreshold) return Effect.undefined
      const id = Result.getOrUndefined(Envelopes.decode(item.message))?.id ?? stampText(item.stamp)
      const died = {
        id,
        message: Envelopes.withId(item.message, id),
        attempts,
        cause: printable(cause)
      }
      Queue.take(state, server.keys, [item])
      return Effect.as(bury(state, server.keys, died), died)
    })
  })
  return Effect.flatMap(
    transact(server.tenant, run),
    (died) => died === undefined ? Effect.void : afterDeath(server, died)
  )
}

/** Makes a dead letter of a message that was never queued. */
export const buryDirect = (
  server: Server,
  letter: Pick<Died, "message" | "attempts" | "cause">
): Effect.Effect<Died, BackendError> =>
  transact(
    server.tenant,
    Effect.flatMap(Transaction, (state) => {
      const id = Buffer.from(state.operationId.subarray(0, 20)).toString("hex")
      const died = { ...letter, id, cause: printable(letter.cause) }
      return Effect.as(bury(state, server.keys, died), died)
    })
  )

/** Logs and counts a dead letter, and runs the server's dead-letter handler, if it has one. */
export const afterDeath = (server: Server, died: Died): Effect.Effect<void> => {
  const envelope = Result.getOrUndefined(Envelopes.decode(died.message))
  const tag = envelope?.tag ?? "a message that cannot be read"
  record(server, server.metrics.deadLetters, 1)
  const told = logWarning(
    died.attempts === 0
      ? `${server.name}: "${tag}" is a dead letter`
      : `${server.name}: "${tag}" failed ${died.attempts} times and is now a dead letter`,
    died.cause
  )
  const handler = server.effects.deadLetter
  if (handler === undefined) return told
  const { attempts, cause } = died
  const payload = shownPayload(server.definition, envelope?.tag, envelope?.payload)
  const letter = { tag, payload, attempts, cause, ...contextOfDead(server, died, envelope) }
  const run = traced(Effect.suspend(() => handler(letter)), "DgenServer.deadLetter", () => ({
    ...under(envelope?.trace && Tracer.externalSpan(envelope.trace)),
    attributes: { ...identityOf(server), tag, message: died.id, attempts: died.attempts }
  }))
  return Effect.andThen(
    told,
    Effect.flatMap(
      runAfterCommit(server, `the dead-letter handler, on "${tag}",`, run),
      (exit) =>
        Exit.isSuccess(exit)
          ? Effect.void
          : logError(`${server.name}: the dead-letter handler crashed on "${tag}"`, exit.cause)
    )
  )
}

/** What the handler sees of the message: its payload as its schema decodes it, where it does. */
const contextOfDead = (server: Server, died: Died, envelope: Envelopes.Envelope | undefined) => {
  const input = envelope === undefined
    ? undefined
    : Result.getOrUndefined(incoming(server, envelope, died.attempts, died.id))
  if (input === undefined) {
    const message = server.definition.messages.get(envelope?.tag ?? "")
    return {
      from: undefined,
      attempt: died.attempts,
      id: died.id,
      tuid: server.tuid,
      timer: undefined,
      kind: message?.kind ?? "cast"
    } as const
  }
  return {
    ...contextOf(server, input),
    kind: input.message.kind,
    payload: input.message.payload === undefined
      ? undefined
      : Result.getOrUndefined(codecOf(input.message.payload).decode(envelope!.payload))
  }
}

/**
 * The messages of locks: kept beside the queue while their locked handlers run, and put back when those cannot end
 * (rule R19), or among the dead letters when that happened too often (rule R12).
 *
 * A message lies under the token of its lock from the commit that took it off the queue to the one that ends its
 * handling: in the queue, under a lock, or among the dead letters, and never in two of these places.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { printable } from "../../data/text.ts"
import * as DeadLetters from "../../queue/deadLetters.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { free } from "../kept/keyed.ts"
import type { ServerKeys } from "../kept/layout.ts"
import * as Answers from "../sending/answerCodec.ts"
import { answerCaller } from "../sending/answering.ts"

/** A message that became a dead letter. */
export interface Died {
  /** Tells it from every other message of its server. */
  readonly id: string
  readonly message: Uint8Array
  readonly attempts: number
  readonly cause: string
}

/** Keeps the message of a lock that is being acquired. */
export const keep = (state: TransactionState, keys: ServerKeys, token: Uint8Array, message: Uint8Array): void => {
  const prefix = keys.lockMessage(token)
  for (let i = 0; i * PIECE_BYTES < message.length; i++) {
    state.set(Tuple.pack([i], prefix), message.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
  }
}

/** Forgets the message of a lock that has been handled. */
export const forget = (state: TransactionState, keys: ServerKeys, token: Uint8Array): void => {
  const { begin, end } = Tuple.range([], keys.lockMessage(token))
  state.clearRange(begin, end)
}

/** How the message of a lock is put back. */
export interface PutBack {
  /** The attempts that it has behind it then. */
  readonly attempts: number
  /** At so many it becomes a dead letter; `Infinity` where it is put back in any case. */
  readonly threshold: number
  /** What a dead letter says. */
  readonly cause: string
}

/** Why a message is put back whose lock was broken. */
export const BROKEN = "its lock was broken before its handler ended"

/** Puts the message of a lock back at the end of the queue, or among the dead letters when its attempts reach the threshold. */
export const requeue = (
  state: TransactionState,
  keys: ServerKeys,
  token: Uint8Array,
  { attempts, cause, threshold }: PutBack
): Effect.Effect<Died | undefined> => {
  const { begin, end } = Tuple.range([], keys.lockMessage(token))
  return Effect.flatMap(state.getRange(begin, end), (rows) => {
    if (rows.length === 0) return Effect.undefined
    state.clearRange(begin, end)
    const message = Keys.concatAll(rows.map((row) => row.value))
    if (attempts < threshold) {
      Queue.push(state, keys, message, attempts)
      // it was counted as taken when it was locked
      keys.ring(state)
      return Effect.undefined
    }
    const id = Result.getOrUndefined(Envelopes.decode(message))?.id ?? Buffer.from(token).toString("hex")
    const died = { id, message, attempts, cause: printable(cause) }
    return Effect.as(bury(state, keys, died), died)
  })
}

/** Writes a dead letter, answers the call that waits for the message, and leaves its key free. */
export const bury = (
  state: TransactionState,
  keys: ServerKeys,
  died: Died,
  answer = Answers.deadLettered(died.attempts, died.cause)
): Effect.Effect<void> => {
  DeadLetters.write(state, keys, died)
  const { caller, key, tag = "" } = Result.getOrElse(
    Envelopes.decode(died.message),
    (): Partial<Envelopes.Envelope> => ({})
  )
  const answered = caller === undefined ? Effect.void : answerCaller(keys, state, caller, answer)
  return key === undefined
    ? answered
    : Effect.andThen(answered, free(state, keys, { key, message: died.id, tag, answer }))
}

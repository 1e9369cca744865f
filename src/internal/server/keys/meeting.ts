/**
 * Messages with a key, where they are handled: each takes effect once (rules K1 to K5; what the rows say is in
 * `kept/keyed.ts`).
 *
 * 1. Who handles a message reads the row of its key first. One that has been handled is answered with what was kept; one
 *    whose first message is under way is told to wait with it; one that means something else is refused. None of these is
 *    handled.
 * 2. What is handled opens the row, and settles it with the answer: in the same transaction, or, where the answer comes
 *    later, by `replyTo` or the commit that ends the lock.
 * 3. A server that is started remembers in its head that it has met keys. One that is hosted is woken by the ends of rows.
 */
import * as Effect from "effect/Effect"
import * as Tuple from "../../../Tuple.ts"
import { logWarning } from "../../observing/logging.ts"
import type { Envelope } from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Handled, Incoming } from "../handling/handlers.ts"
import type { Server } from "../handling/server.ts"
import * as Keyed from "../kept/keyed.ts"
import * as Answers from "../sending/answerCodec.ts"
import { digestOf } from "./digest.ts"

/** A message with its key. */
export type WithKey = Omit<Incoming, "id"> & { readonly key: string }

/** What the key of a message says of it (1). */
export type Met =
  /** It is to be handled; its row is open now. */
  | { readonly _tag: "Fresh" }
  /** It is not handled; a call has this answer. */
  | { readonly _tag: "Known"; readonly answer: Uint8Array }
  /** There is no place for another key. */
  | { readonly _tag: "TooMany" }

const FRESH: Met = { _tag: "Fresh" }

/** Looks at the key of a message that is about to be handled, and opens it if it is to be (1, 2). */
export const meet = Effect.fnUntraced(function*(
  server: Server,
  state: TransactionState,
  input: WithKey,
  id: string,
  sent: unknown
): Effect.fn.Return<Met> {
  const { definition, keys } = server
  const { key, message } = input
  const row = yield* Keyed.read(state, keys, key)
  const digest = digestOf(message, input.payload, sent)
  // under a lock that was broken, also where it was answered before: its handling has not ended
  if (row !== undefined && row._tag !== "Free" && row.message === id) return FRESH
  const counts = row?._tag === "Open" || row?._tag === "Done" && row.endMillis > state.timeMillis
  if (counts) {
    if (!Tuple.equalsBytes(row.digest, digest)) {
      if (message.kind !== "call") {
        yield* logWarning(
          `${server.name}: "${message.tag}" is dropped: its key ${JSON.stringify(key)} belongs to another`
        )
      }
      return { _tag: "Known", answer: Answers.keyReused(key) }
    }
    if (row._tag === "Open") return { _tag: "Known", answer: Answers.waits }
    const answer = yield* Keyed.answerOf(state, keys, key, row)
    return { _tag: "Known", answer: answer ?? Answers.keyReused(key) }
  }
  const isAnother = row?._tag !== "Done"
  if (isAnother && (yield* Queue.count(state, keys.keyed.count)) >= definition.maxKeys) return { _tag: "TooMany" }
  Keyed.open(state, keys, key, id, digest, row)
  return FRESH
})

/** Says what the handling of a message came to: its row is settled, or left open (2). */
export const conclude = (
  server: Server,
  state: TransactionState,
  input: Incoming,
  handled: Handled,
  answer: Uint8Array | undefined
): Effect.Effect<void> => {
  const { id, key, message } = input
  if (key === undefined) return Effect.void
  if (handled.crashed !== undefined) {
    const error = Answers.crashed(handled.crashed)
    return Keyed.free(state, server.keys, { key, message: id, tag: message.tag, answer: error })
  }
  if (handled.locks || message.kind === "call" && answer === undefined) {
    return Keyed.leaveOpen(state, server.keys, key, id)
  }
  return Effect.map(
    Keyed.settle(state, server.definition, server.keys, { key, message: id, tag: message.tag, answer }),
    (endMillis) => endMillis === undefined ? undefined : tellConsumer(server, state, endMillis)
  )
}

/** A consumer that waits hears of the first key that will end. */
const tellConsumer = (server: Server, state: TransactionState, endMillis: number): void => {
  if (server.definition.hosted) return
  state.onCommit.push(() => {
    if (endMillis >= server.keysDueMillis) return
    server.keysDueMillis = endMillis
    server.wakeIdle?.()
  })
}

/** What the first key of a server changes of its head (3). */
export const keyedChange = (
  { definition }: Server,
  head: { readonly isKeyed: boolean },
  hasKeys: boolean
): { readonly isKeyed: true } | undefined =>
  hasKeys && !definition.hosted && !head.isKeyed ? { isKeyed: true } : undefined

/** The rows that a batch will read of keys. */
export const rowsOf = (
  { keys }: Server,
  envelopes: ReadonlyArray<Pick<Envelope, "key">>
): ReadonlyArray<Uint8Array> => {
  const named = envelopes.flatMap(({ key }) => key === undefined ? [] : [Keyed.rowKey(keys, key)])
  return named.length === 0 ? named : [...named, keys.keyed.count, ...(keys.isHosted ? [keys.wake] : [])]
}

/**
 * The end of a server by its own will (`DgenServer.gone`): state, timers and its place in the list go with the commit that
 * ends it; name, queue, counters, dead letters and the calls that wait in the queue stay, for the life that the next
 * message begins.
 *
 * 1. Messages that are kept beside the queue go back into it.
 * 2. A call that was handled and left open has nobody any more who could answer it: it is told that the server is gone, and
 *    its key is free. Keys that are done stay until their time.
 */
import * as Effect from "effect/Effect"
import type { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Saved, Server } from "../handling/server.ts"
import type { Head } from "../kept/head.ts"
import { isListed, moveWake, readWake } from "../kept/indexes.ts"
import { firstEnd, freeOpen } from "../kept/keyed.ts"
import * as Answers from "../sending/answerCodec.ts"
import { Callers, openCalls } from "../sending/answering.ts"
import { callerOf, signalEnd } from "./kill.ts"
import { requeue } from "./requeue.ts"

/** Ends the life of a server with this commit. `state` is what its actions get: the last one before the end. */
export const end = Effect.fnUntraced(function*(
  server: Server,
  transaction: TransactionState,
  head: Head,
  state: unknown
): Effect.fn.Return<Saved, never, Transaction> {
  const { keys } = server
  for (const { attempts, token } of head.fenced) {
    yield* requeue(transaction, keys, token, { attempts, threshold: Infinity, cause: "" })
  }
  const callers = new Callers()
  for (const row of yield* openCalls(transaction, keys)) {
    transaction.clear(row.key)
    const caller = callerOf(row.key, keys.waiting.length)
    if (caller !== undefined) callers.add(caller)
  }
  callers.send(transaction, Answers.killed)
  yield* freeOpen(transaction, keys, Answers.killed)
  transaction.clear(keys.head)
  transaction.clearRange(keys.state, Tuple.strinc(keys.state))
  yield* endTimers(server, transaction)
  if (isListed(server.definition.name)) transaction.clear(keys.place.listed)
  signalEnd(server, transaction)
  transaction.onAccepted.push(() => {
    server.cache = undefined
  })
  return { version: "", state, stored: undefined }
})

/** Takes all timers of a server away, and its wake-up. */
const endTimers = (server: Server, transaction: TransactionState): Effect.Effect<void> => {
  const { keys } = server
  for (const prefix of [keys.timers, keys.timerIds]) transaction.clearRange(prefix, Tuple.strinc(prefix))
  transaction.clear(keys.timerCount)
  if (!server.definition.hosted) return Effect.void
  return Effect.flatMap(transaction.get(keys.wake), (bytes) => {
    const known = readWake(bytes)
    if (known === undefined) return Effect.void
    // keys outlive the server
    return Effect.map(
      firstEnd(transaction, keys),
      (end) => moveWake(transaction, keys, known, end === Infinity ? undefined : end)
    )
  })
}

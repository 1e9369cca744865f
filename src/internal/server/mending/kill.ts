/**
 * The end of a durable server (rule R26): state, queue, dead letters, lock and waiting calls go in one commit, after the
 * calls that wait have been told.
 *
 * 1. Nothing stays under the server's prefix: the last commit clears all of it.
 * 2. A batch, an inline call or a locked handler that is under way has read the head: its commit conflicts, or finds no
 *    head, and writes nothing.
 * 3. Calls are told in passes of `PASS_LIMIT`, so that any number of them fits transactions; the last pass is the one
 *    that clears.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { transact } from "../../transactions/loop.ts"
import { signalKey } from "../../transactions/watching.ts"
import { gone, type Server } from "../handling/server.ts"
import { isListed } from "../kept/indexes.ts"
import * as Answers from "../sending/answerCodec.ts"
import { sendAnswer } from "../sending/answering.ts"
import type { Located } from "../sending/client.ts"

const PASS_LIMIT = 1_000

/** Deletes a server that runs here, and ends its handle. */
export const kill = (server: Server): Effect.Effect<void, BackendError> =>
  Effect.andThen(remove(server), Effect.sync(() => gone(server)))

/** Deletes a server. */
export const remove = (server: Located): Effect.Effect<void, BackendError> =>
  Effect.flatMap(transact(server.tenant, pass(server)), (isLast) => isLast ? Effect.void : remove(server))

const pass = (server: Located): Effect.Effect<boolean, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const { keys } = server
    const waiting = Tuple.range([], keys.waiting)
    return Effect.map(state.getRange(waiting.begin, waiting.end, { limit: PASS_LIMIT }), (rows) => {
      for (const row of rows) {
        const caller = callerOf(row.key, keys.waiting.length)
        state.clear(row.key)
        if (caller !== undefined) sendAnswer(state, caller, Answers.killed)
      }
      if (rows.length >= PASS_LIMIT) return false
      state.clearRange(keys.prefix, Tuple.strinc(keys.prefix))
      if (isListed(server.definition.name)) state.clear(keys.place.listed)
      if (server.definition.hosted) state.clear(keys.place.entry)
      for (const key of [keys.head, keys.push]) signalKey(server.tenant, state, key)
      return true
    })
  })

const callerOf = (key: Uint8Array, offset: number) => {
  try {
    const [, instance, id] = Tuple.unpack(key, offset)
    return instance instanceof Uint8Array && typeof id === "number" ? { instance, id } : undefined
  } catch {
    return undefined
  }
}

/**
 * The end of a durable server (rule R26): state, queue, dead letters, lock and waiting calls go in one commit, which costs
 * the same however many there are.
 *
 * 1. The first commit clears all of the server's prefix, so it is gone for everybody at once. It tells the calls that wait,
 *    as many as `PASS_LIMIT`; the keys of the others stay for the passes that tell them. A process that dies between these
 *    leaves calls that end at their time limits, and take their keys away then.
 * 2. A batch, an inline call or a locked handler that is under way has read the head: its commit conflicts, or finds no
 *    head, and writes nothing.
 * 3. A pass tells calls that the first commit saw and no later ones: those belong to the next server of this tuid.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
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
  Effect.flatMap(
    transact(server.tenant, removal(server)),
    (untold) =>
      Effect.forEach(
        Array.from({ length: Math.ceil(untold.length / PASS_LIMIT) }, (_, i) => i * PASS_LIMIT),
        (from) => transact(server.tenant, tellRest(server, untold.slice(from, from + PASS_LIMIT))),
        { discard: true }
      )
  )

/** The commit that removes the server. Succeeds with the keys of the calls that it did not tell (1). */
const removal = (server: Located): Effect.Effect<ReadonlyArray<Uint8Array>, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const { keys } = server
    const waiting = Tuple.range([], keys.waiting)
    const wake = server.definition.hosted ? keys.forgetWake(state) : Effect.void
    return Effect.map(Effect.andThen(wake, state.getRange(waiting.begin, waiting.end)), (rows) => {
      const told = rows.slice(0, PASS_LIMIT)
      const end = Tuple.strinc(keys.prefix)
      if (told.length === rows.length) state.clearRange(keys.prefix, end)
      else {
        state.clearRange(keys.prefix, waiting.begin)
        state.clearRange(waiting.end, end)
      }
      for (const { key } of told) tell(state, server, key)
      if (isListed(server.definition.name)) state.clear(keys.place.listed)
      if (server.definition.hosted) state.clear(keys.place.entry)
      for (const key of [keys.head, keys.push]) signalKey(server.tenant, state, key)
      return rows.slice(PASS_LIMIT).map(({ key }) => key)
    })
  })

/** Tells calls that still wait. */
const tellRest = (server: Located, untold: ReadonlyArray<Uint8Array>): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) =>
    Effect.forEach(untold, (key) =>
      Effect.map(state.get(key), (value) => {
        if (value !== undefined) tell(state, server, key)
      }), { discard: true }))

const tell = (state: TransactionState, { keys }: Located, key: Uint8Array): void => {
  const caller = callerOf(key, keys.waiting.length)
  state.clear(key)
  if (caller !== undefined) sendAnswer(state, caller, Answers.killed)
}

/** The caller that the key of a waiting call names. */
export const callerOf = (key: Uint8Array, offset: number) => {
  try {
    const [, instance, id] = Tuple.unpack(key, offset)
    return instance instanceof Uint8Array && typeof id === "number" ? { instance, id } : undefined
  } catch {
    return undefined
  }
}

/**
 * The end of a durable server (rule R26): state, queue, dead letters, lock and waiting calls go in one commit, which costs
 * the same however many messages there are.
 *
 * 1. That commit clears all of the server's prefix, so it is gone for everybody at once, and tells all calls that wait:
 *    there is nothing left to do for which a process could die too early.
 * 2. A batch, an inline call or a locked handler that is under way has read the head: its commit conflicts, or finds no
 *    head, and writes nothing.
 * 3. The calls are read for conflict: one that begins to wait meanwhile is told too, or waits for the next server.
 * 4. So calls without end could hold that commit off. When it has lost often enough, a commit that reads nothing, and
 *    so cannot lose, takes the server away first: who calls finds it gone, and the commit of 1 ends the rest.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { yieldTurn } from "../../transactions/turns.ts"
import { signalKey } from "../../transactions/watching.ts"
import { gone, type Server } from "../handling/server.ts"
import { isListed } from "../kept/indexes.ts"
import type { ServerKeys } from "../kept/layout.ts"
import * as Answers from "../sending/answerCodec.ts"
import { Callers } from "../sending/answering.ts"

/** A server by where it lies. */
interface Located {
  readonly definition: { readonly name: string; readonly hosted: boolean }
  readonly tenant: Tenant["Service"]
  readonly keys: ServerKeys
}

/** Waiting calls that are read at once. */
const PAGE_LIMIT = 1_000

/** More often than calls of a few fibers win by chance, and milliseconds on every store. */
const TRIES_LIMIT = 16

/** Deletes a server that runs here, and ends its handle. */
export const kill = (server: Server): Effect.Effect<void, BackendError> =>
  Effect.andThen(remove(server), Effect.sync(() => gone(server)))

/** Deletes a server. */
export const remove = (server: Located): Effect.Effect<void, BackendError> =>
  Effect.catchTag(
    transact(server.tenant, removal(server), { tries: TRIES_LIMIT }),
    "BackendError",
    (error) =>
      error.isRetryable
        ? Effect.andThen(transact(server.tenant, takeAway(server)), transact(server.tenant, removal(server)))
        : Effect.fail(error)
  )

/**
 * The transaction that leaves of the server nothing but the calls that wait and its wake-up, which `removal` has to read;
 * it reads nothing itself (invariant 4).
 */
const takeAway = (server: Located): Effect.Effect<void, never, Transaction> =>
  Effect.map(Transaction, (state) => {
    const { keys } = server
    state.clearRange(keys.prefix, keys.waiting)
    state.clearRange(Tuple.strinc(keys.waiting), keys.wake)
    state.clearRange(Keys.next(keys.wake), Tuple.strinc(keys.prefix))
    signalEnd(server, state)
  })

/** Wakes all who run the server, and all who send to it: it is gone. */
export const signalEnd = ({ keys, tenant }: Located, state: TransactionState): void => {
  for (const key of [keys.head, keys.push]) signalKey(tenant, state, key)
}

/** The transaction that removes the server. */
const removal = Effect.fnUntraced(function*(server: Located): Effect.fn.Return<void, never, Transaction> {
  const { definition, keys } = server
  const state = yield* Transaction
  if (definition.hosted) yield* keys.forgetWake(state)
  const callers = yield* waitingCallers(state, keys.waiting)
  state.clearRange(keys.prefix, Tuple.strinc(keys.prefix))
  callers.send(state, Answers.killed)
  if (isListed(definition.name)) state.clear(keys.place.listed)
  if (definition.hosted) state.clear(keys.place.entry)
  signalEnd(server, state)
})

/** All calls that wait, page by page. */
const waitingCallers = Effect.fnUntraced(function*(
  state: TransactionState,
  prefix: Uint8Array
): Effect.fn.Return<Callers> {
  const callers = new Callers()
  const { begin, end } = Tuple.range([], prefix)
  for (let at = begin;;) {
    const rows = yield* state.getRange(at, end, { limit: PAGE_LIMIT })
    for (const { key } of rows) {
      const caller = callerOf(key, prefix.length)
      if (caller !== undefined) callers.add(caller)
    }
    if (rows.length < PAGE_LIMIT) return callers
    at = Keys.next(rows.at(-1)!.key)
    yield* yieldTurn
  }
})

/** The caller that the key of a waiting call names. */
export const callerOf = (key: Uint8Array, offset: number) => {
  try {
    const [, instance, id] = Tuple.unpack(key, offset)
    return instance instanceof Uint8Array && typeof id === "number" ? { instance, id } : undefined
  } catch {
    return undefined
  }
}

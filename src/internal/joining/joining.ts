/**
 * A transaction effect as part of a transaction that is open on a user's client.
 *
 * Owner: the calling fiber. The transaction is the user's, who commits it or rolls it back.
 *
 * 1. The effect reads through the store's own connections, from one snapshot, and over it sees what earlier calls of the same
 *    transaction wrote: that lies in a row of the transaction (`postgres/held.ts`), which is written anew with each call.
 * 2. Nobody of this process is told anything, and nothing is remembered: whether the transaction commits is not known here.
 *    Answers and wake-ups go the way of those from other processes.
 * 3. What it relies on is held even if it writes nothing, because the user may write what follows from it.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Backend, CommitRequest, DriverTransaction } from "../../Backend.ts"
import { BackendError, InvalidArgument } from "../../BackendError.ts"
import type { Tenant } from "../../Tenant.ts"
import { Transaction } from "../../Transaction.ts"
import { type Held, heldOf, holdText, type Joined, joinedText, readJoined } from "../postgres/held.ts"
import { laneOf } from "../postgres/lanes.ts"
import { type Inside, insideOf } from "../postgres/layer.ts"
import { PostgresTransaction } from "../postgres/transaction.ts"
import { CallsOf } from "../tenant/calls.ts"
import { LocalHostsOf } from "../tenant/hosts.ts"
import { ListedOf } from "../tenant/listed.ts"
import { runOnce } from "../transactions/loop.ts"
import type { TransactionState } from "../transactions/state.ts"
import { ask, type Client } from "./client.ts"

const STAMP_BYTES = 10

const invalid = (message: string): BackendError =>
  new BackendError({ reason: new InvalidArgument({ message: `PostgresBackend.transactWith: ${message}` }) })

const problemOf = ({ isSettled, isolation, readOnly, store }: Joined, inside: Inside): string | undefined => {
  if (store !== inside.store) return "the client's database, or its schema, holds another store than the tenant's"
  if (isolation !== "read committed") {
    return `the client's transaction is ${isolation.toUpperCase()}, and must be READ COMMITTED: begin it with ` +
      "BEGIN ISOLATION LEVEL READ COMMITTED. What the effect reads is checked all the same"
  }
  if (readOnly) return "the client's transaction is READ ONLY"
  return isSettled ? "SET CONSTRAINTS has committed what came before: make no call after it" : undefined
}

/** What earlier calls of the transaction wrote is written again, and so it can be read. */
const writeAgain = (state: TransactionState, held: Held): void => {
  for (const { begin, end } of held.clears) state.clearRange(begin, end)
  for (const { key, value } of held.writes) {
    if (value === undefined) state.clear(key)
    else state.set(key, value)
  }
  for (const { key, operand } of held.adds) state.add(key, operand)
  for (const { key, keyPlace, value, valuePlace } of held.stamped) {
    if (keyPlace >= 0) state.setVersionstampedKey(key, keyPlace, value)
    else state.setVersionstampedValue(key, value, valuePlace)
  }
  for (let given = 0; given < held.stamps; given++) state.nextUserVersion()
}

/** A driver's transaction whose commit is the user's. */
const driverOf = (
  own: PostgresTransaction,
  commit: (request: CommitRequest) => Effect.Effect<void, BackendError>
): DriverTransaction => ({
  get readVersion() {
    return own.readVersion
  },
  get: (key) => own.get(key),
  getRange: (begin, end, options) => own.getRange(begin, end, options),
  commit: (request) => Effect.as(commit(request), new Uint8Array(STAMP_BYTES)),
  close: () => own.close()
})

/** The place of a transaction that nobody in this process hears of (2). */
const unheard = (tenant: Tenant["Service"]) => {
  const signals: Backend["Service"]["signals"] = { notify: () => {}, listen: () => () => {} }
  return {
    ...tenant,
    backend: { ...tenant.backend, signals },
    services: tenant.services.pipe(
      Context.omit(CallsOf, LocalHostsOf),
      Context.add(ListedOf, { ...Context.get(tenant.services, ListedOf) })
    )
  }
}

/** Runs a transaction effect as part of the transaction that is open on a client. */
export const join = Effect.fnUntraced(function*<A, E>(
  tenant: Tenant["Service"],
  client: Client,
  effect: Effect.Effect<A, E, Transaction>
): Effect.fn.Return<A, E | BackendError> {
  const inside = insideOf(tenant.backend)
  if (inside === undefined) return yield* invalid(`the tenant's store is ${tenant.backend.name}, and not PostgreSQL`)
  const { shared, store } = inside
  const joined = yield* Effect.map(ask(client, joinedText(shared.schema)), readJoined)
  const problem = problemOf(joined, inside)
  if (problem !== undefined) return yield* invalid(problem)
  const lane = laneOf(tenant.prefix)
  const held = heldOf(joined, lane)
  const own = new PostgresTransaction(shared)
  let written: TransactionState | undefined
  const body = Effect.flatMap(Transaction, (state) => {
    written = state
    writeAgain(state, held)
    return effect
  })
  const hold = Effect.fnUntraced(function*(request: CommitRequest): Effect.fn.Return<void, BackendError> {
    if (request.watches.length > 0) {
      return yield* invalid("nothing can be watched: whether the client commits is not known here")
    }
    if (request.mutations.length + request.readConflicts.length === 0) return
    const asked = yield* own.asked(request)
    own.close()
    const text = holdText({ schema: shared.schema, store }, joined, lane, written!.nextUserVersion(), [
      ...held.reads,
      asked
    ])
    yield* ask(client, text)
  })
  return yield* runOnce(unheard(tenant), driverOf(own, hold), body)
})

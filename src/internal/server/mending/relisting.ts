/**
 * Entering servers of an earlier version into the lists of their definitions: once for a tenant, by whoever starts or hosts
 * a server there first.
 *
 * Owner: one fiber a tenant layer, in its scope. It goes on after failures of the store, and ends when the list is complete.
 *
 * 1. How far it has come is written with what it enters, and read for conflict: of several processes one gets on at a time,
 *    and one that dies leaves no gap (rule H10).
 * 2. A server that is made or ends meanwhile enters or takes away its own place; the pass reads its head for conflict.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { logWarning } from "../../observing/logging.ts"
import * as Listed from "../../tenant/listed.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { isListed } from "../kept/indexes.ts"
import { ServerKeys } from "../kept/layout.ts"

/** Servers that one transaction enters. */
const PASS_SERVERS = 200

const AWAY_MILLIS = 5_000

const passing = new WeakSet<object>()

/** Lets the pass run in the background, where there is something for it to do. */
export const relist = (tenant: Tenant["Service"]): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (passing.has(tenant)) return Effect.void
    passing.add(tenant)
    return Effect.asVoid(Effect.forkIn(Effect.interruptible(passes(tenant)), tenant.scope))
  })

const passes = (tenant: Tenant["Service"]): Effect.Effect<void> => {
  const one = transact(tenant, pass)
  const safe = Effect.catchCause(one, (cause) =>
    Effect.as(
      Effect.andThen(
        logWarning("entering servers of an earlier version into the lists failed, it is tried again", cause),
        Effect.sleep(AWAY_MILLIS)
      ),
      false
    ))
  return Effect.asVoid(Effect.repeat(safe, { until: (isDone) => isDone }))
}

/** Enters some servers. Succeeds with whether all are. */
const pass = Effect.flatMap(Transaction, (state) =>
  Effect.flatMap(Listed.isComplete(state), (isComplete) => {
    if (isComplete) return Effect.succeed(true)
    const { begin, end } = Tuple.range([], Listed.serversPrefix(state.prefix))
    return Effect.flatMap(Listed.read(state), (found) =>
      Effect.map(enter(state, found instanceof Uint8Array ? found : begin, end), (at) => {
        Listed.write(state, at ?? true)
        return at === undefined
      }))
  }))

/** Enters servers from a key on. Succeeds with where to go on, if there is something. */
const enter = Effect.fnUntraced(function*(
  state: TransactionState,
  from: Uint8Array,
  end: Uint8Array
): Effect.fn.Return<Uint8Array | undefined> {
  let at = from
  for (let entered = 0; entered < PASS_SERVERS; entered++) {
    const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
    if (row === undefined) return undefined
    const elements = Result.getOrElse(
      Tuple.unpackResult(row.key, Listed.serversPrefix(state.prefix).length),
      (): Tuple.Tuple => []
    )
    const [tuid] = elements
    if (!Array.isArray(tuid) || tuid.length === 0) {
      // a key that no server has
      at = Buffer.concat([row.key, Uint8Array.of(0)])
      continue
    }
    yield* enterOne(state, tuid as Tuple.Tuple)
    at = Tuple.strinc(Tuple.pack([tuid as Tuple.Tuple], Listed.serversPrefix(state.prefix)))
  }
  return at
})

const enterOne = (state: TransactionState, tuid: Tuple.Tuple): Effect.Effect<void> => {
  const unnamed = new ServerKeys(state.prefix, tuid, { name: "", hosted: false })
  return Effect.map(Effect.zip(state.get(unnamed.name), state.get(unnamed.head)), ([bytes, head]) => {
    const name = bytes === undefined ? "" : Buffer.from(bytes).toString()
    if (head === undefined || name === "" || !isListed(name)) return
    state.set(new ServerKeys(state.prefix, tuid, { name, hosted: false }).place.listed, new Uint8Array(0))
  })
}

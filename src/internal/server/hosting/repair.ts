/**
 * A slow look for what no bell leads to: servers that have something to do and no entry, those with a timer and no wake-up,
 * and wake-ups that a wrong clock has put further ahead than their timers can reach.
 *
 * Owner: one fiber a tenant layer, in its scope, from its first host on. It goes on after failures of the store.
 *
 * 1. A look costs a few reads, however many servers there are. Nothing depends on its hour.
 * 2. How far the servers have been looked through is in the store and is read for conflict: of several processes one gets on
 *    at a time, and each server's turn comes (rule H10).
 * 3. It gives servers an entry, and changes nothing else: whoever runs them finds what there is to do. One that has nothing
 *    to do costs its host an empty batch.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { logWarning } from "../../observing/logging.ts"
import { keepRunning } from "../../observing/unforeseen.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { LocalHostsOf } from "../../tenant/hosts.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import { serversPrefix } from "../../tenant/listed.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import * as Heads from "../kept/head.ts"
import { giveWork, indexesOf, readWake, tuidOfKey, wakeUp } from "../kept/indexes.ts"
import { ServerKeys } from "../kept/layout.ts"
import { beyondReach, firstTimer } from "../timers/firing.ts"

/** A wrong clock costs about a minute (rule T2). Every process of a tenant looks so often, and up to half as long again. */
const LOOK_MILLIS = 50_000

/** Servers that one look goes through. */
const SERVERS = 10

/** Wake-ups of a definition that one look reads: at the far end, and further on. */
const FAR_WAKES = 10

const looking = new WeakSet<object>()

/** Looks again and again, as long as the tenant's layer has hosts. */
export const repair = (tenant: Tenant["Service"]): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (looking.has(tenant)) return Effect.void
    looking.add(tenant)
    const run = keepRunning("hosts", "the look for servers without an entry", looks(tenant))
    return Effect.asVoid(Effect.forkIn(Effect.interruptible(run), tenant.scope))
  })

/** Where the look at the wake-ups of each definition goes on. */
type Cursors = Map<string, Uint8Array>

const looks = (tenant: Tenant["Service"]): Effect.Effect<never> => {
  const cursors: Cursors = new Map()
  const hosts = Context.get(tenant.services, LocalHostsOf)
  const names = () => hosts === undefined ? [] : [...hosts.keys()]
  const look = Effect.suspend(() => {
    const hosted = names()
    if (hosted.length === 0) return Effect.void
    return Effect.andThen(
      transact(tenant, lookAtServers(new Set(hosted))),
      Effect.forEach(hosted, (name) => transact(tenant, lookAtWakes(name, cursors)), { discard: true })
    )
  })
  const safe = Effect.catchCause(
    look,
    (cause) => logWarning("the look for servers without an entry failed, it is tried again", cause)
  )
  const pause = Effect.flatMap(Random.nextBetween(LOOK_MILLIS, 1.5 * LOOK_MILLIS), (millis) => Effect.sleep(millis))
  return Effect.forever(Effect.andThen(pause, safe))
}

const cursorKey = (tenant: Uint8Array): Uint8Array => Tuple.pack(["repair"], libraryPrefix(tenant))

/** Goes through some servers (2). */
const lookAtServers = Effect.fnUntraced(
  function*(hosted: ReadonlySet<string>): Effect.fn.Return<void, never, Transaction> {
    const state = yield* Transaction
    const prefix = serversPrefix(state.prefix)
    const { begin, end } = Tuple.range([], prefix)
    let at = (yield* state.get(cursorKey(state.prefix))) ?? begin
    for (let count = 0; count < SERVERS; count++) {
      const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
      if (row === undefined) {
        at = begin
        break
      }
      const tuid = tuidOfKey(row.key, prefix, 0)
      if (tuid === undefined) at = Buffer.concat([row.key, Uint8Array.of(0)])
      else {
        yield* lookAtServer(state, tuid, hosted)
        at = Tuple.strinc(Tuple.pack([tuid], prefix))
      }
    }
    state.set(cursorKey(state.prefix), at)
  }
)

/** Gives a server an entry that it should have and has not. */
const lookAtServer = Effect.fnUntraced(function*(
  state: TransactionState,
  tuid: Tuple.Tuple,
  hosted: ReadonlySet<string>
): Effect.fn.Return<void> {
  const unnamed = new ServerKeys(state.prefix, tuid, { name: "", hosted: true })
  const [stored, head, [item], first] = yield* Effect.all([
    state.get(unnamed.name, true),
    state.get(unnamed.head, true),
    Queue.peek(state, unnamed, 1),
    firstTimer(state, unnamed)
  ], { concurrency: "unbounded" })
  const message = item?.message ?? first?.timer?.message
  const envelope = message && Result.getOrUndefined(Envelopes.decode(message))
  const name = stored === undefined ? envelope?.server : Buffer.from(stored).toString()
  if (name === undefined || !hosted.has(name)) return
  const keys = new ServerKeys(state.prefix, tuid, { name, hosted: true })
  if ((yield* state.get(keys.place.entry, true)) !== undefined) return
  if (item !== undefined || hasLock(head)) return giveWork(state, keys.place)
  if (first === undefined) return
  const wake = readWake(yield* state.get(keys.wake, true))
  const row = keys.place.indexes.wake(wake ?? 0, tuid)
  const isWoken = wake !== undefined && wake <= first.due && (yield* state.get(row, true)) !== undefined
  if (!isWoken) wakeUp(state, keys, row)
})

/** Whether a server is locked, or has messages that are kept beside its queue. */
const hasLock = (bytes: Uint8Array | undefined): boolean => {
  const head = bytes === undefined ? undefined : Result.getOrUndefined(Heads.decode(bytes))
  return head !== undefined && Heads.kept(head) > 0
}

/** Wakes servers whose first timer lies further ahead than it can reach: at the far end first, and further on each time. */
const lookAtWakes = Effect.fnUntraced(
  function*(name: string, cursors: Cursors): Effect.fn.Return<void, never, Transaction> {
    const state = yield* Transaction
    const indexes = indexesOf(state.prefix, name)
    const { begin, end } = Tuple.range([], indexes.wakes)
    const page = (until: Uint8Array) =>
      state.getRange(begin, until, { limit: FAR_WAKES, reverse: true, snapshot: true })
    const far = yield* page(end)
    const on = far.length < FAR_WAKES ? [] : yield* page(cursors.get(name) ?? far.at(-1)!.key)
    if (on.length < FAR_WAKES) cursors.delete(name)
    else cursors.set(name, on.at(-1)!.key)
    for (const { key } of [...far, ...on]) {
      const tuid = tuidOfKey(key, indexes.wakes, 1)
      if (tuid === undefined) continue
      const keys = new ServerKeys(state.prefix, tuid, { name, hosted: true })
      if ((yield* beyondReach(state, keys)).length === 0) continue
      // as one that is due: it is gone if the server is, or was woken by another process
      if ((yield* state.get(key)) !== undefined) wakeUp(state, keys, key)
    }
  }
)

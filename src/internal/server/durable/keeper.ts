/**
 * What keeps the durable actions of a definition going where nobody else would: actions that no version of the program
 * declares any more, and fronts that lead nowhere, because somebody removed or damaged their jobs.
 *
 * Owner: one fiber a worker. Several processes do the same work in turn: who comes second finds nothing.
 *
 * 1. The jobs of a tag that this version does not declare belong to one that does. When one of them has been due for
 *    `UNKNOWN_GRACE_MILLIS`, by this process's own watch, and none of the tag was taken meanwhile or runs, those that are due
 *    are dead: what waits behind them goes on, and they can be put back.
 * 2. A front whose job is not there, or has ended, is passed over: the next row becomes the job.
 * 3. A look is bounded, and pages go on where the last one stopped.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { passedMillis } from "../../jobs/background/time.ts"
import { keysOf, type Place } from "../../jobs/definition/model.ts"
import { failRun } from "../../jobs/kept/lifecycle.ts"
import { hasEnded } from "../../jobs/kept/parents.ts"
import { tryLoad } from "../../jobs/kept/places.ts"
import { decode } from "../../jobs/kept/row.ts"
import { list } from "../../jobs/operations/listing.ts"
import { logError, logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { Definition } from "../definition/model.ts"
import { textOfTuid } from "../kept/layout.ts"
import { ChainKeys, DAMAGED, readFront, step, typeOf } from "./chain.ts"
import { modelOfTag, modelsOf } from "./jobs.ts"
import { tagsIn } from "./operations.ts"

/** How long an action of a tag that nobody takes stands before it is set aside: as for messages and jobs. */
export const UNKNOWN_GRACE_MILLIS = 10 * 60_000

/** Nothing depends on the minute. */
const LOOK_MILLIS = 60_000

/** Fronts that one transaction looks at. */
const PAGE_LIMIT = 100

/** Jobs that one transaction sets aside. */
const BURY_LIMIT = 50

/** What was seen of a tag that this version does not declare: how many jobs of it were taken, and since when. */
interface Sighting {
  readonly taken: number
  readonly sinceMillis: number
}

const placeOf = (state: TransactionState, definition: Definition, tag: string): Place => ({
  model: modelOfTag(definition, tag),
  state,
  keys: keysOf(state.prefix, typeOf(definition.name, tag))
})

/** The first jobs of a tag that are due, and wait to be taken. */
const dueOf = (
  { model, state }: Place,
  limit: number
): Effect.Effect<ReadonlyArray<Tuple.Element>, never, Transaction> =>
  Effect.map(
    Effect.orDie(list(model, { state: "pending", limit })),
    ({ jobs }) => jobs.filter(({ scheduledAt }) => scheduledAt <= state.timeMillis).map(({ id }) => id)
  )

/** How many jobs of a tag were ever taken, if some wait to be taken and none runs; else `undefined`. */
const stands = Effect.fnUntraced(
  function*(place: Place): Effect.fn.Return<number | undefined, never, Transaction> {
    const { keys, state } = place
    const running = Tuple.range([], keys.seqs)
    const [runs, due, taken] = yield* Effect.all([
      state.getRange(running.begin, running.end, { limit: 1, snapshot: true }),
      dueOf(place, 1),
      state.get(keys.move("pending", "running"), true)
    ], { concurrency: "unbounded" })
    return runs.length > 0 || due.length === 0 ? undefined : Counters.read(taken)
  }
)

/** Makes dead jobs of those of a tag that are due, a bounded number; succeeds with how many. */
const bury = Effect.fnUntraced(
  function*(definition: Definition, tag: string): Effect.fn.Return<number, never, Transaction> {
    const state = yield* Transaction
    const place = placeOf(state, definition, tag)
    const error = `nobody has taken it for ${UNKNOWN_GRACE_MILLIS / 60_000} minutes: ` +
      (tag === DAMAGED
        ? "its row could not be read"
        : `no version of ${definition.name} that runs has the durable action "${tag}". Put it back when one does`)
    const ids = yield* dueOf(place, BURY_LIMIT)
    for (const id of ids) {
      const row = yield* tryLoad(place, id)
      if (row === undefined || row === "unreadable" || row.state !== "pending") continue
      yield* failRun(place, id, row, { error, nextAt: undefined })
    }
    return ids.length
  }
)

/** Looks after the actions of tags that this version does not declare (1). */
const lookAfterUnknown = Effect.fnUntraced(function*(
  tenant: Tenant["Service"],
  definition: Definition,
  sightings: Map<string, Sighting>
): Effect.fn.Return<void, BackendError> {
  const known = modelsOf(definition)
  const found = yield* transact(
    tenant,
    Effect.flatMap(
      Transaction,
      (state) =>
        Effect.flatMap(tagsIn(state, definition.name), (tags) =>
          Effect.forEach(
            tags.filter((tag) => !known.has(tag)),
            (tag) => Effect.map(stands(placeOf(state, definition, tag)), (taken) => ({ tag, taken }))
          ))
    )
  )
  const now = yield* passedMillis
  for (const { tag, taken } of found) {
    const seen = sightings.get(tag)
    if (taken === undefined) sightings.delete(tag)
    else if (seen?.taken !== taken) sightings.set(tag, { taken, sinceMillis: now })
    else if (now - seen.sinceMillis >= UNKNOWN_GRACE_MILLIS) {
      yield* logError(
        `${definition.name}: nobody takes the durable action "${tag}", which this version does not have: those that are due ` +
          "are dead. Put them back when a version that has it runs"
      )
      while ((yield* transact(tenant, bury(definition, tag))) > 0) yield* Effect.yieldNow
      sightings.delete(tag)
    }
  }
})

/** Looks at a page of fronts (2); succeeds with where the next one begins. */
const lookAtFronts = (definition: Definition, from: Uint8Array | undefined) =>
  Effect.gen(function*() {
    const state = yield* Transaction
    const keys = new ChainKeys(state.prefix, definition.name)
    const { begin, end } = Tuple.range([], keys.fronts)
    const rows = yield* state.getRange(from ?? begin, end, { limit: PAGE_LIMIT, snapshot: true })
    const lost: Array<Tuple.Tuple> = []
    for (const { key } of rows) {
      const tuid = tuidOfFront(keys, key)
      if (tuid !== undefined && (yield* isLost(state, definition, tuid, key))) lost.push(tuid)
    }
    return { lost, next: rows.length < PAGE_LIMIT ? undefined : Keys.next(rows.at(-1)!.key) }
  })

const tuidOfFront = (keys: ChainKeys, key: Uint8Array): Tuple.Tuple | undefined => {
  const found = Tuple.unpackResult(key, keys.fronts.length)
  const [tuid] = found._tag === "Success" ? found.success : []
  return Array.isArray(tuid) ? tuid : undefined
}

/** Whether a front leads nowhere. By snapshot at first: almost none does. */
const isLost = Effect.fnUntraced(function*(
  state: TransactionState,
  definition: Definition,
  tuid: Tuple.Tuple,
  key: Uint8Array
): Effect.fn.Return<boolean> {
  const look = Effect.fnUntraced(function*(isSnapshot: boolean): Effect.fn.Return<boolean> {
    const bytes = yield* state.get(key, isSnapshot)
    if (bytes === undefined) return false
    const front = readFront(bytes)
    if (front === undefined) return true
    const place = placeOf(state, definition, front.tag)
    const stored = yield* state.get(place.keys.job(front.id), isSnapshot)
    const row = stored && decode(stored)
    return stored === undefined || row !== undefined && hasEnded(row.state)
  })
  if (!(yield* look(true)) || !(yield* look(false))) return false
  yield* step(state, definition.name, tuid)
  return true
})

const repair = Effect.fnUntraced(
  function*(tenant: Tenant["Service"], definition: Definition): Effect.fn.Return<void, BackendError> {
    let from: Uint8Array | undefined
    do {
      const { lost, next } = yield* transact(tenant, lookAtFronts(definition, from))
      for (const tuid of lost) {
        yield* logWarning(
          `${definition.name} ${textOfTuid(tuid)}: its durable action was removed or damaged, and the next one goes on`
        )
      }
      from = next
      yield* Effect.yieldNow
    } while (from !== undefined)
  }
)

/** Looks again and again. */
export const keeper = (tenant: Tenant["Service"], definition: Definition): Effect.Effect<never> =>
  Effect.suspend(() => {
    const sightings = new Map<string, Sighting>()
    const look = Effect.andThen(lookAfterUnknown(tenant, definition, sightings), repair(tenant, definition))
    const told = Effect.catchTag(
      look,
      "BackendError",
      (error) => logWarning(`${definition.name}: looking after durable actions failed, it is tried again`, error)
    )
    const rest = Effect.flatMap(Random.nextBetween(0.8, 1.2), (jitter) => Effect.sleep(jitter * LOOK_MILLIS))
    return Effect.forever(Effect.andThen(told, rest))
  })

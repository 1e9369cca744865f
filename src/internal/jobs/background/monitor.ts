/**
 * The activity monitor: jobs whose holder went silent for the type's timeout are pending again (rule J3); jobs that ended
 * and have stayed for their retention are removed.
 *
 * Owner: one fiber a type and tenant layer, started by whoever processes or watches the type, in the tenant's scope.
 *
 * 1. No two clocks are compared. The monitor notes the newest activity entry and when it has seen it. When the timeout
 *    has passed since, every entry up to the noted one belongs to a holder that was silent for that long: a sign of life
 *    would have moved it. What passes is measured in the time of its own process that nobody can set.
 *    A holder that has shown no sign of life since the stored timeout was changed may not have heard of the change: it has
 *    the new timeout from when the monitor has seen the change, and `HEAR_MILLIS` to hear of it.
 * 2. Notes are made every quarter of the timeout, so that a dead holder is found within about one and a half. While
 *    nothing runs the monitor waits for a change.
 * 3. A pass is bounded in jobs and in bytes; one that fails is repeated, smaller, and later ones grow again while they
 *    succeed. A note is dropped only when a pass finds nothing left of it.
 *    A row that cannot be read is passed over.
 * 4. A pass reads row and `seq` of each job, so that a sign of life that commits meanwhile wins.
 * 5. It ends when nobody uses the type in this process, nothing of it runs, and nothing waits for its removal.
 * 6. What is left to tell of ends is told (kept/telling.ts, 3): a look beside the others, and fibers of its own.
 * 7. Several monitors do the same work in turn: their rhythm has a jitter, and who comes second finds nothing.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { render } from "../definition/errors.ts"
import { type JobKeys, STAMP_BYTES } from "../definition/layout.ts"
import { type Model, type Place, retryDelay } from "../definition/model.ts"
import { touchedOf } from "../kept/lateWrites.ts"
import { expire } from "../kept/lifecycle.ts"
import { PartLimit, Share } from "../kept/passLimits.ts"
import { prefetch, tryLoad } from "../kept/places.ts"
import { removeEnded } from "../kept/removal.ts"
import type { Row } from "../kept/row.ts"
import * as Settings from "../kept/settings.ts"
import { hasUntold, startTelling } from "../kept/telling.ts"
import type { Hub } from "./hub.ts"
import type { Seen } from "./sharedWatch.ts"
import { clockShows, passedMillis } from "./time.ts"

/** After a failed pass the next one waits for so long. */
const PAUSE_MILLIS = 250

const NOTES_PER_TIMEOUT = 4

/** Within so long every living process hears of a change of the timeout: by a bell, so this is for busy ones. */
const HEAR_MILLIS = 3_000

/** While nobody uses the type but the jobs that run, it looks after a change, but not more often than this. */
const ALONE_MILLIS = 50

/** Notes of a type whose timeout was made longer pile up to here. */
const NOTES_LIMIT = 1_000

interface Note {
  readonly stamp: Uint8Array
  /** When it was seen, by the time that passes. */
  readonly atMillis: number
}

/** What a monitor remembers. */
interface Memory {
  readonly notes: Array<Note>
  /** The last change of the timeout, and when it was seen, by the time that passes. */
  changed: { readonly stamp: Uint8Array; readonly atMillis: number } | undefined
}

interface Look {
  /** Whose options the whole turn goes by, whoever is followed by its end. */
  readonly model: Model
  readonly timeoutMillis: number
  /** The newest activity entry; `undefined` when nothing runs. */
  readonly stamp: Uint8Array | undefined
  /** The last change of the timeout, if somebody holds a job that he showed no sign of life of since. */
  readonly changedStamp: Uint8Array | undefined
  /** When the next job that ended has stayed long enough; `Infinity` when there is none. */
  readonly removalAt: number
  /** Some who wait for jobs that ended have not been told. */
  readonly areUntold: boolean
  readonly seen: Seen
  /** The same of the bell that rings when the timeout is changed. */
  readonly revoked: Seen
}

const look = (hub: Hub): Effect.Effect<Look, BackendError> =>
  Effect.suspend(() => {
    const sees = [hub.changed.see(), hub.revoked.see()] as const
    return transact(hub.tenant, Effect.flatMap(Transaction, (state) => lookIn(state, hub, sees)))
  })

/** Whether the longest silent holder was heard of last before the timeout was changed. */
const isBefore = ({ keys, state }: Omit<Place, "model">, changed: Uint8Array): Effect.Effect<boolean> =>
  Effect.map(
    state.getRange(keys.activity, Tuple.strinc(keys.activity), { limit: 1, snapshot: true }),
    ([oldest]) => oldest !== undefined && Tuple.compareBytes(oldest.key.subarray(keys.activity.length), changed) < 0
  )

const ENDS = ["finished", "dead"] as const
type End = (typeof ENDS)[number]

const retentionOf = (model: Model, end: End): number =>
  end === "dead" ? model.deadRetentionMillis : model.retentionMillis

/** When the first job that ended so has stayed long enough; `Infinity` when there is none. */
const firstRemoval = (state: TransactionState, keys: JobKeys, model: Model, end: End): Effect.Effect<number> => {
  const retentionMillis = retentionOf(model, end)
  if (retentionMillis === Infinity) return Effect.succeed(Infinity)
  const range = keys.endedOf(end)
  return Effect.map(
    state.getRange(range.begin, range.end, { limit: 1, snapshot: true }),
    ([oldest]) => oldest === undefined ? Infinity : keys.endedAt(oldest.key) + retentionMillis
  )
}

const lookIn = Effect.fnUntraced(function*(
  state: TransactionState,
  { followed: model, keys }: Hub,
  [see, seeRevoked]: readonly [(bell: Uint8Array | undefined) => Seen, (bell: Uint8Array | undefined) => Seen]
): Effect.fn.Return<Look> {
  const bell = yield* state.get(keys.changedBell, true)
  const revoked = yield* state.get(keys.revokedBell, true)
  const { timeoutMillis } = yield* Settings.read({ model, state, keys })
  const changed = yield* state.get(keys.timeoutChanged, true)
  const end = Tuple.strinc(keys.activity)
  const [newest] = yield* state.getRange(keys.activity, end, { limit: 1, reverse: true, snapshot: true })
  const removals = yield* Effect.forEach(ENDS, (end) => firstRemoval(state, keys, model, end), { concurrency: 2 })
  return {
    model,
    timeoutMillis,
    stamp: newest?.key.slice(keys.activity.length),
    changedStamp: changed !== undefined && (yield* isBefore({ state, keys }, changed)) ? changed : undefined,
    removalAt: Math.min(...removals),
    areUntold: yield* hasUntold({ state, keys }),
    seen: see(bell),
    revoked: seeRevoked(revoked)
  }
})

interface Passed {
  /** Rows that are gone from the range. */
  readonly done: number
  /** Rows that cannot be read, and stay. */
  readonly left: number
}

const NOTHING: Passed = { done: 0, left: 0 }

/** A step of a sweep: does its work for at most so many rows of a range, behind `skip` others. */
type Pass = (place: Place, limit: number, skip: number) => Effect.Effect<Passed>

/** A row of a range, and the id that it names: `undefined` when it names none. */
interface Entry {
  readonly key: Uint8Array
  readonly id: Tuple.Element | undefined
}

/** Runs `use` on the job of each entry, until the transaction has done its share. */
const passOver = Effect.fnUntraced(function*(
  hub: Hub,
  place: Place,
  entries: ReadonlyArray<Entry>,
  areRunning: boolean,
  use: (id: Tuple.Element, row: Row | undefined, entry: Uint8Array) => Effect.Effect<unknown>
): Effect.fn.Return<Passed> {
  yield* prefetch(place, () => entries.flatMap(({ id }) => id === undefined ? [] : [id]), areRunning)
  let done = 0
  let left = 0
  const share = new Share(place.state)
  for (const { id, key } of entries) {
    const row = id === undefined ? "unreadable" : yield* tryLoad(place, id)
    if (id === undefined || row === "unreadable") {
      if (id !== undefined) yield* hub.tellUnreadable(id)
      left++
      continue
    }
    yield* use(id, row, key)
    done++
    share.did(row?.parents?.count ?? 0)
    if (share.isDone) break
  }
  return { done, left }
})

const expirePass = (hub: Hub, upTo: Uint8Array): Pass => (place, limit, skip) => {
  const { keys, model, state } = place
  const end = Keys.next(keys.activityEntry(upTo))
  const expireOne = (id: Tuple.Element, row: Row | undefined, entry: Uint8Array) => {
    const stored = touchedOf(state).storedEntry(keys, id)
    const isOwn = stored !== undefined && Tuple.equalsBytes(stored, entry.subarray(entry.length - STAMP_BYTES))
    if (row?.state !== "running" || !isOwn) return Effect.sync(() => state.clear(entry))
    const silent = new Error(`job ${render(id)}: its holder gave no sign of life`)
    return Effect.flatMap(
      retryDelay(model, row.attempts, state.timeMillis, silent),
      (delay) => expire(place, id, row, delay !== undefined)
    )
  }
  return Effect.flatMap(state.getRange(keys.activity, end, { limit: skip + limit, snapshot: true }), (rows) => {
    const entries = rows.slice(skip).map(({ key, value }) => ({ key, id: keys.unpackId(value) }))
    return passOver(hub, place, entries, true, expireOne)
  })
}

const retentionPass = (hub: Hub, ended: End): Pass => (place, limit, skip) => {
  const { keys, model, state } = place
  const upTo = Math.floor(state.timeMillis - retentionOf(model, ended))
  if (!Number.isSafeInteger(upTo)) return Effect.succeed(NOTHING)
  const { begin } = keys.endedOf(ended)
  const end = keys.endedBefore(ended, upTo)
  return Effect.flatMap(state.getRange(begin, end, { limit: skip + limit, snapshot: true }), (rows) => {
    const entries = rows.slice(skip).map(({ key }) => ({ key, id: keys.lastOf(key, keys.ended) }))
    return passOver(hub, place, entries, false, (id, row, entry) => removeEnded(place, id, row, entry, ended))
  })
}

/** Repeats a pass until it finds nothing (3). A row that always fails is passed over, so that others are not held up. */
const sweep = Effect.fnUntraced(function*(hub: Hub, model: Model, pass: Pass) {
  const limit = new PartLimit()
  let skip = 0
  for (;;) {
    const body = Effect.flatMap(
      Transaction,
      (state) => pass({ model, state, keys: hub.keys }, limit.jobs, skip)
    )
    const exit = yield* Effect.exit(transact(hub.tenant, body))
    if (Exit.isSuccess(exit)) {
      const { done, left } = exit.value
      skip += left
      if (done + left === 0) return
      limit.succeeded()
      continue
    }
    const error = exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
    if (limit.jobs === 1 && error?.isRetryable !== true) skip++
    limit.failed(limit.jobs)
    yield* logWarning(
      `jobs of type ${render(hub.type)}: a pass of the monitor failed, repeating it with ${limit.jobs} jobs`,
      exit.cause
    )
    yield* Effect.sleep(PAUSE_MILLIS)
  }
})

/** One turn, and the rest after it; it is over when nobody and nothing needs the monitor. */
const turn = Effect.fnUntraced(function*(
  hub: Hub,
  memory: Memory
): Effect.fn.Return<"again" | "over", BackendError> {
  const isUnused = hub.watchUses()
  const { areUntold, changedStamp, model, removalAt, revoked, seen, stamp, timeoutMillis } = yield* look(hub)
  if (areUntold) startTelling(hub.tenant, hub.type, yield* Effect.context<never>())
  const { notes } = memory
  const passed = yield* passedMillis
  const now = yield* Clock.currentTimeMillis
  const latest = notes.at(-1)
  if (stamp !== undefined && (latest === undefined || Tuple.compareBytes(stamp, latest.stamp) > 0)) {
    if (notes.length < NOTES_LIMIT) notes.push({ stamp, atMillis: passed })
  }
  const heardMillis = hearingEnds(memory, changedStamp, passed)
  const ripeAt = ({ atMillis }: Note) => Math.max(atMillis, heardMillis) + timeoutMillis
  let ripe = 0
  while (ripe < notes.length && ripeAt(notes[ripe]!) <= passed) ripe++
  if (ripe > 0) {
    yield* sweep(hub, model, expirePass(hub, notes[ripe - 1]!.stamp))
    notes.splice(0, ripe)
  }
  if (removalAt <= now) yield* Effect.forEach(ENDS, (end) => sweep(hub, model, retentionPass(hub, end)))
  // nothing runs: nothing can become stale before something changes
  if (stamp === undefined && removalAt > now) {
    notes.length = 0
    if (!hub.isUsed && (removalAt === Infinity || !model.hasOwnRetention)) return isUnused() ? "over" : "again"
    const change = Effect.raceAllFirst([hub.changed.changed(seen), hub.otherFollowed(model), leftAlone(hub)])
    yield* removalAt === Infinity ? change : Effect.raceFirst(change, clockShows(removalAt))
  }
  const rest = (yield* Random.nextBetween(0.8, 1)) * timeoutMillis / NOTES_PER_TIMEOUT
  const oldest = notes[0]
  const due = oldest === undefined ? rest : Math.min(rest, Math.max(0, ripeAt(oldest) - passed))
  // both bells tell of another timeout
  const bell = hub.isUsed
    ? hub.revoked.changed(revoked)
    : Effect.delay(hub.changed.changed(seen), ALONE_MILLIS)
  yield* Effect.raceAllFirst([Effect.sleep(due), hub.otherFollowed(model), bell])
  return "again"
})

/** When all living holders have heard of the last change of the timeout (1); `-Infinity` if none has still to. */
const hearingEnds = (memory: Memory, stamp: Uint8Array | undefined, passed: number): number => {
  if (stamp === undefined) return -Infinity
  if (memory.changed === undefined || !Tuple.equalsBytes(memory.changed.stamp, stamp)) {
    memory.changed = { stamp, atMillis: passed }
  }
  return memory.changed.atMillis + HEAR_MILLIS
}

/** Ends when nobody uses the hub any more besides its monitor; never when nobody does already. */
const leftAlone = (hub: Hub): Effect.Effect<void> => Effect.suspend(() => hub.isUsed ? hub.leftAlone : Effect.never)

/** Starts the monitor of a type, unless it runs. */
export const startMonitor = (hub: Hub): Effect.Effect<void> =>
  hub.monitored(Effect.suspend(() => {
    const memory: Memory = { notes: [], changed: undefined }
    const step = Effect.catchCause(turn(hub, memory), (cause) =>
      Effect.as(
        Effect.andThen(
          logWarning(`jobs of type ${render(hub.type)}: the monitor failed, trying again`, cause),
          Effect.sleep(PAUSE_MILLIS)
        ),
        "again" as const
      ))
    return Effect.forever(
      Effect.flatMap(step, (found) => found === "over" ? Effect.andThen(hub.unneeded, Effect.yieldNow) : Effect.void)
    )
  }))

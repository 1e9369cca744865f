/**
 * Where a job lies: its row read, and the store's indexes brought from one row to another. They follow from the row alone:
 * `change` writes them, and nothing else does.
 *
 * 1. A pending job lies in the pending queue or, while its key has no place, among the parked ones of the key, or, while
 *    it waits for other jobs, among those that wait (telling.ts). A running job has a lock and an activity entry, and
 *    holds a place of its key. A finished or dead job lies in `ended`.
 * 2. Every write of a holder reads the row and compares the lock first (rule J2): what a holder that lost its job tries
 *    to write is not there.
 * 3. Whatever takes a job of a key out of the pending queue or out of running, but for `accept` itself, brings one
 *    parked job of the key back into the queue; `accept` parks it again if there is no place. Whoever ends the last
 *    run of a key clears the key's counter.
 * 4. An entry of an index whose row is gone, or says that the job lies elsewhere, is cleared by who meets it, and the
 *    job that it stood for leaves its state. Only damage leaves such entries behind: that of a row, and its removal.
 * 5. The bell "pending" rings when a job enters the queue or a place becomes free, "changed" when a subscriber could see
 *    a difference, "revoked" when a running job is taken from its holder.
 */
import * as Effect from "effect/Effect"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { Halt, unreadable } from "../definition/errors.ts"
import type { JobKeys, State } from "../definition/layout.ts"
import { byUrgency, type Place } from "../definition/model.ts"
import { touchedOf } from "./lateWrites.ts"
import { decode, type Row, writeRow } from "./row.ts"

/**
 * The row of a job, for those who look at many: one that cannot be read is `"unreadable"`, and not theirs to touch. One
 * that runs is prepared for whatever happens to it.
 */
export const tryLoad = ({ keys, state }: Place, id: Tuple.Element): Effect.Effect<Row | undefined | "unreadable"> =>
  Effect.flatMap(state.get(keys.job(id)), (bytes): Effect.Effect<Row | undefined | "unreadable"> => {
    if (bytes === undefined) return Effect.undefined
    const row = decode(bytes)
    if (row === undefined) return Effect.succeed("unreadable" as const)
    return row.state === "running" ? Effect.as(touchedOf(state).prepare(keys, id), row) : Effect.succeed(row)
  })

/** Asks a far store at once of jobs that are loaded one after another, and of what the running ones of them need. */
export const prefetch = (
  { keys, state }: Place,
  ids: () => ReadonlyArray<Tuple.Element>,
  areRunning: boolean
): Effect.Effect<void> =>
  state.prefetch(() => ids().flatMap((id) => areRunning ? [keys.job(id), keys.seq(id)] : [keys.job(id)]))

/** The row of a job that the caller names. One that cannot be read is a defect. */
export const load = (place: Place, id: Tuple.Element): Effect.Effect<Row | undefined> =>
  Effect.flatMap(
    tryLoad(place, id),
    (row) => row === "unreadable" ? Effect.die(unreadable(place.model.type, id)) : Effect.succeed(row)
  )

/** The row of a job that its caller holds, or the refusal (2). */
export const loadHeld = (place: Place, id: Tuple.Element, lock: Uint8Array): Effect.Effect<Row, Halt> =>
  Effect.flatMap(
    tryLoad(place, id),
    (row) =>
      row !== undefined && row !== "unreadable" && row.state === "running" && row.lock !== undefined &&
        Tuple.equalsBytes(row.lock, lock)
        ? Effect.succeed(row)
        : Effect.fail(new Halt({ type: place.model.type, id }))
  )

const leave = (state: TransactionState, keys: JobKeys, id: Tuple.Element, row: Row): void => {
  const entry = entryOf(keys, id, row)
  if (entry !== undefined) return state.clear(entry)
  touchedOf(state).mark(keys, id, false)
  if (row.key !== undefined) state.add(keys.held(row.key), Counters.MINUS_ONE)
}

const enter = (state: TransactionState, keys: JobKeys, id: Tuple.Element, row: Row): void => {
  const entry = entryOf(keys, id, row)
  if (entry !== undefined) {
    if (row.state === "pending" && !row.isParked && !isWaiting(row)) touchedOf(state).ring(keys.pendingBell)
    return state.set(entry, EMPTY)
  }
  touchedOf(state).mark(keys, id, true)
  if (row.key !== undefined) state.add(keys.held(row.key), Counters.PLUS_ONE)
}

const EMPTY = new Uint8Array(0)

const samePlace = (a: Row, b: Row): boolean =>
  a.state === b.state && (a.state === "running" ||
    (a.state === "pending" && a.priority === b.priority && a.scheduledAt === b.scheduledAt &&
      a.order === b.order && a.isParked === b.isParked && isWaiting(a) === isWaiting(b)))

/** Whether a job waits for the end of others. */
export const isWaiting = ({ parents, state }: Row): boolean =>
  state === "pending" && parents !== undefined && parents.waits > 0

/** Where the entry of a job that does not run lies; `undefined` for one that runs. */
export const entryOf = (keys: JobKeys, id: Tuple.Element, row: Row): Uint8Array | undefined => {
  switch (row.state) {
    case "pending":
      if (isWaiting(row)) return keys.waitingJob(id)
      if (row.order === undefined) {
        return row.isParked ? keys.parkedJob(row.key!, { id, ...row }) : keys.pendingJob({ id, ...row })
      }
      return row.isParked
        ? keys.parkedNowJob(row.key!, { id, ...row, order: row.order })
        : keys.nowJob({ id, ...row, order: row.order })
    case "running":
      return undefined
    default:
      return keys.endedJob(row.state, row.endedAt, id)
  }
}

/** Whether an entry is that of its job, whose row was read. */
export const isEntryOf = (keys: JobKeys, id: Tuple.Element, row: Row | undefined, entry: Uint8Array): boolean => {
  const own = row === undefined ? undefined : entryOf(keys, id, row)
  return own !== undefined && Tuple.equalsBytes(own, entry)
}

/** Clears an entry that is not its job's (4). Who reads the row and the entry does so once, whoever else meets it. */
export const clearOrphan = ({ keys, state }: Place, entry: Uint8Array, from: State): Effect.Effect<void> =>
  Effect.map(state.get(entry), (found) => {
    if (found === undefined) return
    state.clear(entry)
    state.add(keys.move(from, "none"), Counters.PLUS_ONE)
  })

/** Brings a job from one row to another, with all that follows from it (1, 5). */
export const change = (
  { keys, model, state }: Place,
  id: Tuple.Element,
  before: Row | undefined,
  after: Row | undefined
): void => {
  const stays = before !== undefined && after !== undefined && samePlace(before, after)
  if (!stays) {
    if (before !== undefined) leave(state, keys, id, before)
    if (after !== undefined) enter(state, keys, id, after)
  }
  const from = before?.state ?? "none"
  const to = after?.state ?? "none"
  if (from !== to) state.add(keys.move(from, to), Counters.PLUS_ONE)
  writeRow(state, keys, id, before, after)
  // nobody can wait for changes of a job that was not there
  if (before !== undefined && before.revision !== after?.revision) touchedOf(state).ring(keys.changedBell)
  if (from === "running" && to !== "running" && model.maxRunning !== Infinity) touchedOf(state).ring(keys.pendingBell)
}

/** The same, and a parked job of the key gets its chance (3). */
export const changeAndUnpark = (
  place: Place,
  id: Tuple.Element,
  before: Row,
  after: Row | undefined
): Effect.Effect<void> => {
  change(place, id, before, after)
  const { key } = before
  if (key === undefined) return Effect.void
  return before.state === "running" ? Effect.andThen(clearHeld(place, key), unpark(place, key)) : unpark(place, key)
}

/**
 * The counter of a key of which nothing runs any more is cleared: keys may be as many as jobs. Only who ends the last
 * run of a key reads it in a way that conflicts.
 */
export const clearHeld = ({ keys, state }: Place, key: Tuple.Element): Effect.Effect<void> => {
  const at = keys.held(key)
  const ifNone = (isSnapshot: boolean, then: Effect.Effect<void>) =>
    Effect.flatMap(state.get(at, isSnapshot), (bytes) => Counters.read(bytes) <= 0 ? then : Effect.void)
  return ifNone(true, ifNone(false, Effect.sync(() => state.clear(at))))
}

/** What is parked of a key, by kind: each is in its order. */
const parkedRanges = (keys: JobKeys, key: Tuple.Element): ReadonlyArray<Tuple.KeyRange> => [
  keys.parkedNowOf(key),
  keys.parkedOf(key)
]

/**
 * The first parked job of a key goes back into the queue; one that cannot be read stays where it is. Jobs that were due at
 * once stand in the order of their commits, those that were due at a time in that of their times; clocks decide only
 * between the two.
 */
export const unpark = Effect.fnUntraced(function*(place: Place, key: Tuple.Element) {
  const { keys, model, state } = place
  const compare = byUrgency(model)
  const ranges = parkedRanges(keys, key).map(({ begin, end }) => ({ begin, end }))
  for (;;) {
    const firsts = yield* Effect.forEach(
      ranges,
      (range) => Effect.map(state.getRange(range.begin, range.end, { limit: 1 }), ([first]) => ({ range, first })),
      { concurrency: "unbounded" }
    )
    const [next] = firsts.flatMap(({ first, range }) => {
      if (first === undefined) return []
      return [{ range, entry: first.key, at: keys.parkedPlaceOf(first.key) }]
    }).sort((a, b) => a.at === undefined || b.at === undefined ? 0 : compare(a.at, b.at))
    if (next === undefined) return
    const { at, entry, range } = next
    const row = at === undefined ? "unreadable" : yield* tryLoad(place, at.id)
    if (row !== "unreadable") {
      if (isEntryOf(keys, at!.id, row, entry)) return change(place, at!.id, row, { ...row!, isParked: false })
      yield* clearOrphan(place, entry, "pending")
    }
    range.begin = Keys.next(entry)
  }
})

/**
 * What a job that is due at once is ordered by: what was committed before this transaction began has a lower number, what
 * begins after its commit a higher one, whatever the clocks of their processes show.
 */
export const orderNow = ({ state }: Place): Effect.Effect<number> => Effect.map(state.readVersion, Number)

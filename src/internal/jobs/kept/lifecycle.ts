/**
 * The states of a job and the changes between them, as steps of a transaction. The store's indexes follow from the row
 * alone: `change` brings them from one row to another, and nothing else writes them.
 *
 * 1. A pending job lies in the pending queue or, while its key has no place, among the parked ones of the key. A
 *    running job has a lock and an activity entry, and holds a place of its key. A finished or dead job lies in `ended`.
 * 2. Every write of a holder reads the row and compares the lock first (rule J2): what a holder that lost its job tries
 *    to write is not there.
 * 3. An operation that fails has written nothing, so that a transaction may go on after it.
 * 4. Whatever takes a job of a key out of the pending queue or out of running, but for `accept` itself, brings one
 *    parked job of the key back into the queue; `accept` parks it again if there is no place. Whoever ends the last
 *    run of a key clears the key's counter.
 * 5. An entry of an index whose row is gone, or says that the job lies elsewhere, is cleared by who meets it, and the
 *    job that it stood for leaves its state. Only damage leaves such entries behind: that of a row, and its removal.
 * 6. The bell "pending" rings when a job enters the queue or a place becomes free, "changed" when a subscriber could see
 *    a difference, "revoked" when a running job is taken from its holder.
 */
import * as Effect from "effect/Effect"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import type { Trace } from "../../data/trace.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { Halt, unreadable } from "../definition/errors.ts"
import type { JobKeys, State } from "../definition/layout.ts"
import type { Place } from "../definition/model.ts"
import { touchedOf } from "./lateWrites.ts"
import { countOnCommit } from "./metrics.ts"
import { reportFailure } from "./reports.ts"
import { bodyOf, decode, readData, type Row, writeRow } from "./row.ts"

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
    if (row.state === "pending" && !row.isParked) touchedOf(state).ring(keys.pendingBell)
    return state.set(entry, EMPTY)
  }
  touchedOf(state).mark(keys, id, true)
  if (row.key !== undefined) state.add(keys.held(row.key), Counters.PLUS_ONE)
}

const EMPTY = new Uint8Array(0)

const samePlace = (a: Row, b: Row): boolean =>
  a.state === b.state && (a.state === "running" ||
    (a.state === "pending" && a.priority === b.priority && a.scheduledAt === b.scheduledAt &&
      a.order === b.order && a.isParked === b.isParked))

/** Where the entry of a job that does not run lies; `undefined` for one that runs. */
export const entryOf = (keys: JobKeys, id: Tuple.Element, row: Row): Uint8Array | undefined => {
  switch (row.state) {
    case "pending":
      if (row.isParked) return keys.parkedJob(row.key!, { id, ...row })
      return row.order === undefined ? keys.pendingJob({ id, ...row }) : keys.nowJob({ id, ...row, order: row.order })
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

/** Clears an entry that is not its job's (5). Who reads the row and the entry does so once, whoever else meets it. */
export const clearOrphan = ({ keys, state }: Place, entry: Uint8Array, from: State): Effect.Effect<void> =>
  Effect.map(state.get(entry), (found) => {
    if (found === undefined) return
    state.clear(entry)
    state.add(keys.move(from, "none"), Counters.PLUS_ONE)
  })

/** Brings a job from one row to another, with all that follows from it (1, 6). */
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

/** The same, and a parked job of the key gets its chance (4). */
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

/** The first parked job of a key goes back into the queue; one that cannot be read stays where it is. */
export const unpark = Effect.fnUntraced(function*(place: Place, key: Tuple.Element) {
  const { keys, state } = place
  const { begin, end } = keys.parkedOf(key)
  let from = begin
  for (;;) {
    const [first] = yield* state.getRange(from, end, { limit: 1 })
    if (first === undefined) return
    const id = keys.lastOf(first.key, keys.parked)
    const row = id === undefined ? "unreadable" : yield* tryLoad(place, id)
    if (row !== "unreadable") {
      if (isEntryOf(keys, id!, row, first.key)) return change(place, id!, row, { ...row!, isParked: false })
      yield* clearOrphan(place, first.key, "pending")
    }
    from = Keys.next(first.key)
  }
})

/**
 * What a job that is due at once is ordered by: what was committed before this transaction began has a lower number, what
 * begins after its commit a higher one, whatever the clocks of their processes show.
 */
export const orderNow = ({ state }: Place): Effect.Effect<number> => Effect.map(state.readVersion, Number)

const next = (row: Row): Pick<Row, "revision"> => ({ revision: row.revision + 1 })

/** A row in which nobody holds the job. */
const released = (row: Row, state: State): Row => ({ ...row, ...next(row), state, lock: undefined, isParked: false })

/** What a new job's row says. */
export const newRow = (options: {
  readonly data: Uint8Array
  readonly priority: number
  readonly scheduledAt: number
  readonly key: Tuple.Element | undefined
  readonly addedAt: number
  readonly order: number | undefined
  readonly trace: Trace | undefined
}): Row => ({
  state: "pending",
  lock: undefined,
  priority: options.priority,
  scheduledAt: options.scheduledAt,
  isParked: false,
  resubmit: undefined,
  attempts: 0,
  key: options.key,
  addedAt: options.addedAt,
  endedAt: 0,
  revision: 0,
  error: "",
  order: options.order,
  trace: options.trace,
  unreadableSince: undefined,
  silentEnds: 0,
  hasSlot: false,
  body: bodyOf(options.data)
})

/** A job begins to run. */
export const start = (place: Place, id: Tuple.Element, row: Row, lock: Uint8Array): Row => {
  const attempts = row.attempts + 1
  const running: Row = { ...row, ...next(row), state: "running", lock, attempts, unreadableSince: undefined }
  change(place, id, row, running)
  return running
}

/** A sign of life, with or without new data for this run. */
export const renew = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  data: Uint8Array | undefined
): Effect.Effect<Row> => {
  touchedOf(place.state).mark(place.keys, id, true)
  if (data === undefined) return Effect.succeed(row)
  return Effect.map(row.body.nextBytes === -1 ? NO_NEXT : readData(place.state, place.keys, id, row), (stored) => {
    const after = { ...row, ...next(row), body: bodyOf(data, stored.next) }
    change(place, id, row, after)
    return after
  })
}

const NO_NEXT = Effect.succeed({ next: undefined as Uint8Array | undefined })

/** The run that a resubmission asked for while the job ran, with its data and its time. */
const nextRun = (place: Place, id: Tuple.Element, row: Row, data: Uint8Array | undefined): Effect.Effect<Row> =>
  Effect.zipWith(
    data !== undefined && row.body.nextBytes === -1 ? NO_NEXT : readData(place.state, place.keys, id, row),
    row.resubmit?.scheduledAt === undefined ? orderNow(place) : Effect.undefined,
    (stored, order) => ({
      ...released(row, "pending"),
      scheduledAt: row.resubmit?.scheduledAt ?? row.scheduledAt,
      order,
      resubmit: undefined,
      attempts: 0,
      error: "",
      silentEnds: 0,
      body: stored.next !== undefined ? bodyOf(stored.next) : data !== undefined ? bodyOf(data) : row.body
    })
  )

/** A run has ended well. Succeeds with the state that the job is in now; without one, it is gone. */
export const complete = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  data: Uint8Array | undefined
): Effect.Effect<State | undefined> => {
  const { model, state } = place
  const counted = countOnCommit(state, model.type, "finished")
  if (row.resubmit !== undefined) {
    return Effect.flatMap(
      Effect.andThen(counted, nextRun(place, id, row, data)),
      (after) => Effect.as(changeAndUnpark(place, id, row, after), "pending" as const)
    )
  }
  const after: Row | undefined = model.retentionMillis === 0 ? undefined : {
    ...released(row, "finished"),
    order: undefined,
    endedAt: state.timeMillis,
    error: "",
    silentEnds: 0,
    body: data === undefined ? row.body : bodyOf(data)
  }
  return Effect.as(Effect.andThen(counted, changeAndUnpark(place, id, row, after)), after?.state)
}

/** How a run ended that did not end well. */
export interface Failed {
  readonly error: string
  /** When the next attempt is; there is none without it. */
  readonly nextAt: number | undefined
  /** Nobody ended the run: its holder went silent. */
  readonly isSilent?: boolean
}

/** A run has failed: the job waits for its next attempt, or is dead when there is none. */
export const failRun = (place: Place, id: Tuple.Element, row: Row, failed: Failed): Effect.Effect<State> => {
  const { error, isSilent = false, nextAt } = failed
  const silentEnds = isSilent ? row.silentEnds + 1 : 0
  const ended: Effect.Effect<Row> = nextAt !== undefined
    ? Effect.map(
      // a silent end leaves the job where it stood
      isSilent ? Effect.succeed(row.order) : nextAt <= place.state.timeMillis ? orderNow(place) : Effect.undefined,
      (order) => ({ ...released(row, "pending"), scheduledAt: nextAt, order, error, silentEnds })
    )
    // whoever resubmitted it asked for another run, however this one ended
    : row.resubmit !== undefined
    ? nextRun(place, id, row, undefined)
    : Effect.succeed({ ...released(row, "dead"), order: undefined, endedAt: place.state.timeMillis, error, silentEnds })
  return Effect.flatMap(ended, (after) =>
    Effect.as(
      Effect.andThen(reportFailure(place, id, row, after, error), changeAndUnpark(place, id, row, after)),
      after.state
    ))
}

/** The first and the longest pause before a job with data that could not be read is looked at again. */
const UNREAD_PAUSE_MIN_MILLIS = 1_000
const UNREAD_PAUSE_MAX_MILLIS = 30_000

/**
 * The data of a pending job cannot be read by the version at hand. Another one may be able to: the job waits for it, with
 * growing pauses, until the grace of its type is over since the first meeting, and is dead then.
 */
export const putOff = (place: Place, id: Tuple.Element, row: Row, error: string): Effect.Effect<unknown> => {
  const { model, state: { timeMillis } } = place
  const since = row.unreadableSince ?? timeMillis
  const waited = timeMillis - since
  if (waited >= model.unreadableGraceMillis) {
    return failRun(place, id, { ...row, unreadableSince: undefined }, { error, nextAt: undefined })
  }
  const pause = Math.min(UNREAD_PAUSE_MAX_MILLIS, Math.max(UNREAD_PAUSE_MIN_MILLIS, waited))
  const scheduledAt = timeMillis + Math.min(pause, Math.ceil(model.unreadableGraceMillis - waited))
  change(place, id, row, { ...row, scheduledAt, order: undefined, unreadableSince: since, error })
  return Effect.void
}

/** A holder gives its job back: it is pending at once, and the attempt does not count. */
export const handBack = (place: Place, id: Tuple.Element, row: Row): Effect.Effect<void> =>
  changeAndUnpark(place, id, row, { ...released(row, "pending"), attempts: Math.max(0, row.attempts - 1) })

/** A holder was silent for too long: the attempt counts, the job is pending at once if it has another one. */
export const expire = (place: Place, id: Tuple.Element, row: Row, hasNext: boolean): Effect.Effect<State> => {
  touchedOf(place.state).ring(place.keys.revokedBell)
  const error = `its holder gave no sign of life for the type's timeout (attempt ${row.attempts})`
  return failRun(place, id, row, { error, nextAt: hasNext ? row.scheduledAt : undefined, isSilent: true })
}

/** A pending job has another priority or key, and its place in the queue follows. */
export const moveTo = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  to: Pick<Row, "priority" | "key">
): Effect.Effect<void> => {
  const isSameKey = to.key === row.key
  const after: Row = {
    ...row,
    ...next(row),
    ...to,
    isParked: row.isParked && isSameKey,
    hasSlot: row.hasSlot && isSameKey
  }
  // a parked job of the old key has no more chance than before: this one held no place
  return Effect.sync(() => change(place, id, row, after))
}

interface Asked {
  readonly scheduledAt: number | undefined
  readonly data: Uint8Array | undefined
}

/** Whether all that is asked for has been asked for before. */
const isAsked = (place: Place, id: Tuple.Element, row: Row, { data, scheduledAt }: Asked): Effect.Effect<boolean> => {
  const isRunning = row.state === "running"
  const asked = isRunning ? row.resubmit : row.state === "pending" ? row : undefined
  if (asked === undefined || (scheduledAt !== undefined && asked.scheduledAt !== scheduledAt)) {
    return Effect.succeed(false)
  }
  if (data === undefined) return Effect.succeed(true)
  if ((isRunning ? row.body.nextBytes : row.body.dataBytes) !== data.length) return Effect.succeed(false)
  return Effect.map(readData(place.state, place.keys, id, row), (stored) => {
    const before = isRunning ? stored.next : stored.data
    return before !== undefined && Tuple.equalsBytes(before, data)
  })
}

/** Another run is asked for: at once or at its time if the job does not run, after this run if it does (rule J5). */
export const askAgain = (place: Place, id: Tuple.Element, row: Row, asked: Asked): Effect.Effect<Row> =>
  Effect.flatMap(
    isAsked(place, id, row, asked),
    (isThere) => isThere ? Effect.succeed(row) : askAnew(place, id, row, asked)
  )

const askAnew = (place: Place, id: Tuple.Element, row: Row, options: Asked): Effect.Effect<Row> => {
  const { data, scheduledAt } = options
  if (row.state === "running") {
    return Effect.map(
      data === undefined ? Effect.undefined : readData(place.state, place.keys, id, row),
      (stored) => {
        const after: Row = {
          ...row,
          resubmit: { scheduledAt: scheduledAt ?? row.resubmit?.scheduledAt },
          body: stored === undefined ? row.body : bodyOf(stored.data, data)
        }
        change(place, id, row, after)
        return after
      }
    )
  }
  const isPending = row.state === "pending"
  // with other data there is no reason any more to wait for who can read it
  const isUnread = data !== undefined && row.unreadableSince !== undefined
  const keepsTime = isPending && !isUnread && (scheduledAt ?? row.scheduledAt) === row.scheduledAt
  const order = keepsTime ? Effect.succeed(row.order) : scheduledAt === undefined ? orderNow(place) : Effect.undefined
  const asked = (order: number | undefined): Row => ({
    ...released(row, "pending"),
    order,
    isParked: keepsTime && row.isParked,
    scheduledAt: scheduledAt ?? (isPending && !isUnread ? row.scheduledAt : place.state.timeMillis),
    attempts: isPending ? row.attempts : 0,
    endedAt: 0,
    error: isPending && !isUnread ? row.error : "",
    unreadableSince: isPending && !isUnread ? row.unreadableSince : undefined,
    silentEnds: isPending ? row.silentEnds : 0,
    hasSlot: isPending && row.hasSlot && scheduledAt === undefined,
    body: data === undefined ? row.body : bodyOf(data)
  })
  return Effect.flatMap(order, (now) => {
    const after = asked(now)
    return Effect.as(changeAndUnpark(place, id, row, after), after)
  })
}

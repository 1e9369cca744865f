/**
 * Taking jobs from the pending queue.
 *
 * Owner: the caller's fiber owns its transaction and its claims; claims are given back on every way out.
 *
 * 1. Candidates are looked for by snapshot; each that is taken has its row read, so two that take one job conflict, and
 *    one of them runs again: never do two hold a job.
 * 2. Of the due jobs the highest priority is taken first, and of these the one that was due first. Fibers of one
 *    process leave each other's candidates alone. Where processes meet, they choose among the next `spread` ones.
 * 3. A job whose key has no free place is parked, so that no later look meets it again (see kept/places.ts, 3).
 * 4. A job whose data cannot be read is put off, and dead in the end, and nobody waits for it. One whose row cannot be read is passed over: it
 *    may be a newer version's. An entry of the queue that is no job's is cleared (kept/places.ts, 4).
 * 5. Who finds nothing waits for the bell, seen in the same transaction as the queue, or for the earliest time at which
 *    a job will be due by the clock, however that is set meanwhile: not for a poll.
 * 6. A job that is suspected of killing its process is taken alone (solitude.ts), or left and told of.
 */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { type Hub, usedHub } from "../background/hub.ts"
import { startMonitor } from "../background/monitor.ts"
import type { Seen } from "../background/sharedWatch.ts"
import { clockShows, passedMillis } from "../background/time.ts"
import type { InvalidOption } from "../definition/errors.ts"
import { decodeData, type Model, optionsOf, patienceOf, type Place } from "../definition/model.ts"
import { type Job, makeJob } from "../kept/job.ts"
import { putOff, start } from "../kept/lifecycle.ts"
import { countOnCommit } from "../kept/metrics.ts"
import { change, clearOrphan, isEntryOf, prefetch, tryLoad } from "../kept/places.ts"
import * as Rates from "../kept/rates.ts"
import { readData, type Row } from "../kept/row.ts"
import * as Settings from "../kept/settings.ts"
import { release, timeOf } from "../operations/operations.ts"
import { type Entry, Queue } from "./queue.ts"
import { isSuspect, type Suspect } from "./solitude.ts"

/** The fewest rows of the queue that a look reads. */
const PAGE_ROWS_LIMIT = 16

/** So many entries one transaction parks or clears at the most; the next look goes on. */
const SET_ASIDE_LIMIT = 200

/** So many suspects one look passes: who met one waits until it can run alone. */
const LEAVE_LIMIT = 200

/** Data that one transaction takes: many long jobs would not be read within its five seconds. */
const TAKE_BYTES_LIMIT = 8_000_000

/** What a transaction writes when it takes no more: far from its limit, however long ids and keys are. */
const WRITE_BYTES_LIMIT = 4_000_000

/** Far beyond any time that a job can have. */
const NEVER = Infinity

export interface Wanted {
  readonly limit: number
  /** Jobs due up to here, in milliseconds since 1970; those due now if absent. */
  readonly maxScheduledTime: number | undefined
  /** Something runs beside them: a suspect is left (6). */
  readonly isBusy?: boolean
  /** This one alone is taken, if it is still there. */
  readonly suspect?: Suspect | undefined
}

export interface Taken {
  readonly jobs: ReadonlyArray<Job<any>>
  /** What was stored of each of them. */
  readonly rows: ReadonlyArray<Row>
  /** What the bell showed when there was nothing (more) to take. */
  readonly seen: Seen
  /** When the next job will be due, `Infinity` if none is known. */
  readonly nextAt: number
  /** There may be more to take at once. */
  readonly isCut: boolean
  /** How long a holder may be silent. */
  readonly timeoutMillis: number
  readonly isPaused: boolean
  /** A job that was left because it should run alone (6). */
  readonly suspect: Suspect | undefined
  /** The job that was taken should run alone. */
  readonly isAlone: boolean
}

const UNLIMITED: Rates.Allowed = { jobs: Infinity, nextAt: NEVER }

/** The candidates of one look, and where it stopped. */
class Search {
  readonly jobs: Array<Job<any>> = []
  readonly rows: Array<Row> = []
  suspect: Suspect | undefined
  /** Suspects that were left. */
  left = 0
  /** Nothing more may be taken beside what was. */
  isAlone = false
  /** Entries that were parked, or cleared. */
  setAside = 0
  /** How often something was written of the rate of a key. */
  rated = 0
  bytes = 0
  readonly place: Place
  readonly hub: Hub
  readonly isBusy: boolean
  /** What this transaction has claimed so far. */
  readonly claimed: Array<string>
  /** So many candidates are passed over at first. */
  skip: number

  constructor(place: Place, hub: Hub, isBusy: boolean, claimed: Array<string>, skip: number) {
    this.place = place
    this.hub = hub
    this.isBusy = isBusy
    this.claimed = claimed
    this.skip = skip
  }

  /** Whether this transaction has done its share. */
  isFull(limit: number): boolean {
    return this.isAlone || this.jobs.length >= limit || this.setAside >= SET_ASIDE_LIMIT ||
      this.left >= LEAVE_LIMIT || this.bytes >= TAKE_BYTES_LIMIT ||
      this.place.state.size >= WRITE_BYTES_LIMIT
  }

  /** Whether a key has a free place, counting what this transaction took. */
  hasPlace(key: Tuple.Element): Effect.Effect<boolean> {
    const limit = this.place.model.maxRunningPerKey
    if (limit === Infinity) return Effect.succeed(true)
    return Effect.map(this.place.state.get(this.place.keys.held(key)), (bytes) => Counters.read(bytes) < limit)
  }
}

/** The fencing token of a run: the transaction's own number, and the run's place in it. */
const makeLock = (state: TransactionState, index: number): Uint8Array => {
  const lock = new Uint8Array(state.operationId.length + 2)
  lock.set(state.operationId)
  Keys.writeUint16(lock, state.operationId.length, index)
  return lock
}

const running = ({ keys, state }: Place): Effect.Effect<number> => {
  const { begin, end } = Tuple.range([], keys.runMoves)
  return Effect.map(state.getRange(begin, end), (rows) => {
    let count = 0
    for (const row of rows) {
      const [from, to] = Tuple.unpack(row.key, keys.runMoves.length)
      if (to === "running") count += Counters.read(row.value)
      if (from === "running") count -= Counters.read(row.value)
    }
    return count
  })
}

/** Takes one candidate, parks it, or leaves it. */
const takeOne = Effect.fnUntraced(function*(search: Search, pendingKey: Uint8Array, id: Tuple.Element) {
  const { place } = search
  const row = yield* tryLoad(place, id)
  if (row === "unreadable") return yield* search.hub.tellUnreadable(id)
  if (row === undefined || !isEntryOf(place.keys, id, row, pendingKey)) {
    search.setAside++
    return yield* clearOrphan(place, pendingKey, "pending")
  }
  // whoever takes jobs before their time must not take this one up without a pause
  if (row.unreadableSince !== undefined && row.scheduledAt > place.state.timeMillis) return
  if (row.key !== undefined && !(yield* search.hasPlace(row.key))) {
    change(place, id, row, { ...row, isParked: true })
    search.setAside++
    return
  }
  if (yield* isSuspect(place.model, row, place.state.timeMillis)) {
    if (search.isBusy || search.jobs.length > 0) {
      search.suspect ??= { pendingKey, id }
      search.left++
      return
    }
    search.isAlone = true
  }
  const rate = place.model.rateLimitPerKey
  if (rate !== undefined && row.key !== undefined) {
    const slot = yield* Rates.beginOfKey(place, rate, row.key, row)
    search.rated++
    if (slot !== undefined) {
      search.isAlone = false
      // whoever takes jobs before their time gives none another slot for it
      if (row.hasSlot && row.scheduledAt > place.state.timeMillis) {
        search.left++
        return
      }
      search.setAside++
      return change(place, id, row, { ...row, scheduledAt: slot, order: undefined, hasSlot: true })
    }
  }
  const { data } = yield* readData(place.state, place.keys, id, row)
  search.bytes += data.length
  const decoded = decodeData(place.model, id, data)
  if (Result.isFailure(decoded)) {
    search.isAlone = false
    search.setAside++
    const { message } = decoded.failure
    yield* search.hub.tellUnreadable(id, `${message}. It waits for a version of the program that can read it`)
    yield* putOff(place, id, row, message)
    return
  }
  const lock = makeLock(place.state, search.jobs.length)
  const started: Row = start(place, id, row, lock)
  search.jobs.push(makeJob(place.model.type, id, lock, started, decoded.success))
  search.rows.push(started)
  yield* countOnCommit(place.state, place.model.type, "taken")
})

/** Walks the queue, one priority after the other, until enough is taken. */
const walk = Effect.fnUntraced(function*(search: Search, limit: number, queue: Queue) {
  const { hub } = search
  const passed: Array<Entry> = []
  for (;;) {
    if (queue.isShort) {
      const left = limit - search.jobs.length
      yield* queue.fill(Math.max(PAGE_ROWS_LIMIT, left + hub.spread + hub.claims.size) + 1)
      // the jobs that will be tried, as far as one can know
      const isFree = ({ key }: Entry) => !hub.claims.has(Keys.toText(key))
      const candidates = () =>
        queue.upcoming(search.skip + left, isFree).slice(search.skip).map(({ place }) => place.id)
      yield* prefetch(search.place, candidates, false)
    }
    const entry = queue.shift()
    if (entry === undefined) break
    if (hub.claims.has(Keys.toText(entry.key))) continue
    if (search.skip > 0) {
      search.skip--
      passed.push(entry)
      continue
    }
    yield* claim(search, entry.key, entry.place.id)
    if (search.isFull(limit)) return true
  }
  // fewer were there than the choice allowed for
  for (const { key, place } of passed) {
    if (search.isFull(limit)) return true
    if (!hub.claims.has(Keys.toText(key))) yield* claim(search, key, place.id)
  }
  return search.isFull(limit)
})

const claim = (search: Search, key: Uint8Array, id: Tuple.Element): Effect.Effect<void> => {
  const text = Keys.toText(key)
  search.hub.claims.add(text)
  search.claimed.push(text)
  return takeOne(search, key, id)
}

/** The step of a transaction that takes jobs. `claimed` is given back by whoever runs the transaction. */
export const take = Effect.fnUntraced(function*(
  hub: Hub,
  model: Model,
  state: TransactionState,
  wanted: Wanted,
  claimed: Array<string>
): Effect.fn.Return<Taken> {
  const place: Place = { model, state, keys: hub.keys }
  const see = hub.pending.see()
  const [settings, bell] = yield* Effect.all([
    Settings.read(place),
    state.get(hub.keys.pendingBell, true)
  ], { concurrency: "unbounded" })
  const { timeoutMillis } = settings
  const { isPaused } = settings
  const none: Taken = {
    jobs: [],
    rows: [],
    seen: see(bell),
    nextAt: NEVER,
    isCut: false,
    timeoutMillis,
    isPaused,
    suspect: undefined,
    isAlone: false
  }
  if (isPaused) return none
  const { maxRunning } = model
  const free = maxRunning === Infinity ? wanted.limit : Math.min(wanted.limit, maxRunning - (yield* running(place)))
  if (free <= 0) return none
  const { rateLimit } = model
  const rate = rateLimit === undefined ? UNLIMITED : yield* Rates.allowed(place, rateLimit)
  if (rate.jobs === 0) return { ...none, nextAt: rate.nextAt }
  const skip = hub.spread === 0 ? 0 : yield* Random.nextIntBetween(0, hub.spread)
  const search = new Search(place, hub, wanted.isBusy === true, claimed, skip)
  if (wanted.suspect !== undefined) {
    const { id, pendingKey } = wanted.suspect
    if (!hub.claims.has(Keys.toText(pendingKey))) yield* claim(search, pendingKey, id)
    yield* countStarts(search)
    return { ...none, jobs: search.jobs, rows: search.rows, isCut: true, isAlone: search.isAlone }
  }
  const isFixed = wanted.maxScheduledTime !== undefined
  const queue = new Queue(place, wanted.maxScheduledTime ?? state.timeMillis, isFixed)
  const isFull = yield* walk(search, Math.min(free, rate.jobs), queue)
  const isCut = isFull && search.left < LEAVE_LIMIT
  // a fixed limit does not move with the clock: what lies beyond it never becomes due
  const nextAt = isFixed ? NEVER : queue.nextAt
  const { isAlone, jobs, rows, suspect } = search
  yield* countStarts(search)
  return { ...none, jobs, rows, nextAt, isCut, suspect, isAlone }
})

/** Writes down what the rates count, and clears what they count no more. */
const countStarts = Effect.fnUntraced(function*({ jobs, place, rated }: Search) {
  const { rateLimit, rateLimitPerKey } = place.model
  if (rateLimit !== undefined && jobs.length > 0) yield* Rates.began(place, rateLimit, jobs.length)
  if (rateLimitPerKey !== undefined) yield* Rates.clearEnded(place, rateLimitPerKey, rated)
})

/** Gives claims back. Who left one alone that was not taken is told to look again. */
export const unclaim = (hub: Hub, claimed: Array<string>, wereTaken: boolean): void => {
  if (claimed.length === 0) return
  for (const text of claimed) hub.claims.delete(text)
  claimed.length = 0
  if (!wereTaken) hub.pending.wakeAll()
}

/** Runs a transaction that takes jobs, besides what else `body` does in it. */
export const taking = <A>(
  hub: Hub,
  body: (state: TransactionState, claimed: Array<string>) => Effect.Effect<A>,
  accepted: (value: A) => void
): Effect.Effect<A, BackendError> =>
  Effect.suspend(() => {
    const claimed: Array<string> = []
    let wasRetried = false
    const run = Effect.flatMap(Transaction, (state) => {
      unclaim(hub, claimed, true)
      return body(state, claimed)
    })
    return Effect.onExit(
      transact(hub.tenant, run, {
        accepted,
        retried: (error) => {
          if (error.reason._tag !== "Conflict") return
          wasRetried = true
          hub.conflicted()
        }
      }),
      (exit) =>
        Effect.sync(() => {
          unclaim(hub, claimed, exit._tag === "Success")
          if (exit._tag === "Success" && !wasRetried) hub.succeeded()
        })
    )
  })

/** Waits until a look can find what the last one did not (5). */
export const waitForMore = (hub: Hub, { nextAt, seen }: Taken): Effect.Effect<void> =>
  nextAt === NEVER
    ? hub.pending.changed(seen)
    : Effect.raceFirst(hub.pending.changed(seen), clockShows(nextAt))

/** One look for one job. A job that was taken for a caller who is gone meanwhile is handed back. */
const lookForOne = (
  hub: Hub,
  model: Model,
  maxScheduledTime: number | undefined
): Effect.Effect<Taken, BackendError> =>
  Effect.suspend(() => {
    let taken: ReadonlyArray<Job<any>> = []
    return Effect.onInterrupt(
      taking(
        hub,
        (state, claimed) => take(hub, model, state, { limit: 1, maxScheduledTime }, claimed),
        (value) => {
          taken = value.jobs
        }
      ),
      () => Effect.forEach(taken, (job) => Effect.ignore(transact(hub.tenant, release(model, job))))
    )
  })

/** Takes one job, waiting for one until the time limit is over; a look that began is not cut short by it. */
const acceptOne = Effect.fnUntraced(function*(
  hub: Hub,
  model: Model,
  maxScheduledTime: number | undefined,
  timeoutMillis: number
): Effect.fn.Return<Option.Option<Job<any>>, BackendError> {
  const deadline = (yield* passedMillis) + timeoutMillis
  for (;;) {
    const taken = yield* lookForOne(hub, model, maxScheduledTime)
    if (taken.jobs.length > 0) return Option.some(taken.jobs[0]!)
    const left = deadline - (yield* passedMillis)
    if (left <= 0) return Option.none()
    if (taken.isCut) continue
    const more = waitForMore(hub, taken)
    yield* left === Infinity ? more : Effect.timeoutOption(more, left)
  }
})

interface AcceptOptions {
  readonly maxScheduledTime?: DateTime.DateTime.Input | undefined
  readonly timeout?: Duration.Input | undefined
}

export const accept = (
  model: Model,
  input: AcceptOptions | undefined
): Effect.Effect<Option.Option<Job<any>>, InvalidOption | BackendError, Tenant> =>
  Effect.scoped(accepting(model, input))

const accepting = Effect.fnUntraced(function*(
  model: Model,
  input: AcceptOptions | undefined
): Effect.fn.Return<Option.Option<Job<any>>, InvalidOption | BackendError, Tenant | Scope.Scope> {
  const hub = yield* usedHub(model)
  const options = yield* optionsOf(model, input)
  const maxScheduledTime = yield* timeOf(model, "maxScheduledTime", options.maxScheduledTime)
  const timeoutMillis = yield* patienceOf(model, options.timeout)
  hub.follow(model)
  yield* startMonitor(hub)
  return yield* acceptOne(hub, model, maxScheduledTime, timeoutMillis)
})

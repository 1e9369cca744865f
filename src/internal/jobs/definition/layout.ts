/**
 * Where the jobs of a type lie in their tenant. Type and id are each one element of a tuple, so that no type's prefix
 * contains another's, and no job's another's (rule R6).
 *
 * ```
 * <library> "j" <type> "job" <id>                        the row, see kept/row.ts
 *                      "piece" <id> <n>                  data that does not fit the row
 *                      "now" <-priority> <order> <ms> <id>
 *                                                        jobs that wait and were due at once, in the order of commits;
 *                                                        pages of pending jobs begin here, so it sorts before the queue
 *                      "pending" <-priority> <ms> <id>   jobs that wait for a time, in the order they are due
 *                      "pending-parked" <key> <-priority> <ms> <id>
 *                                                        jobs that wait for a place of their key; pages of pending
 *                                                        jobs go on here, so it sorts behind the queue
 *                      "pending-parked-now" <key> <-priority> <order> <ms> <id>
 *                                                        the same of jobs that were due at once
 *                      "pending-waits" <id>              jobs that wait for the end of others; the last part of such pages
 *                      "parent" <id> <n>                 the jobs that a job waits for, or waited for, and how they ended
 *                      "parent-data" <id> <n>            what they left, if it is short
 *                      "family" <id>                     the name of those who wait for a job in this life of it
 *                      "children" <family> <type> <id>   they, with the number that the job has among what they wait for
 *                      "ends" <family>                   how a job ended of which not all children have been told
 *                      "held" <key>                      how many jobs of a key run
 *                      "rate"                            when runs of the type began lately, see kept/rates.ts
 *                      "rate" <key>                      when runs of a key did, and which slots were given
 *                      "rate-end" <ms> <key>             when that may be cleared
 *                      "seq" <id>                        a running job's entry below: 12 bytes
 *                      "activity" <12 bytes>             running jobs by their last sign of life: versionstamp and number
 *                      "ended" <state> <ms> <id>         finished and dead jobs by the time they ended
 *                      "moves" "run" <from> <to>         counters of the changes into and out of running
 *                      "moves" "rest" <from> <to>        counters of all other changes
 *                      "bell" "pending"                  changes when a job may be taken that could not before
 *                      "bell" "changed"                  changes when a job's state or data does
 *                      "bell" "revoked"                  changes when somebody takes a running job from its holder
 *                      "settings"                        stored timeout, pause
 *                      "timeout-changed"                 the versionstamp of the last change of the stored timeout
 *                      "bell" "schedules"                changes when somebody changes a schedule from outside
 *                      "record"                          what of the data is redacted, see kept/record.ts
 *                      "cron" <name>                     what a schedule has seen to, see schedules/row.ts
 * ```
 *
 * The activity entry carries the versionstamp of the commit that wrote it, so that how long a holder has been silent is
 * seen without comparing the clocks of two machines.
 */
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { libraryPrefix } from "../../tenant/layout.ts"

/** Ten bytes of the commit, two of the place within it. */
export const STAMP_BYTES = 12

/** The states as the store holds them: their place in this list. */
export const STATES = ["pending", "running", "finished", "dead"] as const

export type State = (typeof STATES)[number]

export const isState = (value: unknown): value is State => STATES.includes(value as State)

/**
 * A position in the pending queue: the order in which jobs are taken. The priority is negated by a subtraction: `-0` is
 * another element than `0`.
 */
export interface Place {
  readonly priority: number
  readonly scheduledAt: number
  readonly id: Tuple.Element
}

/** The position of a job that was due at once when it came: the version that its commit began with, instead of a clock. */
export interface NowPlace extends Place {
  readonly order: number
}

/**
 * Names those who wait for a job, in one life of it: a job that is added again under the same id has another family. The
 * version that its transaction began with, and the place within it.
 */
export type Family = readonly [version: number, place: number]

/** The keys of one type in one tenant. */
export class JobKeys {
  readonly prefix: Uint8Array
  readonly jobs: Uint8Array
  readonly pieces: Uint8Array
  readonly now: Uint8Array
  readonly pending: Uint8Array
  readonly parked: Uint8Array
  readonly rate: Uint8Array
  readonly rateEnds: Uint8Array
  readonly seqs: Uint8Array
  readonly activity: Uint8Array
  readonly ended: Uint8Array
  readonly moves: Uint8Array
  readonly runMoves: Uint8Array
  readonly pendingBell: Uint8Array
  readonly changedBell: Uint8Array
  readonly revokedBell: Uint8Array
  readonly settings: Uint8Array
  readonly #moves = new Map<string, Uint8Array>()
  #lastId: Tuple.Element | undefined
  #lastJob: Uint8Array | undefined

  /** Throws a `TupleError` when the type cannot be a key. */
  constructor(tenantPrefix: Uint8Array, type: Tuple.Element) {
    const under = (...elements: Tuple.Tuple) => Tuple.pack(elements, this.prefix)
    this.prefix = Tuple.pack(["j", type], libraryPrefix(tenantPrefix))
    this.jobs = under("job")
    this.pieces = under("piece")
    this.now = under("now")
    this.pending = under("pending")
    this.parked = under("pending-parked")
    this.rate = under("rate")
    this.rateEnds = under("rate-end")
    this.seqs = under("seq")
    this.activity = under("activity")
    this.ended = under("ended")
    this.moves = under("moves")
    this.runMoves = under("moves", "run")
    this.pendingBell = under("bell", "pending")
    this.changedBell = under("bell", "changed")
    this.revokedBell = under("bell", "revoked")
    this.settings = under("settings")
  }

  // keys are kept for every type that was used: those that few types need are made when they are

  get schedulesBell(): Uint8Array {
    return Tuple.pack(["bell", "schedules"], this.prefix)
  }

  get schedules(): Uint8Array {
    return Tuple.pack(["cron"], this.prefix)
  }

  get waits(): Uint8Array {
    return Tuple.pack(["pending-waits"], this.prefix)
  }

  get ends(): Uint8Array {
    return Tuple.pack(["ends"], this.prefix)
  }

  get timeoutChanged(): Uint8Array {
    return Tuple.pack(["timeout-changed"], this.prefix)
  }

  /** An id as the value of an activity entry. */
  packId(id: Tuple.Element): Uint8Array {
    return Tuple.pack([id])
  }

  /** `undefined` for a value that is no id. */
  unpackId(value: Uint8Array): Tuple.Element | undefined {
    return Result.getOrElse(Tuple.unpackResult(value), () => [])[0]
  }

  /** What happens to a job asks for its key again and again. An id that its owner can change is not remembered. */
  job(id: Tuple.Element): Uint8Array {
    if (this.#lastJob !== undefined && Object.is(id, this.#lastId)) return this.#lastJob
    const key = Tuple.pack([id], this.jobs)
    if (typeof id === "object") return key
    this.#lastId = id
    return this.#lastJob = key
  }

  piece(id: Tuple.Element, index: number): Uint8Array {
    return Tuple.pack([id, index], this.pieces)
  }

  piecesOf(id: Tuple.Element): Tuple.KeyRange {
    return Tuple.range([id], this.pieces)
  }

  pendingJob({ id, priority, scheduledAt }: Place): Uint8Array {
    return Tuple.pack([0 - priority, scheduledAt, id], this.pending)
  }

  nowJob({ id, order, priority, scheduledAt }: NowPlace): Uint8Array {
    return Tuple.pack([0 - priority, order, scheduledAt, id], this.now)
  }

  /** Where the next lower priority begins, among jobs of `now` or of `pending`. */
  below(prefix: Uint8Array, priority: number): Uint8Array {
    return Tuple.pack([1 - priority], prefix)
  }

  /** `undefined` for a key that is no position. */
  placeOf(pendingKey: Uint8Array): Place | undefined {
    const place = Tuple.unpackResult(pendingKey, this.pending.length)
    if (Result.isFailure(place) || place.success.length !== 3) return undefined
    const [negated, scheduledAt, id] = place.success
    return Number.isSafeInteger(negated) && typeof scheduledAt === "number"
      ? { priority: 0 - (negated as number), scheduledAt, id: id! }
      : undefined
  }

  /** The same of a job that was due at once. */
  nowPlaceOf(nowKey: Uint8Array): Place | undefined {
    const place = Tuple.unpackResult(nowKey, this.now.length)
    if (Result.isFailure(place) || place.success.length !== 4) return undefined
    const [negated, , scheduledAt, id] = place.success
    return Number.isSafeInteger(negated) && typeof scheduledAt === "number"
      ? { priority: 0 - (negated as number), scheduledAt, id: id! }
      : undefined
  }

  parkedJob(key: Tuple.Element, { id, priority, scheduledAt }: Place): Uint8Array {
    return Tuple.pack([key, 0 - priority, scheduledAt, id], this.parked)
  }

  parkedOf(key: Tuple.Element): Tuple.KeyRange {
    return Tuple.range([key], this.parked)
  }

  get parkedNow(): Uint8Array {
    return Tuple.pack(["pending-parked-now"], this.prefix)
  }

  parkedNowJob(key: Tuple.Element, { id, order, priority, scheduledAt }: NowPlace): Uint8Array {
    return Tuple.pack(["pending-parked-now", key, 0 - priority, order, scheduledAt, id], this.prefix)
  }

  parkedNowOf(key: Tuple.Element): Tuple.KeyRange {
    return Tuple.range(["pending-parked-now", key], this.prefix)
  }

  /** `undefined` for a key that is no position of a parked job, of either kind. */
  parkedPlaceOf(key: Uint8Array): Place | undefined {
    const elements = Result.getOrElse(Tuple.unpackResult(key, this.prefix.length), () => [])
    const [scheduledAt, id] = elements.slice(-2)
    const negated = elements[2]
    return elements.length >= 5 && Number.isSafeInteger(negated) && typeof scheduledAt === "number"
      ? { priority: 0 - (negated as number), scheduledAt, id: id! }
      : undefined
  }

  /**
   * The id of a parked job, or of one in `pending`, or of one in `ended`: always the last element. `undefined` for a key
   * that is no tuple.
   */
  lastOf(key: Uint8Array, prefix: Uint8Array): Tuple.Element | undefined {
    return Result.getOrElse(Tuple.unpackResult(key, prefix.length), () => []).at(-1)
  }

  waitingJob(id: Tuple.Element): Uint8Array {
    return Tuple.pack(["pending-waits", id], this.prefix)
  }

  parent(id: Tuple.Element, index: number): Uint8Array {
    return Tuple.pack(["parent", id, index], this.prefix)
  }

  parentsOf(id: Tuple.Element): Tuple.KeyRange {
    return Tuple.range(["parent", id], this.prefix)
  }

  parentData(id: Tuple.Element, index: number): Uint8Array {
    return Tuple.pack(["parent-data", id, index], this.prefix)
  }

  parentDataOf(id: Tuple.Element): Tuple.KeyRange {
    return Tuple.range(["parent-data", id], this.prefix)
  }

  family(id: Tuple.Element): Uint8Array {
    return Tuple.pack(["family", id], this.prefix)
  }

  child(family: Family, type: Tuple.Element, id: Tuple.Element): Uint8Array {
    return Tuple.pack(["children", ...family, type, id], this.prefix)
  }

  childrenOf(family: Family): Tuple.KeyRange {
    return Tuple.range(["children", ...family], this.prefix)
  }

  end(family: Family): Uint8Array {
    return Tuple.pack(["ends", ...family], this.prefix)
  }

  held(key: Tuple.Element): Uint8Array {
    return Tuple.pack(["held", key], this.prefix)
  }

  rateOf(key: Tuple.Element): Uint8Array {
    return Tuple.pack([key], this.rate)
  }

  rateEnd(millis: number, key: Tuple.Element): Uint8Array {
    return Tuple.pack([millis, key], this.rateEnds)
  }

  seq(id: Tuple.Element): Uint8Array {
    return Tuple.pack([id], this.seqs)
  }

  activityEntry(stamp: Uint8Array): Uint8Array {
    return Keys.concat(this.activity, stamp)
  }

  endedJob(state: State, endedAt: number, id: Tuple.Element): Uint8Array {
    return Tuple.pack([state, endedAt, id], this.ended)
  }

  /** When the job of such a key ended; 0 for a key that does not say so. */
  endedAt(endedKey: Uint8Array): number {
    const time = Result.getOrElse(Tuple.unpackResult(endedKey, this.ended.length), () => [])[1]
    return typeof time === "number" ? time : 0
  }

  endedOf(state: State): Tuple.KeyRange {
    return Tuple.range([state], this.ended)
  }

  /** The end of the range of those that ended before a time. */
  endedBefore(state: State, millis: number): Uint8Array {
    return Tuple.pack([state, millis], this.ended)
  }

  /** The counter of one change of state; `none` is no job at all. */
  move(from: State | "none", to: State | "none"): Uint8Array {
    const name = `${from} ${to}`
    let key = this.#moves.get(name)
    if (key === undefined) {
      const group = from === "running" || to === "running" ? "run" : "rest"
      this.#moves.set(name, key = Tuple.pack([group, from, to], this.moves))
    }
    return key
  }

  schedule(name: string): Uint8Array {
    return Tuple.pack([name], this.schedules)
  }
}

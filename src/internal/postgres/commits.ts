/**
 * The commits of a layer.
 *
 * Owner: the layer. A lane has one group under way; what comes meanwhile makes up the next one.
 *
 * 1. A group is one message: begin, its steps, commit. So no client can hold a lane's lock while it does something else.
 * 2. Each request is answered once: after the group's COMMIT, with its version or as a conflict; as unknown when the
 *    connection was lost on the way; or with the server's error, that rolled the group back. Of such a group each request is
 *    committed again by itself, so that one's fault is not another's.
 * 3. A request that relies on something has a read version from before it is sent, even if its transaction read nothing: a
 *    message that arrives late, after the request was made again, must find what came between.
 * 4. A group that was committed is told of to other processes afterwards, by a message of its own: many of a lane in one. The
 *    first is told of at once; while more follow, they are told of together. None is left untold when the layer closes.
 */
import { randomBytes } from "node:crypto"
import type { BackendError } from "../../BackendError.ts"
import { Conflict, TransactionTooOld } from "../../BackendError.ts"
import * as Errors from "../../BackendError.ts"
import type { Connection } from "./connection.ts"
import type { Effects } from "./effects.ts"
import { isLost, toBackendError } from "./errors.ts"
import { type Lane, lockOf } from "./lanes.ts"
import { channelOf, payloadOf } from "./listening.ts"
import type { Pool } from "./pool.ts"
import { type Place, stepsOf, stepText } from "./steps.ts"

/** Requests of a group at the most: their conflicts are looked for in one statement. */
const GROUP_REQUESTS = 256

/** Text of a group, from which on no request is added. */
const GROUP_BYTES = 4_000_000

/** How often a process shortens a lane's log at the most. */
const TRIM_MILLIS = 2_000

/** A lane that commits again and again is told of so often: whoever waits hears of it soon, and each costs a transaction. */
const TELL_MILLIS = 3

/** An origin that no layer has. */
const NOBODY = 0n

/** So long a version is known: shorter than the log keeps its row. */
const KNOWN_MILLIS = 5_000

/** What a commit became. */
export interface Committed {
  readonly version: bigint
  readonly stamp: Uint8Array
}

interface Request {
  readonly effects: Effects
  readonly readVersion: bigint | undefined
  readonly done: (committed: Committed) => void
  readonly failed: (error: BackendError) => void
}

interface Queue {
  readonly waiting: Array<Request>
  isBusy: boolean
  /** These are committed one by one (2). */
  alone: number
  trimmedMillis: number
  trimFrom: bigint
}

/** What the layer hears of commits. */
export interface Listeners {
  readonly committed: (lane: Lane, version: bigint, effects: ReadonlyArray<Effects>) => void
}

const STAMP_BYTES = 10

const stampOf = (version: bigint, place: number): Uint8Array => {
  const stamp = new Uint8Array(STAMP_BYTES)
  const view = new DataView(stamp.buffer)
  view.setBigUint64(0, version)
  view.setUint16(8, place)
  return stamp
}

const conflict = (): BackendError =>
  new Errors.BackendError({
    reason: new Conflict({ message: "another commit wrote what this one read: run it again" })
  })

const tooOld = (): BackendError =>
  new Errors.BackendError({
    reason: new TransactionTooOld({
      message: "the store no longer knows what was written since this transaction's snapshot: run it again"
    })
  })

export class Commits {
  readonly #pool: Pool
  readonly #schema: string
  readonly #store: string
  readonly #listeners: Listeners
  readonly #queues = new Map<string, Queue>()
  /** The lanes that others are to be told of, and whose commits they are. */
  readonly #toTell = new Map<Lane, bigint>()
  /** The newest version of each lane that was heard of (3). */
  readonly #known = new Map<Lane, { version: bigint; atMillis: number }>()
  #isTelling = false
  #underWay = 0
  /** The layer closes: it waits for what is under way, and to be told of (4). */
  #onIdle: (() => void) | undefined
  #goOnTelling: (() => void) | undefined
  #origin = randomBytes(8).readBigInt64BE(0)

  constructor(pool: Pool, schema: string, store: string, listeners: Listeners) {
    this.#pool = pool
    this.#schema = schema
    this.#store = store
    this.#listeners = listeners
  }

  /**
   * Tells this layer's rows of the log from those of others. A new one comes after each commit without an answer, so that the
   * lost one's row is met like that of another.
   */
  get origin(): bigint {
    return this.#origin
  }

  /** A version of a lane that it has reached, and whose row of the log is there, most likely (3). */
  knownVersion(lane: Lane): bigint | undefined {
    const known = this.#known.get(lane)
    return known === undefined || performance.now() - known.atMillis > KNOWN_MILLIS ? undefined : known.version
  }

  /** A lane has reached a version. */
  reached(lane: Lane, version: bigint): void {
    const known = this.#known.get(lane)
    if (known === undefined) this.#known.set(lane, { version, atMillis: performance.now() })
    else if (version >= known.version) {
      known.version = version
      known.atMillis = performance.now()
    }
  }

  /** Commits; `done` or `failed` is called once. */
  submit(request: Request): void {
    // commits of one lane go together; those of several lanes have a queue for each combination
    const name = request.effects.lanes.join("\n")
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = { waiting: [], isBusy: false, alone: 0, trimmedMillis: performance.now(), trimFrom: 0n }
      this.#queues.set(name, queue)
    }
    this.#underWay++
    queue.waiting.push(request)
    this.#run(queue)
  }

  /** Resolves when nothing is under way, and all is told of. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve
      this.#goOnTelling?.()
      this.#rest()
    })
  }

  #rest(): void {
    if (this.#underWay === 0 && !this.#isTelling) this.#onIdle?.()
  }

  #run(queue: Queue): void {
    if (queue.isBusy || queue.waiting.length === 0) return
    queue.isBusy = true
    // what is asked for in this macrotask goes along
    setImmediate(() => {
      void this.#commit(queue, this.#next(queue)).finally(() => {
        queue.isBusy = false
        this.#run(queue)
      })
    })
  }

  #next(queue: Queue): ReadonlyArray<Request> {
    if (queue.alone > 0) {
      queue.alone--
      return queue.waiting.splice(0, 1)
    }
    let size = 0
    let count = 0
    while (count < queue.waiting.length && count < GROUP_REQUESTS && size < GROUP_BYTES) {
      size += queue.waiting[count++]!.effects.size
    }
    return queue.waiting.splice(0, count)
  }

  async #commit(queue: Queue, group: ReadonlyArray<Request>): Promise<void> {
    const lanes = group[0]!.effects.lanes
    const locks = lanes.map((lane) => lockOf(this.#store, lane)).sort((a, b) => a < b ? -1 : a > b ? 1 : 0)
    const steps = stepsOf(group)
    const texts = this.#texts({ schema: this.#schema, origin: this.#origin, lanes, locks }, steps, queue)
    let connection: Connection
    let first: string
    try {
      const lease = await this.#pool.take()
      connection = lease.connection
      first = lease.first
    } catch (cause) {
      return this.#fail(group, toBackendError(cause, "connect"))
    }
    try {
      const answers = await connection.query(
        `${first}BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ${texts.join("; ")}; COMMIT`
      )
      this.#pool.give(connection, false)
      this.#settle(lanes, steps, answers.map((rows) => rows[0]![0] as ReadonlyArray<string>))
    } catch (cause) {
      this.#pool.give(connection, true)
      const lost = isLost(cause)
      if (lost) {
        this.#origin = randomBytes(8).readBigInt64BE(0)
        for (const lane of lanes) this.#tell(lane, NOBODY)
      }
      if (lost || group.length === 1) return this.#fail(group, toBackendError(cause, "commit"))
      queue.waiting.unshift(...group)
      queue.alone += group.length
    }
  }

  #texts(place: Place, steps: ReadonlyArray<ReadonlyArray<Request>>, queue: Queue): ReadonlyArray<string> {
    const now = performance.now()
    const trims = now - queue.trimmedMillis > TRIM_MILLIS
    if (trims) queue.trimmedMillis = now
    return steps.map((step, at) => stepText(place, step, trims && at === 0 ? queue.trimFrom : undefined))
  }

  #settle(
    lanes: ReadonlyArray<Lane>,
    steps: ReadonlyArray<ReadonlyArray<Request>>,
    answers: ReadonlyArray<ReadonlyArray<string>>
  ): void {
    steps.forEach((step, at) => {
      const [first, ...fates] = answers[at]!
      const version = BigInt(first!)
      const applied = step.filter((_, i) => fates[i] === "0")
      if (applied.length > 0) {
        for (const lane of lanes) {
          this.reached(lane, version)
          this.#listeners.committed(lane, version, applied.map(({ effects }) => effects))
          this.#tell(lane, this.#origin)
        }
      }
      step.forEach((request, i) => {
        this.#settled()
        if (fates[i] === "2") this.#known.delete(lanes[0]!)
        if (fates[i] === "0") request.done({ version, stamp: stampOf(version, i) })
        else request.failed(fates[i] === "1" ? conflict() : tooOld())
      })
    })
  }

  #fail(group: ReadonlyArray<Request>, error: BackendError): void {
    for (const request of group) {
      this.#settled()
      request.failed(error)
    }
  }

  #settled(): void {
    this.#underWay--
    this.#rest()
  }

  /** Tells other processes that a lane has changed (4). */
  #tell(lane: Lane, origin: bigint): void {
    this.#toTell.set(lane, origin)
    if (this.#isTelling) return
    this.#isTelling = true
    void this.#tellAll().finally(() => {
      this.#isTelling = false
      const [next] = this.#toTell
      if (next === undefined) this.#rest()
      else this.#tell(...next)
    })
  }

  async #tellAll(): Promise<void> {
    while (this.#toTell.size > 0) {
      const lanes = Array.from(this.#toTell)
      this.#toTell.clear()
      try {
        await this.#notify(lanes)
      } catch {
        // whoever waits has a timer behind
        return
      }
      await this.#pause()
    }
  }

  async #notify(lanes: ReadonlyArray<readonly [Lane, bigint]>): Promise<void> {
    const { connection, first } = await this.#pool.take()
    const calls = lanes.map(([lane, origin]) => {
      const lock = lockOf(this.#store, lane)
      return `pg_notify('${channelOf(lock)}', '${payloadOf(lock, origin)}')`
    })
    try {
      await connection.query(`${first}SELECT ${calls.join(", ")}`)
    } finally {
      this.#pool.give(connection, false)
    }
  }

  /** Lets more come (4). */
  #pause(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#onIdle !== undefined) return resolve()
      const timer = setTimeout(resolve, TELL_MILLIS)
      this.#goOnTelling = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

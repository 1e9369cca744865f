/**
 * A driver's transaction on a server.
 *
 * Owner: one try of one transaction.
 *
 * 1. All its reads are within one REPEATABLE READ READ ONLY transaction of PostgreSQL, which begins with the first of them: one
 *    snapshot. It ends before the commit, or with the try; a try that has lived for too long gives its connection back too.
 * 2. Reads that are asked for in one macrotask, or while others are under way, travel in one message.
 * 3. The version of the snapshot is that of the newest commit of the lane that it sees; the lane is that of the first read.
 * 4. A commit that relies on something and has read nothing takes a version that the layer knows, or reads one first.
 * 5. A commit that writes nothing sends nothing: PostgreSQL shows a commit to others when it is durable.
 */
import * as Effect from "effect/Effect"
import type { CommitRequest, DriverTransaction, KeyRange, KeyValue, WatchRequest } from "../../Backend.ts"
import { TRANSACTION_LIMIT_MILLIS } from "../../Backend.ts"
import { BackendError, InvalidArgument, TransactionTooOld } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import type { Commits, Committed } from "./commits.ts"
import type { Connection } from "./connection.ts"
import { type Effects, effectsOf } from "./effects.ts"
import { closedError, isLost, toBackendError } from "./errors.ts"
import { type Lane, laneOf } from "./lanes.ts"
import * as Literals from "./literals.ts"
import type { Pool } from "./pool.ts"
import type { Asked } from "./steps.ts"
import type { Watching } from "./watching.ts"

const BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

const STAMP_BYTES = 10

/** What transactions of a layer share. */
export interface Shared {
  /** The schema's name as it stands in SQL. */
  readonly schema: string
  readonly readers: Pool
  readonly commits: Commits
  readonly watching: Watching
  isClosed: boolean
}

type Row = readonly [index: number, key: Uint8Array | null, value: Uint8Array]

interface Ask {
  readonly key: Uint8Array | undefined
  readonly range: KeyRange | undefined
  readonly limit: number
  readonly reverse: boolean
  readonly done: (rows: ReadonlyArray<KeyValue>) => void
  readonly failed: (error: BackendError) => void
}

const plain = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes)

const toVersion = (bytes: Uint8Array): bigint => new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0)

const tooOld = (): BackendError =>
  new BackendError({
    reason: new TransactionTooOld({
      message: `a transaction has ${TRANSACTION_LIMIT_MILLIS} ms: run it again, or make it shorter`
    })
  })

const severalDirectories = (): BackendError =>
  new BackendError({
    reason: new InvalidArgument({ message: "a transaction relies on keys of several directories" })
  })

/** The call that reads all that was asked for, and the version of a lane. */
const readText = (schema: string, asks: ReadonlyArray<Ask>, lane: Lane | undefined): string => {
  const keys = asks.flatMap(({ key }) => key === undefined ? [] : [key])
  const ranges = asks.filter((ask): ask is Ask & { readonly range: KeyRange } => ask.range !== undefined)
  const args = [
    lane === undefined ? "NULL::bytea" : Literals.bytea(Keys.fromText(lane)),
    Literals.byteas(keys),
    Literals.byteas(ranges.map(({ range }) => range.begin)),
    Literals.byteas(ranges.map(({ range }) => range.end)),
    Literals.bigints(ranges.map(({ limit }) => Number.isFinite(limit) ? BigInt(limit) : undefined)),
    Literals.booleans(ranges.map(({ reverse }) => reverse))
  ]
  return `SELECT i, k, v FROM ${schema}.read(${args.join(",")})`
}

export class PostgresTransaction implements DriverTransaction {
  readonly #shared: Shared
  #connection: Connection | undefined
  #asks: Array<Ask> = []
  #isReading = false
  #lane: Lane | undefined
  #version: bigint | undefined
  #startedMillis: number | undefined
  #timer: NodeJS.Timeout | undefined
  #failure: BackendError | undefined
  #ended = false

  constructor(shared: Shared) {
    this.#shared = shared
  }

  get readVersion(): Effect.Effect<bigint, BackendError> {
    return Effect.suspend(() => {
      if (this.#version !== undefined) return Effect.succeed(this.#version)
      // the reads under way bring it
      if (this.#lane !== undefined) return Effect.map(this.#ask(undefined, undefined), () => this.#version!)
      return Effect.callback<bigint, BackendError>((resume) => {
        this.#versionOfAll().then(
          (version) => resume(Effect.succeed(version)),
          (cause) => resume(Effect.fail(toBackendError(cause, "read")))
        )
      })
    })
  }

  get(key: Uint8Array): Effect.Effect<Uint8Array | undefined, BackendError> {
    return Effect.map(this.#ask(key, undefined), (rows) => rows[0]?.value)
  }

  getRange(
    begin: Uint8Array,
    end: Uint8Array,
    { limit, reverse }: { readonly limit: number; readonly reverse: boolean }
  ): Effect.Effect<ReadonlyArray<KeyValue>, BackendError> {
    return this.#ask(undefined, { begin, end }, limit, reverse)
  }

  commit(request: CommitRequest): Effect.Effect<Uint8Array, BackendError> {
    return Effect.suspend(() => {
      if (this.#failure !== undefined) return Effect.fail(this.#failure)
      if (this.#shared.isClosed) return Effect.fail(closedError())
      return request.mutations.length === 0 ? this.#commitRead(request) : this.#commitWrite(request)
    })
  }

  close(): void {
    this.#end()
  }

  #ask(
    key: Uint8Array | undefined,
    range: KeyRange | undefined,
    limit = Infinity,
    reverse = false
  ): Effect.Effect<ReadonlyArray<KeyValue>, BackendError> {
    return Effect.callback((resume) => {
      const failed = (error: BackendError) => resume(Effect.fail(error))
      if (this.#shared.isClosed) return failed(closedError())
      if (this.#isOver()) this.#expire()
      if (this.#failure !== undefined) return failed(this.#failure)
      if (this.#ended) return failed(closedError())
      if (this.#lane === undefined && (key ?? range?.begin) !== undefined) this.#lane = laneOf((key ?? range!.begin)!)
      this.#asks.push({ key, range, limit, reverse, done: (rows) => resume(Effect.succeed(rows)), failed })
      if (this.#isReading) return
      this.#isReading = true
      setImmediate(() => void this.#read())
    })
  }

  /** Sends what is asked for until there is no more (2). */
  async #read(): Promise<void> {
    while (this.#asks.length > 0) {
      const asks = this.#asks
      this.#asks = []
      try {
        const wantsVersion = this.#version === undefined
        const text = readText(this.#shared.schema, asks, wantsVersion ? this.#lane : undefined)
        const rows = await this.#query(text) as unknown as ReadonlyArray<Row>
        const answers = this.#answers(asks, rows)
        asks.forEach((ask, at) => ask.done(answers[at]!))
      } catch (cause) {
        this.#failure ??= this.#shared.isClosed ? closedError() : toBackendError(cause, "read")
        for (const ask of [...asks, ...this.#asks]) ask.failed(this.#failure)
        this.#asks = []
      }
    }
    this.#isReading = false
    if (this.#ended) this.#end()
  }

  #answers(asks: ReadonlyArray<Ask>, rows: ReadonlyArray<Row>): ReadonlyArray<ReadonlyArray<KeyValue>> {
    const keys = asks.filter(({ key }) => key !== undefined)
    const order = [...keys, ...asks.filter(({ range }) => range !== undefined)]
    const found = new Map<Ask, Array<KeyValue>>(order.map((ask) => [ask, []]))
    for (const [index, key, value] of rows) {
      if (index < 0) {
        this.#version = toVersion(value)
        this.#shared.commits.reached(this.#lane!, this.#version)
      } else {
        const ask = order[index - 1]!
        found.get(ask)!.push({ key: key === null ? ask.key! : plain(key), value: plain(value) })
      }
    }
    return asks.map((ask) => found.get(ask) ?? [])
  }

  /** Runs a statement that selects, within this try's snapshot (1). */
  async #query(text: string): Promise<ReadonlyArray<ReadonlyArray<unknown>>> {
    let first = ""
    if (this.#connection === undefined) {
      const lease = await this.#shared.readers.take()
      if (this.#ended || this.#failure !== undefined) {
        this.#shared.readers.give(lease.connection, lease.first !== "")
        throw this.#failure ?? closedError()
      }
      this.#connection = lease.connection
      first = `${lease.first}${BEGIN}; `
      this.#startedMillis = performance.now()
      this.#timer = setTimeout(() => this.#expire(), TRANSACTION_LIMIT_MILLIS)
    }
    const connection = this.#connection
    try {
      const answers = await connection.query(`${first}${text}`)
      return answers[answers.length - 1]!
    } catch (cause) {
      if (isLost(cause)) this.#connection = undefined
      throw cause
    }
  }

  /** Of a try that has read nothing: a version that every later commit of every lane is above. */
  async #versionOfAll(): Promise<bigint> {
    const { connection, first } = await this.#shared.readers.take()
    try {
      const answers = await connection.query(`${first}SELECT last_value FROM ${this.#shared.schema}.version`)
      return BigInt(answers[0]![0]![0] as string)
    } finally {
      this.#shared.readers.give(connection, false)
    }
  }

  /** Its life begins with its snapshot, not while it waits for a connection. */
  #isOver(): boolean {
    return this.#startedMillis !== undefined && performance.now() - this.#startedMillis > TRANSACTION_LIMIT_MILLIS
  }

  #expire(): void {
    this.#failure ??= tooOld()
    this.#end()
  }

  /** Gives the connection back when no read is under way (1). */
  #end(): void {
    this.#ended = true
    if (this.#isReading) return
    clearTimeout(this.#timer)
    const connection = this.#connection
    this.#connection = undefined
    if (connection !== undefined) this.#shared.readers.give(connection, true)
  }

  /** See (5). A watch needs to know which version it is about. */
  #commitRead({ watches }: CommitRequest): Effect.Effect<Uint8Array, BackendError> {
    const none = new Uint8Array(STAMP_BYTES)
    if (watches.length === 0) return Effect.succeed(none)
    const lane = laneOf(watches[0]!.key)
    this.#lane ??= lane
    const version = this.#version === undefined
      ? Effect.map(this.#ask(undefined, undefined), () => this.#version!)
      : Effect.succeed(this.#version)
    return Effect.map(version, (base) => {
      for (const watch of watches) this.#shared.watching.arm(watch, base)
      return none
    })
  }

  #commitWrite(request: CommitRequest): Effect.Effect<Uint8Array, BackendError> {
    return Effect.flatMap(
      this.asked(request),
      ({ effects, readVersion }) => this.#submit(request, effects, readVersion)
    )
  }

  /** What a commit of it asks for, and the version of the snapshot that it relies on, if it does (4). */
  asked(request: CommitRequest): Effect.Effect<Asked, BackendError> {
    let effects: Effects
    try {
      effects = effectsOf(request)
    } catch (cause) {
      return Effect.fail(toBackendError(cause, "read"))
    }
    if (this.#isOver()) return Effect.fail(tooOld())
    if (effects.readKeys.length + effects.readRanges.length === 0) {
      return Effect.succeed({ effects, readVersion: undefined })
    }
    const lane = effects.lanes[0]!
    if (this.#version !== undefined) {
      return lane === this.#lane
        ? Effect.succeed({ effects, readVersion: this.#version })
        : Effect.fail(severalDirectories())
    }
    const known = this.#shared.commits.knownVersion(lane)
    if (known !== undefined) return Effect.succeed({ effects, readVersion: known })
    this.#lane = lane
    return Effect.map(this.#ask(undefined, undefined), () => ({ effects, readVersion: this.#version }))
  }

  #submit(
    request: CommitRequest,
    effects: Effects,
    readVersion: bigint | undefined
  ): Effect.Effect<Uint8Array, BackendError> {
    return Effect.callback((resume) => {
      this.#end()
      this.#shared.commits.submit({
        effects,
        readVersion,
        done: (committed) => {
          for (const watch of request.watches) this.#arm(watch, effects, committed)
          resume(Effect.succeed(committed.stamp))
        },
        failed: (error) => resume(Effect.fail(error))
      })
    })
  }

  /** A watch is about what was written, or else about what was seen. */
  #arm(watch: WatchRequest, effects: Effects, { version }: Committed): void {
    const text = Keys.toText(watch.key)
    const isWritten = effects.points.has(text) ||
      effects.clears.some(({ begin, end }) => Keys.toText(begin) <= text && text < Keys.toText(end)) ||
      effects.stamped.some((one) => one.op === "versionstampedValue" && Keys.toText(one.key) === text)
    this.#shared.watching.arm(watch, isWritten ? version : this.#version ?? version)
  }
}

/** Begins a transaction. */
export const begin = (shared: Shared): Effect.Effect<DriverTransaction, BackendError> =>
  Effect.suspend(() => shared.isClosed ? Effect.fail(closedError()) : Effect.succeed(new PostgresTransaction(shared)))

/**
 * Optimistic transactions of one process over a base that knows only the present: what `MemoryBackend` and
 * `SqliteBackend` share.
 *
 * Owner: one store a backend, used by all fibers of the process; every method runs without interruption between two
 * awaits, so nothing here is locked. The `Base` holds what is durable; the window holds what was accepted since, and the
 * older values that a running transaction may still ask for.
 *
 * 1. A commit is accepted at once or refused: refused, when a commit that was accepted after the transaction's snapshot
 *    wrote into one of its read-conflict ranges. Transactions that begin later read what was accepted.
 * 2. A transaction reads the values of its snapshot however many commits are accepted meanwhile: before an accepted
 *    value replaces one in the base, the old one goes into the window if a running transaction may ask for it.
 * 3. An accepted commit is answered when it is durable, or fails. When accepted commits are dropped, every transaction
 *    that could have read them is stale: its next step fails as too old.
 * 4. The window keeps nothing that no running transaction can ask for and that the base holds.
 * 5. A transaction lives for `TRANSACTION_LIMIT_MILLIS` from its first read.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import {
  type CommitRequest,
  type DriverTransaction,
  type KeyValue,
  TRANSACTION_LIMIT_MILLIS,
  type WatchRequest
} from "../Backend.ts"
import { BackendError, Closed, Conflict, type Reason, TransactionTooOld } from "../BackendError.ts"
import { equalsBytes } from "../Tuple.ts"
import * as Keys from "./keys.ts"
import { addBytes } from "./overlay.ts"
import { SortedMap } from "./sortedMap.ts"

/** A value, or `undefined` for none. */
export type Value = Uint8Array | undefined

/** What is durable: reads of the present, without waiting. They may throw a `BackendError`. */
export interface Base {
  readonly get: (key: string) => Value
  readonly range: (begin: string, end: string, limit: number, reverse: boolean) => Array<readonly [string, Uint8Array]>
  /** Called before the first read of a transaction; says whether others changed the base since the last time. */
  readonly look: () => boolean
}

/** The keys from `begin` to `end`, as text. */
export interface Range {
  readonly begin: string
  readonly end: string
}

/** What a transaction saw of a range, for a base that others change too. */
export interface Seen extends Range {
  readonly rows: ReadonlyArray<readonly [string, Uint8Array]>
}

/** A commit that was accepted and is not yet durable. */
export interface Accepted {
  version: number
  readonly request: CommitRequest
  readonly writes: ReadonlyMap<string, Value>
  readonly reads: ReadonlyArray<Range>
  readonly seen: ReadonlyArray<Seen>
  readonly done: (error: BackendError | undefined) => void
}

interface Change {
  readonly version: number
  readonly value: Value
}

/** Older than every version. */
const BEFORE = -1

const error = (reason: Reason) => new BackendError({ reason })

const tooOld = (why: string) => error(new TransactionTooOld({ message: `the transaction ${why}: run it again` }))

/** The ten bytes of a version. */
export const stampOf = (version: number): Uint8Array => {
  const stamp = new Uint8Array(10)
  new DataView(stamp.buffer).setBigUint64(0, BigInt(version))
  return stamp
}

/** The final writes of a commit, in order, given a read of what lies below it. */
export const resolve = (
  request: CommitRequest,
  version: number,
  get: (key: string) => Value,
  keysBetween: (begin: string, end: string) => ReadonlyArray<string>
): Map<string, Value> => {
  const writes = new Map<string, Value>()
  const current = (key: string) => writes.has(key) ? writes.get(key) : get(key)
  const stamped = (bytes: Uint8Array, position: number) => {
    const out = bytes.slice()
    out.set(stampOf(version), position)
    return out
  }
  for (const mutation of request.mutations) {
    switch (mutation.op) {
      case "set":
        writes.set(Keys.toText(mutation.key), mutation.value)
        break
      case "clear":
        writes.set(Keys.toText(mutation.key), undefined)
        break
      case "clearRange": {
        const begin = Keys.toText(mutation.begin)
        const end = Keys.toText(mutation.end)
        for (const key of writes.keys()) if (begin <= key && key < end) writes.set(key, undefined)
        for (const key of keysBetween(begin, end)) writes.set(key, undefined)
        break
      }
      case "add": {
        const key = Keys.toText(mutation.key)
        writes.set(key, addBytes(current(key), mutation.operand))
        break
      }
      case "versionstampedKey":
        writes.set(Keys.toText(stamped(mutation.key, mutation.position)), mutation.value)
        break
      case "versionstampedValue":
        writes.set(Keys.toText(mutation.key), stamped(mutation.value, mutation.position))
        break
    }
  }
  return writes
}

interface LoggedCommit {
  readonly version: number
  readonly ranges: ReadonlyArray<Range>
}

interface Watching {
  readonly request: WatchRequest
  readonly expected: Value
}

const sameValue = (a: Value, b: Value): boolean =>
  a === b || (a !== undefined && b !== undefined && equalsBytes(a, b))

/** One running transaction, as the store knows it. */
class Running {
  readVersion: number | undefined
  startedMillis: number | undefined
  stale = false
  readonly seen: Array<Seen> = []
}

export class OptimisticStore {
  /** The version of the newest accepted commit. */
  version: number
  /** The version up to which the base holds everything. */
  #applied: number
  readonly #base: Base
  readonly #window = new SortedMap<Array<Change>>()
  #log: Array<LoggedCommit> = []
  readonly #running = new Set<Running>()
  readonly #watches = new Map<string, Set<Watching>>()
  readonly #keepSeen: boolean
  readonly #accepted: (commit: Accepted) => void
  closed = false

  constructor(options: {
    readonly base: Base
    readonly version: number
    /** Whether others change the base, so that what was seen must be kept. */
    readonly shared: boolean
    /** Takes an accepted commit; calls its `done` when it is durable or failed. */
    readonly accepted: (commit: Accepted) => void
  }) {
    this.#base = options.base
    this.version = options.version
    this.#applied = options.version
    this.#keepSeen = options.shared
    this.#accepted = options.accepted
  }

  /** Whether a transaction is running that has read. */
  get hasReaders(): boolean {
    for (const running of this.#running) if (running.readVersion !== undefined) return true
    return false
  }

  get watchedKeys(): number {
    return this.#watches.size
  }

  begin(): Effect.Effect<DriverTransaction, BackendError> {
    return Clock.clockWith((clock) => {
      if (this.closed) return Effect.fail(error(new Closed({ message: "the store's scope is closed" })))
      const running = new Running()
      this.#running.add(running)
      const attempt = <A>(read: () => A): Effect.Effect<A, BackendError> =>
        Effect.suspend(() => {
          try {
            this.#enter(running, clock.currentTimeMillisUnsafe())
            return Effect.succeed(read())
          } catch (cause) {
            if (cause instanceof BackendError) return Effect.fail(cause)
            throw cause
          }
        })
      return Effect.succeed<DriverTransaction>({
        readVersion: attempt(() => BigInt(running.readVersion!)),
        get: (key) =>
          attempt(() => {
            const text = Keys.toText(key)
            const value = this.#getAt(text, running.readVersion!)
            if (this.#keepSeen) {
              running.seen.push({ begin: text, end: `${text}\0`, rows: value === undefined ? [] : [[text, value]] })
            }
            return value
          }),
        getRange: (begin, end, { limit, reverse }) =>
          attempt(() => {
            const low = Keys.toText(begin)
            const high = Keys.toText(end)
            const rows = this.#rangeAt(low, high, limit, reverse, running.readVersion!)
            if (this.#keepSeen) running.seen.push({ ...reached(low, high, rows, limit, reverse), rows })
            return rows.map(([key, value]): KeyValue => ({ key: Keys.fromText(key), value }))
          }),
        commit: (request, accepted) => this.#commit(running, request, accepted, clock),
        close: () => {
          this.#running.delete(running)
          this.#trim()
        }
      })
    })
  }

  /** Before accepted commits up to a version go into the base: keeps what running transactions may ask for (2). */
  keepOlder(keys: Iterable<string>): void {
    let oldest = Infinity
    for (const running of this.#running) {
      if (running.readVersion !== undefined && running.readVersion < oldest) oldest = running.readVersion
    }
    if (oldest >= this.version) return
    for (const key of keys) {
      const changes = this.#window.get(key)
      if (changes === undefined || changes[0]!.version <= oldest) continue
      changes.unshift({ version: BEFORE, value: this.#base.get(key) })
    }
  }

  /** The base holds all that was accepted. */
  applied(): void {
    this.#applied = this.version
    this.#trim()
  }

  /** Accepted commits are gone, or others changed the base: nothing in the window holds any more (3). */
  reset(version: number): void {
    this.#window.clear()
    this.#log = []
    for (const running of this.#running) if (running.readVersion !== undefined) running.stale = true
    this.version = Math.max(this.version, version)
    this.#applied = this.version
    this.recheckWatches()
  }

  /** Compares all watched keys, after a change by others. */
  recheckWatches(): void {
    for (const key of this.#watches.keys()) this.#fire(key, this.#getAt(key, this.version))
  }

  /** Ends all watches. */
  failWatches(error: BackendError): void {
    for (const watching of this.#watches.values()) for (const { request } of watching) request.fail(error)
    this.#watches.clear()
  }

  // --- internal ---

  #enter(running: Running, nowMillis: number): void {
    if (this.closed) throw error(new Closed({ message: "the store's scope is closed" }))
    if (running.readVersion === undefined) {
      if (this.#base.look()) this.#foreign()
      running.readVersion = this.version
      running.startedMillis = nowMillis
    } else if (running.stale) throw tooOld("read a state that is gone")
    else this.#checkAge(running, nowMillis)
  }

  #checkAge(running: Running, nowMillis: number): void {
    if (running.startedMillis !== undefined && nowMillis - running.startedMillis > TRANSACTION_LIMIT_MILLIS) {
      throw tooOld(`took longer than ${TRANSACTION_LIMIT_MILLIS} ms`)
    }
  }

  /** Others changed the base: what has read before reads no more; what was accepted is looked at when it is written. */
  #foreign(): void {
    for (const running of this.#running) if (running.readVersion !== undefined) running.stale = true
    this.recheckWatches()
  }

  #getAt(key: string, version: number): Value {
    const changes = this.#window.get(key)
    if (changes !== undefined) {
      for (let i = changes.length - 1; i >= 0; i--) if (changes[i]!.version <= version) return changes[i]!.value
    }
    return this.#base.get(key)
  }

  #rangeAt(begin: string, end: string, limit: number, reverse: boolean, version: number) {
    const changed = this.#window.range(begin, end)
    if (changed.length === 0) return this.#base.range(begin, end, limit, reverse)
    // every changed key can hide one row of the base at the most
    const wanted = limit + changed.length
    const found = this.#base.range(begin, end, wanted, reverse)
    const last = found.length >= wanted ? found[found.length - 1]![0] : undefined
    const rows = new Map(found)
    for (const [key] of changed) {
      if (last !== undefined && (reverse ? key < last : key > last)) continue
      const value = this.#getAt(key, version)
      if (value === undefined) rows.delete(key)
      else rows.set(key, value)
    }
    const out = [...rows].sort((a, b) => (a[0] < b[0] ? -1 : 1))
    if (reverse) out.reverse()
    return out.length > limit ? out.slice(0, limit) : out
  }

  #commit(
    running: Running,
    request: CommitRequest,
    accepted: () => void,
    clock: Clock.Clock
  ): Effect.Effect<Uint8Array, BackendError> {
    return Effect.callback<Uint8Array, BackendError>((resume) => {
      try {
        if (this.closed) throw error(new Closed({ message: "the store's scope is closed" }))
        if (running.stale) throw tooOld("read a state that is gone")
        this.#checkAge(running, clock.currentTimeMillisUnsafe())
        if (request.mutations.length === 0) this.#commitRead(running, request, resume)
        else this.#commitWrite(running, request, accepted, resume)
      } catch (cause) {
        if (!(cause instanceof BackendError)) throw cause
        resume(Effect.fail(cause))
      }
    })
  }

  /** A commit that writes nothing waits for what it read to be durable (3). */
  #commitRead(running: Running, request: CommitRequest, resume: Resume): void {
    const version = running.readVersion ?? this.version
    this.#arm(request, new Map(), version)
    if (version <= this.#applied) return resume(Effect.succeed(stampOf(version)))
    this.#accepted({
      version,
      request,
      writes: new Map(),
      reads: running.seen,
      seen: running.seen,
      done: (failure) => resume(failure === undefined ? Effect.succeed(stampOf(version)) : Effect.fail(failure))
    })
  }

  #commitWrite(running: Running, request: CommitRequest, accepted: () => void, resume: Resume): void {
    if (running.readVersion === undefined && this.#base.look()) this.#foreign()
    const readVersion = running.readVersion ?? this.version
    const reads = request.readConflicts.map((range) => ({
      begin: Keys.toText(range.begin),
      end: Keys.toText(range.end)
    }))
    if (this.#conflicts(reads, readVersion)) {
      throw error(new Conflict({ message: "another transaction wrote what this one read: run it again" }))
    }
    const version = this.version + 1
    const writes = resolve(
      request,
      version,
      (key) => this.#getAt(key, this.version),
      (begin, end) => this.#rangeAt(begin, end, Infinity, false, this.version).map(([key]) => key)
    )
    this.version = version
    for (const [key, value] of writes) {
      const changes = this.#window.get(key)
      if (changes === undefined) this.#window.set(key, [{ version, value }])
      else changes.push({ version, value })
    }
    this.#log.push({ version, ranges: writtenRanges(request, writes) })
    const commit: Accepted = {
      version,
      request,
      writes,
      reads,
      seen: running.seen,
      done: (failure) =>
        resume(failure === undefined ? Effect.succeed(stampOf(commit.version)) : Effect.fail(failure))
    }
    for (const [key, value] of writes) this.#fire(key, value)
    this.#arm(request, writes, readVersion)
    this.#running.delete(running)
    this.#accepted(commit)
    accepted()
  }

  #conflicts(reads: ReadonlyArray<Range>, readVersion: number): boolean {
    for (let i = this.#log.length - 1; i >= 0; i--) {
      const commit = this.#log[i]!
      if (commit.version <= readVersion) return false
      for (const written of commit.ranges) {
        for (const read of reads) if (read.begin < written.end && written.begin < read.end) return true
      }
    }
    return false
  }

  #arm(request: CommitRequest, writes: ReadonlyMap<string, Value>, readVersion: number): void {
    for (const watch of request.watches) {
      const key = Keys.toText(watch.key)
      const expected = writes.has(key) ? writes.get(key) : this.#getAt(key, readVersion)
      if (!sameValue(this.#getAt(key, this.version), expected)) {
        watch.fire()
        continue
      }
      const entry: Watching = { request: watch, expected }
      const entries = this.#watches.get(key) ?? new Set()
      this.#watches.set(key, entries.add(entry))
      watch.onCancel = () => {
        entries.delete(entry)
        if (entries.size === 0 && this.#watches.get(key) === entries) this.#watches.delete(key)
      }
    }
  }

  #fire(key: string, value: Value): void {
    const entries = this.#watches.get(key)
    if (entries === undefined) return
    for (const entry of entries) {
      if (sameValue(entry.expected, value)) continue
      entry.request.onCancel?.()
      entry.request.fire()
    }
  }

  #trim(): void {
    let oldest = this.#applied
    for (const running of this.#running) {
      if (running.readVersion !== undefined && !running.stale) oldest = Math.min(oldest, running.readVersion)
    }
    let drop = 0
    while (drop < this.#log.length && this.#log[drop]!.version <= oldest) drop++
    if (drop > 0) this.#log.splice(0, drop)
    if (this.#window.size === 0 || oldest < this.#applied) return
    // nobody asks for anything older than what the base holds
    if (this.version === this.#applied) this.#window.clear()
  }
}

type Resume = (effect: Effect.Effect<Uint8Array, BackendError>) => void

/** How far a read with a limit saw. */
const reached = (
  begin: string,
  end: string,
  rows: ReadonlyArray<readonly [string, Uint8Array]>,
  limit: number,
  reverse: boolean
): Range => {
  if (rows.length < limit) return { begin, end }
  const last = rows[rows.length - 1]![0]
  return reverse ? { begin: last, end } : { begin, end: `${last}\0` }
}

/** What a commit writes, for the conflicts of others: its ranges, and the keys that only the commit could name. */
const writtenRanges = (request: CommitRequest, writes: ReadonlyMap<string, Value>): ReadonlyArray<Range> => {
  const ranges = request.writeConflicts.map((range) => ({
    begin: Keys.toText(range.begin),
    end: Keys.toText(range.end)
  }))
  if (request.mutations.some((mutation) => mutation.op === "versionstampedKey")) {
    for (const key of writes.keys()) ranges.push({ begin: key, end: `${key}\0` })
  }
  return ranges
}

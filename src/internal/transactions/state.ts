/**
 * One try of one transaction: reads through its own writes, limits, conflict ranges, and what happens on the commit.
 *
 * Owner: the loop in `loop.ts` makes one a try and drops it afterwards; the body's fiber, and fibers it forks,
 * call it.
 *
 * 1. The first failure is kept in `failure`. From then on nothing of this try can commit, whatever the body catches
 *    (rule R3): reads die, and the loop looks at `failure` before anything else.
 * 2. A read that is not a snapshot read adds to the read conflicts exactly what it saw of the store.
 * 3. What is written with a versionstamp cannot be read in the same try (rule R4).
 * 4. `size` counts keys with their allowance, values and both ends of every conflict range (rule R5), and the limit
 *    is checked at each write, so before any store sees it.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import {
  type Backend,
  type CommitRequest,
  type DriverTransaction,
  KEY_LIMIT_BYTES,
  KEY_PREFIX_ALLOWANCE_BYTES,
  type KeyRange,
  type KeyValue,
  type Mutation,
  TRANSACTION_LIMIT_BYTES,
  VALUE_LIMIT_BYTES,
  type WatchRequest
} from "../../Backend.ts"
import * as BackendError from "../../BackendError.ts"
import { addBytes } from "../data/counters.ts"
import * as Keys from "../data/keys.ts"
import { Overlay } from "./overlay.ts"
import { TryRequest } from "./request.ts"

/** Versionstamps have room for this many distinct keys in one transaction: two bytes. */
const USER_VERSION_LIMIT = 65_535

const STAMP_BYTES = 10
const LEAST_STAMP = "\0".repeat(STAMP_BYTES)
const GREATEST_STAMP = "\xff".repeat(STAMP_BYTES)

/** FoundationDB takes the stamp's place in the last bytes of a value, and counts them. */
const STAMP_POSITION_BYTES = 4

/** Remembers what it holds at this moment: the function that it returns brings that back. */
type Participant = () => () => void

/** Where a key with a versionstamp may come to lie, as texts: every read is held against all of these. */
interface Unreadable {
  readonly begin: string
  readonly end: string
  /** Where the versionstamp begins. */
  readonly position: number
}

const error = (reason: BackendError.Reason) => new BackendError.BackendError({ reason })

/** Where transactions run: a tenant, or the root that holds the directories. */
export interface Place {
  readonly backend: Backend["Service"]
  readonly prefix: Uint8Array
  /** The prefix of a user's own keys. */
  readonly userPrefix: Uint8Array
  /** What rooms above find here by their own keys: what a tenant's layer keeps for its transactions. */
  readonly services: Context.Context<never>
}

/** Thrown through a body whose try can no longer commit. Never seen outside the loop. */
export class Aborted extends Error {
  override readonly name = "TransactionAborted"
  readonly error: BackendError.BackendError
  constructor(error: BackendError.BackendError) {
    super(error.message)
    this.error = error
  }
}

export class TransactionState {
  failure: BackendError.BackendError | undefined
  size = 0
  /** Reads of the store that have not answered yet: why a body may suspend. */
  pendingReads = 0
  /** Called after each of them. */
  onReadSettled: (() => void) | undefined
  versionstamp: Uint8Array | undefined
  /** Run once the body has succeeded: for writes with a versionstamp, which the body itself could not read again. */
  readonly beforeCommit: Array<() => void> = []
  /** Run when later transactions of this process read the writes: for wake-ups. The commit may still fail. */
  readonly onAccepted: Array<() => void> = []
  /** Run when the commit is known to be durable: for answers. */
  readonly onCommit: Array<() => void> = []
  /** Run when the try has ended, however it did, and whatever was taken back. */
  readonly onEnd: Array<() => void> = []
  readonly #overlay = new Overlay()
  readonly #stamped: Array<Mutation> = []
  readonly #unreadable: Array<Unreadable> = []
  readonly #readKeys = new Map<string, Uint8Array>()
  #readRanges: Map<string, KeyRange> | undefined
  readonly #watches: Array<WatchRequest> = []
  #fetched: Map<string, Uint8Array | undefined> | undefined
  #kept: Map<symbol, unknown> | undefined
  readonly #participants: Array<Participant> = []
  /** What takes participants back to the last mark. */
  #taking: Array<() => void> = []
  #userVersion = 0
  #closed = false
  readonly driver: DriverTransaction
  readonly prefix: Uint8Array
  readonly operationId: Uint8Array
  readonly attempt: number
  readonly timeMillis: number
  readonly target: Place

  constructor(
    driver: DriverTransaction,
    options: {
      readonly target: Place
      readonly operationId: Uint8Array
      readonly attempt: number
      readonly timeMillis: number
    }
  ) {
    this.driver = driver
    this.target = options.target
    this.prefix = options.target.prefix
    this.operationId = options.operationId
    this.attempt = options.attempt
    this.timeMillis = options.timeMillis
  }

  /** Keeps the first failure; nothing of this try can commit any more (1). */
  fail(reason: BackendError.Reason): void {
    this.failure ??= error(reason)
  }

  /** Ends the try: later calls, from fibers that outlived it, are refused. */
  close(): void {
    this.#closed = true
    this.driver.close()
    for (const ended of this.onEnd.splice(0)) ended()
  }

  /** What another module keeps for the length of this try. Weak maps beside the tries cost the collector more. */
  kept<A>(name: symbol): A | undefined {
    return this.#kept?.get(name) as A | undefined
  }

  keep(name: symbol, value: unknown): void {
    this.#kept ??= new Map()
    this.#kept.set(name, value)
  }

  /** Whoever keeps what it will write until the end takes part in what is taken back. */
  participate(participant: Participant): void {
    this.#participants.push(participant)
    this.#taking.push(participant())
  }

  /** Remembers this moment: the function that it returns takes back all that was written, and asked for, since then. */
  mark(): () => void {
    const overlay = this.#overlay.mark()
    const lengths = [this.#stamped, this.#unreadable, this.onAccepted, this.onCommit].map((list) => list.length)
    const watches = this.#watches.length
    const taking = this.#taking = this.#participants.map((participant) => participant())
    return () => {
      for (const takeBack of taking) takeBack()
      this.#overlay.restore(overlay)
      ;[this.#stamped, this.#unreadable, this.onAccepted, this.onCommit].forEach((list, i) => {
        list.length = lengths[i]!
      })
      for (const watch of this.#watches.splice(watches)) watch.onCancel?.()
    }
  }

  get(key: Uint8Array, snapshot = false): Effect.Effect<Uint8Array | undefined> {
    if (this.isRefused()) return this.#die()
    const text = Keys.toText(key)
    const entry = this.#overlay.entries.get(text)
    if (entry !== undefined && entry.op !== "add") {
      if (entry.op === "set") return Effect.succeed(entry.value)
      if (entry.op === "clear") return Effect.undefined
      return this.#unreadableKey(key)
    }
    if (this.#unreadable.some((range) => covers(range, text))) return this.#unreadableKey(key)
    if (entry === undefined && this.#overlay.isCleared(text)) return Effect.undefined
    if (!this.#checkKey(key)) return this.#die()
    if (!snapshot) this.#addReadKey(text, key)
    const read = this.#fetched?.has(text) ?
      Effect.succeed(this.#fetched.get(text))
      : this.#guard(this.driver.get(key))
    return entry === undefined ? read : Effect.map(read, (value) => addBytes(value, entry.operand))
  }

  /**
   * Reads keys together, so that a `get` of one asks the store no more: of a store at the end of a connection, many reads
   * one after another cost as many round trips. A store in this process, whose commits are never unknown, answers at
   * once. Conflicts come with the `get` alone.
   */
  prefetch(keys: () => ReadonlyArray<Uint8Array>): Effect.Effect<void> {
    if (!this.target.backend.commitCanBeUnknown) return Effect.void
    if (this.isRefused()) return this.#die()
    const fetched = this.#fetched ??= new Map()
    return Effect.forEach(keys(), (key) =>
      this.#checkKey(key)
        ? Effect.map(this.#guard(this.driver.get(key)), (value) => {
          fetched.set(Keys.toText(key), value)
        })
        : this.#die(), { concurrency: "unbounded", discard: true })
  }

  getRange(
    begin: Uint8Array,
    end: Uint8Array,
    options: {
      readonly limit?: number | undefined
      readonly reverse?: boolean | undefined
      readonly snapshot?: boolean | undefined
    } = {}
  ): Effect.Effect<ReadonlyArray<KeyValue>> {
    if (this.isRefused()) return this.#die()
    const limit = options.limit ?? Infinity
    const reverse = options.reverse ?? false
    if (limit <= 0 || Buffer.compare(begin, end) >= 0) return Effect.succeed([])
    const snapshot = options.snapshot ?? false
    if (this.#overlay.isEmpty && this.#unreadable.length === 0) {
      return Effect.map(this.#guard(this.driver.getRange(begin, end, { limit, reverse })), (rows) => {
        if (!snapshot) this.#addRangeConflict(begin, end, rows, limit, reverse)
        return rows
      })
    }
    return Effect.gen(() => this.#mergedRange(Keys.toText(begin), Keys.toText(end), limit, reverse, snapshot))
  }

  set(key: Uint8Array, value: Uint8Array): void {
    if (!this.#checkWrite(key, value)) return
    this.#overlay.set({ op: "set", key, value, text: Keys.toText(key) })
    this.#charge(3 * charged(this, key) + 1 + value.length)
  }

  clear(key: Uint8Array): void {
    if (!this.#checkWrite(key, undefined)) return
    this.#overlay.set({ op: "clear", key, text: Keys.toText(key) })
    this.#charge(4 * charged(this, key) + 2)
  }

  clearRange(begin: Uint8Array, end: Uint8Array): void {
    if (!this.#checkWrite(begin, undefined) || !this.#checkWrite(end, undefined)) return
    this.#overlay.clearRange(Keys.toText(begin), Keys.toText(end))
    this.#charge(2 * (charged(this, begin) + charged(this, end)))
  }

  add(key: Uint8Array, operand: Uint8Array): void {
    if (!this.#checkWrite(key, operand)) return
    const text = Keys.toText(key)
    if (this.#overlay.entries.get(text)?.op === "versionstampedValue") {
      return this.fail(unreadable("adding to"))
    }
    this.#overlay.add(text, key, operand)
    this.#charge(3 * charged(this, key) + 1 + operand.length)
  }

  setVersionstampedKey(key: Uint8Array, position: number, value: Uint8Array): void {
    if (!this.#checkWrite(key, value)) return
    const before = Keys.toText(key.subarray(0, position))
    const after = Keys.toText(key.subarray(position + STAMP_BYTES))
    this.#unreadable.push({
      begin: before + LEAST_STAMP + after,
      end: `${before}${GREATEST_STAMP}${after}\0`,
      position
    })
    this.#stamped.push({ op: "versionstampedKey", key, position, value })
    this.#charge(3 * charged(this, key) + 1 + value.length)
  }

  setVersionstampedValue(key: Uint8Array, value: Uint8Array, position: number): void {
    if (!this.#checkWrite(key, value, STAMP_POSITION_BYTES)) return
    this.#overlay.set({ op: "versionstampedValue", key, value, position, text: Keys.toText(key) })
    this.#charge(3 * charged(this, key) + 1 + value.length)
  }

  /** The next number that tells apart what this transaction writes with its versionstamp, in order. */
  nextUserVersion(): number {
    if (this.#userVersion >= USER_VERSION_LIMIT) {
      this.fail(
        new BackendError.TransactionTooLarge({
          message: `a transaction can push ${USER_VERSION_LIMIT} messages at the most: split them`
        })
      )
    }
    return this.#userVersion++
  }

  watch(request: WatchRequest): void {
    if (this.isRefused() || !this.#checkKey(request.key)) return
    this.#watches.push(request)
  }

  addReadConflict(range: KeyRange): void {
    if (range instanceof Keys.Single) return this.#addReadKey(range.text, range.begin)
    const begin = Keys.toText(range.begin)
    const end = Keys.toText(range.end)
    if (end === `${begin}\0`) return this.#addReadKey(begin, range.begin)
    const text = `${begin} ${end}`
    this.#readRanges ??= new Map()
    if (this.#readRanges.has(text)) return
    this.#readRanges.set(text, range)
    this.#charge(charged(this, range.begin) + charged(this, range.end))
  }

  #addReadKey(text: string, key: Uint8Array): void {
    if (this.#readKeys.has(text)) return
    this.#readKeys.set(text, key)
    this.#charge(2 * charged(this, key) + 1)
  }

  get hasWrites(): boolean {
    return !this.#overlay.isEmpty || this.#stamped.length > 0
  }

  cancelWatches(): void {
    for (const watch of this.#watches) watch.onCancel?.()
  }

  request(): CommitRequest {
    const mutations = this.#overlay.mutations()
    for (const stamped of this.#stamped) mutations.push(stamped)
    const readConflicts = this.#readRanges === undefined ? [] : [...this.#readRanges.values()]
    for (const [text, key] of this.#readKeys) readConflicts.push(new Keys.Single(key, text))
    return new TryRequest(mutations, readConflicts, this.#watches)
  }

  /** The version of the snapshot: that of the newest commit that this try sees. */
  get readVersion(): Effect.Effect<bigint> {
    return this.isRefused() ? this.#die() : this.#guard(this.driver.readVersion)
  }

  // --- internal ---

  /** Whether nothing can be done with this try any more. */
  isRefused(): boolean {
    if (this.#closed) this.fail(new BackendError.Closed({ message: "this transaction has ended: nothing may use it" }))
    return this.failure !== undefined
  }

  #die(): Effect.Effect<never> {
    return Effect.die(new Aborted(this.failure!))
  }

  #guard<A>(read: Effect.Effect<A, BackendError.BackendError>): Effect.Effect<A> {
    return Effect.suspend(() => {
      this.pendingReads++
      return Effect.matchCauseEffect(read, {
        onSuccess: (value) => {
          this.pendingReads--
          this.onReadSettled?.()
          return Effect.succeed(value)
        },
        onFailure: (cause) => {
          this.pendingReads--
          this.onReadSettled?.()
          for (const reason of cause.reasons) {
            if (reason._tag === "Fail") {
              this.failure ??= reason.error
              return this.#die()
            }
          }
          return Effect.failCause(cause as any)
        }
      })
    })
  }

  #unreadableKey(_key: Uint8Array): Effect.Effect<never> {
    this.fail(unreadable("reading"))
    return this.#die()
  }

  #checkKey(key: Uint8Array): boolean {
    const length = charged(this, key)
    if (length <= KEY_LIMIT_BYTES) return true
    this.fail(
      new BackendError.KeyTooLarge({
        message: `a key has ${length - KEY_PREFIX_ALLOWANCE_BYTES} bytes, and at most ${
          KEY_LIMIT_BYTES - KEY_PREFIX_ALLOWANCE_BYTES
        } fit: shorten its elements`
      })
    )
    return false
  }

  #checkWrite(key: Uint8Array, value: Uint8Array | undefined, kept = 0): boolean {
    if (this.isRefused() || !this.#checkKey(key)) return false
    const limit = VALUE_LIMIT_BYTES - kept
    if (value === undefined || value.length <= limit) return true
    this.fail(
      new BackendError.ValueTooLarge({
        message: `a value has ${value.length} bytes, and at most ${limit} fit: split it over several keys`
      })
    )
    return false
  }

  #charge(bytes: number): void {
    this.size += bytes
    if (this.size > TRANSACTION_LIMIT_BYTES) {
      this.fail(
        new BackendError.TransactionTooLarge({
          message: `the transaction has over ${TRANSACTION_LIMIT_BYTES} bytes: do the work in several transactions`
        })
      )
    }
  }

  #addRangeConflict(
    begin: Uint8Array,
    end: Uint8Array,
    rows: ReadonlyArray<KeyValue>,
    limit: number,
    reverse: boolean
  ): void {
    if (rows.length < limit) return this.addReadConflict({ begin, end })
    const last = rows[rows.length - 1]!.key
    this.addReadConflict(reverse ? { begin: last, end } : { begin, end: Keys.next(last) })
  }

  /** Forward and reverse: the store's rows of the uncleared parts, with the entries laid over them. */
  *#mergedRange(
    low: string,
    high: string,
    limit: number,
    reverse: boolean,
    snapshot: boolean
  ): Effect.fn.Return<ReadonlyArray<KeyValue>> {
    const overlay = this.#overlay
    const bound = yield* this.#readableBound(low, high, reverse)
    const from = reverse ? bound : low
    const to = reverse ? high : bound
    const keys = overlay.keysBetween(from, to)
    // every written key can hide one row of the store at the most
    const wanted = limit === Infinity ? Infinity : limit + keys.length
    const rows = new Map<string, Uint8Array>()
    const parts = overlay.uncleared(from, to)
    if (reverse) parts.reverse()
    let complete = true
    let reached = reverse ? from : to
    for (const part of parts) {
      const left = wanted - rows.size
      const begin = Keys.fromText(part.begin)
      const end = Keys.fromText(part.end)
      const found = yield* this.#guard(this.driver.getRange(begin, end, { limit: left, reverse }))
      if (!snapshot) this.#addRangeConflict(begin, end, found, left, reverse)
      for (const row of found) rows.set(Keys.toText(row.key), row.value)
      if (found.length >= left) {
        complete = false
        reached = Keys.toText(found[found.length - 1]!.key)
        break
      }
    }
    for (const key of keys) {
      if (!complete && (reverse ? key < reached : key > reached)) continue
      const entry = overlay.entries.get(key)!
      if (entry.op === "versionstampedValue") return yield* this.#unreadableKey(Keys.fromText(key))
      if (entry.op === "clear") rows.delete(key)
      else rows.set(key, entry.op === "set" ? entry.value : addBytes(rows.get(key), entry.operand))
    }
    const out = [...rows.keys()].sort()
    if (reverse) out.reverse()
    if (out.length > limit) out.length = limit
    if (out.length < limit && (reverse ? bound !== low : bound !== high)) {
      return yield* this.#unreadableKey(Keys.fromText(bound))
    }
    return out.map((key): KeyValue => ({ key: Keys.fromText(key), value: rows.get(key)! }))
  }

  /** How far a range can be read before it meets what this transaction writes with a versionstamp (3). */
  #readableBound(low: string, high: string, reverse: boolean): Effect.Effect<string> {
    const overlapping = this.#unreadable.filter(({ begin, end }) => begin < high && end > low)
    if (overlapping.length === 0) return Effect.succeed(reverse ? low : high)
    return Effect.map(this.#guard(this.driver.readVersion), (version) => {
      let bound = reverse ? low : high
      for (const range of overlapping) {
        const begin = Keys.fromText(range.begin)
        new DataView(begin.buffer, begin.byteOffset).setBigUint64(range.position, version + 1n)
        const from = Keys.toText(begin)
        const to = range.end
        if (reverse) {
          if (to > bound) bound = to < high ? to : high
        } else if (from < bound) bound = from > low ? from : low
      }
      return bound
    })
  }
}

const covers = ({ begin, end }: Unreadable, text: string): boolean => begin <= text && text < end

const charged = (state: TransactionState, key: Uint8Array): number =>
  Math.max(0, key.length - state.prefix.length) + KEY_PREFIX_ALLOWANCE_BYTES

const unreadable = (what: string) =>
  new BackendError.AccessedUnreadable({
    message: `${what} a key that this transaction writes with a versionstamp: it is known only after the commit`
  })

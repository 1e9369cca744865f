/**
 * Optimistic transactions of one process over a base that knows only the present: what `MemoryBackend` and
 * `SqliteBackend` share.
 *
 * Owner: one store a backend, used by all fibers of the process; every method runs without interruption, so nothing
 * here is locked. `Base` holds what was written, `#history` what was accepted since and what a running transaction may
 * still ask for, `#log` the commits that a running transaction may conflict with.
 *
 * 1. A commit is accepted at once or refused: refused, when a commit that was accepted after the transaction's snapshot
 *    wrote into one of its read-conflict ranges. Transactions that begin later read what was accepted.
 * 2. A transaction reads the values of its snapshot however many commits are accepted meanwhile.
 * 3. An accepted commit is answered when it is durable, or fails, and one that only read when what it read is. When accepted commits are dropped, every transaction
 *    that could have read them is stale: its next step fails as too old.
 * 4. A transaction never sees two states of a base that others change, nor one older than its beginning: its first
 *    read, and every read of what the base does not know to be as it was, is followed by a look whether they did, and
 *    then whoever had read before is stale.
 * 5. A range of very many keys is cleared as a range: nothing is read or kept for its rows. A transaction that began before
 *    such a commit was durable, and then reads in the range, is too old: what was there is not kept for it.
 * 6. A transaction lives for `TRANSACTION_LIMIT_MILLIS` from its first read. Nothing is kept for longer than the oldest
 *    living one needs it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type CommitRequest, type DriverTransaction, type KeyValue, TRANSACTION_LIMIT_MILLIS } from "../../Backend.ts"
import { BackendError, Closed, Conflict, type Reason } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import {
  type Accepted,
  type Effects,
  holds,
  type Range,
  reached,
  resolve,
  type Seen,
  stampOf,
  type Value
} from "./acceptedCommit.ts"
import type { Changes } from "./changes.ts"
import { CommitLog, toRange } from "./commitLog.ts"
import { History, type Present, tooOld } from "./history.ts"
import { fire, Watches } from "./watches.ts"

/** What is durable: reads of the present, without waiting. They may throw a `BackendError`, or `Busy`. */
export interface Base extends Present {
  /** Whether something that was read since the last look may be of another state than what was read before it. */
  readonly unconfirmed: () => boolean
  /** What others did to the base since the last look, or `undefined` when they did nothing. */
  readonly look: () => Foreign | undefined
  /** What whoever read up to a version waits for before it tells; `undefined` when the base will keep all of that. */
  readonly durable: (version: number) => Effect.Effect<void, BackendError> | undefined
}

/** What others did to the base. */
export interface Foreign {
  readonly version: number
  /** `undefined` when nobody knows: anything may be different. */
  readonly changes: Changes | undefined
}

/** Thrown by a base that cannot be read at this moment: `wait`, and try again. */
export class Busy {
  readonly error: BackendError
  readonly wait: Effect.Effect<void>
  constructor(error: BackendError, wait: Effect.Effect<void>) {
    this.error = error
    this.wait = wait
  }
}

/** How often a busy base is tried before its error is given on. */
const BUSY_TRIES = 50

/** How often a first read starts over because others commit at that moment. */
const FIRST_READ_TRIES = 10

/** A layer's use of a store. */
export interface Session {
  readonly begin: Effect.Effect<DriverTransaction, BackendError>
  readonly close: () => void
}

const error = (reason: Reason) => new BackendError({ reason })

/** What everything of a store fails with after its end. */
export const closedError = (): BackendError => error(new Closed({ message: "the store's scope is closed" }))

/** One running transaction, as the store knows it. */
class Running {
  readVersion: number | undefined
  startedMillis = 0
  stale = false
  readonly seen: Array<Seen> = []
  readonly clock: Clock.Clock
  constructor(clock: Clock.Clock) {
    this.clock = clock
  }

  get isOverdue(): boolean {
    return this.readVersion !== undefined &&
      this.clock.currentTimeMillisUnsafe() - this.startedMillis > TRANSACTION_LIMIT_MILLIS
  }
}

export class OptimisticStore {
  /** The version of the newest accepted commit. */
  version: number
  readonly #base: Base
  readonly #history: History
  readonly #log = new CommitLog()
  /** The transactions that have read, oldest snapshot first. */
  readonly #readers = new Set<Running>()
  readonly #watches: Watches
  readonly #shared: boolean
  readonly #accepted: (commit: Accepted) => void
  #sessions = 0
  closed = false

  constructor(options: {
    readonly base: Base
    readonly version: number
    /** Whether others change the base, so that what was seen must be kept. */
    readonly shared: boolean
    /** Takes an accepted commit; calls its `done` when it is durable or failed. */
    readonly accepted: (commit: Accepted) => void
    /** Told when the first watch comes and when the last one goes. */
    readonly watching?: (some: boolean) => void
  }) {
    this.#base = options.base
    this.version = options.version
    this.#history = new History(options.base, options.version)
    this.#shared = options.shared
    this.#accepted = options.accepted
    this.#watches = new Watches((key) => this.#history.get(key, this.version), options.watching ?? (() => {}))
  }

  /** How many old values and commits are kept for running transactions. */
  get kept(): number {
    return this.#history.kept + this.#log.size
  }

  /** What one layer uses of the store: no transaction begins after its end, and watches end with the last one. */
  open(): Session {
    let open = true
    this.#sessions++
    return {
      begin: this.#begin(() => open),
      close: () => {
        if (!open) return
        open = false
        if (--this.#sessions === 0) this.#watches.failAll(closedError())
      }
    }
  }

  #begin(isOpen: () => boolean): Effect.Effect<DriverTransaction, BackendError> {
    return Clock.clockWith((clock) => {
      if (this.closed || !isOpen()) return Effect.fail(closedError())
      const running = new Running(clock)
      const attempt = <A>(read: (version: number) => A) => retryBusy(() => Effect.succeed(this.#read(running, read)))
      return Effect.succeed<DriverTransaction>({
        readVersion: attempt((version) => BigInt(version)),
        get: (key) =>
          attempt((version) => {
            const text = Keys.toText(key)
            const value = this.#history.get(text, version)
            if (this.#shared) {
              running.seen.push({ begin: text, end: `${text}\0`, rows: value === undefined ? [] : [[text, value]] })
            }
            return value
          }),
        getRange: (begin, end, { limit, reverse }) =>
          attempt((version) => {
            const range = { begin: Keys.toText(begin), end: Keys.toText(end) }
            const rows = this.#history.range(range.begin, range.end, limit, reverse, version)
            if (this.#shared) running.seen.push({ ...reached(range, rows, limit, reverse), rows })
            return rows.map(([key, value]): KeyValue => ({ key: Keys.fromText(key), value }))
          }),
        commit: (request, accepted) => retryBusy(() => this.#commit(running, request, accepted)),
        close: () => {
          if (this.#readers.delete(running)) this.#trim()
        }
      })
    })
  }

  /** Called before what is pending goes into the base: keeps what running transactions may ask for (2). */
  keepOlder(): void {
    const oldest = this.#oldest()
    if (oldest < this.version) this.#history.keepOlder(oldest)
  }

  /** The base holds all that was accepted. */
  applied(): void {
    this.#history.apply(this.version)
    this.#trim()
  }

  /** What was pending is gone, or became something else (3); others may have changed the base meanwhile. */
  reset({ changes, version }: Foreign): void {
    const dropped = this.#history.drop()
    this.version = Math.max(this.version, version)
    this.#history.applied = this.version
    this.#expireReaders()
    this.#watches.recheck(dropped)
    this.#recheck(changes)
  }

  /** Later commits get greater versions than this one. The next commit makes it durable. */
  advance(version: number): void {
    this.version = Math.max(this.version, version)
  }

  // --- reads ---

  #read<A>(running: Running, read: (version: number) => A): A {
    for (let tries = 0; tries < FIRST_READ_TRIES; tries++) {
      this.#check(running)
      const version = running.readVersion ?? this.version
      const value = read(version)
      const isFirst = running.readVersion === undefined
      const foreign = isFirst || this.#base.unconfirmed() ? this.#base.look() : undefined
      if (foreign === undefined) {
        if (isFirst) this.#start(running, version)
        return value
      }
      this.#foreign(foreign)
      running.seen.length = 0
    }
    throw tooOld("met commits of other processes again and again")
  }

  #start(running: Running, version: number): void {
    running.readVersion = version
    running.startedMillis = running.clock.currentTimeMillisUnsafe()
    this.#readers.add(running)
  }

  #check(running: Running): void {
    if (this.closed) throw closedError()
    if (running.isOverdue) throw tooOld(`took longer than ${TRANSACTION_LIMIT_MILLIS} ms`)
    if (running.stale) throw tooOld("read a state that is gone")
  }

  /** Looks whether others changed the base, for the sake of the watches, and says so. */
  lookAgain(): boolean {
    let foreign: Foreign | undefined
    try {
      foreign = this.#base.look()
    } catch {
      // nobody knows: whoever watches looks for himself, and meets the error
      this.#watches.recheckAll()
      return true
    }
    if (foreign !== undefined) this.#foreign(foreign)
    return foreign !== undefined
  }

  /** Others changed the base: who has read before reads no more (4); what is pending is checked when it is written. */
  #foreign({ changes, version }: Foreign): void {
    this.version = Math.max(this.version, version)
    if (this.#history.isApplied) this.#history.applied = this.version
    this.#expireReaders()
    this.#recheck(changes)
  }

  #recheck(changes: Changes | undefined): void {
    if (changes === undefined) this.#watches.recheckAll()
    else this.#watches.recheck(changes)
  }

  #expireReaders(): void {
    for (const running of this.#readers) running.stale = true
    this.#readers.clear()
    this.#trim()
  }

  // --- commits ---

  #commit(
    running: Running,
    request: CommitRequest,
    accepted: () => void
  ): Effect.Effect<Uint8Array, BackendError> {
    this.#check(running)
    const version = running.readVersion ?? this.version
    if (request.mutations.length === 0) return this.#commitRead(running, request, version)
    const reads = request.readConflicts.map(toRange)
    if (this.#log.conflicts(reads, version)) {
      throw error(new Conflict({ message: "another transaction wrote what this one read: run it again" }))
    }
    return this.#commitWrite(running, request, reads, accepted)
  }

  /** A commit that writes nothing waits for what it read to be durable (3). */
  #commitRead(running: Running, request: CommitRequest, version: number): Effect.Effect<Uint8Array, BackendError> {
    this.#arm(request, this.#expected(request, version))
    this.#readers.delete(running)
    if (version <= this.#history.applied) {
      this.#trim()
      const durable = this.#base.durable(version)
      return durable === undefined ? Effect.succeed(stampOf(version)) : Effect.as(durable, stampOf(version))
    }
    const seen = running.seen
    return this.#answer(
      { version, request, writes: new Map(), clears: [], reads: seen, seen, isReadOnly: true },
      () => {}
    )
  }

  #commitWrite(
    running: Running,
    request: CommitRequest,
    reads: ReadonlyArray<Range>,
    accepted: () => void
  ): Effect.Effect<Uint8Array, BackendError> {
    const version = this.version + 1
    const now = (key: string) => this.#history.get(key, this.version)
    const effects = resolve(
      request,
      version,
      now,
      (begin, end, limit) => this.#history.range(begin, end, limit, false, this.version)
    )
    const expected = this.#expected(request, running.readVersion ?? this.version)
    // nothing below throws: the commit is accepted whole
    this.version = version
    this.#history.accept(version, effects)
    this.#readers.delete(running)
    // who begins later reads what this commit wrote
    if (this.#readers.size > 0) this.#log.add(version, request, effects.writes)
    this.#arm(request, expected, effects)
    return this.#answer({ version, request, ...effects, reads, seen: running.seen, isReadOnly: false }, accepted)
  }

  /** Hands an accepted commit on, and waits until it is durable or dropped. */
  #answer(parts: Omit<Accepted, "done">, accepted: () => void): Effect.Effect<Uint8Array, BackendError> {
    let exit: Effect.Effect<Uint8Array, BackendError> | undefined
    let resume: ((effect: Effect.Effect<Uint8Array, BackendError>) => void) | undefined
    const commit: Accepted = {
      ...parts,
      done: (failure) => {
        // watches of a transaction that does not commit are dropped
        if (failure !== undefined) { for (const watch of parts.request.watches) watch.onCancel?.() }
        exit = failure === undefined ? Effect.succeed(stampOf(commit.version)) : Effect.fail(failure)
        resume?.(exit)
      }
    }
    this.#accepted(commit)
    // whoever is woken runs at once, and may commit: the commit before it must be in its place
    accepted()
    for (const range of parts.clears) this.#watches.cleared(range, parts.writes)
    for (const [key, value] of parts.writes) this.#watches.changed(key, value)
    return exit ?? Effect.callback((register) => {
      if (exit === undefined) resume = register
      else register(exit)
    })
  }

  // --- watches ---

  #expected(request: CommitRequest, version: number): ReadonlyArray<Value> {
    return request.watches.map((watch) => this.#history.get(Keys.toText(watch.key), version))
  }

  /** Arms the watches of a commit. */
  #arm(request: CommitRequest, expected: ReadonlyArray<Value>, effects?: Effects): void {
    if (request.watches.length === 0) return
    request.watches.forEach((watch, index) => {
      const key = Keys.toText(watch.key)
      const isCleared = effects?.clears.some((range) => holds(range, key)) ?? false
      const found = isCleared ? undefined : expected[index]
      this.#watches.arm(watch, effects?.writes.has(key) ? effects.writes.get(key) : found)
    })
    // what others changed while the watches were armed may already be in what they expect
    if (!this.lookAgain()) return
    for (const watch of request.watches) fire(watch)
  }

  // --- memory ---

  /** The oldest snapshot that may still be asked for (6). */
  #oldest(): number {
    for (const running of this.#readers) {
      if (!running.isOverdue) return running.readVersion!
      running.stale = true
      this.#readers.delete(running)
    }
    return this.version
  }

  #trim(): void {
    const oldest = Math.min(this.#oldest(), this.#history.applied)
    if (oldest === this.version) {
      this.#log.clear()
      this.#history.forgetAll()
    } else this.#history.forget(oldest, this.#log.forget(oldest))
  }
}

/** Runs a step; what it throws is its failure, and a busy base is tried again. */
const retryBusy = <A>(
  step: () => Effect.Effect<A, BackendError>,
  tries = BUSY_TRIES
): Effect.Effect<A, BackendError> =>
  Effect.suspend(() => {
    try {
      return step()
    } catch (cause) {
      if (cause instanceof BackendError) return Effect.fail(cause)
      if (!(cause instanceof Busy)) throw cause
      return tries === 0 ? Effect.fail(cause.error) : Effect.andThen(cause.wait, retryBusy(step, tries - 1))
    }
  })

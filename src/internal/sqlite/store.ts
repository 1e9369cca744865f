/**
 * The store of one SQLite file in this process: group commit, and the changes of other processes.
 *
 * Owner: the process holds one store a file, shared by all layers of that file and closed with the last of them. The
 * connection is used by this module alone, and never left inside a transaction of SQLite.
 *
 * 1. Accepted commits wait for the flush at the end of the running macrotask, or a little longer for others that come at
 *    the same time (see `syncing.ts`). One flush writes all of them in one `BEGIN IMMEDIATE`, and they are answered when the
 *    log was synced after it: concurrent commits share a sync, and later ones are written while it runs.
 * 2. If another process committed meanwhile, each commit's reads are read again within the flush and compared with what
 *    it saw, in order; a commit that saw something else is refused as a conflict, and the others get new versions. The
 *    group is taken when the lock is held, so no accepted commit is left that relies on what was refused.
 * 3. A lock that another process holds is tried for again from a timer, for `LOCK_LIMIT_MILLIS`; nothing blocks. The
 *    timers are the system's: another process keeps real time whatever `Clock` this one has.
 * 4. If a flush fails, nothing of it is in the file, and all that read it are stale. If it succeeds and was synced, its
 *    version is noted beside the database before its commits are answered, so that a later loss of it is found, and so that
 *    other processes know that it is on the disk (see `versionFile.ts`).
 * 5. `#known` is the file's version as of the newest commit that this process wrote or took notice of with nothing
 *    pending; only while the file has it do pending commits hold without being looked at again (2).
 * 6. `#cache` holds what the file held at the last look, and is emptied by a look or a flush that found a change by
 *    others. It spares queries, not looks: a transaction's first read is followed by one (see `stores/optimisticStore.ts`).
 * 7. `#seen` is the newest version that was read in the file or written to it, and the one that the watches know of. Each
 *    flush notes in the file what it changed, and who looks reads what was changed since `#seen` (see `changeLog.ts`).
 * 8. When the files at the paths are no longer those that are open, reads fail soon and commits at once (see
 *    `presence.ts`).
 * 9. What is in the file need not be on the disk, whoever wrote it. `#durable` is a version up to which it is. Whoever
 *    relies on a later one, and be it that he only read it, is answered after a sync.
 * 10. When a sync has failed, those who waited for it fail as unknown, and all else fails, until the file is opened again.
 */
import * as Effect from "effect/Effect"
import { BackendError, Conflict, TransactionTooOld } from "../../BackendError.ts"
import {
  type Accepted,
  type Effects,
  resolve,
  type Row,
  stillHolds,
  together,
  type Value
} from "../stores/acceptedCommit.ts"
import { changesOf } from "../stores/changes.ts"
import { Busy, type Foreign, OptimisticStore } from "../stores/optimisticStore.ts"
import { Signals } from "../stores/signals.ts"
import * as ChangeLog from "./changeLog.ts"
import { isBusy, toBackendError, unknown } from "./errors.ts"
import type { SqliteFile } from "./file.ts"
import { LogLength } from "./logLength.ts"
import { Noticing } from "./noticing.ts"
import { ReadCache } from "./readCache.ts"
import { Sweeping } from "./sweeping.ts"
import { Syncing } from "./syncing.ts"

/** Longer than any flush of another process, shorter than a call's patience. */
const LOCK_LIMIT_MILLIS = 10_000

const LOCK_RETRY_FIRST_MILLIS = 1
const LOCK_RETRY_LIMIT_MILLIS = 50

/** Readers are locked out only while a file is opened, closed or recovered. */
const READ_RETRY_MILLIS = 5

/** For how long reads go on in files that somebody took away (8). */
const PRESENCE_READ_MILLIS = 250

/** So often all watched keys are read again while others commit, in slices: a net below the log of changes (7). */
const READ_ALL_MILLIS = 30_000

/** Waits in real time: another process keeps no other. */
export const pause = (millis: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const timer = setTimeout(() => resume(Effect.void), millis)
    return Effect.sync(() => clearTimeout(timer))
  })

export class SqliteStore {
  readonly store: OptimisticStore
  readonly signals = new Signals()
  readonly #file: SqliteFile
  readonly #cache = new ReadCache()
  readonly #noticing: Noticing
  readonly #log: LogLength
  readonly #sweeping: Sweeping
  readonly #syncing: Syncing
  #pending: Array<Accepted> = []
  #scheduled = false
  #lockTriesSince: number | undefined
  #lockTries = 0
  #known: number
  #seen: number
  /** A version up to which the file is on the disk (9). */
  #durable: number
  /** The newest version that this process wrote. */
  #written = 0
  /** What the newest commits up to `#known` changed. */
  #changes: Buffer
  /** When all watched keys were read last. */
  #readAllMillis = performance.now()
  /** SQLite's own count of the changes by others, at the last look. */
  #dataVersion: number
  #drained: Array<() => void> = []

  constructor(file: SqliteFile) {
    this.#file = file
    this.#dataVersion = file.dataVersion()
    this.#known = this.#seen = file.version()
    this.#changes = file.changes()
    this.#durable = file.syncsBeside ? file.durableVersion() : Infinity
    this.store = new OptimisticStore({
      base: {
        get: (key) => this.#get(key),
        range: (begin, end, limit, reverse) => this.#range(begin, end, limit, reverse),
        unconfirmed: () => this.#cache.unconfirmed,
        look: () => this.#read(() => this.#look()),
        durable: (version) => this.#whenDurable(version)
      },
      version: this.#known,
      shared: true,
      accepted: (commit) => {
        this.#pending.push(commit)
        this.#schedule()
      },
      watching: (some) => some ? this.#noticing.start() : this.#noticing.stop()
    })
    this.#noticing = new Noticing(file, () => !this.store.closed && this.store.lookAgain(), () => this.#known)
    this.#syncing = new Syncing({
      start: (done) => file.sync(done),
      now: () => file.syncNow(),
      seen: () => this.#seen,
      ended: (version) => this.#synced(version),
      failed: (cause) => file.break(cause)
    })
    this.#log = new LogLength(file, {
      released: () => this.#released(),
      renewed: () => this.#renewed(),
      failed: (cause) => this.#syncing.fail(cause)
    })
    this.#log.tend()
    this.#sweeping = new Sweeping(file, () => this.#log.tend())
    this.#sweeping.tend(false)
  }

  /** Calls back when nothing waits for a flush or a sync, and no other thread has the file open. */
  onDrained(callback: () => void): void {
    if (this.#pending.length > 0) return void this.#drained.push(() => this.onDrained(callback))
    this.#syncing.onIdle(() => {
      this.#log.rest(() => {
        const isAtRest = this.#pending.length === 0 && this.#syncing.isIdle && this.#log.isAtRest
        if (!isAtRest) this.onDrained(callback)
        else callback()
      })
    })
  }

  close(): void {
    this.store.closed = true
    this.#noticing.stop()
    this.#log.stop()
    this.#sweeping.stop()
    this.#file.close()
  }

  // --- reads ---

  #read<A>(run: () => A): A {
    try {
      this.#file.checkPresence(PRESENCE_READ_MILLIS)
      return run()
    } catch (cause) {
      this.#cache.clear()
      const error = this.#errorOf(cause)
      throw isBusy(error) ? new Busy(error, pause(READ_RETRY_MILLIS)) : error
    }
  }

  /** What a file that was taken away fails with is a consequence (8). */
  #errorOf(cause: unknown): BackendError {
    try {
      this.#file.checkPresence(0)
      return toBackendError(this.#file.filename, cause)
    } catch (taken) {
      return toBackendError(this.#file.filename, taken)
    }
  }

  #get(key: string): Value {
    if (this.#cache.has(key)) return this.#cache.get(key)
    const value = this.#read(() => this.#file.get(key))
    this.#cache.read(key, value)
    return value
  }

  #range(begin: string, end: string, limit: number, reverse: boolean): ReadonlyArray<Row> {
    if (this.#cache.isEmpty(begin, end)) return []
    const rows = this.#read(() => this.#file.range(begin, end, limit, reverse))
    this.#cache.readRange(begin, end, rows.length)
    return rows
  }

  /** What others did to the file since the last look, if they did anything. */
  #look(): Foreign | undefined {
    const dataVersion = this.#file.dataVersion()
    if (dataVersion === this.#dataVersion) {
      this.#cache.confirm()
      return undefined
    }
    this.#cache.clear()
    const version = this.#file.version()
    this.#dataVersion = dataVersion
    // with commits pending, the flush has to find out too (2)
    if (this.#pending.length === 0) this.#known = version
    this.#sweeping.tend(false)
    return this.#foreign(version)
  }

  /** What others changed up to a version (7). */
  #foreign(version: number): Foreign {
    this.#changes = this.#file.changes()
    const changes = ChangeLog.changesBetween(this.#changes, this.#seen, version)
    this.#seen = version
    const now = performance.now()
    if (changes !== undefined && now - this.#readAllMillis < READ_ALL_MILLIS) return { version, changes }
    this.#readAllMillis = now
    return { version, changes: undefined }
  }

  // --- the flush ---

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#gather(performance.now())
  }

  /** Flushes when the event loop went round and no more came (1). */
  #gather(sinceMillis: number): void {
    const known = this.#pending.length
    setImmediate(() => {
      if (this.#syncing.isWorthWaiting(sinceMillis, this.#pending.length > known)) this.#gather(sinceMillis)
      else this.#flush()
    })
  }

  #flush(): void {
    // goes on when it is released
    if (this.#log.isHeld) return
    this.#scheduled = false
    if (this.#pending.length === 0) return
    try {
      this.#file.checkPresence(0)
      this.#file.execute("BEGIN IMMEDIATE")
    } catch (cause) {
      return this.#locked(this.#errorOf(cause))
    }
    this.#lockTriesSince = undefined
    this.#lockTries = 0
    const commits = this.#pending
    this.#pending = []
    try {
      const version = this.#file.version()
      if (version === this.#known) this.#writeAll(commits)
      else this.#revalidate(commits, version)
    } catch (cause) {
      this.#failed(commits, this.#errorOf(cause))
    }
    this.#log.tend()
    this.#tellDrained()
  }

  #flushIn(millis: number): void {
    this.#scheduled = true
    setTimeout(() => this.#flush(), millis)
  }

  /** Nobody else committed: all that was accepted holds (1). */
  #writeAll(commits: ReadonlyArray<Accepted>): void {
    const effects = together(commits)
    this.store.keepOlder()
    this.#write(effects)
    this.#end(this.#known, this.store.version, effects)
    this.#known = this.#seen = this.store.version
    this.#cache.wrote(effects)
    this.store.applied()
    this.#answer(commits)
  }

  #write({ clears, writes }: Effects): void {
    for (const range of clears) this.#file.clear(range)
    for (const [key, value] of writes) this.#file.write(key, value)
    if (clears.length > 0) this.#sweeping.tend(true)
  }

  /** Commits what was written, and notes what that was (7). */
  #end(since: number, version: number, effects: Effects): void {
    const changes = ChangeLog.append(this.#changes, since, version, changesOf(effects.writes, effects.clears))
    this.#file.setVersion(version)
    this.#file.setChanges(changes)
    this.#file.execute("COMMIT")
    this.#changes = changes
    this.#written = version
    if (!this.#file.syncsBeside) this.#file.keepVersion(version)
  }

  /** Answers commits that hold, once they are on the disk (9). */
  #answer(commits: ReadonlyArray<Accepted>): void {
    if (commits.length === 0) return
    const isOwn = this.#written === this.#seen
    if (this.#seen <= this.#durable || (!isOwn && this.#isDurable(this.#seen))) {
      for (const commit of commits) commit.done(undefined)
    } else {
      const done = commits.map((commit) => (failure?: BackendError) => commit.done(this.#outcomeOf(commit, failure)))
      this.#syncing.wait(this.#seen, done)
    }
  }

  /** Nobody knows what became of a commit whose sync failed (10). */
  #outcomeOf(commit: Accepted, failure: BackendError | undefined): BackendError | undefined {
    return failure !== undefined && this.#syncing.hasFailed && !commit.isReadOnly ? unknown(failure) : failure
  }

  /** Notes that the file is on the disk up to a version, before anybody is told. */
  #synced(version: number): BackendError | undefined {
    try {
      if (this.#written > this.#durable) this.#file.keepVersion(version)
      this.#durable = Math.max(this.#durable, version)
      return undefined
    } catch (cause) {
      return toBackendError(this.#file.filename, cause)
    }
  }

  /** What whoever read up to a version waits for before it tells; `undefined` when that is on the disk (9). */
  #whenDurable(version: number): Effect.Effect<void, BackendError> | undefined {
    if (this.#isDurable(version)) return undefined
    return Effect.callback((resume) => {
      this.#syncing.wait(version, [(failure) => resume(failure === undefined ? Effect.void : Effect.fail(failure))])
    })
  }

  /** Whether this process knows that the file is on the disk up to a version; others may have synced it (4). */
  #isDurable(version: number): boolean {
    if (version <= this.#durable) return true
    this.#durable = Math.max(this.#durable, Math.min(this.#file.durableVersion(), this.#seen))
    return version <= this.#durable
  }

  /** The thread that began the log anew changed nothing that anybody reads. */
  #renewed(): void {
    try {
      const dataVersion = this.#file.dataVersion()
      if (this.#file.version() === this.#known) this.#dataVersion = dataVersion
    } catch {
      // the next look finds out
    }
  }

  #released(): void {
    if (this.#scheduled) this.#flush()
  }

  /** Others committed: what was read is read again (2). */
  #revalidate(commits: ReadonlyArray<Accepted>, fileVersion: number): void {
    this.#cache.clear()
    // greater than every version that anybody was told
    let version = Math.max(fileVersion, this.store.version)
    const get = (key: string) => this.#file.get(key)
    const rowsBetween = (begin: string, end: string, limit = Infinity) => this.#file.range(begin, end, limit, false)
    const refused = new Set<Accepted>()
    const written: Array<Effects> = []
    for (const commit of commits) {
      if (!stillHolds(commit, rowsBetween)) refused.add(commit)
      else if (!commit.isReadOnly) {
        commit.version = ++version
        const effects = resolve(commit.request, version, get, rowsBetween)
        written.push(effects)
        this.#write(effects)
      }
    }
    const { changes } = this.#foreign(fileVersion)
    const dataVersion = this.#file.dataVersion()
    if (written.length > 0) this.#end(fileVersion, version, together(written))
    else this.#file.execute("ROLLBACK")
    this.#dataVersion = dataVersion
    this.#known = this.#seen = written.length > 0 ? version : fileVersion
    this.store.reset({ version, changes })
    for (const commit of refused) commit.done(refusal(commit))
    this.#answer(commits.filter((commit) => !refused.has(commit)))
  }

  #locked(error: BackendError): void {
    const now = performance.now()
    this.#lockTriesSince ??= now
    if (isBusy(error) && now - this.#lockTriesSince <= LOCK_LIMIT_MILLIS) {
      const longest = Math.min(LOCK_RETRY_LIMIT_MILLIS, LOCK_RETRY_FIRST_MILLIS * 2 ** this.#lockTries++)
      // two processes that took turns at the same pace would meet again and again
      return this.#flushIn(Math.random() * longest)
    }
    this.#lockTriesSince = undefined
    this.#lockTries = 0
    const commits = this.#pending
    this.#pending = []
    this.#failed(commits, error)
    this.#tellDrained()
  }

  #failed(commits: ReadonlyArray<Accepted>, error: BackendError): void {
    this.#cache.clear()
    try {
      if (this.#file.inTransaction) this.#file.execute("ROLLBACK")
    } finally {
      this.store.reset({ version: this.store.version, changes: undefined })
      for (const commit of commits) commit.done(error)
    }
  }

  #tellDrained(): void {
    for (const callback of this.#drained.splice(0)) this.onDrained(callback)
  }
}

/** A commit that writes nothing does not conflict: it read what is gone. */
const refusal = (commit: Accepted): BackendError =>
  new BackendError({
    reason: commit.isReadOnly
      ? new TransactionTooOld({ message: "another process wrote what this transaction relied on: run it again" })
      : new Conflict({ message: "another process wrote what this transaction read: run it again" })
  })

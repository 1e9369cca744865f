/**
 * The store of one SQLite file in this process: group commit, and the changes of other processes.
 *
 * Owner: the process holds one store a file, shared by all layers of that file and closed with the last of them. The
 * connection is used by this module alone, and never left inside a transaction of SQLite.
 *
 * 1. Accepted commits wait for the flush at the end of the running macrotask. One flush writes all of them in one
 *    `BEGIN IMMEDIATE` and answers them when SQLite has synced it: concurrent commits share a sync.
 * 2. If another process committed meanwhile, each commit's reads are read again within the flush and compared with what
 *    it saw, in order; a commit that saw something else is refused as a conflict, and the others get new versions. The
 *    group is taken when the lock is held, so no accepted commit is left that relies on what was refused.
 * 3. A lock that another process holds is tried for again from a timer, for `LOCK_LIMIT_MILLIS`; nothing blocks. The
 *    timers are the system's: another process keeps real time whatever `Clock` this one has.
 * 4. If a flush fails, nothing of it is in the file, and all that read it are stale. If it succeeds, its version is noted
 *    beside the database before its commits are answered, so that a later loss of it is found (see `versionFile.ts`).
 * 5. `#known` is the file's version as of the newest commit that this process wrote or took notice of with nothing
 *    pending; only while the file has it do pending commits hold without being looked at again (2).
 * 6. `#seen` is the version that the watches know of. Each flush notes in the file what it changed, and who looks reads
 *    what was changed since `#seen` (see `changeLog.ts`).
 * 7. `#cache` holds what the file held at the last look, and is emptied by a look or a flush that found a change by
 *    others. It spares queries, not looks: a transaction's first read is followed by one (see `stores/optimisticStore.ts`).
 */
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
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
import { isBusy, type SqliteFile, toBackendError } from "./file.ts"
import { ReadCache } from "./readCache.ts"
import { Sweeping } from "./sweeping.ts"

/** Longer than any flush of another process, shorter than a call's patience. */
const LOCK_LIMIT_MILLIS = 10_000

const LOCK_RETRY_FIRST_MILLIS = 1
const LOCK_RETRY_LIMIT_MILLIS = 50

/** Readers are locked out only while a file is opened, closed or recovered. */
const READ_RETRY_MILLIS = 5

/** How late a commit of another process is seen where the file system does not tell. */
const POLL_MILLIS = 250

/** The file system tells of this process's own commits too: after so many of them in a row it is asked less often. */
const OWN_EVENTS_LIMIT = 8

/** How late a commit of another process is seen while this one commits again and again. */
const BUSY_POLL_MILLIS = 5

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
  readonly #sweeping: Sweeping
  #pending: Array<Accepted> = []
  #scheduled = false
  #lockTriesSince: number | undefined
  #lockTries = 0
  #known: number
  #seen: number
  /** What the newest commits up to `#known` changed. */
  #log: Buffer
  /** SQLite's own count of the changes by others, at the last look. */
  #dataVersion: number
  #watcher: fs.FSWatcher | undefined
  #poll: NodeJS.Timeout | undefined
  #noticing = false
  #ownEvents = 0
  #busyPoll: NodeJS.Timeout | undefined
  #drained: Array<() => void> = []

  constructor(file: SqliteFile) {
    this.#file = file
    this.#dataVersion = file.dataVersion()
    this.#known = this.#seen = file.version()
    this.#log = file.changes()
    this.#sweeping = new Sweeping(file)
    this.#sweeping.tend(false)
    this.store = new OptimisticStore({
      base: {
        get: (key) => this.#get(key),
        range: (begin, end, limit, reverse) => this.#range(begin, end, limit, reverse),
        unconfirmed: () => this.#cache.unconfirmed,
        look: () => this.#read(() => this.#look())
      },
      version: this.#known,
      shared: true,
      accepted: (commit) => {
        this.#pending.push(commit)
        this.#schedule()
      },
      watching: (some) => some ? this.#startNoticing() : this.#stopNoticing()
    })
  }

  /** Calls back when nothing waits for a flush. */
  onDrained(callback: () => void): void {
    if (this.#pending.length === 0) callback()
    else this.#drained.push(callback)
  }

  close(): void {
    this.store.closed = true
    this.#sweeping.stop()
    this.#stopNoticing()
    this.#file.close()
  }

  // --- reads ---

  #read<A>(run: () => A): A {
    try {
      return run()
    } catch (cause) {
      const error = toBackendError(this.#file.filename, cause)
      throw isBusy(error) ? new Busy(error, pause(READ_RETRY_MILLIS)) : error
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

  /** What others changed up to a version (6). */
  #foreign(version: number): Foreign {
    this.#log = this.#file.changes()
    const changes = ChangeLog.changesBetween(this.#log, this.#seen, version)
    this.#seen = version
    return { version, changes }
  }

  // --- the flush ---

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#scheduled = false
    if (this.#pending.length === 0) return
    try {
      this.#file.execute("BEGIN IMMEDIATE")
    } catch (cause) {
      return this.#locked(toBackendError(this.#file.filename, cause))
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
      this.#failed(commits, toBackendError(this.#file.filename, cause))
    }
    this.#tellDrained()
  }

  /** Nobody else committed: all that was accepted holds (1). */
  #writeAll(commits: ReadonlyArray<Accepted>): void {
    const effects = together(commits)
    this.store.keepOlder()
    this.#write(effects)
    this.#end(this.#known, this.store.version, effects)
    this.#known = this.#seen = this.store.version
    this.#file.keepVersion(this.#known)
    this.#cache.wrote(effects)
    this.store.applied()
    for (const commit of commits) commit.done(undefined)
  }

  #write({ clears, writes }: Effects): void {
    for (const range of clears) this.#file.clear(range)
    for (const [key, value] of writes) this.#file.write(key, value)
    if (clears.length > 0) this.#sweeping.tend(true)
  }

  /** Commits what was written, and notes what that was (6). */
  #end(since: number, version: number, effects: Effects): void {
    const log = ChangeLog.append(this.#log, since, version, changesOf(effects.writes, effects.clears))
    this.#file.setVersion(version)
    this.#file.setChanges(log)
    this.#file.execute("COMMIT")
    this.#log = log
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
    if (written.length > 0) this.#file.keepVersion(version)
    this.store.reset({ version, changes })
    for (const commit of commits) commit.done(refused.has(commit) ? refusal(commit) : undefined)
  }

  #locked(error: BackendError): void {
    const now = performance.now()
    this.#lockTriesSince ??= now
    if (isBusy(error) && now - this.#lockTriesSince <= LOCK_LIMIT_MILLIS) {
      this.#scheduled = true
      const longest = Math.min(LOCK_RETRY_LIMIT_MILLIS, LOCK_RETRY_FIRST_MILLIS * 2 ** this.#lockTries++)
      // two processes that took turns at the same pace would meet again and again
      setTimeout(() => this.#flush(), Math.random() * longest)
      return
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

  // --- changes by others, while somebody watches a key ---

  #startNoticing(): void {
    this.#poll ??= setInterval(() => {
      if (this.#watcher === undefined) this.#watchFile()
      this.#notice()
    }, POLL_MILLIS)
    this.#watchFile()
  }

  #stopNoticing(): void {
    clearInterval(this.#poll)
    this.#poll = undefined
    clearInterval(this.#busyPoll)
    this.#busyPoll = undefined
    this.#forgetWatcher()
  }

  #watchFile(): void {
    if (this.#watcher !== undefined || this.#busyPoll !== undefined) return
    try {
      this.#watcher = fs.watch(`${this.#file.filename}-wal`, { persistent: false }, (event) => {
        // the file went away: the poll watches the next one
        if (event === "rename") this.#forgetWatcher()
        this.#noticeSoon()
      })
      this.#watcher.on("error", () => this.#forgetWatcher())
    } catch {
      // no file yet, or none that can be watched: the poll notices
    }
  }

  #forgetWatcher(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }

  /** One look for all events of a macrotask. */
  #noticeSoon(): void {
    if (this.#noticing) return
    this.#noticing = true
    setImmediate(() => {
      this.#noticing = false
      if (this.#notice()) this.#ownEvents = 0
      else if (++this.#ownEvents >= OWN_EVENTS_LIMIT) this.#pollWhileBusy()
    })
  }

  /** An event a commit costs more than the commit: a timer looks instead, until a pause of this process's commits. */
  #pollWhileBusy(): void {
    this.#ownEvents = 0
    if (this.#poll === undefined) return
    this.#forgetWatcher()
    let known = this.#known
    this.#busyPoll = setInterval(() => {
      if (known === this.#known) {
        clearInterval(this.#busyPoll)
        this.#busyPoll = undefined
        this.#watchFile()
      }
      known = this.#known
      this.#notice()
    }, BUSY_POLL_MILLIS)
  }

  /** Whether others changed the file. */
  #notice(): boolean {
    return !this.store.closed && this.store.lookAgain()
  }
}

/** A commit that writes nothing does not conflict: it read what is gone. */
const refusal = (commit: Accepted): BackendError =>
  new BackendError({
    reason: commit.isReadOnly
      ? new TransactionTooOld({ message: "another process wrote what this transaction relied on: run it again" })
      : new Conflict({ message: "another process wrote what this transaction read: run it again" })
  })

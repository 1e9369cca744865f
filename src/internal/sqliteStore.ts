/**
 * The store of one SQLite file in this process: group commit, and the changes of other processes.
 *
 * Owner: the process holds one store a file, shared by all layers of that file and closed with the last of them. The
 * connection is used by this module alone.
 *
 * 1. Accepted commits wait for the flush at the end of the running macrotask. One flush writes all of them in one
 *    `BEGIN IMMEDIATE` and answers them when SQLite has synced it: concurrent commits share a sync.
 * 2. If another process committed meanwhile, each commit's reads are read again within the flush and compared with what
 *    it saw, in order; a commit that saw something else is refused as a conflict, and the others get new versions.
 * 3. A lock that another process holds is tried for again from a timer, for `LOCK_LIMIT_MILLIS`; nothing blocks.
 * 4. If a flush fails, nothing of it is in the file, and all that read it are stale.
 * 5. Reads happen in a read transaction of SQLite, so that they see one state of the file; it ends with the flush, or
 *    when no transaction reads.
 */
import * as fs from "node:fs"
import { BackendError, Closed, Conflict } from "../BackendError.ts"
import { equalsBytes } from "../Tuple.ts"
import { type Accepted, OptimisticStore, type Range, resolve, type Seen } from "./optimisticStore.ts"
import { Signals } from "./signals.ts"
import { isBusy, SqliteFile, toBackendError } from "./sqliteFile.ts"

/** Longer than any flush of another process, shorter than a call's patience. */
const LOCK_LIMIT_MILLIS = 10_000

const LOCK_RETRY_FIRST_MILLIS = 1
const LOCK_RETRY_LIMIT_MILLIS = 50

/** How late a commit of another process is seen where the file system does not tell. */
const POLL_MILLIS = 250

export class SqliteStore {
  readonly store: OptimisticStore
  readonly signals = new Signals()
  readonly #file: SqliteFile
  #pending: Array<Accepted> = []
  #scheduled = false
  #lockTriesSince: number | undefined
  #retry = 0
  /** The version of the file when it was last looked at with nothing pending. */
  #known: number
  #watcher: fs.FSWatcher | undefined
  readonly #poll: NodeJS.Timeout
  #drained: Array<() => void> = []

  constructor(file: SqliteFile) {
    this.#file = file
    this.#known = file.version()
    this.store = new OptimisticStore({
      base: {
        get: (key) => file.get(key),
        range: (begin, end, limit, reverse) => file.range(begin, end, limit, reverse),
        look: () => this.#look()
      },
      version: this.#known,
      shared: true,
      accepted: (commit) => {
        this.#pending.push(commit)
        this.#schedule()
      }
    })
    this.#watch()
    this.#poll = setInterval(() => this.#notice(), POLL_MILLIS)
    this.#poll.unref()
  }

  /** Calls back when nothing waits for a flush. */
  onDrained(callback: () => void): void {
    if (this.#pending.length === 0) callback()
    else this.#drained.push(callback)
  }

  close(): void {
    this.store.closed = true
    clearInterval(this.#poll)
    this.#watcher?.close()
    this.store.failWatches(new BackendError({ reason: new Closed({ message: "the store's scope is closed" }) }))
    this.#endRead()
    this.#file.close()
  }

  // --- internal ---

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#flush())
  }

  /** Before a transaction's first read: a fresh view of the file (5). Says whether others changed it. */
  #look(): boolean {
    this.#endRead()
    this.#file.execute("BEGIN")
    const version = this.#file.version()
    setImmediate(() => {
      if (!this.store.closed && !this.store.hasReaders) this.#endRead()
    })
    if (version === this.#known) return false
    // with commits pending, the flush has to know too (2)
    if (this.#pending.length === 0) {
      this.#known = version
      this.store.reset(version)
    }
    return true
  }

  #endRead(): void {
    if (this.#file.inTransaction) this.#file.execute("COMMIT")
  }

  #flush(): void {
    this.#scheduled = false
    if (this.#pending.length === 0) return
    try {
      this.#endRead()
      this.#file.execute("BEGIN IMMEDIATE")
    } catch (cause) {
      return this.#locked(toBackendError(this.#file.filename, cause))
    }
    this.#lockTriesSince = undefined
    this.#retry = 0
    const commits = this.#pending
    this.#pending = []
    try {
      const version = this.#file.version()
      if (version === this.#known) this.#writeAll(commits)
      else this.#revalidate(commits, Math.max(version, this.store.version))
    } catch (cause) {
      this.#failed(commits, toBackendError(this.#file.filename, cause))
    }
    for (const callback of this.#drained.splice(0)) this.onDrained(callback)
  }

  /** Nobody else committed: all that was accepted holds (1). */
  #writeAll(commits: ReadonlyArray<Accepted>): void {
    const writes = new Map<string, Uint8Array | undefined>()
    for (const commit of commits) for (const [key, value] of commit.writes) writes.set(key, value)
    if (writes.size === 0) this.#file.execute("ROLLBACK")
    else {
      this.store.keepOlder(writes.keys())
      for (const [key, value] of writes) this.#file.write(key, value)
      this.#file.setVersion(this.store.version)
      this.#file.execute("COMMIT")
      this.#known = this.store.version
      this.store.applied()
    }
    for (const commit of commits) commit.done(undefined)
  }

  /** Others committed: what was read is read again (2). */
  #revalidate(commits: ReadonlyArray<Accepted>, from: number): void {
    let version = from
    const refused = new Set<Accepted>()
    for (const commit of commits) {
      if (!commit.reads.every((read) => this.#stillSo(read, commit.seen))) {
        refused.add(commit)
        continue
      }
      if (commit.writes.size === 0) continue
      commit.version = ++version
      const writes = resolve(
        commit.request,
        version,
        (key) => this.#file.get(key),
        (begin, end) => this.#file.range(begin, end, Infinity, false).map(([key]) => key)
      )
      for (const [key, value] of writes) this.#file.write(key, value)
    }
    this.#file.setVersion(version)
    this.#file.execute("COMMIT")
    this.#known = version
    this.store.reset(version)
    const conflict = new BackendError({
      reason: new Conflict({ message: "another process wrote what this transaction read: run it again" })
    })
    for (const commit of commits) commit.done(refused.has(commit) ? conflict : undefined)
  }

  #stillSo(read: Range, seen: ReadonlyArray<Seen>): boolean {
    const saw = seen.find((one) => one.begin <= read.begin && read.end <= one.end)
    if (saw === undefined) return false
    const expected = saw.rows.filter(([key]) => read.begin <= key && key < read.end)
    const actual = new Map(this.#file.range(read.begin, read.end, Infinity, false))
    return actual.size === expected.length &&
      expected.every(([key, value]) => {
        const now = actual.get(key)
        return now !== undefined && equalsBytes(now, value)
      })
  }

  #locked(error: BackendError): void {
    const now = performance.now()
    this.#lockTriesSince ??= now
    if (!isBusy(error) || now - this.#lockTriesSince > LOCK_LIMIT_MILLIS) {
      this.#lockTriesSince = undefined
      const commits = this.#pending
      this.#pending = []
      this.#failed(commits, error)
      for (const callback of this.#drained.splice(0)) callback()
      return
    }
    this.#scheduled = true
    setTimeout(() => this.#flush(), Math.min(LOCK_RETRY_LIMIT_MILLIS, LOCK_RETRY_FIRST_MILLIS * 2 ** this.#retry++))
  }

  #failed(commits: ReadonlyArray<Accepted>, error: BackendError): void {
    try {
      if (this.#file.inTransaction) this.#file.execute("ROLLBACK")
    } finally {
      this.store.reset(this.store.version)
      for (const commit of commits) commit.done(error)
    }
  }

  #watch(): void {
    try {
      this.#watcher = fs.watch(`${this.#file.filename}-wal`, () => this.#notice())
      this.#watcher.unref()
      // the poll notices what the watcher no longer can
      this.#watcher.on("error", () => this.#watcher?.close())
    } catch {
      this.#watcher = undefined
    }
  }

  /** Another process may have committed: those who watch a key are told. */
  #notice(): void {
    if (this.store.closed || this.store.watchedKeys === 0 || this.#pending.length > 0 || this.store.hasReaders) return
    try {
      this.#look()
      this.#endRead()
    } catch {
      // the next transaction meets the same failure and reports it to whoever runs it
    }
  }
}

/**
 * One SQLite file with one connection: the table of keys and values. All calls are synchronous and short; a lock that
 * another process holds is reported, never waited for.
 *
 * 1. Where `syncsBeside` is true a commit ends before it is on the disk: SQLite writes the log without a sync
 *    (`synchronous=NORMAL`), which leaves the file whole whenever the power goes, and `sync` makes durable what was written
 *    before it. Elsewhere each commit is synced by SQLite, on this thread (`synchronous=FULL`).
 * 2. The log has a descriptor of its own here. No process holds locks on the log, so nothing is lost when it is closed (see
 *    `opening.ts`); while this connection is open nobody deletes the log or begins another one, and `presence.ts` notices
 *    who does.
 *
 * Owner: `store.ts`. Before a file is used it is looked at (`opening.ts`, `versionFile.ts`), and while it is used it is
 * watched over (`presence.ts`).
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { BackendError } from "../../BackendError.ts"
import type { Range } from "../stores/acceptedCommit.ts"
import { damaged, taken, toBackendError, unsynced, unusable } from "./errors.ts"
import { checkFile, checkTables, checkVersion, lookAtLog, prepareVersion, readSigned } from "./opening.ts"
import { Presence } from "./presence.ts"
import { type Raw, Rows } from "./rows.ts"
import { VersionFile, versionFileOf } from "./versionFile.ts"

/**
 * To this length a log that was longer is cut, once nobody reads from it. Between two checkpoints it grows to 1,000 pages,
 * which is half of this: an ordinary log is never cut, and so never grown again.
 */
export const LOG_LIMIT_BYTES = 8_388_608

/** With so many frames the log is copied into the database; SQLite's own measure. */
const LOG_FRAMES = 1_000

/** Where they are in the log (https://sqlite.org/fileformat2.html#walformat). */
const LOG_HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24
const PAGE_SIZE_AT = 8
const SALT_AT = 16
const FRAME_SALT_AT = 8
const SALT_BYTES = 8

/**
 * Whether a log may be synced on another thread, through another descriptor than SQLite's. Known of Linux alone: on macOS and
 * Windows nobody has tried what the power does.
 */
const canSyncBeside = (): boolean => process.platform === "linux"

/** The connection to one file. */
export class SqliteFile {
  readonly filename: string
  readonly #db: DatabaseSync
  readonly #versions: VersionFile
  readonly #rows: Rows
  readonly #version: StatementSync
  readonly #setVersion: StatementSync
  readonly #changes: StatementSync
  readonly #setChanges: StatementSync
  readonly #dataVersion: StatementSync
  readonly #statements = new Map<string, StatementSync>()
  #presence: Presence | undefined
  #log: number | undefined
  #hasSyncedFolder = false
  #broken: BackendError | undefined

  private constructor(filename: string, db: DatabaseSync, versions: VersionFile) {
    this.filename = filename
    this.#db = db
    this.#versions = versions
    this.#rows = new Rows(db)
    this.#version = prepareVersion(db)
    this.#setVersion = db.prepare("UPDATE meta SET value = ? WHERE name = 'version'")
    this.#changes = db.prepare("SELECT value FROM meta WHERE name = 'changes'")
    this.#setChanges = db.prepare(
      "INSERT INTO meta VALUES ('changes', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    this.#dataVersion = db.prepare("PRAGMA data_version")
    this.#dataVersion.setReturnArrays(true)
    for (const sql of ["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"]) this.#statements.set(sql, db.prepare(sql))
  }

  /** Opens a file, or makes it. Throws a `BackendError`, and then changed nothing. */
  static open(filename: string): SqliteFile {
    try {
      const folder = path.dirname(filename)
      if (!fs.existsSync(folder)) throw unusable(filename, `: the folder ${folder} does not exist: make it first`)
      const versions = new VersionFile(filename)
      checkFile(filename, versions.atLeast)
      const look = lookAtLog(filename, versions.atLeast)
      try {
        return SqliteFile.#connect(filename, versions)
      } finally {
        look?.close()
      }
    } catch (cause) {
      throw toBackendError(filename, cause)
    }
  }

  static #connect(filename: string, versions: VersionFile): SqliteFile {
    const db = new DatabaseSync(filename, { timeout: 0 })
    try {
      checkTables(filename, db)
      const file = new SqliteFile(filename, db, versions)
      checkVersion(filename, file.version(), versions.atLeast)
      const beside = canSyncBeside()
      prepareFile(db, beside)
      versions.prepare()
      file.#presence = new Presence(filename)
      if (beside) file.#log = file.#openLog()
      return file
    } catch (cause) {
      versions.close()
      db.close()
      throw cause
    }
  }

  /** The descriptor of the log that the connection has open (2). */
  #openLog(): number {
    const fd = fs.openSync(`${this.filename}-wal`, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW)
    if (this.#presence?.isLog(fs.fstatSync(fd, { bigint: true })) === true) return fd
    fs.closeSync(fd)
    throw taken(this.filename, `${this.filename}-wal was replaced`)
  }

  /** Whether commits must be followed by a `sync` (1). */
  get syncsBeside(): boolean {
    return this.#log !== undefined
  }

  /** Makes durable what was written to the log before this call, on another thread. */
  sync(done: (failure: Error | null) => void): void {
    const sync = (failure: Error | null) => failure === null ? fs.fdatasync(this.#log!, done) : done(failure)
    if (this.#hasSyncedFolder) return sync(null)
    this.#hasSyncedFolder = true
    // whoever made the log may have died before it made its name durable
    syncFolder(path.dirname(this.filename), sync)
  }

  /** The same on this thread. */
  syncNow(): void {
    fs.fdatasyncSync(this.#log!)
  }

  /** From now on everything fails: nobody knows what is on the disk. Gives what with. */
  break(cause: unknown): BackendError {
    return this.#broken ??= unsynced(this.filename, cause)
  }

  /** The version that some process knows to be on the disk. */
  durableVersion(): number {
    return this.#versions.read()
  }

  /** Whether the log has so many frames that it should be copied into the database. */
  get isLogLong(): boolean {
    if (this.#log === undefined || this.logBytes < LOG_HEADER_BYTES) return false
    const header = Buffer.allocUnsafe(LOG_HEADER_BYTES)
    const salt = Buffer.allocUnsafe(SALT_BYTES)
    fs.readSync(this.#log, header, 0, LOG_HEADER_BYTES, 0)
    const frame = FRAME_HEADER_BYTES + header.readUInt32BE(PAGE_SIZE_AT)
    const at = LOG_HEADER_BYTES + (LOG_FRAMES - 1) * frame + FRAME_SALT_AT
    // frames of a log that was begun anew since have other salts
    return fs.readSync(this.#log, salt, 0, SALT_BYTES, at) === SALT_BYTES &&
      salt.equals(header.subarray(SALT_AT, SALT_AT + SALT_BYTES))
  }

  /** What SQLite does by itself from now on, in commits: nobody else copies the log. */
  copyLogInCommits(): void {
    this.attempt(() => this.#db.exec(`PRAGMA wal_autocheckpoint = ${LOG_FRAMES}`))
  }

  /** Runs statements; SQLite's errors come out as `BackendError`. */
  attempt<A>(run: () => A): A {
    try {
      return run()
    } catch (cause) {
      throw toBackendError(this.filename, cause)
    }
  }

  execute(sql: "BEGIN IMMEDIATE" | "COMMIT" | "ROLLBACK"): void {
    if (sql === "ROLLBACK") this.#rows.forget()
    this.attempt(() => this.#statements.get(sql)!.run())
  }

  get inTransaction(): boolean {
    return this.#db.isTransaction
  }

  /** The version of the newest commit of any process. */
  version(): number {
    return this.attempt(() => {
      const signed = readSigned(this.filename, this.#version)
      this.#rows.seen(signed < 0)
      return Math.abs(signed)
    })
  }

  /** SQLite's count of the commits by other connections, in no relation to `version`. */
  dataVersion(): number {
    return this.attempt(() => (this.#dataVersion.get() as unknown as [number])[0])
  }

  setVersion(version: number): void {
    this.attempt(() => this.#setVersion.run(this.#rows.hasCleared ? -version : version))
  }

  /** What the newest commits changed, see `changeLog.ts`. */
  changes(): Buffer {
    const value = this.attempt(() => this.#changes.get()?.value)
    return value instanceof Uint8Array ? Buffer.from(value) : Buffer.alloc(0)
  }

  setChanges(log: Uint8Array): void {
    this.attempt(() => this.#setChanges.run(log))
  }

  get(key: string): Uint8Array | undefined {
    const value = this.attempt(() => this.#rows.get(key))
    return value === undefined ? undefined : this.#value(value)
  }

  range(begin: string, end: string, limit: number, reverse: boolean): Array<readonly [string, Uint8Array]> {
    const rows: ReadonlyArray<Raw> = this.attempt(() => this.#rows.range(begin, end, limit, reverse))
    return rows.map(([key, value]) => [key, this.#value(value)])
  }

  /** SQLite's columns hold values of any type, whoever writes them. */
  #value(value: unknown): Uint8Array {
    if (value instanceof Uint8Array) return value
    throw damaged(this.filename, "holds a value that is not bytes")
  }

  write(key: string, value: Uint8Array | undefined): void {
    this.attempt(() => this.#rows.write(key, value))
  }

  /** Clears a range within a transaction, and leaves the rows of a long one to `sweep`. */
  clear(range: Range): void {
    this.attempt(() => this.#rows.clear(range))
  }

  /** Whether rows of cleared ranges are left to delete. */
  get hasCleared(): boolean {
    return this.#rows.hasCleared
  }

  /** Deletes so many of them at the most, within a transaction. */
  sweep(rows: number): void {
    this.attempt(() => this.#rows.pass(rows))
  }

  /** How long the log is, at the last look whether it is there. */
  get logBytes(): number {
    return this.#presence?.logBytes ?? 0
  }

  /** Throws when the files at the paths are no longer those that are open, for good; looks unless it just did. */
  checkPresence(withinMillis: number): void {
    if (this.#broken !== undefined) throw this.#broken
    this.attempt(() => this.#presence?.check(withinMillis, () => this.#moveLog()))
  }

  /**
   * Notes that a commit is on the disk, before anybody is told of it. Throws when it is not in the files at the paths,
   * and for whoever opens them was never made.
   */
  keepVersion(version: number): void {
    this.attempt(() => this.#presence?.checkCommitted(() => this.#moveLog()))
    this.#versions.write(version)
  }

  /** What to watch for commits of others; `undefined` where only the log tells, and too early (see `noticing.ts`). */
  get versionFile(): string | undefined {
    return this.#versions.isKept ? versionFileOf(this.filename) : undefined
  }

  /** Whether somebody deleted the version's file. */
  get lostVersions(): boolean {
    return this.#versions.isDeleted
  }

  /** Makes the version's file again, if somebody deleted it, and not the database too. */
  keepVersionsAgain(): void {
    if (!this.#versions.isDeleted) return
    try {
      this.checkPresence(0)
      this.#versions.prepare()
    } catch {
      // there is nothing to guard
    }
  }

  /** What the file is, whatever its name: an id of device and inode. */
  get identity(): string {
    return this.#presence!.identity
  }

  /** Saves what was committed into a log that was removed, while no other process can have begun a new one. */
  #moveLog(): boolean {
    try {
      const result = this.#db.prepare("PRAGMA wal_checkpoint(PASSIVE)").get()!
      return result.busy === 0 && result.log === result.checkpointed
    } catch {
      return false
    }
  }

  close(): void {
    try {
      if (this.#log !== undefined) fs.closeSync(this.#log)
      this.#log = undefined
      this.#db.close()
    } finally {
      this.#versions.close()
    }
  }
}

/** Makes the names in a folder durable. */
const syncFolder = (folder: string, done: (failure: Error | null) => void): void => {
  fs.open(folder, fs.constants.O_RDONLY, (failure, fd) => {
    // one that may be used and not listed cannot be opened; then SQLite's own sync of it must do
    if (failure !== null) return done(null)
    // not every file system knows how
    fs.fsync(fd, (notSynced) => fs.close(fd, () => done(notSynced?.code === "EIO" ? notSynced : null)))
  })
}

/** Sets how commits are made durable, of a file that is ours. */
const prepareFile = (db: DatabaseSync, beside: boolean): void => {
  db.exec("PRAGMA journal_mode = WAL")
  db.exec(`PRAGMA journal_size_limit = ${LOG_LIMIT_BYTES}`)
  db.exec(`PRAGMA synchronous = ${beside ? "NORMAL" : "FULL"}`)
  db.exec(`PRAGMA wal_autocheckpoint = ${beside ? 0 : LOG_FRAMES}`)
  // where a plain sync does not reach the disk's platter (macOS)
  db.exec("PRAGMA fullfsync = 1")
  db.exec("PRAGMA checkpoint_fullfsync = 1")
  // a file that can be read but not written is found out now, not at the first commit
  db.exec("BEGIN IMMEDIATE")
  db.exec("ROLLBACK")
}

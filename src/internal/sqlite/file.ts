/**
 * One SQLite file with one connection: the table of keys and values. All calls are synchronous and short; a lock that
 * another process holds is reported, never waited for.
 *
 * Owner: `store.ts`. Before a file is used it is looked at (`opening.ts`, `versionFile.ts`), and while it is used it is
 * watched over (`presence.ts`).
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Range } from "../stores/acceptedCommit.ts"
import { damaged, toBackendError, unusable } from "./errors.ts"
import { checkFile, checkTables, checkVersion, lookAtLog, prepareVersion, readSigned } from "./opening.ts"
import { Presence } from "./presence.ts"
import { type Raw, Rows } from "./rows.ts"
import { VersionFile, versionFileOf } from "./versionFile.ts"

/**
 * To this length a log that was longer is cut, once nobody reads from it. Between two checkpoints it grows to 1,000 pages,
 * which is half of this: an ordinary log is never cut, and so never grown again.
 */
export const LOG_LIMIT_BYTES = 8_388_608

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
      prepareFile(db)
      versions.prepare()
      file.#presence = new Presence(filename)
      return file
    } catch (cause) {
      db.close()
      throw cause
    }
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

  /** Copies the log into the database and cuts it, unless somebody reads from it or writes; whether it could. */
  emptyLog(): boolean {
    return this.attempt(() => this.#checkpoint("TRUNCATE"))
  }

  /** Saves what was committed into a log that was removed, while no other process can have begun a new one. */
  #moveLog(): boolean {
    try {
      return this.#checkpoint("PASSIVE")
    } catch {
      return false
    }
  }

  #checkpoint(mode: "PASSIVE" | "TRUNCATE"): boolean {
    const result = this.#db.prepare(`PRAGMA wal_checkpoint(${mode})`).get()!
    return result.busy === 0 && result.log === result.checkpointed
  }

  close(): void {
    try {
      this.#db.close()
    } finally {
      this.#versions.close()
    }
  }
}

/** Sets how commits are made durable, of a file that is ours. */
const prepareFile = (db: DatabaseSync): void => {
  db.exec("PRAGMA journal_mode = WAL")
  db.exec(`PRAGMA journal_size_limit = ${LOG_LIMIT_BYTES}`)
  db.exec("PRAGMA synchronous = FULL")
  // where a plain sync does not reach the disk's platter (macOS)
  db.exec("PRAGMA fullfsync = 1")
  db.exec("PRAGMA checkpoint_fullfsync = 1")
  // a file that can be read but not written is found out now, not at the first commit
  db.exec("BEGIN IMMEDIATE")
  db.exec("ROLLBACK")
}

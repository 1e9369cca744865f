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
import { damaged, toBackendError, unusable } from "./errors.ts"
import { checkFile, checkTables, checkVersion, lookAtLog, prepareVersion, readVersion } from "./opening.ts"
import { Presence } from "./presence.ts"
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
  readonly #get: StatementSync
  readonly #forward: StatementSync
  readonly #backward: StatementSync
  readonly #set: StatementSync
  readonly #delete: StatementSync
  readonly #version: StatementSync
  readonly #setVersion: StatementSync
  readonly #dataVersion: StatementSync
  readonly #statements = new Map<string, StatementSync>()
  #presence: Presence | undefined

  private constructor(filename: string, db: DatabaseSync, versions: VersionFile) {
    this.filename = filename
    this.#db = db
    this.#versions = versions
    this.#get = db.prepare("SELECT v FROM kv WHERE k = ?")
    this.#forward = db.prepare("SELECT k, v FROM kv WHERE k >= ? AND k < ? ORDER BY k LIMIT ?")
    this.#backward = db.prepare("SELECT k, v FROM kv WHERE k >= ? AND k < ? ORDER BY k DESC LIMIT ?")
    this.#set = db.prepare("INSERT INTO kv (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v")
    this.#delete = db.prepare("DELETE FROM kv WHERE k = ?")
    this.#version = prepareVersion(db)
    this.#setVersion = db.prepare("UPDATE meta SET value = ? WHERE name = 'version'")
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
    this.attempt(() => this.#statements.get(sql)!.run())
  }

  get inTransaction(): boolean {
    return this.#db.isTransaction
  }

  /** The version of the newest commit of any process. */
  version(): number {
    return this.attempt(() => readVersion(this.filename, this.#version))
  }

  /** SQLite's count of the commits by other connections, in no relation to `version`. */
  dataVersion(): number {
    return this.attempt(() => (this.#dataVersion.get() as unknown as [number])[0])
  }

  setVersion(version: number): void {
    this.attempt(() => this.#setVersion.run(version))
  }

  get(key: string): Uint8Array | undefined {
    const row = this.attempt(() => this.#get.get(bytes(key)))
    return row === undefined ? undefined : this.#value(row.v)
  }

  range(begin: string, end: string, limit: number, reverse: boolean): Array<readonly [string, Uint8Array]> {
    const statement = reverse ? this.#backward : this.#forward
    const rows = this.attempt(() => statement.all(bytes(begin), bytes(end), limit === Infinity ? -1 : limit))
    return rows.map((row) => [Buffer.from(row.k as Uint8Array).toString("latin1"), this.#value(row.v)])
  }

  /** SQLite's columns hold values of any type, whoever writes them. */
  #value(value: unknown): Uint8Array {
    if (value instanceof Uint8Array) return value
    throw damaged(this.filename, "holds a value that is not bytes")
  }

  write(key: string, value: Uint8Array | undefined): void {
    this.attempt(() => value === undefined ? this.#delete.run(bytes(key)) : this.#set.run(bytes(key), value))
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

const bytes = (key: string): Buffer => Buffer.from(key, "latin1")

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

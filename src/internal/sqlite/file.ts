/**
 * One SQLite file with one connection: the table of keys and values, and what SQLite's errors mean. All calls are
 * synchronous and short; a lock that another process holds is reported, never waited for.
 *
 * Owner: `store.ts`. A file that is not ours is looked at through its first bytes, before SQLite opens it, so that
 * it is not changed in any way. So is one that has lost its newest commits: see `versionFile.ts`.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import * as BackendError from "../../BackendError.ts"
import type { Range } from "../stores/acceptedCommit.ts"
import { FORMAT, FORMAT_CLEARED, type Raw, Rows } from "./rows.ts"
import { VersionFile, versionFileOf } from "./versionFile.ts"

/** "dgen", in the header of every file that this library made. */
const APPLICATION_ID = 0x6467656e

/** The version of a database in which nobody has committed anything. */
const FIRST_VERSION = 1

const HEADER_BYTES = 100
const MAGIC = "SQLite format 3\0"

const SQLITE_ERROR = 1
const SQLITE_PERM = 3
const SQLITE_BUSY = 5
const SQLITE_LOCKED = 6
const SQLITE_READONLY = 8
const SQLITE_IOERR = 10
const SQLITE_CORRUPT = 11
const SQLITE_FULL = 13
const SQLITE_CANTOPEN = 14
const SQLITE_NOTADB = 26

/** Whether an error says that another connection holds the lock. */
export const isBusy = (error: BackendError.BackendError): boolean =>
  error.reason._tag === "Unavailable" && (error.reason.code === SQLITE_BUSY || error.reason.code === SQLITE_LOCKED)

const wrap = (reason: BackendError.Reason) => new BackendError.BackendError({ reason })

/** What an error of SQLite or of the file system means. */
export const toBackendError = (filename: string, cause: unknown): BackendError.BackendError => {
  if (BackendError.isBackendError(cause)) return cause
  const { code, errcode, message } = cause as { readonly code?: string; readonly errcode?: number; message?: string }
  const primary = errcode === undefined ? undefined : errcode & 0xff
  const fields = (text: string) => ({
    message: `${filename}: ${text} (${message ?? String(cause)})`,
    cause,
    ...(primary === undefined ? code === undefined ? {} : { code } : { code: primary })
  })
  switch (primary) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return wrap(
        new BackendError.Unavailable(fields("another process holds the file's lock: let it finish, or end it"))
      )
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return wrap(new BackendError.ReadOnly(fields("the file cannot be written: give the process write access")))
    case SQLITE_FULL:
      return wrap(new BackendError.DiskFull(fields("the disk is full: free room, nothing of the commit was written")))
    case SQLITE_ERROR:
      // the statements are always the same: the tables are not
      return wrap(new BackendError.Corrupt(fields("its tables are not as they were made: restore it from a backup")))
    case SQLITE_CORRUPT:
      return wrap(new BackendError.Corrupt(fields("the file is damaged: restore it from a backup")))
    case SQLITE_NOTADB:
      return wrap(new BackendError.ForeignDatabase(fields("the file is no database: choose another filename")))
    case SQLITE_IOERR:
      return wrap(new BackendError.Unavailable(fields("reading or writing the file failed: look at its disk")))
    case SQLITE_CANTOPEN:
      if (isReadOnly(filename)) {
        return wrap(new BackendError.ReadOnly(fields("the folder cannot be written: give the process write access")))
      }
      return wrap(
        new BackendError.InvalidArgument(fields("the file cannot be opened: its folder must exist and be writable"))
      )
  }
  if (READ_ONLY_CODES.has(code)) {
    return wrap(new BackendError.ReadOnly(fields("the file cannot be written: give the process write access")))
  }
  if (code === "EISDIR" || code === "ENOTDIR") {
    return wrap(new BackendError.InvalidArgument(fields("a folder is in the file's place: choose another filename")))
  }
  if (code === "ENAMETOOLONG" || code === "ELOOP") {
    return wrap(new BackendError.InvalidArgument(fields("the file cannot be opened: choose another filename")))
  }
  if (code === "ERR_OUT_OF_RANGE") return damaged(filename, "holds a number that is none of ours")
  return wrap(new BackendError.Unavailable(fields("the store failed")))
}

const READ_ONLY_CODES: ReadonlySet<string | undefined> = new Set(["EROFS", "EACCES", "EPERM"])

const codeOf = (cause: unknown): string | undefined => (cause as { readonly code?: string }).code

/** SQLite does not say why it cannot open a file: whether the file system takes one. */
const isReadOnly = (filename: string): boolean => {
  try {
    const isNew = !fs.existsSync(filename)
    fs.closeSync(fs.openSync(filename, isNew ? "wx" : "r+"))
    if (isNew) fs.unlinkSync(filename)
    return false
  } catch (cause) {
    return READ_ONLY_CODES.has(codeOf(cause))
  }
}

const foreign = (filename: string, what: string) =>
  wrap(
    new BackendError.ForeignDatabase({ message: `${filename} ${what}: choose another filename. It was not changed` })
  )

const damaged = (filename: string, what: string) =>
  wrap(new BackendError.Corrupt({ message: `${filename} ${what}: it is damaged, restore it from a backup` }))

/** The first bytes of a file, and how many it has; `undefined` where there is none, or an empty one. */
const readHeader = (filename: string): { readonly header: Buffer; readonly size: number } | undefined => {
  try {
    const stat = fs.statSync(filename)
    // opening a pipe would wait for somebody to write to it
    if (!stat.isFile() && !stat.isDirectory()) {
      throw wrap(
        new BackendError.InvalidArgument({ message: `${filename} is a device or a pipe: choose the path of a file` })
      )
    }
    const fd = fs.openSync(filename, "r")
    try {
      const header = Buffer.alloc(HEADER_BYTES)
      const length = fs.readSync(fd, header, 0, HEADER_BYTES, 0)
      return length === 0 ? undefined : { header: header.subarray(0, length), size: fs.fstatSync(fd).size }
    } finally {
      fs.closeSync(fd)
    }
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
}

/** Refuses a file that is not ours, is gone, or was cut, by its first bytes and its size alone. */
const checkHeader = (filename: string, atLeast: number): void => {
  const found = readHeader(filename)
  if (found === undefined) {
    if (atLeast > FIRST_VERSION) throw gone(filename, atLeast)
    return
  }
  const { header } = found
  if (header.length < HEADER_BYTES || header.toString("latin1", 0, 16) !== MAGIC) {
    throw foreign(filename, "is no SQLite database")
  }
  checkOwner(filename, header.readUInt32BE(68), header.readUInt32BE(60))
  // a second look, because another process may have written the file's end between the first one's steps
  if (isCut(filename) && isCut(filename)) {
    throw wrap(
      new BackendError.Corrupt({
        message: `${filename}: the file was cut off: restore it from a backup. It was not changed`
      })
    )
  }
}

/**
 * Whether a file is shorter than its header says. SQLite itself takes what is missing of the last page for zeros, and
 * gives values that nobody wrote. While there is a log, pages may be there alone.
 */
const isCut = (filename: string): boolean => {
  const log = fs.statSync(`${filename}-wal`, { throwIfNoEntry: false })
  const found = log === undefined || log.size === 0 ? readHeader(filename) : undefined
  if (found === undefined || found.header.length < HEADER_BYTES) return false
  const { header, size } = found
  const pageBytes = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16)
  // the count of pages is kept since SQLite 3.7.0; where it is, its version number is that of the last change
  const pages = header.readUInt32BE(24) === header.readUInt32BE(92) ? header.readUInt32BE(28) : 0
  return size < pages * pageBytes
}

const checkOwner = (filename: string, application: number, format: number): void => {
  if (application !== APPLICATION_ID) throw foreign(filename, "is a database of another program")
  if (format <= FORMAT || format === FORMAT_CLEARED) return
  throw wrap(
    new BackendError.NewerFormat({
      message: `${filename} has format ${format}, and this version reads up to ${FORMAT}: update effect-dgen. ` +
        "It was not changed"
    })
  )
}

const gone = (filename: string, atLeast: number) =>
  wrap(
    new BackendError.Corrupt({
      message: `${filename} does not exist or is empty, and commits up to version ${atLeast} were in it: ` +
        `put it back, with its -wal if it had one, or restore a backup and delete ${versionFileOf(filename)}. ` +
        `If a new database is meant, delete ${versionFileOf(filename)}. Nothing was changed`
    })
  )

/** Refuses a database that has not got all commits that were in it. */
const checkVersion = (filename: string, version: number, atLeast: number): void => {
  if (version >= atLeast) return
  throw wrap(
    new BackendError.Corrupt({
      message: `${filename} has lost its newest commits, about ${atLeast - version} of them: it ends with version ` +
        `${version}, and version ${atLeast} was in it. Its log ${filename}-wal was removed or damaged, or the file was ` +
        `replaced by an older one: put them back, or restore a backup and delete ${versionFileOf(filename)}. ` +
        `If an older file is there on purpose, delete ${versionFileOf(filename)}. The file was not changed`
    })
  )
}

/**
 * Refuses a database whose log was damaged, without a change to either. The last connection that may write copies into
 * the database what is left of its log, and deletes the log; one that may only read does not. It is given to the caller to
 * close: while it is open, no other one is the last.
 */
const lookAtLog = (filename: string, atLeast: number): DatabaseSync | undefined => {
  if (atLeast <= FIRST_VERSION || !fs.existsSync(`${filename}-wal`)) return undefined
  const db = new DatabaseSync(filename, { readOnly: true, timeout: 0 })
  try {
    checkOwner(filename, pragma(db, "application_id"), pragma(db, "user_version"))
    checkVersion(filename, readVersion(filename, prepareVersion(db)), atLeast)
    return db
  } catch (cause) {
    db.close()
    throw cause
  }
}

const prepareVersion = (db: DatabaseSync) => db.prepare("SELECT value FROM meta WHERE name = 'version'")

/** The version; negative while there are cleared ranges (see `rows.ts`). */
const readSigned = (filename: string, statement: StatementSync): number => {
  const version = statement.get()?.value
  if (typeof version !== "number" || !Number.isSafeInteger(version) || Math.abs(version) < FIRST_VERSION) {
    throw damaged(filename, "does not say which commit was its last")
  }
  return version
}

const readVersion = (filename: string, statement: StatementSync): number => Math.abs(readSigned(filename, statement))

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
      if (!fs.existsSync(folder)) {
        throw wrap(
          new BackendError.InvalidArgument({
            message: `${filename}: the folder ${folder} does not exist: make it first`
          })
        )
      }
      const versions = new VersionFile(filename)
      checkHeader(filename, versions.atLeast)
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

  /** Notes that a commit is on the disk, before anybody is told of it. */
  keepVersion(version: number): void {
    this.#versions.write(version)
  }

  close(): void {
    try {
      this.#db.close()
    } finally {
      this.#versions.close()
    }
  }
}

const pragma = (db: DatabaseSync, name: string): number =>
  Number(Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0])

/** Makes the tables where there are none; the header says whose they are before anything else is in the file. */
const checkTables = (filename: string, db: DatabaseSync): void => {
  if (pragma(db, "page_count") === 0) {
    db.exec("BEGIN IMMEDIATE")
    // another process may have been quicker
    if (pragma(db, "application_id") !== APPLICATION_ID) {
      db.exec("CREATE TABLE kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
      db.exec("CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")
      db.exec("INSERT INTO meta VALUES ('version', 1)")
      db.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
      db.exec(`PRAGMA user_version = ${FORMAT}`)
    }
    db.exec("COMMIT")
  }
  // the newest header may lie in the log, where the file's first bytes do not show it
  checkOwner(filename, pragma(db, "application_id"), pragma(db, "user_version"))
}

/** Sets how commits are made durable, of a file that is ours. */
const prepareFile = (db: DatabaseSync): void => {
  db.exec("PRAGMA journal_mode = WAL")
  db.exec("PRAGMA synchronous = FULL")
  // where a plain sync does not reach the disk's platter (macOS)
  db.exec("PRAGMA fullfsync = 1")
  db.exec("PRAGMA checkpoint_fullfsync = 1")
  // a file that can be read but not written is found out now, not at the first commit
  db.exec("BEGIN IMMEDIATE")
  db.exec("ROLLBACK")
}

/**
 * What is looked at before a file is used: whose it is, whether it is whole, and that it has all its commits. What is
 * refused is not changed in any way.
 *
 * 1. Nobody but SQLite opens the database or its `-shm`: when a process closes any descriptor of a file, the system takes
 *    away all locks that the process has on it, those of other connections too. SQLite knows, and closes late.
 * 2. A file is first looked into through a connection that neither locks nor writes nor asks for a log (`immutable`), so
 *    that one that is not ours stays as it is, and so does its folder.
 * 3. While nobody has the file open, its log is looked into through a connection that may only read. The last one that may
 *    write copies what is left of the log into the database, and deletes the log; this one does neither.
 */
import * as fs from "node:fs"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { beingMade, cut, damaged, foreign, gone, isMalformed, newer, older, unusable } from "./errors.ts"
import { FORMAT, FORMAT_CLEARED } from "./rows.ts"
import { versionFileOf } from "./versionFile.ts"

/** "dgen", in the header of every file that this library made. */
const APPLICATION_ID = 0x6467656e

/** The version of a database in which nobody has committed anything. */
export const FIRST_VERSION = 1

/** A file that is shorter is no database. */
const HEADER_BYTES = 100n

/** What a database's own file says, its log aside. */
interface Contents {
  readonly application: number
  readonly format: number
  /** What it must have for its pages. */
  readonly bytes: number
}

export const statOf = (file: string) => fs.statSync(file, { bigint: true, throwIfNoEntry: false })

const pragma = (db: DatabaseSync, name: string): number =>
  Number(Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0])

/** Reads through a connection that sees the database's own file alone, and leaves no trace (2). */
export const inside = <A>(filename: string, read: (db: DatabaseSync) => A): A => {
  const db = new DatabaseSync(`${pathToFileURL(filename).href}?immutable=1`, { readOnly: true })
  try {
    return read(db)
  } finally {
    db.close()
  }
}

export const contents = (db: DatabaseSync): Contents => ({
  application: pragma(db, "application_id"),
  format: pragma(db, "user_version"),
  bytes: pragma(db, "page_count") * pragma(db, "page_size")
})

/** Refuses what is no file, and a file under another name than the one it is used by. */
const checkPath = (filename: string, stat: fs.BigIntStats): void => {
  if (stat.isDirectory()) throw unusable(filename, "is a folder: choose another filename")
  // opening a pipe would wait for somebody to write to it
  if (!stat.isFile()) throw unusable(filename, "is a device or a pipe: choose the path of a file")
  // its log lies beside the name it is used by: under another one its newest commits would not be seen
  if (stat.size > 0n && stat.nlink > 1n && !fs.existsSync(versionFileOf(filename))) {
    throw unusable(
      filename,
      "has a second name (a hard link), and was not used by this one: use that one, or delete it"
    )
  }
}

const isEmpty = (file: string): boolean => (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0

/** Refuses a file that is not ours, is gone, or was cut. */
export const checkFile = (filename: string, atLeast: number): void => {
  const stat = statOf(filename)
  if (stat !== undefined) checkPath(filename, stat)
  if (stat === undefined || stat.size === 0n) {
    if (atLeast > FIRST_VERSION) throw gone(filename, atLeast)
    return
  }
  if (stat.size < HEADER_BYTES) throw foreign(filename, "is no SQLite database")
  // a second look, because another process may have written the file's end between the first one's steps
  if (isWhole(filename) || isWhole(filename)) return
  if (!isEmpty(`${filename}-journal`)) throw beingMade(filename)
  // who made it may have been done before the journal was looked for
  if (!isWhole(filename)) throw cut(filename)
}

/**
 * Whether a file is as long as its header says. SQLite itself takes what is missing of the last page for zeros, and gives
 * values that nobody wrote. While there is a log, pages may be there alone.
 */
const isWhole = (filename: string): boolean => {
  try {
    const { application, bytes, format } = inside(filename, contents)
    if (bytes === 0) throw foreign(filename, "is no SQLite database")
    checkOwner(filename, application, format)
    return !isEmpty(`${filename}-wal`) || fs.statSync(filename).size >= bytes
  } catch (cause) {
    if (isMalformed(cause)) return !isEmpty(`${filename}-wal`)
    throw cause
  }
}

const checkOwner = (filename: string, application: number, format: number): void => {
  if (application !== APPLICATION_ID) throw foreign(filename, "is a database of another program")
  if (format > FORMAT && format !== FORMAT_CLEARED) throw newer(filename, format, FORMAT)
}

/** Refuses a database that has not got all commits that were in it. */
export const checkVersion = (filename: string, version: number, atLeast: number): void => {
  if (version < atLeast) throw older(filename, version, atLeast)
}

/**
 * Refuses a database whose log was damaged, without a change to either (3). The connection is given to the caller to
 * close: while it is open, no other one is the last.
 */
export const lookAtLog = (filename: string, atLeast: number): DatabaseSync | undefined => {
  if (!fs.existsSync(`${filename}-wal`)) return undefined
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

export const prepareVersion = (db: DatabaseSync) => db.prepare("SELECT value FROM meta WHERE name = 'version'")

/** The version; negative while there are cleared ranges (see `rows.ts`). */
export const readSigned = (filename: string, statement: StatementSync): number => {
  const version = statement.get()?.value
  if (typeof version !== "number" || !Number.isSafeInteger(version) || Math.abs(version) < FIRST_VERSION) {
    throw damaged(filename, "does not say which commit was its last")
  }
  return version
}

export const readVersion = (filename: string, statement: StatementSync): number =>
  Math.abs(readSigned(filename, statement))

/**
 * Makes the tables where there are none, in one transaction: whoever looks sees nothing, or a file that says whose it is.
 * It begins without a lock, because pages that are freed can be given back (see docs/OPERATING.md) only if that is said
 * before the first page is made, and a lock makes it.
 */
export const checkTables = (filename: string, db: DatabaseSync): void => {
  if (pragma(db, "page_count") === 0) {
    db.exec("BEGIN")
    db.exec("PRAGMA auto_vacuum = INCREMENTAL")
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

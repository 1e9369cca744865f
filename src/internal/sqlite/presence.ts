/**
 * Whether the files that a connection has open are still the ones at their paths. The system lets anybody remove, replace
 * or cut a file that is in use, and SQLite goes on in what nobody will find again.
 *
 * Owner: `file.ts`, which asks around every commit and now and then for its readers.
 *
 * 1. No commit is answered unless database, log and `-shm` were there after it.
 * 2. What was found missing once stays so: from then on everything fails, until all is opened again. SQLite itself does
 *    not touch the files at the paths when a connection to others is closed.
 * 3. Nobody but SQLite opens the files (see `opening.ts`): here they are asked for with `stat`, and looked into, when that
 *    shows something unusual, through connections of their own.
 * 4. There is no false alarm. A database grows and shrinks when some process copies the log into it, which is seen in its
 *    header; what it says without its log never becomes older.
 * 5. A log that was removed is copied into the database at once, so that what was answered before is not lost, if no other
 *    process can have written a new one: with this one's `-shm` it finds what its own empty log has not, and is refused.
 */
import type { BigIntStats } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import type { BackendError } from "../../BackendError.ts"
import { isOfContents, taken } from "./errors.ts"
import { contents, inside, prepareVersion, readVersion, statOf } from "./opening.ts"

const isSame = (a: BigIntStats | undefined, b: BigIntStats | undefined): boolean =>
  a?.ino === b?.ino && a?.dev === b?.dev

export class Presence {
  readonly #filename: string
  readonly #log: BigIntStats | undefined
  readonly #shared: BigIntStats | undefined
  #file: BigIntStats
  /** The version that the database has without its log, as far as it was seen. */
  #version = 0
  #lost: BackendError | undefined
  #lookedMillis = -Infinity
  logBytes = 0

  /** Of files that a connection has just opened. */
  constructor(filename: string) {
    this.#filename = filename
    this.#file = statOf(filename)!
    this.#log = statOf(`${filename}-wal`)
    this.#shared = statOf(`${filename}-shm`)
    this.logBytes = Number(this.#log?.size ?? 0)
    this.#changed(this.#file)
  }

  /** What all names of the database have in common. */
  get identity(): string {
    return `${this.#file.dev}:${this.#file.ino}`
  }

  /** Whether a file is the log. */
  isLog(file: BigIntStats): boolean {
    return isSame(file, this.#log)
  }

  /** Throws what is wrong, if anything is, as of so many milliseconds ago; `saveLog` copies a log that was removed (5). */
  check(withinMillis: number, saveLog: () => boolean): void {
    if (this.#lost === undefined && performance.now() - this.#lookedMillis >= withinMillis) this.#look(saveLog)
    if (this.#lost !== undefined) throw this.#lost
  }

  /** Throws when a commit that was just made is not in the files at the paths. */
  checkCommitted(saveLog: () => boolean): void {
    if (!this.#look(saveLog)) throw this.#lost!
  }

  /** Finds out; whether all that was committed is safe though something may be missing. */
  #look(saveLog: () => boolean): boolean {
    this.#lookedMillis = performance.now()
    try {
      return this.#compare(saveLog)
    } catch {
      // a process that gave up the right to look has the files open all the same (4)
      return true
    }
  }

  #compare(saveLog: () => boolean): boolean {
    const name = this.#filename
    const log = statOf(`${name}-wal`)
    const shared = statOf(`${name}-shm`)
    const ofDatabase = this.#database()
    const what = ofDatabase ??
      (isSame(log, this.#log) ? this.#logCut(log) : `${name}-wal was ${log === undefined ? "removed" : "replaced"}`) ??
      (isSame(shared, this.#shared) ? undefined : `${name}-shm was ${shared === undefined ? "removed" : "replaced"}`)
    if (what === undefined) return true
    this.#lost = taken(name, what)
    // somebody else may have begun to write with what is in its place
    if (ofDatabase !== undefined || (shared !== undefined && !isSame(shared, this.#shared))) return false
    return (log?.size ?? 0n) === 0n && !isSame(log, this.#log)
      ? saveLog()
      : isSame(log, this.#log) && shared === undefined
  }

  #database(): string | undefined {
    const file = statOf(this.#filename)
    if (file === undefined) return `${this.#filename} was removed`
    if (!isSame(file, this.#file)) return `${this.#filename} was replaced by another file`
    if (file.mtimeNs === this.#file.mtimeNs && file.size === this.#file.size) return undefined
    return this.#changed(file)
  }

  /** Somebody wrote into the database: as SQLite does, when it copies the log (4), or otherwise. */
  #changed(file: BigIntStats): string | undefined {
    const isShorter = file.size < this.#file.size
    try {
      const { bytes, version } = inside(this.#filename, (db) => ({
        ...contents(db),
        version: readVersion(this.#filename, prepareVersion(db))
      }))
      if (isShorter && file.size < bytes) return `${this.#filename} was cut off`
      if (version < this.#version) return `${this.#filename} was overwritten with an older one`
      this.#version = version
      this.#file = file
    } catch (cause) {
      // longer, it is being written at this moment: another look will show
      if (isShorter && isOfContents(cause)) return `${this.#filename} was cut off`
    }
    return undefined
  }

  /** A log is cut by SQLite when all of it is in the database. Otherwise what was committed cannot be read any more. */
  #logCut(log: BigIntStats | undefined): string | undefined {
    const bytes = Number(log?.size ?? 0)
    const isShorter = bytes < this.logBytes
    this.logBytes = bytes
    if (!isShorter) return undefined
    let db: DatabaseSync | undefined
    try {
      db = new DatabaseSync(this.#filename, { readOnly: true, timeout: 0 })
      readVersion(this.#filename, prepareVersion(db))
      return undefined
    } catch (cause) {
      return isOfContents(cause) ? `${this.#filename}-wal was cut off` : undefined
    } finally {
      db?.close()
    }
  }
}

/**
 * The file beside a database that says how far it must reach: `app.db-version` holds the version of the newest commit
 * that some process knows to be on the disk. A database with a smaller one has lost commits. SQLite cannot tell: without
 * its log it takes a database for whole, and it is, but older.
 *
 * 1. Only a version whose commit was synced is written, and it is not synced itself. It survives the death of
 *    processes; after a loss of power it may say less than the truth, but never more: there is no false alarm. So who reads
 *    a commit up to this version knows that it is on the disk.
 * 2. Processes write it without a lock. One that writes an older number over another's newer one weakens the guard until
 *    the next commit, and does nothing else.
 * 3. It is read before the database: what others commit in between makes the database newer, never older.
 * 4. Each commit is told to the other processes by the write (see `noticing.ts`), which comes when it is on the disk.
 * 5. Bytes that are no record say nothing, and are written over. Nothing about this file makes a commit fail, or the
 *    opening of a database that is whole: where it cannot be read or written, it guards less.
 */
import * as fs from "node:fs"
import { crc32 } from "node:zlib"

const MAGIC = Buffer.from("dgenver1", "latin1")
const VERSION_AT = 8
const CHECKSUM_AT = 16
const RECORD_BYTES = 20

/** What is no file of ours is neither followed nor waited for. Windows has no such flags. */
const OPEN_FLAGS = (fs.constants.O_NOFOLLOW ?? 0) | (fs.constants.O_NONBLOCK ?? 0)

/** The permissions of a file, without its kind. */
const MODE_BITS = 0o777

/** What a record says that says nothing; a database's first version is 1. */
const NO_VERSION = 0

export const versionFileOf = (database: string): string => `${database}-version`

/** Writes a record into a buffer. */
const encode = (record: Buffer, version: number): Buffer => {
  MAGIC.copy(record)
  record.writeBigUInt64LE(BigInt(version), VERSION_AT)
  record.writeUInt32LE(crc32(record.subarray(0, CHECKSUM_AT)), CHECKSUM_AT)
  return record
}

/** What an open file says; `undefined` where it is no record. */
const decode = (fd: number): number | undefined => {
  const stat = fs.fstatSync(fd)
  if (!stat.isFile() || stat.size !== RECORD_BYTES) return undefined
  const record = Buffer.alloc(RECORD_BYTES)
  fs.readSync(fd, record, 0, RECORD_BYTES, 0)
  return versionOf(record)
}

/** What a record says; `undefined` where its bytes are none. */
const versionOf = (record: Buffer): number | undefined => {
  const version = Number(record.readBigUInt64LE(VERSION_AT))
  return Number.isSafeInteger(version) && encode(Buffer.alloc(RECORD_BYTES), version).equals(record)
    ? version
    : undefined
}

/** As SQLite does for its log: who may write the database may write this, also where the superuser made it. */
const shareWith = (fd: number, database: string): void => {
  const { gid, mode, uid } = fs.statSync(database)
  fs.fchmodSync(fd, mode & MODE_BITS)
  if (process.geteuid?.() === 0) fs.fchownSync(fd, uid, gid)
}

export class VersionFile {
  /** The version that the database has at least, as of when this was made; 0 where nobody knows. */
  readonly atLeast: number
  readonly #database: string
  readonly #record = Buffer.alloc(RECORD_BYTES)
  readonly #found = Buffer.alloc(RECORD_BYTES)
  #fd: number | undefined

  /** Reads the file of a database, and changes nothing. */
  constructor(database: string) {
    this.#database = database
    this.atLeast = NO_VERSION
    try {
      const fd = fs.openSync(versionFileOf(database), fs.constants.O_RDONLY | OPEN_FLAGS)
      try {
        this.atLeast = decode(fd) ?? NO_VERSION
      } finally {
        fs.closeSync(fd)
      }
    } catch {
      // none, or none that can be read (5)
    }
  }

  /** Whether the file is there to be written. */
  get isKept(): boolean {
    return this.#fd !== undefined
  }

  /** Whether the file that is written has no name any more. */
  get isDeleted(): boolean {
    try {
      return this.#fd !== undefined && fs.fstatSync(this.#fd).nlink === 0
    } catch {
      return false
    }
  }

  /** Makes the file, of its full length, so that a full disk does not matter later; the guard is off where it cannot. */
  prepare(): void {
    this.close()
    try {
      const flags = fs.constants.O_RDWR | fs.constants.O_CREAT | OPEN_FLAGS
      const fd = fs.openSync(versionFileOf(this.#database), flags, 0o600)
      try {
        const { size } = fs.fstatSync(fd)
        if (size === 0) shareWith(fd, this.#database)
        if (decode(fd) === undefined) {
          fs.ftruncateSync(fd, RECORD_BYTES)
          fs.writeSync(fd, encode(this.#record, NO_VERSION), 0, RECORD_BYTES, 0)
        }
        this.#fd = fd
      } catch (cause) {
        fs.closeSync(fd)
        throw cause
      }
    } catch {
      // this process's commits are not guarded, until the database is opened again (5)
    }
  }

  /** The version that is known to be on the disk at this moment: some process wrote it after its sync (1). */
  read(): number {
    if (this.#fd === undefined) return NO_VERSION
    try {
      if (fs.readSync(this.#fd, this.#found, 0, RECORD_BYTES, 0) !== RECORD_BYTES) return NO_VERSION
      return versionOf(this.#found) ?? NO_VERSION
    } catch {
      // nobody knows (5)
      return NO_VERSION
    }
  }

  /** Notes a commit that was synced. */
  write(version: number): void {
    if (this.#fd === undefined) return
    try {
      fs.writeSync(this.#fd, encode(this.#record, version), 0, RECORD_BYTES, 0)
    } catch {
      // it says less than it could, until the next commit (5)
    }
  }

  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd)
    this.#fd = undefined
  }
}

/**
 * What the errors of SQLite and of the file system mean, and the errors of files that are not as they must be. Each says
 * what to do.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import * as BackendError from "../../BackendError.ts"
import { messageOfThrown } from "../data/thrown.ts"
import { versionFileOf } from "./versionFile.ts"

const SQLITE_ERROR = 1
const SQLITE_PERM = 3
const SQLITE_BUSY = 5
const SQLITE_LOCKED = 6
const SQLITE_READONLY = 8
const SQLITE_IOERR = 10
const SQLITE_IOERR_SHORT_READ = 522
const SQLITE_CORRUPT = 11
const SQLITE_FULL = 13
const SQLITE_CANTOPEN = 14
const SQLITE_NOTADB = 26

/** Whether an error says that another connection holds the lock. */
export const isBusy = (error: BackendError.BackendError): boolean =>
  error.reason._tag === "Unavailable" && (error.reason.code === SQLITE_BUSY || error.reason.code === SQLITE_LOCKED)

export const wrap = (reason: BackendError.Reason) => new BackendError.BackendError({ reason })

/** What an error of SQLite or of the file system means. */
export const toBackendError = (filename: string, cause: unknown): BackendError.BackendError => {
  if (BackendError.isBackendError(cause)) return cause
  const { code, errcode } = Object(cause) as { readonly code?: string; readonly errcode?: number }
  const primary = errcode === undefined ? undefined : errcode & 0xff
  const fields = (text: string) => ({
    message: `${filename}: ${text} (${messageOfThrown(cause)})`,
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
      return wrap(new BackendError.ForeignDatabase(fields("the file is no SQLite database: choose another filename")))
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

export const codeOf = (cause: unknown): string | undefined => (cause as { readonly code?: string }).code

/**
 * SQLite does not say why it cannot open a file: whether its folder takes no new one, or the file no writes. Nothing is
 * opened for it (see `file.ts`).
 */
const isReadOnly = (filename: string): boolean => {
  try {
    fs.rmdirSync(fs.mkdtempSync(path.join(path.dirname(filename), "probe-")))
    if (fs.existsSync(filename)) fs.accessSync(filename, fs.constants.R_OK | fs.constants.W_OK)
    return false
  } catch (cause) {
    return READ_ONLY_CODES.has(codeOf(cause))
  }
}

export const foreign = (filename: string, what: string) =>
  wrap(
    new BackendError.ForeignDatabase({ message: `${filename} ${what}: choose another filename. It was not changed` })
  )

export const damaged = (filename: string, what: string) =>
  wrap(new BackendError.Corrupt({ message: `${filename} ${what}: it is damaged, restore it from a backup` }))

export const cut = (filename: string) =>
  wrap(
    new BackendError.Corrupt({
      message: `${filename}: the file was cut off: restore it from a backup. It was not changed`
    })
  )

export const beingMade = (filename: string) =>
  wrap(
    new BackendError.Unavailable({
      message: `${filename} is just being made by another process. If there is none, one died while it made it, and ` +
        `nothing is in it: delete it and ${filename}-journal`,
      code: SQLITE_BUSY
    })
  )

export const unusable = (filename: string, what: string) =>
  wrap(new BackendError.InvalidArgument({ message: `${filename} ${what}` }))

export const newer = (filename: string, format: number, known: number) =>
  wrap(
    new BackendError.NewerFormat({
      message: `${filename} has format ${format}, and this version reads up to ${known}: update effect-dgen. ` +
        "It was not changed"
    })
  )

export const gone = (filename: string, atLeast: number) =>
  wrap(
    new BackendError.Corrupt({
      message: `${filename} does not exist or is empty, and commits up to version ${atLeast} were in it: ` +
        `put it back, with its -wal if it had one, or restore a backup and delete ${versionFileOf(filename)}. ` +
        `If a new database is meant, delete ${versionFileOf(filename)}. Nothing was changed`
    })
  )

export const older = (filename: string, version: number, atLeast: number) =>
  wrap(
    new BackendError.Corrupt({
      message: `${filename} has lost its newest commits, about ${atLeast - version} of them: it ends with version ` +
        `${version}, and version ${atLeast} was in it. Its log ${filename}-wal was removed or damaged, or the file was ` +
        `replaced by an older one: put them back, or restore a backup and delete ${versionFileOf(filename)}. ` +
        `If an older file is there on purpose, delete ${versionFileOf(filename)}. The file was not changed`
    })
  )

/** What everything fails with once the files at the paths are no longer those that are open. */
export const taken = (filename: string, what: string) =>
  wrap(
    new BackendError.Corrupt({
      message: `${what} while this process had ${filename} open: nothing is read or committed any more. Stop all ` +
        "processes that use it, see that the database and its -wal are those that you mean, and start again"
    })
  )

/** What everything fails with once a sync has failed: what was written before it may be on the disk, or not. */
export const unsynced = (filename: string, cause: unknown) =>
  wrap(
    new BackendError.Corrupt({
      message:
        `${filename}: syncing it failed (${messageOfThrown(cause)}): whether its newest commits are on the disk, ` +
        "nobody knows. Nothing is read or committed any more. Look at the disk, and start again",
      cause
    })
  )

/** The same for a commit that waited for the sync. */
export const unknown = ({ reason }: BackendError.BackendError) =>
  wrap(new BackendError.CommitUnknown({ message: reason.message, cause: reason }))

const errcodeOf = (cause: unknown): number => (cause as { readonly errcode?: number }).errcode ?? 0

/** Whether SQLite says that pages are missing, or are none. */
export const isMalformed = (cause: unknown): boolean => errcodeOf(cause) % 256 === SQLITE_CORRUPT

/** Whether an error tells of what is in a file, and not of what kept the process from looking. */
export const isOfContents = (cause: unknown): boolean =>
  BackendError.isBackendError(cause) || errcodeOf(cause) === SQLITE_IOERR_SHORT_READ ||
  [SQLITE_ERROR, SQLITE_CORRUPT, SQLITE_NOTADB].includes(errcodeOf(cause) % 256)

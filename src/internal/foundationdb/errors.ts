/**
 * FoundationDB's error codes as reasons of a `BackendError`: what its `fdb_error_predicate` says can be run again is
 * retryable here, and what it says may be committed is so here.
 *
 * 1. `CommitUnknown` comes only from a commit that writes. The same codes from a read say that nothing was done.
 * 2. A code that is not known is `Unavailable`: running again is safe, and ends with the retry time limit.
 */
import { TRANSACTION_LIMIT_MILLIS } from "../../Backend.ts"
import * as BackendError from "../../BackendError.ts"
import { messageOfThrown } from "../data/thrown.ts"
import type { FdbError } from "./package.ts"

/** What the cluster was asked to do when it failed. */
export type Doing = "read" | "commit" | "watch"

const TOO_OLD = 1007
const CONFLICT = 1020
const TIMED_OUT = 1031
const TOO_MANY_WATCHES = 1032
const DATABASE_LOCKED = 1038

/** Of a commit: its answer was lost, with its idempotency id, by its time limit, by an upgrade of the cluster. */
const UNKNOWN = new Set([1021, 1022, TIMED_OUT, 1039])

/** The transaction, or the operation, was cancelled: by its own end, or by the layer's. */
const CANCELLED = new Set([1025, 1101])

/** Keys, ranges and options that no cluster takes: a mistake of the caller. */
const isClientError = (code: number): boolean => code >= 2000 && code < 2100

const message = (cause: FdbError, advice: string): string => `${cause.message} (${cause.code}): ${advice}`

const isFdbError = (cause: unknown): cause is FdbError =>
  cause instanceof Error && typeof (cause as { readonly code?: unknown }).code === "number"

const unknownReason = (fields: { readonly code: number; readonly cause: unknown }, text: string) =>
  new BackendError.CommitUnknown({ ...fields, message: `${text}: look whether it was applied before you run it again` })

const reasonOf = (cause: FdbError, doing: Doing, elapsedMillis: number): BackendError.Reason => {
  const { code } = cause
  const fields = { code, cause }
  if (doing === "commit" && (UNKNOWN.has(code) || CANCELLED.has(code))) {
    return unknownReason(fields, `${cause.message} (${code})`)
  }
  if (code === CONFLICT) {
    return new BackendError.Conflict({ ...fields, message: message(cause, "run it again") })
  }
  if (code === TOO_OLD || (code === TIMED_OUT && elapsedMillis > TRANSACTION_LIMIT_MILLIS)) {
    return new BackendError.TransactionTooOld({
      ...fields,
      message: message(cause, `a transaction has ${TRANSACTION_LIMIT_MILLIS} ms: run it again, or make it shorter`)
    })
  }
  if (CANCELLED.has(code)) return new BackendError.Closed({ ...fields, message: message(cause, "it has ended") })
  switch (code) {
    case 1036:
      return new BackendError.AccessedUnreadable({
        ...fields,
        message: message(cause, "what is written with a versionstamp is known only after the commit")
      })
    case 2101:
      return new BackendError.TransactionTooLarge({ ...fields, message: message(cause, "do the work in several") })
    case 2102:
      return new BackendError.KeyTooLarge({ ...fields, message: message(cause, "shorten the key's elements") })
    case 2103:
      return new BackendError.ValueTooLarge({ ...fields, message: message(cause, "split it over several keys") })
    case TOO_MANY_WATCHES:
      return new BackendError.Unavailable({ ...fields, message: message(cause, "raise the layer's option maxWatches") })
    case DATABASE_LOCKED:
      return new BackendError.Unavailable({
        ...fields,
        message: message(cause, "an operator has locked it; fdbcli shows why")
      })
  }
  if (isClientError(code)) {
    return new BackendError.InvalidArgument({ ...fields, message: message(cause, "the cluster does not take this") })
  }
  return new BackendError.Unavailable({
    ...fields,
    message: message(cause, "look at the cluster with fdbcli --exec status")
  })
}

/** The error of a failed operation of a transaction that began to read `elapsedMillis` ago. */
export const toBackendError = (cause: unknown, doing: Doing, elapsedMillis = 0): BackendError.BackendError => {
  if (BackendError.isBackendError(cause)) return cause
  if (isFdbError(cause)) return new BackendError.BackendError({ reason: reasonOf(cause, doing, elapsedMillis) })
  return new BackendError.BackendError({
    reason: new BackendError.Unavailable({
      message: `the client of FoundationDB failed: ${messageOfThrown(cause)}`,
      cause
    })
  })
}

/** The error of a connection that does not come about. */
export const toConnectError = (
  cause: unknown,
  clusterFile: string,
  limitMillis: number
): BackendError.BackendError => {
  if (BackendError.isBackendError(cause)) return cause
  const code = isFdbError(cause) ? cause.code : undefined
  const text = messageOfThrown(cause)
  const fields = { cause, ...(code === undefined ? {} : { code }) }
  if (code === TIMED_OUT) {
    return new BackendError.BackendError({
      reason: new BackendError.Unavailable({
        ...fields,
        message:
          `FoundationDbBackend.layer: no cluster answered within ${limitMillis} ms through ${clusterFile}. Check ` +
          "that it runs, with fdbcli --exec status, and that the file names its coordinators"
      })
    })
  }
  if (code !== undefined && [1511, 1513, 1515, 1516, 2104].includes(code)) {
    return new BackendError.BackendError({
      reason: new BackendError.InvalidArgument({
        ...fields,
        message: `FoundationDbBackend.layer: ${text} (${code}): check ${clusterFile}. It is a line such as ` +
          "description:id@127.0.0.1:4500, copied from a server of the cluster"
      })
    })
  }
  return toBackendError(cause, "read")
}

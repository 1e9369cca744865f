/**
 * What PostgreSQL and its connections fail with, as reasons of a `BackendError`.
 *
 * 1. An error that the server answers to a statement says that its transaction was rolled back. `CommitUnknown` comes only
 *    from a commit whose connection ended without an answer; an answer that ends the connection (FATAL) is as good as none.
 * 2. What is not known is `Unavailable`: running again is safe, and ends with the retry time limit.
 */
import * as BackendError from "../../BackendError.ts"
import { messageOfThrown } from "../data/thrown.ts"

/** What was asked for when it failed. */
export type Doing = "connect" | "read" | "commit"

/** The connection is gone, or nothing is known of it. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost"
}

interface Answer {
  readonly code: string
  readonly severity: string | undefined
}

const answerOf = (cause: unknown): Answer | undefined => {
  const { code, severity } = Object(cause) as { readonly code?: unknown; readonly severity?: unknown }
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && typeof severity === "string"
    ? { code, severity }
    : undefined
}

/** Whether the connection can no longer be used. */
export const isLost = (cause: unknown): boolean => {
  const answer = answerOf(cause)
  // an administrator ends a session with 57P01 to 57P05, and 08 are failures of the connection itself
  return answer === undefined || answer.severity === "FATAL" || answer.severity === "PANIC" ||
    answer.code.startsWith("57P") || answer.code.startsWith("08")
}

const advice: Readonly<Record<string, string>> = {
  "25006": "the server, or the role, only reads. Connect to the primary; after a failover, to the new one",
  "53100": "the server's disk is full: make room, and run it again",
  "53300": "the server has no room for another connection: raise its max_connections, or lower maxConnections",
  "28P01": "check the user and the password",
  "28000": "check the user, and what pg_hba.conf lets in",
  "3D000": "the database does not exist: create it, or correct its name",
  "42501":
    "the role may not do this. It needs USAGE on the schema, all rights on its tables and its sequence, and EXECUTE " +
    "on its functions; to make them it needs CREATE on the database",
  "42P01": "a table of the store is missing: build the layer with migrate, or run the statements that make it",
  "42883": "a function of the store is missing: build the layer with migrate, or run the statements that make it",
  "25P01": "begin a transaction on the client first, and give the client itself and not a pool",
  "25P02": "the transaction has failed before: roll it back",
  "55000": "call one after the other",
  "25001": "the connection begins transactions with another isolation level than it was told"
}

const invalid = new Set([
  "28P01",
  "28000",
  "3D000",
  "42501",
  "42P01",
  "42883",
  "3F000",
  "42601",
  "22023",
  "25P01",
  "25P02",
  "55000"
])

const reasonOf = (cause: unknown, doing: Doing): BackendError.Reason => {
  const answer = answerOf(cause)
  const text = messageOfThrown(cause)
  if (doing === "commit" && isLost(cause)) {
    return new BackendError.CommitUnknown({
      message: `${text}: look whether it was applied before you run it again`,
      cause
    })
  }
  const code = answer?.code ?? ""
  const hint = advice[code]
  const message = `PostgreSQL: ${text}${code === "" ? "" : ` (${code})`}${hint === undefined ? "" : `: ${hint}`}`
  if (code === "25006") return new BackendError.ReadOnly({ message, cause })
  if (code === "53100") return new BackendError.DiskFull({ message, cause })
  if (invalid.has(code)) return new BackendError.InvalidArgument({ message, cause })
  if (code === "XX001" || code === "XX002") return new BackendError.Corrupt({ message, cause })
  return new BackendError.Unavailable({
    message: hint === undefined ? `${message}: look at the server's log` : message,
    cause
  })
}

/** The error of what failed. */
export const toBackendError = (cause: unknown, doing: Doing): BackendError.BackendError =>
  BackendError.isBackendError(cause) ? cause : new BackendError.BackendError({ reason: reasonOf(cause, doing) })

/** What is asked of a layer that has ended. */
export const closedError = (): BackendError.BackendError =>
  new BackendError.BackendError({ reason: new BackendError.Closed({ message: "the store's scope is closed" }) })

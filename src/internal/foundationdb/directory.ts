/**
 * Tenants as directories of FoundationDB's directory layer, through the package's own implementation of it: the other
 * bindings see and open the same directories.
 *
 * 1. Opening twice is as good as once, so an unknown commit is run again. A removal that was applied without an answer
 *    finds nothing when it is run again: it was there if any run found it.
 * 2. Directories carry no layer of ours, and are opened whatever their layer is. A partition has no keys of its own and
 *    is refused.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { Directory } from "../../Backend.ts"
import { BackendError, InvalidArgument } from "../../BackendError.ts"
import { toBackendError } from "./errors.ts"
import type { FdbTransaction } from "./package.ts"
import type { FoundationDbSession } from "./session.ts"

/** Directories are opened rarely: whoever meets more than this meets something else than conflicts. */
const RETRIES = 100

const BACKOFF = Schedule.min([Schedule.exponential("5 millis"), Schedule.spaced("500 millis")])

const elapsedMillis = () => 0

/** What the directory layer refuses has no code: a partition, a directory of a newer version of the layer. */
const refusal = (path: ReadonlyArray<string>, cause: unknown): unknown =>
  cause instanceof Error && typeof (cause as { readonly code?: unknown }).code !== "number"
    ? new BackendError({
      reason: new InvalidArgument({
        message: `the directory ${JSON.stringify(path)} cannot be used: ${cause.message}`,
        cause
      })
    })
    : cause

const run = <A>(
  session: FoundationDbSession,
  path: ReadonlyArray<string>,
  use: (transaction: FdbTransaction) => Promise<A>
): Effect.Effect<A, BackendError> => {
  let committed = false
  const once = Effect.acquireUseRelease(
    session.begin,
    (transaction) => {
      const used = session.run(
        () => use(transaction).catch((cause: unknown) => Promise.reject(refusal(path, cause))),
        "read",
        elapsedMillis
      )
      return Effect.flatMap(
        used,
        (value) =>
          Effect.map(session.run(() => transaction.rawCommit(), "commit", elapsedMillis), () => {
            committed = true
            return value
          })
      )
    },
    (transaction) => Effect.sync(() => session.end(transaction, committed))
  )
  return Effect.retry(once, {
    schedule: BACKOFF,
    times: RETRIES,
    while: (error) => error.isRetryable || error.isMaybeCommitted
  })
}

/** The directories of a cluster. */
export const make = (session: FoundationDbSession): Directory => ({
  open: (path) =>
    Effect.flatMap(
      run(session, path, (transaction) => session.fdb.directory.createOrOpen(transaction, path)),
      (directory) =>
        Effect.try({
          try: () => new Uint8Array(directory.getSubspace().prefix),
          catch: (cause) => toBackendError(refusal(path, cause), "read")
        })
    ),
  exists: (path) => run(session, path, (transaction) => session.fdb.directory.exists(transaction, path)),
  list: (path) =>
    run(session, path, (transaction) =>
      // what is not there has no names below it
      (path.length === 0 ? Promise.resolve(true) : session.fdb.directory.exists(transaction, path)).then((exists) =>
        exists ? session.fdb.directory.listAll(transaction, path) : []
      ).then((names) => names.map((name) => Buffer.from(name).toString()))),
  remove: (path) =>
    Effect.suspend(() => {
      let found = false
      return run(session, path, (transaction) =>
        session.fdb.directory.removeIfExists(transaction, path).then((removed) => {
          found ||= removed
          return found
        }))
    })
})

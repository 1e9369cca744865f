/**
 * Clients of users' own that have a transaction open: how one is asked for the one value of a statement. Nothing is imported
 * from their packages; a client is known by what it can do.
 */
import * as Effect from "effect/Effect"
import { BackendError, InvalidArgument } from "../../BackendError.ts"
import { show } from "../data/show.ts"
import { toBackendError } from "../postgres/errors.ts"

/** A client of `pg`. */
interface PgClient {
  readonly query: (
    query: { readonly text: string; readonly rowMode: "array" }
  ) => Promise<{ readonly rows: ReadonlyArray<ReadonlyArray<unknown>> }>
}

/** Effect's `SqlClient`: what its statements run on is in the context of the fiber. */
interface SqlClient {
  readonly unsafe: (
    text: string
  ) => { readonly valuesUnprepared: Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, object> }
}

export type Client = PgClient | SqlClient

/** Errors of the server are found within those of clients. */
const CAUSES_LIMIT = 5

/** What the server said, where a client wrapped it. */
const innermost = (error: unknown): unknown => {
  let at = error
  for (let depth = 0; depth < CAUSES_LIMIT; depth++) {
    const { cause, code, reason } = Object(at) as { readonly [name: string]: unknown }
    if (typeof code === "string") return at
    const next = reason ?? cause
    if (next === undefined) return error
    at = next
  }
  return error
}

const failed = (error: unknown): BackendError => toBackendError(innermost(error), "read")

const has = (client: unknown, method: string): boolean =>
  typeof (Object(client) as { readonly [name: string]: unknown })[method] === "function"

const invalid = (message: string): BackendError =>
  new BackendError({ reason: new InvalidArgument({ message: `PostgresBackend.transactWith: ${message}` }) })

/** The text that a statement selects. */
export const ask = (client: Client, text: string): Effect.Effect<string, BackendError> =>
  Effect.flatMap(answerOf(client, text), (rows) => {
    const answer: unknown = rows[0]?.[0]
    return typeof answer === "string"
      ? Effect.succeed(answer)
      : Effect.fail(invalid(`a client of pg answers with rows, not with ${show(rows)}`))
  })

type Rows = ReadonlyArray<ReadonlyArray<unknown>>

const answerOf = (client: Client, text: string): Effect.Effect<Rows, BackendError> => {
  if (has(client, "unsafe")) {
    return Effect.mapError((client as SqlClient).unsafe(text).valuesUnprepared, failed)
  }
  if (has(client, "query")) {
    return Effect.tryPromise({
      try: () => (client as PgClient).query({ text, rowMode: "array" }).then(({ rows }) => rows),
      catch: failed
    })
  }
  return Effect.fail(invalid(`a client of pg, or an SqlClient, is needed, not ${show(client)}`))
}

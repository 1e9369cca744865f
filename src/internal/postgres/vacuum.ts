/**
 * The store's tables vacuumed by hand, each by a statement of its own: for who does not want to wait for autovacuum. It takes
 * as long as it takes, so it has a connection of its own, without a limit.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../BackendError.ts"
import { toBackendError } from "./errors.ts"
import * as Literals from "./literals.ts"
import { importPackage, load, type PgConfig } from "./package.ts"

const TABLES = ["data", "long", "log"]

/** Vacuums the tables of a schema. */
export const vacuum = (config: PgConfig, schema: string): Effect.Effect<void, BackendError> =>
  Effect.flatMap(load(importPackage), (pg) =>
    Effect.acquireUseRelease(
      Effect.tryPromise({
        try: async () => {
          const client = new pg.Client(config)
          // its loss is an answer to the statement that runs
          client.on("error", () => {})
          await client.connect()
          return client
        },
        catch: (cause) => toBackendError(cause, "connect")
      }),
      (client) =>
        Effect.forEach(TABLES, (table) =>
          Effect.tryPromise({
            try: () => client.query({ text: `VACUUM ${Literals.identifier(schema)}.${table}`, rowMode: "array" }),
            catch: (cause) => toBackendError(cause, "read")
          }), { discard: true }),
      (client) => Effect.promise(() => client.end().catch(() => {}))
    ))

/**
 * The backend for a PostgreSQL server, 14 or newer, shared by any number of processes. A commit that was reported is in the
 * server's log on the disk, and on its synchronous standbys where there are some.
 *
 * It uses the npm package `pg`, an optional peer dependency that this module alone imports, when its layer is built. The
 * layer makes the tables it needs, in a schema of its own, unless it is told not to.
 *
 * What you owe: the package, a role that may use the schema, and connections that the server has room for. Between the program
 * and the server there may be a pooler in transaction mode; commits of other processes are then heard at once only through
 * `listen`, a connection around the pooler, and seen every 250 ms without it.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { Backend } from "./Backend.ts"
import { BackendError, InvalidArgument } from "./BackendError.ts"
import { show } from "./internal/data/show.ts"
import type { Client } from "./internal/joining/client.ts"
import { join } from "./internal/joining/joining.ts"
import { make, type Settings } from "./internal/postgres/layer.ts"
import { importPackage, type PgConfig } from "./internal/postgres/package.ts"
import { statements } from "./internal/postgres/statements.ts"
import * as Vacuum from "./internal/postgres/vacuum.ts"
import { outside } from "./internal/transactions/callback.ts"
import { Tenant } from "./Tenant.ts"
import type { Transaction } from "./Transaction.ts"

/**
 * The schema in which a store lies, unless another is named.
 *
 * @since 0.1.0
 * @category limits
 */
export const SCHEMA = "effect_dgen"

/**
 * How many connections a layer opens at the most: one listens, a quarter commits, and the rest reads, one for each transaction
 * whose body runs.
 *
 * @since 0.1.0
 * @category limits
 */
export const MAX_CONNECTIONS = 10

/**
 * How long the layer waits for a server that does not answer, in milliseconds.
 *
 * @since 0.1.0
 * @category limits
 */
export const CONNECT_LIMIT_MILLIS = 10_000

const MIN_CONNECTIONS = 3
const CONNECTIONS_LIMIT = 1_000

/** PostgreSQL's limit for names. */
const NAME_BYTES = 63

/**
 * How to connect: a `url`, or its parts; what is left out comes from the variables that PostgreSQL's own tools read
 * (`PGHOST`, `PGUSER` and so on). `ssl` is what the package `pg` takes.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** `postgres://user:password@host:port/database`. */
  readonly url?: string | Redacted.Redacted | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly database?: string | undefined
  readonly user?: string | undefined
  readonly password?: string | Redacted.Redacted | undefined
  readonly ssl?: boolean | object | undefined
  /** Where the store lies; several stores of one database lie in several schemas. */
  readonly schema?: string | undefined
  readonly maxConnections?: number | undefined
  readonly connectTimeout?: Duration.Input | undefined
  /** Where to hear of other processes' commits, when `url` leads to a pooler in transaction mode. */
  readonly listen?: { readonly url: string | Redacted.Redacted } | undefined
  /** With `false`, nothing is made: a layer fails when its tables are missing. */
  readonly migrate?: boolean | undefined
}

const invalid = (message: string) =>
  Effect.fail(new BackendError({ reason: new InvalidArgument({ message: `PostgresBackend.layer: ${message}` }) }))

const plain = (secret: string | Redacted.Redacted | undefined): unknown =>
  Redacted.isRedacted(secret) ? Redacted.value(secret) : secret

const configOf = (options: Options, millis: number, url: unknown): PgConfig => ({
  ...(url === undefined
    ? {
      host: options.host,
      port: options.port,
      database: options.database,
      user: options.user,
      password: plain(options.password)
    }
    : { connectionString: url }),
  ...(options.ssl === undefined ? {} : { ssl: options.ssl }),
  connectionTimeoutMillis: millis,
  keepAlive: true,
  application_name: "effect-dgen"
})

const isUrl = (url: unknown): boolean => typeof url === "string" && /^postgres(ql)?:\/\//.test(url)

const settingsOf = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<Settings, BackendError> {
  const url = plain(options.url)
  const listen = options.listen === undefined ? url : plain(options.listen.url)
  if ((url !== undefined && !isUrl(url)) || (options.listen !== undefined && !isUrl(listen))) {
    return yield* invalid("a url must be a text such as postgres://user:password@host:5432/database")
  }
  const schema: unknown = options.schema ?? SCHEMA
  if (
    typeof schema !== "string" || schema === "" || Buffer.byteLength(schema) > NAME_BYTES || /[\0\\]/.test(schema) ||
    schema.startsWith("pg_")
  ) {
    return yield* invalid(
      `schema must be a name of 1 to ${NAME_BYTES} bytes without backslashes that does not begin with pg_, not ` +
        JSON.stringify(schema)
    )
  }
  const maxConnections = options.maxConnections ?? MAX_CONNECTIONS
  if (!Number.isInteger(maxConnections) || maxConnections < MIN_CONNECTIONS || maxConnections > CONNECTIONS_LIMIT) {
    return yield* invalid(
      `maxConnections must be a whole number of ${MIN_CONNECTIONS} to ${CONNECTIONS_LIMIT}, not ${
        String(maxConnections)
      }`
    )
  }
  const millis = Option.map(Duration.fromInput(options.connectTimeout ?? CONNECT_LIMIT_MILLIS), Duration.toMillis)
  if (Option.isNone(millis) || !(millis.value >= 1) || millis.value > 2 ** 31 - 1) {
    return yield* invalid(`connectTimeout must be a duration of 1 ms or more, not ${String(options.connectTimeout)}`)
  }
  return {
    connection: configOf(options, millis.value, url),
    listen: configOf(options, millis.value, listen),
    schema,
    maxConnections,
    connectLimitMillis: millis.value,
    migrate: options.migrate ?? true
  }
})

/**
 * The statements that make a store, for a database whose application may not make tables itself: run them once, as a role that
 * may, and build the layer with `migrate: false`.
 *
 * @since 0.1.0
 * @category migrations
 */
export const sql = (schema: string = SCHEMA): string => `${statements(schema).join(";\n\n")};\n`

/**
 * Vacuums the tables of a store, for who does not want to wait for autovacuum; programs go on meanwhile. Fails with
 * `BackendError`.
 *
 * @since 0.2.0
 * @category migrations
 */
export const vacuum = (options: Options = {}): Effect.Effect<void, BackendError> =>
  Effect.flatMap(settingsOf(options), ({ connection, schema }) => Vacuum.vacuum(connection, schema))

/**
 * The backend of a server. Fails with `BackendError`: `ClientMissing` without the package `pg`, `InvalidArgument` for options
 * that cannot be used, a database that does not exist, a role without rights or a server before PostgreSQL 14, `ReadOnly` for
 * a standby, `NewerFormat` for a store of a later version, `Unavailable` when nothing answers.
 *
 * **Example** (A tenant on a server)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { PostgresBackend, Tenant } from "effect-dgen"
 *
 * const store = Tenant.layer(["my-app", "counters"]).pipe(
 *   Layer.provide(PostgresBackend.layer({ url: "postgres://app:secret@localhost:5432/app" }))
 * )
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<Backend, BackendError> =>
  Layer.effect(Backend, Effect.flatMap(settingsOf(options), (settings) => make(settings, importPackage)))

export type {
  /**
   * A client with an open transaction: one of `pg` (a client, or one that a pool lent; not the pool), or the `SqlClient` of
   * Effect that works on PostgreSQL, within its `withTransaction`.
   *
   * @since 0.1.0
   * @category models
   */
  Client
}

/**
 * Makes a transaction effect part of a transaction that is open on a client of yours: what it writes is there with the
 * client's `COMMIT`, together with your own statements, or not at all. Requires a `Tenant` on this backend whose store lies
 * in the client's database. Succeeds when what it writes is held by your transaction, not when it is committed: casts are
 * handled, jobs run and answers are given after your `COMMIT`.
 *
 * The effect runs once, on a snapshot of its own, and sees what earlier calls within the same transaction wrote. If others
 * change what it has read before you commit, your `COMMIT` fails with a serialization failure (`40001`), like one of your
 * own: roll back, and run the whole transaction again. So it does when what was read is older than 10 seconds; what reads
 * nothing, as a cast, can wait for minutes.
 *
 * Your transaction must be `READ COMMITTED`. Calls within it come one after the other, and none after `SET CONSTRAINTS` has
 * made deferred constraints immediate. A savepoint that is rolled back takes the calls since then along. A transaction with
 * such a call cannot be prepared for two-phase commit.
 *
 * Fails with what the effect fails with, and then it has left nothing in your transaction, or with `BackendError`:
 * `InvalidArgument` without an open transaction, under another isolation level, in another database, for a watch.
 *
 * **Example** (An order and its message, together or not at all)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { DgenServer, PostgresBackend } from "effect-dgen"
 * import type { Pool } from "pg"
 *
 * class Shipping extends DgenServer.Service<Shipping>()("Shipping", {
 *   state: Schema.Struct({ orders: Schema.Int }),
 *   messages: { Ship: DgenServer.cast({ payload: { order: Schema.String } }) }
 * }) {}
 *
 * const order = (pool: Pool, id: string) =>
 *   Effect.acquireUseRelease(
 *     Effect.promise(() => pool.connect()),
 *     (client) =>
 *       Effect.gen(function*() {
 *         yield* Effect.promise(() => client.query("BEGIN"))
 *         yield* Effect.promise(() => client.query("INSERT INTO orders (id) VALUES ($1)", [id]))
 *         yield* PostgresBackend.transactWith(client, Shipping.castTx("Ship", { order: id }))
 *         yield* Effect.promise(() => client.query("COMMIT"))
 *       }).pipe(Effect.onError(() => Effect.promise(() => client.query("ROLLBACK")))),
 *     (client) => Effect.sync(() => client.release())
 *   )
 * ```
 *
 * @since 0.1.0
 * @category running
 */
export const transactWith = <A, E>(
  client: Client,
  effect: Effect.Effect<A, E, Transaction>
): Effect.Effect<A, E | BackendError, Tenant> =>
  Effect.flatMap(Tenant, (tenant) =>
    Effect.isEffect(effect)
      ? outside("PostgresBackend.transactWith", join(tenant, client, effect))
      : Effect.fail(
        new BackendError({
          reason: new InvalidArgument({
            message: `PostgresBackend.transactWith: a transaction must be an Effect, not ${show(effect)}`
          })
        })
      ))

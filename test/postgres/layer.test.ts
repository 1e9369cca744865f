/** What keeps a layer from being built, and what is said of it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { PostgresBackend, Tenant, Transaction } from "effect-dgen"
import { make } from "../../src/internal/postgres/layer.ts"
import { freshSchema, server } from "./support.ts"

const failure = (options: PostgresBackend.Options) =>
  Effect.map(
    Effect.flip(Effect.scoped(Layer.build(PostgresBackend.layer(options)))),
    ({ reason }) => [reason._tag, reason.message] as const
  )

const run = (text: string) => Effect.promise(() => server.run(text))

const refuses = (
  title: string,
  tag: string,
  says: string,
  options: () => PostgresBackend.Options,
  before: (schema: string) => Effect.Effect<unknown> = () => Effect.void
) =>
  it.live(title, () =>
    Effect.gen(function*() {
      const given = options()
      yield* before(given.schema ?? "")
      const [found, message] = yield* failure(given)
      assert.strictEqual(found, tag, message)
      assert.include(message, says)
    }))

describe("PostgresBackend.layer", () => {
  const { url } = server
  refuses("without a server", "Unavailable", "ECONNREFUSED", () => ({
    url: "postgres://127.0.0.1:1/x",
    connectTimeout: "300 millis"
  }))
  refuses(
    "without the database",
    "InvalidArgument",
    "does not exist",
    () => ({ url: url.replace(/postgres$/, "nowhere") })
  )
  refuses("with a url that is none", "InvalidArgument", "postgres://", () => ({ url: "localhost" }))
  refuses("with a schema that is none", "InvalidArgument", "schema", () => ({ url, schema: "pg_mine" }))
  refuses("with too few connections", "InvalidArgument", "maxConnections", () => ({ url, maxConnections: 1 }))
  refuses(
    "with a timeout that is none",
    "InvalidArgument",
    "connectTimeout",
    () => ({ url, connectTimeout: "0 millis" })
  )
  refuses("that must not make tables", "InvalidArgument", "migrate is false", () => ({
    url,
    schema: freshSchema(),
    migrate: false
  }))
  refuses(
    "on a store of a later version",
    "NewerFormat",
    "upgrade effect-dgen",
    () => ({ url, schema: freshSchema() }),
    (schema) =>
      Effect.andThen(
        Effect.scoped(Effect.orDie(Layer.build(PostgresBackend.layer({ url, schema })))),
        run(`UPDATE ${schema}.meta SET format = 1000`)
      )
  )
  refuses(
    "as a role that may not make a schema",
    "InvalidArgument",
    "42501",
    () => ({ url: url.replace("postgres@", "nobody@"), schema: freshSchema() }),
    () => run("CREATE ROLE nobody LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
  )
  refuses(
    "where transactions only read",
    "ReadOnly",
    "primary",
    () => ({ url: url.replace("postgres@", "reader@"), schema: freshSchema() }),
    () => run("CREATE ROLE reader SUPERUSER LOGIN; ALTER ROLE reader SET default_transaction_read_only = on")
  )
  it.live("without the package: says what to install", () =>
    Effect.gen(function*() {
      const missing = Object.assign(new Error("Cannot find package 'pg' imported from here"), {
        code: "ERR_MODULE_NOT_FOUND"
      })
      const settings = {
        connection: {},
        listen: {},
        schema: "x",
        maxConnections: 3,
        connectLimitMillis: 1,
        migrate: true
      }
      const { reason } = yield* Effect.flip(Effect.scoped(make(settings, () => Promise.reject(missing))))
      assert.strictEqual(reason._tag, "ClientMissing")
      assert.include(reason.message, "npm install pg")
    }))
  it.live("makes a store once, whoever comes first, with a name that needs quotes", () =>
    Effect.gen(function*() {
      const schema = "My \"own\" store; it's"
      const store = Layer.fresh(PostgresBackend.layer({ url, schema }))
      yield* Effect.forEach(Array.from({ length: 5 }), () => Effect.scoped(Layer.build(store)), {
        concurrency: "unbounded"
      })
      const set = Tenant.transact(Transaction.set(["a"], Uint8Array.of(1)))
      yield* Effect.provide(set, Layer.provide(Tenant.layer(["t"]), store))
    }))
  it.live("uses a store that somebody else made, as a role that may only use it, under any defaults", () =>
    Effect.gen(function*() {
      const schema = freshSchema()
      yield* run(PostgresBackend.sql(schema))
      yield* run(
        `CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA ${schema} TO app; ` +
          `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO app; ` +
          `GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO app; ` +
          "ALTER ROLE app SET default_transaction_isolation = 'serializable'; ALTER ROLE app SET bytea_output = 'escape'; " +
          "ALTER ROLE app SET synchronous_commit = off; ALTER ROLE app SET standard_conforming_strings = on"
      )
      const store = PostgresBackend.layer({ url: url.replace("postgres@", "app@"), schema, migrate: false })
      const written = Uint8Array.from({ length: 256 }, (_, i) => i)
      const read = Effect.andThen(
        Tenant.transact(Transaction.set(["a"], written)),
        Tenant.transact(Transaction.get(["a"]))
      )
      const found = yield* Effect.provide(read, Layer.provide(Tenant.layer(["t"]), store))
      assert.deepStrictEqual(found, written)
    }))
  it.live("leaves nothing of its own behind", () =>
    Effect.gen(function*() {
      const schema = freshSchema()
      const marks = Effect.map(
        run(`SELECT count(*)::int AS count FROM ${schema}.data WHERE position('slot'::bytea IN key) > 0`),
        ([{ count }]) => count as number
      )
      yield* Effect.gen(function*() {
        yield* Tenant.transact(Transaction.set(["a"], Uint8Array.of(1)))
        assert.isAbove(yield* marks, 0)
      }).pipe(Effect.provide(Layer.provide(Tenant.layer(["t"]), PostgresBackend.layer({ url, schema }))))
      assert.strictEqual(yield* marks, 0)
    }))
  it.live("works in a database of any encoding", () =>
    Effect.gen(function*() {
      for (const encoding of ["LATIN1", "SQL_ASCII"]) {
        const name = `in_${encoding.toLowerCase()}`
        yield* run(`CREATE DATABASE ${name} ENCODING '${encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
        const store = Layer.provide(
          Tenant.layer(["tänant"]),
          PostgresBackend.layer({ url: url.replace(/postgres$/, name) })
        )
        const value = new TextEncoder().encode("価値")
        const written = Effect.andThen(
          Tenant.transact(Transaction.set(["κλειδί"], value)),
          Tenant.transact(Transaction.get(["κλειδί"]))
        )
        assert.deepStrictEqual(yield* Effect.provide(written, store), value)
      }
    }))
  for (
    const [tag, code, says] of [
      ["DiskFull", "53100", "make room"],
      ["ReadOnly", "25006", "primary"],
      ["InvalidArgument", "42501", "rights on its tables"]
    ] as const
  ) {
    it.live(`tells what to do when a commit meets the server's error ${code}`, () =>
      Effect.gen(function*() {
        const schema = freshSchema()
        const write = Tenant.transact(Transaction.set(["a"], Uint8Array.of(1)))
        yield* Effect.gen(function*() {
          yield* write
          yield* run(
            `CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' ` +
              `USING ERRCODE = '${code}'; END $$; ` +
              `CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON ${schema}.data EXECUTE FUNCTION ${schema}.fail()`
          )
          const error = yield* Effect.flip(write)
          assert.strictEqual(error.reason._tag, tag)
          assert.include(error.message, says)
          yield* run(`DROP TRIGGER fail ON ${schema}.data`)
          yield* write
        }).pipe(Effect.provide(Layer.provide(Tenant.layer(["t"]), PostgresBackend.layer({ url, schema }))))
      }))
  }
})

/** A tenant goes into PostgreSQL and out of it again, by the command line. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { PostgresBackend, SqliteBackend, Tenant, Transaction } from "effect-dgen"
import * as path from "node:path"
import { run } from "../../src/internal/cli/command.ts"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { server } from "./support.ts"

const silent = { write: () => {} }

describe("effect-dgen on PostgreSQL", () => {
  it.live("copies a tenant in and out, and its server goes on with what waits", () =>
    Effect.gen(function*() {
      const folder = temporaryFolder()
      const [first, last] = [path.join(folder, "first.db"), path.join(folder, "last.db")]
      const tenant = Tenant.layer(["app"])
      const items = Array.from({ length: 40 }, (_, i) => `item ${i}`)
      yield* Effect.forEach(items, (item) => Tenant.transact(Ledger.castTx("Record", { item })), { discard: true })
        .pipe(
          Effect.andThen(Tenant.transact(Transaction.set(["long", "k".repeat(3_000)], new Uint8Array(50_000)))),
          Effect.provide(Layer.provide(tenant, SqliteBackend.layer({ filename: first })))
        )
      const url = server.url.replace("postgres@", "postgres:secret@")
      const there = yield* run(
        ["copy", "--from", `sqlite:${first}`, "--to", `${url}?schema=copied`, "--tenant", "app", "--quiet"],
        silent
      )
      const back = yield* run(
        ["copy", "--from", `${url}?schema=copied`, "--to", `sqlite:${last}`, "--tenant", "app", "--quiet"],
        silent
      )
      assert.strictEqual(back, there)
      const kept = yield* Effect.gen(function*() {
        const running = yield* Ledger.start(ledger(), { tuid: ["Ledger"] }).pipe(Effect.provide(ledgerActions()))
        yield* running.cast("Record", { item: "new" })
        return yield* running.call("Items")
      }).pipe(
        Effect.scoped,
        Effect.provide(Layer.provide(tenant, PostgresBackend.layer({ url, schema: "copied" })))
      )
      assert.deepStrictEqual(kept, [...items, "new"])
    }), 60_000)

  it.effect("prints the statements that make a store", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* run(["sql", "--schema", "mine"], silent), PostgresBackend.sql("mine"))
      assert.include(PostgresBackend.sql("mine"), "CREATE SCHEMA IF NOT EXISTS \"mine\"")
    }))

  it.effect("never shows a password", () =>
    Effect.gen(function*() {
      const url = "postgres://me:secret@127.0.0.1:1/app"
      const error = yield* Effect.flip(
        run(["copy", "--from", url, "--to", url, "--tenant", ""], silent)
      )
      assert.notInclude(error.message, "secret")
    }))
})

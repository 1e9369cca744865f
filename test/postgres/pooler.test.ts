/** PgBouncer in transaction mode between the program and the server, where it is installed. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { PostgresBackend, Tenant, Transaction } from "effect-dgen"
import { spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { Client } from "pg"
import { temporaryFolder } from "../support/temporary.ts"
import { freshSchema, server } from "./support.ts"
import { survives } from "./survives.ts"
import { asUser, freePort } from "./throwawayServer.ts"

const isThere = spawnSync("pgbouncer", ["--version"]).status === 0
const why = isThere ? "" : " (pgbouncer is not installed)"

/** Fewer than a layer opens. */
const SESSIONS = 4

const startPooler = async () => {
  const folder = temporaryFolder()
  fs.chmodSync(folder, 0o755)
  const port = await freePort()
  const file = path.join(folder, "pgbouncer.ini")
  fs.writeFileSync(
    file,
    [
      "[databases]",
      `postgres = host=127.0.0.1 port=${server.port} user=postgres`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      `default_pool_size = ${SESSIONS}`,
      ""
    ].join("\n")
  )
  const url = server.url.replace(String(server.port), String(port))
  const start = async () => {
    const child = spawn("pgbouncer", [file], { stdio: "ignore", ...asUser })
    for (;;) {
      const client = new Client({ connectionString: url })
      client.on("error", () => {})
      const answers = await client.connect().then(() => client.query("SELECT 1")).then(() => true, () => false)
      await client.end().catch(() => {})
      if (answers) return child
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  let child = await start()
  const kill = () =>
    new Promise<void>((resolve) => {
      child.once("exit", () => resolve())
      child.kill("SIGKILL")
    })
  return {
    url,
    kill,
    restart: async () => {
      await kill()
      child = await start()
    }
  }
}

const pooler = Effect.acquireRelease(Effect.promise(startPooler), ({ kill }) => Effect.promise(kill))

describe(`PostgresBackend through a pooler in transaction mode${why}`, () => {
  const live = isThere ? it.live : it.live.skip
  live(
    "loses and doubles nothing, also when the pooler is killed and started again",
    () =>
      Effect.scoped(Effect.flatMap(pooler, ({ restart, url }) =>
        survives(
          { url, schema: freshSchema() },
          400,
          Effect.repeat(Effect.andThen(Effect.sleep("200 millis"), Effect.promise(restart)), { times: 1 })
        ))),
    120_000
  )

  /** A watch in one layer, a write in another: how long it took. */
  const wake = (options: PostgresBackend.Options) =>
    Effect.gen(function*() {
      const layer = Layer.provide(Tenant.layer(["wake"]), Layer.fresh(PostgresBackend.layer(options)))
      const [here, there] = [yield* Layer.build(layer), yield* Layer.build(Layer.fresh(layer))]
      const woken = yield* Deferred.make<void>()
      const waiting = yield* Effect.forkChild(
        Effect.andThen(
          Effect.flatMap(Tenant.transact(Transaction.watch(["bell"])), ({ changed }) => changed),
          Deferred.succeed(woken, undefined)
        ).pipe(Effect.provide(here)),
        { startImmediately: true }
      )
      // armed, and heard if it can be
      yield* Effect.sleep("1 second")
      assert.isFalse(yield* Deferred.isDone(woken))
      const before = performance.now()
      yield* Effect.provide(Tenant.transact(Transaction.set(["bell"], Uint8Array.of(1))), there)
      yield* Fiber.join(waiting)
      return performance.now() - before
    }).pipe(Effect.scoped)

  live(
    "hears of other processes by looking four times a second, or by notifications around the pooler",
    () =>
      Effect.gen(function*() {
        const { url } = yield* pooler
        // far below the timer of who takes himself to be hearing
        assert.isBelow(yield* wake({ url, schema: freshSchema() }), 5_000)
        assert.isBelow(yield* wake({ url, schema: freshSchema(), listen: { url: server.url } }), 5_000)
      }).pipe(Effect.scoped),
    60_000
  )
})

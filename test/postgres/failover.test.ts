/** A standby that is promoted under load: with synchronous replication nothing is lost, doubled, or hangs. */
import { describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { startProxy } from "./proxy.ts"
import { server } from "./support.ts"
import { survives } from "./survives.ts"
import { startStandby } from "./throwawayServer.ts"

describe("PostgresBackend", () => {
  it.live("survives a primary that dies and a standby that takes its place", () =>
    Effect.gen(function*() {
      const standby = yield* Effect.acquireRelease(
        Effect.promise(() => startStandby(server)),
        ({ stop }) => Effect.sync(stop)
      )
      const proxy = yield* Effect.acquireRelease(
        Effect.promise(() => startProxy(server.port)),
        ({ stop }) => Effect.sync(stop)
      )
      const url = server.url.replace(String(server.port), String(proxy.port))
      yield* survives(
        { url },
        400,
        Effect.gen(function*() {
          yield* Effect.sleep("400 millis")
          yield* Effect.promise(server.kill)
          yield* Effect.promise(() => standby.run("SELECT pg_promote()"))
          proxy.lead(standby.port)
        })
      )
    }).pipe(Effect.scoped), 120_000)
})

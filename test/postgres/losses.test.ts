/** Connections that are terminated, and a server that is killed, under load: nothing is lost, doubled, or hangs. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Schedule } from "effect"
import { PostgresBackend, Tenant } from "effect-dgen"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"
import { freshSchema, server } from "./support.ts"

const TIMEOUT = { timeout: "60 seconds" } as const

/** Calls and casts through two layers while something breaks connections: all items are there once at the end. */
const survives = (count: number, attack: Effect.Effect<void>) => {
  const schema = freshSchema()
  const tenant = Tenant.layer(["losses"]).pipe(
    Layer.provide(Layer.fresh(PostgresBackend.layer({ url: server.url, schema })))
  )
  const options = { tuid: ["Ledger"], restart: Schedule.spaced("20 millis") } as const
  return Effect.gen(function*() {
    const items = Array.from({ length: count }, (_, i) => `item ${i}`)
    const one = yield* Ledger.start(ledger(), options).pipe(Effect.provide(ledgerActions()))
    const elsewhere = yield* Layer.build(Layer.fresh(tenant))
    yield* Ledger.start(ledger(), options).pipe(Effect.provide(ledgerActions()), Effect.provide(elsewhere))
    const attacking = yield* Effect.forkChild(attack)
    yield* Effect.forEach(
      items,
      (item, i) => i % 3 === 0 ? one.cast("Record", { item }) : one.call("Append", { item }, TIMEOUT),
      {
        concurrency: 6,
        discard: true
      }
    )
    yield* Fiber.join(attacking)
    const kept = yield* one.call("Items", undefined, TIMEOUT)
    assert.deepStrictEqual([...kept].sort(), [...items].sort())
  }).pipe(Effect.scoped, Effect.provide(tenant), Effect.provide(Logger.layer([])))
}

describe("PostgresBackend", () => {
  it.live("survives sessions that are terminated again and again", () =>
    survives(
      400,
      Effect.repeat(
        Effect.promise(() =>
          server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'effect-dgen'")
        ),
        { schedule: Schedule.spaced("60 millis"), times: 15 }
      )
    ), 120_000)

  it.live("survives a server that is killed and started again", () =>
    survives(
      400,
      Effect.gen(function*() {
        for (let round = 0; round < 2; round++) {
          yield* Effect.sleep("150 millis")
          yield* Effect.promise(server.kill)
          yield* Effect.promise(server.start)
        }
      })
    ), 120_000)
})

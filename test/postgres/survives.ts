/** Load through two layers while something breaks: all items are there once at the end. */
import { assert } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Schedule } from "effect"
import { PostgresBackend, Tenant } from "effect-dgen"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"

const TIMEOUT = { timeout: "60 seconds" } as const

/** Calls and casts through two layers with these options, during the attack. */
export const survives = (options: PostgresBackend.Options, count: number, attack: Effect.Effect<unknown>) => {
  const tenant = Layer.provide(Tenant.layer(["losses"]), Layer.fresh(PostgresBackend.layer(options)))
  const starting = { tuid: ["Ledger"], restart: Schedule.spaced("20 millis") } as const
  return Effect.gen(function*() {
    const items = Array.from({ length: count }, (_, i) => `item ${i}`)
    const one = yield* Ledger.start(ledger(), starting).pipe(Effect.provide(ledgerActions()))
    const elsewhere = yield* Layer.build(Layer.fresh(tenant))
    yield* Ledger.start(ledger(), starting).pipe(Effect.provide(ledgerActions()), Effect.provide(elsewhere))
    const attacking = yield* Effect.forkChild(attack)
    yield* Effect.forEach(
      items,
      (item, i) => i % 3 === 0 ? one.cast("Record", { item }) : one.call("Append", { item }, TIMEOUT),
      { concurrency: 6, discard: true }
    )
    yield* Fiber.join(attacking)
    const kept = yield* one.call("Items", undefined, TIMEOUT)
    assert.deepStrictEqual([...kept].sort(), [...items].sort())
  }).pipe(Effect.scoped, Effect.provide(tenant), Effect.provide(Logger.layer([])))
}

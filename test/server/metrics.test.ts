/** What is counted when things go wrong below a server: transactions that run again, consumers that end, watches that are lost. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Metric, Schedule, Schema } from "effect"
import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { grains, startMill } from "../suites/server/mill.ts"
import { conflict, inside, keysOf, type Needs, tapped, touches, until } from "../suites/server/support.ts"

const counted = (title: string, test: Effect.Effect<void, unknown, Needs>) =>
  it.effect(title, () =>
    test.pipe(
      Effect.provide(Tenant.layer(["metrics"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
      Effect.provide(Logger.layer([]))
    ))

/** The count of a metric so far; metrics are the process's. */
const count = (id: string, server?: string) =>
  Effect.map(Metric.snapshot, (metrics): number => {
    const found = metrics.find((one) => one.id === id && (one.attributes as any)?.server === server)
    return (found?.state as any)?.count ?? 0
  })

describe("metrics count", () => {
  for (const consumeK of [1, 5]) {
    counted(
      `transactions that run again, and those that do for a conflict (consumeK ${consumeK})`,
      Effect.gen(function*() {
        const { head } = yield* keysOf(["Mill"])
        let refuse = 0
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            refuse > 0 && mutations.some(touches(head))
              ? Effect.andThen(Effect.sync(() => void refuse--), Effect.fail(conflict))
              : Effect.void
        })
        const server = yield* inside(tenant)(startMill({ consumeK }))
        const before = [
          yield* count("effect_dgen_retries", "Mill"),
          yield* count("effect_dgen_conflicts", "Mill")
        ] as const
        refuse = 2
        // an inline call that conflicts goes to the queue, where its batch conflicts again
        yield* server.call("Ask", { item: "a", does: "" })
        assert.strictEqual((yield* count("effect_dgen_retries", "Mill")) - before[0], 2)
        assert.strictEqual((yield* count("effect_dgen_conflicts", "Mill")) - before[1], 2)
      })
    )
  }
  counted(
    "consumers whose restart schedule ended",
    Effect.gen(function*() {
      const before = yield* count("effect_dgen_consumers_ended", "Mill")
      const server = yield* startMill({ restart: Schedule.recurs(0) })
      yield* server.castAll(grains(["a", "crash"]))
      yield* until(
        Effect.exit(server.priorityCast("Grind", { item: "b", does: "" })),
        (exit) => exit._tag === "Failure"
      )
      assert.strictEqual((yield* count("effect_dgen_consumers_ended", "Mill")) - before, 1)
    })
  )
  counted(
    "waits that only the timer ended",
    Effect.gen(function*() {
      yield* startMill()
      const before = yield* count("effect_dgen_watch_fallbacks")
      const settle = Effect.repeat(Effect.yieldNow, { times: 200 })
      yield* settle
      // no watch of this store is lost: looking again has time
      yield* TestClock.adjust("14 minutes")
      yield* settle
      assert.strictEqual(yield* count("effect_dgen_watch_fallbacks"), before)
      yield* TestClock.adjust("16 minutes")
      yield* settle
      assert.strictEqual((yield* count("effect_dgen_watch_fallbacks")) - before, 1)
    })
  )
})

class Till extends DgenServer.Service<Till>()("Till", {
  hosted: true,
  state: Schema.Int,
  messages: { Add: DgenServer.cast() }
}) {}

describe("gauges", () => {
  counted(
    "of hosted servers that rest show nothing that waits",
    Effect.gen(function*() {
      // late enough for a measurement
      yield* TestClock.adjust("1 minute")
      const till = yield* Till.client({ tuid: ["till", 1] })
      yield* till.castAll([["Add"], ["Add"], ["Add"]])
      const behaviour = Till.behaviour({
        init: Effect.succeed(0),
        handlers: { Add: (_, sum) => DgenServer.noReply(sum + 1) }
      })
      const gauge = Effect.map(
        Metric.snapshot,
        (metrics) =>
          metrics.filter(({ attributes, id }) =>
            id === "effect_dgen_queue_length" && (attributes as any)?.server === "Till"
          ).map(({ state }) => (state as any).value)
      )
      yield* Effect.gen(function*() {
        yield* until(till.state, (sum) => sum === 3)
        yield* Effect.repeat(Effect.yieldNow, { times: 200 })
        assert.deepStrictEqual(yield* gauge, [0])
      }).pipe(Effect.provide(Till.hostLayer(behaviour)))
    })
  )
})

/**
 * How often a transaction waits for a store at the end of a connection: reads that do not depend on each other travel
 * together, so that the count does not grow with what one transaction handles.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Schema } from "effect"
import { Backend, DgenServer, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"

/** The waits of each transaction that wrote something, in the order of their commits. */
interface Told {
  readonly waits: Array<number>
}

/** The memory's store as if it were far away: a read is answered a turn of the scheduler later. */
const far = (backend: Backend.Backend["Service"], told: Told): Backend.Backend["Service"] => ({
  ...backend,
  commitCanBeUnknown: true,
  begin: Effect.map(backend.begin, (driver): Backend.DriverTransaction => {
    let waits = 0
    let asked = 0
    const read = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() => {
        if (asked++ === 0) waits++
        return Effect.ensuring(Effect.andThen(Effect.yieldNow, effect), Effect.sync(() => asked--))
      })
    return {
      readVersion: driver.readVersion,
      get: (key) => read(driver.get(key)),
      getRange: (begin, end, options) => read(driver.getRange(begin, end, options)),
      commit: (request, accepted) => {
        if (request.mutations.length > 0) told.waits.push(waits)
        return driver.commit(request, accepted)
      },
      close: () => driver.close()
    }
  })
})

const farTenant = (told: Told) =>
  Tenant.layer(["round trips"]).pipe(
    Layer.provide(Layer.effect(
      Backend.Backend,
      Effect.map(Layer.build(MemoryBackend.layer), (context) => far(Context.get(context, Backend.Backend), told))
    ))
  )

/** Runs a program, and gives the waits of the transactions in its part that is `watched`. */
const waitsOf = <A, E, R>(
  program: (
    watched: <B, E2, R2>(part: Effect.Effect<B, E2, R2>) => Effect.Effect<ReadonlyArray<number>, E2, R2>
  ) => Effect.Effect<A, E, R>
) => {
  const told: Told = { waits: [] }
  return Effect.provide(
    program((part) =>
      Effect.map(Effect.andThen(Effect.sync(() => (told.waits.length = 0)), part), () => [...told.waits])
    ),
    farTenant(told)
  )
}

class Counter extends DgenServer.Service<Counter>()("RoundTripCounter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: { Add: DgenServer.call({ payload: Schema.Int, success: Schema.Int }) }
}) {}

const counting = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: { Add: (by, { count }) => DgenServer.reply(count + by, { count: count + by }) }
})

describe("round trips", () => {
  it.effect("a batch of fifty calls waits for the store as often as a batch of two", () =>
    waitsOf((watched) =>
      Effect.gen(function*() {
        const options = { tuid: ["Counter"], consumeK: 50 }
        const batchOf = (calls: number) =>
          Effect.gen(function*() {
            const caller = yield* Counter.start(counting, { ...options, consume: false })
            const fibers = yield* Effect.forEach(
              Array.from({ length: calls }, () => 1),
              (by) => Effect.forkChild(caller.call("Add", by))
            )
            yield* Effect.repeat(caller.queueLength, { until: (length) => length === calls })
            const waits = yield* watched(Effect.scoped(Effect.gen(function*() {
              yield* Counter.start(counting, options)
              for (const fiber of fibers) assert.isTrue(Exit.isSuccess(yield* Fiber.await(fiber)))
            })))
            return Math.max(...waits)
          })
        const few = yield* batchOf(2)
        assert.strictEqual(yield* batchOf(50), few)
      })
    ).pipe(Effect.scoped))

  const timeout = 30_000
  const Work = Jobs.make("work", { data: Schema.Int, timeout })

  const addAll = (count: number) =>
    Tenant.transact(Effect.forEach(Array.from({ length: count }, (_, id) => id), (id) => Work.add(id, id)))

  const untilAll = (count: number, state: "running" | "pending" | "finished") =>
    Effect.repeat(Tenant.transact(Work.counts), { until: (counts) => counts[state] === count })

  it.effect("fifty jobs are taken, renewed and settled with as many waits as two", () =>
    Effect.gen(function*() {
      const lifeOf = (count: number) =>
        waitsOf((watched) =>
          Effect.gen(function*() {
            const gate = yield* Latch.make(false)
            const worker = Layer.build(Work.workerLayer(() => gate.await, { concurrency: count }))
            yield* addAll(count)
            const taking = yield* watched(Effect.andThen(worker, untilAll(count, "running")))
            const renewing = yield* watched(TestClock.adjust(timeout / 2))
            const settling = yield* watched(Effect.andThen(gate.open, untilAll(count, "finished")))
            return [taking, renewing, settling].map((waits) => Math.max(...waits))
          })
        ).pipe(Effect.scoped)
      const few = yield* lifeOf(2)
      assert.isTrue(few.every((waits) => waits > 0), String(few))
      assert.deepStrictEqual(yield* lifeOf(50), few)
    }))

  it.effect("fifty jobs of dead workers become pending with as many waits as two", () =>
    Effect.gen(function*() {
      const expiring = (count: number) =>
        waitsOf((watched) =>
          Effect.gen(function*() {
            yield* addAll(count)
            yield* Effect.repeat(Work.accept(), { times: count - 1 })
            // the time goes on until the monitor has seen who is silent, however late it looked first
            const waits = yield* watched(Effect.repeat(
              Effect.andThen(TestClock.adjust(timeout / 2), Tenant.transact(Work.counts)),
              { until: (counts) => counts.pending === count }
            ))
            return Math.max(...waits)
          })
        )
      const few = yield* expiring(2)
      assert.isAbove(few, 0)
      assert.strictEqual(yield* expiring(50), few)
    }))
})

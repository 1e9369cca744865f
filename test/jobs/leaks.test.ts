/** What workers that were built and closed leave behind in a process: nothing that grows with their number. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Logger, Schedule, Schema } from "effect"
import { Backend, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import { countedBackend, countingFibers, type Open } from "../leaks/measure.ts"

const { transact } = Tenant
const Data = Schema.Struct({ n: Schema.Number })
const BUILDS = 200

const Work = Jobs.make("work", { data: Data })

/** A worker's layer is built, handles a job of the type, follows it, and is closed. */
const life = Effect.fnUntraced(function*(layerOf: (run: () => Effect.Effect<void>) => Layer.Layer<never, any, any>) {
  const done = yield* Deferred.make<void>()
  yield* Effect.gen(function*() {
    yield* transact(Work.add("one", { n: 1 }, { ifExists: "resubmit" }))
    yield* Deferred.await(done)
    const subscription = yield* Work.subscribe("one")
    yield* Jobs.wait(subscription, { state: "finished" })
  }).pipe(Effect.scoped, Effect.provide(layerOf(() => Effect.asVoid(Deferred.succeed(done, undefined)))))
})

const layers: { readonly [name: string]: (run: () => Effect.Effect<void>) => Layer.Layer<never, any, any> } = {
  "of one definition": (run) => Work.workerLayer(run),
  "with a retry and attempts of their own": (run) =>
    Work.workerLayer(run, { retry: Schedule.spaced("1 second"), maxAttempts: 5 }),
  "of a definition each": (run) => Jobs.make("work", { data: Data, retention: "1 day" }).workerLayer(run)
}

describe("workers that were built and closed", () => {
  for (const [name, layerOf] of Object.entries(layers)) {
    it.live(`${BUILDS} ${name} leave as many fibers, watches and listeners behind as one`, () => {
      const open: Open = { fibers: 0, watches: 0, listeners: 0 }
      const backend = Layer.effect(
        Backend.Backend,
        Effect.map(
          Layer.build(MemoryBackend.layer),
          (context) => countedBackend(open, Context.get(context, Backend.Backend))
        )
      )
      return Effect.gen(function*() {
        yield* life(layerOf)
        // fibers that were interrupted have ended when all others had their turn
        yield* Effect.repeat(Effect.yieldNow, { times: 100 })
        const before = { ...open }
        yield* Effect.replicateEffect(life(layerOf), BUILDS, { discard: true })
        yield* Effect.repeat(Effect.yieldNow, { times: 100 })
        assert.isAtMost(open.fibers - before.fibers, 3)
        assert.isAtMost(open.watches - before.watches, 3)
        assert.isAtMost(open.listeners - before.listeners, 3)
      }).pipe(
        Effect.provide(Tenant.layer(["leaks"]).pipe(Layer.provideMerge(backend))),
        Effect.provide(Logger.layer([])),
        countingFibers(open),
        Effect.andThen(Effect.sync(() => assert.deepStrictEqual(open, { fibers: 0, watches: 0, listeners: 0 })))
      ) as Effect.Effect<void, any>
    }, 60_000)
  }
})

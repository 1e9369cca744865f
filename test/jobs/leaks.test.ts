/** What workers that were built and closed leave behind in a process: nothing that grows with their number. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Logger, Option, Schedule, Schema } from "effect"
import { Backend, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import { countedBackend, countingFibers, heldBytes, type Open } from "../leaks/measure.ts"

const { transact } = Tenant
const Data = Schema.Struct({ n: Schema.Number })
const BUILDS = 200

/** Enough that what is remembered of a bounded number of types is full. */
const TYPES_WARM = 300
const TYPES = 500

/** What is held grows for other reasons too, code that was compiled among them; what each type leaves shows every time. */
const ROUNDS = 3

/** What stays in the store of memory: the counters of the type. A fiber alone would be several times as much. */
const TYPE_LIMIT_BYTES = 4_000

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

describe("types that are used once", () => {
  const uses: {
    readonly [name: string]: (type: Jobs.JobType<{ readonly n: number }>) => Effect.Effect<unknown, any, any>
  } = {
    "by accept": (type) => Effect.flatMap(type.accept(), (job) => transact(type.finish(Option.getOrThrow(job)))),
    "by a worker and a subscription": (type) =>
      Effect.scoped(Effect.gen(function*() {
        const subscription = yield* type.subscribe("one")
        yield* Layer.build(type.workerLayer(() => Effect.void))
        yield* Jobs.wait(subscription, { state: "finished" })
      })),
    "by a subscription that ends before its scope": (type) => Effect.flatMap(type.subscribe("one"), Jobs.unsubscribe)
  }
  for (const [name, use] of Object.entries(uses)) {
    it.live(`leave no fiber, watch or listener, and no memory but a little, ${name}`, () => {
      const open: Open = { fibers: 0, watches: 0, listeners: 0 }
      const backend = Layer.effect(
        Backend.Backend,
        Effect.map(
          Layer.build(MemoryBackend.layer),
          (context) => countedBackend(open, Context.get(context, Backend.Backend))
        )
      )
      const once = (n: number) =>
        Effect.gen(function*() {
          const type = Jobs.make(`type ${n}`, { data: Data })
          yield* transact(type.add("one", { n }))
          yield* use(type)
          yield* transact(type.remove("one"))
        })
      const many = (from: number, to: number) =>
        Effect.forEach(Array.from({ length: to - from }, (_, i) => from + i), once, { discard: true })
      // monitors look again after a while
      const rested = (limit: number) =>
        Effect.repeat(Effect.delay(Effect.sync(() => open.fibers), 20), { until: (fibers) => fibers <= limit })
      return Effect.gen(function*() {
        yield* many(0, TYPES_WARM)
        yield* rested(9)
        const before = { ...open }
        const bytes: Array<number> = []
        for (let round = 0; round < ROUNDS && (bytes.at(-1) ?? Infinity) >= TYPE_LIMIT_BYTES; round++) {
          const bytesBefore = yield* heldBytes
          const from = TYPES_WARM + round * TYPES
          yield* many(from, from + TYPES)
          yield* rested(before.fibers + 1)
          assert.isAtMost(open.watches - before.watches, 1)
          assert.isAtMost(open.listeners - before.listeners, 1)
          bytes.push(((yield* heldBytes) - bytesBefore) / TYPES)
        }
        assert.isBelow(Math.min(...bytes), TYPE_LIMIT_BYTES, `bytes of a type, in rounds: ${bytes}`)
      }).pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["leaks"]).pipe(Layer.provideMerge(backend))),
        Effect.provide(Logger.layer([])),
        countingFibers(open)
      ) as Effect.Effect<void, any>
    }, 60_000)
  }
})

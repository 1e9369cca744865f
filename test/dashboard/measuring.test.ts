/** What the overview is measured from, on virtual time: rounds while somebody looks, and nothing while nobody does. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger } from "effect"
import { BackendError, MemoryBackend, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { setImmediate } from "node:timers/promises"
import * as Measuring from "../../src/internal/dashboard/measuring.ts"
import { Cart, cast, Letters } from "./support.ts"

/** The measuring of a tenant whose transactions are counted, and fail while `failure` is set. */
const counted = Effect.gen(function*() {
  const tenant = yield* Tenant.Tenant
  const store = { begun: 0, failure: undefined as BackendError.BackendError | undefined }
  const begin = Effect.suspend(() => {
    store.begun++
    return store.failure === undefined ? tenant.backend.begin : Effect.fail(store.failure)
  })
  const measuring = yield* Effect.provideService(Measuring.make, Tenant.Tenant, {
    ...tenant,
    backend: { ...tenant.backend, begin }
  })
  return { measuring, store }
})

/** Time passes, a second at a time, with all that has to be done in it. */
const pass = (seconds: number) =>
  Effect.forEach(
    Array.from({ length: seconds }),
    () =>
      Effect.andThen(
        TestClock.adjust("1 second"),
        Effect.forEach([1, 2, 3], () => Effect.promise(() => setImmediate()), { discard: true })
      ),
    { discard: true }
  )

const test = (title: string, body: Effect.Effect<void, unknown, any>) =>
  it.effect(title, () =>
    body.pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["shop"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
      Effect.provide(Logger.layer([]))
    ) as Effect.Effect<void, unknown>)

describe("the measuring of a dashboard", () => {
  test(
    "reads nothing before somebody looks, and some time after the last look nothing any more",
    Effect.gen(function*() {
      const { measuring, store } = yield* counted
      yield* pass(120)
      assert.strictEqual(store.begun, 0)
      yield* measuring.overview
      yield* pass(40)
      const watched = store.begun
      assert.isAbove(watched, 30)
      yield* pass(60)
      const left = store.begun
      yield* pass(600)
      assert.strictEqual(store.begun, left)
      // and begins again, with a fresh round
      const { now } = yield* measuring.overview
      assert.isAbove(store.begun, left)
      const { history } = yield* measuring.overview
      assert.strictEqual(history.at.at(-1), now)
    })
  )

  test(
    "is the same work however many look",
    Effect.gen(function*() {
      const { measuring, store } = yield* counted
      yield* measuring.overview
      const first = store.begun
      yield* Effect.forEach(Array.from({ length: 100 }), () => measuring.overview, { concurrency: "unbounded" })
      assert.strictEqual(store.begun, first)
    })
  )

  test(
    "says what waits, how old it is, and how fast it is taken",
    Effect.gen(function*() {
      const { measuring } = yield* counted
      yield* TestClock.setTime(1_000_000)
      yield* cast("Add", "one", ["cart", 1])
      yield* cast("Add", "two", ["cart", 1])
      yield* pass(10)
      yield* cast("Add", "three", ["cart", 1])
      yield* cast("Add", "four", ["cart", 2])
      const one = yield* measuring.overview
      assert.isTrue(one.isWhole)
      assert.deepInclude(one.definitions[0], { name: "Cart", looked: 2, waiting: 4, oldestAt: 1_000_000, dead: 0 })
      assert.strictEqual(one.history.oldestMillis.at(-1), 10_000)
      yield* Tenant.transact(Effect.gen(function*() {
        const { consume } = yield* Effect.promise(() => import("../../src/DurableQueue.ts"))
        yield* consume(Cart.queue({ tuid: ["cart", 1] }), 2)
        yield* Letters.add("x", { text: "t" })
      }))
      yield* Letters.accept()
      const before = one.history.at.length
      const two = yield* Effect.repeat(Effect.andThen(pass(1), measuring.overview), {
        until: ({ history }) => history.at.length > before,
        times: 10
      })
      // two taken off the queue of a started one in two seconds
      assert.strictEqual(two.history.perSecond.at(-1), 1)
      assert.strictEqual(two.history.waiting.at(-1), 2)
      assert.strictEqual(two.history.jobsPerSecond.at(-1), 0.5)
      assert.deepStrictEqual(two.jobs.map(({ counts, type }) => [type, counts.running]), [["\"letters\"", 1]])
    })
  )

  test(
    "looks at many servers page by page, and says of how many its figures are",
    Effect.gen(function*() {
      const many = 2_500
      yield* TestClock.setTime(1_000_000)
      yield* Tenant.transact(
        Effect.forEach(
          Array.from({ length: many }, (_, n) => n),
          (n) => Cart.castTx("Add", { note: "n" }, { tuid: ["cart", n] }),
          { discard: true }
        )
      )
      const { measuring } = yield* counted
      const first = yield* measuring.overview
      assert.isFalse(first.isWhole)
      assert.isBelow(first.looked, many)
      const whole = yield* Effect.repeat(Effect.andThen(pass(1), measuring.overview), {
        until: ({ isWhole }) => isWhole,
        times: 100
      })
      assert.strictEqual(whole.looked, many)
      assert.strictEqual(whole.definitions[0]!.waiting, many)
      // bounded, whatever there is
      const { troubled, troubledCount } = yield* Effect.repeat(Effect.andThen(pass(1), measuring.overview), {
        until: ({ troubledCount }) => troubledCount === many,
        times: 200
      })
      assert.strictEqual(troubledCount, many)
      assert.strictEqual(troubled.length, 20)
    })
  )

  test(
    "tells of a round that failed, and goes on",
    Effect.gen(function*() {
      const { measuring, store } = yield* counted
      yield* measuring.overview
      store.failure = new BackendError.BackendError({ reason: new BackendError.Corrupt({ message: "damaged" }) })
      yield* pass(3)
      const failure = yield* Effect.flip(measuring.overview)
      assert.strictEqual(failure._tag, "BackendError")
      store.failure = undefined
      yield* pass(3)
      assert.isAbove((yield* measuring.overview).history.at.length, 1)
    })
  )

  test(
    "keeps ten minutes of measurements",
    Effect.gen(function*() {
      const { measuring } = yield* counted
      const looking = yield* Effect.forkChild(
        Effect.forever(Effect.andThen(measuring.overview, Effect.sleep("10 seconds")))
      )
      yield* pass(900)
      const { history } = yield* measuring.overview
      assert.strictEqual(history.at.length, 300)
      assert.strictEqual(history.at.at(-1)! - history.at[0]!, 299 * 2_000)
      yield* Fiber.interrupt(looking)
    })
  )
})

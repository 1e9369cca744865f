/** What is done to many jobs at once. */
import { assert } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { Backend, Jobs, Tenant } from "effect-dgen"
import { Data, data, type Harness, opened } from "./support.ts"

const { transact } = Tenant

/** A backend that counts its transactions, and the reads of the one that has the most. */
const readsCounted = (backend: Backend.Backend["Service"], passes: { count: number; most: number }) =>
  Backend.Backend.of({
    ...backend,
    begin: Effect.map(backend.begin, (driver) => {
      let reads = 0
      passes.count++
      const counted = <A, E>(read: Effect.Effect<A, E>) =>
        Effect.tap(read, () => Effect.sync(() => void (passes.most = Math.max(passes.most, ++reads))))
      return {
        readVersion: driver.readVersion,
        get: (...args) => counted(driver.get(...args)),
        getRange: (...args) => counted(driver.getRange(...args)),
        commit: (...args) => driver.commit(...args),
        close: () => driver.close()
      }
    })
  })

export const jobsMany = ({ live }: Harness) => {
  live(
    "jobs that die again at once are each run again once",
    Effect.gen(function*() {
      const Once = Jobs.make("once", { data: Data, maxAttempts: 1 })
      const all = Array.from({ length: 450 }, (_, i) => i)
      const runs = new Map<unknown, number>()
      const untilDead = Effect.repeat(transact(Once.counts), { until: ({ dead }) => dead === all.length })
      yield* transact(Effect.forEach(all, (i) => Once.add(i, data(i))))
      yield* opened(Once.workerLayer(({ id }) =>
        Effect.suspend(() => {
          runs.set(id, 1 + (runs.get(id) ?? 0))
          return Effect.fail("always")
        }), { concurrency: 100 }))
      yield* untilDead
      assert.strictEqual(yield* Once.retryAll(), all.length)
      yield* untilDead
      assert.deepStrictEqual(Array.from(new Set(runs.values())), [2])
    }),
    30_000
  )

  live(
    "many that each wait for many are run again and removed, in transactions that end in time",
    Effect.gen(function*() {
      const Parts = Jobs.make("parts", { data: Data, maxAttempts: 1 })
      const Sums = Jobs.make("sums", { data: Data })
      const PARTS = 500
      const SUMS = 25
      const ids = (count: number) => Array.from({ length: count }, (_, i) => i)
      const after = ids(PARTS).map((id) => ({ job: Parts, id }))
      yield* transact(Effect.forEach(ids(PARTS), (id) => Parts.add(id, data(id))))
      yield* Effect.forEach(ids(SUMS), (id) => transact(Sums.add(id, data(id), { after })))
      yield* transact(Parts.remove(0))
      yield* Effect.repeat(transact(Sums.counts), { until: ({ dead }) => dead === SUMS })
      const { path } = yield* Tenant.Tenant
      const passes = { count: 0, most: 0 }
      const counting = yield* Layer.build(Layer.provide(
        Layer.fresh(Tenant.layer(path)),
        Layer.effect(Backend.Backend, Effect.map(Backend.Backend, (backend) => readsCounted(backend, passes)))
      ))
      assert.strictEqual(yield* Effect.provideContext(Sums.retryAll(), counting), SUMS)
      assert.strictEqual(yield* Effect.provideContext(Sums.removeAll(), counting), SUMS)
      assert.deepStrictEqual(yield* transact(Sums.counts), { pending: 0, running: 0, finished: 0, dead: 0 })
      // a job and its parents, each twice, and a page of jobs
      assert.isBelow(passes.most, 3 * 2_000)
      assert.isAbove(passes.count, (2 * SUMS * PARTS) / 2_500)
    }),
    60_000
  )

  live(
    "all are removed, also those that die because others of them are",
    Effect.gen(function*() {
      const Steps = Jobs.make("steps", { data: Data })
      yield* transact(Effect.gen(function*() {
        yield* Steps.add(0, data(0))
        for (const i of [1, 2, 3]) yield* Steps.add(i, data(i), { after: { job: Steps, id: i - 1 } })
      }))
      assert.strictEqual(yield* Steps.removeAll(), 4)
      assert.deepStrictEqual(yield* transact(Steps.counts), { pending: 0, running: 0, finished: 0, dead: 0 })
      assert.isTrue(Option.isNone(yield* Steps.accept({ timeout: 0 })))
    })
  )
}

/** What is done to many jobs at once. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { Data, data, type Harness, opened } from "./support.ts"

const { transact } = Tenant

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

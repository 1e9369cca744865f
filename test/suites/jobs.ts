/** What jobs must do on every backend: run for each of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Option, Schema, type Scope } from "effect"
import { type Backend, type BackendError, Jobs, Tenant } from "effect-dgen"

const quiet = Logger.layer([])
const Data = Schema.Struct({ url: Schema.String, done: Schema.Number })
const start = { url: "a.png", done: 0 }

export const suite = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>) => {
  let paths = 0
  const live = (title: string, test: Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>) =>
    it.live(title, () =>
      test.pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["jobs", String(++paths)]).pipe(Layer.provideMerge(backend))),
        Effect.provide(quiet)
      ))

  describe(name, () => {
    const Work = Jobs.make("work", { data: Data })
    live(
      "a job is added, accepted and finished",
      Effect.gen(function*() {
        assert.strictEqual(yield* Tenant.transact(Work.add("one", start)), "added")
        assert.strictEqual(yield* Tenant.transact(Work.getState("one")), "pending")
        const job = Option.getOrThrow(yield* Work.accept())
        assert.deepStrictEqual([job.id, job.data, job.attempt], ["one", start, 1])
        assert.strictEqual(yield* Tenant.transact(Work.getState("one")), "running")
        const updated = yield* Tenant.transact(Work.update(job, { ...start, done: 1 }))
        assert.deepStrictEqual(yield* Tenant.transact(Work.getData("one")), { ...start, done: 1 })
        yield* Tenant.transact(Work.finish(updated, { ...start, done: 2 }))
        assert.strictEqual(yield* Tenant.transact(Work.getState("one")), "finished")
        assert.deepStrictEqual(yield* Tenant.transact(Work.getData("one")), { ...start, done: 2 })
        const counts = yield* Tenant.transact(Work.counts)
        assert.deepStrictEqual(counts, { pending: 0, running: 0, finished: 1, dead: 0 })
      })
    )
  })
}

/** How a worker settles jobs whose handlers have ended: many at once, on a slow store, and one that cannot be settled. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Latch, Layer, Logger, Schema, type Scope } from "effect"
import { type Backend, BackendError, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import { opened, pass as step } from "../suites/jobs/support.ts"
import { committing } from "../support/driver.ts"

const { transact } = Tenant
const message = "on purpose"

/** A backend in memory; commits that write `mark` fail as long as there is a reason for it. */
const marked = (mark: string, fault: { reason: BackendError.Reason | undefined }) =>
  committing(({ mutations }, commit) =>
    fault.reason !== undefined &&
      mutations.some((mutation) => mutation.op === "set" && Buffer.from(mutation.value).includes(mark))
      ? Effect.fail(new BackendError.BackendError({ reason: fault.reason }))
      : commit
  )

/** Runs a test; succeeds with how many warnings there were. */
const run = (
  backend: typeof MemoryBackend.layer,
  test: Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>
) => {
  let warnings = 0
  const counting = Logger.make(() => void warnings++)
  return test.pipe(
    Effect.scoped,
    Effect.provide(Tenant.layer(["settling"]).pipe(Layer.provideMerge(backend))),
    Effect.provide(Logger.layer([counting])),
    Effect.map(() => warnings)
  )
}

const add = <A>(type: Jobs.JobType<A>, ids: ReadonlyArray<number>, data: A) =>
  transact(Effect.forEach(ids, (id) => type.add(id, data), { discard: true }))

/** A worker that runs all jobs together until they may end: how often each ran. */
const together = (type: Jobs.JobType<string>, count: number, result: (id: unknown) => string | undefined) => {
  const runs = Array.from({ length: count }, () => 0)
  const all = Latch.makeUnsafe(false)
  const end = Latch.makeUnsafe(false)
  let begun = 0
  const worker = type.workerLayer((job) =>
    Effect.suspend(() => {
      runs[job.id as number]!++
      if (++begun === count) all.openUnsafe()
      return Effect.as(end.await, result(job.id))
    }), { concurrency: count })
  return { all: all.await, end: end.open, runs, worker }
}

const range = (begin: number, end: number) => Array.from({ length: end - begin }, (_, i) => begin + i)

/** Lets time pass in steps, and all fibers go on after each. */
const pass = (seconds: number) => Effect.repeat(step("100 millis"), { times: 10 * seconds - 1 })

describe("settling", () => {
  it.live("many jobs that end together with more data than a transaction holds: each has run once", () => {
    const COUNT = 200
    const Work = Jobs.make("work", { data: Schema.String, timeout: "3 seconds" })
    const { all, end, runs, worker } = together(Work, COUNT, () => undefined)
    return Effect.map(
      run(
        MemoryBackend.layer,
        Effect.gen(function*() {
          for (let id = 0; id < COUNT; id += 50) yield* add(Work, range(id, id + 50), "x".repeat(55_000))
          yield* opened(worker)
          yield* all
          yield* end
          yield* Effect.repeat(Effect.andThen(Effect.sleep(10), transact(Work.counts)), {
            until: ({ finished }) => finished === COUNT
          })
        })
      ),
      (warnings) => {
        assert.deepStrictEqual(runs, range(0, COUNT).map(() => 1))
        assert.strictEqual(warnings, 0)
      }
    )
  })

  it.effect("a job that has ended keeps its lease while the store does not take its result", () => {
    const Work = Jobs.make("work", { data: Schema.String, timeout: "10 seconds" })
    const fault = { reason: undefined as BackendError.Reason | undefined }
    const { all, end, runs, worker } = together(Work, 1, () => "result")
    return run(
      marked("result", fault),
      Effect.gen(function*() {
        yield* add(Work, [0], "data")
        yield* opened(worker)
        yield* all
        fault.reason = new BackendError.Unavailable({ message })
        yield* end
        yield* pass(40)
        const { jobs: [before] } = yield* transact(Work.list())
        assert.deepStrictEqual([before!.state, before!.attempts], ["running", 1])
        fault.reason = undefined
        yield* pass(1)
        const { jobs: [after] } = yield* transact(Work.list())
        assert.deepStrictEqual([after!.state, after!.attempts, runs], ["finished", 1, [1]])
      })
    )
  })

  it.effect("one that always fails does not hold up the others, and is left to its timeout", () => {
    const COUNT = 40
    const Work = Jobs.make("work", { data: Schema.String, timeout: "30 seconds", maxAttempts: 1 })
    const fault = { reason: new BackendError.TransactionTooLarge({ message }) }
    const { all, end, runs, worker } = together(Work, COUNT, (id) => id === 17 ? "poison" : "result")
    return run(
      marked("poison", fault),
      Effect.gen(function*() {
        yield* add(Work, range(0, COUNT), "data")
        yield* opened(worker)
        yield* all
        yield* end
        yield* pass(5)
        const early = yield* transact(Work.counts)
        assert.deepStrictEqual([early.finished, early.running], [COUNT - 1, 1])
        // new ones are not held up either
        yield* add(Work, [COUNT], "data")
        runs.push(0)
        yield* pass(1)
        assert.strictEqual((yield* transact(Work.counts)).finished, COUNT)
        yield* pass(60)
        const late = yield* transact(Work.counts)
        assert.deepStrictEqual([late.finished, late.dead], [COUNT, 1])
        assert.deepStrictEqual(runs, range(0, COUNT + 1).map(() => 1))
      })
    )
  })
})

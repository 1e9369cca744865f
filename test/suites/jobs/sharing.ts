/** What a worker has in hand before a handler is free for it, and what it runs beside what. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Option } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { Data, data, elsewhere, type Harness, opened, pass, SHORT } from "./support.ts"

const { transact } = Tenant

/** Waits until so many jobs run, and no more. */
const running = <A>(type: Jobs.JobType<A>, count: number) =>
  Effect.repeat(transact(type.counts), { until: (counts) => counts.running === count })

/** Waits for counts of jobs while time goes on: a worker may wait a moment for what else its commit can tell. */
const inTime = <A>(type: Jobs.JobType<A>, state: "finished" | "running", count: number) =>
  Effect.repeat(Effect.andThen(pass(1), transact(type.counts)), { until: (counts) => counts[state] === count })

const QUICK = 400
const SLOW = 40

/** Longer than anything waits in hand for its turn. */
const PATIENCE = "10 millis"

/** Where time passed within a handler a worker takes nothing ahead for a while: then it is tried again. */
const TRIES = 20

/** Quick jobs, then slow ones, of which the first does not end before it is told to. */
const begin = Effect.fnUntraced(function*(name: string) {
  const Mixed = Jobs.make(name, { data: Data })
  const reached = yield* Deferred.make<void>()
  const go = yield* Deferred.make<void>()
  const begun: Array<unknown> = []
  const isSlow = (id: unknown) => typeof id === "number" && id >= QUICK
  const worker = Mixed.workerLayer((job) =>
    Effect.gen(function*() {
      if (job.id === QUICK) {
        yield* Deferred.succeed(reached, undefined)
        yield* Deferred.await(go)
      } else if (isSlow(job.id) || job.id === "urgent") begun.push(job.id)
    })
  )
  yield* transact(
    Effect.forEach(
      Array.from({ length: QUICK + SLOW }, (_, i) => i),
      (i) => Mixed.add(i, data(i), { scheduledAt: 1_000 + i })
    )
  )
  const close = yield* opened(worker)
  yield* Deferred.await(reached)
  const { running } = yield* inTime(Mixed, "finished", QUICK)
  return { Mixed, begun, close, worker, running, go: Deferred.succeed(go, undefined) }
})

/** A worker that is at the first slow job, has taken others ahead, and finds out that it was wrong when time passes. */
const stuck = Effect.fnUntraced(function*(name: string) {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const begun = yield* begin(`${name} ${attempt}`)
    if (begun.running > 1) return begun
    yield* begun.go
    yield* begun.close
  }
  return assert.fail("no worker took jobs ahead")
})

export const jobsSharing = ({ live, timed }: Harness) => {
  timed(
    "jobs that a busy worker had taken ahead are done by another one",
    1_000_000,
    Effect.gen(function*() {
      const { Mixed, begun, go, worker } = yield* stuck("shared")
      yield* pass(PATIENCE)
      yield* elsewhere(Effect.andThen(
        opened(worker),
        inTime(Mixed, "finished", QUICK + SLOW - 1)
      ))
      assert.strictEqual(begun.length, SLOW - 1)
      yield* go
      yield* inTime(Mixed, "finished", QUICK + SLOW)
      const { jobs } = yield* transact(Mixed.list({ limit: 1_000 }))
      // what was handed back has not used up an attempt
      assert.deepStrictEqual([...new Set(jobs.map(({ attempts }) => attempts))], [1])
    })
  )

  timed(
    "a job of a higher priority is next, however many were taken ahead",
    1_000_000,
    Effect.gen(function*() {
      const { Mixed, begun, go } = yield* stuck("urgency")
      yield* transact(Mixed.add("urgent", data(0), { priority: 100 }))
      yield* pass(PATIENCE)
      yield* inTime(Mixed, "running", 1)
      yield* go
      yield* inTime(Mixed, "finished", QUICK + SLOW + 1)
      assert.deepStrictEqual(begun.slice(0, 2), ["urgent", QUICK + 1])
    })
  )

  timed(
    "a pause stops what was taken ahead and has not begun",
    1_000_000,
    Effect.gen(function*() {
      const { Mixed, begun, close, go } = yield* stuck("paused")
      yield* transact(Mixed.pause)
      yield* pass(PATIENCE)
      yield* inTime(Mixed, "running", 1)
      yield* go
      yield* inTime(Mixed, "running", 0)
      yield* close
      assert.deepStrictEqual(begun, [])
      assert.deepStrictEqual(
        yield* transact(Mixed.counts),
        { pending: SLOW - 1, running: 0, finished: QUICK + 1, dead: 0 }
      )
    })
  )

  for (const maxAttempts of [2, 3, Infinity]) {
    live(
      `jobs whose holders died again and again run alone, and end well, of ${maxAttempts} attempts`,
      Effect.gen(function*() {
        const Poison = Jobs.make(`poison ${maxAttempts}`, { data: Data, timeout: SHORT, maxAttempts })
        const silences = maxAttempts === 2 ? 1 : 2
        const ids = [0, 1, 2, 3, 4]
        yield* transact(Effect.forEach(ids, (i) => Poison.add(i, data(i))))
        for (let silence = 0; silence < silences; silence++) {
          // their process takes them, and is no more
          for (const _ of ids) Option.getOrThrow(yield* Poison.accept())
          yield* running(Poison, 0)
        }
        yield* transact(Effect.forEach([10, 11, 12, 13], (i) => Poison.add(i, data(i))))
        // a machine that stands still for a moment must not take a last attempt
        yield* transact(Poison.setTimeout("1 minute"))
        const now = new Set<number>()
        const beside: Array<ReadonlyArray<number>> = []
        yield* opened(Poison.workerLayer((job) =>
          Effect.gen(function*() {
            now.add(job.id as number)
            beside.push([...now])
            yield* Effect.repeat(Effect.yieldNow, { times: 20 })
            now.delete(job.id as number)
          }), { concurrency: 5 }))
        yield* Effect.repeat(transact(Poison.counts), { until: ({ finished }) => finished === 9 })
        // whatever ran beside another one was not there when the holders died
        const companies = beside.filter((company) => company.length > 1)
        assert.isTrue(companies.every((company) => company.every((id) => id >= 10)), JSON.stringify(companies))
      })
    )
  }

  live(
    "a suspect does not wait for ever for jobs that run long, and does not hold others up for ever",
    Effect.gen(function*() {
      const Poison = Jobs.make("patient", { data: Data, timeout: SHORT, maxAttempts: 2 })
      yield* transact(Poison.add("suspect", data(0)))
      Option.getOrThrow(yield* Poison.accept())
      yield* running(Poison, 0)
      const go = yield* Deferred.make<void>()
      const begun = yield* Deferred.make<void>()
      // the other one is done while a long job still runs
      yield* transact(Poison.add("long", data(0), { priority: 1 }))
      yield* opened(Poison.workerLayer((job) =>
        job.id === "long"
          ? Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
          : job.id === "other"
          ? Effect.asVoid(Deferred.succeed(go, undefined))
          : Effect.void, { concurrency: 2 }))
      yield* Deferred.await(begun)
      yield* transact(Poison.add("other", data(0)))
      yield* Effect.repeat(transact(Poison.counts), { until: ({ finished }) => finished === 3 })
    })
  )
}

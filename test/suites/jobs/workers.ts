/** Workers: handlers, leases, ends. */
import { assert } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Fiber, Layer, Option, Schedule } from "effect"
import { Jobs, Tenant, Transaction, Tuple } from "effect-dgen"
import { TestClock } from "effect/testing"
import { hubOf } from "../../../src/internal/jobs/background/hub.ts"
import { JobKeys } from "../../../src/internal/jobs/definition/layout.ts"
import * as Model from "../../../src/internal/jobs/definition/model.ts"
import { take, taking } from "../../../src/internal/jobs/working/accept.ts"
import { acceptNow, Data, data, elsewhere, type Harness, opened, SHORT } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data })

/** Waits until a job is in a state. */
const until = <A>(type: Jobs.JobType<A>, id: string | number, state: Jobs.JobState) =>
  Effect.scoped(Effect.flatMap(type.subscribe(id), (subscription) => Jobs.wait(subscription, { state })))
const look = <A>(type: Jobs.JobType<A>, id: string | number) =>
  transact(Effect.all([type.getState(id), type.getData(id)]))

/** The oldest sign of life of a type's holders: it moves once all leases have been renewed. */
const oldestSign = (type: string) =>
  Effect.flatMap(
    Tenant.Tenant,
    ({ prefix }) =>
      transact(Effect.flatMap(Transaction.Transaction, (state) => {
        const { activity } = new JobKeys(prefix, type)
        return Effect.map(
          state.getRange(activity, Tuple.strinc(activity), { limit: 1 }),
          ([oldest]) => oldest === undefined ? "none" : Buffer.from(oldest.key).toString("hex")
        )
      }))
  )

class Greeter extends Context.Service<Greeter, { readonly greet: (name: string) => string }>()("test/Greeter") {}

export const jobsWorkers = ({ live, timed }: Harness) => {
  live(
    "a worker runs its handler, with services, and finishes the job with what it returns",
    Effect.gen(function*() {
      yield* transact(Effect.andThen(Work.add("one", data(1)), Work.add("two", data(2))))
      const worker = Work.workerLayer((job, { signal }) =>
        Effect.gen(function*() {
          const { greet } = yield* Greeter
          assert.isFalse(signal.aborted)
          if (job.id === "two") return undefined
          return { url: greet(job.data.url), done: job.data.done + 10 }
        })
      )
      yield* opened(Layer.provide(worker, Layer.succeed(Greeter, { greet: (name) => `hello ${name}` })))
      yield* until(Work, "one", "finished")
      yield* until(Work, "two", "finished")
      assert.deepStrictEqual(yield* look(Work, "one"), ["finished", { url: "hello a.png", done: 11 }])
      assert.deepStrictEqual(yield* look(Work, "two"), ["finished", data(2)])
    })
  )

  live(
    "a handler shows its progress, and finishes in the commit of its result",
    Effect.gen(function*() {
      const seen: Array<number> = []
      yield* opened(Work.workerLayer((job, context) =>
        Effect.gen(function*() {
          yield* context.update(data(5))
          seen.push((yield* transact(Work.getData("one"))).done)
          yield* context.updateProgress((now) => ({ ...now, done: now.done + 1 }))
          seen.push((yield* transact(Work.getData("one"))).done)
          yield* transact(Effect.andThen(Transaction.set(["result"], Uint8Array.of(1)), Work.finish(job, data(9))))
        })
      ))
      yield* transact(Work.add("one", data(0)))
      yield* until(Work, "one", "finished")
      assert.deepStrictEqual(seen, [5, 6])
      assert.deepStrictEqual(yield* look(Work, "one"), ["finished", data(9)])
      assert.deepStrictEqual(yield* transact(Transaction.get(["result"])), Uint8Array.of(1))
    })
  )

  live(
    "no more handlers run together than concurrency says, and all jobs are done once",
    Effect.gen(function*() {
      const runs = new Map<unknown, number>()
      let now = 0
      let most = 0
      const worker = Work.workerLayer((job) =>
        Effect.gen(function*() {
          runs.set(job.id, (runs.get(job.id) ?? 0) + 1)
          most = Math.max(most, ++now)
          yield* Effect.yieldNow
          now--
        }), { concurrency: 4 })
      yield* transact(
        Effect.forEach(Array.from({ length: 100 }, (_, i) => i), (i) => Work.add(i, data(i), { delay: i }))
      )
      yield* opened(worker)
      for (let i = 0; i < 100; i++) yield* until(Work, i, "finished")
      assert.deepStrictEqual([...new Set(runs.values())], [1])
      assert.strictEqual(runs.size, 100)
      assert.isAtMost(most, 4)
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 0, running: 0, finished: 100, dead: 0 })
    })
  )

  live(
    "workers of two processes share the work",
    Effect.gen(function*() {
      const COUNT = 200
      const runs = new Map<unknown, number>()
      const worker = Work.workerLayer((job) =>
        Effect.sync(() => {
          runs.set(job.id, (runs.get(job.id) ?? 0) + 1)
        }), { concurrency: 8 })
      const done = Effect.forEach(Array.from({ length: COUNT }, (_, i) => i), (i) => until(Work, i, "finished"))
      const adding = Effect.forEach(Array.from({ length: COUNT }, (_, i) => i), (i) => transact(Work.add(i, data(i))), {
        concurrency: 20
      })
      const process = elsewhere(Effect.andThen(opened(worker), done))
      yield* Effect.andThen(adding, Effect.all([process, process], { concurrency: "unbounded" }))
      assert.deepStrictEqual([...new Set(runs.values())], [1])
      assert.strictEqual(runs.size, COUNT)
    })
  )

  live(
    "a failed handler is a failed attempt, whether it fails or dies; the last one makes the job dead",
    Effect.gen(function*() {
      const attempts: Array<number> = []
      const Flaky = Jobs.make("flaky", { data: Data, retry: Schedule.spaced("1 milli"), maxAttempts: 3 })
      yield* opened(Flaky.workerLayer((job) => {
        if (job.id === "passes" && job.attempt === 3) return Effect.void
        if (job.id === "dies") attempts.push(job.attempt)
        return job.attempt === 1 ? Effect.fail("failed") : Effect.die(new Error("died"))
      }))
      yield* transact(Effect.andThen(Flaky.add("dies", data(1)), Flaky.add("passes", data(1))))
      yield* until(Flaky, "dies", "dead")
      yield* until(Flaky, "passes", "finished")
      assert.deepStrictEqual(attempts, [1, 2, 3])
      const [dead] = (yield* transact(Flaky.list({ state: "dead" }))).jobs
      assert.include(dead!.error, "died")
    })
  )

  live(
    "a result that does not fit its schema is a failed attempt",
    Effect.gen(function*() {
      const Once = Jobs.make("once", { data: Data, maxAttempts: 1 })
      yield* transact(Once.add("one", data(1)))
      yield* opened(Once.workerLayer(() => Effect.succeed({ wrong: true } as any)))
      yield* until(Once, "one", "dead")
      assert.include((yield* transact(Once.list({ state: "dead" }))).jobs[0]!.error, "does not fit")
    })
  )

  live(
    "what a handler gets can be copied and wrapped, and has one signal",
    Effect.gen(function*() {
      const seen = yield* Deferred.make<ReadonlyArray<AbortSignal>>()
      yield* opened(Work.workerLayer((_, context) => {
        const wrapped = [context, { ...context }, new Proxy(context, {}), Object.create(context) as typeof context]
        return Effect.asVoid(Deferred.succeed(seen, wrapped.map(({ signal }) => signal)))
      }))
      yield* transact(Work.add("one", data(1)))
      const [first, ...others] = yield* Deferred.await(seen)
      assert.instanceOf(first, AbortSignal)
      assert.deepStrictEqual(others.map((signal) => signal === first), [true, true, true])
    })
  )

  live(
    "a handler whose job is removed is interrupted at once, and its signal aborted",
    Effect.gen(function*() {
      // no heartbeat comes for a day
      const Calm = Jobs.make("calm", { data: Data, timeout: "3 days" })
      const started = yield* Deferred.make<AbortSignal>()
      const interrupted = yield* Deferred.make<void>()
      yield* opened(Calm.workerLayer((job, { signal }) =>
        job.id === "next"
          ? Effect.void
          : Effect.andThen(Deferred.succeed(started, signal), Effect.never).pipe(
            Effect.onInterrupt(() => Deferred.succeed(interrupted, undefined))
          )
      ))
      yield* transact(Calm.add("one", data(1)))
      const signal = yield* Deferred.await(started)
      yield* elsewhere(transact(Calm.remove("one")))
      yield* Deferred.await(interrupted)
      assert.isTrue(signal.aborted)
      yield* transact(Calm.add("next", data(1)))
      yield* until(Calm, "next", "finished")
      assert.strictEqual((yield* Effect.flip(transact(Calm.getState("one"))))._tag, "JobNotFound")
    })
  )

  live(
    "a handler whose job is removed and added again in one commit is interrupted before the new one runs",
    Effect.gen(function*() {
      const Calm = Jobs.make("calm", { data: Data, timeout: "3 days" })
      const started = yield* Deferred.make<void>()
      const interrupted = yield* Deferred.make<void>()
      const events: Array<string> = []
      yield* opened(Calm.workerLayer(
        (job) =>
          job.data.done === 2
            ? Effect.sync(() => void events.push("new"))
            : Effect.andThen(Deferred.succeed(started, undefined), Effect.never).pipe(
              Effect.onInterrupt(() => {
                events.push("old ended")
                return Deferred.succeed(interrupted, undefined)
              })
            ),
        { concurrency: 2 }
      ))
      yield* transact(Calm.add("one", data(1)))
      yield* Deferred.await(started)
      yield* transact(Effect.andThen(Calm.remove("one"), Calm.add("one", data(2))))
      yield* until(Calm, "one", "finished")
      yield* Deferred.await(interrupted)
      assert.deepStrictEqual(events, ["old ended", "new"])
    })
  )

  // time passes in the tests of leases as fast as heartbeats commit: it is not the store's slowness that is tested
  timed(
    "a worker takes, keeps and settles many jobs whose ids and keys are as long as they can be",
    0,
    Effect.gen(function*() {
      const COUNT = 250
      const TIMEOUT = 30_000
      const Long = Jobs.make("long", { data: Data, timeout: TIMEOUT })
      const idOf = (n: number) => `${"x".repeat(Jobs.ID_LIMIT_BYTES - 20)}${n}`
      const key = "k".repeat(Jobs.ID_LIMIT_BYTES - 20)
      for (let first = 0; first < COUNT; first += 50) {
        yield* transact(
          Effect.forEach(Array.from({ length: 50 }, (_, i) => first + i), (n) => Long.add(idOf(n), data(n), { key }))
        )
      }
      let running = 0
      const all = yield* Deferred.make<void>()
      const beaten = yield* Deferred.make<void>()
      yield* opened(Long.workerLayer(
        () => {
          if (++running === COUNT) Deferred.doneUnsafe(all, Effect.void)
          return Deferred.await(beaten)
        },
        { concurrency: COUNT }
      ))
      yield* Deferred.await(all)
      const stamps = oldestSign("long")
      // every lease is renewed once the oldest sign of life has moved
      const before = yield* stamps
      yield* TestClock.adjust(TIMEOUT / 3)
      yield* Effect.repeat(Effect.andThen(TestClock.adjust(1), stamps), { while: (now) => now === before })
      yield* Deferred.succeed(beaten, undefined)
      for (let n = 0; n < COUNT; n++) yield* Effect.scoped(until(Long, idOf(n), "finished"))
      assert.strictEqual(running, COUNT)
    })
  )

  timed(
    "a healthy job ten times longer than its lease is run once, by its first worker",
    0,
    Effect.gen(function*() {
      const TIMEOUT = 30_000
      const Long = Jobs.make("long", { data: Data, timeout: TIMEOUT })
      let runs = 0
      const begun = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const worker = Long.workerLayer(() => {
        runs++
        return Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(go), data(2)))
      })
      yield* transact(Long.add("one", data(1)))
      yield* opened(worker)
      yield* Deferred.await(begun)
      const other = yield* Effect.forkChild(
        elsewhere(Effect.scoped(Effect.andThen(opened(worker), until(Long, "one", "finished"))))
      )
      const lifeSign = oldestSign("long")
      for (const end = 10 * TIMEOUT; (yield* Clock.currentTimeMillis) < end;) {
        const before = yield* lifeSign
        yield* TestClock.adjust(TIMEOUT / 3)
        // whoever pauses between two tries of a transaction needs some time, too
        yield* Effect.repeat(Effect.andThen(TestClock.adjust(1), lifeSign), { while: (now) => now === before })
      }
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(other)
      assert.deepStrictEqual(yield* look(Long, "one"), ["finished", data(2)])
      assert.strictEqual(runs, 1)
      assert.strictEqual((yield* transact(Long.list())).jobs[0]!.attempts, 1)
    })
  )

  live(
    "a graceful stop lets handlers end, and takes nothing more",
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const close = yield* opened(
        Work.workerLayer(() =>
          Effect.andThen(Deferred.succeed(started, undefined), Effect.as(Deferred.await(go), data(5)))
        )
      )
      yield* transact(Effect.andThen(Work.add("one", data(1)), Work.add("two", data(2))))
      yield* Deferred.await(started)
      yield* Effect.all([close, Effect.andThen(Effect.yieldNow, Deferred.succeed(go, undefined))], {
        concurrency: "unbounded"
      })
      const states = yield* transact(Effect.all([Work.getState("one"), Work.getState("two")]))
      assert.deepStrictEqual(states.toSorted(), ["finished", "pending"])
    })
  )

  live(
    "a graceful stop hands an unfinished job back, the attempt not counted, also from a handler that is stuck",
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const stuck = yield* Deferred.make<AbortSignal>()
      const close = yield* opened(Work.workerLayer((job, { signal }) =>
        job.id === "stuck"
          ? Effect.uninterruptible(Effect.andThen(Deferred.succeed(stuck, signal), Effect.never))
          : Effect.andThen(Deferred.succeed(started, undefined), Effect.never), { concurrency: 2, grace: 0 }))
      yield* transact(Effect.andThen(Work.add("slow", data(1)), Work.add("stuck", data(2))))
      yield* Deferred.await(started)
      const signal = yield* Deferred.await(stuck)
      yield* close
      assert.isTrue(signal.aborted)
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 2, running: 0, finished: 0, dead: 0 })
      const again = [yield* acceptNow(Work), yield* acceptNow(Work)]
      // after a conflict one of the next few is taken: either may be the first
      assert.deepStrictEqual(again.map((job) => `${job!.id} ${job!.attempt}`).toSorted(), ["slow 1", "stuck 1"])
    })
  )

  live(
    "a job that was resubmitted while its handler ran is run again with the new data",
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const seen: Array<number> = []
      yield* opened(Work.workerLayer((job) =>
        Effect.gen(function*() {
          seen.push(job.data.done)
          yield* Deferred.succeed(started, undefined)
          yield* Deferred.await(go)
        })
      ))
      yield* transact(Work.add("one", data(1)))
      yield* Deferred.await(started)
      yield* transact(Work.resubmit("one", { data: data(2) }))
      yield* Deferred.succeed(go, undefined)
      yield* until(Work, "one", "finished")
      assert.deepStrictEqual(seen, [1, 2])
    })
  )

  live(
    "20,000 jobs whose workers died become pending in bounded passes; 1,000 living ones are never touched",
    Effect.gen(function*() {
      // longer than taking 20,000 jobs on a busy machine
      const options = { data: Data, timeout: "20 seconds" } as const
      const Mass = Jobs.make("mass", options)
      const add = (from: number, count: number) =>
        Effect.forEach(
          Array.from({ length: count / 1_000 }, (_, page) => page),
          (page) =>
            transact(Effect.forEach(
              Array.from({ length: 1_000 }, (_, i) => from + page * 1_000 + i),
              (i) => Mass.add(i, data(i))
            ))
        )
      const allRun = yield* Deferred.make<void>()
      let running = 0
      // the living: taken by a worker that renews their leases
      yield* add(0, 1_000)
      const handler = Effect.suspend(() =>
        Effect.andThen(++running === 1_000 ? Deferred.succeed(allRun, undefined) : Effect.void, Effect.never)
      )
      const close = yield* opened(Mass.workerLayer(() => handler, { concurrency: 1_000, grace: 0 }))
      yield* Deferred.await(allRun)
      // the dead: taken, and then nobody shows a sign of life
      yield* add(1_000, 20_000)
      const model = Model.make("mass", options)
      const hub = yield* hubOf(model)
      const wanted = { limit: 500, maxScheduledTime: undefined }
      const dead = yield* Effect.replicateEffect(
        taking(hub, (state, claimed) => take(hub, model, state, wanted, claimed), () => {}),
        40
      )
      assert.strictEqual(dead.flatMap(({ jobs }) => jobs).length, 20_000)
      const last = yield* Mass.subscribe(dead.at(-1)!.jobs.at(-1)!.id)
      yield* Jobs.wait(last, { state: "pending" })
      // on a slow store the first of them were taken anew before the last ones were taken
      yield* Effect.repeat(Effect.delay(transact(Mass.counts), 500), { while: (counts) => counts.running > 1_000 })
      assert.deepStrictEqual(yield* transact(Mass.counts), { pending: 20_000, running: 1_000, finished: 0, dead: 0 })
      const { jobs } = yield* transact(Mass.list({ state: "running", limit: 1_000 }))
      assert.isTrue(jobs.every((job) => (job.id as number) < 1_000 && job.attempts === 1))
      yield* close
      assert.strictEqual((yield* transact(Mass.counts)).running, 0)
    }),
    300_000
  )

  live(
    "an expired job goes to the next worker, and the late writer's handler is interrupted",
    Effect.gen(function*() {
      const Hasty = Jobs.make("hasty", { data: Data, timeout: SHORT })
      yield* transact(Hasty.add("one", data(1)))
      const late = Option.getOrThrow(yield* Hasty.accept())
      yield* elsewhere(
        Effect.andThen(
          opened(Hasty.workerLayer((job) => Effect.succeed(data(job.attempt)))),
          until(Hasty, "one", "finished")
        )
      )
      assert.strictEqual((yield* Effect.flip(transact(Hasty.finish(late, data(99)))))._tag, "Halt")
      assert.deepStrictEqual(yield* look(Hasty, "one"), ["finished", data(2)])
    })
  )

  live(
    "a job whose holder went silent is dead by the attempts of the worker that is open, else by the definition's",
    Effect.gen(function*() {
      const Hasty = Jobs.make("hasty", { data: Data, timeout: "1 second" })
      const busy = yield* Deferred.make<void>()
      const close = yield* opened(
        Hasty.workerLayer(() => Effect.andThen(Deferred.succeed(busy, undefined), Effect.never), {
          maxAttempts: 1,
          grace: 0
        })
      )
      yield* transact(Hasty.add("busy", data(1)))
      yield* Deferred.await(busy)
      yield* transact(Hasty.add("silent", data(1)))
      assert.strictEqual((yield* acceptNow(Hasty))!.id, "silent")
      yield* until(Hasty, "silent", "dead")
      yield* close
      yield* transact(Effect.andThen(Hasty.remove("busy"), Hasty.resubmit("silent")))
      assert.strictEqual((yield* acceptNow(Hasty))!.attempt, 1)
      yield* until(Hasty, "silent", "pending")
    })
  )
}

/** Who gets which job, when, and how many at once. */
import { assert } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Option, Schedule } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { acceptNow, Data, data, elsewhere, type Harness, opened, SHORT } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data })
const FAR = Date.UTC(2200, 0)

const ids = <A>(jobs: ReadonlyArray<Jobs.Job<A>>) => jobs.map((job) => job.id)
const drain = <A>(type: Jobs.JobType<A>) =>
  Effect.gen(function*() {
    const jobs: Array<Jobs.Job<A>> = []
    for (;;) {
      const job = yield* acceptNow(type)
      if (job === undefined) return jobs
      jobs.push(job)
    }
  })

export const jobsConcurrency = ({ live, timed }: Harness) => {
  live(
    "of the due jobs the earlier one is first, and one of the far future is not taken",
    Effect.gen(function*() {
      const now = Date.now()
      yield* transact(Effect.all([
        Work.add("future", data(1), { scheduledAt: FAR }),
        Work.add("now", data(1)),
        Work.add("an hour ago", data(1), { scheduledAt: now - 3_600_000 }),
        Work.add("long ago", data(1), { scheduledAt: new Date(0) }),
        Work.add("before all", data(1), { scheduledAt: -5 }),
        Work.add("delayed", data(1), { delay: "1 day" })
      ]))
      assert.deepStrictEqual(ids(yield* drain(Work)), ["before all", "long ago", "an hour ago", "now"])
      const next = Option.getOrThrow(yield* Work.accept({ maxScheduledTime: FAR }))
      assert.strictEqual(next.id, "delayed")
      assert.isTrue(Option.isNone(yield* Work.accept({ maxScheduledTime: FAR - 1, timeout: 0 })))
      assert.strictEqual(Option.getOrThrow(yield* Work.accept({ maxScheduledTime: new Date(FAR) })).id, "future")
    })
  )

  live(
    "jobs of one time are each taken once",
    Effect.gen(function*() {
      yield* transact(Effect.forEach(["a", "b", "c"], (id) => Work.add(id, data(1), { scheduledAt: 1_000 })))
      assert.deepStrictEqual(ids(yield* drain(Work)), ["a", "b", "c"])
    })
  )

  live(
    "higher priorities are first, whatever their times; a priority without due jobs holds nobody up",
    Effect.gen(function*() {
      yield* transact(Effect.all([
        Work.add("urgent, later", data(1), { priority: 100, scheduledAt: FAR }),
        Work.add("low", data(1), { priority: -100, scheduledAt: 1 }),
        Work.add("normal 2", data(1), { scheduledAt: 2 }),
        Work.add("normal 1", data(1), { scheduledAt: 1 }),
        Work.add("high", data(1), { priority: 7 })
      ]))
      assert.deepStrictEqual(ids(yield* drain(Work)), ["high", "normal 1", "normal 2", "low"])
    })
  )

  timed(
    "a waiting worker sleeps until the earliest time, not until a poll",
    0,
    Effect.gen(function*() {
      yield* transact(Work.add("later", data(1), { delay: "10 minutes" }))
      yield* transact(Work.add("soon", data(1), { delay: "1 minute" }))
      const fiber = yield* Effect.forkChild(Work.accept())
      yield* Effect.yieldNow
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      assert.strictEqual((yield* transact(Work.counts)).pending, 2)
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual(Option.getOrThrow(yield* Fiber.join(fiber)).id, "soon")
    })
  )

  live(
    "a waiting worker is woken by a push of its own process and of another one",
    Effect.gen(function*() {
      for (const push of [transact(Work.add("here", data(1))), elsewhere(transact(Work.add("there", data(1))))]) {
        const fiber = yield* Effect.forkChild(Work.accept())
        yield* Effect.yieldNow
        yield* push
        assert.isTrue(Option.isSome(yield* Fiber.join(fiber)))
      }
    })
  )

  live(
    "accept without a job ends at its time limit",
    Effect.gen(function*() {
      assert.isTrue(Option.isNone(yield* Work.accept({ timeout: "20 millis" })))
      yield* transact(Work.add("one", data(1)))
      assert.isTrue(Option.isSome(yield* Work.accept({ timeout: 0 })))
    })
  )

  live(
    "a job that was taken for a caller who was interrupted is pending again",
    Effect.gen(function*() {
      yield* transact(Effect.forEach(Array.from({ length: 20 }, (_, i) => i), (i) => Work.add(i, data(i))))
      let kept = 0
      for (let i = 0; i < 30; i++) {
        const fiber = yield* Effect.forkChild(Work.accept())
        for (let step = 0; step < i % 10; step++) yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
        if (fiber.pollUnsafe()?._tag === "Success") kept++
      }
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 20 - kept, running: kept, finished: 0, dead: 0 })
    })
  )

  live(
    "many workers of several processes take each job once",
    Effect.gen(function*() {
      const COUNT = 200
      yield* transact(Effect.forEach(Array.from({ length: COUNT }, (_, i) => i), (i) => Work.add(i, data(i))))
      const process = elsewhere(
        Effect.map(
          Effect.all(Array.from({ length: 8 }, () => drain(Work)), { concurrency: "unbounded" }),
          (parts) => parts.flat()
        )
      )
      const parts = yield* Effect.all([process, process, process], { concurrency: "unbounded" })
      const taken = parts.flat().map((job) => job.id as number).sort((a, b) => a - b)
      assert.deepStrictEqual(taken, Array.from({ length: COUNT }, (_, i) => i))
    })
  )

  live(
    "a paused type is not taken from until it is resumed; running jobs go on",
    Effect.gen(function*() {
      yield* transact(Effect.andThen(Work.add("one", data(1)), Work.add("two", data(2))))
      const job = (yield* acceptNow(Work))!
      yield* transact(Work.pause)
      assert.isTrue(yield* transact(Work.isPaused))
      assert.isUndefined(yield* elsewhere(acceptNow(Work)))
      yield* transact(Work.finish(job))
      const fiber = yield* Effect.forkChild(Work.accept())
      yield* Effect.yieldNow
      yield* elsewhere(transact(Work.resume))
      assert.strictEqual(Option.getOrThrow(yield* Fiber.join(fiber)).id, "two")
    })
  )

  live(
    "a stored timeout wins over the definition's, in every process",
    Effect.gen(function*() {
      const get = Effect.map(transact(Work.getTimeout), Duration.toMillis)
      assert.strictEqual(yield* get, 30_000)
      yield* transact(Work.setTimeout("250 millis"))
      assert.strictEqual(yield* elsewhere(get), 250)
      yield* transact(Work.add("one", data(1)))
      yield* Work.accept()
      // nobody shows a sign of life: after the stored timeout the job is there again
      assert.strictEqual(Option.getOrThrow(yield* Work.accept()).attempt, 2)
      yield* transact(Work.pause)
      assert.strictEqual(yield* get, 250)
    })
  )

  const ahead = Date.UTC(2030, 0, 1, 0, 0, 5)
  const behind = Date.UTC(2030, 0, 1)
  const dueAtOnce: Record<string, (id: string) => Effect.Effect<unknown, unknown, Tenant.Tenant>> = {
    "that is added": (id) => transact(Work.add(id, data(1))),
    "that is added without a delay": (id) => transact(Work.add(id, data(1), { delay: 0 })),
    "that is asked for again": (id) =>
      Effect.gen(function*() {
        yield* transact(Work.add(id, data(1)))
        yield* transact(Work.finish((yield* acceptNow(Work))!))
        yield* transact(Work.resubmit(id))
      }),
    "that is asked for again while it runs": (id) =>
      Effect.gen(function*() {
        yield* transact(Work.add(id, data(1)))
        const job = (yield* acceptNow(Work))!
        yield* transact(Work.resubmit(id))
        yield* transact(Work.finish(job))
      }),
    "that is brought back from the dead": (id) =>
      Effect.gen(function*() {
        const Once = Jobs.make("work", { data: Data, maxAttempts: 1 })
        yield* transact(Once.add(id, data(1)))
        yield* transact(Once.fail((yield* acceptNow(Once))!, "no"))
        yield* transact(Once.requeueDead(id))
      }),
    "that is tried again without a delay": (id) =>
      Effect.gen(function*() {
        const Eager = Jobs.make("work", { data: Data, retry: Schedule.forever })
        yield* transact(Eager.add(id, data(1)))
        yield* transact(Eager.fail((yield* acceptNow(Eager))!, "no"))
      })
  }
  for (const [what, bring] of Object.entries(dueAtOnce)) {
    timed(
      `a job ${what} by a process whose clock is ahead is taken at once, in the order of commits`,
      ahead,
      Effect.gen(function*() {
        yield* bring("z, ahead")
        yield* TestClock.setTime(behind)
        yield* transact(Work.add("y, behind", data(1)))
        yield* transact(Work.add("urgent", data(1), { priority: 1 }))
        yield* transact(Work.add("a, behind", data(1)))
        assert.deepStrictEqual(ids(yield* drain(Work)), ["urgent", "z, ahead", "y, behind", "a, behind"])
      })
    )
  }

  timed(
    "jobs of a full key that were due at once have their turns in the order of commits, whatever clocks showed",
    ahead,
    Effect.gen(function*() {
      const Keyed = Jobs.make("keyed", { data: Data, maxRunningPerKey: 1, timeout: "1 hour" })
      const add = (id: string, options?: Jobs.AddOptions) => transact(Keyed.add(id, data(1), { key: "k", ...options }))
      yield* add("first")
      const first = (yield* acceptNow(Keyed))!
      yield* add("z, ahead")
      yield* TestClock.setTime(behind)
      yield* add("y, behind")
      yield* add("low", { priority: -1 })
      yield* add("at a time", { scheduledAt: behind + 2_000 })
      yield* TestClock.setTime(behind + 3_000)
      yield* add("a, behind")
      yield* add("urgent", { priority: 1 })
      // all are parked
      assert.isUndefined(yield* acceptNow(Keyed))
      assert.strictEqual((yield* transact(Keyed.list({ state: "pending" }))).jobs.length, 6)
      yield* transact(Keyed.finish(first))
      const order: Array<unknown> = []
      for (let job = yield* acceptNow(Keyed); job !== undefined; job = yield* acceptNow(Keyed)) {
        order.push(job.id)
        yield* transact(Keyed.finish(job))
      }
      assert.deepStrictEqual(order.filter((id) => id !== "at a time"), [
        "urgent",
        "z, ahead",
        "y, behind",
        "a, behind",
        "low"
      ])
      assert.include(order, "at a time")
    })
  )

  timed(
    "jobs that were due at once and jobs that are due at a time take turns by when they were due",
    behind,
    Effect.gen(function*() {
      for (let i = 0; i < 40; i++) {
        yield* TestClock.setTime(behind + 10 * i)
        yield* transact(Work.add(`at once ${i}`, data(i)))
        yield* transact(Work.add(`at a time ${i}`, data(i), { scheduledAt: behind + 10 * i + 5 }))
        yield* transact(Work.add(`later ${i}`, data(i), { scheduledAt: behind + 3_600_000 }))
      }
      yield* TestClock.setTime(behind + 1_000)
      const expected = Array.from({ length: 40 }, (_, i) => [`at once ${i}`, `at a time ${i}`]).flat()
      assert.deepStrictEqual(ids(yield* drain(Work)), expected)
    })
  )

  timed(
    "a job due at once of a creator whose clock is ahead waits for no job that is due after the next one was added",
    ahead,
    Effect.gen(function*() {
      yield* transact(Work.add("ahead", data(1)))
      yield* TestClock.setTime(behind)
      yield* transact(Work.add("behind", data(1)))
      yield* transact(Effect.forEach([1, 2], (i) => Work.add(`at ${i}`, data(1), { scheduledAt: behind + i })))
      yield* TestClock.setTime(behind + 5)
      assert.deepStrictEqual(ids(yield* drain(Work)), ["ahead", "behind", "at 1", "at 2"])
    })
  )

  live(
    "a shortened timeout holds for a holder that was silent before, in processes that wait for long",
    Effect.gen(function*() {
      const Patient = Jobs.make("patient", { data: Data, timeout: "5 minutes" })
      yield* transact(Patient.add("one", data(1)))
      yield* Patient.accept()
      yield* elsewhere(Effect.gen(function*() {
        // this process has seen the holder, and waits for a part of five minutes
        assert.isTrue(Option.isNone(yield* Patient.accept({ timeout: "300 millis" })))
        yield* elsewhere(transact(Patient.setTimeout("200 millis")))
        assert.strictEqual(Option.getOrThrow(yield* Patient.accept({ timeout: "20 seconds" })).attempt, 2)
      }))
    })
  )

  live(
    "a shortened timeout takes no job from a living worker",
    Effect.gen(function*() {
      const Patient = Jobs.make("patient", { data: Data, timeout: "5 minutes" })
      yield* transact(Patient.add("one", data(1)))
      const begun = yield* Deferred.make<void>()
      const worker = Patient.workerLayer(() => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
      yield* elsewhere(Effect.gen(function*() {
        yield* opened(worker)
        yield* Deferred.await(begun)
        yield* transact(Patient.setTimeout("500 millis"))
        assert.isTrue(Option.isNone(yield* elsewhere(Patient.accept({ timeout: "5 seconds" }))))
        const { jobs } = yield* transact(Patient.list())
        assert.deepStrictEqual(jobs.map(({ attempts, state }) => [state, attempts]), [["running", 1]])
      }))
    })
  )

  live(
    "no more jobs of a type run than maxRunning says, and a free place wakes who waits",
    Effect.gen(function*() {
      const Two = Jobs.make("two", { data: Data, maxRunning: 2 })
      yield* transact(Effect.forEach([1, 2, 3, 4], (id) => Two.add(id, data(id))))
      const [first, second] = yield* drain(Two)
      assert.deepStrictEqual(yield* transact(Two.counts), { pending: 2, running: 2, finished: 0, dead: 0 })
      const fiber = yield* Effect.forkChild(elsewhere(Two.accept()))
      yield* Effect.yieldNow
      yield* transact(Two.finish(first!))
      assert.strictEqual(Option.getOrThrow(yield* Fiber.join(fiber)).id, 3)
      assert.isUndefined(yield* acceptNow(Two))
      yield* transact(Two.remove(second!.id))
      assert.strictEqual((yield* acceptNow(Two))!.id, 4)
    })
  )

  live(
    "no more jobs of a key run than maxRunningPerKey says; other keys go past them",
    Effect.gen(function*() {
      const Keyed = Jobs.make("keyed", { data: Data, maxRunningPerKey: 1 })
      const add = (id: string, key: string) => Keyed.add(id, data(1), { key, scheduledAt: 1 })
      yield* transact(
        Effect.all([add("a1", "a"), add("a2", "a"), add("a3", "a"), add("b1", "b"), Keyed.add("c", data(1))])
      )
      const [a1, b1, c] = yield* drain(Keyed)
      assert.deepStrictEqual(ids([a1!, b1!, c!]), ["a1", "b1", "c"])
      assert.deepStrictEqual((yield* transact(Keyed.list({ state: "pending" }))).jobs.map((job) => job.id), [
        "a2",
        "a3"
      ])
      const fiber = yield* Effect.forkChild(elsewhere(Keyed.accept()))
      yield* Effect.yieldNow
      yield* transact(Keyed.finish(a1!))
      const a2 = Option.getOrThrow(yield* Fiber.join(fiber))
      assert.strictEqual(a2.id, "a2")
      assert.isUndefined(yield* acceptNow(Keyed))
      // a removal gives the place on, too
      yield* transact(Keyed.remove("a2"))
      assert.strictEqual((yield* acceptNow(Keyed))!.id, "a3")
    })
  )

  live(
    "a parked job is not forgotten when the one before it leaves the queue",
    Effect.gen(function*() {
      const Keyed = Jobs.make("keyed", { data: Data, maxRunningPerKey: 1, timeout: SHORT })
      yield* transact(Effect.forEach(["a", "b", "c", "d"], (id) => Keyed.add(id, data(1), { key: 5, scheduledAt: 1 })))
      const [a] = yield* drain(Keyed)
      yield* transact(Keyed.finish(a!))
      // b is back in the queue: it leaves without having run
      yield* transact(Keyed.remove("b"))
      const c = (yield* acceptNow(Keyed))!
      assert.strictEqual(c.id, "c")
      yield* transact(Keyed.remove("c"))
      yield* transact(Keyed.resubmit("d", { scheduledAt: FAR }))
      assert.isUndefined(yield* acceptNow(Keyed))
      yield* transact(Keyed.resubmit("d", { scheduledAt: 1 }))
      assert.strictEqual((yield* acceptNow(Keyed))!.id, "d")
      assert.strictEqual(Option.getOrThrow(yield* Keyed.accept()).attempt, 2)
    })
  )
}

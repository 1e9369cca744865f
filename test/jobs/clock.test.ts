/** What jobs do when time passes and clocks are set, under a clock that the tests hold: in memory alone. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Duration, Effect, Fiber, Latch, Layer, Logger, Option, Schema, type Scope } from "effect"
import { Backend, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import { acceptNow, elsewhere, opened, pass, setClock, settle } from "../suites/jobs/support.ts"
import { committing } from "../support/driver.ts"

const { transact } = Tenant
const Data = Schema.Struct({ n: Schema.Number })
const Work = Jobs.make("work", { data: Data })
const HOUR = 3_600_000

type Services = Tenant.Tenant | Backend.Backend | Scope.Scope

const timed = (
  title: string,
  test: (clock: { aheadMillis: number }) => Effect.Effect<void, unknown, Services>,
  backend: typeof MemoryBackend.layer = MemoryBackend.layer
) =>
  it.effect(title, () =>
    Effect.flatMap(Clock.Clock, (clock) => {
      const { set, shown } = setClock(clock)
      return test(set).pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["clock"]).pipe(Layer.provideMerge(backend))),
        Effect.provideService(Clock.Clock, shown)
      )
    }).pipe(Effect.provide(Logger.layer([]))))

/** A worker whose handlers go on until they are told to end: what became of them. */
const longWork = (type: Jobs.JobType<{ readonly n: number }>) => {
  const go = Deferred.makeUnsafe<void>()
  const life = { runs: 0, interrupted: 0, end: Deferred.succeed(go, undefined) }
  const worker = type.workerLayer(() => {
    life.runs++
    return Effect.onInterrupt(Deferred.await(go), () => Effect.sync(() => void life.interrupted++))
  })
  return { life, worker }
}

/** Commits that write take as long as `slowness` says. */
const slow = (slowness: { millis: number }) =>
  committing((_, commit) => Effect.andThen(Effect.sleep(slowness.millis), commit))

/** One commit answers late when `silence` says so, and the store says nothing any more until it is opened. */
const silent = (silence: { answerMillis: number; readonly store: Latch.Latch }) =>
  Layer.effect(
    Backend.Backend,
    Effect.map(Backend.Backend, (backend) =>
      Backend.Backend.of({
        ...backend,
        begin: Effect.map(Effect.andThen(silence.store.await, backend.begin), (driver) => ({
          ...driver,
          commit: (request, accepted) => {
            const { answerMillis } = silence
            if (request.mutations.length === 0 || answerMillis === 0) return driver.commit(request, accepted)
            silence.answerMillis = 0
            return Effect.tap(
              driver.commit(request, accepted),
              () => Effect.andThen(Effect.sleep(answerMillis), silence.store.close)
            )
          }
        }))
      }))
  ).pipe(Layer.provide(MemoryBackend.layer))

describe("due times", () => {
  for (const delay of ["10 minutes", "1 day"] as const) {
    timed(
      `a job due in ${delay} is taken within a minute of its time, though the machine slept until then`,
      (clock) =>
        Effect.gen(function*() {
          yield* transact(Work.add("one", { n: 1 }, { delay }))
          const fiber = yield* Effect.forkChild(Work.accept())
          yield* pass("90 seconds")
          assert.isUndefined(fiber.pollUnsafe())
          clock.aheadMillis += Duration.toMillis(Duration.fromInputUnsafe(delay))
          yield* pass("1 minute")
          assert.strictEqual(Option.getOrThrow(yield* Fiber.join(fiber)).id, "one")
        })
    )
  }

  timed(
    "a job is not taken before its time when the clock is set back",
    (clock) =>
      Effect.gen(function*() {
        yield* transact(Work.add("one", { n: 1 }, { delay: "10 minutes" }))
        const fiber = yield* Effect.forkChild(Work.accept())
        yield* pass("1 minute")
        clock.aheadMillis -= HOUR
        yield* pass("68 minutes")
        assert.isUndefined(fiber.pollUnsafe())
        yield* pass("1 minute")
        assert.strictEqual(Option.getOrThrow(yield* Fiber.join(fiber)).id, "one")
      })
  )

  timed(
    "the time limits of accept and wait are those of the time that passes",
    (clock) =>
      Effect.gen(function*() {
        yield* transact(Work.add("one", { n: 1 }, { delay: "10 days" }))
        const subscription = yield* Work.subscribe("one")
        const accepted = yield* Effect.forkChild(Work.accept({ timeout: "10 minutes" }))
        const waited = yield* Effect.forkChild(Jobs.wait(subscription, { timeout: "10 minutes" }))
        yield* pass("5 minutes")
        clock.aheadMillis -= HOUR
        yield* pass("5 minutes")
        assert.isTrue(Option.isNone(yield* Fiber.join(accepted)))
        assert.isTrue(Option.isNone(yield* Fiber.join(waited)))
      })
  )

  timed(
    "a finished job is removed soon after its retention, though the machine slept until then",
    (clock) =>
      Effect.gen(function*() {
        const Kept = Jobs.make("kept", { data: Data, retention: "1 day" })
        yield* transact(Kept.add("one", { n: 1 }))
        yield* transact(Kept.finish(Option.getOrThrow(yield* Kept.accept())))
        yield* pass("1 minute")
        clock.aheadMillis += 24 * HOUR
        yield* pass("1 minute")
        // and the monitor rests for a while between two looks
        yield* pass("1 minute")
        assert.strictEqual((yield* Effect.flip(transact(Kept.getState("one"))))._tag, "JobNotFound")
      })
  )
})

describe("rates under a clock that was two years ahead", () => {
  const YEARS = 2 * 365 * 24 * HOUR
  const rate = { limit: 1, window: "10 seconds" } as const
  timed(
    "of a type hold nothing up once it is set right",
    (clock) =>
      Effect.gen(function*() {
        const Rated = Jobs.make("rated", { data: Data, rateLimit: rate })
        const runs: Array<unknown> = []
        yield* opened(Rated.workerLayer(({ id }) => Effect.sync(() => void runs.push(id))))
        clock.aheadMillis += YEARS
        yield* transact(Effect.forEach([1, 2, 3], (n) => Rated.add(n, { n })))
        yield* pass("1 second")
        clock.aheadMillis -= YEARS
        yield* pass("2 minutes")
        assert.deepStrictEqual(runs, [1, 2, 3])
      })
  )

  timed(
    "of a key hold nothing up that is added when it is set right",
    (clock) =>
      Effect.gen(function*() {
        const Rated = Jobs.make("rated", { data: Data, rateLimitPerKey: rate })
        const runs: Array<unknown> = []
        yield* opened(Rated.workerLayer(({ id }) => Effect.sync(() => void runs.push(id))))
        clock.aheadMillis += YEARS
        yield* transact(Effect.forEach([1, 2], (n) => Rated.add(n, { n }, { key: "k" })))
        yield* pass("1 second")
        clock.aheadMillis -= YEARS
        yield* transact(Effect.forEach([3, 4], (n) => Rated.add(n, { n }, { key: "k" })))
        yield* pass("2 minutes")
        assert.deepStrictEqual(runs, [1, 3, 4])
        // what was put off by that clock is brought back by hand
        yield* transact(Rated.resubmit(2, { scheduledAt: 0 }))
        yield* pass("1 second")
        assert.deepStrictEqual(runs, [1, 3, 4, 2])
      })
  )
})

describe("several definitions of a type", () => {
  timed(
    "the retention of the worker that is open holds, also where the monitor waits by another definition",
    () =>
      Effect.gen(function*() {
        const Onlooker = Jobs.make("kept", { data: Data })
        const Kept = Jobs.make("kept", { data: Data, retention: "1 second" })
        yield* transact(Onlooker.add("one", { n: 1 }))
        yield* transact(Onlooker.finish(Option.getOrThrow(yield* Onlooker.accept())))
        yield* pass("1 minute")
        const close = yield* opened(Kept.workerLayer(() => Effect.void))
        yield* pass("1 minute")
        assert.strictEqual((yield* Effect.flip(transact(Onlooker.getState("one"))))._tag, "JobNotFound")
        yield* close
      })
  )
})

describe("leases", () => {
  for (const ahead of [HOUR, -HOUR]) {
    timed(
      `a living holder keeps its job when the clock is set ${ahead > 0 ? "forward" : "back"}`,
      (clock) =>
        Effect.gen(function*() {
          const Long = Jobs.make("long", { data: Data, timeout: "10 minutes" })
          const { life, worker } = longWork(Long)
          yield* transact(Long.add("one", { n: 1 }))
          yield* opened(worker)
          yield* settle
          // another process watches over it, and has seen it
          yield* elsewhere(Effect.gen(function*() {
            yield* Effect.scoped(Long.subscribe("one"))
            yield* pass("1 second")
            clock.aheadMillis += ahead
            for (let minute = 0; minute < 30; minute++) yield* pass("1 minute")
          }))
          assert.deepStrictEqual([life.runs, life.interrupted], [1, 0])
          const [job] = (yield* transact(Long.list())).jobs
          assert.deepStrictEqual([job!.state, job!.attempts], ["running", 1])
          yield* life.end
        })
    )
  }

  // a transaction lives for five seconds
  const TIMEOUT = 10_000
  const slowness = { millis: 0 }
  timed(
    "a worker keeps its job for many leases on a store whose commits take nearly half of one",
    () =>
      Effect.gen(function*() {
        const Long = Jobs.make("long", { data: Data, timeout: TIMEOUT })
        const { life, worker } = longWork(Long)
        yield* transact(Long.add("one", { n: 1 }))
        slowness.millis = 0.45 * TIMEOUT
        yield* opened(worker)
        for (let step = 0; step < 50; step++) yield* pass(TIMEOUT / 5)
        const kept = [life.runs, life.interrupted]
        // the end is not what is tested, and must not be waited for
        slowness.millis = 0
        yield* life.end
        for (let step = 0; step < 5; step++) yield* pass(TIMEOUT / 5)
        assert.deepStrictEqual(kept, [1, 0])
        const [job] = (yield* transact(Long.list())).jobs
        assert.deepStrictEqual([job!.state, job!.attempts], ["finished", 1])
      }),
    slow(slowness)
  )

  const silence = { answerMillis: 0, store: Latch.makeUnsafe(true) }
  timed(
    "a lease is as old as the commit that took the job, whatever was renewed before its answer came",
    () =>
      Effect.gen(function*() {
        const Long = Jobs.make("long", { data: Data, timeout: TIMEOUT })
        const begun = new Map<unknown, number>()
        const interrupted = new Map<unknown, number>()
        // of the first runs: lost jobs run again
        const note = (times: Map<unknown, number>, id: unknown) =>
          Effect.map(
            Clock.currentTimeMillis,
            (now) => void (times.has(id) || times.set(id, Math.round(now / 100) * 100))
          )
        yield* opened(Long.workerLayer((job) =>
          Effect.andThen(note(begun, job.id), Effect.never).pipe(
            Effect.onInterrupt(() => note(interrupted, job.id))
          ), { concurrency: 2, grace: 0 }))
        yield* transact(Long.add("one", { n: 1 }))
        yield* settle
        yield* pass(0.65 * TIMEOUT)
        yield* transact(Long.pause)
        yield* transact(Long.add("two", { n: 2 }))
        yield* settle
        yield* transact(Long.resume)
        // the next commit takes the second job: from its late answer on the store is silent
        silence.answerMillis = 0.45 * TIMEOUT
        for (let step = 0; step < 170; step++) yield* pass(TIMEOUT / 100)
        yield* silence.store.open
        yield* settle
        assert.deepStrictEqual(Object.fromEntries(begun), { one: 0, two: 1.1 * TIMEOUT })
        assert.deepStrictEqual(Object.fromEntries(interrupted), { one: 2 * TIMEOUT, two: 1.65 * TIMEOUT })
      }),
    silent(silence)
  )

  timed(
    "who is told of dead jobs and cannot be interrupted does not hold up the end of its scope",
    () =>
      Effect.gen(function*() {
        const Dies = Jobs.make("dies", { data: Data, maxAttempts: 1 })
        const begun = yield* Deferred.make<void>()
        const stays = Effect.uninterruptible(Effect.never)
        const close = yield* opened(Dies.deadJobLayer(() => Effect.andThen(Deferred.succeed(begun, undefined), stays)))
        yield* transact(Dies.add("one", { n: 1 }))
        yield* transact(Dies.fail((yield* acceptNow(Dies))!, "no"))
        yield* Deferred.await(begun)
        const closing = yield* Effect.forkChild(close)
        for (let seconds = 0; seconds < 12; seconds++) yield* pass(1_000)
        yield* Fiber.join(closing)
      })
  )
})

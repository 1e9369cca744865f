/** Limits of how many runs begin in a window of time, over all processes. */
import { assert } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Schedule } from "effect"
import { Jobs, Tenant, Transaction } from "effect-dgen"
import { acceptNow, allKeys, Data, data, elsewhere, type Harness, opened, pass, settle } from "./support.ts"

const { transact } = Tenant
const WINDOW = 10_000
const LIMIT = 3

interface Start {
  readonly id: unknown
  readonly at: number
}

/** A worker that writes down when its handlers begin. */
const noting = (type: Jobs.JobType<any>, starts: Array<Start>) =>
  type.workerLayer((job) =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      starts.push({ id: job.id, at })
    }), { concurrency: 2 })

/** No window has more starts than the limit. */
const within = (starts: ReadonlyArray<Start>) => {
  const times = starts.map(({ at }) => at).toSorted((a, b) => a - b)
  for (let i = LIMIT; i < times.length; i++) {
    assert.isAtLeast(times[i]! - times[i - LIMIT]!, WINDOW, JSON.stringify(times))
  }
}

const add = (type: Jobs.JobType<{ url: string; done: number }>, ids: ReadonlyArray<number>, key?: string) =>
  transact(Effect.forEach(ids, (id) => type.add(id, data(id), { key, scheduledAt: 1 + id })))

const some = (count: number, from = 0) => Array.from({ length: count }, (_, i) => from + i)

/** Time passes until so many jobs are finished. */
const untilFinished = (type: Jobs.JobType<any>, count: number) =>
  Effect.repeat(Effect.andThen(pass(WINDOW / 8), transact(type.counts)), {
    until: ({ finished }) => finished === count
  })

export const jobsRates = ({ live, timed: byClock }: Harness, isNear: boolean) => {
  const timed: typeof byClock = (...test) => isNear ? byClock(...test) : undefined
  timed(
    "no more runs of a type begin in a window than its rate allows, in all processes together",
    100_000,
    Effect.gen(function*() {
      const Rated = Jobs.make("rated", { data: Data, rateLimit: { limit: LIMIT, window: WINDOW } })
      const starts: Array<Start> = []
      yield* opened(noting(Rated, starts))
      const { path } = yield* Tenant.Tenant
      yield* opened(Layer.provide(noting(Rated, starts), Layer.fresh(Tenant.layer(path))))
      yield* add(Rated, some(4))
      yield* pass(WINDOW / 2)
      assert.strictEqual(starts.length, LIMIT)
      yield* add(Rated, some(6, 4))
      yield* untilFinished(Rated, 10)
      within(starts)
      // and no fewer: the last one begins in the fourth window
      assert.isBelow(starts.at(-1)!.at - starts[0]!.at, 4 * WINDOW)
    })
  )

  timed(
    "no more runs of a key begin than its rate allows, in their order, and other keys do not wait for them",
    100_000,
    Effect.gen(function*() {
      const Rated = Jobs.make("rated keys", { data: Data, rateLimitPerKey: { limit: LIMIT, window: WINDOW } })
      const starts: Array<Start> = []
      yield* add(Rated, some(8), "busy")
      yield* add(Rated, [100, 101], "calm")
      yield* add(Rated, [200, 201, 202, 203])
      yield* opened(noting(Rated, starts))
      // what may begin at once does, before the clock goes on
      yield* settle
      yield* pass(1_000)
      // those without a key have no limit
      assert.sameMembers(starts.map(({ id }) => id), [0, 1, 2, 100, 101, 200, 201, 202, 203])
      yield* add(Rated, [8], "busy")
      yield* untilFinished(Rated, 15)
      const busy = starts.filter(({ id }) => (id as number) < 100)
      assert.deepStrictEqual(busy.map(({ id }) => id), some(9))
      within(busy)
      assert.isBelow(busy.at(-1)!.at - busy[0]!.at, 3 * WINDOW)
      // what was written of keys goes with them
      yield* pass(3 * WINDOW)
      yield* add(Rated, [300])
      yield* untilFinished(Rated, 16)
      const keys = (yield* allKeys).map(({ key }) => Buffer.from(key).toString("latin1"))
      assert.isFalse(keys.some((key) => key.includes("busy") || key.includes("calm")))
    })
  )

  live(
    "a rate holds for accept in another process, too",
    Effect.gen(function*() {
      const Rated = Jobs.make("accepted", { data: Data, rateLimit: { limit: 1, window: "1 day" } })
      yield* add(Rated, some(2))
      assert.isDefined(yield* acceptNow(Rated))
      assert.isUndefined(yield* elsewhere(acceptNow(Rated)))
      assert.deepStrictEqual(yield* transact(Rated.counts), { pending: 1, running: 1, finished: 0, dead: 0 })
    })
  )

  live(
    "a job that was due at once waits for its key, and another one of no key is taken past it",
    Effect.gen(function*() {
      const Rated = Jobs.make("at once", { data: Data, rateLimitPerKey: { limit: 1, window: "1 day" } })
      yield* transact(Effect.forEach(["a", "b"], (id) => Rated.add(id, data(1), { key: "k" })))
      yield* transact(Rated.add("free", data(1)))
      const taken = [yield* acceptNow(Rated), yield* elsewhere(acceptNow(Rated)), yield* acceptNow(Rated)]
      assert.sameMembers(taken.map((job) => job?.id), ["a", "free", undefined])
      const [waiting] = (yield* transact(Rated.list({ state: "pending" }))).jobs
      assert.strictEqual(waiting!.id, "b")
      assert.isAbove(waiting!.scheduledAt, waiting!.addedAt + 86_000_000)
    })
  )

  timed(
    "a job that fails again and again takes no turn from the others of its key",
    100_000,
    Effect.gen(function*() {
      const Rated = Jobs.make("failing", {
        data: Data,
        retry: Schedule.spaced(1),
        rateLimitPerKey: { limit: 1, window: WINDOW }
      })
      const runs: Array<unknown> = []
      yield* transact(Effect.forEach(["a", "b"], (id) => Rated.add(id, data(1), { key: "k" })))
      yield* opened(Rated.workerLayer((job) =>
        Effect.suspend(() => {
          runs.push(job.id)
          return job.id === "a" ? Effect.fail("never") : Effect.void
        })
      ))
      // it has had a turn that it waited for before the others come
      yield* Effect.repeat(pass(WINDOW / 8), { until: () => runs.length === 4 })
      yield* transact(Effect.forEach(["c", "d"], (id) => Rated.add(id, data(1), { key: "k" })))
      yield* Effect.repeat(pass(WINDOW / 8), { until: () => runs.length === 7 })
      assert.includeMembers(runs.slice(4), ["c", "d"])
    })
  )

  timed(
    "a job that is handed back stays first of those of its key",
    100_000,
    Effect.gen(function*() {
      const Rated = Jobs.make("handed back", { data: Data, rateLimitPerKey: { limit: 1, window: WINDOW } })
      yield* transact(Effect.forEach(["a", "b"], (id) => Rated.add(id, data(1), { key: "k" })))
      const [job] = [yield* acceptNow(Rated), yield* acceptNow(Rated)]
      yield* transact(Rated.release(job!))
      const next = Effect.repeat(Effect.andThen(pass(WINDOW / 8), acceptNow(Rated)), {
        until: (job) => job !== undefined
      })
      assert.deepStrictEqual([(yield* next)!.id, (yield* next)!.id], ["a", "b"])
    })
  )

  timed(
    "as much is cleared of keys as is written of them",
    100_000,
    Effect.gen(function*() {
      const Rated = Jobs.make("many keys", {
        data: Data,
        retention: 0,
        rateLimitPerKey: { limit: LIMIT, window: WINDOW }
      })
      yield* opened(Rated.workerLayer(() => Effect.void, { concurrency: 200 }))
      const logs: Array<number> = []
      for (const round of some(6)) {
        yield* transact(Effect.forEach(some(150), (i) => Rated.add(i, data(i), { key: `of round ${round}/${i}` })))
        yield* Effect.repeat(Effect.andThen(pass(1), transact(Rated.counts)), {
          until: ({ pending, running }) => pending + running === 0
        })
        yield* pass(2 * WINDOW)
        logs.push((yield* allKeys).filter(({ key }) => Buffer.from(key).includes("of round")).length)
      }
      assert.isAtMost(logs.at(-1)!, logs[0]!)
    })
  )

  timed(
    "who takes jobs before their time and finds none of a full key waits for one",
    100_000,
    Effect.gen(function*() {
      const Rated = Jobs.make("before its time", { data: Data, rateLimitPerKey: { limit: 1, window: "1 hour" } })
      yield* add(Rated, some(300), "k")
      assert.strictEqual((yield* acceptNow(Rated))!.id, 0)
      const fiber = yield* Effect.forkChild(Rated.accept({ maxScheduledTime: 1e12 }))
      const version = Effect.andThen(
        pass(1),
        transact(Effect.flatMap(Transaction.Transaction, (state) => state.readVersion))
      )
      // two looks give all of them their slots
      for (let i = 0; i < 10; i++) yield* version
      const before = yield* version
      for (let i = 0; i < 10; i++) yield* version
      assert.strictEqual(yield* version, before)
      yield* Fiber.interrupt(fiber)
    })
  )

  live(
    "rates that cannot be used are refused",
    Effect.gen(function*() {
      const wrong: ReadonlyArray<any> = [
        { limit: 0, window: 1 },
        { limit: 1.5, window: 1 },
        { limit: 1_001, window: 1 },
        { limit: 1, window: 0 },
        { limit: 1, window: Infinity },
        { limit: 1 },
        5,
        null
      ]
      for (const option of ["rateLimit", "rateLimitPerKey"]) {
        for (const rate of wrong) {
          const error = yield* Effect.flip(transact(Jobs.make("wrong", { data: Data, [option]: rate }).pause))
          assert.strictEqual((error as Jobs.InvalidOption).option, option)
        }
      }
    })
  )
}

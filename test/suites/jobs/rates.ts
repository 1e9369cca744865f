/** Limits of how many runs begin in a window of time, over all processes. */
import { assert } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { acceptNow, allKeys, Data, data, elsewhere, type Harness, opened, pass } from "./support.ts"

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

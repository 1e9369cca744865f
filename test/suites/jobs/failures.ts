/** What a failed run leaves behind, whatever it failed with, and whatever its schedule does. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Option, Schedule } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { hostileValues, isPresentable } from "../../support/hostileValues.ts"
import { acceptNow, allKeys, Data, data, type Harness, opened, SHORT } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data, maxAttempts: 1 })

/** Errors that are hard to write down. */
const errors: { readonly [name: string]: unknown } = {
  ...Object.fromEntries(Object.entries(hostileValues).map(([name, make]) => [name, make()])),
  "half of a character at the place where its text is cut": "a".repeat(3_999) + "\u{1f600}",
  "half of a character": "\ud800",
  "an object that throws when it is read": {
    toString() {
      throw new Error("unreadable")
    },
    get message() {
      throw new Error("unreadable")
    }
  },
  "an object without a prototype": Object.create(null),
  "a symbol": Symbol("x"),
  "nothing": undefined
}

const schedules: { readonly [name: string]: Schedule.Schedule<unknown, unknown> } = {
  "waits for ever": Schedule.spaced("Infinity"),
  "throws": Schedule.addDelay(Schedule.forever, () => Effect.die("a mistake"))
}

export const jobsFailures = ({ live }: Harness) => {
  for (const [name, error] of Object.entries(errors)) {
    live(
      `a run that fails with ${name} has failed, for its holder and for a worker`,
      Effect.gen(function*() {
        yield* transact(Work.add("held", data(1)))
        const job = (yield* acceptNow(Work))!
        assert.strictEqual(yield* transact(Work.fail(job, error)), "dead")
        yield* opened(Work.workerLayer(() => Effect.fail(error)))
        yield* transact(Work.add("worked", data(1)))
        const subscription = yield* Work.subscribe("worked")
        yield* Jobs.wait(subscription, { state: "dead" })
        const { jobs } = yield* transact(Work.list({ state: "dead" }))
        for (const { error } of jobs) assert.isTrue(isPresentable(error))
        assert.deepStrictEqual(new Set(jobs.map(({ id }) => id)), new Set(["held", "worked"]))
      })
    )
  }

  live(
    "handlers that give no effect fail their jobs, whatever they give, and hold nobody up",
    Effect.gen(function*() {
      const given: ReadonlyArray<() => unknown> = [
        ...Object.values(hostileValues),
        () => 5,
        () => undefined,
        () => Promise.resolve()
      ]
      let next = 0
      const handler = (): Effect.Effect<any> => given[next++ % given.length]!() as any
      let told = 0
      yield* opened(Work.deadJobLayer(() => {
        told++
        return handler()
      }))
      for (const worker of [Work.workerLayer(handler), Work.batchWorkerLayer(handler, { maxJobs: 1 })]) {
        const close = yield* opened(worker)
        yield* transact(Effect.forEach(given, (_, i) => Work.add(i, data(i))))
        yield* Effect.repeat(transact(Work.counts), { until: ({ dead }) => dead === given.length })
        yield* close
        assert.strictEqual(yield* Work.removeAll(), given.length)
      }
      yield* Effect.repeat(Effect.sleep(1), { until: () => told === 2 * given.length })
    }),
    30_000
  )

  for (const [name, retry] of Object.entries(schedules)) {
    live(
      `a job whose schedule ${name} is dead after its failure, and holds nobody up`,
      Effect.gen(function*() {
        const Retried = Jobs.make("work", { data: Data, retry })
        yield* transact(Retried.add("one", data(1)))
        yield* transact(Retried.add("two", data(2)))
        const done = yield* Deferred.make<void>()
        yield* opened(
          Retried.workerLayer((job) =>
            job.id === "one" ? Effect.fail("no") : Deferred.succeed(done, undefined).pipe(Effect.asVoid)
          )
        )
        yield* Deferred.await(done)
        const subscription = yield* Retried.subscribe("one")
        yield* Jobs.wait(subscription, { state: "dead" })
        const { jobs } = yield* transact(Retried.list({ state: "dead" }))
        assert.include(jobs[0]!.error, "no")
      })
    )
  }

  live(
    "looking at a running job is no sign of life of its holder",
    Effect.gen(function*() {
      const Hasty = Jobs.make("hasty", { data: Data, timeout: SHORT })
      yield* transact(Hasty.add("one", data(1)))
      const job = Option.getOrThrow(yield* Hasty.accept())
      const looks = Effect.all([Hasty.getState("one"), Hasty.getData("one"), Hasty.isResubmitted(job)])
      yield* Effect.repeat(Effect.andThen(Effect.yieldNow, transact(looks)), {
        until: ([state]) => state === "pending"
      })
    })
  )

  live(
    "a key leaves nothing behind when its last job is gone",
    Effect.gen(function*() {
      const Keyed = Jobs.make("work", { data: Data, maxRunningPerKey: 2 })
      const round = Effect.fnUntraced(function*(key: string) {
        for (const id of [1, 2, 3]) yield* transact(Keyed.add(id, data(1), { key }))
        const first = Option.getOrThrow(yield* Keyed.accept())
        const second = Option.getOrThrow(yield* Keyed.accept())
        assert.isUndefined(yield* acceptNow(Keyed))
        yield* transact(Effect.andThen(Keyed.finish(first), Keyed.finish(second)))
        const third = Option.getOrThrow(yield* Keyed.accept())
        yield* transact(Keyed.finish(third))
        for (const id of [1, 2, 3]) yield* transact(Keyed.remove(id))
      })
      yield* round("first")
      const rows = (yield* allKeys).length
      for (const key of ["a", "b", "c"]) yield* round(key)
      assert.strictEqual((yield* allKeys).length, rows)
      assert.isFalse((yield* allKeys).some(({ key }) => Buffer.from(key).includes("held")))
    })
  )
}

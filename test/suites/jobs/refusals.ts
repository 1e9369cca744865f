/** What is refused: typed errors, and nothing written. */
import { assert } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Option, Result, Schema } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { acceptNow, allKeys, Data, data, type Harness, untyped } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data })
const Other = Jobs.make("other", { data: Data })
const Texts = Jobs.make("texts", { data: Schema.String })
const raw = untyped(Work)

/** Calls of a program without types: each with the error it must give, and the option it must name. */
const badCalls: ReadonlyArray<readonly [string, () => Effect.Effect<any, any, any>, string, string?]> = [
  ["data of another shape", () => raw.add!("a", { url: 1 }), "InvalidData"],
  ["no data", () => raw.add!("a"), "InvalidData"],
  ["no id", () => raw.add!(undefined, data(1)), "InvalidId"],
  ["an id that is a plain object", () => raw.add!({}, data(1)), "InvalidId"],
  ["an id with a lone surrogate", () => raw.add!("\ud800", data(1)), "InvalidId"],
  ["an id that is too long", () => raw.add!("a".repeat(Jobs.ID_LIMIT_BYTES), data(1)), "InvalidId"],
  ["a time that is none", () => raw.add!("a", data(1), { scheduledAt: "soon" }), "InvalidOption", "scheduledAt"],
  ["a time that is not a number", () => raw.add!("a", data(1), { scheduledAt: NaN }), "InvalidOption", "scheduledAt"],
  ["a time beyond all dates", () => raw.add!("a", data(1), { scheduledAt: 1e300 }), "InvalidOption", "scheduledAt"],
  ["a delay that is none", () => raw.add!("a", data(1), { delay: "soon" }), "InvalidOption", "delay"],
  ["an endless delay", () => raw.add!("a", data(1), { delay: "Infinity" }), "InvalidOption", "delay"],
  ["a time and a delay", () => raw.add!("a", data(1), { delay: 1, scheduledAt: 1 }), "InvalidOption", "delay"],
  ["a fraction as priority", () => raw.add!("a", data(1), { priority: 0.5 }), "InvalidOption", "priority"],
  ["a priority out of range", () => raw.add!("a", data(1), { priority: 101 }), "InvalidOption", "priority"],
  ["an unknown ifExists", () => raw.add!("a", data(1), { ifExists: "replace" }), "InvalidOption", "ifExists"],
  ["a key that is no key", () => raw.add!("a", data(1), { key: {} }), "InvalidOption", "key"],
  ["options that are no object", () => raw.add!("a", data(1), 5), "InvalidOption", "options"],
  ["a timeout that is none", () => raw.setTimeout!("never"), "InvalidOption", "timeout"],
  ["an endless timeout", () => raw.setTimeout!("Infinity"), "InvalidOption", "timeout"],
  ["a timeout too short for heartbeats", () => raw.setTimeout!(1), "InvalidOption", "timeout"],
  ["no job", () => raw.update!(undefined), "InvalidOption", "job"],
  ["something that is no job", () => raw.finish!({ type: "work", id: "a" }), "InvalidOption", "job"],
  ["a page without rows", () => raw.list!({ limit: 0 }), "InvalidOption", "limit"],
  ["a page that does not begin anywhere", () => raw.list!({ after: "x" }), "InvalidOption", "after"],
  ["a page with options that are no object", () => raw.list!(null), "InvalidOption", "options"],
  ["a purge with options that are no object", () => raw.purgeDead!(null), "InvalidOption", "options"],
  ["a state that does not exist", () => raw.list!({ state: "lost" }), "InvalidOption", "state"]
]

const badDefinitions: ReadonlyArray<readonly [string, () => Jobs.JobType<any>]> = [
  ["type", () => Jobs.make({} as any, { data: Data })],
  ["type", () => Jobs.make("t".repeat(2_000), { data: Data })],
  ["data", () => Jobs.make("t", undefined as any)],
  ["data", () => Jobs.make("t", { data: {} as any })],
  ["timeout", () => Jobs.make("t", { data: Data, timeout: 1 })],
  ["timeout", () => Jobs.make("t", { data: Data, timeout: "often" as any })],
  ["retention", () => Jobs.make("t", { data: Data, retention: "long" as any })],
  ["retention", () => Jobs.make("t", { data: Data, retention: { dead: "long" as any } })],
  ["retry", () => Jobs.make("t", { data: Data, retry: 3 as any })],
  ["maxAttempts", () => Jobs.make("t", { data: Data, maxAttempts: 0 })],
  ["maxRunning", () => Jobs.make("t", { data: Data, maxRunning: 1.5 })],
  ["maxRunningPerKey", () => Jobs.make("t", { data: Data, maxRunningPerKey: -1 })]
]

export const jobsRefusals = ({ live, timed }: Harness) => {
  for (const [title, call, tag, option] of badCalls) {
    live(
      `refuses ${title}`,
      Effect.gen(function*() {
        const before = (yield* allKeys).length
        const error = yield* Effect.flip(transact(call()))
        assert.strictEqual(error._tag, tag)
        assert.strictEqual(error.type, "work")
        assert.include(error.message, "work")
        if (option !== undefined) assert.strictEqual(error.option, option)
        assert.strictEqual((yield* allKeys).length, before)
      })
    )
  }

  for (const [i, [option, make]] of badDefinitions.entries()) {
    live(
      `a definition whose ${option} cannot be used makes every operation fail (${i})`,
      Effect.gen(function*() {
        const type = make()
        const worker = Effect.scoped(Effect.asVoid(Layer.build(type.workerLayer(() => Effect.void))))
        const calls: ReadonlyArray<Effect.Effect<unknown, any, Tenant.Tenant>> = [
          transact(type.add("a", data(1))),
          transact(type.counts),
          type.accept(),
          Effect.scoped(type.subscribe("a")),
          worker
        ]
        for (const call of calls) {
          const error = yield* Effect.flip(call)
          assert.deepStrictEqual([error._tag, error.option], ["InvalidOption", option])
        }
        assert.strictEqual((yield* allKeys).length, 0)
      })
    )
  }

  live(
    "refuses options of a worker and of a schedule",
    Effect.gen(function*() {
      const run = () => Effect.void
      const layers = [
        [Work.workerLayer(undefined as unknown as typeof run), "handler"],
        [Work.workerLayer(run, { concurrency: 0 }), "concurrency"],
        [Work.workerLayer(run, { concurrency: 1e9 }), "concurrency"],
        [Work.workerLayer(run, { grace: "soon" as any }), "grace"],
        [Work.workerLayer(run, { maxAttempts: 0 }), "maxAttempts"],
        [Work.workerLayer(run, { retry: 5 as any }), "retry"],
        [Work.workerLayer(run, null as any), "options"],
        [Work.cronLayer("c", null as any), "options"],
        [Work.cronLayer("c", { cron: "* * * * *", data: 5 as any }), "data"],
        [Work.cronLayer("", { cron: "* * * * *", data: data(1) }), "name"],
        [Work.cronLayer("c", { cron: "every day", data: data(1) }), "cron"],
        [Work.cronLayer("c", { cron: "0 0 30 2 *", data: data(1) }), "cron"],
        [Work.cronLayer("c", { cron: "* * * * *", timeZone: "Mars/Base", data: data(1) }), "cron"],
        [Work.cronLayer("c", { cron: "0 0 31 2 *", data: data(1) }), "cron"],
        [Work.cronLayer("c", { cron: "@never", data: data(1) }), "cron"],
        [Work.cronLayer("c".repeat(5_000), { cron: "* * * * *", data: data(1) }), "name"],
        [Work.cronLayer("c", { cron: "* * * * *", missedLimit: 0, data: data(1) }), "missedLimit"],
        [Work.cronLayer("c", { cron: "* * * * *", restLimit: -1, data: data(1) }), "restLimit"],
        [Work.cronLayer("c", { cron: "* * * * *", onDstGap: "later" as any, data: data(1) }), "onDstGap"],
        [Work.cronLayer("c", { cron: "* * * * *", onDstOverlap: "never" as any, data: data(1) }), "onDstOverlap"],
        [Work.cronLayer("c", { cron: "* * * * *", missed: "some" as any, data: data(1) }), "missed"],
        [Work.cronLayer("c", { cron: "* * * * *", priority: 1e3, data: data(1) }), "priority"]
      ] as const
      for (const [layer, option] of layers) {
        const built: Effect.Effect<unknown, Jobs.InvalidOption, Tenant.Tenant> = Effect.scoped(Layer.build(layer))
        const error = yield* Effect.flip(built)
        assert.deepStrictEqual([error._tag, error.option], ["InvalidOption", option])
      }
      assert.strictEqual((yield* allKeys).length, 0)
    })
  )

  live(
    "refuses bad times of accept and wait",
    Effect.gen(function*() {
      const errors = [
        yield* Effect.flip(Work.accept(null as any)),
        yield* Effect.flip(Work.accept({ timeout: "soon" as any })),
        yield* Effect.flip(Work.accept({ maxScheduledTime: "soon" }))
      ]
      assert.deepStrictEqual(errors.map((error) => error._tag), ["InvalidOption", "InvalidOption", "InvalidOption"])
      yield* transact(Work.add("one", data(1)))
      const subscription = yield* Work.subscribe("one")
      const error = yield* Effect.flip(Jobs.wait(subscription, { timeout: "soon" as any }))
      assert.strictEqual(error._tag, "InvalidOption")
      const unknown = yield* Effect.flip(Jobs.wait(subscription, { state: "done" as any }))
      assert.deepStrictEqual([unknown._tag, (unknown as Jobs.InvalidOption).option], ["InvalidOption", "state"])
      assert.isTrue(Option.isNone(yield* Jobs.wait([])))
    })
  )

  live(
    "refuses to wait for, or end, what is no subscription",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(1)))
      const subscription = yield* Work.subscribe("one")
      const refused = (...args: ReadonlyArray<unknown>) => Effect.flip(untyped(Jobs).wait!(...args))
      for (const none of [null, undefined, 5, "one", {}, { "~effect-dgen/Jobs/Subscription": 5 }]) {
        for (const subscriptions of [none, [none], [subscription, none]]) {
          const error = yield* refused(subscriptions)
          assert.deepStrictEqual([error._tag, error.option], ["InvalidOption", "subscriptions"])
          assert.include(error.message, "subscribe")
          assert.notInclude(error.message, "undefined")
        }
        const exit = yield* Effect.exit(Jobs.unsubscribe(none as any))
        const defect = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
        assert.instanceOf(defect, Jobs.InvalidOption)
      }
      for (const options of [null, 5]) {
        assert.strictEqual((yield* refused(subscription, options)).option, "options")
      }
      yield* Jobs.unsubscribe(subscription)
    })
  )

  live(
    "what a refused operation left out can be made up for in the same transaction",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(1)))
      const added = yield* transact(
        Effect.catchTag(Work.add("one", data(2)), "JobExists", () => Work.add("two", data(2)))
      )
      assert.strictEqual(added, "added")
      assert.deepStrictEqual(yield* transact(Work.getData("one")), data(1))
      assert.deepStrictEqual(yield* transact(Work.getData("two")), data(2))
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 2, running: 0, finished: 0, dead: 0 })
    })
  )

  live(
    "a job of another type is refused",
    Effect.gen(function*() {
      yield* transact(Other.add("one", data(1)))
      const job = Option.getOrThrow(yield* Other.accept())
      assert.strictEqual((yield* Effect.flip(transact(Work.finish(job))))._tag, "InvalidOption")
      assert.strictEqual(yield* transact(Other.getState("one")), "running")
    })
  )

  live(
    "progress that is no function is refused, and the job is still held",
    Effect.gen(function*() {
      yield* transact(Work.add("one", data(1)))
      const job = (yield* acceptNow(Work))!
      const error = yield* Effect.flip(transact(Work.updateProgress(job, 5 as any)))
      assert.deepStrictEqual([error._tag, (error as Jobs.InvalidOption).option], ["InvalidOption", "change"])
      yield* transact(Work.finish(job))
    })
  )

  live(
    "there is no job to look at, remove, resubmit or watch",
    Effect.gen(function*() {
      const calls: ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }, Tenant.Tenant>> = [
        transact(Work.getData("none")),
        transact(Work.getState("none")),
        transact(Work.remove("none")),
        transact(Work.resubmit("none")),
        transact(Work.requeueDead("none")),
        Effect.scoped(Work.subscribe("none"))
      ]
      for (const call of calls) assert.strictEqual((yield* Effect.flip(call))._tag, "JobNotFound")
    })
  )

  live(
    "long data is kept whole through every change; longer data is refused",
    Effect.gen(function*() {
      const long = (letter: string, bytes: number) => letter.repeat(bytes)
      yield* transact(Texts.add("one", long("a", 3_900_000)))
      const job = Option.getOrThrow(yield* Texts.accept())
      assert.strictEqual(job.data, long("a", 3_900_000))
      yield* transact(Texts.update(job))
      yield* transact(Texts.resubmit("one", { data: long("b", 3_900_000) }))
      assert.strictEqual(yield* transact(Texts.getData("one")), long("a", 3_900_000))
      yield* transact(Texts.finish(job, "short"))
      assert.strictEqual(yield* transact(Texts.getData("one")), long("b", 3_900_000))
      yield* transact(Texts.resubmit("one", { data: "short again" }))
      assert.strictEqual(yield* transact(Texts.getData("one")), "short again")
      // nothing of the long data is left
      assert.isBelow((yield* allKeys).reduce((sum, { key, value }) => sum + key.length + value.length, 0), 1_000)
      const error = yield* Effect.flip(transact(Texts.add("two", long("c", Jobs.DATA_LIMIT_BYTES))))
      assert.deepStrictEqual([error._tag, (error as Jobs.JobTooLarge).id], ["JobTooLarge", "two"])
      assert.strictEqual((yield* Effect.flip(transact(Texts.getState("two"))))._tag, "JobNotFound")
    })
  )

  live(
    "a job whose data cannot be read is dead when its grace is over, says why, and holds nobody up",
    Effect.gen(function*() {
      const Older = Jobs.make("work", { data: Schema.String })
      const Work = Jobs.make("work", { data: Data, unreadableGrace: 0 })
      yield* transact(Older.add("old", "text", { scheduledAt: 1 }))
      yield* transact(Work.add("new", data(1)))
      const error = yield* Effect.flip(transact(Work.getData("old")))
      assert.strictEqual(error._tag, "UnreadableData")
      const job = Option.getOrThrow(yield* Work.accept())
      assert.strictEqual(job.id, "new")
      const { jobs } = yield* transact(Work.list({ state: "dead" }))
      assert.deepStrictEqual(jobs.map(({ id }) => id), ["old"])
      assert.isTrue(Result.isFailure(jobs[0]!.data))
      assert.include(jobs[0]!.error, "cannot be read")
      yield* transact(Work.resubmit("old", { data: data(2) }))
      assert.deepStrictEqual((yield* acceptNow(Work))!.data, data(2))
    })
  )

  timed(
    "a job whose data a version cannot read waits ten minutes for one that can, and is dead then",
    Date.UTC(2030, 0, 1),
    Effect.gen(function*() {
      const Older = Jobs.make("work", { data: Schema.Struct({ url: Schema.String }), maxAttempts: 3 })
      yield* transact(Older.add("one", { url: "a.png" }))
      yield* transact(Older.add("two", { url: "b.png" }))
      assert.isUndefined(yield* acceptNow(Work))
      const waiting = yield* transact(Work.list())
      assert.deepStrictEqual(waiting.jobs.map(({ attempts, state }) => [state, attempts]), [
        ["pending", 0],
        ["pending", 0]
      ])
      assert.include(waiting.jobs[0]!.error, "done")
      yield* TestClock.adjust("9 minutes")
      assert.isUndefined(yield* acceptNow(Work))
      // one that is still there takes it, and it counts as a first attempt
      yield* TestClock.adjust("30 seconds")
      const job = (yield* acceptNow(Older))!
      assert.deepStrictEqual([job.id, job.attempt], ["one", 1])
      yield* transact(Older.finish(job))
      yield* TestClock.adjust("30 seconds")
      assert.isUndefined(yield* acceptNow(Work))
      const { jobs: [dead] } = yield* transact(Work.list({ state: "dead" }))
      assert.strictEqual(dead!.id, "two")
      assert.include(dead!.error, "done")
    })
  )

  timed(
    "other data for a job that could not be read is taken at once",
    Date.UTC(2030, 0, 1),
    Effect.gen(function*() {
      const Older = Jobs.make("work", { data: Schema.String })
      yield* transact(Older.add("one", "text"))
      assert.isUndefined(yield* acceptNow(Work))
      yield* transact(Work.resubmit("one", { data: data(2) }))
      assert.deepStrictEqual((yield* acceptNow(Work))!.data, data(2))
    })
  )
}

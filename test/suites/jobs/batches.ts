/** Handlers of several jobs at once, and the signal of a stop. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Fiber, type Layer, Logger, Result, Schedule } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { Data, data, type Harness, opened, settle } from "./support.ts"

const { transact } = Tenant

const addAll = <A>(type: Jobs.JobType<A>, count: number, data: (n: number) => A) =>
  transact(
    Effect.forEach(Array.from({ length: count }, (_, i) => i), (i) => type.add(i, data(i), { scheduledAt: 1 + i }))
  )

const until = <A>(type: Jobs.JobType<A>, is: (counts: Jobs.Counts) => boolean) =>
  Effect.repeat(transact(type.counts), { until: is })

export const jobsBatches = ({ live }: Harness) => {
  live(
    "jobs come to their handler up to maxJobs at once, in the order of the queue, and each has its own result",
    Effect.gen(function*() {
      const Many = Jobs.make("many", { data: Data, retry: Schedule.spaced("1 milli"), maxAttempts: 2 })
      const batches: Array<ReadonlyArray<string>> = []
      yield* addAll(Many, 7, data)
      yield* opened(Many.batchWorkerLayer(
        (jobs) =>
          Effect.sync(() => {
            batches.push(jobs.map(({ attempt, id }) => `${id}/${attempt}`))
            return jobs.map(({ attempt, data: { done } }): Jobs.BatchResult<{ url: string; done: number }> =>
              done === 1 || (done === 2 && attempt === 1)
                ? Result.fail(`no ${done}`)
                : Result.succeed(done === 3 ? data(30) : undefined)
            )
          }),
        { maxJobs: 4, maxWait: "10 millis" }
      ))
      yield* until(Many, ({ dead, finished }) => dead + finished === 7)
      assert.deepStrictEqual(batches[0], ["0/1", "1/1", "2/1", "3/1"])
      assert.isTrue(batches.every((batch) => batch.length <= 4))
      assert.deepStrictEqual(
        batches.flat().toSorted(),
        ["0/1", "1/1", "1/2", "2/1", "2/2", "3/1", "4/1", "5/1", "6/1"]
      )
      const [dead] = (yield* transact(Many.list({ state: "dead" }))).jobs
      assert.strictEqual(dead!.id, 1)
      assert.include(dead!.error, "no 1")
      assert.deepStrictEqual(yield* transact(Many.getData(3)), data(30))
      assert.deepStrictEqual(yield* transact(Many.getData(2)), data(2))
    })
  )

  live(
    "the log lines of a batch name its jobs",
    Effect.gen(function*() {
      const Spoken = Jobs.make("spoken", { data: Data })
      const lines: Array<string> = []
      const logger = Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))
      yield* addAll(Spoken, 3, data)
      yield* opened(Spoken.batchWorkerLayer(() => Effect.log("at work"), { maxJobs: 2, maxWait: 1 })).pipe(
        Effect.provide(Logger.layer([logger]))
      )
      yield* until(Spoken, ({ finished }) => finished === 3)
      const jobs = lines.filter((line) => line.includes("at work")).map((line) =>
        / job="?([^"]*)"? /.exec(`${line} `)?.[1]
      )
      assert.deepStrictEqual(jobs, ["0 and 1 more", "2"])
    })
  )

  live(
    "a batch that fails, dies or answers nonsense is a failed attempt of each of its jobs; nothing finishes all",
    Effect.gen(function*() {
      const Bad = Jobs.make("bad", { data: Data, maxAttempts: 1 })
      const answers: ReadonlyArray<() => Effect.Effect<any, unknown>> = [
        () => Effect.fail("failed"),
        () => Effect.die("died"),
        () => Effect.succeed([Result.succeed(undefined)]),
        () => Effect.succeed(["no result", "nor this"]),
        () => Effect.interrupt,
        () => Effect.void
      ]
      let turn = 0
      yield* opened(Bad.batchWorkerLayer(() => answers[turn++]!(), { maxJobs: 2, maxWait: "1 minute" }))
      for (const answer of answers.keys()) {
        yield* transact(Effect.forEach([0, 1], (i) => Bad.add([answer, i], data(0))))
        yield* until(Bad, ({ dead, finished }) => dead + finished === 2 * (answer + 1))
      }
      const { jobs } = yield* transact(Bad.list({ state: "finished" }))
      assert.sameDeepMembers(jobs.map(({ id }) => id), [[5, 0], [5, 1]])
    })
  )

  live(
    "a batch does not take jobs that it would keep waiting",
    Effect.gen(function*() {
      const Slow = Jobs.make("slow batch", { data: Data })
      const begun = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      yield* addAll(Slow, 2, data)
      yield* opened(Slow.batchWorkerLayer(
        () => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)),
        { maxJobs: 5, maxWait: 0 }
      ))
      yield* Deferred.await(begun)
      yield* transact(Effect.forEach([10, 11, 12], (i) => Slow.add(i, data(i))))
      yield* settle
      assert.deepStrictEqual(yield* transact(Slow.counts), { pending: 3, running: 2, finished: 0, dead: 0 })
      yield* Deferred.succeed(go, undefined)
      yield* until(Slow, ({ finished }) => finished === 5)
    })
  )

  live(
    "a job that is removed leaves its batch, and the others go on; with the last one the batch is interrupted",
    Effect.gen(function*() {
      const Left = Jobs.make("left", { data: Data, timeout: "3 days" })
      const begun = yield* Deferred.make<void>()
      const interrupted = yield* Deferred.make<void>()
      yield* addAll(Left, 2, data)
      yield* opened(Left.batchWorkerLayer(
        () =>
          Effect.andThen(Deferred.succeed(begun, undefined), Effect.never).pipe(
            Effect.onInterrupt(() => Deferred.succeed(interrupted, undefined))
          ),
        { maxJobs: 2 }
      ))
      yield* Deferred.await(begun)
      yield* transact(Left.remove(0))
      yield* settle
      assert.isFalse(yield* Deferred.isDone(interrupted))
      yield* transact(Left.remove(1))
      yield* Deferred.await(interrupted)
    })
  )

  live(
    "a stop lets batches end, and hands back what does not",
    Effect.gen(function*() {
      const Ends = Jobs.make("ends", { data: Data })
      const ways = { stops: undefined, waits: Effect.never, stays: Effect.uninterruptible(Effect.never) }
      for (const [how, work] of Object.entries(ways)) {
        const begun = yield* Deferred.make<void>()
        yield* transact(Effect.forEach([0, 1], (i) => Ends.add([how, i], data(i))))
        const close = yield* opened(Ends.batchWorkerLayer(
          (_, { stopping }) => Effect.andThen(Deferred.succeed(begun, undefined), work ?? stopping),
          { maxJobs: 2, grace: work === undefined ? "1 minute" : 0 }
        ))
        yield* Deferred.await(begun)
        yield* close
      }
      assert.deepStrictEqual(yield* transact(Ends.counts), { pending: 4, running: 0, finished: 2, dead: 0 })
    })
  )

  live(
    "options of batches that cannot be used are refused",
    Effect.gen(function*() {
      const Many = Jobs.make("refused", { data: Data })
      const refusing = Many.batchWorkerLayer as unknown as (
        ...args: ReadonlyArray<unknown>
      ) => Layer.Layer<never, Jobs.InvalidOption, Tenant.Tenant>
      for (
        const options of [{ maxJobs: 0 }, { maxJobs: 1.5 }, { maxJobs: Infinity }, { maxWait: "soon" }, {
          maxWait: Infinity
        }]
      ) {
        const error = yield* Effect.flip(opened(refusing(() => Effect.void, options)))
        assert.strictEqual(error.option, Object.keys(options)[0])
      }
      const error = yield* Effect.flip(opened(refusing(5)))
      assert.strictEqual(error.option, "handler")
    })
  )

  live(
    "a batch ends whatever its handler gives: what is no effect, and results that throw when they are read",
    Effect.gen(function*() {
      const hostile: ProxyHandler<object> = {
        get: () => {
          throw new Error("not to be read")
        }
      }
      const given: ReadonlyArray<() => unknown> = [
        () => undefined,
        () => [],
        () => 5,
        () => "done",
        async () => {},
        () => Effect.flatMap(Effect.void, () => 5 as any),
        () => Effect.succeed(new Proxy([1, 2], hostile)),
        () => Effect.succeed([new Proxy({}, { ...hostile, has: hostile.get as any }), Result.succeed(undefined)]),
        () => {
          throw new Proxy({}, hostile)
        }
      ]
      for (const [index, give] of given.entries()) {
        const Odd = Jobs.make(["odd", index], { data: Data, maxAttempts: 1 })
        yield* addAll(Odd, 2, data)
        const close = yield* opened(Odd.batchWorkerLayer(give as () => Effect.Effect<void>, { maxJobs: 2, maxWait: 0 }))
        const { dead } = yield* until(Odd, ({ dead, finished }) => dead + finished === 2)
        assert.isAbove(dead, 0, String(give))
        yield* close
      }
    })
  )

  live(
    "a handler hears of a stop before its grace is over, by an effect and by a signal, and is not interrupted",
    Effect.gen(function*() {
      const Told = Jobs.make("told", { data: Data })
      const begun = yield* Deferred.make<void>()
      const events: Array<string> = []
      const close = yield* opened(Told.workerLayer((_, context) =>
        Effect.gen(function*() {
          const { signal, stopSignal } = context
          assert.isFalse(stopSignal.aborted)
          const aborted = new Promise<void>((resolve) => stopSignal.addEventListener("abort", () => resolve()))
          yield* Deferred.succeed(begun, undefined)
          yield* context.stopping
          yield* Effect.promise(() => aborted)
          events.push(`${stopSignal.aborted} ${signal.aborted} ${context.stopSignal === stopSignal}`)
          yield* context.update(data(5))
        }), { grace: "1 minute" }))
      yield* transact(Told.add("one", data(1)))
      yield* Deferred.await(begun)
      const closing = yield* Effect.forkChild(close)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(events, ["true false true"])
      assert.deepStrictEqual(yield* transact(Effect.all([Told.getState("one"), Told.getData("one")])), [
        "finished",
        data(5)
      ])
    })
  )
}

/** What is told of runs and deaths: log lines, who listens, metrics. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Logger, Metric, Option, Schedule, Schema } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { acceptNow, Data, data, elsewhere, type Harness, opened, SHORT } from "./support.ts"

const { transact } = Tenant

interface Line {
  readonly level: string
  readonly text: string
}

/** Keeps what is logged. */
const logging = <A, E, R>(effect: (lines: Array<Line>) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const lines: Array<Line> = []
    const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
      lines.push({ level: logLevel, text: (message as ReadonlyArray<unknown>).join(" ") })
    })
    return Effect.provide(effect(lines), Logger.layer([logger]))
  })

const has = (lines: ReadonlyArray<Line>, level: string, ...parts: ReadonlyArray<string>) =>
  assert.isTrue(
    lines.some((line) => line.level === level && parts.every((part) => line.text.includes(part))),
    `${level}: ${parts.join(", ")} in ${JSON.stringify(lines)}`
  )

/** What the metrics of jobs of a type show. */
const measured = (type: string) =>
  Effect.map(Metric.snapshot, (snapshot) =>
    Object.fromEntries(
      snapshot
        .filter(({ attributes }) => (attributes as any)?.type === JSON.stringify(type))
        .map(({ id, state }) => [id.replace("effect_dgen_jobs_", ""), state as any])
    ))

export const jobsReports = ({ live }: Harness) => {
  live(
    "each failure of a handler is logged with job, attempt and cause, and its death louder",
    logging((lines) =>
      Effect.gen(function*() {
        const Loud = Jobs.make("loud", { data: Data, retry: Schedule.spaced("1 milli"), maxAttempts: 2 })
        const told = yield* Deferred.make<Jobs.DeadJob<unknown>>()
        yield* opened(Loud.deadJobLayer((dead) => Deferred.succeed(told, dead)))
        yield* opened(
          Loud.workerLayer((job) =>
            job.attempt === 1 ? Effect.fail("out of paper") : Effect.die(new Error("out of ink"))
          )
        )
        yield* transact(Loud.add("letter", data(7)))
        const dead = yield* Deferred.await(told)
        assert.deepStrictEqual({ ...dead, error: "", diedAt: 0 }, {
          type: "loud",
          id: "letter",
          data: data(7),
          attempts: 2,
          error: "",
          diedAt: 0
        })
        assert.include(dead.error, "out of ink")
        assert.isAbove(dead.diedAt, 0)
        has(lines, "Warn", "\"loud\"", "\"letter\"", "attempt 1", "out of paper")
        has(lines, "Error", "\"loud\"", "\"letter\"", "attempt 2", "out of ink")
        assert.strictEqual(lines.length, 2)
      })
    )
  )

  live(
    "a holder's silence and a failure by hand are logged and told, whatever a listener does",
    logging((lines) =>
      Effect.gen(function*() {
        const Once = Jobs.make("once", { data: Data, timeout: SHORT, maxAttempts: 1 })
        const told: Array<unknown> = []
        const all = yield* Deferred.make<void>()
        yield* opened(Once.deadJobLayer((dead) =>
          Effect.suspend(() => {
            told.push([dead.id, dead.data])
            return told.length === 2 ? Deferred.succeed(all, undefined) : Effect.die("a handler that dies")
          })
        ))
        yield* transact(Once.add("by hand", data(1)))
        const byHand = (yield* acceptNow(Once))!
        assert.strictEqual(byHand.id, "by hand")
        yield* transact(Once.fail(byHand, new Error("no more")))
        yield* transact(Once.add("silent", data(2)))
        Option.getOrThrow(yield* Once.accept())
        yield* Deferred.await(all)
        assert.deepStrictEqual(told, [["by hand", data(1)], ["silent", data(2)]])
        has(lines, "Error", "\"by hand\"", "attempt 1", "no more")
        has(lines, "Error", "\"silent\"", "attempt 1", "no sign of life")
        has(lines, "Error", "the handler of dead jobs", "\"by hand\"")
      })
    )
  )

  live(
    "a listener that gives no effect is told of the next dead job all the same",
    Effect.gen(function*() {
      const Once = Jobs.make("odd listener", { data: Data, maxAttempts: 1 })
      const told: Array<unknown> = []
      const all = yield* Deferred.make<void>()
      const listen = (dead: Jobs.DeadJob<unknown>) => {
        told.push(dead.id)
        return told.length === 3 ? Deferred.succeed(all, undefined) : told.length === 1 ? undefined : Promise.resolve()
      }
      yield* opened(Once.deadJobLayer(listen as (dead: Jobs.DeadJob<unknown>) => Effect.Effect<unknown>))
      for (const id of [1, 2, 3]) {
        yield* transact(Once.add(id, data(1)))
        yield* transact(Once.fail((yield* acceptNow(Once))!, "no"))
      }
      yield* Deferred.await(all)
      assert.deepStrictEqual(told, [1, 2, 3])
    })
  )

  live(
    "a transaction that does not commit tells nothing of its jobs, and another process none of ours",
    logging((lines) =>
      Effect.gen(function*() {
        const Once = Jobs.make("undone", { data: Data, maxAttempts: 1 })
        const told: Array<unknown> = []
        yield* elsewhere(opened(Once.deadJobLayer(({ id }) => Effect.sync(() => told.push(id)))))
        yield* transact(Once.add("one", data(1)))
        const job = (yield* acceptNow(Once))!
        yield* Effect.exit(transact(Effect.andThen(Once.fail(job, "no"), Effect.fail("undo"))))
        assert.deepStrictEqual(lines, [])
        yield* transact(Once.fail(job, "yes"))
        has(lines, "Error", "\"one\"", "yes")
        assert.deepStrictEqual(told, [])
      })
    )
  )

  live(
    "an error that cannot be shown costs its own attempt alone",
    logging((lines) =>
      Effect.gen(function*() {
        const Once = Jobs.make("hostile", { data: Data, maxAttempts: 1 })
        const told = yield* Deferred.make<Jobs.DeadJob<unknown>>()
        yield* opened(Once.deadJobLayer((dead) => Deferred.succeed(told, dead)))
        const { proxy, revoke } = Proxy.revocable({}, {})
        revoke()
        yield* opened(Once.workerLayer(() => Effect.die(proxy)))
        yield* transact(Once.add("one", data(1)))
        yield* Deferred.await(told)
        has(lines, "Error", "\"one\"")
      })
    )
  )

  live(
    "who is told of dead jobs is told of all that are known when its scope ends",
    Effect.gen(function*() {
      const Once = Jobs.make("late", { data: Data, maxAttempts: 1 })
      const told: Array<unknown> = []
      const go = yield* Deferred.make<void>()
      const close = yield* opened(
        Once.deadJobLayer(({ id }) => Effect.andThen(Deferred.await(go), Effect.sync(() => told.push(id))))
      )
      for (const id of [1, 2, 3]) {
        yield* transact(Once.add(id, data(id)))
        yield* transact(Once.fail((yield* acceptNow(Once))!, "no"))
      }
      yield* Effect.all([close, Deferred.succeed(go, undefined)], { concurrency: "unbounded" })
      assert.deepStrictEqual(told, [1, 2, 3])
    })
  )

  live(
    "who is told of dead jobs more slowly than they die is not told of all, and the log says so",
    logging((lines) =>
      Effect.gen(function*() {
        const Large = Jobs.make("large", { data: Schema.String, maxAttempts: 1 })
        const told: Array<unknown> = []
        const go = yield* Deferred.make<void>()
        yield* opened(
          Large.deadJobLayer(({ data, id }) =>
            Effect.andThen(Deferred.await(go), Effect.sync(() => told.push([id, data?.length])))
          )
        )
        const kill = (id: number) =>
          Effect.gen(function*() {
            yield* transact(Large.add(id, "x".repeat(3_900_000)))
            yield* transact(Large.fail((yield* acceptNow(Large))!, "no"))
          })
        for (let id = 0; id < 10; id++) yield* kill(id)
        yield* Deferred.succeed(go, undefined)
        yield* Effect.repeat(Effect.sleep(1), {
          until: () => lines.some(({ level, text }) => level === "Error" && text.includes("not told of 2"))
        })
        assert.deepStrictEqual(told, Array.from({ length: 8 }, (_, id) => [id, 3_900_000]))
        yield* kill(10)
        yield* Effect.repeat(Effect.sleep(1), { until: () => told.length === 9 })
      })
    ),
    30_000
  )

  live(
    "metrics count what a type's jobs do, how long they waited and ran, and what waits",
    Effect.gen(function*() {
      const name = `measured ${yield* Effect.map(Tenant.Tenant, ({ path }) => path.join("/"))}`
      const Known = Jobs.make(name, { data: Data, retry: Schedule.recurs(1) })
      yield* transact(Effect.andThen(
        Effect.forEach(["fails", 1, 2, 3], (id) => Known.add(id, data(1))),
        Known.add("later", data(1), { delay: "1 day" })
      ))
      yield* opened(Known.workerLayer((job) => job.id === "fails" ? Effect.fail("no") : Effect.void))
      yield* Effect.repeat(transact(Known.counts), { until: ({ dead, finished }) => dead === 1 && finished === 3 })
      const seen = yield* Effect.repeat(measured(name), {
        until: (seen) => seen.dead?.count === 1 && seen.pending?.value === 1
      })
      assert.deepStrictEqual(
        [seen.taken.count, seen.finished.count, seen.failed.count, seen.dead.count],
        [5, 3, 2, 1]
      )
      assert.deepStrictEqual([seen.run_millis.count, seen.waiting_millis.count, seen.oldest_age_millis.value], [
        5,
        5,
        0
      ])
    })
  )
}

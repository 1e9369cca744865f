/** Schedules whose rows were written by other clocks, by other expressions, from outside, or by nobody. */
import { assert } from "@effect/vitest"
import { Effect, Layer, Logger, Scope } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { packValue, unpackValue } from "../../../src/internal/data/codec.ts"
import { JobKeys } from "../../../src/internal/jobs/definition/layout.ts"
import { overwrite } from "../server/support.ts"
import { allKeys, Data, data, elsewhere, type Harness, opened, pass } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data, retention: 0 })

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const START = Date.UTC(2030, 0, 15, 12, 0, 30)
const hour = (of: number) => Date.UTC(2030, 0, 15, of)

const everyHour = (missed: "latest" | "all" | "skip" = "latest") => ({
  cron: "0 * * * *",
  missed,
  data: (tick: number) => data(tick)
})

const rowKey = Effect.map(Tenant.Tenant, ({ prefix }) => new JobKeys(prefix, "work").schedule("c"))

/** The row as it is stored. */
const stored = Effect.gen(function*() {
  const key = Buffer.from(yield* rowKey)
  const row = (yield* allKeys).find((row) => key.equals(row.key))
  return row === undefined ? undefined : (unpackValue(row.value) as { success?: unknown }).success
})

const write = (value: Uint8Array) => Effect.flatMap(rowKey, (key) => overwrite([{ op: "set", key, value }]))

const next = Effect.map(transact(Work.schedules), ([schedule]) => schedule?.nextTick)

const untilNext = (tick: number) => Effect.repeat(Effect.andThen(pass(1), next), { until: (found) => found === tick })

/** The ticks whose jobs were run: they are gone at once. */
const worked = Effect.map(
  Effect.suspend(() => {
    const ticks: Array<number> = []
    return Effect.as(
      opened(Work.workerLayer(({ id }) => Effect.sync(() => void ticks.push((id as readonly [string, number])[1])))),
      ticks
    )
  }),
  (ticks) => ticks
)

/** A job that was added a moment ago is taken and run in its time. */
const untilWorked = (ticks: ReadonlyArray<number>, count: number) =>
  Effect.repeat(Effect.andThen(pass(1), Effect.sync(() => ticks.length)), { until: (worked) => worked >= count })

const withLog = <A, E, R>(use: (lines: ReadonlyArray<string>) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const lines: Array<string> = []
    const logger = Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))
    return Effect.provide(use(lines), Logger.layer([logger]))
  })

export const jobsScheduleRows = ({ dated, timed }: Harness) => {
  for (const missed of ["latest", "all", "skip"] as const) {
    dated(
      `a process that runs on while its clock is two years ahead adds nothing for those years: ${missed}`,
      START,
      (clock) =>
        withLog((lines) =>
          Effect.gen(function*() {
            const ticks = yield* worked
            yield* opened(Work.cronLayer("c", everyHour(missed)))
            yield* untilNext(hour(13))
            clock.aheadMillis += 730 * DAY
            yield* pass("1 minute")
            yield* untilNext(hour(13) + 730 * DAY)
            assert.isTrue(lines.some((line) => line.includes("no process ran it since 2030-01-15")))
            clock.aheadMillis -= 730 * DAY
            yield* pass("1 minute")
            yield* untilNext(hour(13))
            yield* TestClock.setTime(hour(13))
            yield* untilWorked(ticks, 1)
            assert.deepStrictEqual(ticks, [hour(13)])
          })
        )
    )
  }

  timed(
    "a process whose clock is wrong takes no tick from the others, and adds none",
    START,
    Effect.gen(function*() {
      const ticks = yield* worked
      yield* opened(Work.cronLayer("c", everyHour()))
      yield* untilNext(hour(13))
      for (const  of of[13, 14]) {
        // what the other one writes before each tick
        const fields = [...(yield* stored) as Array<unknown>]
        fields[4] = hour(of) + 730 * DAY
        fields[6] = hour(of + 1) + 730 * DAY
        fields[7] = hour(of) + 730 * DAY
        yield* write(packValue(fields))
        yield* TestClock.setTime(hour(of))
        yield* untilNext(hour(of + 1))
        yield* untilWorked(ticks, of - 12)
      }
      assert.deepStrictEqual(ticks, [hour(13), hour(14)])
    })
  )

  timed(
    "a tick that an old and a new expression share while a deploy goes on has one job, though it is done at once",
    START,
    Effect.gen(function*() {
      const ticks = yield* worked
      yield* opened(Work.cronLayer("c", everyHour()))
      yield* untilNext(hour(13))
      const { path } = yield* Tenant.Tenant
      const there = yield* Layer.buildWithScope(Layer.fresh(Tenant.layer(path)), yield* Effect.scope)
      yield* Effect.provideContext(
        opened(Work.cronLayer("c", { ...everyHour(), cron: "*/30 * * * *" })),
        there
      ).pipe(Effect.provideService(Scope.Scope, yield* Effect.scope))
      yield* untilNext(hour(12) + 30 * MINUTE)
      for (const half of [25, 26, 27, 28]) {
        yield* TestClock.setTime(hour(0) + half * 30 * MINUTE)
        yield* untilWorked(ticks, half - 24)
        yield* Effect.repeat(pass(1), { times: 5 })
      }
      assert.deepStrictEqual(ticks, [25, 26, 27, 28].map((half) => hour(0) + half * 30 * MINUTE))
    })
  )

  const damaged: { readonly [what: string]: Uint8Array } = {
    "nothing": new Uint8Array(0),
    "garbage": Uint8Array.of(0xc1, 1),
    "a list that is none": packValue("row"),
    "an empty list": packValue([]),
    "times beyond all times": packValue([1, "x", "0 * * * *", "UTC", 1e300, null, 1e300, 0, false, []])
  }
  for (const [what, value] of Object.entries(damaged)) {
    timed(
      `a schedule goes on where its row is damaged: ${what}`,
      START,
      withLog((lines) =>
        Effect.gen(function*() {
          const ticks = yield* worked
          yield* opened(Work.cronLayer("c", everyHour()))
          yield* untilNext(hour(13))
          yield* write(value)
          assert.deepStrictEqual(yield* transact(Work.schedules), [])
          yield* TestClock.setTime(hour(13))
          yield* untilNext(hour(14))
          yield* untilWorked(ticks, 1)
          assert.deepStrictEqual(ticks, [hour(13)])
          assert.isTrue(lines.some((line) => line.includes("cannot be read")))
        })
      )
    )
  }

  for (const daysAhead of [730, -1, -0.1]) {
    timed(
      `a schedule that is reset by who has a clock of another day begins now: ${daysAhead}`,
      START,
      Effect.gen(function*() {
        const ticks = yield* worked
        yield* opened(Work.cronLayer("c", everyHour("all")))
        yield* untilNext(hour(13))
        const identity = ((yield* stored) as Array<unknown>)[1]
        const then = START + daysAhead * DAY
        // what `resetSchedule` writes there
        yield* write(packValue([1, identity, "0 * * * *", "UTC", then, null, null, then, false, []]))
        yield* elsewhere(transact(Work.runSchedule("c")))
        yield* untilNext(hour(13))
        yield* untilWorked(ticks, 1)
        yield* TestClock.setTime(hour(13))
        yield* untilNext(hour(14))
        yield* untilWorked(ticks, 2)
        assert.deepStrictEqual(ticks.slice(1), [hour(13)])
      })
    )
  }

  timed(
    "a schedule is run as often as it is asked for, also when the clock stands",
    START,
    Effect.gen(function*() {
      const Kept = Jobs.make("work", { data: Data })
      yield* opened(Kept.cronLayer("c", everyHour()))
      yield* untilNext(hour(13))
      const asked: Array<number> = []
      for (let i = 0; i < 3; i++) {
        asked.push((yield* transact(Kept.runSchedule("c")))[1])
        yield* Effect.repeat(Effect.andThen(Effect.yieldNow, transact(Kept.counts)), {
          until: ({ pending }) => pending === i + 1
        })
      }
      assert.strictEqual(new Set(asked).size, 3)
    })
  )
}

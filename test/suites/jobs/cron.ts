/** Jobs that are added by the clock. */
import { assert } from "@effect/vitest"
import { Cause, Cron, Effect, Logger, Option } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { hostileValues } from "../../support/hostileValues.ts"
import { acceptNow, allKeys, Data, data, elsewhere, type Harness, opened, pass, settle } from "./support.ts"

const { transact } = Tenant
const Work = Jobs.make("work", { data: Data })

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const START = Date.UTC(2030, 0, 15, 12, 0, 30)

const everyHour = { cron: "0 * * * *", data: (tick: number) => data(tick) }

/** Builds a schedule, and waits until the store knows it. */
const started = (options: Jobs.CronOptions<typeof Data.Type>) =>
  Effect.gen(function*() {
    const close = yield* opened(Work.cronLayer("c", options))
    yield* Effect.repeat(Effect.andThen(Effect.yieldNow, allKeys), {
      until: (rows) => rows.some(({ key }) => Buffer.from(key).includes("cron"))
    })
    return close
  })

/** The ticks that have a job now, and its id. */
const ticksNow = Effect.map(
  transact(Work.list({ limit: 1_000 })),
  ({ jobs }) => jobs.map(({ id }) => (id as readonly [string, number])[1]).sort((a, b) => a - b)
)

/** The schedule as it is listed. */
const listed = Effect.map(transact(Work.schedules), (all) => {
  assert.isAtMost(all.length, 1)
  return all[0]
})

/** Waits until the schedule is listed so. */
const until = (holds: (schedule: Jobs.Scheduled | undefined) => boolean) =>
  Effect.repeat(Effect.andThen(Effect.yieldNow, listed), { until: (schedule) => holds(schedule) })

/** Runs with a logger whose lines, causes included, can be looked at. */
const withLog = <A, E, R>(use: (lines: ReadonlyArray<string>) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const lines: Array<string> = []
    const logger = Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))
    return Effect.provide(use(lines), Logger.layer([logger]))
  })

/** The tick of the next job; waits for it. */
const nextTick = Effect.gen(function*() {
  const job = Option.getOrThrow(yield* Work.accept())
  const [name, tick] = job.id as readonly [string, number]
  assert.strictEqual(name, "c")
  assert.deepStrictEqual(job.data, data(tick))
  yield* transact(Work.finish(job))
  return tick
})

const hour = (of: number) => Date.UTC(2030, 0, 15, of)

export const jobsCron = ({ timed }: Harness) => {
  timed(
    "a schedule adds a job at each tick, and none before",
    START,
    Effect.gen(function*() {
      yield* started(everyHour)
      yield* TestClock.adjust(59 * MINUTE)
      assert.isUndefined(yield* acceptNow(Work))
      yield* TestClock.adjust(MINUTE)
      assert.strictEqual(yield* nextTick, hour(13))
      yield* TestClock.adjust(HOUR)
      assert.strictEqual(yield* nextTick, hour(14))
      assert.isUndefined(yield* acceptNow(Work))
    })
  )

  timed(
    "many processes run one schedule: each tick has one job",
    START,
    Effect.gen(function*() {
      const all = [started(everyHour), started(everyHour), started(everyHour)]
      yield* all[0]!
      yield* elsewhere(Effect.andThen(
        Effect.all(all.slice(1)),
        Effect.gen(function*() {
          for (let of = 13; of < 20; of++) {
            yield* TestClock.adjust(HOUR)
            assert.strictEqual(yield* nextTick, hour(of))
          }
        })
      ))
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 0, running: 0, finished: 7, dead: 0 })
    })
  )

  timed(
    "a schedule whose data cannot be made says so, whatever was thrown, and goes on with the next tick",
    START,
    Effect.gen(function*() {
      for (const kind of Object.keys(hostileValues).filter((_, index) => index % 6 === 0)) {
        const lines: Array<string> = []
        let isBroken = true
        const close = yield* started({
          cron: "* * * * *",
          data: (tick) => {
            if (isBroken) throw hostileValues[kind]!()
            return data(tick)
          }
        }).pipe(Effect.provide(Logger.layer([
          Logger.make(({ cause, message }) => void lines.push(`${message} ${Cause.pretty(cause)}`))
        ])))
        yield* TestClock.adjust(MINUTE)
        yield* Effect.repeat(settle, { until: () => lines.some((line) => line.includes("its data could not be had")) })
        assert.isUndefined(yield* acceptNow(Work), kind)
        isBroken = false
        yield* TestClock.adjust(MINUTE)
        assert.strictEqual((yield* nextTick) % MINUTE, 0, kind)
        yield* close
      }
    })
  )

  const policies = [
    ["latest", 45 * MINUTE, [hour(17)]],
    [undefined, 45 * MINUTE, [hour(17)]],
    ["all", 45 * MINUTE, [hour(13), hour(14), hour(15), hour(16), hour(17)]],
    ["skip", 45 * MINUTE, []],
    ["skip", MINUTE / 2, [hour(17)]]
  ] as const
  for (const [missed, lateMillis, expected] of policies) {
    timed(
      `ticks that were missed while no process ran: ${missed ?? "as if absent"}, ${lateMillis / MINUTE} minutes late`,
      START,
      Effect.gen(function*() {
        const close = yield* started({ ...everyHour, missed })
        yield* close
        yield* TestClock.setTime(hour(17) + lateMillis)
        // the next tick comes on time: all that was missed has been seen to by then
        yield* started({ ...everyHour, missed })
        const found: Array<number> = []
        for (let i = 0; i < expected.length; i++) found.push(yield* nextTick)
        assert.deepStrictEqual(found, [...expected])
        yield* TestClock.setTime(hour(18))
        assert.strictEqual(yield* nextTick, hour(18))
        assert.isUndefined(yield* acceptNow(Work))
      })
    )
  }

  timed(
    "a tick that was handled is not handled again after a restart, whatever became of its job",
    START,
    Effect.gen(function*() {
      const close = yield* started(everyHour)
      yield* TestClock.setTime(hour(13))
      assert.strictEqual(yield* nextTick, hour(13))
      yield* transact(Work.remove(["c", hour(13)]))
      yield* close
      yield* started({ ...everyHour, missed: "all" })
      yield* TestClock.setTime(hour(14))
      assert.strictEqual(yield* nextTick, hour(14))
      assert.deepStrictEqual(yield* transact(Work.counts), { pending: 0, running: 0, finished: 1, dead: 0 })
    })
  )

  timed(
    "a time zone is followed through its summer time",
    Date.UTC(2030, 2, 29, 12),
    Effect.gen(function*() {
      const nineInBerlin = { cron: "0 9 * * *", timeZone: "Europe/Berlin", data: everyHour.data }
      yield* started(nineInBerlin)
      // summer time begins on the 31st
      for (const [day, utcHour] of [[30, 8], [31, 7], [32, 7]] as const) {
        yield* TestClock.setTime(Date.UTC(2030, 2, day, utcHour))
        assert.strictEqual(yield* nextTick, Date.UTC(2030, 2, day, utcHour))
      }
    })
  )

  timed(
    "a Cron of one's own is taken as it is",
    START,
    Effect.gen(function*() {
      yield* started({ ...everyHour, cron: Cron.parseUnsafe("15 * * * * *", "UTC") })
      yield* TestClock.setTime(START + 45_000)
      assert.strictEqual(yield* nextTick, START + 45_000)
    })
  )

  const changed = [
    ["another expression", { cron: "0 12 * * *" }, Date.UTC(2030, 0, 16, 12)],
    ["another zone", { cron: "0 9 * * *", timeZone: "America/New_York" }, Date.UTC(2030, 0, 16, 14)],
    ["another choice for a skipped hour", { cron: "0 9 * * *", onDstGap: "skip" }, Date.UTC(2030, 0, 16, 9)]
  ] as const
  for (const missed of ["latest", "all", "skip"] as const) {
    for (const [what, options, expected] of changed) {
      timed(
        `${what} of a name begins now: ${missed}`,
        START,
        Effect.gen(function*() {
          const close = yield* started({ cron: "0 9 * * *", missed, data: everyHour.data })
          yield* close
          yield* TestClock.setTime(Date.UTC(2030, 0, 15, 15))
          yield* opened(Work.cronLayer("c", { ...options, missed, data: everyHour.data }))
          yield* until((schedule) => schedule?.nextTick === expected)
          yield* TestClock.setTime(expected)
          assert.strictEqual(yield* nextTick, expected)
          assert.isUndefined(yield* acceptNow(Work))
        })
      )
    }
    timed(
      `a name that is taken up again after months begins now: ${missed}`,
      START,
      Effect.gen(function*() {
        const close = yield* started({ ...everyHour, missed })
        yield* close
        yield* TestClock.setTime(Date.UTC(2030, 3, 15, 12, 10))
        yield* started({ ...everyHour, missed })
        yield* until((schedule) => schedule?.nextTick === Date.UTC(2030, 3, 15, 13))
        yield* TestClock.setTime(Date.UTC(2030, 3, 15, 13))
        assert.strictEqual(yield* nextTick, Date.UTC(2030, 3, 15, 13))
        assert.isUndefined(yield* acceptNow(Work))
      })
    )
    timed(
      `a clock that was two years ahead for five minutes holds nothing up: ${missed}`,
      START,
      withLog((lines) =>
        Effect.gen(function*() {
          const options = { ...everyHour, missed }
          yield* yield* started(options)
          yield* TestClock.setTime(Date.UTC(2032, 0, 15, 12, 57))
          const close = yield* started(options)
          yield* until((schedule) => schedule?.nextTick === Date.UTC(2032, 0, 15, 13))
          yield* TestClock.setTime(Date.UTC(2032, 0, 15, 13, 2))
          assert.strictEqual(yield* nextTick, Date.UTC(2032, 0, 15, 13))
          yield* until((schedule) => schedule?.nextTick === Date.UTC(2032, 0, 15, 14))
          yield* close
          yield* TestClock.setTime(START + 5 * MINUTE)
          yield* started(options)
          yield* until((schedule) => schedule?.nextTick === hour(13))
          assert.isTrue(lines.some((line) => line.includes("a clock was wrong") && line.includes("2032-01-15T14:00")))
          yield* TestClock.setTime(hour(13))
          assert.strictEqual(yield* nextTick, hour(13))
          assert.deepStrictEqual(yield* ticksNow, [hour(13), Date.UTC(2032, 0, 15, 13)])
        })
      )
    )
  }

  timed(
    "a process whose own clock was ahead goes on when it is set right",
    START,
    Effect.gen(function*() {
      yield* started(everyHour)
      yield* TestClock.setTime(Date.UTC(2030, 0, 16, 12, 57))
      yield* until((schedule) => schedule?.nextTick === Date.UTC(2030, 0, 16, 13))
      yield* TestClock.setTime(START)
      // sleeps of this clock are for a time of day, those of a machine pass
      yield* transact(Work.runSchedule("c"))
      yield* until((schedule) => schedule?.nextTick === hour(13))
      yield* TestClock.setTime(hour(13))
      yield* until((schedule) => schedule?.lastTick === hour(13))
    })
  )

  timed(
    "while a deploy replaces one process after the other, both expressions have their ticks",
    START,
    Effect.gen(function*() {
      yield* started({ ...everyHour, cron: "0 * * * *" })
      const Later = Work.cronLayer("c", { ...everyHour, cron: "30 * * * *" })
      yield* elsewhere(Effect.gen(function*() {
        yield* opened(Later)
        yield* until((schedule) => schedule?.cron === "30 * * * *")
        for (const  of of[12.5, 13, 13.5, 14, 14.5, 15]) {
          yield* TestClock.setTime(START + (of - 12) * HOUR)
          assert.strictEqual(yield* nextTick, Date.UTC(2030, 0, 15) + of * HOUR)
        }
      }))
      assert.isUndefined(yield* acceptNow(Work))
    })
  )

  const bad = {
    throws: () => {
      throw new Error("no data today")
    },
    "gives what does not fit": () => 5 as any
  }
  for (const missed of ["latest", "all"] as const) {
    for (const [what, badData] of Object.entries(bad)) {
      timed(
        `data that ${what} for one tick: it is told of, and the others come: ${missed}`,
        START,
        withLog((lines) =>
          Effect.gen(function*() {
            const dataOf = (tick: number) => tick === hour(14) ? badData() : data(tick)
            const close = yield* started({ cron: "0 * * * *", missed, data: dataOf })
            if (missed === "all") yield* close
            yield* TestClock.setTime(hour(13))
            if (missed === "latest") assert.strictEqual(yield* nextTick, hour(13))
            yield* TestClock.setTime(hour(14))
            yield* pass("1 minute")
            if (missed === "latest") yield* until((schedule) => schedule?.lastTick === hour(14))
            yield* TestClock.setTime(hour(15))
            if (missed === "all") yield* started({ cron: "0 * * * *", missed, data: dataOf })
            yield* until((schedule) => schedule?.lastTick === hour(15))
            assert.deepStrictEqual(yield* ticksNow, [hour(13), hour(15)])
            assert.strictEqual(
              lines.filter((line) => line.includes("level=ERROR") && line.includes("2030-01-15T14:00:00.000Z")).length,
              1,
              lines.join("\n")
            )
          })
        )
      )
    }
  }

  for (const [missedLimit, count] of [[undefined, 1_000], [150, 150]] as const) {
    timed(
      `all that was missed has a bound: ${missedLimit ?? "as if absent"}`,
      START,
      withLog((lines) =>
        Effect.gen(function*() {
          const everySecond = { cron: "* * * * * *", missed: "all", missedLimit, data: everyHour.data } as const
          yield* yield* started(everySecond)
          const now = START + 7 * 24 * HOUR
          yield* TestClock.setTime(now)
          yield* started(everySecond)
          yield* until((schedule) => schedule?.lastTick === now)
          const expected = Array.from({ length: count }, (_, i) => now - (count - 1 - i) * 1_000)
          assert.deepStrictEqual(yield* ticksNow, expected)
          assert.isTrue(lines.some((line) => line.includes(`latest ${count}`)))
        })
      )
    )
  }

  for (const missed of ["latest", "all", "skip"] as const) {
    timed(
      `what the clock skips is one tick for every policy: ${missed}`,
      Date.UTC(2027, 2, 28, 0, 45),
      Effect.gen(function*() {
        const options = { cron: "*/30 0-2 * * *", timeZone: "Europe/Rome", missed, data: everyHour.data }
        yield* yield* started(options)
        yield* TestClock.setTime(Date.UTC(2027, 2, 28, 1, 0, 20))
        yield* started(options)
        assert.strictEqual(yield* nextTick, Date.UTC(2027, 2, 28, 1))
        assert.isUndefined(yield* acceptNow(Work))
        assert.strictEqual((yield* listed)!.nextTick, Date.UTC(2027, 2, 28, 22))
      })
    )
  }

  timed(
    "schedules are listed with their last and their next tick",
    START,
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* transact(Work.schedules), [])
      yield* started({ ...everyHour, cron: "@hourly", timeZone: "Europe/Rome" })
      const schedule = { name: "c", cron: "@hourly", timeZone: "Europe/Rome", isPaused: false }
      assert.deepStrictEqual(yield* listed, { ...schedule, lastTick: undefined, nextTick: hour(13) })
      yield* TestClock.setTime(hour(13))
      assert.strictEqual(yield* nextTick, hour(13))
      assert.deepStrictEqual(yield* listed, { ...schedule, lastTick: hour(13), nextTick: hour(14) })
    })
  )

  timed(
    "a paused schedule adds nothing, in no process; resumed, it makes up for nothing",
    START,
    Effect.gen(function*() {
      const close = yield* started({ ...everyHour, missed: "all" })
      yield* transact(Work.pauseSchedule("c"))
      yield* TestClock.setTime(hour(14))
      yield* close
      yield* started({ ...everyHour, missed: "all" })
      yield* pass("1 minute")
      const paused = yield* listed
      assert.deepStrictEqual([paused?.isPaused, paused?.nextTick], [true, undefined])
      yield* TestClock.setTime(hour(15) + MINUTE)
      yield* transact(Work.resumeSchedule("c"))
      yield* until((schedule) => schedule?.nextTick === hour(16))
      assert.deepStrictEqual(yield* ticksNow, [])
      yield* TestClock.setTime(hour(16))
      assert.strictEqual(yield* nextTick, hour(16))
    })
  )

  timed(
    "a schedule is run now, also while it is paused; its ticks come as before",
    START,
    Effect.gen(function*() {
      yield* started(everyHour)
      for (const isPaused of [false, true]) {
        if (isPaused) yield* transact(Work.pauseSchedule("c"))
        const [first, second] = yield* transact(Effect.all([Work.runSchedule("c"), Work.runSchedule("c")]))
        assert.notDeepEqual(first, second)
        assert.strictEqual(yield* nextTick, first[1])
        assert.strictEqual(yield* nextTick, second[1])
        yield* TestClock.setTime(START + MINUTE)
      }
      yield* transact(Work.resumeSchedule("c"))
      yield* until((schedule) => schedule?.nextTick === hour(13))
      yield* TestClock.setTime(hour(13))
      assert.strictEqual(yield* nextTick, hour(13))
    })
  )

  timed(
    "a run that is asked for while no process runs the schedule comes with the next one",
    START,
    Effect.gen(function*() {
      yield* yield* started(everyHour)
      const [, asked] = yield* transact(Work.runSchedule("c"))
      yield* TestClock.setTime(START + MINUTE)
      yield* opened(Work.cronLayer("c", everyHour))
      assert.strictEqual(yield* nextTick, asked)
    })
  )

  timed(
    "a schedule that is reset begins now",
    START,
    Effect.gen(function*() {
      yield* yield* started({ ...everyHour, missed: "all" })
      yield* TestClock.setTime(hour(15) + MINUTE)
      yield* transact(Work.resetSchedule("c"))
      yield* opened(Work.cronLayer("c", { ...everyHour, missed: "all" }))
      yield* until((schedule) => schedule?.nextTick === hour(16))
      assert.deepStrictEqual(yield* ticksNow, [])
    })
  )

  timed(
    "a removed schedule rests until a layer of its name is started",
    START,
    Effect.gen(function*() {
      yield* started(everyHour)
      yield* transact(Work.removeSchedule("c"))
      assert.isUndefined(yield* listed)
      yield* TestClock.setTime(hour(14))
      yield* pass("2 minutes")
      assert.deepStrictEqual(yield* ticksNow, [])
      assert.isUndefined(yield* listed)
      yield* elsewhere(Effect.gen(function*() {
        yield* started(everyHour)
        yield* until((schedule) => schedule?.nextTick === hour(15))
        yield* TestClock.setTime(hour(15))
        assert.strictEqual(yield* nextTick, hour(15))
      }))
    })
  )

  timed(
    "a schedule that is not there cannot be changed",
    START,
    Effect.gen(function*() {
      const { pauseSchedule, removeSchedule, resetSchedule, resumeSchedule, runSchedule } = Work
      const changes = [pauseSchedule, resumeSchedule, resetSchedule, runSchedule, removeSchedule]
      for (const change of changes) {
        const error = yield* Effect.flip(transact(Effect.asVoid(change("none"))))
        assert.strictEqual(error._tag, "ScheduleNotFound")
        assert.include(error.message, "\"none\"")
      }
    })
  )
}

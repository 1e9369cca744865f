/** Jobs that are added by the clock. */
import { assert } from "@effect/vitest"
import { Cause, Cron, Effect, Logger, Option } from "effect"
import { Jobs, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { hostileValues } from "../../support/hostileValues.ts"
import { acceptNow, allKeys, Data, data, elsewhere, type Harness, opened, settle } from "./support.ts"

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
    "a schedule whose data cannot be made says so, and adds the job when it can be",
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
        yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), settle), {
          until: () => lines.some((line) => line.includes("the schedule \"c\" failed"))
        })
        assert.isUndefined(yield* acceptNow(Work), kind)
        isBroken = false
        yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), settle), {
          until: () => Effect.map(transact(Work.counts), ({ pending }) => pending === 1)
        })
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
}

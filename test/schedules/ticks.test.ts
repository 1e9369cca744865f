/** When things recur. */
import { assert, describe, it } from "@effect/vitest"
import { Cron, Result } from "effect"
import { expressionOf, type Options } from "../../src/internal/schedules/expression.ts"
import { every, isBeyondReach, latestTick, type Ticks, ticksBetween } from "../../src/internal/schedules/ticks.ts"

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const ticksOf = (cron: string | Cron.Cron, timeZone?: string, options: Partial<Options> = {}): Ticks =>
  Result.getOrThrow(expressionOf({ cron, timeZone, ...options })).ticks

const iso = (millis: number) => new Date(millis).toISOString().replace(":00.000Z", "Z")

/** The ticks from a time on, before another. */
const between = (ticks: Ticks, from: string, to: string) =>
  ticksBetween(ticks, Date.parse(from) - 1, Date.parse(to) - 1, 10_000).map(iso)

// --- the reference: every minute is looked at ---

const formats = new Map<string, Intl.DateTimeFormat>()

/** What the wall of a zone shows, as the time at which UTC shows it. */
const wallAt = (zone: string, millis: number): number => {
  let format = formats.get(zone)
  if (format === undefined) {
    const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" } as const
    formats.set(zone, format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, ...parts }))
  }
  return Date.parse(`${format.format(millis).replace(" ", "T")}Z`)
}

interface Shown {
  readonly at: number
  readonly wall: number
}

const shownBetween = (zone: string, from: number, to: number): ReadonlyArray<Shown> => {
  const all: Array<Shown> = []
  for (let at = from; at < to; at += MINUTE) all.push({ at, wall: wallAt(zone, at) })
  return all
}

/** The ticks of an expression without seconds, by looking at every minute. */
const slowTicks = (text: string, all: ReadonlyArray<Shown>): ReadonlyArray<number> => {
  const cron = Cron.parseUnsafe(text, "UTC")
  const goesOn = text.split(" ")[1]!.startsWith("*")
  const shown = new Set<number>()
  const ticks = new Set<number>()
  for (const [i, { at, wall }] of all.entries()) {
    const before = all[i - 1]
    if (!goesOn && before !== undefined) {
      for (let skipped = before.wall + MINUTE; skipped < wall; skipped += MINUTE) {
        if (Cron.match(cron, skipped)) ticks.add(at)
      }
    }
    if (Cron.match(cron, wall) && (goesOn || !shown.has(wall))) ticks.add(at)
    shown.add(wall)
  }
  return Array.from(ticks).sort((a, b) => a - b)
}

/** When the clocks of a zone are changed in a year. */
const changesOf = (zone: string, year: number): ReadonlyArray<number> => {
  const changes: Array<number> = []
  const offset = (at: number) => wallAt(zone, at) - at
  let before = offset(Date.UTC(year, 0))
  for (let day = Date.UTC(year, 0); day < Date.UTC(year + 1, 0); day += DAY) {
    const after = offset(day + DAY)
    if (before === after) continue
    before = after
    for (let at = day; at < day + DAY; at += HOUR / 2) {
      if (offset(at) !== offset(at + HOUR / 2)) changes.push(at + HOUR / 2)
    }
  }
  return changes
}

const EXPRESSIONS = [
  "*/15 * * * *",
  "*/30 0-2 * * *",
  "30 2 * * *",
  "0 0 * * *",
  "15,45 1,2,3 * * *",
  "0 */2 * * *",
  "59 23 * * *",
  "7 */3 * * 0",
  "0-10 2 * * *",
  "20 1 * * 6,0",
  "0 3 1-7 * 0"
]

describe("ticks of cron expressions", () => {
  it("of a wildcard hour go on through the repeated hour", () => {
    const ticks = between(ticksOf("*/15 * * * *", "Europe/Rome"), "2027-10-30T23:00Z", "2027-10-31T03:00Z")
    assert.strictEqual(ticks.length, 16)
    assert.deepStrictEqual(ticks, Array.from({ length: 16 }, (_, i) => iso(Date.UTC(2027, 9, 30, 23, 15 * i))))
  })

  it("of a fixed hour come once in the repeated and in the skipped hour, unless another choice is made", () => {
    const spring = ["2027-03-27T12:00Z", "2027-03-28T12:00Z"] as const
    const autumn = ["2027-10-30T12:00Z", "2027-10-31T12:00Z"] as const
    const daily = (options: Partial<Options>) => ticksOf("30 2 * * *", "Europe/Rome", options)
    assert.deepStrictEqual(between(daily({}), ...spring), ["2027-03-28T01:00Z"])
    assert.deepStrictEqual(between(daily({ onDstGap: "run" }), ...spring), ["2027-03-28T01:00Z"])
    assert.deepStrictEqual(between(daily({ onDstGap: "skip" }), ...spring), [])
    assert.deepStrictEqual(between(daily({}), ...autumn), ["2027-10-31T00:30Z"])
    assert.deepStrictEqual(between(daily({ onDstOverlap: "earlier" }), ...autumn), ["2027-10-31T00:30Z"])
    assert.deepStrictEqual(between(daily({ onDstOverlap: "later" }), ...autumn), ["2027-10-31T01:30Z"])
    assert.deepStrictEqual(between(daily({ onDstOverlap: "both" }), ...autumn), [
      "2027-10-31T00:30Z",
      "2027-10-31T01:30Z"
    ])
  })

  it("that the clock skips are one tick, when the clock is put forward", () => {
    const expected = ["03-27T23:00Z", "03-27T23:30Z", "03-28T00:00Z", "03-28T00:30Z", "03-28T01:00Z", "03-28T22:00Z"]
    const ticks = ticksOf("*/30 0-2 * * *", "Europe/Rome")
    assert.deepStrictEqual(
      between(ticks, "2027-03-27T22:00Z", "2027-03-28T22:30Z"),
      expected.map((tick) => `2027-${tick}`)
    )
    assert.strictEqual(iso(latestTick(ticks, Date.UTC(2027, 2, 28, 2))!), "2027-03-28T01:00Z")
  })

  it("are those that a look at every minute finds, in all zones whose clocks are changed", () => {
    const seen = new Set<string>()
    const zones = [...Intl.supportedValuesOf("timeZone"), "Pacific/Apia"]
    for (const zone of zones) {
      // in 2011 Apia skipped a day
      const year = zone === "Pacific/Apia" ? 2011 : 2027
      for (const change of changesOf(zone, year)) {
        // changes that look the same on the wall are one
        const before = wallAt(zone, change - MINUTE)
        const key = [before % DAY, wallAt(zone, change) - before].join()
        if (seen.has(key)) continue
        seen.add(key)
        const from = change - 8 * HOUR
        const to = change + 8 * HOUR
        const all = shownBetween(zone, from - DAY / 4, to)
        for (const text of EXPRESSIONS) {
          const ticks = ticksOf(text, zone)
          const slow = slowTicks(text, all).filter((tick) => tick > from)
          const what = `${text} ${zone} ${iso(change)}`
          assert.deepStrictEqual(ticksBetween(ticks, from, to - 1, 10_000).map(iso), slow.map(iso), what)
          for (let at = from; at < to; at += 37 * MINUTE) {
            const latest = slow.findLast((tick) => tick <= at)
            if (latest !== undefined) assert.strictEqual(iso(latestTick(ticks, at)!), iso(latest), `${what} ${iso(at)}`)
          }
        }
      }
    }
    assert.isAbove(seen.size, 5)
  }, 60_000)

  it("without a change are those of Effect's own", () => {
    const texts = [
      "0 0 29 2 *",
      "0 0 29 2 */2",
      "5 4 * * sun",
      "0 22 * * 1-5",
      "15 10 31 * *",
      "0 0 1,15 * 3",
      "*/7 * * * * *",
      "0 12 */2 * 1"
    ]
    for (const text of texts) {
      const ticks = ticksOf(text)
      let at = Date.UTC(2027, 5, 17, 3, 4, 5)
      for (let i = 0; i < 30; i++) {
        const expected = Cron.next(Cron.parseUnsafe(text, "UTC"), at).getTime()
        assert.strictEqual(ticks.next(at), expected, text)
        assert.strictEqual(latestTick(ticks, expected), expected, text)
        at = expected
      }
    }
  })

  it("of names are those of what the names stand for", () => {
    const start = Date.UTC(2027, 4, 19, 10, 30)
    const names = {
      "@hourly": "2027-05-19T11:00Z",
      "@daily": "2027-05-20T00:00Z",
      "@midnight": "2027-05-20T00:00Z",
      "@weekly": "2027-05-23T00:00Z",
      "@monthly": "2027-06-01T00:00Z",
      "@yearly": "2028-01-01T00:00Z",
      "@annually": "2028-01-01T00:00Z"
    }
    for (const [name, expected] of Object.entries(names)) {
      assert.strictEqual(iso(ticksOf(name).next(start)!), expected, name)
    }
    assert.strictEqual(iso(ticksOf("@daily", "Asia/Tokyo").next(start)!), "2027-05-19T15:00Z")
  })

  it("of a Cron follow its own zone and its own choice", () => {
    const cron = Cron.parseUnsafe("30 2 * * *", "Europe/Rome", { onDstOverlap: "later" })
    assert.deepStrictEqual(between(ticksOf(cron), "2027-10-30T12:00Z", "2027-10-31T12:00Z"), ["2027-10-31T01:30Z"])
    const hourly = ticksOf(Cron.parseUnsafe("0 */2 * * *", "Europe/Rome"))
    assert.strictEqual(between(hourly, "2027-10-30T22:00Z", "2027-10-31T22:00Z").length, 13)
    const local = Cron.parseUnsafe("0 9 * * *")
    assert.strictEqual(iso(ticksOf(local).next(Date.UTC(2027, 0))!), "2027-01-01T09:00Z")
  })

  it("that cannot be are refused with what is wrong", () => {
    const refused = (options: any) => Result.getOrThrow(Result.flip(expressionOf(options)))
    for (
      const cron of ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "", "* * * *", "61 * * * *", "@reboot", "@", 5]
    ) {
      assert.strictEqual(refused({ cron }).option, "cron", String(cron))
    }
    assert.include(refused({ cron: "0 0 31 2 *" }).problem, "0 0 31 2 *")
    assert.strictEqual(refused({ cron: "@daily", timeZone: "Mars/Base" }).option, "cron")
    assert.strictEqual(refused({ cron: "@daily", onDstGap: "shift" }).option, "onDstGap")
    assert.strictEqual(refused({ cron: "@daily", onDstOverlap: "none" }).option, "onDstOverlap")
    const cron = Cron.parseUnsafe("0 9 * * *", "UTC")
    assert.strictEqual(refused({ cron, timeZone: "UTC" }).option, "timeZone")
    assert.strictEqual(refused({ cron, onDstOverlap: "both" }).option, "onDstOverlap")
  })

  it("are the same when the expression is written in another way, and only then", () => {
    const identity = (options: Options) => Result.getOrThrow(expressionOf(options)).identity
    const nine = identity({ cron: "0 9 * * *", timeZone: "Europe/Rome" })
    assert.strictEqual(identity({ cron: "00 09 * * *", timeZone: "Europe/Rome" }), nine)
    assert.strictEqual(identity({ cron: "@daily" }), identity({ cron: "0 0 * * *", timeZone: "UTC" }))
    for (
      const other of [
        { cron: "0 12 * * *", timeZone: "Europe/Rome" },
        { cron: "0 9 * * *", timeZone: "Europe/Paris" },
        { cron: "0 9 * * *", timeZone: "Europe/Rome", onDstGap: "skip" as const },
        { cron: "0 9 1 * *", timeZone: "Europe/Rome" }
      ]
    ) assert.notStrictEqual(identity(other), nine)
  })
})

describe("ticks of a period", () => {
  it("are counted from its first time, and do not drift", () => {
    const ticks = every(1_000_500, 10_000)
    assert.strictEqual(ticks.next(0), 1_000_500)
    assert.strictEqual(ticks.next(1_000_500), 1_010_500)
    assert.strictEqual(ticks.next(1_010_499), 1_010_500)
    assert.strictEqual(latestTick(ticks, 1_010_499), 1_000_500)
    assert.strictEqual(latestTick(ticks, 99_999_999), 99_990_500)
    assert.isUndefined(latestTick(ticks, 1_000_499))
  })
})

describe("the reach of a schedule", () => {
  it("is its next tick, and a clock's usual difference", () => {
    const ticks = ticksOf("0 9 * * *")
    const now = Date.UTC(2027, 0, 1, 8)
    assert.isFalse(isBeyondReach(ticks, Date.UTC(2027, 0, 1, 9), now))
    assert.isTrue(isBeyondReach(ticks, Date.UTC(2027, 0, 2, 9), now))
    // a clock that is some seconds ahead has seen the tick already
    assert.isFalse(isBeyondReach(ticks, Date.UTC(2027, 0, 2, 9), Date.UTC(2027, 0, 1, 8, 59, 30)))
    assert.isFalse(isBeyondReach(every(0, 1_000), now + 60_000, now))
    assert.isTrue(isBeyondReach(every(0, 1_000), now + 3 * MINUTE, now))
  })
})

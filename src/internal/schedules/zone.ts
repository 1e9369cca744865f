/**
 * What time zones do to the clock on the wall: its distance from UTC, and the moments at which that changes.
 */
import type * as DateTime from "effect/DateTime"

export const DAY_MILLIS = 86_400_000

/** The offset of a zone at a time, in milliseconds: what the wall shows less UTC. */
export type Zone = (utcMillis: number) => number

export const UTC: Zone = () => 0

const named = new Map<string, Zone>()

const NUMBERS = /\d+/g

/** The engine's own tables say what the wall shows; its text is read back, because that is the fastest way to its numbers. */
const namedZone = (id: string): Zone => {
  const numeric = "numeric"
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: id,
    hourCycle: "h23",
    year: numeric,
    month: numeric,
    day: numeric,
    hour: numeric,
    minute: numeric,
    second: numeric
  })
  return (utcMillis) => {
    const seconds = Math.floor(utcMillis / 1_000) * 1_000
    const [month, day, year, hour, minute, second] = format.format(seconds).match(NUMBERS)!.map(Number)
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - seconds
  }
}

/** A zone by its definition; each is made once. */
export const zoneOf = (zone: DateTime.TimeZone): Zone => {
  if (zone._tag === "Offset") return () => zone.offset
  let found = named.get(zone.id)
  if (found === undefined) named.set(zone.id, found = namedZone(zone.id))
  return found
}

/**
 * The first whole second after `sinceMillis`, up to `untilMillis`, at which the offset is another one than at
 * `sinceMillis`; `undefined` if there is none. Two changes that undo each other are seen only if one of the two times
 * lies between them: a day apart they are always seen.
 */
export const firstChange = (zone: Zone, sinceMillis: number, untilMillis: number): number | undefined => {
  const offset = zone(sinceMillis)
  if (zone(untilMillis) === offset) return undefined
  let before = sinceMillis
  let after = untilMillis
  while (after - before > 1_000) {
    const middle = Math.floor((before + after) / 2_000) * 1_000
    if (zone(middle) === offset) before = middle
    else after = middle
  }
  return after
}

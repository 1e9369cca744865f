// Numbers, ages and times for people.

const count = new Intl.NumberFormat("en")
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 })
const time = new Intl.DateTimeFormat("en-GB", {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit"
})

const COMPACT_FROM = 1_000_000

export const number = (value: number): string =>
  value < COMPACT_FROM ? count.format(Math.round(value)) : compact.format(value)

export const exact = (value: number): string => count.format(value)

export const rate = (perSecond: number): string =>
  perSecond === 0 ? "0" : perSecond < 10 ? perSecond.toFixed(1) : number(Math.round(perSecond))

const UNITS: ReadonlyArray<readonly [string, number]> = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], [
  "s",
  1000
]]

/** A length of time: its two largest units. */
export const age = (millis: number): string => {
  if (millis < 1000) return millis <= 0 ? "0 s" : "< 1 s"
  const at = UNITS.findIndex(([, unit]) => millis >= unit)
  const [name, unit] = UNITS[at]!
  const next = UNITS[at + 1]
  const rest = next === undefined ? 0 : Math.floor((millis % unit) / next[1])
  return `${Math.floor(millis / unit)} ${name}${rest === 0 ? "" : ` ${rest} ${next![0]}`}`
}

/** The same for an axis: one unit. */
export const shortAge = (millis: number): string => {
  const [name, unit] = UNITS.find(([, unit]) => millis >= unit) ?? UNITS.at(-1)!
  return `${Number((millis / unit).toFixed(1))} ${name}`
}

/** A time as seen from another one: "3 m ago", "in 2 h". */
export const relative = (at: number, now: number): string => {
  const millis = at - now
  return Math.abs(millis) < 1000 ? "now" : millis < 0 ? `${age(-millis)} ago` : `in ${age(millis)}`
}

export const moment = (at: number): string => time.format(at)

export const plural = (n: number, one: string, many = `${one}s`): string => `${exact(n)} ${n === 1 ? one : many}`

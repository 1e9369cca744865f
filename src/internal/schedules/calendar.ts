/**
 * The fields of a cron expression on the calendar: which wall times they name. A wall time is written as the milliseconds
 * at which UTC shows it, so that a calendar without time zones is all that is needed here.
 */
import type * as Cron from "effect/Cron"
import { DAY_MILLIS } from "./zone.ts"

/** 29 February on a given day of the week comes again within 40 years: what does not come in so many days never does. */
const DAYS_LIMIT = 41 * 366

/** The wall times that an expression names. */
export interface Fields {
  readonly seconds: ReadonlyArray<number>
  readonly minutes: ReadonlyArray<number>
  readonly hours: ReadonlyArray<number>
  /** From 1. */
  readonly months: ReadonlySet<number>
  readonly isDay: (day: number, weekday: number) => boolean
}

const all = (from: number, to: number): ReadonlyArray<number> => Array.from({ length: to - from }, (_, i) => from + i)

const orAll = (values: ReadonlySet<number>, from: number, to: number): ReadonlyArray<number> =>
  values.size === 0 ? all(from, to) : Array.from(values).sort((a, b) => a - b)

/**
 * The fields of a parsed expression. Where both days are restricted one of them is enough, as everywhere with cron, unless
 * one is a stepped star: then both must fit.
 */
export const fieldsOf = (cron: Cron.Cron): Fields => {
  const { days, weekdays } = cron
  // a property that the type does not show, and that nothing else tells
  const needsBoth = (cron as { readonly and?: boolean }).and === true
  const isDay = (day: number, weekday: number): boolean => {
    const fitsDay = days.size === 0 || days.has(day)
    const fitsWeekday = weekdays.size === 0 || weekdays.has(weekday)
    return needsBoth || days.size === 0 || weekdays.size === 0 ? fitsDay && fitsWeekday : fitsDay || fitsWeekday
  }
  return {
    seconds: orAll(cron.seconds, 0, 60),
    minutes: orAll(cron.minutes, 0, 60),
    hours: orAll(cron.hours, 0, 24),
    months: new Set(orAll(cron.months, 1, 13)),
    isDay
  }
}

/** The first time of day from a second of the day on, in seconds; `undefined` if that day has none any more. */
const timeFrom = ({ hours, minutes, seconds }: Fields, from: number): number | undefined => {
  for (const hour of hours) {
    if (hour * 3_600 + 3_599 < from) continue
    for (const minute of minutes) {
      const base = hour * 3_600 + minute * 60
      if (base + 59 < from) continue
      for (const second of seconds) {
        if (base + second >= from) return base + second
      }
    }
  }
  return undefined
}

interface Day {
  readonly year: number
  /** From 1. */
  readonly month: number
  readonly day: number
}

/** Years begin with March here, so that the day that not every year has is the last one; 400 of them always have as many days. */
const ERA_DAYS = 146_097
const ERA_OFFSET_DAYS = 719_468

/** A day by its number since 1970. */
const dateOf = (dayNumber: number): Day => {
  const number = dayNumber + ERA_OFFSET_DAYS
  const era = Math.floor(number / ERA_DAYS)
  const ofEra = number - era * ERA_DAYS
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1_460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365
  )
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const fromMarch = Math.floor((5 * ofYear + 2) / 153)
  const month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: ofYear - Math.floor((153 * fromMarch + 2) / 5) + 1
  }
}

/** The first day of 1970 was a Thursday. */
const weekdayOf = (dayNumber: number): number => (((dayNumber + 4) % 7) + 7) % 7

/** The first wall time that the fields name, from a wall time on; `undefined` if none ever comes. */
export const firstFrom = (fields: Fields, wallMillis: number): number | undefined => {
  let day = Math.floor(wallMillis / DAY_MILLIS)
  let from = Math.ceil((wallMillis - day * DAY_MILLIS) / 1_000)
  const last = day + DAYS_LIMIT
  while (day <= last) {
    const date = dateOf(day)
    if (!fields.months.has(date.month)) day = Date.UTC(date.year, date.month, 1) / DAY_MILLIS
    else {
      const time = fields.isDay(date.day, weekdayOf(day)) ? timeFrom(fields, from) : undefined
      if (time !== undefined) return day * DAY_MILLIS + time * 1_000
      day++
    }
    from = 0
  }
  return undefined
}

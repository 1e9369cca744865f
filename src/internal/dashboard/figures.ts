/**
 * The figures of a tenant's servers, gathered over a pass that looks at all of them page by page, and what was measured
 * over the last minutes. Nothing here reads a store.
 */
import type * as Inspect from "../../Inspect.ts"
import { rowOf } from "./looking.ts"
import type { History, ServerRow } from "./wire.ts"

/** So many servers that should be looked at are shown; the others are counted. */
const TROUBLED_LIMIT = 20

/** So many points are kept: ten minutes of them, where a round comes every two seconds. */
const POINTS_LIMIT = 300

/** The servers of one definition, as far as they were looked at. */
export interface Tally {
  looked: number
  waiting: number
  locked: number
  dead: number
  oldestAt: number | undefined
}

/** What is counted of a definition none of whose servers were looked at. */
export const NOTHING: Readonly<Tally> = { looked: 0, waiting: 0, locked: 0, dead: 0, oldestAt: undefined }

/** One look at all servers, as far as it has come. */
export class Pass {
  looked = 0
  /** Messages that were taken off the queues of servers that are started: those of hosted ones have no lasting count. */
  taken = 0
  troubledCount = 0
  readonly troubled: Array<ServerRow> = []
  readonly tallies = new Map<string, Tally>()

  add(rows: ReadonlyArray<Inspect.ServerRow>): void {
    for (const row of rows) {
      this.looked++
      if (row.hosted !== true) this.taken += row.taken
      if (row.stuck.length > 0 && ++this.troubledCount <= TROUBLED_LIMIT) this.troubled.push(rowOf(row))
      this.#count(row)
    }
  }

  #count(row: Inspect.ServerRow): void {
    const name = row.server ?? ""
    let tally = this.tallies.get(name)
    if (tally === undefined) this.tallies.set(name, tally = { ...NOTHING })
    tally.looked++
    tally.waiting += row.queueLength
    tally.dead += row.deadLetters
    if (row.lock !== undefined) tally.locked++
    if (row.oldestAt !== undefined) tally.oldestAt = Math.min(tally.oldestAt ?? Infinity, row.oldestAt)
  }

  get waiting(): number {
    return this.#sum((tally) => tally.waiting)
  }

  /** When the oldest message that waits was sent. */
  get oldestAt(): number | undefined {
    const oldest = Math.min(...Array.from(this.tallies.values(), ({ oldestAt }) => oldestAt ?? Infinity))
    return oldest === Infinity ? undefined : oldest
  }

  #sum(of: (tally: Tally) => number): number {
    return Array.from(this.tallies.values(), of).reduce((sum, one) => sum + one, 0)
  }
}

/** A counter that only grows, as it was seen last: how fast it grows. What shrinks began anew, and says nothing. */
export class Speed {
  #last: { readonly value: number; readonly at: number } | undefined

  perSecond(value: number, at: number): number | undefined {
    const last = this.#last
    this.#last = { value, at }
    if (last === undefined || at <= last.at || value < last.value) return undefined
    return ((value - last.value) * 1000) / (at - last.at)
  }

  forget(): void {
    this.#last = undefined
  }
}

/** One measurement; what could not be measured is a gap in the picture. */
export interface Point {
  readonly at: number
  /** Messages taken off queues, and how often hosted servers were given something to do. */
  readonly perSecond: number | undefined
  readonly waiting: number | undefined
  readonly oldestMillis: number | undefined
  readonly jobsPerSecond: number | undefined
}

/** A time at which nothing was measured. */
export const gapAt = (at: number): Point => ({
  at,
  perSecond: undefined,
  waiting: undefined,
  oldestMillis: undefined,
  jobsPerSecond: undefined
})

/** The measurements of the last minutes. */
export class Points {
  readonly #points: Array<Point> = []

  add(point: Point): void {
    this.#points.push(point)
    if (this.#points.length > POINTS_LIMIT) this.#points.shift()
  }

  get history(): History {
    const points = this.#points
    return {
      at: points.map(({ at }) => at),
      perSecond: points.map(({ perSecond }) => perSecond ?? null),
      waiting: points.map(({ waiting }) => waiting ?? null),
      oldestMillis: points.map(({ oldestMillis }) => oldestMillis ?? null),
      jobsPerSecond: points.map(({ jobsPerSecond }) => jobsPerSecond ?? null)
    }
  }
}

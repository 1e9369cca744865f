/**
 * The pending queue as those who take jobs see it: jobs that were due at once when they came, in the order of their
 * commits, and jobs that are due at a time, by that time; the two are merged by priority and by when they were due. Which
 * jobs of the first kind are due needs no clock; the order of the two kinds among each other is as good as the clocks.
 *
 * Owner: one look, dropped with its transaction.
 */
import * as Effect from "effect/Effect"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import type { Place as Position } from "../definition/layout.ts"
import type { Place } from "../definition/model.ts"

/** A job of the queue. */
export interface Entry {
  readonly key: Uint8Array
  readonly place: Position
}

/** One of the two kinds. */
interface Source {
  begin: Uint8Array
  readonly end: Uint8Array
  /** Entries that were read and not looked at. */
  entries: Array<Entry>
  at: number
  isDone: boolean
}

const sourceOf = (prefix: Uint8Array): Source => ({
  ...Tuple.range([], prefix),
  entries: [],
  at: 0,
  isDone: false
})

const isBefore = (a: Entry, b: Entry): boolean =>
  a.place.priority === b.place.priority
    ? a.place.scheduledAt <= b.place.scheduledAt
    : a.place.priority > b.place.priority

export class Queue {
  /** When the next job will be due, `Infinity` if none is known. */
  nextAt = Infinity
  readonly #place: Place
  readonly #dueAt: number
  readonly #isFixed: boolean
  readonly #now: Source
  readonly #timed: Source

  /** Jobs due up to `dueAt`: by the clock, or, if it is fixed, by what the jobs say. */
  constructor(place: Place, dueAt: number, isFixed: boolean) {
    this.#place = place
    this.#dueAt = dueAt
    this.#isFixed = isFixed
    this.#now = sourceOf(place.keys.now)
    this.#timed = sourceOf(place.keys.pending)
  }

  /** Whether more has to be read before the next entry is known. */
  get isShort(): boolean {
    return [this.#now, this.#timed].some(({ at, entries, isDone }) => !isDone && at === entries.length)
  }

  /** Reads on, so many entries of a kind at a time. */
  fill(limit: number): Effect.Effect<void> {
    return Effect.asVoid(Effect.all([
      this.#read(this.#now, limit),
      this.#read(this.#timed, limit)
    ], { concurrency: "unbounded" }))
  }

  /** The next entry, and the queue goes on behind it; `undefined` when there is none. */
  shift(): Entry | undefined {
    const now = this.#now.entries[this.#now.at]
    const timed = this.#timed.entries[this.#timed.at]
    if (now === undefined && timed === undefined) return undefined
    const source = timed === undefined || (now !== undefined && isBefore(now, timed)) ? this.#now : this.#timed
    return source.entries[source.at++]
  }

  /** The entries that were read and not looked at, at most so many that `counts` accepts. */
  upcoming(limit: number, counts: (entry: Entry) => boolean): ReadonlyArray<Entry> {
    const rests = [this.#now, this.#timed].map(({ at, entries }) => entries.slice(at).filter(counts).slice(0, limit))
    return rests.flat().sort((a, b) => isBefore(a, b) ? -1 : 1).slice(0, limit)
  }

  // --- internal ---

  *#reading(source: Source, limit: number): Effect.fn.Return<void> {
    while (!source.isDone && source.at === source.entries.length) {
      const page = yield* this.#place.state.getRange(source.begin, source.end, { limit, snapshot: true })
      source.entries = []
      source.at = 0
      source.begin = this.#passed(source, page) ?? (page.length < limit ? source.end : Keys.next(page.at(-1)!.key))
      source.isDone = Tuple.compareBytes(source.begin, source.end) >= 0
    }
  }

  #read(source: Source, limit: number): Effect.Effect<void> {
    return source.isDone || source.at < source.entries.length
      ? Effect.void
      : Effect.gen(() => this.#reading(source, limit))
  }

  /** Takes in what is due of a page, and succeeds with where the next priority begins if the rest of this one is not. */
  #passed(source: Source, page: ReadonlyArray<{ readonly key: Uint8Array }>): Uint8Array | undefined {
    const { keys } = this.#place
    const isTimed = source === this.#timed
    for (const { key } of page) {
      const place = isTimed ? keys.placeOf(key) : keys.nowPlaceOf(key)
      if (place === undefined) continue
      if (place.scheduledAt <= this.#dueAt || (!isTimed && !this.#isFixed)) source.entries.push({ key, place })
      else if (isTimed) {
        this.nextAt = Math.min(this.nextAt, place.scheduledAt)
        return keys.below(keys.pending, place.priority)
      }
    }
    return undefined
  }
}

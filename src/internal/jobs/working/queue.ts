/**
 * The pending queue as those who take jobs see it: jobs that were due at once when they came, in the order of their
 * commits, and jobs that are due at a time, by that time; the two are merged by priority and by when they were due. Which
 * jobs of the first kind are due needs no clock; the order of the two kinds among each other is as good as the clocks. A
 * job of the first kind was due no later than those that came after it: one creator whose clock is ahead holds up neither
 * his own job nor those behind it.
 *
 * Where priorities age, each of them is a sequence of its own, and they are merged by how urgent their jobs have become.
 *
 * Owner: one look, dropped with its transaction.
 */
import * as Effect from "effect/Effect"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import type { Place as Position } from "../definition/layout.ts"
import { byUrgency, type Place } from "../definition/model.ts"

/** A job of the queue. */
export interface Entry {
  readonly key: Uint8Array
  readonly place: Position
}

/** A part of the queue that is in its order. */
interface Source {
  begin: Uint8Array
  readonly end: Uint8Array
  /** Whether its jobs are due at a time. */
  readonly isTimed: boolean
  /** Entries that were read and not looked at. */
  entries: Array<Entry>
  at: number
  isDone: boolean
}

const makeSource = (begin: Uint8Array, end: Uint8Array, isTimed: boolean): Source => ({
  begin,
  end,
  isTimed,
  entries: [],
  at: 0,
  isDone: false
})

/** Jobs that were due at once, each due no later than those behind it of its priority. */
const inTime = (entries: ReadonlyArray<Entry>): Array<Entry> => {
  const corrected = [...entries]
  for (let i = corrected.length - 2; i >= 0; i--) {
    const { key, place } = corrected[i]!
    const { priority, scheduledAt } = corrected[i + 1]!.place
    if (priority === place.priority && scheduledAt < place.scheduledAt) {
      corrected[i] = { key, place: { ...place, scheduledAt } }
    }
  }
  return corrected
}

export class Queue {
  /** When the next job will be due, `Infinity` if none is known. */
  nextAt = Infinity
  readonly #place: Place
  readonly #dueAt: number
  readonly #isFixed: boolean
  readonly #compare: (a: Position, b: Position) => number
  /** Missing until it is known which priorities there are. */
  #sources: ReadonlyArray<Source> | undefined

  /** Jobs due up to `dueAt`: by the clock, or, if it is fixed, by what the jobs say. */
  constructor(place: Place, dueAt: number, isFixed: boolean) {
    const { keys, model } = place
    this.#place = place
    this.#dueAt = dueAt
    this.#isFixed = isFixed
    this.#compare = byUrgency(model)
    if (model.agingMillis !== Infinity) return
    this.#sources = [[keys.now, false], [keys.pending, true]].map(([prefix, isTimed]) => {
      const { begin, end } = Tuple.range([], prefix as Uint8Array)
      return makeSource(begin, end, isTimed as boolean)
    })
  }

  /** Whether more has to be read before the next entry is known. */
  get isShort(): boolean {
    return this.#sources === undefined ||
      this.#sources.some(({ at, entries, isDone }) => !isDone && at === entries.length)
  }

  /** Reads on, so many entries of a source at a time. */
  fill(limit: number): Effect.Effect<void> {
    return Effect.flatMap(
      this.#sources === undefined ? Effect.gen(() => this.#byPriority()) : Effect.succeed(this.#sources),
      (sources) =>
        Effect.forEach(this.#sources = sources, (source) => this.#read(source, limit), {
          concurrency: "unbounded",
          discard: true
        })
    )
  }

  /** The next entry, and the queue goes on behind it; `undefined` when there is none. */
  shift(): Entry | undefined {
    let first: Source | undefined
    for (const source of this.#sources ?? []) {
      const entry = source.entries[source.at]
      if (entry === undefined) continue
      if (first === undefined || this.#compare(entry.place, first.entries[first.at]!.place) < 0) first = source
    }
    return first?.entries[first.at++]
  }

  /** The entries that were read and not looked at, at most so many that `counts` accepts. */
  upcoming(limit: number, counts: (entry: Entry) => boolean): ReadonlyArray<Entry> {
    const rests = (this.#sources ?? []).map(({ at, entries }) => entries.slice(at).filter(counts).slice(0, limit))
    return rests.flat().sort((a, b) => this.#compare(a.place, b.place)).slice(0, limit)
  }

  // --- internal ---

  /** A source for each priority that is in use: a read for each. */
  *#byPriority(): Effect.fn.Return<ReadonlyArray<Source>> {
    const { keys, state } = this.#place
    const sources: Array<Source> = []
    for (const prefix of [keys.now, keys.pending]) {
      const isTimed = prefix === keys.pending
      const { begin, end } = Tuple.range([], prefix)
      let from = begin
      for (;;) {
        const [first] = yield* state.getRange(from, end, { limit: 1, snapshot: true })
        if (first === undefined) break
        const place = isTimed ? keys.placeOf(first.key) : keys.nowPlaceOf(first.key)
        from = place === undefined ? Keys.next(first.key) : keys.below(prefix, place.priority)
        if (place !== undefined) sources.push(makeSource(first.key, from, isTimed))
      }
    }
    return sources
  }

  *#reading(source: Source, limit: number): Effect.fn.Return<void> {
    while (!source.isDone && source.at === source.entries.length) {
      const page = yield* this.#place.state.getRange(source.begin, source.end, { limit, snapshot: true })
      source.entries = []
      source.at = 0
      source.begin = this.#passed(source, page) ?? (page.length < limit ? source.end : Keys.next(page.at(-1)!.key))
      source.isDone = Tuple.compareBytes(source.begin, source.end) >= 0
      if (!source.isTimed) source.entries = inTime(source.entries)
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
    const { isTimed } = source
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

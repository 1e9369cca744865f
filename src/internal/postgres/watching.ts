/**
 * The watches of a layer.
 *
 * Owner: the layer. A watch has a base: the version of which its transaction saw, or wrote, the key's value.
 *
 * 1. A watch fires at the first commit above its base that wrote its key. This layer's own commits are told here as they are
 *    answered; those of others are looked for in the lane's log, in which all of them are, in order.
 * 2. Of both, the latest are remembered, for watches whose base is older. A watch whose base is older than what is remembered
 *    fires at once: to fire without a change is allowed.
 * 3. It is looked when a notification comes, after connecting to hear them, and by a timer behind: in a quiet store one small
 *    query a lane each `QUIET_MILLIS`. While nothing can be heard the timer is quick.
 * 4. An entry is taken out before its watch is told, so each is told once.
 */
import type { WatchRequest } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import type { Effects } from "./effects.ts"
import { type Lane, laneOf } from "./lanes.ts"

/** How late the commit of a process is seen that died before it could tell of it. */
const QUIET_MILLIS = 30_000

/** How late a commit of another process is seen while nothing can be heard. */
const DEAF_MILLIS = 250

/** So many commits of a lane are remembered. */
const REMEMBERED = 256

interface Range {
  readonly begin: string
  readonly end: string
}

/** What a commit wrote. */
interface Event {
  readonly version: bigint
  readonly keys: ReadonlyArray<string>
  readonly ranges: ReadonlyArray<Range>
}

interface Entry {
  readonly request: WatchRequest
  readonly base: bigint
}

/** The events of one kind, own or others', that are remembered: all above `floor`. */
class Memory {
  readonly events: Array<Event> = []
  floor: bigint

  constructor(floor: bigint) {
    this.floor = floor
  }

  add(event: Event): void {
    this.events.push(event)
    if (this.events.length > REMEMBERED) this.floor = this.events.shift()!.version
  }

  /** Whether a key was written, or may have been, after a version. */
  hasWritten(key: string, base: bigint): boolean {
    return base < this.floor || this.events.some((event) => event.version > base && wrote(event, key))
  }
}

const wrote = ({ keys, ranges }: Event, key: string): boolean =>
  keys.includes(key) || ranges.some(({ begin, end }) => begin <= key && key < end)

interface Place {
  readonly lane: Lane
  readonly entries: Map<string, Set<Entry>>
  readonly own: Memory
  /** Of others: those up to its `seen` have been looked at. */
  others: Memory
  seen: bigint
  isLooking: boolean
  again: boolean
}

/** What others committed in a lane. */
export interface Seen {
  readonly newest: bigint
  /** Whether nothing since the last look is missing. */
  readonly isWhole: boolean
  readonly events: ReadonlyArray<Event>
}

/** What the watches ask of the layer. */
export interface Sources {
  readonly look: (lane: Lane, since: bigint) => Promise<Seen>
  /** Sees to it that notifications of a lane are heard; `looked` is called each time from when on they are. */
  readonly hear: (lane: Lane) => void
  readonly isHearing: (lane: Lane) => boolean
}

export class Watching {
  readonly #places = new Map<Lane, Place>()
  readonly #sources: Sources
  #timer: NodeJS.Timeout | undefined
  #count = 0

  constructor(sources: Sources) {
    this.#sources = sources
  }

  /** Arms a watch. */
  arm(request: WatchRequest, base: bigint): void {
    const lane = laneOf(request.key)
    const key = Keys.toText(request.key)
    const place = this.#placeOf(lane)
    if (place.entries.size === 0) {
      place.seen = base
      place.others = new Memory(base)
    }
    if (place.own.hasWritten(key, base) || place.others.hasWritten(key, base)) return request.fire()
    const entry: Entry = { request, base }
    const entries = place.entries.get(key)
    if (entries === undefined) place.entries.set(key, new Set([entry]))
    else entries.add(entry)
    this.#count++
    request.isKept = true
    request.onCancel = () => this.#remove(place, key, entry)
    this.#sources.hear(lane)
    if (this.#timer === undefined) this.#schedule()
    if (place.entries.size === 1 && this.#sources.isHearing(lane)) this.look(lane)
  }

  /** This layer has committed. */
  committed(lane: Lane, version: bigint, effects: ReadonlyArray<Effects>): void {
    const place = this.#placeOf(lane)
    const keys: Array<string> = []
    const ranges: Array<Range> = []
    for (const { clears, points, stamped } of effects) {
      for (const text of points.keys()) keys.push(text)
      for (const one of stamped) if (one.op === "versionstampedValue") keys.push(Keys.toText(one.key))
      for (const { begin, end } of clears) ranges.push({ begin: Keys.toText(begin), end: Keys.toText(end) })
    }
    const event = { version, keys, ranges }
    place.own.add(event)
    this.#happened(place, event)
  }

  /** Looks for what others committed in a lane, unless nobody waits for it. */
  look(lane: Lane): void {
    const place = this.#places.get(lane)
    if (place === undefined || place.entries.size === 0) return
    if (place.isLooking) {
      place.again = true
      return
    }
    place.isLooking = true
    place.again = false
    const { others, seen } = place
    this.#sources.look(lane, seen).then(
      (found) => {
        place.isLooking = false
        if (place.others === others) this.#saw(place, found)
        if (place.again || place.others !== others) this.look(lane)
      },
      () => {
        // the timer looks again
        place.isLooking = false
      }
    )
  }

  /** The lanes that somebody waits for. */
  get lanes(): ReadonlyArray<Lane> {
    return Array.from(this.#places.values()).filter(({ entries }) => entries.size > 0).map(({ lane }) => lane)
  }

  close(failure: BackendError): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const place of this.#places.values()) {
      for (const entries of Array.from(place.entries.values())) {
        for (const { request } of Array.from(entries)) {
          request.onCancel?.()
          request.fail(failure)
        }
      }
    }
  }

  #saw(place: Place, { events, isWhole, newest }: Seen): void {
    if (newest > place.seen) place.seen = newest
    if (!isWhole) {
      place.others = new Memory(place.seen)
      for (const [key, entries] of Array.from(place.entries)) {
        for (const entry of Array.from(entries)) this.#fire(place, key, entry)
      }
      return
    }
    for (const event of events) {
      place.others.add(event)
      this.#happened(place, event)
    }
  }

  #happened(place: Place, event: Event): void {
    if (place.entries.size === 0) return
    const tell = (key: string) => {
      for (const entry of Array.from(place.entries.get(key) ?? [])) {
        if (entry.base < event.version) this.#fire(place, key, entry)
      }
    }
    for (const key of event.keys) tell(key)
    for (const { begin, end } of event.ranges) {
      for (const key of Array.from(place.entries.keys())) if (begin <= key && key < end) tell(key)
    }
  }

  #fire(place: Place, key: string, entry: Entry): void {
    this.#remove(place, key, entry)
    entry.request.fire()
  }

  #remove(place: Place, key: string, entry: Entry): void {
    const entries = place.entries.get(key)
    if (entries === undefined || !entries.delete(entry)) return
    if (entries.size === 0) place.entries.delete(key)
    if (--this.#count > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #placeOf(lane: Lane): Place {
    let place = this.#places.get(lane)
    if (place === undefined) {
      place = {
        lane,
        entries: new Map(),
        own: new Memory(-1n),
        others: new Memory(-1n),
        seen: 0n,
        isLooking: false,
        again: false
      }
      this.#places.set(lane, place)
    }
    return place
  }

  /** Nothing is heard any more, or all is again. */
  hearingChanged(): void {
    if (this.#timer !== undefined) this.#schedule()
  }

  /** See (3). */
  #schedule(): void {
    clearTimeout(this.#timer)
    const isDeaf = this.lanes.some((lane) => !this.#sources.isHearing(lane))
    this.#timer = setTimeout(() => {
      for (const lane of this.lanes) this.look(lane)
      this.#schedule()
    }, isDeaf ? DEAF_MILLIS : QUIET_MILLIS)
  }
}

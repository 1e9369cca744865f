/**
 * The connection that hears of commits of other processes.
 *
 * Owner: the layer. It is opened when somebody waits for the first time, and opened again whenever it is lost.
 *
 * 1. A lane is heard from the moment on at which a notification that this layer sent through another connection has come in:
 *    a pooler may take LISTEN and deliver nothing. From then on nothing is missed until the connection is lost.
 * 2. `heard` is called once for each lane when it begins to be heard, and for each notification that is not of this layer.
 */
import type { Connection } from "./connection.ts"
import { type Lane, lockOf } from "./lanes.ts"

const RECONNECT_FIRST_MILLIS = 100
const RECONNECT_LIMIT_MILLIS = 5_000

/** How long the notification of a test may take. */
const PROBE_MILLIS = 2_000

/** How soon it is tried again where notifications do not come in. */
const PROBE_AGAIN_MILLIS = 60_000

/** Few channels: a process hears of the lanes that share one with those it waits for. */
export const CHANNELS = 64n

export const CHANNEL_PREFIX = "effect_dgen_"

/** The channel of a lane by the number of its lock. */
export const channelOf = (lock: bigint): string => `${CHANNEL_PREFIX}${BigInt.asUintN(64, lock) % CHANNELS}`

/** What a notification says: the lane's lock, and the layer that it comes from. */
export const payloadOf = (lock: bigint, origin: bigint): string => `${lock} ${origin}`

/** What it asks of the layer. */
export interface Sources {
  readonly open: () => Promise<Connection>
  /** Sends a notification through another connection. */
  readonly notify: (channel: string, payload: string) => Promise<void>
  readonly origin: () => bigint
  readonly heard: (lane: Lane) => void
  /** What is heard has changed. */
  readonly changed: () => void
}

interface Place {
  readonly lane: Lane
  readonly lock: bigint
  isHeard: boolean
}

export class Listening {
  readonly #store: string
  readonly #sources: Sources
  /** By their locks. */
  readonly #places = new Map<string, Place>()
  readonly #probes = new Map<string, () => void>()
  #connection: Connection | undefined
  #isOpening = false
  #closed = false
  #timers = new Set<NodeJS.Timeout>()
  #pauseMillis = RECONNECT_FIRST_MILLIS

  constructor(store: string, sources: Sources) {
    this.#store = store
    this.#sources = sources
  }

  hear(lane: Lane): void {
    const lock = lockOf(this.#store, lane)
    if (this.#places.has(String(lock))) return
    const place = { lane, lock, isHeard: false }
    this.#places.set(String(lock), place)
    if (this.#connection === undefined) this.#open()
    else this.#listen(this.#connection, place)
  }

  isHearing(lane: Lane): boolean {
    return this.#places.get(String(lockOf(this.#store, lane)))?.isHeard === true
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearTimeout(timer)
    await this.#connection?.end()
  }

  #open(): void {
    if (this.#isOpening || this.#closed) return
    this.#isOpening = true
    this.#sources.open().then(
      (connection) => {
        this.#isOpening = false
        if (this.#closed) return void connection.end()
        this.#connection = connection
        this.#pauseMillis = RECONNECT_FIRST_MILLIS
        connection.onNotification(({ payload }) => this.#told(payload ?? ""))
        connection.onLost(() => this.#lost())
        for (const place of this.#places.values()) this.#listen(connection, place)
      },
      () => {
        this.#isOpening = false
        this.#openLater()
      }
    )
  }

  #lost(): void {
    this.#connection = undefined
    for (const place of this.#places.values()) place.isHeard = false
    this.#sources.changed()
    this.#openLater()
  }

  #openLater(): void {
    this.#later(this.#pauseMillis, () => this.#open())
    this.#pauseMillis = Math.min(RECONNECT_LIMIT_MILLIS, 2 * this.#pauseMillis)
  }

  #later(millis: number, run: () => void): NodeJS.Timeout | undefined {
    if (this.#closed) return undefined
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      run()
    }, millis)
    this.#timers.add(timer)
    return timer
  }

  /** Listens, and tries whether it hears (1). */
  #listen(connection: Connection, place: Place): void {
    const channel = channelOf(place.lock)
    const probe = `probe ${place.lock} ${this.#sources.origin()}`
    const again = this.#later(PROBE_MILLIS, () => {
      this.#probes.delete(probe)
      this.#later(PROBE_AGAIN_MILLIS, () => {
        if (this.#connection === connection && !place.isHeard) this.#listen(connection, place)
      })
    })
    this.#probes.set(probe, () => {
      clearTimeout(again)
      if (again !== undefined) this.#timers.delete(again)
      if (this.#connection !== connection) return
      place.isHeard = true
      this.#sources.changed()
      this.#sources.heard(place.lane)
    })
    // a connection that fails meanwhile is opened again, and a test that cannot be sent is made again
    connection.query(`LISTEN ${channel}`).then(() => this.#sources.notify(channel, probe)).catch(() => {})
  }

  #told(payload: string): void {
    const probe = this.#probes.get(payload)
    if (probe !== undefined) {
      this.#probes.delete(payload)
      return probe()
    }
    const [lock, origin] = payload.split(" ")
    const place = this.#places.get(lock ?? "")
    if (place !== undefined && origin !== String(this.#sources.origin())) this.#sources.heard(place.lane)
  }
}

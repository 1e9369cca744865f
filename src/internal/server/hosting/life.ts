/**
 * Which hosts there are, and which of them works on a server first.
 *
 * Owner: one a tenant layer, made with its first host; its fiber lives in the layer's scope while there are hosts.
 *
 * 1. A layer with hosts has one row, `<library> "h" <layer>`, with a number that it counts up every `BEAT_MILLIS` and the
 *    names of the definitions that it hosts. It takes the row away when its last host ends.
 * 2. Another layer is there while this one has seen its number change within `LEASE_MILLIS` on its own monotonic clock.
 *    No two clocks are compared, and a row that nobody renews says nothing, whatever is in it.
 * 3. Rendezvous hashing over those who are there says who works on a server first, and nothing else: hosts that disagree
 *    meet in their transactions, which keep every promise (rules R2, H4).
 * 4. A row that nobody has renewed for `FORGOTTEN_MILLIS` is cleared by whoever has watched it so long.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import * as Keys from "../../data/keys.ts"
import { logDebug } from "../../observing/logging.ts"
import { keepRunning } from "../../observing/unforeseen.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import { INSTANCE_BYTES } from "../../tenant/limits.ts"
import { transact } from "../../transactions/loop.ts"
import { hash } from "../kept/indexes.ts"

/** Three signs fit a lease. */
export const BEAT_MILLIS = 3_000

/** A host that has not renewed its row for so long is not there. */
export const LEASE_MILLIS = 10_000

const FORGOTTEN_MILLIS = 10 * LEASE_MILLIS

/** Rows of one look: more processes do not host one tenant. */
const ROWS_LIMIT = 10_000

/** A store that does not answer must not hold up the end of a program. */
const FAREWELL_MILLIS = 2_000

interface Other {
  readonly beat: number
  /** When its number was first seen. */
  readonly sinceMillis: number
  /** Whether it was seen to renew its row (2). */
  readonly renewed: boolean
  readonly names: ReadonlySet<string>
}

const rowsPrefix = (tenant: Uint8Array): Uint8Array => Tuple.pack(["h"], libraryPrefix(tenant))

const rowOf = (bytes: Uint8Array): { readonly beat: number; readonly names: ReadonlySet<string> } | undefined => {
  const data = Result.getOrUndefined(unpackValue(bytes))
  if (!Array.isArray(data) || typeof data[0] !== "number" || !Array.isArray(data[1])) return undefined
  return { beat: data[0], names: new Set(data[1].filter((name) => typeof name === "string")) }
}

/** The hosts of a tenant, as one of its layers sees them. */
export class Life {
  readonly #tenant: Tenant["Service"]
  readonly #key: Uint8Array
  readonly #others = new Map<string, Other>()
  /** What is told when the hosts of a definition change. */
  readonly #own = new Map<string, () => void>()
  /** The seeds of the hosts of a definition that are there, this one included. */
  readonly #seeds = new Map<string, ReadonlyArray<readonly [layer: string, seed: number]>>()
  readonly #self: string
  /** One sign at a time: the row is away for good when the last host has ended (1). */
  readonly #turn = Semaphore.makeUnsafe(1)
  #beat = 0
  #isBeating = false
  #fiber: Fiber.Fiber<void> | undefined

  private constructor(tenant: Tenant["Service"]) {
    this.#tenant = tenant
    this.#key = Tuple.pack([tenant.instance], rowsPrefix(tenant.prefix))
    this.#self = Keys.toText(tenant.instance)
  }

  static #lives = new WeakMap<object, Life>()

  /** The one of a tenant layer. */
  static of(tenant: Tenant["Service"]): Life {
    let life = Life.#lives.get(tenant)
    if (life === undefined) Life.#lives.set(tenant, life = new Life(tenant))
    return life
  }

  /** Hosts a definition from now on; `changed` is called when its hosts change. */
  join(name: string, changed: () => void): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#own.set(name, changed)
      this.#seeds.delete(name)
      // a first sign that fails is followed by others
      const first = Effect.ignore(this.#look)
      if (this.#isBeating) return first
      this.#isBeating = true
      return Effect.flatMap(
        Effect.andThen(
          first,
          Effect.forkIn(keepRunning("hosts", "the signs of life of hosts", this.#beats), this.#tenant.scope)
        ),
        (fiber) =>
          Effect.sync(() => {
            this.#fiber = fiber
          })
      )
    })
  }

  /** Hosts a definition no more; the last one takes the row away (1). */
  leave(name: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#own.delete(name)
      if (this.#own.size > 0) return Effect.ignore(this.#look)
      const fiber = this.#fiber
      this.#fiber = undefined
      this.#isBeating = false
      const clear = transact(this.#tenant, Effect.map(Transaction, (state) => state.clear(this.#key)))
      const farewell = Effect.andThen(
        fiber === undefined ? Effect.void : Fiber.interrupt(fiber),
        this.#turn.withPermit(clear)
      )
      return Effect.ignore(Effect.timeoutOption(Effect.interruptible(farewell), FAREWELL_MILLIS))
    })
  }

  /** Whether this layer works first on a server of a definition that it hosts (3). */
  isMine(name: string, packed: Uint8Array): boolean {
    let seeds = this.#seeds.get(name)
    if (seeds === undefined) this.#seeds.set(name, seeds = this.#seedsOf(name))
    if (seeds.length === 1) return true
    let best = -1
    let first = ""
    for (const [layer, seed] of seeds) {
      const score = hash(packed, seed)
      if (score > best || score === best && layer > first) {
        best = score
        first = layer
      }
    }
    return first === this.#self
  }

  #seedsOf(name: string): ReadonlyArray<readonly [string, number]> {
    const layers = [this.#self]
    for (const [layer, other] of this.#others) if (other.renewed && other.names.has(name)) layers.push(layer)
    return layers.map((layer) => [layer, hash(Keys.fromText(layer))] as const)
  }

  /** A sign of life, and a look at the others', again and again; a store that is away is asked again at the next beat. */
  get #beats(): Effect.Effect<never> {
    const beat = Effect.catchCause(
      this.#look,
      (cause) => logDebug("a host's sign of life could not be written, it is tried again", cause)
    )
    return Effect.interruptible(Effect.forever(Effect.andThen(Effect.sleep(BEAT_MILLIS), beat)))
  }

  get #look() {
    const { begin, end } = Tuple.range([], rowsPrefix(this.#tenant.prefix))
    const body = Effect.flatMap(Transaction, (state) => {
      state.set(this.#key, packValue([++this.#beat, [...this.#own.keys()]]))
      return state.getRange(begin, end, { limit: ROWS_LIMIT, snapshot: true })
    })
    const sign = Effect.suspend(() => this.#own.size === 0 ? Effect.succeed([]) : transact(this.#tenant, body))
    return this.#turn.withPermit(Effect.flatMap(sign, (rows) =>
      Effect.flatMap(Clock.monotonicTimeNanos, (nanos) => {
        const now = Number(nanos / 1_000_000n)
        const before = this.#present()
        const seen = new Set<string>()
        for (const { key, value } of rows) {
          const instance =
            Result.getOrElse(Tuple.unpackResult(key, rowsPrefix(this.#tenant.prefix).length), () => [])[0]
          const row = rowOf(value)
          if (!(instance instanceof Uint8Array) || instance.length !== INSTANCE_BYTES || row === undefined) continue
          const layer = Keys.toText(instance)
          if (layer === this.#self) continue
          seen.add(layer)
          this.#see(layer, row, now)
        }
        const forgotten: Array<Uint8Array> = []
        for (const [layer, other] of this.#others) {
          if (!seen.has(layer)) this.#others.delete(layer)
          else if (now - other.sinceMillis > FORGOTTEN_MILLIS) forgotten.push(Keys.fromText(layer))
          else if (now - other.sinceMillis > LEASE_MILLIS && other.renewed) {
            this.#others.set(layer, { ...other, renewed: false })
          }
        }
        this.#tell(before)
        return this.#forget(forgotten)
      })))
  }

  #see(layer: string, row: { readonly beat: number; readonly names: ReadonlySet<string> }, now: number): void {
    const known = this.#others.get(layer)
    if (known === undefined) {
      this.#others.set(layer, { ...row, sinceMillis: now, renewed: false })
    } else if (known.beat !== row.beat) {
      this.#others.set(layer, { ...row, sinceMillis: now, renewed: true })
    }
  }

  /** Who is there, definition by definition, as text. */
  #present(): Map<string, string> {
    const present = new Map<string, string>()
    for (const name of this.#own.keys()) {
      present.set(name, this.#seedsOf(name).map(([layer]) => layer).sort().join())
    }
    return present
  }

  #tell(before: ReadonlyMap<string, string>): void {
    for (const [name, present] of this.#present()) {
      if (before.get(name) === present) continue
      this.#seeds.delete(name)
      this.#own.get(name)?.()
    }
  }

  /** Clears rows that nobody renews (4), if they are still as they were. */
  #forget(layers: ReadonlyArray<Uint8Array>) {
    if (layers.length === 0) return Effect.void
    const body = Effect.flatMap(Transaction, (state) =>
      Effect.forEach(layers, (instance) => {
        const key = Tuple.pack([instance], rowsPrefix(state.prefix))
        return Effect.map(state.get(key), (value) => {
          const row = value === undefined ? undefined : rowOf(value)
          if (row?.beat === this.#others.get(Keys.toText(instance))?.beat) state.clear(key)
        })
      }, { discard: true }))
    return transact(this.#tenant, body)
  }
}

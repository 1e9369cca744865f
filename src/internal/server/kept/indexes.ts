/**
 * The indexes of a definition: which of its servers there are, which have something to do, and when to look at one again.
 *
 * ```
 * <library> "d" <name> "list" (<tuid>)           servers that have a state
 *                      "work" <bell> (<tuid>)    hosted servers that have something to do; the value is its writer's
 *                      "bell" <bell>             counters, rung with each entry: few, so that hosts can watch them all
 *                      "wake" <millis> (<tuid>)  when a hosted server has to be looked at
 *                      "record"                  what tools know of the definition, see record.ts
 * ```
 *
 * 1. Who gives a hosted server something to do writes its entry in the same transaction, blindly, with a value that
 *    nobody else writes, and rings (rule H2). Nobody reads anything for that, so pushes conflict with nobody.
 * 2. An entry is cleared only by a transaction that saw the end of the server's queue, with a read conflict up to it, that
 *    read the entry for conflict, and that has not itself given the server something to do.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { LocalHostsOf } from "../../tenant/hosts.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import { isTime } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import { HOSTED_NAME_LIMIT_BYTES } from "../definition/making.ts"

/** Bells of a definition: a host reads all of them with one range, and a foreign ring leads it to a part of the entries. */
export const BELLS = 16

/** Whether servers of a name are listed: with a longer one, their places would not fit keys. */
export const isListed = (name: string): boolean => Buffer.byteLength(name) <= HOSTED_NAME_LIMIT_BYTES

/** The indexes of one definition. */
export class IndexKeys {
  readonly list: Uint8Array
  readonly work: Uint8Array
  readonly bells: Uint8Array
  readonly wakes: Uint8Array

  constructor(tenantPrefix: Uint8Array, name: string) {
    const prefix = Tuple.pack(["d", name], libraryPrefix(tenantPrefix))
    this.list = Tuple.pack(["list"], prefix)
    this.work = Tuple.pack(["work"], prefix)
    this.bells = Tuple.pack(["bell"], prefix)
    this.wakes = Tuple.pack(["wake"], prefix)
  }

  bell(bell: number): Uint8Array {
    return Tuple.pack([bell], this.bells)
  }

  /** The entries that one bell rings for. */
  entries(bell: number): Uint8Array {
    return Tuple.pack([bell], this.work)
  }

  wake(millis: number, tuid: Tuple.Tuple): Uint8Array {
    return Tuple.pack([Math.floor(millis), tuid], this.wakes)
  }
}

const known = new WeakMap<Uint8Array, Map<string, IndexKeys>>()

/** The indexes of a definition: its servers in a tenant layer, which may be very many, share them. */
export const indexesOf = (tenantPrefix: Uint8Array, name: string): IndexKeys => {
  let ofTenant = known.get(tenantPrefix)
  if (ofTenant === undefined) known.set(tenantPrefix, ofTenant = new Map())
  let indexes = ofTenant.get(name)
  if (indexes === undefined) ofTenant.set(name, indexes = new IndexKeys(tenantPrefix, name))
  return indexes
}

/** The bell of a server: the FNV-1a hash of its packed tuid. */
export const bellOf = (packed: Uint8Array): number => hash(packed) % BELLS

/** The FNV-1a hash of bytes, its bits mixed once more, as an unsigned integer of 32 bits. */
export const hash = (bytes: Uint8Array, seed = 0x811c9dc5): number => {
  let value = seed
  for (const byte of bytes) value = Math.imul(value ^ byte, 0x01000193)
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35)
  return (value ^ (value >>> 16)) >>> 0
}

/** A server in the indexes of its definition; a hosted one uses more than its place in the list. */
export class Place {
  readonly indexes: IndexKeys
  readonly name: string
  readonly tuid: Tuple.Tuple
  #packed: Uint8Array | undefined
  #entry: Uint8Array | undefined

  constructor(indexes: IndexKeys, name: string, tuid: Tuple.Tuple) {
    this.indexes = indexes
    this.name = name
    this.tuid = tuid
  }

  get packed(): Uint8Array {
    return this.#packed ??= Tuple.pack(this.tuid)
  }

  get bell(): number {
    return bellOf(this.packed)
  }

  get entry(): Uint8Array {
    return this.#entry ??= Tuple.pack([this.tuid], this.indexes.entries(this.bell))
  }

  /** Used when a server is made and when it ends. */
  get listed(): Uint8Array {
    return Tuple.pack([this.tuid], this.indexes.list)
  }
}

const GIVEN = Symbol("effect-dgen/server/given")

/** The servers that a transaction has given something to do, as the texts of their entries; less those that it takes back. */
const givenBy = (state: TransactionState): Set<string> => {
  const known = state.kept<Set<string>>(GIVEN)
  if (known !== undefined) return known
  const given = new Set<string>()
  state.keep(GIVEN, given)
  state.participate(() => {
    const before = [...given]
    return () => {
      given.clear()
      for (const text of before) given.add(text)
    }
  })
  return given
}

/** Says that a hosted server has something to do (1). */
export const giveWork = (state: TransactionState, place: Place): void => {
  const given = givenBy(state)
  const text = Keys.toText(place.entry)
  state.set(place.entry, state.operationId)
  if (given.has(text)) return
  given.add(text)
  const bell = place.indexes.bell(place.bell)
  state.add(bell, Counters.PLUS_ONE)
  const { services } = state.target
  const hostOf = () => Context.get(services, LocalHostsOf)?.get(place.name)
  const ring = hostOf()?.ringing(place.bell)
  if (ring !== undefined) {
    state.onCommit.push(ring.stayed)
    state.onEnd.push(ring.ended)
  }
  state.onAccepted.push(() => {
    ring?.rang()
    if (hostOf()?.wake(place.packed, state.operationId, place.bell) !== true) {
      state.target.backend.signals.notify(Keys.toText(bell))
    }
  })
}

/** Takes the entry of a server away whose queue's end this transaction has seen (2). Succeeds with whether it did. */
export const takeWork = (state: TransactionState, place: Place): Effect.Effect<boolean> => {
  if (givenBy(state).has(Keys.toText(place.entry))) return Effect.succeed(false)
  return Effect.map(state.get(place.entry), (value) => {
    if (value !== undefined) state.clear(place.entry)
    return true
  })
}

/** Writes down when to look at a hosted server, and rings: who waits for a later time must hear of it. */
const wakeAt = (state: TransactionState, place: Place, millis: number): void => {
  const bell = place.indexes.bell(place.bell)
  state.set(place.indexes.wake(millis, place.tuid), state.operationId)
  state.add(bell, Counters.PLUS_ONE)
  signalKey(state.target, state, bell)
}

/** When the index wakes the server, as the server knows it. */
export const readWake = (bytes: Uint8Array | undefined): number | undefined => {
  if (bytes?.length !== 8) return undefined
  const millis = new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0)
  return isTime(millis) ? millis : undefined
}

/** Moves the wake-up of a hosted server from one time to another, or takes it away. */
export const moveWake = (
  state: TransactionState,
  keys: { readonly place: Place; readonly wake: Uint8Array },
  from: number | undefined,
  to: number | undefined
): void => {
  const { place } = keys
  if (from !== undefined) state.clear(place.indexes.wake(from, place.tuid))
  if (to === undefined) return state.clear(keys.wake)
  wakeAt(state, place, to)
  state.set(keys.wake, wakeBytes(to))
}

const wakeBytes = (millis: number): Uint8Array => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setFloat64(0, millis)
  return bytes
}

/**
 * Turns the wake-up of a hosted server into an entry. The server knows of it as one that is overdue: who runs it next, by
 * whatever clock, looks at its timers and writes the next one down.
 */
export const wakeUp = (
  state: TransactionState,
  keys: { readonly place: Place; readonly wake: Uint8Array },
  row: Uint8Array
): void => {
  state.clear(row)
  state.set(keys.wake, wakeBytes(0))
  giveWork(state, keys.place)
}

/** The tuid that a key of an index ends with, behind what stands before it. */
export const tuidOfKey = (key: Uint8Array, prefix: Uint8Array, at: number): Tuple.Tuple | undefined => {
  const elements = Result.getOrUndefined(Tuple.unpackResult(key, prefix.length))
  const tuid = elements?.[at]
  return Array.isArray(tuid) && tuid.length > 0 ? tuid as Tuple.Tuple : undefined
}

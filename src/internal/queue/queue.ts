/**
 * The operations of a queue on the keys where it lies. `DurableQueue` is what users see of it.
 *
 * 1. An item is its message with a header: how often handling it has failed, and, where a consumer could not read it, since
 *    when. A change of it rewrites the first piece alone, so that the item keeps its place.
 * 2. Pushes touch no key that a consumer reads for conflict; counters change by atomic additions.
 * 3. Items are cleared key by key: clearing their range would drop what the same transaction pushes (rule R4).
 */
import * as Effect from "effect/Effect"
import type { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import * as Counters from "../data/counters.ts"
import * as Keys from "../data/keys.ts"
import { isTime } from "../tenant/limits.ts"
import type { TransactionState } from "../transactions/state.ts"
import { lengthOf } from "../tuple/element.ts"
import type { QueueKeys } from "./layout.ts"
import * as Pieces from "./pieces.ts"

/** The attempts; the highest bit says that the time of the first meeting follows. */
const HEADER_BYTES = 4

const MET = 0x8000_0000

const ATTEMPTS_LIMIT = MET - 1

const MET_HEADER_BYTES = HEADER_BYTES + 8

/** An item of a queue. */
export interface Item extends Pieces.Whole {
  /** How often handling it has failed. */
  readonly attempts: number
  /** When a consumer that cannot read it first met it, if that has happened. */
  readonly metMillis: number | undefined
  /** The message without its header. */
  readonly message: Uint8Array
}

interface Header {
  readonly attempts: number
  readonly metMillis: number | undefined
  readonly bytes: number
}

/** The header of bytes; those that nobody pushed have no room for one. */
const headerOf = (bytes: Uint8Array): Header => {
  if (bytes.length < HEADER_BYTES) return { attempts: 0, metMillis: undefined, bytes: 0 }
  const first = Keys.readUint32(bytes, 0)
  if (first < MET) return { attempts: first, metMillis: undefined, bytes: HEADER_BYTES }
  if (bytes.length < MET_HEADER_BYTES) return { attempts: 0, metMillis: undefined, bytes: 0 }
  const millis = new DataView(bytes.buffer, bytes.byteOffset).getFloat64(HEADER_BYTES)
  return { attempts: first - MET, metMillis: isTime(millis) ? millis : undefined, bytes: MET_HEADER_BYTES }
}

const withHeader = (message: Uint8Array, attempts: number, metMillis: number | undefined): Uint8Array => {
  const length = metMillis === undefined ? HEADER_BYTES : MET_HEADER_BYTES
  const bytes = Keys.reserve(length + lengthOf(message))
  const count = Math.min(ATTEMPTS_LIMIT, attempts)
  Keys.writeUint32(bytes, 0, metMillis === undefined ? count : count + MET)
  if (metMillis !== undefined) new DataView(bytes.buffer, bytes.byteOffset).setFloat64(HEADER_BYTES, metMillis)
  bytes.set(message, length)
  return bytes
}

const itemOf = (whole: Pieces.Whole): Item => {
  const { attempts, bytes, metMillis } = headerOf(whole.bytes)
  return { ...whole, attempts, metMillis, message: bytes === 0 ? whole.bytes : whole.bytes.subarray(bytes) }
}

/** The message of an item's bytes. */
export const messageOf = (bytes: Uint8Array): Uint8Array => bytes.subarray(headerOf(bytes).bytes)

/** Adds a message at the end, with the attempts that it has behind it. */
export const push = (state: TransactionState, keys: QueueKeys, message: Uint8Array, attempts = 0): void => {
  Pieces.append(state, keys.items, withHeader(message, attempts, undefined))
  state.add(keys.push, Counters.PLUS_ONE)
}

/** The first items, at most `limit`, from a key on if it is given, by snapshot. */
export const peek = (
  state: TransactionState,
  keys: QueueKeys,
  limit: number,
  first?: Uint8Array
): Effect.Effect<ReadonlyArray<Item>> =>
  Effect.map(peekWhole(state, keys.items, limit, first), (found) => found.map(itemOf))

/** The first byte strings under a prefix, from a key on if it is given. */
export const peekWhole = (
  state: TransactionState,
  prefix: Uint8Array,
  limit: number,
  first: Uint8Array | undefined
): Effect.Effect<ReadonlyArray<Pieces.Whole>> => {
  const { begin, end } = Tuple.range([], prefix)
  const from = first ?? begin
  const look = (rows: number): Effect.Effect<ReadonlyArray<Pieces.Whole>> =>
    Effect.flatMap(state.getRange(from, end, { limit: rows, snapshot: true }), (found) => {
      const isEnd = found.length < rows
      const items = Pieces.assemble(prefix, found, limit, isEnd)
      // a long item can need more rows than were asked for: ask again, for twice as many
      return items.length >= Math.min(limit, 1) || isEnd ? Effect.succeed(items) : look(rows * 2)
    })
  return look(limit)
}

/** Takes items that a `peek` of the same transaction showed: each key is a read conflict, so nobody else takes it. */
export const take = (state: TransactionState, keys: QueueKeys, items: ReadonlyArray<Item>): void => {
  if (items.length === 0) return
  for (const item of items) clearWhole(state, item)
  state.add(keys.pop, Counters.amountBytes(items.length))
}

/** Clears a byte string that was read by snapshot, if nobody else did. */
export const clearWhole = (state: TransactionState, whole: Pieces.Whole): void => {
  for (const key of whole.keys) {
    state.addReadConflict(Keys.single(key))
    state.clear(key)
  }
}

/** How many messages wait or are kept beside the queue: the difference of two counters, and those, by snapshot. */
export const length = (state: TransactionState, keys: QueueKeys): Effect.Effect<number> =>
  Effect.map(
    Effect.all([
      state.get(keys.push, true),
      state.get(keys.pop, true),
      keys.countBeside?.(state) ?? Effect.succeed(0)
    ], { concurrency: "unbounded" }),
    ([pushed, popped, beside]) => Number(Counters.readBigint(pushed) - Counters.readBigint(popped)) + beside
  )

/** A counter, by snapshot. */
export const count = (state: TransactionState, key: Uint8Array): Effect.Effect<number> =>
  Effect.map(state.get(key, true), Counters.read)

/**
 * Counts one more failure of an item, if the store still has the item as it was seen (rule R12). Succeeds with whether
 * it did.
 */
export const charge = (state: TransactionState, item: Item): Effect.Effect<boolean> =>
  rewrite(state, item, item.attempts + 1, item.metMillis)

/** Writes into an item that a consumer which cannot read it has met it now, if the store still has it as it was seen. */
export const meet = (state: TransactionState, item: Item): Effect.Effect<boolean> =>
  rewrite(state, item, item.attempts, state.timeMillis)

/** Gives an item another header, if the store still has it as it was seen. Succeeds with whether it has. */
const rewrite = (
  state: TransactionState,
  item: Item,
  attempts: number,
  metMillis: number | undefined
): Effect.Effect<boolean> => {
  const key = item.keys[0]!
  return Effect.map(state.get(key), (value) => {
    const expected = item.keys.length === 1 ? item.bytes.length : undefined
    if (value === undefined || (expected !== undefined && value.length !== expected)) return false
    const seen = headerOf(value)
    if (seen.attempts !== item.attempts || seen.metMillis !== item.metMillis) return false
    state.set(key, withHeader(seen.bytes === 0 ? value : value.subarray(seen.bytes), attempts, metMillis))
    return true
  })
}

/** Removes all items, dead letters and counters. */
export const remove = (state: TransactionState, keys: QueueKeys): void => {
  for (const prefix of [keys.items, keys.dead]) {
    const { begin, end } = Tuple.range([], prefix)
    state.clearRange(begin, end)
  }
  for (const key of [keys.push, keys.pop, keys.deadCount]) state.clear(key)
}

/** What a transaction effect ends with when its try cannot commit. */
export const done = (state: TransactionState): Effect.Effect<void, never, Transaction> =>
  state.failure === undefined ? Effect.void : Effect.die(state.failure)

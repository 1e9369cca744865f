/**
 * A durable first-in-first-out queue: what a server's messages lie in. All operations are transaction effects, so that
 * a push or a take commits with whatever else its transaction writes.
 *
 * Items are ordered by the commits that pushed them, and within one commit by the order of the pushes. Pushes never
 * conflict with each other, nor with a consumer; two consumers that take the same item conflict, and one of them runs
 * again. An item can be up to 5 MB: longer ones fail with `BackendError` before anything is written.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { KeyValue } from "./Backend.ts"
import * as Keys from "./internal/keys.ts"
import type { ServerKeys } from "./internal/server/layout.ts"
import type { TransactionState } from "./internal/transactionState.ts"
import { type Armed, watchKey } from "./internal/watching.ts"
import { Transaction } from "./Transaction.ts"
import * as Tuple from "./Tuple.ts"

/** A piece of a long item: below a value's limit. */
const PIECE_BYTES = 90_000

/**
 * A queue, as a server names it.
 *
 * @since 0.1.0
 * @category models
 */
export interface DurableQueue {
  readonly keys: ServerKeys
}

/**
 * An item that was taken, or looked at: `stamp` tells it from all others and orders them.
 *
 * @since 0.1.0
 * @category models
 */
export interface Item {
  readonly stamp: Tuple.Versionstamp
  readonly bytes: Uint8Array
  readonly keys: ReadonlyArray<Uint8Array>
}

const counter = (amount: number): Uint8Array => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigInt64(0, BigInt(amount), true)
  return bytes
}

const readCounter = (bytes: Uint8Array | undefined): bigint =>
  bytes === undefined || bytes.length !== 8
    ? 0n
    : new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0, true)

/**
 * Adds items at the end, in their order.
 *
 * @since 0.1.0
 * @category pushing
 */
export const pushAll = (
  queue: DurableQueue,
  items: ReadonlyArray<Uint8Array>
): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    for (const item of items) push(state, queue.keys, item)
    if (items.length > 0) state.add(queue.keys.push, counter(items.length))
    return state.failure === undefined ? Effect.void : Effect.die(state.failure)
  })

const push = (state: TransactionState, keys: ServerKeys, item: Uint8Array): void => {
  const stamp = Tuple.Versionstamp.incomplete(state.nextUserVersion() & 0xffff)
  const pieces = Math.max(1, Math.ceil(item.length / PIECE_BYTES))
  for (let i = 0; i < pieces; i++) {
    const { bytes, position } = Tuple.packVersionstamped([stamp, i, pieces], keys.items)
    state.setVersionstampedKey(bytes, position, item.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
  }
}

/**
 * The first items, at most `limit`, oldest first, without taking them. By snapshot: looking conflicts with nobody.
 *
 * @since 0.1.0
 * @category taking
 */
export const peek = (
  queue: DurableQueue,
  limit: number
): Effect.Effect<ReadonlyArray<Item>, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const { begin, end } = Tuple.range([], queue.keys.items)
    const look = (rows: number): Effect.Effect<ReadonlyArray<Item>> =>
      Effect.flatMap(state.getRange(begin, end, { limit: rows, snapshot: true }), (found) => {
        const items = assemble(queue.keys, found, limit)
        // a long item can need more rows than were asked for: ask again, for twice as many
        return items.length >= Math.min(limit, 1) || found.length < rows ? Effect.succeed(items) : look(rows * 2)
      })
    return look(limit)
  })

/** The whole items among rows, at most `limit`. */
const assemble = (keys: ServerKeys, rows: ReadonlyArray<KeyValue>, limit: number): Array<Item> => {
  const items: Array<Item> = []
  for (let at = 0; at < rows.length && items.length < limit;) {
    const [stamp, , counted] = Tuple.unpack(rows[at]!.key, keys.items.length) as [Tuple.Versionstamp, number, number]
    const pieces = Math.max(1, counted)
    const own = rows.slice(at, at + pieces)
    if (own.length < pieces) break
    items.push({
      stamp,
      keys: own.map((row) => row.key),
      bytes: pieces === 1 ? own[0]!.value : Keys.concatAll(own.map((row) => row.value))
    })
    at += pieces
  }
  return items
}

/**
 * Takes items that a `peek` of the same transaction showed. Each is cleared by its own key and is a read conflict, so
 * that two consumers never take one item.
 *
 * @since 0.1.0
 * @category taking
 */
export const take = (
  queue: DurableQueue,
  items: ReadonlyArray<Item>
): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    for (const item of items) {
      for (const key of item.keys) {
        state.addReadConflict(Keys.single(key))
        state.clear(key)
      }
    }
    if (items.length > 0) state.add(queue.keys.pop, counter(items.length))
    return state.failure === undefined ? Effect.void : Effect.die(state.failure)
  })

/**
 * Takes the first items, at most `limit`, oldest first.
 *
 * @since 0.1.0
 * @category taking
 */
export const consume = (
  queue: DurableQueue,
  limit: number
): Effect.Effect<ReadonlyArray<Item>, never, Transaction> =>
  Effect.tap(peek(queue, limit), (items) => take(queue, items))

/**
 * How many items wait. By snapshot: it conflicts with nobody.
 *
 * @since 0.1.0
 * @category looking
 */
export const length = (queue: DurableQueue): Effect.Effect<number, never, Transaction> =>
  Effect.flatMap(Transaction, (state) =>
    Effect.zipWith(
      state.get(queue.keys.push, true),
      state.get(queue.keys.pop, true),
      (pushed, popped) => Number(readCounter(pushed) - readCounter(popped))
    ))

/**
 * A watch that fires when something is pushed. Make it in a transaction that writes nothing: it is a read conflict.
 *
 * @since 0.1.0
 * @category looking
 */
export const watchPush = (queue: DurableQueue): Effect.Effect<Armed, never, Transaction> =>
  Effect.map(Transaction, (state) => watchKey(state, queue.keys.push))

const delete_ = (queue: DurableQueue): Effect.Effect<void, never, Transaction> =>
  Effect.map(Transaction, (state) => {
    const { begin, end } = Tuple.range([], queue.keys.items)
    state.clearRange(begin, end)
    state.clear(queue.keys.push)
    state.clear(queue.keys.pop)
  })

export {
  /**
   * Removes all items and the counters.
   *
   * @since 0.1.0
   * @category deleting
   */
  delete_ as delete
}

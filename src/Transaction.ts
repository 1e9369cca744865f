/**
 * Transaction effects: what may read and write a tenant's keys. A transaction effect is an `Effect<A, E, Transaction>`;
 * such effects compose, and `Tenant.transact` makes one atomic, durable commit of any composition.
 *
 * A transaction effect sees one snapshot with its own writes over it. It commits as a whole or leaves nothing. It may
 * run more than once before it commits, so it must do nothing but compute and use the operations of this module:
 * because its requirement is `Transaction` and nothing else, no other service gets into one. A failure of the store is
 * no failure of an operation here: it ends the try, beyond any catch in the body, and appears in the error of
 * `Tenant.transact`.
 *
 * Keys are tuples under the tenant (see `Tuple`); values are bytes.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Corrupt, InvalidArgument } from "./BackendError.ts"
import { amountBytes } from "./internal/data/counters.ts"
import { checkRead, checkValue, packKey, packRange, packVersionstamped } from "./internal/transactions/arguments.ts"
import { Transaction } from "./internal/transactions/service.ts"
import type { TransactionState } from "./internal/transactions/state.ts"
import { changesOf, type Watch, watchKey } from "./internal/transactions/watching.ts"
import * as Tuple from "./Tuple.ts"

export {
  /**
   * The one service that a transaction effect may require. Only `Tenant.transact` provides it, and a server to its
   * handlers. Use it as a requirement; its fields are for the library.
   *
   * @since 0.1.0
   * @category services
   */
  Transaction
}

/**
 * A key and its value.
 *
 * @since 0.1.0
 * @category models
 */
export interface KeyValue {
  readonly key: Tuple.Tuple
  readonly value: Uint8Array
}

/**
 * A range of keys: all that begin with a tuple and have more elements, or those from `begin` (inclusive) to `end`
 * (exclusive).
 *
 * @since 0.1.0
 * @category models
 */
export type Range = Tuple.Tuple | { readonly begin: Tuple.Tuple; readonly end: Tuple.Tuple }

export type {
  /**
   * A watch on a key, armed by the commit of the transaction that made it.
   *
   * @since 0.1.0
   * @category models
   */
  Watch
}

/** Runs `use` with the try and the packed key; a key that cannot be packed ends the try. */
const withKey = <A>(
  operation: string,
  key: Tuple.Tuple,
  use: (state: TransactionState, key: Uint8Array) => Effect.Effect<A>
): Effect.Effect<A, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const packed = packKey(state, operation, key)
    return packed === undefined ? refuse(state) : use(state, packed)
  })

/** What is refused fails the try: the loop answers with its reason, whatever this effect ends with. */
const refuse = (state: TransactionState): Effect.Effect<never> => Effect.die(state.failure)

const write = (
  operation: string,
  key: Tuple.Tuple,
  value: unknown,
  use: (state: TransactionState, key: Uint8Array, value: Uint8Array) => void
): Effect.Effect<void, never, Transaction> =>
  withKey(operation, key, (state, packed) => {
    const bytes = checkValue(state, operation, value)
    if (bytes !== undefined) use(state, packed, bytes)
    return state.failure === undefined ? Effect.void : refuse(state)
  })

/**
 * The value of a key, or `undefined`; what this transaction wrote before is seen. A later change of the key by another
 * transaction makes this one conflict, and run again; with `snapshot: true` it does not.
 *
 * **Example** (Reading one's own write)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const store = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 *
 * const program = Tenant.transact(Effect.gen(function*() {
 *   const before = yield* Transaction.get(["colour"])
 *   yield* Transaction.set(["colour"], Uint8Array.of(7))
 *   return [before, yield* Transaction.get(["colour"])]
 * }))
 *
 * await Effect.runPromise(Effect.provide(program, store))
 * // => [undefined, Uint8Array.of(7)]
 * ```
 *
 * @since 0.1.0
 * @category reading
 */
export const get = (
  key: Tuple.Tuple,
  options?: { readonly snapshot?: boolean | undefined }
): Effect.Effect<Uint8Array | undefined, never, Transaction> =>
  withKey("Transaction.get", key, (state, packed) => {
    const checked = checkRead(state, "Transaction.get", options)
    if (checked === undefined) return refuse(state)
    const read = state.get(packed, checked.snapshot)
    return Effect.map(read, (value) => value === undefined ? undefined : copy(value))
  })

/** The store may keep what it gave: whoever has a copy may change it. */
const copy = (value: Uint8Array): Uint8Array => new Uint8Array(value)

/**
 * The keys and values of a range, in the order of the tuples: at most `limit` of them (all, when there is none), from
 * the end with `reverse`. What this transaction wrote before is seen. A later change within what was read, a key that
 * is added there too, makes this transaction conflict; with `snapshot: true` it does not.
 *
 * **Example** (The last key of a subject)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const store = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 *
 * const program = Tenant.transact(Effect.gen(function*() {
 *   for (const hour of [9, 11, 10]) yield* Transaction.set(["visits", hour], Uint8Array.of(1))
 *   yield* Transaction.set(["visitors", 1], Uint8Array.of(1))
 *   const all = yield* Transaction.getRange(["visits"])
 *   const last = yield* Transaction.getRange(["visits"], { limit: 1, reverse: true })
 *   const early = yield* Transaction.getRange({ begin: ["visits", 9], end: ["visits", 10] })
 *   return [all, last, early].map((rows) => rows.map((row) => row.key[1]))
 * }))
 *
 * await Effect.runPromise(Effect.provide(program, store))
 * // => [[9, 10, 11], [11], [9]]
 * ```
 *
 * @since 0.1.0
 * @category reading
 */
export const getRange = (
  range: Range,
  options?: {
    readonly limit?: number | undefined
    readonly reverse?: boolean | undefined
    readonly snapshot?: boolean | undefined
  }
): Effect.Effect<ReadonlyArray<KeyValue>, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const bounds = packRange(state, "Transaction.getRange", range)
    const checked = checkRead(state, "Transaction.getRange", options)
    if (bounds === undefined || checked === undefined) return refuse(state)
    return Effect.flatMap(state.getRange(bounds.begin, bounds.end, checked), (rows) => keyValues(state, rows))
  })

const keyValues = (
  state: TransactionState,
  rows: ReadonlyArray<{ readonly key: Uint8Array; readonly value: Uint8Array }>
): Effect.Effect<ReadonlyArray<KeyValue>> => {
  const offset = state.target.userPrefix.length
  const out: Array<KeyValue> = []
  for (const row of rows) {
    const key = Tuple.unpackResult(row.key, offset)
    if (Result.isFailure(key)) {
      const { message } = key.failure
      state.fail(new Corrupt({ message: `Transaction.getRange: the store has a key that is no tuple: ${message}` }))
      return refuse(state)
    }
    out.push({ key: key.success, value: copy(row.value) })
  }
  return Effect.succeed(out)
}

/**
 * Writes a value, over the one that was there. A key may have 9,936 bytes as it is packed under the tenant, a value
 * 100,000; more ends the transaction with `BackendError` (`KeyTooLarge`, `ValueTooLarge`) before anything is written.
 *
 * @since 0.1.0
 * @category writing
 */
export const set = (key: Tuple.Tuple, value: Uint8Array): Effect.Effect<void, never, Transaction> =>
  write("Transaction.set", key, value, (state, packed, bytes) => state.set(packed, bytes))

/**
 * Removes a key. Nothing happens where there is none.
 *
 * @since 0.1.0
 * @category writing
 */
export const clear = (key: Tuple.Tuple): Effect.Effect<void, never, Transaction> =>
  withKey("Transaction.clear", key, (state, packed) => {
    state.clear(packed)
    return state.failure === undefined ? Effect.void : refuse(state)
  })

/**
 * Removes all keys of a range, without reading them. Its size in the transaction does not depend on how many there are.
 *
 * **Example** (Removing a subject)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const store = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 *
 * const program = Tenant.transact(Effect.gen(function*() {
 *   for (const hour of [9, 10, 11]) yield* Transaction.set(["visits", hour], Uint8Array.of(1))
 *   yield* Transaction.set(["visitors", 1], Uint8Array.of(1))
 *   yield* Transaction.clearRange(["visits"])
 *   return (yield* Transaction.getRange([])).map((row) => row.key)
 * }))
 *
 * await Effect.runPromise(Effect.provide(program, store))
 * // => [["visitors", 1]]
 * ```
 *
 * @since 0.1.0
 * @category writing
 */
export const clearRange = (range: Range): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const bounds = packRange(state, "Transaction.clearRange", range)
    if (bounds === undefined) return refuse(state)
    state.clearRange(bounds.begin, bounds.end)
    return state.failure === undefined ? Effect.void : refuse(state)
  })

/**
 * Adds to a counter: a signed 64-bit little-endian integer that wraps, zero when missing. `amount` is a safe integer or
 * a `bigint`. Additions of several transactions do not conflict with each other.
 *
 * **Example** (Counting without conflicts)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const store = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 *
 * const visit = Tenant.transact(Transaction.add(["visits"], 1))
 *
 * const program = Effect.gen(function*() {
 *   yield* Effect.all(Array.from({ length: 50 }, () => visit), { concurrency: "unbounded" })
 *   const bytes = yield* Tenant.transact(Transaction.get(["visits"]))
 *   return new DataView(bytes!.buffer, bytes!.byteOffset).getBigInt64(0, true)
 * })
 *
 * await Effect.runPromise(Effect.provide(program, store))
 * // => 50n
 * ```
 *
 * @since 0.1.0
 * @category writing
 */
export const add = (key: Tuple.Tuple, amount: number | bigint): Effect.Effect<void, never, Transaction> =>
  withKey("Transaction.add", key, (state, packed) => {
    if (typeof amount !== "bigint" && !Number.isSafeInteger(amount)) {
      state.fail(new InvalidArgument({ message: "Transaction.add: the amount must be a safe integer or a bigint" }))
      return refuse(state)
    }
    state.add(packed, amountBytes(amount))
    return state.failure === undefined ? Effect.void : refuse(state)
  })

/**
 * Writes a value under a key with one incomplete versionstamp (`Tuple.Versionstamp.incomplete()`), which the commit
 * fills in: keys of later commits are greater. A tuple with none or several ends the transaction with
 * `InvalidArgument`; reading such a key in the same transaction ends it with `AccessedUnreadable`.
 *
 * **Example** (A log in the order of its commits)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction, Tuple } from "effect-dgen"
 *
 * const store = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 *
 * const log = (line: number) =>
 *   Tenant.transact(Transaction.setVersionstampedKey(["log", Tuple.Versionstamp.incomplete()], Uint8Array.of(line)))
 *
 * const program = Effect.gen(function*() {
 *   for (const line of [3, 1, 2]) yield* log(line)
 *   return (yield* Tenant.transact(Transaction.getRange(["log"]))).map((row) => row.value[0])
 * })
 *
 * await Effect.runPromise(Effect.provide(program, store))
 * // => [3, 1, 2]
 * ```
 *
 * @since 0.1.0
 * @category writing
 */
export const setVersionstampedKey = (
  key: Tuple.Tuple,
  value: Uint8Array
): Effect.Effect<void, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const bytes = checkValue(state, "Transaction.setVersionstampedKey", value)
    if (bytes === undefined) return refuse(state)
    const packed = packVersionstamped(state, "Transaction.setVersionstampedKey", key, state.target.userPrefix)
    if (packed === undefined) return refuse(state)
    state.setVersionstampedKey(packed.bytes, packed.position, bytes)
    return state.failure === undefined ? Effect.void : refuse(state)
  })

/**
 * Writes a packed tuple with one incomplete versionstamp as the value of a key; the commit fills the stamp in. Read it
 * with `Tuple.unpack`. A tuple with none or several ends the transaction with `InvalidArgument`; reading the key in the
 * same transaction ends it with `AccessedUnreadable`.
 *
 * @since 0.1.0
 * @category writing
 */
export const setVersionstampedValue = (
  key: Tuple.Tuple,
  value: Tuple.Tuple
): Effect.Effect<void, never, Transaction> =>
  withKey("Transaction.setVersionstampedValue", key, (state, packed) => {
    const stamped = packVersionstamped(state, "Transaction.setVersionstampedValue", value)
    if (stamped === undefined) return refuse(state)
    state.setVersionstampedValue(packed, stamped.bytes, stamped.position)
    return state.failure === undefined ? Effect.void : refuse(state)
  })

/**
 * A watch on a key, armed when this transaction commits: await its `changed` afterwards, outside the transaction. It
 * tells of changes since the state that the transaction saw, or left.
 *
 * **Example** (Waiting for another transaction)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const store = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 *
 * const program = Effect.gen(function*() {
 *   const watch = yield* Tenant.transact(Transaction.watch(["door"]))
 *   yield* Effect.forkChild(Tenant.transact(Transaction.set(["door"], Uint8Array.of(1))))
 *   yield* watch.changed
 *   return yield* Tenant.transact(Transaction.get(["door"]))
 * })
 *
 * await Effect.runPromise(Effect.provide(program, store))
 * // => Uint8Array.of(1)
 * ```
 *
 * @since 0.1.0
 * @category watching
 */
export const watch = (key: Tuple.Tuple): Effect.Effect<Watch, never, Transaction> =>
  withKey("Transaction.watch", key, (state, packed) => {
    const armed = watchKey(state, packed)
    return state.failure === undefined ? Effect.succeed(changesOf(armed)) : refuse(state)
  })

/**
 * The time of this try in milliseconds since 1970: the same for all that the try does.
 *
 * @since 0.1.0
 * @category reading
 */
export const currentTimeMillis: Effect.Effect<number, never, Transaction> = Effect.flatMap(
  Transaction,
  (state) => state.isRefused() ? refuse(state) : Effect.succeed(state.timeMillis)
)

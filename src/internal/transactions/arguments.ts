/**
 * What programs pass to the operations of a transaction, checked: keys and ranges as packed bytes, values as bytes of
 * their own. What cannot be used fails the try with `InvalidArgument`, which names the operation, and comes back as
 * `undefined`.
 */
import { InvalidArgument } from "../../BackendError.ts"
import * as Tuple from "../../Tuple.ts"
import { show } from "../data/show.ts"
import { messageOfThrown } from "../data/thrown.ts"
import type { TransactionState } from "./state.ts"

const refused = (state: TransactionState, operation: string, problem: string): undefined => {
  state.fail(new InvalidArgument({ message: `${operation}: ${problem}` }))
  return undefined
}

/** The packed key of a user's tuple. */
export const packKey = (state: TransactionState, operation: string, key: Tuple.Tuple): Uint8Array | undefined => {
  if (!Array.isArray(key)) return refused(state, operation, "the key must be an array of tuple elements")
  try {
    return Tuple.pack(key, state.target.userPrefix)
  } catch (cause) {
    return refused(state, operation, messageOfThrown(cause))
  }
}

/** The bounds of a user's range. */
export const packRange = (
  state: TransactionState,
  operation: string,
  range: Tuple.Tuple | { readonly begin: Tuple.Tuple; readonly end: Tuple.Tuple }
): Tuple.KeyRange | undefined => {
  if (Array.isArray(range)) {
    const begin = packKey(state, operation, range)
    return begin === undefined ? undefined : Tuple.range([], begin)
  }
  if (typeof range !== "object" || range === null) {
    return refused(state, operation, "the range must be a tuple, or an object with begin and end")
  }
  const { begin, end } = range as { readonly begin: Tuple.Tuple; readonly end: Tuple.Tuple }
  const low = packKey(state, operation, begin)
  const high = low === undefined ? undefined : packKey(state, operation, end)
  return low === undefined || high === undefined ? undefined : { begin: low, end: high }
}

/** A value's own bytes: whoever wrote it may change what it passed (a `Buffer`'s `slice` would share the memory). */
export const checkValue = (state: TransactionState, operation: string, value: unknown): Uint8Array | undefined =>
  value instanceof Uint8Array ? new Uint8Array(value) : refused(state, operation, "the value must be a Uint8Array")

/** The options of a read, with their defaults. */
interface ReadOptions {
  readonly limit: number
  readonly reverse: boolean
  readonly snapshot: boolean
}

/** The options of a read that a program passed. */
export const checkRead = (
  state: TransactionState,
  operation: string,
  options: Partial<{ readonly [K in keyof ReadOptions]: ReadOptions[K] | undefined }> | undefined
): ReadOptions | undefined => {
  if (options !== undefined && (typeof options !== "object" || options === null)) {
    return refused(state, operation, `the options must be an object, not ${show(options)}`)
  }
  const { limit = Infinity, reverse = false, snapshot = false } = options ?? {}
  if (limit !== Infinity && !(Number.isInteger(limit) && limit >= 0)) {
    return refused(state, operation, `the limit must be a whole number from zero, not ${show(limit)}`)
  }
  if (typeof reverse !== "boolean") return refused(state, operation, `reverse must be true or false`)
  if (typeof snapshot !== "boolean") return refused(state, operation, `snapshot must be true or false`)
  return { limit, reverse, snapshot }
}

/** A tuple with one incomplete versionstamp, packed behind a prefix if one is given. */
export const packVersionstamped = (
  state: TransactionState,
  operation: string,
  tuple: Tuple.Tuple,
  prefix?: Uint8Array
): Tuple.Versionstamped | undefined => {
  try {
    return Tuple.packVersionstamped(tuple, prefix)
  } catch (cause) {
    return refused(state, operation, messageOfThrown(cause))
  }
}

/**
 * Tuples as keys: FoundationDB's tuple encoding, byte for byte the same as in its other bindings.
 *
 * A tuple is an array of elements. Packed, tuples sort as their elements do: element by element, a tuple before every
 * longer tuple that begins with it. So the keys of one subject lie together, and a range of keys is a prefix.
 *
 * The encoding is canonical. Equal tuples give equal bytes, and `unpack` accepts only bytes that `pack` makes, so two
 * different keys are never one tuple. `1` and `1n` are the same element. Unpacking gives back what was packed, with
 * three exceptions: an integer comes back as a `number` where it is a safe integer and as a `bigint` where it is not;
 * a `Double` comes back as a plain `number` where that would be packed the same; and a `Buffer` comes back as a plain
 * `Uint8Array`.
 *
 * What the user owes: strings without lone surrogates, numbers whose kind does not change. A `number` that is a safe
 * integer is packed as an integer, any other as a double (also `-0`, `NaN`, the infinities and integers beyond
 * `Number.MAX_SAFE_INTEGER`), and all integers sort before all doubles: `[2]` sorts before `[0.5]`. Where integers
 * and fractions must sort among each other, wrap them all in `Double`.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import { assertBytes, type Element, TupleError } from "./internal/tuple/element.ts"
import { orderBytes, orderTuples } from "./internal/tuple/order.ts"
import { unpackTuple } from "./internal/tuple/reader.ts"
import { packStampedTuple, packTuple } from "./internal/tuple/writer.ts"

export {
  Double,
  type Element,
  Float,
  TupleError,
  type TupleErrorReason,
  Uuid,
  Versionstamp
} from "./internal/tuple/element.ts"

/**
 * An array of elements, each a `null`, boolean, number, bigint, string, `Uint8Array`, `Float`, `Double`, `Uuid`,
 * `Versionstamp`, or another tuple.
 *
 * @since 0.1.0
 * @category models
 */
export type Tuple = ReadonlyArray<Element>

/**
 * A range of keys: from `begin`, which is part of it, to `end`, which is not.
 *
 * @since 0.1.0
 * @category models
 */
export interface KeyRange {
  readonly begin: Uint8Array
  readonly end: Uint8Array
}

/**
 * A packed tuple whose versionstamp the store fills in at the commit.
 *
 * **Details**
 *
 * `bytes` holds ten bytes `0xff` in the versionstamp's place, which begins at `position`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Versionstamped {
  readonly bytes: Uint8Array
  readonly position: number
}

/**
 * Packs a tuple, behind `prefix` if one is given.
 *
 * **Details**
 *
 * Costs one allocation, the result, for a tuple of strings, bytes and numbers. Throws a `TupleError` that names the
 * element if the tuple holds something a tuple cannot hold: a value of another type, a string with a lone surrogate,
 * an integer of more than 255 bytes, more than 100 tuples inside each other, or an incomplete versionstamp; and if
 * the result would have more than 10,000,000 bytes.
 *
 * **Example** (Keys sort as their elements do)
 *
 * ```ts import.meta.vitest
 * import { Tuple } from "effect-dgen"
 *
 * const keys = [["b"], ["a", 10], ["a", 9], ["a"]].map((tuple) => Tuple.pack(tuple))
 *
 * keys.sort(Tuple.compareBytes).map((key) => Tuple.unpack(key))
 * // => [["a"], ["a", 9], ["a", 10], ["b"]]
 * ```
 *
 * @since 0.1.0
 * @category encoding
 */
export const pack = (tuple: Tuple, prefix?: Uint8Array): Uint8Array => packTuple(tuple, prefix)

/**
 * Packs a tuple as `pack` does, and gives the `TupleError` as a value: for tuples that come from outside.
 *
 * @since 0.1.0
 * @category encoding
 */
export const packResult = (tuple: Tuple, prefix?: Uint8Array): Result.Result<Uint8Array, TupleError> =>
  asResult(() => packTuple(tuple, prefix))

/**
 * Packs a tuple that holds exactly one incomplete versionstamp, at any depth.
 *
 * **Details**
 *
 * Throws a `TupleError` if the tuple holds no incomplete versionstamp or several, and wherever `pack` does.
 *
 * **Example** (Where the store fills the stamp in)
 *
 * ```ts import.meta.vitest
 * import { Tuple } from "effect-dgen"
 *
 * const { bytes, position } = Tuple.packVersionstamped(["log", Tuple.Versionstamp.incomplete()])
 * bytes.subarray(position, position + 10)
 * // => new Uint8Array(10).fill(0xff)
 * ```
 *
 * @since 0.1.0
 * @category encoding
 */
export const packVersionstamped = (tuple: Tuple, prefix?: Uint8Array): Versionstamped => packStampedTuple(tuple, prefix)

/**
 * Reads the tuple that `bytes` hold from `offset` (0 if absent) to the end.
 *
 * **Details**
 *
 * The bytes may come from anywhere. What `pack` or `packVersionstamped` cannot have made is refused with a
 * `TupleError` that tells the offset: cut off elements, unknown type codes, strings that are not UTF-8, integers that
 * have a shorter form, more than 100 tuples inside each other. The elements share no memory with the bytes.
 *
 * @since 0.1.0
 * @category decoding
 */
export const unpack = (bytes: Uint8Array, offset = 0): Array<Element> => unpackTuple(bytes, offset)

/**
 * Reads a tuple as `unpack` does, and gives the `TupleError` as a value: for bytes that come from outside.
 *
 * **Example** (Bytes from outside)
 *
 * ```ts import.meta.vitest
 * import { Result } from "effect"
 * import { Tuple } from "effect-dgen"
 *
 * Result.isFailure(Tuple.unpackResult(Uint8Array.of(0xff)))
 * // => true
 * ```
 *
 * @since 0.1.0
 * @category decoding
 */
export const unpackResult = (bytes: Uint8Array, offset = 0): Result.Result<Array<Element>, TupleError> =>
  asResult(() => unpackTuple(bytes, offset))

const asResult = <A>(evaluate: () => A): Result.Result<A, TupleError> =>
  Result.try({
    try: evaluate,
    catch: (error) => {
      if (error instanceof TupleError) return error
      throw error
    }
  })

/**
 * The range of all keys that are this tuple with at least one more element. The tuple itself is not in it.
 *
 * **Details**
 *
 * Throws a `TupleError` wherever `pack` does.
 *
 * **Example** (All keys below one)
 *
 * ```ts import.meta.vitest
 * import { Tuple } from "effect-dgen"
 *
 * const { begin, end } = Tuple.range(["users"])
 * const isIn = (tuple: Tuple.Tuple) => {
 *   const key = Tuple.pack(tuple)
 *   return Tuple.compareBytes(begin, key) <= 0 && Tuple.compareBytes(key, end) < 0
 * }
 *
 * isIn(["users", "ada"])
 * // => true
 * isIn(["users"])
 * // => false
 * isIn(["usershop", 1])
 * // => false
 * ```
 *
 * @since 0.1.0
 * @category ranges
 */
export const range = (tuple: Tuple, prefix?: Uint8Array): KeyRange => rangeOf(packTuple(tuple, prefix))

const rangeOf = (packed: Uint8Array): KeyRange => {
  const begin = new Uint8Array(packed.length + 1)
  begin.set(packed)
  const end = begin.slice()
  end[packed.length] = 0xff
  return { begin, end }
}

/**
 * The first key that does not begin with `prefix`: the end of the range of all keys that do.
 *
 * **Details**
 *
 * Throws a `TupleError` if there is none, because `prefix` is empty or holds only bytes `0xff`.
 *
 * @since 0.1.0
 * @category ranges
 */
export const strinc = (prefix: Uint8Array): Uint8Array => {
  assertBytes(prefix, "the prefix")
  let length = prefix.length
  while (length > 0 && prefix[length - 1] === 0xff) length--
  if (length === 0) {
    throw new TupleError({
      reason: "NoSuccessor",
      message: "no key comes after all keys with this prefix: it is empty, or holds only bytes 0xff",
      path: []
    })
  }
  const successor = new Uint8Array(prefix.subarray(0, length))
  successor[length - 1]!++
  return successor
}

/**
 * Compares two tuples as their packed bytes would compare, without packing them.
 *
 * **Details**
 *
 * Throws a `TupleError` if it meets an element that a tuple cannot hold.
 *
 * **Example** (Integers sort before doubles)
 *
 * ```ts import.meta.vitest
 * import { Tuple } from "effect-dgen"
 *
 * Tuple.compare([2], [0.5])
 * // => -1
 * Tuple.compare([new Tuple.Double(2)], [new Tuple.Double(0.5)])
 * // => 1
 * ```
 *
 * @since 0.1.0
 * @category ordering
 */
export const compare = (a: Tuple, b: Tuple): -1 | 0 | 1 => orderTuples(a, b, 0)

/**
 * Compares two keys byte by byte, a key before every longer key that begins with it.
 *
 * @since 0.1.0
 * @category ordering
 */
export const compareBytes = (a: Uint8Array, b: Uint8Array): -1 | 0 | 1 => orderBytes(a, b)

/**
 * Whether two keys hold the same bytes.
 *
 * @since 0.1.0
 * @category ordering
 */
export const equalsBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && orderBytes(a, b) === 0

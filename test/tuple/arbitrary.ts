/**
 * Generated tuples. A list of small numbers is read as a recipe for a tuple. That puts the awkward values (limits of
 * sizes, escapes, surrogate pairs, zeros, NaNs) where chance would seldom hit, shrinks as lists shrink, and makes two
 * tuples that share a beginning out of two recipes that share one.
 */
import { Arbitrary, Schema } from "effect"
import * as Tuple from "../../src/Tuple.ts"

export const byte = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 })))

export const recipe = Arbitrary.array(byte, { maxLength: 60 })

const doubles = [0.5, -0.5, 1.5, -0, NaN, Infinity, -Infinity, 5e-324, 2 ** 53, -(2 ** 53), 2 ** 64, 1e300, -1e300, 0.1]

const wrappedDoubles = [0, 1, -1, 7, -0, 0.5, NaN, 2 ** 53 - 1, 2 ** 60]

const floats = [0, -0, 1, -1, 0.5, 3.25, NaN, Infinity, -Infinity, 1e-45, 3.4e38, -42]

const nanBits32 = [0xffc00000, 0x7fc00001, 0x7f800001, 0xffffffff, 0x7fffffff, 0xff800001]

const nanBits64 = [0xfff8000000000000n, 0x7ff8000000000001n, 0x7ff0000000000001n, 0xffffffffffffffffn]

const letters = [
  "a",
  "b",
  "\0",
  "\0\xff",
  "\x01",
  "\x7f",
  "\x80",
  "é",
  "\u07ff",
  "\u0800",
  "日",
  "\ud7ff",
  "\ue000",
  "\ufeff",
  "\uffff",
  "💩",
  "\u{10000}",
  "\u{10ffff}"
]

const bytesOf = [0x00, 0xff, 0x01, 0x05, 0x61, 0x80]

const uuids = [
  "00000000-0000-0000-0000-000000000000",
  "6e7af6ad-ac22-4f5c-a302-6f5d1c0bd4a1",
  "ffffffff-ffff-ffff-ffff-ffffffffffff"
]

interface Cursor {
  readonly numbers: ReadonlyArray<number>
  at: number
  readonly withNanBits: boolean
}

const next = (cursor: Cursor): number => cursor.numbers[cursor.at++] ?? 0

const pick = <A>(cursor: Cursor, values: ReadonlyArray<A>): A => values[next(cursor) % values.length]!

const several = <A>(cursor: Cursor, values: ReadonlyArray<A>): Array<A> =>
  Array.from({ length: next(cursor) % 5 }, () => pick(cursor, values))

// a power of two, a little more, or a little less, of either sign
const integer = (cursor: Cursor, maximumBits: number): bigint => {
  const power = 1n << BigInt(Math.min(maximumBits - 1, Math.floor(next(cursor) * maximumBits / 256)))
  const magnitude = power + BigInt(next(cursor) % 5) - 2n
  return next(cursor) % 2 === 0 ? magnitude : -magnitude
}

const doubleOf = (cursor: Cursor): number => {
  const view = new DataView(new ArrayBuffer(8))
  for (let i = 0; i < 8; i++) view.setUint8(i, next(cursor))
  const value = view.getFloat64(0)
  return Number.isNaN(value) ? NaN : value
}

const element = (cursor: Cursor, depth: number): Tuple.Element => {
  switch (next(cursor) % (depth < 3 ? 18 : 16)) {
    case 0:
      return null
    case 1:
      return next(cursor) % 2 === 0
    case 2:
      return next(cursor) - 128
    case 3:
      return BigInt(next(cursor) - 128)
    case 4:
      return Number(integer(cursor, 53))
    case 5:
      return integer(cursor, 72)
    case 6:
      return integer(cursor, 2040)
    case 7:
      return pick(cursor, doubles)
    case 8:
      return doubleOf(cursor)
    case 9:
      return new Tuple.Double(pick(cursor, wrappedDoubles))
    case 10:
      return new Tuple.Float(pick(cursor, floats))
    case 11:
    case 12:
      return several(cursor, letters).join("")
    case 13:
      return Uint8Array.from(several(cursor, bytesOf))
    case 14:
      return Tuple.Uuid.fromString(pick(cursor, uuids))
    case 15:
      if (cursor.withNanBits && next(cursor) % 2 === 0) {
        return next(cursor) % 2 === 0
          ? Tuple.Float.fromBits(pick(cursor, nanBits32))
          : Tuple.Double.fromBits(pick(cursor, nanBits64))
      }
      return new Tuple.Versionstamp(
        Uint8Array.from([...Array.from({ length: 9 }, () => pick(cursor, bytesOf)), 0]),
        next(cursor) * 257
      )
    default:
      return Array.from({ length: next(cursor) % 4 }, () => element(cursor, depth + 1))
  }
}

export const tupleOf = (numbers: ReadonlyArray<number>, withNanBits = true): Tuple.Tuple => {
  const cursor: Cursor = { numbers, at: 0, withNanBits }
  const elements: Array<Tuple.Element> = []
  while (cursor.at < numbers.length) elements.push(element(cursor, 0))
  return elements
}

/** Any tuple without an incomplete versionstamp. */
export const tuple = Arbitrary.map(recipe, (numbers) => tupleOf(numbers))

/** The same without NaNs that carry bits of their own, which some other encoders cannot express. */
export const plainTuple = Arbitrary.map(recipe, (numbers) => tupleOf(numbers, false))

/** Two tuples that begin alike more often than not. */
export const tuplePair = Arbitrary.map(
  Arbitrary.all([recipe, recipe, byte, byte]),
  ([numbers, others, cut, skip]) =>
    [
      tupleOf(numbers),
      tupleOf([...numbers.slice(0, cut % (numbers.length + 1)), ...others.slice(skip % (others.length + 1))])
    ] as const
)

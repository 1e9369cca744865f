/**
 * The elements that a tuple can hold beyond JavaScript's own values, and the one error of the tuple encoding.
 * `Tuple.ts` hands them to users; the writer, the reader and the order stand on them.
 *
 * @internal
 */
import * as Schema from "effect/Schema"

/**
 * The number of tuples that may lie inside each other.
 *
 * The reader and the writer recurse, so bytes or arrays from outside must not choose the depth of the stack. Keys
 * that people design nest two or three deep.
 *
 * @internal
 */
export const maximumDepth = 100

/**
 * The size of the largest packed tuple, prefix included. Nothing larger fits into a transaction, so it can be no key
 * and no value.
 *
 * @internal
 */
export const maximumPackedBytes = 10_000_000

/**
 * The size of the largest integer: its length is stored in one byte.
 *
 * @internal
 */
export const maximumIntegerBytes = 255

/**
 * A tuple that cannot be packed, bytes that are no packed tuple, or a key that is not inside a subspace.
 *
 * **Details**
 *
 * - `reason` says what kind of mistake it is, for code;
 * - `message` says what is wrong, where, and what to do, for people;
 * - `path` is the way to the element, as positions from the outermost tuple inwards: `[1, 0]` is the first element
 *   of the tuple that is the second element. It is empty when no single element is at fault;
 * - `offset` is the position in the bytes at which reading stopped, when bytes were read.
 *
 * @since 0.1.0
 * @category errors
 */
export class TupleError extends Schema.TaggedError<TupleError>("effect-dgen/Tuple/TupleError")("TupleError", {
  reason: Schema.Literals([
    "UnsupportedElement",
    "LoneSurrogate",
    "IntegerTooLarge",
    "NestedTooDeep",
    "TooLarge",
    "IncompleteVersionstamp",
    "MalformedBytes",
    "OutsideSubspace",
    "NoSuccessor",
    "InvalidArgument"
  ]),
  message: Schema.String,
  path: Schema.Array(Schema.Int),
  offset: Schema.optionalKey(Schema.Int)
}) {}

/**
 * The kinds of mistakes that a `TupleError` tells apart.
 *
 * @since 0.1.0
 * @category errors
 */
export type TupleErrorReason = TupleError["reason"]

/** @internal */
export const invalidArgument = (message: string): TupleError =>
  new TupleError({ reason: "InvalidArgument", message, path: [] })

/**
 * Names a value from a JavaScript caller in an error message, without its contents.
 *
 * @internal
 */
export const describe = (value: unknown): string => {
  if (value === null) return "null"
  if (typeof value !== "object") return typeof value === "undefined" ? "undefined" : `a ${typeof value}`
  if (Array.isArray(value)) return "an array"
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return typeof name === "string" && name !== "" && name !== "Object" ? `an instance of ${name}` : "a plain object"
}

const ownLength = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), "length")!.get!

/**
 * How long an array is, whatever it says of itself: a buffer that is written again must have no room left in it that
 * nothing fills, or it shows what was written before.
 *
 * @internal
 */
export const lengthOf = (bytes: Uint8Array): number => ownLength.call(bytes)

/** @internal */
export const assertBytes: (value: unknown, name: string) => asserts value is Uint8Array = (value, name) => {
  if (!(value instanceof Uint8Array)) {
    throw invalidArgument(`${name} must be a Uint8Array, and is ${describe(value)}`)
  }
}

// bytes are copied at the border, so that no holder of the original can change an element afterwards
const copyOfBytes = (value: unknown, length: number, name: string): Uint8Array => {
  assertBytes(value, name)
  if (value.length !== length) {
    throw invalidArgument(`${name} must have exactly ${length} bytes, and has ${value.length}`)
  }
  return new Uint8Array(value)
}

/** @internal */
export const canonicalNanBits32 = 0x7fc00000

/** @internal */
export const canonicalNanBits64 = 0x7ff8000000000000n

const view = new DataView(new ArrayBuffer(8))

/**
 * A 32 bit floating point element. A plain `number` never becomes one.
 *
 * **Details**
 *
 * The value is rounded to the nearest 32 bit number. A finite value too large for 32 bits is refused.
 *
 * There are many NaNs, and other bindings may have stored any of them. `nanBits` keeps the bits of one that is not
 * the usual NaN (`0x7fc00000`), so that it is written again as it was read.
 *
 * @since 0.1.0
 * @category elements
 */
export class Float {
  readonly _tag = "Float"
  readonly value: number
  readonly nanBits: number | undefined

  /** Requires a number. Throws a `TupleError` for anything else, and for a finite number beyond 32 bits. */
  constructor(value: number) {
    if (typeof value !== "number") throw invalidArgument(`a Float needs a number, and was given ${describe(value)}`)
    this.value = Math.fround(value)
    if (Number.isFinite(value) && !Number.isFinite(this.value)) {
      throw invalidArgument(`${value} does not fit into 32 bits: use a plain number, which is stored with 64`)
    }
    this.nanBits = undefined
  }

  /** Makes an element from the 32 bits of its IEEE 754 form. Throws a `TupleError` if `bits` has more than 32. */
  static fromBits(bits: number): Float {
    if (!Number.isInteger(bits) || bits < 0 || bits > 0xffffffff) {
      throw invalidArgument("the bits of a Float must be an integer from 0 to 0xffffffff")
    }
    view.setUint32(0, bits)
    const float = new Float(view.getFloat32(0))
    if (Number.isNaN(float.value) && bits !== canonicalNanBits32) {
      ;(float as { nanBits: number | undefined }).nanBits = bits
    }
    return float
  }

  toString(): string {
    return `Float(${this.value})`
  }
}

/**
 * A 64 bit floating point element whose plain `number` would be packed otherwise: an integer that must be stored as
 * a floating point number, as other languages store their `1.0`.
 *
 * **Details**
 *
 * A plain `number` that is no safe integer is packed as a double by itself, and unpacked as a plain `number`.
 *
 * There are many NaNs, and other bindings may have stored any of them. `nanBits` keeps the bits of one that is not
 * the usual NaN (`0x7ff8000000000000`), so that it is written again as it was read.
 *
 * @since 0.1.0
 * @category elements
 */
export class Double {
  readonly _tag = "Double"
  readonly value: number
  readonly nanBits: bigint | undefined

  /** Requires a number. Throws a `TupleError` for anything else. */
  constructor(value: number) {
    if (typeof value !== "number") throw invalidArgument(`a Double needs a number, and was given ${describe(value)}`)
    this.value = value
    this.nanBits = undefined
  }

  /** Makes an element from the 64 bits of its IEEE 754 form. Throws a `TupleError` if `bits` has more than 64. */
  static fromBits(bits: bigint): Double {
    if (typeof bits !== "bigint" || bits < 0n || bits > 0xffffffffffffffffn) {
      throw invalidArgument("the bits of a Double must be a bigint from 0n to 0xffffffffffffffffn")
    }
    view.setBigUint64(0, bits)
    const double = new Double(view.getFloat64(0))
    if (Number.isNaN(double.value) && bits !== canonicalNanBits64) {
      ;(double as { nanBits: bigint | undefined }).nanBits = bits
    }
    return double
  }

  toString(): string {
    return `Double(${this.value})`
  }
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const toHex = (bytes: Uint8Array): string => {
  let hex = ""
  for (const byte of bytes) hex += (byte < 16 ? "0" : "") + byte.toString(16)
  return hex
}

/**
 * A UUID element: 16 bytes, ordered byte by byte.
 *
 * @since 0.1.0
 * @category elements
 */
export class Uuid {
  readonly _tag = "Uuid"
  readonly bytes: Uint8Array

  /** Requires 16 bytes, which are copied. Throws a `TupleError` otherwise. */
  constructor(bytes: Uint8Array) {
    this.bytes = copyOfBytes(bytes, 16, "a Uuid")
  }

  /**
   * Reads the usual form with hyphens, such as `"6e7af6ad-ac22-4f5c-a302-6f5d1c0bd4a1"`, in either case. Throws a
   * `TupleError` for any other text.
   */
  static fromString(text: string): Uuid {
    if (typeof text !== "string" || !uuidPattern.test(text)) {
      throw invalidArgument("a Uuid's text must be 32 hexadecimal digits in groups of 8-4-4-4-12")
    }
    const digits = text.replaceAll("-", "")
    const bytes = new Uint8Array(16)
    for (let i = 0; i < 16; i++) bytes[i] = Number.parseInt(digits.slice(i * 2, i * 2 + 2), 16)
    return new Uuid(bytes)
  }

  toString(): string {
    const hex = toHex(this.bytes)
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
  }
}

/**
 * A versionstamp element: the 10 bytes that the store gives a transaction when it commits, and a user version of
 * 16 bits that orders several stamps of one transaction.
 *
 * **Details**
 *
 * A stamp is *incomplete* until its transaction commits: its 10 bytes are all `0xff`. `Tuple.pack` refuses an
 * incomplete stamp; `Tuple.packVersionstamped` takes exactly one and tells where the store has to fill it in.
 *
 * @since 0.1.0
 * @category elements
 */
export class Versionstamp {
  readonly _tag = "Versionstamp"
  readonly bytes: Uint8Array
  readonly userVersion: number

  /** Requires 10 bytes, which are copied, and a user version from 0 to 65535. Throws a `TupleError` otherwise. */
  constructor(bytes: Uint8Array, userVersion = 0) {
    this.bytes = copyOfBytes(bytes, 10, "a Versionstamp")
    if (!Number.isInteger(userVersion) || userVersion < 0 || userVersion > 0xffff) {
      throw invalidArgument("the user version of a Versionstamp must be an integer from 0 to 65535")
    }
    this.userVersion = userVersion
  }

  /** Makes a stamp that the store fills in at the commit. Throws a `TupleError` if `userVersion` is out of range. */
  static incomplete(userVersion = 0): Versionstamp {
    return new Versionstamp(incompleteBytes, userVersion)
  }

  /** Whether the store has filled in the stamp. */
  get isComplete(): boolean {
    for (let i = 0; i < 10; i++) if (this.bytes[i] !== 0xff) return true
    return false
  }

  toString(): string {
    return this.isComplete
      ? `Versionstamp(${toHex(this.bytes)}, ${this.userVersion})`
      : `Versionstamp(incomplete, ${this.userVersion})`
  }
}

const incompleteBytes = new Uint8Array(10).fill(0xff)

/**
 * One element of a tuple.
 *
 * @since 0.1.0
 * @category models
 */
export type Element =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Float
  | Double
  | Uuid
  | Versionstamp
  | ReadonlyArray<Element>

/**
 * Type codes of the encoding. The ones between `negativeIntegerEnd` and `positiveIntegerEnd` are integers of at most
 * 8 bytes: `integerZero` plus or minus the number of bytes.
 *
 * @internal
 */
export const Code = {
  null: 0x00,
  bytes: 0x01,
  string: 0x02,
  nested: 0x05,
  negativeIntegerEnd: 0x0b,
  integerZero: 0x14,
  positiveIntegerEnd: 0x1d,
  float: 0x20,
  double: 0x21,
  false: 0x26,
  true: 0x27,
  uuid: 0x30,
  versionstamp: 0x33
} as const

/**
 * Follows a `0x00` that is not the end: of a string, of bytes, or (there it stands for null) of a nested tuple.
 *
 * @internal
 */
export const escapeByte = 0xff

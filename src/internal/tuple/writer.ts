/**
 * Packs tuples into bytes. One growing buffer is kept between calls and the result is copied out of it, so packing a
 * small tuple allocates its result and little else.
 *
 * Invariants:
 * 1. A writer belongs to one call from `takeWriter` to `finish`. A getter on a caller's array may pack a tuple while
 *    another is being packed: it finds no writer free and gets its own.
 * 2. A call that throws does not give its writer back. The next call makes a new one.
 * 3. A buffer larger than `keptBufferBytes` is not kept.
 * 4. `path[0..depth]` are the positions of the element being written whenever writing can fail.
 *
 * @internal
 */
import {
  assertBytes,
  canonicalNanBits32,
  Code,
  describe,
  Double,
  escapeByte,
  Float,
  invalidArgument,
  lengthOf,
  maximumDepth,
  maximumIntegerBytes,
  maximumPackedBytes,
  TupleError,
  type TupleErrorReason,
  Uuid,
  Versionstamp
} from "./element.ts"

// a key has at most 10,000 bytes, and a string reserves 3 bytes a character
const keptBufferBytes = 65_536
const firstBufferBytes = 1_024

// the smallest magnitude that does not fit
const integerLimit = 1n << BigInt(8 * maximumIntegerBytes)

const twoTo32 = 0x1_0000_0000

interface Writer {
  bytes: Uint8Array<ArrayBuffer>
  length: number
  readonly path: Array<number>
  stampAllowed: boolean
  // where the incomplete versionstamp's 10 bytes begin, or -1
  stampAt: number
}

const view = new DataView(new ArrayBuffer(8))

let free: Writer | undefined

const takeWriter = (stampAllowed: boolean): Writer => {
  const writer = free ?? { bytes: new Uint8Array(firstBufferBytes), length: 0, path: [], stampAllowed, stampAt: -1 }
  free = undefined // (1)
  writer.length = 0
  writer.stampAllowed = stampAllowed
  writer.stampAt = -1
  return writer
}

const finish = (writer: Writer): Uint8Array => {
  if (writer.length > maximumPackedBytes) throw tooLarge()
  const result = writer.bytes.slice(0, writer.length)
  if (writer.bytes.length <= keptBufferBytes) free = writer // (3)
  return result
}

const tooLarge = (): TupleError =>
  new TupleError({
    reason: "TooLarge",
    message: `the packed tuple would have more than ${maximumPackedBytes} bytes, more than a transaction can hold`,
    path: []
  })

const fail = (writer: Writer, depth: number, reason: TupleErrorReason, problem: string): TupleError => {
  const path = writer.path.slice(0, depth + 1)
  return new TupleError({ reason, message: `the tuple's element at [${path.join(", ")}] ${problem}`, path })
}

const ensure = (writer: Writer, extra: number): void => {
  const needed = writer.length + extra
  if (needed <= writer.bytes.length) return
  if (writer.length > maximumPackedBytes) throw tooLarge()
  const grown = new Uint8Array(Math.max(needed, writer.bytes.length * 2))
  grown.set(writer.bytes.subarray(0, writer.length))
  writer.bytes = grown
}

/**
 * Packs a tuple that may hold no incomplete versionstamp.
 *
 * @internal
 */
export const packTuple = (tuple: unknown, prefix: Uint8Array | undefined): Uint8Array => {
  const writer = takeWriter(false)
  writeAll(writer, tuple, prefix)
  return finish(writer)
}

/**
 * Packs a tuple that must hold exactly one incomplete versionstamp.
 *
 * @internal
 */
export const packStampedTuple = (
  tuple: unknown,
  prefix: Uint8Array | undefined
): { readonly bytes: Uint8Array; readonly position: number } => {
  const writer = takeWriter(true)
  writeAll(writer, tuple, prefix)
  const position = writer.stampAt
  if (position === -1) {
    throw new TupleError({
      reason: "IncompleteVersionstamp",
      message: "the tuple holds no incomplete versionstamp: add one with Versionstamp.incomplete(), or use pack",
      path: []
    })
  }
  return { bytes: finish(writer), position }
}

const writeAll = (writer: Writer, tuple: unknown, prefix: Uint8Array | undefined): void => {
  if (!Array.isArray(tuple)) {
    throw invalidArgument(`a tuple must be an array of elements, and is ${describe(tuple)}: put it in brackets`)
  }
  if (prefix !== undefined) {
    assertBytes(prefix, "the prefix")
    const length = lengthOf(prefix)
    if (length > maximumPackedBytes) throw tooLarge()
    ensure(writer, length)
    writer.bytes.set(prefix, 0)
    writer.length = length
  }
  for (let i = 0; i < tuple.length; i++) {
    writer.path[0] = i
    writeElement(writer, tuple[i], 0)
  }
}

const writeElement = (writer: Writer, element: unknown, depth: number): void => {
  switch (typeof element) {
    case "string":
      return writeString(writer, element, depth)
    case "number":
      return Number.isSafeInteger(element) && !Object.is(element, -0)
        ? writeSafeInteger(writer, element)
        : writeDouble(writer, element)
    case "bigint":
      return writeBigInt(writer, element, depth)
    case "boolean":
      return writeCode(writer, element ? Code.true : Code.false)
    case "object":
      return writeObject(writer, element, depth)
    default:
      throw unsupported(writer, element, depth)
  }
}

const writeObject = (writer: Writer, element: object | null, depth: number): void => {
  if (element === null) return writeNull(writer, depth)
  if (element instanceof Uint8Array) return writeBytes(writer, element)
  if (Array.isArray(element)) return writeNested(writer, element, depth)
  if (element instanceof Versionstamp) return writeVersionstamp(writer, element, depth)
  if (element instanceof Uuid) return writeFixed(writer, Code.uuid, element.bytes)
  if (element instanceof Double) return writeDoubleElement(writer, element)
  if (element instanceof Float) return writeFloat(writer, element)
  throw unsupported(writer, element, depth)
}

const unsupported = (writer: Writer, element: unknown, depth: number): TupleError =>
  fail(
    writer,
    depth,
    "UnsupportedElement",
    `is ${describe(element)}: a tuple holds null, booleans, numbers, bigints, strings, Uint8Arrays, tuples, and ` +
      "Tuple.Float, Tuple.Double, Tuple.Uuid and Tuple.Versionstamp"
  )

const writeCode = (writer: Writer, code: number): void => {
  ensure(writer, 1)
  writer.bytes[writer.length++] = code
}

// inside a tuple a lone 0x00 is the end, so null is escaped there
const writeNull = (writer: Writer, depth: number): void => {
  writeCode(writer, Code.null)
  if (depth > 0) writeCode(writer, escapeByte)
}

const writeNested = (writer: Writer, tuple: ReadonlyArray<unknown>, depth: number): void => {
  if (depth === maximumDepth) {
    throw fail(
      writer,
      depth,
      "NestedTooDeep",
      `is nested more than ${maximumDepth} deep: flatten the tuple, and see that it does not contain itself`
    )
  }
  writeCode(writer, Code.nested)
  for (let i = 0; i < tuple.length; i++) {
    writer.path[depth + 1] = i // (4)
    writeElement(writer, tuple[i], depth + 1)
  }
  writeCode(writer, 0x00)
}

const writeBytes = (writer: Writer, element: Uint8Array): void => {
  const size = element.length
  if (size > maximumPackedBytes) throw tooLarge()
  ensure(writer, size * 2 + 2)
  const out = writer.bytes
  let at = writer.length
  out[at++] = Code.bytes
  for (let i = 0; i < size; i++) {
    const byte = element[i]!
    out[at++] = byte
    if (byte === 0) out[at++] = escapeByte
  }
  out[at++] = 0x00
  writer.length = at
}

const writeString = (writer: Writer, element: string, depth: number): void => {
  const size = element.length
  if (size > maximumPackedBytes) throw tooLarge()
  ensure(writer, size * 3 + 2)
  const out = writer.bytes
  let at = writer.length
  out[at++] = Code.string
  for (let i = 0; i < size; i++) {
    const unit = element.charCodeAt(i)
    if (unit < 0x80) {
      out[at++] = unit
      if (unit === 0) out[at++] = escapeByte
    } else if (unit < 0x800) {
      out[at++] = 0xc0 | (unit >> 6)
      out[at++] = 0x80 | (unit & 0x3f)
    } else if (unit < 0xd800 || unit > 0xdfff) {
      out[at++] = 0xe0 | (unit >> 12)
      out[at++] = 0x80 | ((unit >> 6) & 0x3f)
      out[at++] = 0x80 | (unit & 0x3f)
    } else {
      const low = unit < 0xdc00 && i + 1 < size ? element.charCodeAt(i + 1) : 0
      if (low < 0xdc00 || low > 0xdfff) throw loneSurrogate(writer, depth, i)
      i++
      const point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
      out[at++] = 0xf0 | (point >> 18)
      out[at++] = 0x80 | ((point >> 12) & 0x3f)
      out[at++] = 0x80 | ((point >> 6) & 0x3f)
      out[at++] = 0x80 | (point & 0x3f)
    }
  }
  out[at++] = 0x00
  writer.length = at
}

const loneSurrogate = (writer: Writer, depth: number, index: number): TupleError =>
  fail(
    writer,
    depth,
    "LoneSurrogate",
    `is a string with half of a surrogate pair at index ${index}, which has no UTF-8 form: mend it with ` +
      "toWellFormed(), or store it as bytes"
  )

const writeSafeInteger = (writer: Writer, element: number): void => {
  const magnitude = element < 0 ? -element : element
  const low = magnitude >>> 0
  writeInteger(writer, (magnitude - low) / twoTo32, low, element < 0)
}

// an integer of at most 8 bytes, given as the two halves of its magnitude
const writeInteger = (writer: Writer, high: number, low: number, negative: boolean): void => {
  ensure(writer, 9)
  const size = high === 0 ? byteSize(low) : 4 + byteSize(high)
  const out = writer.bytes
  const flip = negative ? 0xff : 0
  let at = writer.length
  out[at++] = Code.integerZero + (negative ? -size : size)
  for (let shift = (size - 5) * 8; shift >= 0; shift -= 8) out[at++] = (high >>> shift) ^ flip
  for (let shift = (Math.min(size, 4) - 1) * 8; shift >= 0; shift -= 8) out[at++] = (low >>> shift) ^ flip
  writer.length = at
}

const byteSize = (half: number): number =>
  half < 0x10000 ? (half === 0 ? 0 : half < 0x100 ? 1 : 2) : half < 0x1000000 ? 3 : 4

const writeBigInt = (writer: Writer, element: bigint, depth: number): void => {
  const negative = element < 0n
  const magnitude = negative ? -element : element
  if (magnitude <= 0xffffffffffffffffn) {
    return writeInteger(writer, Number(magnitude >> 32n), Number(magnitude & 0xffffffffn), negative)
  }
  if (magnitude >= integerLimit) {
    throw fail(
      writer,
      depth,
      "IntegerTooLarge",
      `is an integer of more than ${maximumIntegerBytes} bytes: store it as bytes or as a string`
    )
  }
  const digits = magnitude.toString(16)
  const size = (digits.length + 1) >> 1
  ensure(writer, size + 2)
  const flip = negative ? 0xff : 0
  const out = writer.bytes
  let at = writer.length
  out[at++] = negative ? Code.negativeIntegerEnd : Code.positiveIntegerEnd
  out[at++] = size ^ flip
  for (let end = digits.length - size * 2 + 2; end <= digits.length; end += 2) {
    out[at++] = Number.parseInt(digits.slice(Math.max(0, end - 2), end), 16) ^ flip
  }
  writer.length = at
}

const writeDouble = (writer: Writer, element: number): void => {
  // an engine may keep any bits in a NaN, so the usual ones are written out
  if (element === element) {
    view.setFloat64(0, element)
    writeSortable64(writer, view.getUint32(0), view.getUint32(4))
  } else {
    writeSortable64(writer, 0x7ff80000, 0)
  }
}

const writeDoubleElement = (writer: Writer, element: Double): void => {
  if (element.nanBits === undefined) return writeDouble(writer, element.value)
  view.setBigUint64(0, element.nanBits)
  writeSortable64(writer, view.getUint32(0), view.getUint32(4))
}

const writeSortable64 = (writer: Writer, high: number, low: number): void => {
  ensure(writer, 9)
  writer.bytes[writer.length++] = Code.double
  const negative = high >>> 31 === 1
  writeUint32(writer, negative ? ~high : high ^ 0x80000000)
  writeUint32(writer, negative ? ~low : low)
}

const writeFloat = (writer: Writer, element: Float): void => {
  let bits = element.nanBits ?? canonicalNanBits32
  if (element.value === element.value) {
    view.setFloat32(0, element.value)
    bits = view.getUint32(0)
  }
  ensure(writer, 5)
  writer.bytes[writer.length++] = Code.float
  writeUint32(writer, bits >>> 31 === 1 ? ~bits : bits ^ 0x80000000)
}

// room is made by the caller
const writeUint32 = (writer: Writer, bits: number): void => {
  const out = writer.bytes
  const at = writer.length
  out[at] = bits >>> 24
  out[at + 1] = bits >>> 16
  out[at + 2] = bits >>> 8
  out[at + 3] = bits
  writer.length = at + 4
}

const writeFixed = (writer: Writer, code: number, bytes: Uint8Array): void => {
  const size = bytes.length
  ensure(writer, size + 1)
  const out = writer.bytes
  let at = writer.length
  out[at++] = code
  for (let i = 0; i < size; i++) out[at++] = bytes[i]!
  writer.length = at
}

const writeVersionstamp = (writer: Writer, element: Versionstamp, depth: number): void => {
  if (!element.isComplete) {
    if (!writer.stampAllowed) {
      throw fail(
        writer,
        depth,
        "IncompleteVersionstamp",
        "is an incomplete versionstamp, which only packVersionstamped can pack"
      )
    }
    if (writer.stampAt !== -1) {
      throw fail(
        writer,
        depth,
        "IncompleteVersionstamp",
        "is a second incomplete versionstamp, and the store fills in one: leave one of them out"
      )
    }
    writer.stampAt = writer.length + 1
  }
  writeFixed(writer, Code.versionstamp, element.bytes)
  ensure(writer, 2)
  writer.bytes[writer.length++] = element.userVersion >>> 8
  writer.bytes[writer.length++] = element.userVersion
}

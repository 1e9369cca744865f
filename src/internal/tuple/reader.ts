/**
 * Reads tuples from bytes that anybody may have written. It accepts exactly the bytes that the writer makes: what it
 * accepts, packed again, gives the same bytes. All else is refused with a `TupleError` that tells where.
 *
 * Invariants:
 * 1. No byte at or behind `end` is read: every element checks its room before it reads.
 * 2. `at` only grows, and every element takes at least one byte, so reading ends.
 * 3. The stack is bounded by `maximumDepth`, and what is allocated by the number of bytes.
 * 4. Elements share no memory with the bytes they were read from.
 *
 * @internal
 */
import {
  assertBytes,
  canonicalNanBits64,
  Code,
  Double,
  type Element,
  escapeByte,
  Float,
  invalidArgument,
  maximumDepth,
  TupleError,
  type TupleErrorReason,
  Uuid,
  Versionstamp
} from "./element.ts"

interface Reader {
  readonly bytes: Uint8Array
  readonly end: number
  at: number
  stampSeen: boolean
}

const view = new DataView(new ArrayBuffer(8))

const twoTo32 = 0x1_0000_0000

/**
 * Reads all elements from `offset` to the end of the bytes.
 *
 * @internal
 */
export const unpackTuple = (bytes: unknown, offset: number): Array<Element> => {
  assertBytes(bytes, "a packed tuple")
  if (!Number.isInteger(offset) || offset < 0 || offset > bytes.length) {
    throw invalidArgument(`the offset must be an integer from 0 to ${bytes.length}, the length of the bytes`)
  }
  const reader: Reader = { bytes, end: bytes.length, at: offset, stampSeen: false }
  const elements: Array<Element> = []
  while (reader.at < reader.end) {
    elements.push(bytes[reader.at] === Code.null ? readNull(reader) : readElement(reader, 0))
  }
  return elements
}

const fail = (offset: number, problem: string, reason: TupleErrorReason = "MalformedBytes"): TupleError =>
  new TupleError({
    reason,
    message: `the bytes are no packed tuple: ${problem} at offset ${offset}`,
    path: [],
    offset
  })

const readNull = (reader: Reader): null => {
  reader.at++
  return null
}

// everything but null, which is written differently at the top and inside
const readElement = (reader: Reader, depth: number): Element => {
  const start = reader.at++
  const code = reader.bytes[start]!
  if (code > Code.negativeIntegerEnd && code < Code.positiveIntegerEnd) {
    return readInteger(reader, start, code - Code.integerZero)
  }
  switch (code) {
    case Code.string:
      return readString(reader, start)
    case Code.bytes:
      return readBytes(reader, start)
    case Code.nested:
      return readNested(reader, start, depth)
    case Code.false:
      return false
    case Code.true:
      return true
    case Code.double:
      return readDouble(reader, start)
    case Code.float:
      return readFloat(reader, start)
    case Code.uuid:
      return new Uuid(take(reader, start, 16))
    case Code.versionstamp:
      return readVersionstamp(reader, start)
    case Code.negativeIntegerEnd:
    case Code.positiveIntegerEnd:
      return readLargeInteger(reader, start, code === Code.negativeIntegerEnd)
  }
  throw fail(start, `the type code 0x${code.toString(16).padStart(2, "0")} is unknown`)
}

const readNested = (reader: Reader, start: number, depth: number): Array<Element> => {
  if (depth === maximumDepth) {
    throw fail(start, `a tuple is nested more than ${maximumDepth} deep`, "NestedTooDeep")
  }
  const { bytes, end } = reader
  const elements: Array<Element> = []
  while (reader.at < end) {
    if (bytes[reader.at] !== 0x00) {
      elements.push(readElement(reader, depth + 1))
    } else if (reader.at + 1 < end && bytes[reader.at + 1] === escapeByte) {
      reader.at += 2
      elements.push(null)
    } else {
      reader.at++
      return elements
    }
  }
  throw fail(start, "a nested tuple without an end")
}

const requireRoom = (reader: Reader, start: number, size: number): number => {
  const at = reader.at
  if (reader.end - at < size) throw fail(start, `an element of ${size} bytes that is cut off`)
  reader.at = at + size
  return at
}

const take = (reader: Reader, start: number, size: number): Uint8Array => {
  const at = requireRoom(reader, start, size)
  return reader.bytes.subarray(at, at + size)
}

// the copy without escapes of the bytes from `from` to `to`
const unescape = (bytes: Uint8Array, from: number, to: number, escapes: number): Uint8Array<ArrayBuffer> => {
  const result = new Uint8Array(to - from - escapes)
  for (let i = from, at = 0; i < to; i++) {
    const byte = bytes[i]!
    result[at++] = byte
    if (byte === 0) i++
  }
  return result
}

const readBytes = (reader: Reader, start: number): Uint8Array => {
  const { bytes, end } = reader
  const from = reader.at
  let escapes = 0
  for (let i = from; i < end; i++) {
    if (bytes[i] !== 0x00) continue
    if (i + 1 < end && bytes[i + 1] === escapeByte) {
      escapes++
      i++
    } else {
      reader.at = i + 1
      return unescape(bytes, from, i, escapes)
    }
  }
  throw fail(start, "bytes without an end")
}

const readString = (reader: Reader, start: number): string => {
  const { bytes, end } = reader
  let text = ""
  let at = reader.at
  while (at < end) {
    const byte = bytes[at++]!
    if (byte >= 0x80) {
      reader.at = at
      text += String.fromCodePoint(readRestOfPoint(reader, start, byte))
      at = reader.at
    } else if (byte !== 0x00) {
      text += String.fromCharCode(byte)
    } else if (at < end && bytes[at] === escapeByte) {
      text += "\0"
      at++
    } else {
      reader.at = at
      return text
    }
  }
  throw fail(start, "a string without an end")
}

// the smallest code points that need 2, 3 and 4 bytes of UTF-8
const smallestPoints = [0x80, 0x800, 0x10000]

const readRestOfPoint = (reader: Reader, start: number, lead: number): number => {
  const { bytes, end } = reader
  const rest = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3
  let point = lead & (0x3f >> rest)
  for (let i = 0; i < rest; i++) {
    const byte = reader.at < end ? bytes[reader.at++]! : 0
    if ((byte & 0xc0) !== 0x80) throw notUtf8(start)
    point = (point << 6) | (byte & 0x3f)
  }
  const isSurrogate = point >= 0xd800 && point <= 0xdfff
  if (lead < 0xc2 || lead > 0xf4 || point < smallestPoints[rest - 1]! || point > 0x10ffff || isSurrogate) {
    throw notUtf8(start)
  }
  return point
}

const notUtf8 = (start: number): TupleError => fail(start, "a string that is not UTF-8")

// `size` is negative for negative integers
const readInteger = (reader: Reader, start: number, size: number): number | bigint => {
  if (size === 0) return 0
  const negative = size < 0
  const length = negative ? -size : size
  const flip = negative ? 0xff : 0
  const { bytes } = reader
  let at = requireRoom(reader, start, length)
  const to = at + length
  if (bytes[at] === flip) throw fail(start, "an integer that has a shorter form")
  let high = 0
  let low = 0
  while (at < to - 4) high = high * 256 + (bytes[at++]! ^ flip)
  while (at < to) low = low * 256 + (bytes[at++]! ^ flip)
  const magnitude = high * twoTo32 + low
  if (magnitude <= Number.MAX_SAFE_INTEGER) return negative ? -magnitude : magnitude
  const large = (BigInt(high) << 32n) | BigInt(low)
  return negative ? -large : large
}

const readLargeInteger = (reader: Reader, start: number, negative: boolean): bigint => {
  const flip = negative ? 0xff : 0
  const { bytes } = reader
  const length = bytes[requireRoom(reader, start, 1)]! ^ flip
  const from = requireRoom(reader, start, length)
  if (length <= 8 || bytes[from] === flip) throw fail(start, "an integer that has a shorter form")
  let digits = "0x"
  for (let i = from; i < from + length; i++) digits += (bytes[i]! ^ flip).toString(16).padStart(2, "0")
  const magnitude = BigInt(digits)
  return negative ? -magnitude : magnitude
}

const readSortable32 = (bytes: Uint8Array, at: number, flip: number): number =>
  (((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) ^ flip) >>> 0

const readFloat = (reader: Reader, start: number): Float => {
  const at = requireRoom(reader, start, 4)
  return Float.fromBits(readSortable32(reader.bytes, at, reader.bytes[at]! < 0x80 ? 0xffffffff : 0x80000000))
}

const readDouble = (reader: Reader, start: number): number | Double => {
  const at = requireRoom(reader, start, 8)
  const negative = reader.bytes[at]! < 0x80
  view.setUint32(0, readSortable32(reader.bytes, at, negative ? 0xffffffff : 0x80000000))
  view.setUint32(4, readSortable32(reader.bytes, at + 4, negative ? 0xffffffff : 0))
  const value = view.getFloat64(0)
  // a plain number would be written as an integer, or with the usual NaN's bits
  if (Number.isSafeInteger(value)) return Object.is(value, -0) ? value : new Double(value)
  if (value === value) return value
  const bits = view.getBigUint64(0)
  return bits === canonicalNanBits64 ? value : Double.fromBits(bits)
}

const readVersionstamp = (reader: Reader, start: number): Versionstamp => {
  const stamp = take(reader, start, 10)
  const at = requireRoom(reader, start, 2)
  const element = new Versionstamp(stamp, (reader.bytes[at]! << 8) | reader.bytes[at + 1]!)
  if (!element.isComplete) {
    if (reader.stampSeen) throw fail(start, "a second incomplete versionstamp")
    reader.stampSeen = true
  }
  return element
}

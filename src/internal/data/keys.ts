/**
 * Keys as the overlay holds them: a latin1 string has one code unit a byte, so that strings compare like bytes and
 * serve as keys of maps.
 */
import type { KeyRange } from "../../Tuple.ts"

/** What `toString("latin1")` of a buffer calls; it takes any array of bytes, and spares a buffer for each key. */
const { latin1Slice } = Buffer.prototype as unknown as {
  readonly latin1Slice: (this: Uint8Array, start: number, end: number) => string
}

/** Arrays up to this length lie within the heap; a native function would move them out of it, and that costs more. */
const HEAP_BYTES = 64

/** The string of a key. */
export const toText = (bytes: Uint8Array): string =>
  bytes.length <= HEAP_BYTES
    ? String.fromCharCode.apply(undefined, bytes as unknown as Array<number>)
    : latin1Slice.call(bytes, 0, bytes.length)

/** Thirty-two bits of a key (FNV-1a): for telling keys apart that are few, and for spreading what belongs to them. */
export const hash = (text: string): number => {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  return h >>> 0
}

/** The key of a string. */
export const fromText = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "latin1"))

/** The smallest key after a key. */
export const next = (key: Uint8Array): Uint8Array => {
  const out = new Uint8Array(key.length + 1)
  out.set(key)
  return out
}

/** The range that holds one key alone. Most are asked for their text and not for their end, which is made when it is. */
export class Single implements KeyRange {
  readonly begin: Uint8Array
  readonly text: string

  constructor(key: Uint8Array, text: string) {
    this.begin = key
    this.text = text
  }

  get end(): Uint8Array {
    return next(this.begin)
  }
}

export const single = (key: Uint8Array): Single => new Single(key, toText(key))

/** Writes an integer, big-endian. A `DataView` would move a short array out of the heap, which costs more. */
export const writeUint32 = (bytes: Uint8Array, at: number, value: number): void => {
  bytes[at] = value >>> 24
  bytes[at + 1] = value >>> 16
  bytes[at + 2] = value >>> 8
  bytes[at + 3] = value
}

export const readUint32 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0

export const writeUint16 = (bytes: Uint8Array, at: number, value: number): void => {
  bytes[at] = value >>> 8
  bytes[at + 1] = value
}

/**
 * What somebody keeps for long: a copy of a piece of a longer buffer, all of which would be kept with it. Who asks a short
 * array for its buffer moves it out of the heap.
 */
export const alone = (bytes: Uint8Array): Uint8Array =>
  bytes.length > HEAP_BYTES && bytes.buffer.byteLength === bytes.length ? bytes : new Uint8Array(bytes)

/**
 * Bytes for whoever writes all of them: longer ones are pieces of a pool, and hold what was there before. They are not
 * for users, nor for keeping.
 */
export const reserve = (length: number): Uint8Array => {
  if (length <= HEAP_BYTES) return new Uint8Array(length)
  const { buffer, byteOffset } = Buffer.allocUnsafe(length)
  return new Uint8Array(buffer, byteOffset, length)
}

/** Two byte strings, one after the other. */
export const concat = (a: Uint8Array, b: Uint8Array): Uint8Array => {
  const out = reserve(a.length + b.length)
  out.set(a)
  out.set(b, a.length)
  return out
}

/** Byte strings, one after the other. */
export const concatAll = (parts: ReadonlyArray<Uint8Array>): Uint8Array => new Uint8Array(Buffer.concat(parts))

/** The place in sorted keys of the first that is not below a key. */
export const lowerBound = (keys: ReadonlyArray<string>, key: string): number => {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (keys[middle]! < key) low = middle + 1
    else high = middle
  }
  return low
}

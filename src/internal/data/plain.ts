/**
 * Plain data (what JSON can say, and bytes) as MessagePack, and back, without loss: what is read is what was written, `-0`,
 * `"__proto__"` as a key, the order of entries and all. What cannot be kept (a lone surrogate, a value that is not
 * plain) is refused, not changed.
 *
 * The reader takes any plain data in MessagePack, in whatever width its numbers are. It refuses everything else:
 * cut off or left over bytes, lengths beyond the end, text that is not UTF-8, keys that are not text or come twice,
 * integers that a number cannot hold, other types. It never reserves more than the bytes at hand can fill.
 */
import { lengthOf } from "../tuple/element.ts"
import * as Keys from "./keys.ts"
import { type Path, Refused } from "./problem.ts"

/** Both directions recurse, so bytes from outside must not choose the depth of the stack. No state that people design comes near. */
const DEPTH_LIMIT = 500

/** The size of the buffer that is kept between calls; most terms fit. */
const KEPT_BYTES = 4_096

/** Text up to this length is written character by character while it is ASCII: cheaper than calls of the encoder. */
const SHORT_TEXT_CHARACTERS = 24

/** Text up to this length is read byte by byte: cheaper than a call of the decoder. */
const SHORT_TEXT_BYTES = 24

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** What the next writer writes into; taken while one is at work: a getter of what is written may write, too. */
let kept: Buffer | undefined

class Writer {
  buffer = kept ?? Buffer.allocUnsafeSlow(KEPT_BYTES)
  at = 0
  readonly base: Path

  constructor(base: Path) {
    this.base = base
    kept = undefined
  }

  /** A copy of what was written. The next writer gets the buffer. */
  finish(): Uint8Array {
    const copy = Keys.reserve(this.at)
    copy.set(this.buffer.subarray(0, this.at))
    if (this.buffer.length === KEPT_BYTES) kept = this.buffer
    return copy
  }

  /** Makes room, and gives where it begins. */
  take(bytes: number): number {
    const begin = this.at
    this.at += bytes
    if (this.at > this.buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(this.at, this.buffer.length * 2))
      this.buffer.copy(grown, 0, 0, begin)
      this.buffer = grown
    }
    return begin
  }

  byte(value: number): void {
    const at = this.take(1)
    this.buffer[at] = value
  }

  /** A type and a length: in the type where it is below `small`, else behind it. */
  head(fix: number, small: number, byte: number, short: number, long: number, length: number): void {
    if (length < small) return this.byte(fix | length)
    if (byte !== 0 && length < 0x100) {
      const at = this.take(2)
      this.buffer[at] = byte
      this.buffer[at + 1] = length
    } else if (length < 0x10000) {
      const at = this.take(3)
      this.buffer[at] = short
      this.buffer.writeUInt16BE(length, at + 1)
    } else {
      const at = this.take(5)
      this.buffer[at] = long
      this.buffer.writeUInt32BE(length, at + 1)
    }
  }

  /** Writes text that is short and ASCII; gives whether it was. */
  shortText(value: string): boolean {
    const length = value.length
    if (length > SHORT_TEXT_CHARACTERS) return false
    const at = this.take(length + 1)
    this.buffer[at] = 0xa0 | length
    for (let i = 0; i < length; i++) {
      const code = value.charCodeAt(i)
      if (code >= 0x80) {
        this.at = at
        return false
      }
      this.buffer[at + 1 + i] = code
    }
    return true
  }

  text(value: string, path: Path): void {
    if (this.shortText(value)) return
    if (!value.isWellFormed()) throw new Refused(path, "a string with a lone surrogate has no UTF-8 form")
    const length = Buffer.byteLength(value)
    this.head(0xa0, 32, 0xd9, 0xda, 0xdb, length)
    const at = this.take(length)
    this.buffer.write(value, at, length, "utf8")
  }

  number(value: number): void {
    if (Number.isInteger(value) && !Object.is(value, -0)) {
      if (value >= 0 && value < 0x80) return this.byte(value)
      if (value < 0 && value >= -32) return this.byte(value + 0x100)
      if (value >= -0x80000000 && value < 0x80000000) {
        const at = this.take(5)
        this.buffer[at] = 0xd2
        this.buffer.writeInt32BE(value, at + 1)
        return
      }
    }
    const at = this.take(9)
    this.buffer[at] = 0xcb
    this.buffer.writeDoubleBE(value, at + 1)
  }

  value(value: unknown, path: Array<string | number>): void {
    switch (typeof value) {
      case "string":
        return this.text(value, path)
      case "number":
        if (!Number.isFinite(value)) throw new Refused(path, `a number that plain data does not have: ${value}`)
        return this.number(value)
      case "boolean":
        return this.byte(value ? 0xc3 : 0xc2)
      case "object":
        if (value === null) return this.byte(0xc0)
        if (path.length - this.base.length >= DEPTH_LIMIT) {
          throw new Refused(this.base, `over ${DEPTH_LIMIT} values lie inside each other: flatten the state`)
        }
        if (Array.isArray(value)) return this.array(value, path)
        if (value instanceof Uint8Array) return this.bytes(value)
        if (isPlain(value)) return this.object(value as Record<string, unknown>, path)
    }
    throw new Refused(path, `a value that is not plain data cannot be kept: ${Object.prototype.toString.call(value)}`)
  }

  bytes(value: Uint8Array): void {
    const length = lengthOf(value)
    this.head(0, 0, 0xc4, 0xc5, 0xc6, length)
    const at = this.take(length)
    this.buffer.set(value, at)
  }

  array(value: ReadonlyArray<unknown>, path: Array<string | number>): void {
    this.head(0x90, 16, 0, 0xdc, 0xdd, value.length)
    for (let i = 0; i < value.length; i++) {
      path.push(i)
      this.value(value[i], path)
      path.pop()
    }
  }

  object(value: Record<string, unknown>, path: Array<string | number>): void {
    const keys = Object.keys(value)
    this.head(0x80, 16, 0, 0xde, 0xdf, keys.length)
    for (const key of keys) {
      path.push(key)
      this.text(key, path)
      this.value(value[key], path)
      path.pop()
    }
  }
}

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Plain data, which lies at `path`, as MessagePack. Throws `Refused` when there is something that cannot be kept. */
export const packPlain = (data: unknown, path: Path): Uint8Array => {
  const writer = new Writer(path)
  writer.value(data, [...path])
  return writer.finish()
}

class Malformed extends Error {}

class Reader {
  readonly bytes: Buffer
  readonly givesViews: boolean
  at = 0

  constructor(bytes: Uint8Array, givesViews: boolean) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.givesViews = givesViews
  }

  take(count: number): number {
    const begin = this.at
    if (count > this.bytes.length - begin) throw new Malformed("the bytes end too early")
    this.at += count
    return begin
  }

  length(width: 1 | 2 | 4): number {
    return this.bytes.readUIntBE(this.take(width), width)
  }

  text(length: number): string {
    const begin = this.take(length)
    if (length <= SHORT_TEXT_BYTES) {
      let out = ""
      for (let i = begin; i < this.at; i++) {
        const byte = this.bytes[i]!
        if (byte >= 0x80) return this.longText(begin)
        out += String.fromCharCode(byte)
      }
      return out
    }
    return this.longText(begin)
  }

  longText(begin: number): string {
    try {
      return utf8.decode(this.bytes.subarray(begin, this.at))
    } catch {
      throw new Malformed("text that is not UTF-8")
    }
  }

  binary(length: number): Uint8Array {
    const begin = this.take(length)
    const view = new Uint8Array(this.bytes.buffer, this.bytes.byteOffset + begin, length)
    return this.givesViews ? view : new Uint8Array(view)
  }

  /** As deep as the writer goes, and no deeper: what is read can be written again. */
  container(depth: number): void {
    if (depth >= DEPTH_LIMIT) throw new Malformed(`over ${DEPTH_LIMIT} values inside each other`)
  }

  array(length: number, depth: number): Array<unknown> {
    this.container(depth)
    if (length > this.bytes.length - this.at) throw new Malformed("the bytes end too early")
    const out: Array<unknown> = []
    for (let i = 0; i < length; i++) out.push(this.value(depth + 1))
    return out
  }

  object(length: number, depth: number): object {
    this.container(depth)
    if (2 * length > this.bytes.length - this.at) throw new Malformed("the bytes end too early")
    const out: Record<string, unknown> = {}
    for (let i = 0; i < length; i++) {
      const key = this.value(depth + 1)
      if (typeof key !== "string") throw new Malformed("a key that is not text")
      if (Object.hasOwn(out, key)) throw new Malformed("a key that comes twice")
      assign(out, key, this.value(depth + 1))
    }
    return out
  }

  integer(value: bigint): number {
    const number = Number(value)
    if (!Number.isSafeInteger(number)) throw new Malformed("an integer that a number cannot hold")
    return number
  }

  value(depth: number): unknown {
    const type = this.bytes[this.take(1)]!
    if (type < 0x80) return type
    if (type < 0x90) return this.object(type & 0x0f, depth)
    if (type < 0xa0) return this.array(type & 0x0f, depth)
    if (type < 0xc0) return this.text(type & 0x1f)
    if (type >= 0xe0) return type - 0x100
    switch (type) {
      case 0xc0:
        return null
      case 0xc2:
        return false
      case 0xc3:
        return true
      case 0xc4:
        return this.binary(this.length(1))
      case 0xc5:
        return this.binary(this.length(2))
      case 0xc6:
        return this.binary(this.length(4))
      case 0xd9:
        return this.text(this.length(1))
      case 0xda:
        return this.text(this.length(2))
      case 0xdb:
        return this.text(this.length(4))
      case 0xdc:
        return this.array(this.length(2), depth)
      case 0xdd:
        return this.array(this.length(4), depth)
      case 0xde:
        return this.object(this.length(2), depth)
      case 0xdf:
        return this.object(this.length(4), depth)
      default:
        return this.number(type)
    }
  }

  number(type: number): number {
    const { bytes } = this
    switch (type) {
      case 0xca:
        return this.finite(bytes.readFloatBE(this.take(4)))
      case 0xcb:
        return this.finite(bytes.readDoubleBE(this.take(8)))
      case 0xcc:
        return this.length(1)
      case 0xcd:
        return this.length(2)
      case 0xce:
        return this.length(4)
      case 0xcf:
        return this.integer(bytes.readBigUInt64BE(this.take(8)))
      case 0xd0:
        return bytes.readInt8(this.take(1))
      case 0xd1:
        return bytes.readInt16BE(this.take(2))
      case 0xd2:
        return bytes.readInt32BE(this.take(4))
      case 0xd3:
        return this.integer(bytes.readBigInt64BE(this.take(8)))
      default:
        throw new Malformed(`a type that plain data does not have: 0x${type.toString(16)}`)
    }
  }

  finite(value: number): number {
    if (!Number.isFinite(value)) throw new Malformed("a number that is not finite")
    return value
  }
}

/** Sets an own property, whatever its name is. */
export const assign = (target: Record<string, unknown>, key: string, value: unknown): void => {
  if (key !== "__proto__") {
    target[key] = value
    return
  }
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true })
}

/**
 * MessagePack as plain data. Throws `Refused` at `path` for any other bytes. With `givesViews`, bytes in it are views of
 * those that were read: for readers who change neither.
 */
export const unpackPlain = (bytes: Uint8Array, path: Path, givesViews = false): unknown => {
  const reader = new Reader(bytes, givesViews)
  try {
    const value = reader.value(0)
    if (reader.at !== reader.bytes.length) throw new Malformed("bytes behind the value")
    return value
  } catch (cause) {
    if (cause instanceof Malformed) throw new Refused(path, `not plain data in MessagePack: ${cause.message}`)
    throw cause
  }
}

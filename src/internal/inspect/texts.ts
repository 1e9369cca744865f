/**
 * Tuids, types and ids as texts and as plain data, there and back: each text stands for one tuple. A text is JSON, with
 * forms of its own for what JSON cannot say, and has no character that only a terminal understands.
 *
 * ```
 * null true "text" 7 0.5 ["nested", 1]    as JSON; integers beyond a number's are bigints
 * 0x00ff                                  bytes
 * double(7) float(0.5)                    numbers that are kept as they are
 * uuid(...) versionstamp(...)             as hexadecimal digits
 * ```
 */
import * as Result from "effect/Result"
import * as Tuple from "../../Tuple.ts"

/**
 * A tuid for people, and for programs that do not have this library.
 *
 * @since 0.2.0
 * @category models
 */
export interface Tuid {
  /** What `Inspect.parseTuid` takes. */
  readonly text: string
  /** Its elements; one that JSON cannot say is `{ text }`. */
  readonly elements: ReadonlyArray<unknown>
}

export const tuidOf = (tuid: Tuple.Tuple): Tuid => ({ text: textOf(tuid), elements: tuid.map(jsonOf) })

/** Characters that a terminal obeys, or that reorder and break lines: JSON has them escaped. */
// oxlint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

const quoted = (text: string): string =>
  JSON.stringify(text).replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

const numberText = (value: number): string => Object.is(value, -0) ? "-0" : String(value)

/** An element, or a tuple, as a text. */
export const textOf = (element: Tuple.Element): string => {
  if (element === null || typeof element === "boolean") return String(element)
  if (typeof element === "string") return quoted(element)
  if (typeof element === "bigint") return String(element)
  if (typeof element === "number") {
    // beyond these a number is a double, whose digits would be read as an integer's
    return Number.isSafeInteger(element) || (Number.isFinite(element) && !Number.isInteger(element))
      ? numberText(element)
      : `double(${numberText(element)})`
  }
  if (element instanceof Tuple.Double) return `double(${numberText(element.value)})`
  if (element instanceof Tuple.Float) return `float(${numberText(element.value)})`
  if (element instanceof Tuple.Uuid) return `uuid(${hex(element.bytes)})`
  if (element instanceof Tuple.Versionstamp) {
    return `versionstamp(${hex(element.bytes)}${element.userVersion.toString(16).padStart(4, "0")})`
  }
  if (element instanceof Uint8Array) return `0x${hex(element)}`
  return `[${element.map(textOf).join(",")}]`
}

/** An element as JSON has it, where it can. */
export const jsonOf = (element: Tuple.Element): unknown => {
  if (element === null || typeof element === "boolean" || typeof element === "string") return element
  if (typeof element === "number" && Number.isFinite(element) && !Object.is(element, -0)) return element
  return Array.isArray(element) ? element.map(jsonOf) : { text: textOf(element) }
}

const TOKEN =
  /\s*(?:("(?:[^"\\]|\\.)*")|0x((?:[0-9a-f]{2})*)|(double|float|uuid|versionstamp)\(([^()]{0,64})\)|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([[\],]))\s*/y

/** Deeper than a tuple can be. */
const DEPTH_LIMIT = 100

/** More than a key can hold, however it is written. */
const TEXT_LIMIT_CHARS = 100_000

class Unreadable extends Error {}

/** Reads one text. */
class Reader {
  #at = 0
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  whole(): Tuple.Element {
    const element = this.#element(this.#next(), 0)
    if (this.#at < this.#text.length) throw new Unreadable(`something follows at character ${this.#at + 1}`)
    return element
  }

  #next(): RegExpExecArray {
    TOKEN.lastIndex = this.#at
    const token = TOKEN.exec(this.#text)
    if (token === null) throw new Unreadable(`it cannot be read from character ${this.#at + 1} on`)
    this.#at = TOKEN.lastIndex
    return token
  }

  #element(token: RegExpExecArray, depth: number): Tuple.Element {
    const [, text, bytes, kind, inner, plain, mark] = token
    if (text !== undefined) return JSON.parse(text)
    if (bytes !== undefined) return new Uint8Array(Buffer.from(bytes, "hex"))
    if (kind !== undefined) return special(kind, inner!)
    if (plain !== undefined) return plainOf(plain)
    if (mark !== "[" || depth >= DEPTH_LIMIT) throw new Unreadable(`it cannot be read at character ${this.#at}`)
    return this.#items(depth)
  }

  #items(depth: number): Tuple.Tuple {
    const items: Array<Tuple.Element> = []
    let token = this.#next()
    if (token[6] === "]") return items
    for (;;) {
      items.push(this.#element(token, depth + 1))
      const [, , , , , , mark] = this.#next()
      if (mark === "]") return items
      if (mark !== ",") throw new Unreadable(`a comma is missing at character ${this.#at}`)
      token = this.#next()
    }
  }
}

const plainOf = (text: string): Tuple.Element => {
  if (/^-?\d+$/.test(text) && text !== "-0" && !Number.isSafeInteger(Number(text))) return BigInt(text)
  return JSON.parse(text)
}

const NUMBER = /^(-?\d+(\.\d+)?(e[+-]?\d+)?|NaN|-?Infinity)$/i

const special = (kind: string, inner: string): Tuple.Element => {
  if (kind === "double" || kind === "float") {
    if (!NUMBER.test(inner)) throw new Unreadable(`${kind}(...) takes a number`)
    return kind === "double" ? new Tuple.Double(Number(inner)) : new Tuple.Float(Number(inner))
  }
  const bytes = new Uint8Array(Buffer.from(inner, "hex"))
  const length = kind === "uuid" ? 16 : 12
  if (bytes.length !== length || inner.length !== 2 * length) {
    throw new Unreadable(`${kind}(...) takes ${2 * length} hexadecimal digits`)
  }
  if (kind === "uuid") return new Tuple.Uuid(bytes)
  return new Tuple.Versionstamp(bytes.slice(0, 10), new DataView(bytes.buffer).getUint16(10))
}

/** The element that a text stands for, or what is wrong with it. */
export const parseElement = (text: string): Result.Result<Tuple.Element, string> =>
  Result.try({
    try: () => {
      if (typeof text !== "string" || text.length > TEXT_LIMIT_CHARS) throw new Unreadable("it is too long")
      return new Reader(text).whole()
    },
    catch: (thrown) => thrown instanceof Unreadable ? thrown.message : "it cannot be read"
  })

/** The same of what people type: a text that is none of the forms is a string. */
export const elementOfArgument = (text: string): Tuple.Element => Result.getOrElse(parseElement(text), () => text)

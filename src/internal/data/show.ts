/**
 * Values of any kind, as errors show them. Nothing here throws or goes on without bounds, whatever a program passes:
 * getters and methods that throw, proxies, cycles, endless iterators, megabytes. What is redacted stays hidden.
 */
import * as Redactable from "effect/Redactable"
import * as Redacted from "effect/Redacted"
import { printable } from "./text.ts"

/** Enough to know a value by. */
const SHOWN_CHARACTERS = 1_000

/** Values within a value, at any depth: whatever is behind them is not looked at. */
const PARTS_LIMIT = 100

const DEPTH_LIMIT = 6

/** What a value gives, or `instead` when it throws. */
export const reading = <A, B>(read: () => A, instead: B): A | B => {
  try {
    return read()
  } catch {
    return instead
  }
}

/** Whether a value is of a class; one that cannot be asked is not. */
export const isA = <A>(value: unknown, type: abstract new(...args: Array<any>) => A): value is A =>
  reading(() => value instanceof type, false)

/** The text of a value; a string is its own. */
export const show = (value: unknown): string =>
  typeof value === "string" ? printable(value) : printable(new Looking().at(value, 0), SHOWN_CHARACTERS)

/** One look at a value: it has a bound, and knows what it is within. */
class Looking {
  #left = PARTS_LIMIT
  readonly #within: Array<unknown> = []

  at(value: unknown, depth: number): string {
    switch (typeof value) {
      case "string":
        return JSON.stringify(value.slice(0, SHOWN_CHARACTERS).toWellFormed())
      case "bigint":
        // the digits of a large one cost more than they tell
        return reading(
          () => value >> 4096n === 0n || value >> 4096n === -1n ? `${value}n` : "a huge bigint",
          "a bigint"
        )
      case "symbol":
        return value.toString()
      case "function":
      case "object":
        return value === null ? "null" : reading(() => this.#object(value, depth), "[looking at it threw]")
      default:
        return String(value)
    }
  }

  #object(value: object, depth: number): string {
    if (this.#within.includes(value)) return "[Circular]"
    if (this.#left-- <= 0 || depth >= DEPTH_LIMIT) return "…"
    this.#within.push(value)
    const text = reading(() => this.#parts(value, depth), "[looking at it threw]")
    this.#within.pop()
    return text
  }

  #parts(value: object, depth: number): string {
    if (Redacted.isRedacted(value)) return textOrNone(value.toString())
    if (Redactable.isRedactable(value)) return this.at(Redactable.redact(value), depth + 1)
    if (Array.isArray(value)) return `[${this.#list(value, depth)}]`
    if (value instanceof Date) return reading(() => value.toISOString(), "Invalid Date")
    if (value instanceof Uint8Array) return `${value.constructor.name}(${value.length} bytes)`
    if (value instanceof Map || value instanceof Set) return this.#named(value, `[${this.#list(value, depth)}]`)
    const own: unknown = value.toString
    if (typeof own === "function" && own !== Object.prototype.toString) {
      return reading(() => textOrNone(value.toString()), "[toString threw]")
    }
    return this.#named(value, `{${this.#entries(value, depth)}}`)
  }

  #list(values: Iterable<unknown> & object, depth: number): string {
    const texts: Array<string> = []
    for (const part of values) {
      if (this.#left <= 0) {
        texts.push("…")
        break
      }
      texts.push(this.at(part, depth + 1))
      this.#left--
    }
    return texts.join(",")
  }

  #entries(value: object, depth: number): string {
    const texts: Array<string> = []
    for (const key of Reflect.ownKeys(value)) {
      if (this.#left-- <= 0) {
        texts.push("…")
        break
      }
      const name = typeof key === "string" ? JSON.stringify(key.slice(0, SHOWN_CHARACTERS)) : key.toString()
      const part = reading(() => this.at(Reflect.get(value, key), depth + 1), "[property access threw]")
      texts.push(`${name}:${part}`)
    }
    return texts.join(",")
  }

  #named(value: object, body: string): string {
    const name = reading(() => value.constructor === Object ? "" : value.constructor.name, "")
    return typeof name === "string" && name !== "" ? `${name}(${body})` : body
  }
}

const textOrNone = (text: unknown): string =>
  typeof text === "string" ? text.slice(0, SHOWN_CHARACTERS) : "[toString gave no text]"

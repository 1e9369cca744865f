/**
 * Stored values as they may be shown: plain data of bounded size, with what is redacted left out. Without a record of
 * their definition nobody knows what of them is redacted: then they are hidden, unless whoever looks asks for them.
 */
import * as Result from "effect/Result"
import { unpackValue } from "../data/codec.ts"
import { type Hidden, ofName } from "../data/hidden.ts"

/**
 * A stored value as a tool shows it. `bytes` is how long it is in the store.
 *
 * - `Shown`: `value` is what JSON can say, `"<redacted>"` in place of redacted parts; `isCut` where it was longer.
 * - `Hidden`: nothing in the tenant says what of it is redacted, or all of it is.
 * - `Unreadable`: it is damaged, or of a later version.
 * - `TooLarge`: nobody reads so much to look at it.
 *
 * @since 0.2.0
 * @category models
 */
export type Value =
  | { readonly _tag: "Shown"; readonly value: unknown; readonly isCut: boolean; readonly bytes: number }
  | { readonly _tag: "Hidden"; readonly reason: string; readonly bytes: number }
  | { readonly _tag: "Unreadable"; readonly problem: string; readonly bytes: number }
  | { readonly _tag: "TooLarge"; readonly bytes: number }

/** What stands in place of what is redacted. */
export const REDACTED = "<redacted>"

/** Why a value without a record is hidden. */
export const NO_RECORD = "no record of its definition says what is redacted: ask for values to see it"

/** So much of a value is shown: enough for whoever looks, and a page of them is no burden. */
const SHOWN_CHARS = 20_000

/** One text leaves room for what stands beside it. */
const TEXT_CHARS = 4_000

const DEPTH_LIMIT = 50

/** How values are shown. */
export interface Showing {
  /** What is redacted; `undefined` where nobody knows. */
  readonly hidden: Hidden | undefined
  /** Whether whoever looks wants values of which nobody knows that. */
  readonly values: boolean
}

/** Plain data as it may be shown. */
export const valueOf = (data: unknown, bytes: number, { hidden, values }: Showing): Value => {
  if (hidden === undefined && !values) return { _tag: "Hidden", reason: NO_RECORD, bytes }
  if (hidden === true) return { _tag: "Hidden", reason: "it is redacted", bytes }
  const cutting = new Cutting()
  const value = cutting.at(data, hidden ?? false, 0)
  return { _tag: "Shown", value, isCut: cutting.isCut, bytes }
}

/** The same of MessagePack. */
export const valueOfBytes = (bytes: Uint8Array, showing: Showing): Value =>
  Result.match(unpackValue(bytes), {
    onFailure: (problem): Value => ({ _tag: "Unreadable", problem, bytes: bytes.length }),
    onSuccess: (data) => valueOf(data, bytes.length, showing)
  })

/** One look at plain data: it has a bound. */
class Cutting {
  isCut = false
  #left = SHOWN_CHARS

  at(data: unknown, hidden: Hidden, depth: number): unknown {
    if (hidden === true) return this.#take(REDACTED)
    if (typeof data === "string") return this.#text(data)
    if (data instanceof Uint8Array) return this.#bytes(data)
    if (typeof data !== "object" || data === null) {
      this.#left -= 8
      // what JSON has no form for
      return typeof data === "number" && !Number.isFinite(data) ? String(data) : data ?? null
    }
    if (depth >= DEPTH_LIMIT || this.#left <= 0) return this.#cut("…")
    if (Array.isArray(data)) return this.#items(data, hidden, depth)
    return this.#entries(data, hidden, depth)
  }

  #take(text: string): string {
    this.#left -= text.length + 2
    return text
  }

  #cut(text: string): string {
    this.isCut = true
    return this.#take(text)
  }

  #text(text: string): string {
    const room = Math.min(TEXT_CHARS, Math.max(0, this.#left))
    if (text.length <= room) return this.#take(text)
    const some = text.slice(0, room).toWellFormed()
    return this.#cut(`${some}… (${text.length} characters)`)
  }

  #bytes(bytes: Uint8Array): string {
    const some = bytes.subarray(0, Math.min(TEXT_CHARS, Math.max(0, Math.floor(this.#left / 2))))
    const text = `0x${Buffer.from(some).toString("hex")}`
    return some.length === bytes.length ? this.#take(text) : this.#cut(`${text}… (${bytes.length} bytes)`)
  }

  #items(data: ReadonlyArray<unknown>, hidden: Hidden, depth: number): unknown {
    const inside = hidden === false ? false : hidden === true ? true : hidden.items
    // what is not of the form of its schema can be anything
    if (inside === null) return this.#take(REDACTED)
    const items: Array<unknown> = []
    for (const item of data) {
      if (this.#left <= 0) {
        items.push(this.#cut(`… (${data.length} items)`))
        break
      }
      this.#left -= 1
      items.push(this.at(item, inside, depth + 1))
    }
    return items
  }

  #entries(data: object, hidden: Hidden, depth: number): unknown {
    const inside = typeof hidden === "boolean" ? hidden : hidden.entries
    if (inside === null) return this.#take(REDACTED)
    const names = Object.keys(data)
    const entries: Array<readonly [string, unknown]> = []
    for (const name of names) {
      if (this.#left <= 0) {
        entries.push(["…", this.#cut(`${names.length} entries`)])
        break
      }
      const own = typeof inside === "boolean" ? inside : ofName(inside, name)
      entries.push([this.#text(name), this.at((data as Record<string, unknown>)[name], own, depth + 1)])
    }
    return Object.fromEntries(entries)
  }
}

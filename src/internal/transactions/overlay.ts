/**
 * The writes of one transaction before its commit, and what a read of them sees.
 *
 * Owner: one try of one transaction. Nothing here is shared.
 *
 * 1. `entries` holds the last thing done to a key; a key under a cleared range without an entry reads as missing.
 * 2. `sorted` holds the keys of `entries` in order, up to those in `unsorted`, which are merged before a range is read.
 * 3. `cleared` is sorted and disjoint, and ends up before all entries in the commit: `mutations()` clears first.
 */
import type { Mutation } from "../../Backend.ts"
import { addBytes } from "../data/counters.ts"
import { fromText, lowerBound } from "../data/keys.ts"

/** What a transaction did to a key, as the mutation of its commit. */
export type Entry = Extract<Mutation, { readonly op: "set" | "clear" | "add" | "versionstampedValue" }> & {
  /** The key as text, which a store of this process would have to make again. */
  readonly text: string
}

interface Cleared {
  readonly begin: string
  readonly end: string
}

/** What the writes since some moment replaced; ranges are cleared so rarely that one costs a copy of everything. */
export interface Mark {
  readonly before: Map<string, Entry | undefined>
  whole: { readonly entries: ReadonlyMap<string, Entry>; readonly cleared: Array<Cleared> } | undefined
}

/** The buffered writes of one try. */
export class Overlay {
  readonly entries = new Map<string, Entry>()
  #sorted: Array<string> = []
  #unsorted: Array<string> = []
  #cleared: Array<Cleared> = []
  #mark: Mark | undefined

  get isEmpty(): boolean {
    return this.entries.size === 0 && this.#cleared.length === 0
  }

  /** From here on, what is written can be taken back with `restore`. */
  mark(): Mark {
    return this.#mark = { before: new Map(), whole: undefined }
  }

  /** Takes back all that was written since a mark. */
  restore({ before, whole }: Mark): void {
    this.#mark = undefined
    if (whole !== undefined) {
      this.entries.clear()
      for (const [text, entry] of whole.entries) this.entries.set(text, entry)
      this.#cleared = whole.cleared
    }
    for (const [text, entry] of before) {
      if (entry === undefined) this.entries.delete(text)
      else this.entries.set(text, entry)
    }
    this.#sorted = []
    this.#unsorted = [...this.entries.keys()]
  }

  set(entry: Entry): void {
    const { text } = entry
    if (this.#mark !== undefined && !this.#mark.before.has(text)) this.#mark.before.set(text, this.entries.get(text))
    if (!this.entries.has(text)) this.#unsorted.push(text)
    this.entries.set(text, entry)
  }

  add(text: string, key: Uint8Array, operand: Uint8Array): void {
    const known = this.entries.get(text)
    if (known === undefined && !this.isCleared(text)) return this.set({ op: "add", key, operand, text })
    const value = known === undefined || known.op === "clear" ?
      undefined
      : known.op === "add" ?
      known.operand
      : known.value
    const sum = addBytes(value, operand)
    this.set(known?.op === "add" ? { op: "add", key, operand: sum, text } : { op: "set", key, value: sum, text })
  }

  clearRange(begin: string, end: string): void {
    if (begin >= end) return
    if (this.#mark !== undefined) this.#mark.whole ??= { entries: new Map(this.entries), cleared: this.#cleared }
    for (const key of this.keysBetween(begin, end)) this.entries.delete(key)
    const from = lowerBound(this.#sorted, begin)
    this.#sorted.splice(from, lowerBound(this.#sorted, end) - from)
    const kept: Array<Cleared> = []
    let merged: Cleared = { begin, end }
    for (const range of this.#cleared) {
      if (range.end < merged.begin || range.begin > merged.end) kept.push(range)
      else {
        merged = {
          begin: range.begin < merged.begin ? range.begin : merged.begin,
          end: range.end > merged.end ? range.end : merged.end
        }
      }
    }
    kept.push(merged)
    kept.sort((a, b) => (a.begin < b.begin ? -1 : 1))
    this.#cleared = kept
  }

  isCleared(key: string): boolean {
    for (const range of this.#cleared) {
      if (range.begin > key) return false
      if (key < range.end) return true
    }
    return false
  }

  /** The parts of a range that are not cleared, in order: what the store has to be asked for. */
  uncleared(begin: string, end: string): Array<Cleared> {
    const parts: Array<Cleared> = []
    let at = begin
    for (const range of this.#cleared) {
      if (range.end <= at) continue
      if (range.begin >= end) break
      if (range.begin > at) parts.push({ begin: at, end: range.begin })
      at = range.end
      if (at >= end) return parts
    }
    if (at < end) parts.push({ begin: at, end })
    return parts
  }

  /** The written keys of a range, in order. */
  keysBetween(begin: string, end: string): Array<string> {
    this.#merge()
    return this.#sorted.slice(lowerBound(this.#sorted, begin), lowerBound(this.#sorted, end))
  }

  mutations(): Array<Mutation> {
    const out: Array<Mutation> = this.#cleared.map((range) => ({
      op: "clearRange",
      begin: fromText(range.begin),
      end: fromText(range.end)
    }))
    for (const entry of this.entries.values()) out.push(entry)
    return out
  }

  #merge(): void {
    if (this.#unsorted.length === 0) return
    const fresh = this.#unsorted.sort()
    this.#unsorted = []
    const last = this.#sorted.at(-1)
    if (last === undefined || last < fresh[0]!) {
      for (const key of fresh) this.#sorted.push(key)
      return
    }
    const old = this.#sorted
    const out: Array<string> = []
    let i = 0
    let j = 0
    while (i < old.length || j < fresh.length) {
      if (j >= fresh.length || (i < old.length && old[i]! < fresh[j]!)) out.push(old[i++]!)
      else out.push(fresh[j++]!)
    }
    this.#sorted = out
  }
}

/**
 * What a file is known to hold, so that what is read again and again (the version of a state, a counter, the emptiness of
 * a queue) costs no query: values of single keys, and ranges that are empty.
 *
 * Owner: `store.ts`, which tells it of every read, of every look whether others changed the file, and of its own
 * commits.
 *
 * 1. All entries are of one state of the file: that of the last look that found no change by others, with this process's
 *    own commits since.
 * 2. What was read since that look is unconfirmed: it is used only after a look that found no change.
 * 3. Memory is bounded: few, short values, whatever the size of the file.
 */
import { alone } from "../data/keys.ts"
import { type Effects, holds, type Value } from "../stores/acceptedCommit.ts"
import { SortedMap } from "../stores/sortedMap.ts"

/** Two generations of these are kept: enough for the servers that are busy at one time; some megabytes at the most. */
const GENERATION_KEYS = 1_024

const RANGES_LIMIT = 1_024

/** Longer values, such as states, are kept decoded by those who use them. */
const VALUE_LIMIT_BYTES = 1_024

const KEY_LIMIT_BYTES = 512

const isShort = (key: string, value: Value): boolean =>
  key.length <= KEY_LIMIT_BYTES && (value?.length ?? 0) <= VALUE_LIMIT_BYTES

export class ReadCache {
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()
  /** The ends of ranges without keys by their begins; disjoint. */
  readonly #empty = new SortedMap<string>()
  #readKeys: Array<readonly [key: string, value: Value]> = []
  #readEmpty: Array<readonly [begin: string, end: string]> = []
  /** Whether something was read since the last look, also what is too long to be kept (2). */
  unconfirmed = false

  has(key: string): boolean {
    return this.#young.has(key) || this.#old.has(key)
  }

  /** The value of a key that `has` found. */
  get(key: string): Value {
    const value = this.#young.get(key)
    if (value !== undefined || this.#young.has(key)) return value
    const old = this.#old.get(key)
    this.#put(key, old)
    return old
  }

  isEmpty(begin: string, end: string): boolean {
    const range = this.#empty.floor(begin)
    return range !== undefined && end <= range[1]
  }

  /** A key was read from the file. */
  read(key: string, value: Value): void {
    this.unconfirmed = true
    if (isShort(key, value)) this.#readKeys.push([key, value])
  }

  /** A range was read from the file: `rows` of its keys were found. */
  readRange(begin: string, end: string, rows: number): void {
    this.unconfirmed = true
    if (rows === 0 && begin.length + end.length <= KEY_LIMIT_BYTES) this.#readEmpty.push([begin, end])
  }

  /** A look found no change: what was read since the last one is of the same state (1). */
  confirm(): void {
    if (!this.unconfirmed) return
    for (const [key, value] of this.#readKeys) this.#put(key, value)
    for (const [begin, end] of this.#readEmpty) this.#putEmpty(begin, end)
    this.#forgetRead()
  }

  /** This process committed: what it wrote is known, as it is often read again soon. */
  wrote({ clears, writes }: Effects): void {
    // an unconfirmed value may be older than the one that was written
    this.#forgetRead()
    for (const range of clears) {
      for (const values of [this.#young, this.#old]) {
        for (const key of values.keys()) if (holds(range, key)) values.delete(key)
      }
    }
    for (const [key, value] of writes) {
      if (!isShort(key, value)) {
        this.#young.delete(key)
        this.#old.delete(key)
        // most of what is cleared was read for the last time
      } else if (value !== undefined || this.has(key)) this.#put(key, value)
      if (value === undefined) continue
      const range = this.#empty.floor(key)
      if (range !== undefined && key < range[1]) this.#empty.delete(range[0])
    }
  }

  /** Others changed the file, or nobody knows. */
  clear(): void {
    this.#forgetRead()
    this.#young.clear()
    this.#old.clear()
    this.#empty.clear()
  }

  #forgetRead(): void {
    this.unconfirmed = false
    this.#readKeys = []
    this.#readEmpty = []
  }

  #put(key: string, value: Value): void {
    if (this.#young.size >= GENERATION_KEYS) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value === undefined ? undefined : alone(value))
  }

  #putEmpty(begin: string, end: string): void {
    if (this.#empty.size >= RANGES_LIMIT) this.#empty.clear()
    const [before] = this.#empty.range("", begin, 1, true)
    if (before !== undefined && before[1] > begin) this.#empty.delete(before[0])
    for (const [other] of this.#empty.range(begin, end)) this.#empty.delete(other)
    this.#empty.set(begin, end)
  }
}

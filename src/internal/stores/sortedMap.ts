/**
 * A map with its keys in order, in chunks, so that an insertion moves few keys however large the map is. Keys are
 * latin1 strings, which order like the bytes they stand for.
 */
import { lowerBound } from "../data/keys.ts"

/** Small enough to move quickly, large enough that a million keys have few chunks. */
const CHUNK_KEYS = 256

interface Chunk<V> {
  readonly keys: Array<string>
  readonly values: Array<V>
}

export class SortedMap<V> {
  #chunks: Array<Chunk<V>> = []
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: string): V | undefined {
    const chunk = this.#chunks[this.#chunkOf(key)]
    if (chunk === undefined) return undefined
    const at = lowerBound(chunk.keys, key)
    return chunk.keys[at] === key ? chunk.values[at] : undefined
  }

  set(key: string, value: V): void {
    if (this.#chunks.length === 0) this.#chunks.push({ keys: [], values: [] })
    const index = Math.min(this.#chunkOf(key), this.#chunks.length - 1)
    const chunk = this.#chunks[index]!
    const at = lowerBound(chunk.keys, key)
    if (chunk.keys[at] === key) {
      chunk.values[at] = value
      return
    }
    chunk.keys.splice(at, 0, key)
    chunk.values.splice(at, 0, value)
    this.#size++
    if (chunk.keys.length > CHUNK_KEYS) {
      // what is appended in order leaves full chunks behind
      const from = at === chunk.keys.length - 1 ? CHUNK_KEYS : CHUNK_KEYS >> 1
      this.#chunks.splice(index + 1, 0, { keys: chunk.keys.splice(from), values: chunk.values.splice(from) })
    }
  }

  /** The last entry whose key is not above a key. */
  floor(key: string): readonly [string, V] | undefined {
    const index = Math.min(this.#chunkOf(key), this.#chunks.length - 1)
    if (index < 0) return undefined
    const { keys, values } = this.#chunks[index]!
    const from = lowerBound(keys, key)
    if (keys[from] === key) return [key, values[from]!]
    if (from > 0) return [keys[from - 1]!, values[from - 1]!]
    const before = this.#chunks[index - 1]
    const last = before === undefined ? -1 : before.keys.length - 1
    return last < 0 ? undefined : [before!.keys[last]!, before!.values[last]!]
  }

  delete(key: string): void {
    const index = this.#chunkOf(key)
    const chunk = this.#chunks[index]
    if (chunk === undefined) return
    const at = lowerBound(chunk.keys, key)
    if (chunk.keys[at] !== key) return
    chunk.keys.splice(at, 1)
    chunk.values.splice(at, 1)
    this.#size--
    if (chunk.keys.length === 0) this.#chunks.splice(index, 1)
  }

  /** Takes out the keys from `begin` to `end`, whole chunks of them at a time. */
  deleteRange(begin: string, end: string): void {
    if (begin >= end) return
    const from = this.#chunkOf(begin)
    const kept: Array<Chunk<V>> = []
    let index = from
    for (; index < this.#chunks.length; index++) {
      const chunk = this.#chunks[index]!
      if (chunk.keys[0]! >= end) break
      const low = lowerBound(chunk.keys, begin)
      const high = lowerBound(chunk.keys, end)
      this.#size -= high - low
      if (high - low === chunk.keys.length) continue
      chunk.keys.splice(low, high - low)
      chunk.values.splice(low, high - low)
      kept.push(chunk)
    }
    // very many arguments of one call would not fit the stack
    this.#chunks = [...this.#chunks.slice(0, from), ...kept, ...this.#chunks.slice(index)]
  }

  clear(): void {
    this.#chunks = []
    this.#size = 0
  }

  /** All entries in order. The map must not change meanwhile. */
  *entries(): IterableIterator<readonly [string, V]> {
    for (const { keys, values } of this.#chunks) {
      for (let at = 0; at < keys.length; at++) yield [keys[at]!, values[at]!]
    }
  }

  /** The entries from `begin` (inclusive) to `end` (exclusive), at most `limit`, from the end with `reverse`. */
  range(begin: string, end: string, limit = Infinity, reverse = false): Array<readonly [string, V]> {
    const out: Array<readonly [string, V]> = []
    if (begin >= end || limit <= 0) return out
    if (reverse) {
      for (let index = Math.min(this.#chunkOf(end), this.#chunks.length - 1); index >= 0; index--) {
        const chunk = this.#chunks[index]!
        for (let at = lowerBound(chunk.keys, end) - 1; at >= 0; at--) {
          const key = chunk.keys[at]!
          if (key < begin || out.length >= limit) return out
          out.push([key, chunk.values[at]!])
        }
      }
      return out
    }
    for (let index = this.#chunkOf(begin); index < this.#chunks.length; index++) {
      const chunk = this.#chunks[index]!
      for (let at = lowerBound(chunk.keys, begin); at < chunk.keys.length; at++) {
        const key = chunk.keys[at]!
        if (key >= end || out.length >= limit) return out
        out.push([key, chunk.values[at]!])
      }
    }
    return out
  }

  /** The chunk where a key is or would go: the first whose last key is not below it. */
  #chunkOf(key: string): number {
    let low = 0
    let high = this.#chunks.length
    while (low < high) {
      const middle = (low + high) >> 1
      const keys = this.#chunks[middle]!.keys
      if (keys[keys.length - 1]! < key) low = middle + 1
      else high = middle
    }
    return low
  }
}

/**
 * The watches that commits armed, for a store whose changes pass through this process or are looked for.
 *
 * Owner: the store. Lists are copied before they are walked: who is told may arm the next watch at once.
 *
 * 1. An entry is removed before its watch fires, fails or is cancelled, so each is told at most once.
 * 2. What others changed costs a read for each watched key that may be among it, and nothing for the other watches.
 * 3. Many reads are done in slices of `SLICE_MILLIS`, between which the event loop goes round.
 */
import type { WatchRequest } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import { type Range, sameValue, type Value } from "./acceptedCommit.ts"
import type { Changes } from "./changes.ts"

/** So long the watches may keep everything else waiting; a read takes some microseconds. */
const SLICE_MILLIS = 5

/** So many keys are read at once, in the macrotask that found the change. */
const AT_ONCE_KEYS = 64

interface Entry {
  readonly key: string
  readonly request: WatchRequest
  readonly expected: Value
}

const NONE: ReadonlyArray<Entry> = []

export class Watches {
  /** The watches by the hashes of their keys. */
  readonly #entries = new Map<number, Array<Entry>>()
  #count = 0
  /** The keys that are to be read again, oldest demand first. */
  readonly #toRead = new Set<string>()
  #isReading = false
  readonly #read: (key: string) => Value
  readonly #some: (some: boolean) => void

  /** `read` gives the present value of a key; `some` is told when the first watch comes and when the last one goes. */
  constructor(read: (key: string) => Value, some: (some: boolean) => void) {
    this.#read = read
    this.#some = some
  }

  /** Arms a watch that fires as soon as the key's value is not `expected`. */
  arm(watch: WatchRequest, expected: Value): void {
    const key = Keys.toText(watch.key)
    const hash = Keys.hash(key)
    if (this.#count++ === 0) this.#some(true)
    const entry: Entry = { key, request: watch, expected }
    const entries = this.#entries.get(hash)
    if (entries === undefined) this.#entries.set(hash, [entry])
    else entries.push(entry)
    watch.isKept = true
    watch.onCancel = () => this.#remove(hash, entry)
    this.#recheck(key)
  }

  /** A key has a value now. */
  changed(key: string, value: Value): void {
    for (const entry of this.#of(key)) if (!sameValue(entry.expected, value)) fire(entry.request)
  }

  /** All keys of a range are gone, but those that were written again. */
  cleared(range: Range, writes: ReadonlyMap<string, Value>): void {
    for (const key of this.#within(range)) if (!writes.has(key)) this.changed(key, undefined)
  }

  /** Compares the watched keys that others may have changed. */
  recheck(changes: Changes): void {
    for (const hash of changes.hashes) for (const entry of this.#entries.get(hash) ?? NONE) this.#toRead.add(entry.key)
    for (const range of changes.ranges) for (const key of this.#within(range)) this.#toRead.add(key)
    this.#readSlice(AT_ONCE_KEYS)
  }

  /** Compares all watched keys. */
  recheckAll(): void {
    for (const entries of this.#entries.values()) for (const { key } of entries) this.#toRead.add(key)
    this.#readSlice(AT_ONCE_KEYS)
  }

  /** Ends all watches. */
  failAll(failure: BackendError): void {
    this.#toRead.clear()
    for (const entries of Array.from(this.#entries.values())) {
      for (const { request } of Array.from(entries)) {
        request.onCancel?.()
        request.fail(failure)
      }
    }
  }

  #of(key: string): ReadonlyArray<Entry> {
    if (this.#count === 0) return NONE
    return this.#entries.get(Keys.hash(key))?.filter((entry) => entry.key === key) ?? NONE
  }

  #within({ begin, end }: Range): ReadonlyArray<string> {
    const keys: Array<string> = []
    for (const entries of this.#entries.values()) {
      for (const { key } of entries) if (begin <= key && key < end) keys.push(key)
    }
    return keys
  }

  #remove(hash: number, entry: Entry): void {
    const entries = this.#entries.get(hash)
    const at = entries === undefined ? -1 : entries.indexOf(entry)
    if (entries === undefined || at < 0) return
    if (entries.length === 1) this.#entries.delete(hash)
    else entries.splice(at, 1)
    if (--this.#count === 0) this.#some(false)
  }

  /** Reads keys again, and leaves to later macrotasks what takes long (3). */
  #readSlice(keys: number): void {
    if (this.#toRead.size === 0) return
    const start = performance.now()
    let left = keys
    for (const key of this.#toRead) {
      if (left-- <= 0 || performance.now() - start > SLICE_MILLIS) break
      this.#toRead.delete(key)
      this.#recheck(key)
    }
    if (this.#toRead.size === 0 || this.#isReading) return
    this.#isReading = true
    setImmediate(() => {
      this.#isReading = false
      this.#readSlice(Infinity)
    })
  }

  #recheck(key: string): void {
    const entries = this.#of(key)
    if (entries.length === 0) return
    try {
      this.changed(key, this.#read(key))
    } catch {
      // who watches looks for himself, and meets the error
      for (const entry of entries) fire(entry.request)
    }
  }
}

/** Takes a watch out, and fires it. */
export const fire = (watch: WatchRequest): void => {
  watch.onCancel?.()
  watch.fire()
}

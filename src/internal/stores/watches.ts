/**
 * The watches that commits armed, for a store whose changes pass through this process or are looked for.
 *
 * Owner: the store. An entry is removed before its watch fires, fails or is cancelled, so each is told at most once.
 * Sets are copied before they are walked: who is told may arm the next watch at once.
 */
import type { WatchRequest } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import { sameValue, type Value } from "./acceptedCommit.ts"

interface Entry {
  readonly request: WatchRequest
  readonly expected: Value
}

export class Watches {
  readonly #entries = new Map<string, Set<Entry>>()
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
    if (this.#entries.size === 0) this.#some(true)
    const entry: Entry = { request: watch, expected }
    const entries = this.#entries.get(key) ?? new Set()
    this.#entries.set(key, entries.add(entry))
    watch.isKept = true
    watch.onCancel = () => {
      if (!entries.delete(entry) || entries.size > 0 || this.#entries.get(key) !== entries) return
      this.#entries.delete(key)
      if (this.#entries.size === 0) this.#some(false)
    }
    this.#recheck(key)
  }

  /** A key has a value now. */
  changed(key: string, value: Value): void {
    const entries = this.#entries.get(key)
    if (entries === undefined) return
    for (const entry of Array.from(entries)) if (!sameValue(entry.expected, value)) fire(entry.request)
  }

  /** Compares all watched keys. */
  recheckAll(): void {
    for (const key of Array.from(this.#entries.keys())) this.#recheck(key)
  }

  /** Ends all watches. */
  failAll(failure: BackendError): void {
    for (const entries of Array.from(this.#entries.values())) {
      for (const { request } of Array.from(entries)) {
        request.onCancel?.()
        request.fail(failure)
      }
    }
  }

  #recheck(key: string): void {
    try {
      this.changed(key, this.#read(key))
    } catch {
      // who watches looks for himself, and meets the error
      for (const entry of Array.from(this.#entries.get(key) ?? [])) fire(entry.request)
    }
  }
}

/** Takes a watch out, and fires it. */
export const fire = (watch: WatchRequest): void => {
  watch.onCancel?.()
  watch.fire()
}

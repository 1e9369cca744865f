/** The writes of one state: collected, and given to the transaction when all of them are known. */
import { KEY_LIMIT_BYTES, KEY_PREFIX_ALLOWANCE_BYTES, type KeyValue } from "../../Backend.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { type Path, Refused } from "../data/problem.ts"
import type { TransactionState } from "../transactions/state.ts"

/** The writes of one state, in their order. */
export class Writes {
  readonly #writes: Array<(state: TransactionState) => void> = []
  readonly #sets = new Map<string, { readonly key: Uint8Array; readonly value: Uint8Array }>()
  readonly #keyLimit: number

  /** Keys count from the tenant's prefix. */
  constructor(tenantPrefix: Uint8Array) {
    this.#keyLimit = KEY_LIMIT_BYTES - KEY_PREFIX_ALLOWANCE_BYTES + tenantPrefix.length
  }

  set(key: Uint8Array, value: Uint8Array, path: Path): void {
    if (key.length > this.#keyLimit) {
      throw new Refused(
        path,
        `its key has ${key.length} bytes, and at most ${this.#keyLimit} fit: shorten the names and ids above it, or ` +
          "keep it whole with StateCodec.term"
      )
    }
    this.#sets.set(Keys.toText(key), { key, value })
    this.#writes.push((state) => state.set(key, value))
  }

  clear(key: Uint8Array): void {
    this.#writes.push((state) => state.clear(key))
  }

  clearRange(begin: Uint8Array, end: Uint8Array): void {
    this.#writes.push((state) => state.clearRange(begin, end))
  }

  /** Replaces what lies there; what is the same is not written. Whether the difference fits: if not, nothing is written. */
  replace(state: TransactionState, rows: ReadonlyArray<KeyValue>, limitBytes: number): boolean {
    const gone: Array<Uint8Array> = []
    const left = new Map(this.#sets)
    for (const { key, value } of rows) {
      const text = Keys.toText(key)
      const next = left.get(text)
      if (next === undefined) gone.push(key)
      else if (Tuple.equalsBytes(next.value, value)) left.delete(text)
    }
    let bytes = gone.reduce((sum, key) => sum + 4 * key.length, 0)
    for (const { key, value } of left.values()) bytes += 3 * key.length + value.length
    if (bytes > limitBytes) return false
    for (const key of gone) state.clear(key)
    for (const { key, value } of left.values()) state.set(key, value)
    return true
  }

  apply(state: TransactionState): void {
    for (const write of this.#writes) write(state)
  }
}

/** All keys below a prefix. */
export const clearBelow = (writes: Writes, prefix: Uint8Array): void => {
  const { begin, end } = Tuple.range([], prefix)
  writes.clearRange(begin, end)
}

/** The writes of one state: collected, and given to the transaction when all of them are known. */
import { KEY_LIMIT_BYTES, KEY_PREFIX_ALLOWANCE_BYTES } from "../../Backend.ts"
import * as Tuple from "../../Tuple.ts"
import { type Path, Refused } from "../data/problem.ts"
import type { TransactionState } from "../transactions/state.ts"

/** The writes of one state, in their order. */
export class Writes {
  readonly #writes: Array<(state: TransactionState) => void> = []
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
    this.#writes.push((state) => state.set(key, value))
  }

  clear(key: Uint8Array): void {
    this.#writes.push((state) => state.clear(key))
  }

  clearRange(begin: Uint8Array, end: Uint8Array): void {
    this.#writes.push((state) => state.clearRange(begin, end))
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

/**
 * Deletes the rows of ranges that were cleared (see `rows.ts`), a few at a time, while the process does other things.
 *
 * Owner: `store.ts`, one a store. Every process that has the file open does this, so what a dead one left goes on; who finds
 * another one at work waits.
 *
 * 1. A pass computes for about `PASS_MILLIS`, whatever the rows are like, and is followed by a pause of at least as long.
 * 2. A pass that fails changed nothing. It is tried again later, for as long as the store is open.
 */
import type { SqliteFile } from "./file.ts"

/** Well below what anybody notices; the commit's sync comes on top. */
const PASS_MILLIS = 8

const ROWS_FIRST = 64
const ROWS_LIMIT = 10_000

/** So long a process leaves the work to the one that cleared, or that does it already. */
const OTHERS_MILLIS = 1_000

export class Sweeping {
  readonly #file: SqliteFile
  readonly #passed: () => void
  #timer: NodeJS.Timeout | undefined
  #rows = ROWS_FIRST
  #isStopped = false

  /** `passed` is called after each pass that committed. */
  constructor(file: SqliteFile, passed: () => void) {
    this.#file = file
    this.#passed = passed
  }

  /** There may be something to do: this process cleared a range itself, or another one did. */
  tend(isOwn: boolean): void {
    if (this.#isStopped || this.#timer !== undefined || !this.#file.hasCleared) return
    this.#in(isOwn ? 0 : OTHERS_MILLIS * (1 + Math.random()))
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #in(millis: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      const pauseMillis = this.#pass()
      if (this.#file.hasCleared) this.#in(pauseMillis)
    }, millis)
    // what is left is swept when the file is opened again
    this.#timer.unref()
  }

  /** One pass; gives the pause after it. */
  #pass(): number {
    const start = performance.now()
    try {
      this.#file.checkPresence(0)
      this.#file.execute("BEGIN IMMEDIATE")
      const version = this.#file.version()
      this.#file.sweep(this.#rows)
      this.#file.setVersion(version)
      const tookMillis = performance.now() - start
      const wanted = this.#rows * Math.min(2, Math.max(0.25, PASS_MILLIS / tookMillis))
      this.#rows = Math.min(ROWS_LIMIT, Math.max(1, Math.floor(wanted)))
      this.#file.execute("COMMIT")
      this.#passed()
      return performance.now() - start
    } catch {
      try {
        if (this.#file.inTransaction) this.#file.execute("ROLLBACK")
      } catch {
        // the store's next commit meets the error, and says so
      }
      return OTHERS_MILLIS * (1 + Math.random())
    }
  }
}

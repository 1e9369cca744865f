/**
 * How much of a long piece of work one transaction does: so many jobs, and so many bytes.
 */

import type { TransactionState } from "../../transactions/state.ts"

/** Jobs that one transaction renews, checks, settles, gives back or removes. */
export const PART_JOBS_LIMIT = 500

/** What it writes, in bytes: far from the limit of a transaction. */
export const PART_BYTES_LIMIT = 2_000_000

/** Jobs that it reads, those included that others of them wait for: it has five seconds. */
export const PART_READS_LIMIT = 2_000

/** Whether a transaction that does something to jobs one after another has done its share. */
export class Share {
  #reads = 0
  readonly #state: TransactionState

  constructor(state: TransactionState) {
    this.#state = state
  }

  /** Something was done to a job that waits, or waited, for so many. */
  did(parents: number): void {
    this.#reads += 1 + parents
  }

  get isDone(): boolean {
    return this.#reads >= PART_READS_LIMIT || this.#state.size > PART_BYTES_LIMIT
  }
}

/** What was made smaller is doubled after so many good parts: of those that are too large most are not tried. */
const GOOD_PARTS = 4

/** So many jobs the next part has: fewer after one that failed, more again while they succeed. */
export class PartLimit {
  jobs = PART_JOBS_LIMIT
  /** Parts that succeeded since one failed. */
  #good = 0

  succeeded(): void {
    this.#good++
    if (this.#good % GOOD_PARTS === 0) this.jobs = Math.min(PART_JOBS_LIMIT, this.jobs * 2)
  }

  /** One with so many jobs failed. */
  failed(jobs: number): void {
    this.#good = 0
    this.jobs = Math.max(1, Math.floor(jobs / 2))
  }

  /** Nothing is left of what failed. */
  reset(): void {
    this.jobs = PART_JOBS_LIMIT
  }
}

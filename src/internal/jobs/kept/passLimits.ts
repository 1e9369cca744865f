/**
 * How much of a long piece of work one transaction does: so many jobs, and so many bytes.
 */

/** Jobs that one transaction renews, checks, settles, gives back or removes. */
export const PART_JOBS_LIMIT = 500

/** What it writes, in bytes: far from the limit of a transaction. */
export const PART_BYTES_LIMIT = 2_000_000

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

/**
 * The commits that a running transaction may conflict with: which keys and ranges they wrote. Owner: the store.
 */
import type { CommitRequest, KeyRange } from "../../Backend.ts"
import * as Keys from "../data/keys.ts"
import type { Range, Value } from "./acceptedCommit.ts"

/** One accepted commit. */
export interface LoggedCommit {
  readonly version: number
  /** All keys that it changed. */
  readonly keys: ReadonlyArray<string>
  /** The ranges that it cleared, whatever was in them. */
  readonly ranges: ReadonlyArray<Range>
}

/** A range as text. */
export const toRange = (range: KeyRange): Range =>
  range instanceof Keys.Single
    ? { begin: range.text, end: `${range.text}\0` }
    : { begin: Keys.toText(range.begin), end: Keys.toText(range.end) }

export class CommitLog {
  readonly #commits: Array<LoggedCommit> = []
  /** The newest commit that wrote a key. */
  readonly #written = new Map<string, number>()

  get size(): number {
    return this.#commits.length
  }

  add(version: number, request: CommitRequest, writes: ReadonlyMap<string, Value>): void {
    const keys = [...writes.keys()]
    const ranges: Array<Range> = []
    for (const mutation of request.mutations) if (mutation.op === "clearRange") ranges.push(toRange(mutation))
    for (const key of keys) this.#written.set(key, version)
    this.#commits.push({ version, keys, ranges })
  }

  /** Whether a commit after `version` wrote into one of the ranges. */
  conflicts(reads: ReadonlyArray<Range>, version: number): boolean {
    if (reads.length === 0 || this.#commits.length === 0) return false
    if (reads.some((read) => (this.#written.get(read.begin) ?? version) > version && read.begin < read.end)) return true
    const wide = reads.filter((read) => read.end > `${read.begin}\0`)
    for (let i = this.#commits.length - 1; i >= 0; i--) {
      const commit = this.#commits[i]!
      if (commit.version <= version) return false
      if (commit.ranges.some((written) => reads.some((read) => overlap(read, written)))) return true
      if (commit.keys.some((key) => wide.some((read) => read.begin <= key && key < read.end))) return true
    }
    return false
  }

  clear(): void {
    if (this.#commits.length === 0) return
    this.#commits.length = 0
    this.#written.clear()
  }

  /** Takes out the commits up to a version. */
  forget(version: number): ReadonlyArray<LoggedCommit> {
    let count = 0
    while (count < this.#commits.length && this.#commits[count]!.version <= version) count++
    if (count === 0) return []
    const gone = this.#commits.splice(0, count)
    for (const commit of gone) {
      for (const key of commit.keys) if (this.#written.get(key) === commit.version) this.#written.delete(key)
    }
    return gone
  }
}

const overlap = (a: Range, b: Range): boolean => a.begin < b.end && b.begin < a.end

/**
 * What a store's keys hold at a version: the base knows only the present, and this knows what it was, and what it will be.
 *
 * Owner: the store (`optimisticStore.ts`), which says when commits are accepted, durable or dropped. `#pending` and `#clears`
 * are what was accepted since the base was written last, `#older` and `#olderClears` what durable commits replaced.
 *
 * 1. Reads at the newest version see all that was accepted; reads at an older one see the values of that time, for as long
 *    as they are kept.
 * 2. A range of very many keys is cleared as a range: nothing is read or kept for its rows. A read of an older version in
 *    such a range, once it is durable, fails as too old: what was there is not kept for it.
 * 3. Nothing is kept for longer than the oldest running transaction needs it.
 */
import { BackendError, TransactionTooOld } from "../../BackendError.ts"
import { type Effects, holds, type Range, type Row, type Value, without } from "./acceptedCommit.ts"
import { type Changes, changesOf } from "./changes.ts"
import type { LoggedCommit } from "./commitLog.ts"
import { SortedMap } from "./sortedMap.ts"

/** Reads of the present. */
export interface Present {
  readonly get: (key: string) => Value
  readonly range: (begin: string, end: string, limit: number, reverse: boolean) => ReadonlyArray<Row>
}

/** A value that a durable commit replaced: what transactions with a snapshot before `until` read. */
interface Older {
  readonly until: number
  readonly value: Value
}

/** What an accepted commit made of a key, and what the one before it did, if that is pending, too. */
interface Change {
  readonly version: number
  readonly value: Value
  readonly before: Change | undefined
}

/** A range that an accepted commit cleared whole. */
interface Clear extends Range {
  readonly version: number
}

/** What a transaction meets whose snapshot cannot be read any more. */
export const tooOld = (why: string): BackendError =>
  new BackendError({ reason: new TransactionTooOld({ message: `the transaction ${why}: run it again` }) })

const CLEARED = "reads in a range that was cleared after its beginning"

export class History {
  readonly #present: Present
  /** The newest change of each key. */
  readonly #pending = new SortedMap<Change>()
  /** The ranges that pending commits cleared, oldest first. */
  #clears: Array<Clear> = []
  readonly #older = new SortedMap<Array<Older>>()
  /** Those of durable commits: what was in them is gone for transactions with an older snapshot (2). */
  #olderClears: Array<Clear> = []
  /** The version up to which the base holds everything. */
  applied: number

  constructor(present: Present, version: number) {
    this.#present = present
    this.applied = version
  }

  /** How many old values and ranges are kept. */
  get kept(): number {
    return this.#older.size + this.#olderClears.length
  }

  /** Whether the base holds all that was accepted. */
  get isApplied(): boolean {
    return this.#pending.size === 0 && this.#clears.length === 0
  }

  get(key: string, version: number): Value {
    if (version < this.applied) {
      if (this.#olderClears.some((clear) => version < clear.version && holds(clear, key))) throw tooOld(CLEARED)
      const older = this.#older.get(key)?.find((entry) => version < entry.until)
      return older === undefined ? this.#present.get(key) : older.value
    }
    let change = this.#pending.get(key)
    while (change !== undefined && change.version > version) change = change.before
    if (this.#clears.length > 0) {
      const clear = this.#clears.findLast((range) => range.version <= version && holds(range, key))
      // of one commit, clears come before changes
      if (clear !== undefined && (change === undefined || change.version < clear.version)) return undefined
    }
    return change === undefined ? this.#present.get(key) : change.value
  }

  range(begin: string, end: string, limit: number, reverse: boolean, version: number): ReadonlyArray<Row> {
    const isOld = version < this.applied
    if (isOld && this.#olderClears.some((clear) => version < clear.version && clear.begin < end && begin < clear.end)) {
      throw tooOld(CLEARED)
    }
    const changed: ReadonlyArray<readonly [string, unknown]> = isOld
      ? this.#older.range(begin, end)
      : this.#pending.range(begin, end)
    const clears = isOld ? [] : this.#clears.filter((clear) => clear.version <= version)
    if (changed.length === 0 && clears.length === 0) return this.#present.range(begin, end, limit, reverse)
    // every changed key can hide one row of the base at the most
    const wanted = limit + changed.length
    const found = this.#presentRange(without({ begin, end }, clears), wanted, reverse)
    const last = found.length >= wanted ? found[found.length - 1]![0] : undefined
    const rows = new Map(found)
    for (const [key] of changed) {
      if (last !== undefined && (reverse ? key < last : key > last)) continue
      const value = this.get(key, version)
      if (value === undefined) rows.delete(key)
      else rows.set(key, value)
    }
    const out = [...rows].sort((a, b) => (a[0] < b[0] ? -1 : 1))
    if (reverse) out.reverse()
    return out.length > limit ? out.slice(0, limit) : out
  }

  #presentRange(parts: ReadonlyArray<Range>, wanted: number, reverse: boolean): ReadonlyArray<Row> {
    if (parts.length === 1) return this.#present.range(parts[0]!.begin, parts[0]!.end, wanted, reverse)
    const found: Array<Row> = []
    for (const { begin, end } of reverse ? parts.toReversed() : parts) {
      if (found.length >= wanted) break
      for (const row of this.#present.range(begin, end, wanted - found.length, reverse)) found.push(row)
    }
    return found
  }

  /** A commit was accepted: later versions read what it wrote. */
  accept(version: number, { clears, writes }: Effects): void {
    for (const clear of clears) this.#clears.push({ ...clear, version })
    for (const [key, value] of writes) this.#pending.set(key, { version, value, before: this.#pending.get(key) })
  }

  /** What is pending goes into the base now: keeps what it replaces, for transactions since `oldest`. */
  keepOlder(oldest: number): void {
    for (const clear of this.#clears) if (clear.version > oldest) this.#olderClears.push(clear)
    for (const [key, newest] of this.#pending.entries()) {
      const replaced: Array<Older> = []
      for (
        let change: Change | undefined = newest;
        change !== undefined && change.version > oldest;
        change = change.before
      ) {
        const value = this.#clears.length > 0
          ? this.get(key, change.version - 1)
          : change.before === undefined
          ? this.#present.get(key)
          : change.before.value
        replaced.push({ until: change.version, value })
      }
      if (replaced.length === 0) continue
      const older = this.#older.get(key)
      if (older === undefined) this.#older.set(key, replaced.reverse())
      else for (const entry of replaced.reverse()) older.push(entry)
    }
  }

  /** The base holds all that was accepted, up to a version. */
  apply(version: number): void {
    this.#pending.clear()
    this.#clears = []
    this.applied = version
  }

  /** What was accepted is gone. Gives what that changes. */
  drop(): Changes {
    const dropped = new Map(Array.from(this.#pending.entries(), ([key]) => [key, undefined] as const))
    const cleared = this.#clears
    this.#pending.clear()
    this.#clears = []
    return changesOf(dropped, cleared)
  }

  /** Nobody reads at an older version. */
  forgetAll(): void {
    this.#older.clear()
    this.#olderClears = []
  }

  /** Nobody reads before a version; `commits` are those up to it. */
  forget(version: number, commits: ReadonlyArray<LoggedCommit>): void {
    if (this.#olderClears.length > 0) this.#olderClears = this.#olderClears.filter((clear) => clear.version > version)
    for (const commit of commits) {
      for (const key of commit.keys) {
        const older = this.#older.get(key)
        if (older === undefined) continue
        const kept = older.filter((entry) => entry.until > version)
        if (kept.length === 0) this.#older.delete(key)
        else if (kept.length < older.length) this.#older.set(key, kept)
      }
    }
  }
}

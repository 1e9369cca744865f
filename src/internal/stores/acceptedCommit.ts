/**
 * What a commit writes, once it is accepted, and whether what it read still holds: pure functions that
 * `optimisticStore.ts` and `sqlite/file.ts` share. Keys are text here, see `data/keys.ts`.
 */
import type { CommitRequest } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import { equalsBytes } from "../../Tuple.ts"
import { addBytes } from "../data/counters.ts"
import * as Keys from "../data/keys.ts"

/** A value, or `undefined` for none. */
export type Value = Uint8Array | undefined

/** A key and its value. */
export type Row = readonly [key: string, value: Uint8Array]

/** The keys from `begin` to `end`. */
export interface Range {
  readonly begin: string
  readonly end: string
}

/** What a transaction saw of a range: all rows of it. */
export interface Seen extends Range {
  readonly rows: ReadonlyArray<Row>
}

/** A commit that was accepted and is not yet durable. */
export interface Accepted {
  /** Provisional until it is durable: commits of another process may have come between. */
  version: number
  readonly request: CommitRequest
  /** Provisional like the version. */
  readonly writes: ReadonlyMap<string, Value>
  /** Ranges that it cleared before these writes, of so many keys that they are not named. */
  readonly clears: ReadonlyArray<Range>
  /** What must still hold when other processes wrote meanwhile. */
  readonly reads: ReadonlyArray<Range>
  readonly seen: ReadonlyArray<Seen>
  readonly isReadOnly: boolean
  readonly done: (error: BackendError | undefined) => void
}

/** The ten bytes of a version. */
export const stampOf = (version: number): Uint8Array => {
  const stamp = new Uint8Array(10)
  Keys.writeUint32(stamp, 0, Math.floor(version / 2 ** 32))
  Keys.writeUint32(stamp, 4, version)
  return stamp
}

/** Whether two values are the same bytes, or both none. */
export const sameValue = (a: Value, b: Value): boolean =>
  a === b || (a !== undefined && b !== undefined && equalsBytes(a, b))

/** The key of a mutation as text; those of our own transactions bring it with them. */
const textOf = (mutation: { readonly key: Uint8Array; readonly text?: string }): string =>
  mutation.text ?? Keys.toText(mutation.key)

/** A cleared range with more keys is cleared as a range: its rows are not read, and nothing is kept for each of them. */
export const CLEAR_LIMIT_KEYS = 128

/** What a commit comes to: ranges that are cleared whole, and then the final values of keys. */
export interface Effects {
  readonly writes: Map<string, Value>
  readonly clears: ReadonlyArray<Range>
}

/** Whether a range holds a key. */
export const holds = (range: Range, key: string): boolean => range.begin <= key && key < range.end

/** The effects of a commit, given reads of what lies below it. */
export const resolve = (
  request: CommitRequest,
  version: number,
  get: (key: string) => Value,
  rowsBetween: (begin: string, end: string, limit: number) => ReadonlyArray<Row>
): Effects => {
  const writes = new Map<string, Value>()
  const clears: Array<Range> = []
  const current = (key: string) =>
    writes.has(key) ? writes.get(key) : clears.some((range) => holds(range, key)) ? undefined : get(key)
  const stamped = (bytes: Uint8Array, position: number) => {
    const out = bytes.slice()
    out.set(stampOf(version), position)
    return out
  }
  const clearRange = (range: Range) => {
    for (const key of writes.keys()) if (holds(range, key)) writes.set(key, undefined)
    const rows = rowsBetween(range.begin, range.end, CLEAR_LIMIT_KEYS + 1)
    if (rows.length > CLEAR_LIMIT_KEYS) clears.push(range)
    else for (const [key] of rows) writes.set(key, undefined)
  }
  for (const mutation of request.mutations) {
    switch (mutation.op) {
      case "set":
        writes.set(textOf(mutation), mutation.value)
        break
      case "clear":
        writes.set(textOf(mutation), undefined)
        break
      case "clearRange":
        clearRange({ begin: Keys.toText(mutation.begin), end: Keys.toText(mutation.end) })
        break
      case "add": {
        const key = textOf(mutation)
        writes.set(key, addBytes(current(key), mutation.operand))
        break
      }
      case "versionstampedKey":
        writes.set(Keys.toText(stamped(mutation.key, mutation.position)), mutation.value)
        break
      case "versionstampedValue":
        writes.set(textOf(mutation), stamped(mutation.value, mutation.position))
        break
    }
  }
  return { writes, clears }
}

/** The effects of commits, one after another, as those of one. */
export const together = (commits: ReadonlyArray<Effects | Pick<Accepted, "writes" | "clears">>): Effects => {
  const writes = new Map<string, Value>()
  const clears: Array<Range> = []
  for (const commit of commits) {
    for (const range of commit.clears) {
      clears.push(range)
      for (const key of writes.keys()) if (holds(range, key)) writes.delete(key)
    }
    for (const [key, value] of commit.writes) writes.set(key, value)
  }
  return { writes, clears }
}

/** The parts of a range that none of the others holds, in order. */
export const without = (range: Range, others: ReadonlyArray<Range>): ReadonlyArray<Range> => {
  let parts: Array<Range> = [range]
  for (const other of others) {
    parts = parts.flatMap((part) => {
      if (other.end <= part.begin || part.end <= other.begin) return [part]
      const left = { begin: part.begin, end: other.begin }
      const right = { begin: other.end, end: part.end }
      return [left, right].filter(({ begin, end }) => begin < end)
    })
  }
  return parts
}

/** How far a read with a limit saw. */
export const reached = (
  range: Range,
  rows: ReadonlyArray<Row>,
  limit: number,
  reverse: boolean
): Range => {
  if (rows.length === 0 || rows.length < limit) return range
  const last = rows[rows.length - 1]![0]
  return reverse ? { begin: last, end: range.end } : { begin: range.begin, end: `${last}\0` }
}

/**
 * Whether all that a commit must rely on is in the store as the transaction saw it. A range that it relies on and did
 * not read entirely does not hold: nobody knows what was there.
 */
export const stillHolds = (
  commit: Pick<Accepted, "reads" | "seen">,
  rowsBetween: (begin: string, end: string) => ReadonlyArray<Row>
): boolean => {
  if (commit.reads.length === 0) return true
  const seen = [...commit.seen].sort((a, b) => a.begin < b.begin ? -1 : a.begin > b.begin ? 1 : 0)
  return commit.reads.every((read) => {
    const rows = rowsSeen(read, seen)
    if (rows === undefined) return false
    const now = rowsBetween(read.begin, read.end)
    return now.length === rows.size && now.every(([key, value]) => sameValue(rows.get(key), value))
  })
}

/** What was seen of a range, or `undefined` when a part of it was not. */
const rowsSeen = (read: Range, seen: ReadonlyArray<Seen>): ReadonlyMap<string, Uint8Array> | undefined => {
  const rows = new Map<string, Uint8Array>()
  let covered = read.begin
  for (const part of seen) {
    if (part.begin > covered || covered >= read.end) break
    if (part.end <= read.begin) continue
    for (const [key, value] of part.rows) if (read.begin <= key && key < read.end) rows.set(key, value)
    if (part.end > covered) covered = part.end
  }
  return covered >= read.end ? rows : undefined
}

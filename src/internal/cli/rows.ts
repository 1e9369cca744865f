/**
 * All rows of a tenant in order, in parts that fit a transaction each, and a checksum of them.
 *
 * 1. What processes keep for themselves (slots, bells, answers under way) and the record of a copy are left out: they
 *    mean nothing in another store.
 * 2. Each part is read in a transaction of its own: the rows are of one state only while nobody writes.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { createHash } from "node:crypto"
import type { Backend, DriverTransaction, KeyRange, KeyValue } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { copyKey, processesPrefix } from "../tenant/layout.ts"

/** What a part should hold: a tenth of a transaction. */
const PART_BYTES = 1_000_000

const FIRST_PART_ROWS = 100
const PART_ROWS_LIMIT = 10_000

/** A cluster that fails over is waited for: about two minutes. */
const RETRIES = 250

const BACKOFF = Schedule.min([Schedule.exponential("5 millis"), Schedule.spaced("500 millis")])

/** A transaction of a driver that is run again for as long as that helps. What it does twice must be as good as once. */
export const inTransaction = <A>(
  backend: Backend["Service"],
  use: (driver: DriverTransaction) => Effect.Effect<A, BackendError>
): Effect.Effect<A, BackendError> =>
  Effect.retry(
    Effect.acquireUseRelease(backend.begin, use, (driver) => Effect.sync(() => driver.close())),
    { schedule: BACKOFF, times: RETRIES, while: (error) => error.isRetryable || error.isMaybeCommitted }
  )

/** The ranges of a tenant that are its contents, in order (1). */
const contents = (prefix: Uint8Array): ReadonlyArray<KeyRange> => {
  const record = copyKey(prefix)
  const processes = processesPrefix(prefix)
  return [
    { begin: prefix, end: record },
    { begin: Keys.next(record), end: processes },
    { begin: Tuple.strinc(processes), end: Tuple.strinc(prefix) }
  ]
}

/** Whether a tenant holds nothing but what (1) leaves out. */
export const isEmpty = (backend: Backend["Service"], prefix: Uint8Array): Effect.Effect<boolean, BackendError> =>
  inTransaction(backend, (driver) =>
    Effect.map(
      Effect.forEach(contents(prefix), ({ begin, end }) => driver.getRange(begin, end, { limit: 1, reverse: false })),
      (found) => found.every((rows) => rows.length === 0)
    ))

const bytesOf = (rows: ReadonlyArray<KeyValue>): number =>
  rows.reduce((sum, row) => sum + row.key.length + row.value.length, 0)

/** The first rows up to a part's size, at least one. */
const cut = (rows: ReadonlyArray<KeyValue>): ReadonlyArray<KeyValue> => {
  let bytes = 0
  const at = rows.findIndex((row) => (bytes += row.key.length + row.value.length) > PART_BYTES)
  return at === -1 ? rows : rows.slice(0, Math.max(1, at))
}

/** Gives all rows behind `after`, a key without the prefix, to `use`, part by part; their keys have no prefix. */
export const forEachPart = <E>(
  backend: Backend["Service"],
  prefix: Uint8Array,
  after: Uint8Array | undefined,
  use: (rows: ReadonlyArray<KeyValue>) => Effect.Effect<void, E>
): Effect.Effect<void, E | BackendError> =>
  Effect.gen(function*() {
    let limit = FIRST_PART_ROWS
    const start = after === undefined ? undefined : Keys.next(Keys.concat(prefix, after))
    for (const range of contents(prefix)) {
      if (start !== undefined && Tuple.compareBytes(start, range.end) >= 0) continue
      let begin = start !== undefined && Tuple.compareBytes(start, range.begin) > 0 ? start : range.begin
      for (;;) {
        const from = begin
        const wanted = limit
        const found = yield* inTransaction(
          backend,
          (driver) => driver.getRange(from, range.end, { limit: wanted, reverse: false })
        )
        const rows = cut(found)
        if (rows.length === 0) break
        yield* use(rows.map((row) => ({ key: row.key.subarray(prefix.length), value: row.value })))
        if (rows.length === found.length && found.length < wanted) break
        begin = Keys.next(rows[rows.length - 1]!.key)
        const fitting = Math.floor(PART_BYTES / (bytesOf(found) / found.length))
        limit = Math.max(1, Math.min(PART_ROWS_LIMIT, limit * 4, fitting))
      }
    }
  })

/** How many rows and bytes, and the checksum of them in their order. */
export interface Sum {
  readonly rows: number
  readonly bytes: number
  readonly checksum: string
}

const length = (value: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value.length)
  return bytes
}

/** Reads all rows of a tenant; `progress` is told after each part. */
export const sum = (
  backend: Backend["Service"],
  prefix: Uint8Array,
  progress: (rows: number, bytes: number) => Effect.Effect<void>
): Effect.Effect<Sum, BackendError> =>
  Effect.suspend(() => {
    const hash = createHash("sha256")
    let rows = 0
    let bytes = 0
    const all = forEachPart(backend, prefix, undefined, (part) => {
      for (const row of part) {
        // lengths, so that no two different sequences of rows look alike
        hash.update(length(row.key)).update(row.key).update(length(row.value)).update(row.value)
      }
      rows += part.length
      bytes += bytesOf(part)
      return progress(rows, bytes)
    })
    return Effect.map(all, (): Sum => ({ rows, bytes, checksum: hash.digest("hex") }))
  })

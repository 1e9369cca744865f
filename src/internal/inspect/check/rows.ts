/** Rows of a prefix, read within one transaction as far as its five seconds and a process's memory go. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { KeyValue } from "../../../Backend.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import type { TransactionState } from "../../transactions/state.ts"

/** Rows of one read. */
const READ_ROWS = 1_000

/** So much is looked at as a whole. */
const ROWS_LIMIT = 50_000
const BYTES_LIMIT = 50_000_000

/** A row by what its key says behind the prefix; `undefined` for a key that is no tuple. */
export interface Row extends KeyValue {
  readonly elements: Tuple.Tuple | undefined
}

/** All rows that begin with a prefix; `undefined` where there are too many. */
export const rowsOf = Effect.fnUntraced(function*(
  state: TransactionState,
  prefix: Uint8Array
): Effect.fn.Return<ReadonlyArray<Row> | undefined> {
  const end = Tuple.strinc(prefix)
  const rows: Array<Row> = []
  let bytes = 0
  for (let at = prefix;;) {
    const found = yield* state.getRange(at, end, { limit: READ_ROWS, snapshot: true })
    for (const row of found) {
      bytes += row.key.length + row.value.length
      rows.push({ ...row, elements: Result.getOrUndefined(Tuple.unpackResult(row.key, prefix.length)) })
    }
    if (found.length < READ_ROWS) return rows
    if (rows.length > ROWS_LIMIT || bytes > BYTES_LIMIT) return undefined
    at = Keys.next(found.at(-1)!.key)
  }
})

/** Rows by the first element of their keys. */
export const byKind = (rows: ReadonlyArray<Row>): Map<unknown, Array<Row>> => {
  const kinds = new Map<unknown, Array<Row>>()
  for (const row of rows) {
    const kind = row.elements?.[0]
    const some = kinds.get(kind)
    if (some === undefined) kinds.set(kind, [row])
    else some.push(row)
  }
  return kinds
}

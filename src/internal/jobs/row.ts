/**
 * The row of a job: everything about it that a later operation of the same transaction must read, so it holds no
 * versionstamp (rule R4). Data lies in the row where it is short, in pieces beside it where it is long; then a change
 * that leaves the data alone does not write it again.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../Tuple.ts"
import { packValue, unpackValue } from "../codec.ts"
import * as Keys from "../keys.ts"
import type { TransactionState } from "../transactionState.ts"
import { type JobKeys, type State, STATES } from "./layout.ts"

/** Rows of another format are refused, not guessed at. */
const FORMAT = 1

/** Data up to here lies in the row: the rest of the row needs room below a value's limit, its last error above all. */
const INLINE_LIMIT_BYTES = 60_000

/** A piece of long data: below a value's limit. */
const PIECE_BYTES = 90_000

/** The last error of a job is kept so far: enough for a stack. */
const ERROR_LIMIT_CHARACTERS = 4_000

/** Data of this run, and of the next one if a running job was resubmitted with other data; both packed. */
export interface Body {
  readonly dataBytes: number
  /** -1 when there is no data for the next run. */
  readonly nextBytes: number
  /** The one behind the other; `undefined` when they lie in pieces and were not read. */
  readonly bytes: Uint8Array | undefined
}

/** What a running job's creator asked for: another run after this one. */
export interface Resubmit {
  readonly scheduledAt: number | undefined
}

export interface Row {
  readonly state: State
  /** Who holds the job: the fencing token. */
  readonly lock: Uint8Array | undefined
  readonly priority: number
  readonly scheduledAt: number
  /** The job waits for a place of its key, outside the pending queue. */
  readonly isParked: boolean
  readonly resubmit: Resubmit | undefined
  /** Runs that began since the job was added, resubmitted or requeued, but for those handed back. */
  readonly attempts: number
  /** What the limit of jobs that run together counts by. */
  readonly key: Tuple.Element | undefined
  readonly addedAt: number
  readonly endedAt: number
  /** Grows with each change of state or data. */
  readonly revision: number
  readonly error: string
  readonly body: Body
}

/** The body of new data. */
export const bodyOf = (data: Uint8Array, next?: Uint8Array): Body => ({
  dataBytes: data.length,
  nextBytes: next === undefined ? -1 : next.length,
  bytes: next === undefined ? data : Keys.concat(data, next)
})

const isInline = (body: Body): boolean => body.dataBytes + Math.max(0, body.nextBytes) <= INLINE_LIMIT_BYTES

const encode = (row: Row): Uint8Array =>
  packValue([
    FORMAT,
    STATES.indexOf(row.state),
    row.lock ?? null,
    row.priority,
    row.scheduledAt,
    row.isParked,
    row.resubmit === undefined ? null : [row.resubmit.scheduledAt ?? null],
    row.attempts,
    row.key === undefined ? null : Tuple.pack([row.key]),
    row.addedAt,
    row.endedAt,
    row.revision,
    row.error.slice(0, ERROR_LIMIT_CHARACTERS),
    row.body.dataBytes,
    row.body.nextBytes,
    isInline(row.body) ? row.body.bytes : null
  ])

/** A row that cannot be read is a fault of the store, or of a newer version of this library: a defect says so. */
export const decode = (bytes: Uint8Array): Row => {
  const unpacked = unpackValue(bytes)
  const fields = Result.isSuccess(unpacked) ? unpacked.success : undefined
  if (!Array.isArray(fields) || fields[0] !== FORMAT) {
    throw new Error("a job's row is not of this version's format: use the version of effect-dgen that wrote it")
  }
  const state = STATES[fields[1] as number]
  if (state === undefined) throw new Error("a job's row names no state that this version knows")
  return {
    state,
    lock: fields[2] ?? undefined,
    priority: fields[3],
    scheduledAt: fields[4],
    isParked: fields[5],
    resubmit: fields[6] === null ? undefined : { scheduledAt: fields[6][0] ?? undefined },
    attempts: fields[7],
    key: fields[8] === null ? undefined : Tuple.unpack(fields[8])[0],
    addedAt: fields[9],
    endedAt: fields[10],
    revision: fields[11],
    error: fields[12],
    body: { dataBytes: fields[13], nextBytes: fields[14], bytes: fields[15] ?? undefined }
  }
}

/** Writes a row, and its data where that changed; clears both without a row. */
export const writeRow = (
  state: TransactionState,
  keys: JobKeys,
  id: Tuple.Element,
  before: Row | undefined,
  after: Row | undefined
): void => {
  if (before !== undefined && before.body !== after?.body && !isInline(before.body)) {
    const { begin, end } = keys.piecesOf(id)
    state.clearRange(begin, end)
  }
  if (after === undefined) return state.clear(keys.job(id))
  state.set(keys.job(id), encode(after))
  if (before?.body === after.body || isInline(after.body)) return
  const bytes = after.body.bytes!
  for (let i = 0; i * PIECE_BYTES < bytes.length; i++) {
    state.set(keys.piece(id, i), bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
  }
}

/** The packed data of a job, and that of its next run if there is some. */
export interface Data {
  readonly data: Uint8Array
  readonly next: Uint8Array | undefined
}

/** Reads the data of a row that this transaction has read. */
export const readData = (
  state: TransactionState,
  keys: JobKeys,
  id: Tuple.Element,
  row: Row
): Effect.Effect<Data> => {
  const { bytes, dataBytes, nextBytes } = row.body
  const split = (all: Uint8Array): Data => ({
    data: all.subarray(0, dataBytes),
    next: nextBytes === -1 ? undefined : all.subarray(dataBytes, dataBytes + nextBytes)
  })
  if (bytes !== undefined) return Effect.succeed(split(bytes))
  const { begin, end } = keys.piecesOf(id)
  return Effect.map(state.getRange(begin, end), (rows) => split(Keys.concatAll(rows.map((row) => row.value))))
}

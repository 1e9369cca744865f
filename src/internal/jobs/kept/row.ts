/**
 * The row of a job: everything about it that a later operation of the same transaction must read, so it holds no
 * versionstamp (rule R4). Data lies in the row where it is short, in pieces beside it where it is long; then a change
 * that leaves the data alone does not write it again.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackOwn } from "../../data/codec.ts"
import * as Keys from "../../data/keys.ts"
import { plainTrace, readTrace, type Trace } from "../../data/trace.ts"
import { PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { type Family, type JobKeys, type State, STATES } from "../definition/layout.ts"
import { ID_LIMIT_BYTES } from "../definition/model.ts"

/** Rows of another format are refused, not guessed at. */
const FORMAT = 1

/**
 * A row with something of `EXTRAS` has them as one field more. All others are written as they always were, so that
 * processes of an earlier version go on with them; those with extras they leave alone, as rows of a newer version.
 */
const EXTENDED_FORMAT = 2

/** Data up to here lies in the row: the rest of the row needs room below a value's limit, its last error above all. */
const INLINE_LIMIT_BYTES = 60_000

/** The last error of a job is kept so far: enough for a stack. */
const ERROR_LIMIT_CHARACTERS = 4_000

/** An error as it is kept: half a character, by the error itself or by the cut, has no stored form. */
export const keptError = (error: string): string => error.slice(0, ERROR_LIMIT_CHARACTERS).toWellFormed()

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

/** The jobs that a job waits for. */
export interface Parents {
  /** How many were named. */
  readonly count: number
  /** How many of them have not ended; 0 for a job that waits for none any more. */
  readonly waits: number
  /** Whether the job dies when one of them does. */
  readonly dies: boolean
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
  /** Where a job that was due at once stands among the others; `undefined` for one that is due at a time. */
  readonly order: number | undefined
  /** The span that the job was added in. */
  readonly trace: Trace | undefined
  /** When somebody first met data that he could not read; `undefined` once it was read, or is other data. */
  readonly unreadableSince: number | undefined
  /** How many runs in a row, up to the last one, ended by the silence of their holder. */
  readonly silentEnds: number
  /** The job waits for a slot of its key, which is its time: it was due before. */
  readonly hasSlot: boolean
  readonly parents: Parents | undefined
  /** Those who wait for this job; `undefined` when nobody does. */
  readonly family: Family | undefined
  readonly body: Body
}

/** The body of new data. */
export const bodyOf = (data: Uint8Array, next?: Uint8Array): Body => ({
  dataBytes: data.length,
  nextBytes: next === undefined ? -1 : next.length,
  bytes: next === undefined ? data : Keys.concat(data, next)
})

const isInline = (body: Body): boolean => body.dataBytes + Math.max(0, body.nextBytes) <= INLINE_LIMIT_BYTES

const isNumber = (value: unknown): value is number => typeof value === "number" && !Number.isNaN(value)

/** What few rows have, by name: how it is written where a row has it, and read. */
const EXTRAS: {
  readonly [name: string]: {
    readonly write: (row: Row) => unknown
    readonly is: (value: unknown) => boolean
  }
} = {
  order: {
    write: ({ order }) => order,
    is: (value) => isWhole(value, 0)
  },
  trace: {
    write: ({ trace }) => trace === undefined ? undefined : plainTrace(trace),
    is: (value) => readTrace(value) !== undefined
  },
  unreadableSince: {
    write: ({ unreadableSince }) => unreadableSince,
    is: isNumber
  },
  silentEnds: {
    write: ({ silentEnds }) => silentEnds === 0 ? undefined : silentEnds,
    is: (value) => isWhole(value, 1)
  },
  hasSlot: {
    write: ({ hasSlot }) => hasSlot ? true : undefined,
    is: (value) => value === true
  },
  parents: {
    write: ({ parents }) => parents === undefined ? undefined : [parents.count, parents.waits, parents.dies],
    is: (value) =>
      Array.isArray(value) && value.length === 3 && isWhole(value[0], 1) && isWhole(value[1], 0) &&
      typeof value[2] === "boolean"
  },
  family: {
    write: ({ family }) => family,
    is: (value) => isFamily(value)
  }
}

/** Whether bytes that may come from anywhere name those who wait for a job. */
export const isFamily = (value: unknown): value is Family =>
  Array.isArray(value) && value.length === 2 && value.every((part) => isWhole(part, 0))

const readParents = (value: readonly [number, number, boolean] | undefined): Parents | undefined =>
  value === undefined ? undefined : { count: value[0], waits: value[1], dies: value[2] }

/** Names and values, one after the other. */
const extrasOf = (row: Row): ReadonlyArray<unknown> => {
  const extras: Array<unknown> = []
  for (const name in EXTRAS) {
    const value = EXTRAS[name]!.write(row)
    if (value !== undefined) extras.push(name, value)
  }
  return extras
}

const encode = (row: Row): Uint8Array => {
  const extras = extrasOf(row)
  const fields = fieldsOf(row, extras.length === 0 ? FORMAT : EXTENDED_FORMAT)
  return packValue(extras.length === 0 ? fields : [...fields, extras])
}

const fieldsOf = (row: Row, format: number): ReadonlyArray<unknown> => [
  format,
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
  keptError(row.error),
  row.body.dataBytes,
  row.body.nextBytes,
  isInline(row.body) ? row.body.bytes : null
]

const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array
export const isWhole = (value: unknown, least: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= least
const isTime = (value: unknown): boolean => value === null || isNumber(value)

/** What the fields of a row are, in their order. */
const FIELDS: ReadonlyArray<(value: any) => boolean> = [
  (format) => format === FORMAT || format === EXTENDED_FORMAT,
  (state) => isWhole(state, 0) && state < STATES.length,
  (lock) => lock === null || isBytes(lock),
  (priority) => Number.isSafeInteger(priority),
  isNumber,
  (isParked) => typeof isParked === "boolean",
  (resubmit) => resubmit === null || (Array.isArray(resubmit) && resubmit.length === 1 && isTime(resubmit[0])),
  (attempts) => isWhole(attempts, 0),
  (key) => key === null || (isBytes(key) && keyOf(key) !== undefined),
  isNumber,
  isNumber,
  (revision) => isWhole(revision, 0),
  (error) => typeof error === "string",
  (dataBytes) => isWhole(dataBytes, 0),
  (nextBytes) => isWhole(nextBytes, -1),
  (bytes) => bytes === null || isBytes(bytes)
]

const KEY_FIELD = 8
const RUNNING = STATES.indexOf("running")

/** What a row has besides: `undefined` for what is none of this version. */
const readExtras = (fields: ReadonlyArray<unknown>): Map<string, any> | undefined => {
  const extras = new Map<string, any>()
  if (fields[0] === FORMAT) return fields.length === FIELDS.length ? extras : undefined
  const pairs = fields[FIELDS.length]
  if (fields.length !== FIELDS.length + 1 || !Array.isArray(pairs) || pairs.length % 2 === 1) return undefined
  for (let i = 0; i < pairs.length; i += 2) {
    const name: unknown = pairs[i]
    if (typeof name !== "string" || !Object.hasOwn(EXTRAS, name) || !EXTRAS[name]!.is(pairs[i + 1])) return undefined
    extras.set(name, pairs[i + 1])
  }
  return extras
}

const isRow = (fields: unknown): fields is ReadonlyArray<any> =>
  Array.isArray(fields) && FIELDS.every((is, i) => is(fields[i])) &&
  (fields[1] === RUNNING) === (fields[2] !== null) && (!fields[5] || fields[8] !== null) &&
  (fields[15] === null || fields[15].length === fields[13] + Math.max(0, fields[14]))

/** The key that `maxRunningPerKey` counts by; `undefined` for bytes that are none, or that no key of the store could hold. */
const keyOf = (packed: Uint8Array): Tuple.Element | undefined => {
  if (packed.length > ID_LIMIT_BYTES) return undefined
  const key = Tuple.unpackResult(packed)
  return Result.isSuccess(key) && key.success.length === 1 ? key.success[0] : undefined
}

/** A row, or `undefined` for bytes that this version did not write: a fault of the store, or a newer version's. */
export const decode = (bytes: Uint8Array): Row | undefined => {
  const unpacked = unpackOwn(bytes)
  const fields = Result.isSuccess(unpacked) ? unpacked.success : undefined
  if (!isRow(fields)) return undefined
  const extras = readExtras(fields)
  if (extras === undefined) return undefined
  return {
    state: STATES[fields[1] as number]!,
    lock: fields[2] ?? undefined,
    priority: fields[3],
    scheduledAt: fields[4],
    isParked: fields[5],
    resubmit: fields[6] === null ? undefined : { scheduledAt: fields[6][0] ?? undefined },
    attempts: fields[7],
    key: fields[8] === null ? undefined : keyOf(fields[8]),
    addedAt: fields[9],
    endedAt: fields[10],
    revision: fields[11],
    error: fields[12],
    order: extras.get("order"),
    trace: readTrace(extras.get("trace")),
    unreadableSince: extras.get("unreadableSince"),
    silentEnds: extras.get("silentEnds") ?? 0,
    hasSlot: extras.get("hasSlot") ?? false,
    parents: readParents(extras.get("parents")),
    family: extras.get("family"),
    body: { dataBytes: fields[13], nextBytes: fields[14], bytes: fields[15] ?? undefined }
  }
}

/** What can still be told of a row that cannot be read. */
export interface Remains {
  /** The row is whole, but of a later format: it is for the version that wrote it. */
  readonly isNewer: boolean
  readonly key: Tuple.Element | undefined
}

/** Whether the format is known, and something is in the row that only a later version knows. */
const hasUnknownExtras = (fields: ReadonlyArray<unknown>): boolean => {
  if (fields[0] !== EXTENDED_FORMAT) return false
  const pairs = fields[FIELDS.length]
  return !Array.isArray(pairs) ||
    pairs.some((name, i) => i % 2 === 0 && typeof name === "string" && !Object.hasOwn(EXTRAS, name))
}

export const remainsOf = (bytes: Uint8Array): Remains => {
  const unpacked = unpackOwn(bytes)
  const fields = Result.isSuccess(unpacked) && Array.isArray(unpacked.success) ? unpacked.success : []
  const key: unknown = fields[KEY_FIELD]
  return {
    isNewer: isWhole(fields[0], EXTENDED_FORMAT + 1) || hasUnknownExtras(fields),
    key: (fields[0] === FORMAT || fields[0] === EXTENDED_FORMAT) && isBytes(key) ? keyOf(key) : undefined
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

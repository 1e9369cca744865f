/**
 * Where the timers of a server lie, and what a row says.
 *
 * ```
 * <server> "timer" <due> <version> <index> <mark> <piece>   a timer in the order of its time, in pieces where it is long
 *          "timerId" <id>                             where the timer of an id lies, or that its message is on its way
 *          "timers"                                   how many there are
 *          "wake"                                     of a hosted server: when its definition's index wakes it
 * ```
 *
 * 1. `version` is the read version of the transaction that set the timer, `index` its number there: of two timers with one
 *    time the one that was set first comes first, whatever clocks say. Transactions that read one version tell theirs
 *    apart by the mark.
 * 2. The row of an id has a mark that no other setting of it has. A timer's message carries the mark: it counts only while
 *    the row of its id has it (rule T3). The mark of a timer that has sent its only message stays until that is handled.
 */
import * as Result from "effect/Result"
import type { KeyValue } from "../../../Backend.ts"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import * as Keys from "../../data/keys.ts"
import { isTime, PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type { ServerKeys } from "../kept/layout.ts"

const FORMAT = 1

/** When a timer comes again, as it is stored; `undefined` of one that comes once. */
export type Recurrence =
  | { readonly every: number; readonly first: number; readonly missed: Missed }
  | { readonly cron: string; readonly timeZone: string; readonly missed: Missed }

/** What becomes of ticks that passed while nobody ran the server: the latest is made up for, or none. */
export type Missed = "latest" | "skip"

/** Where a timer lies among those of its server (1). */
export interface Place {
  readonly due: number
  readonly version: number | bigint
  readonly index: number
}

/** A timer. */
export interface Timer extends Place {
  readonly id: string
  readonly mark: Uint8Array
  readonly recurrence: Recurrence | undefined
  /** Its message, as it was sent when the timer was set. */
  readonly message: Uint8Array
}

/** A timer, and the keys of its pieces. */
export interface Row {
  /** Absent where the row cannot be read: it is cleared and told of. */
  readonly timer: Timer | undefined
  readonly due: number
  readonly keys: ReadonlyArray<Uint8Array>
}

const prefixOf = (keys: ServerKeys, { due, index, version }: Place, mark: Uint8Array): Uint8Array =>
  Tuple.pack([due, version, index, mark], keys.timers)

const dataOfRecurrence = (recurrence: Recurrence | undefined) =>
  recurrence === undefined
    ? null
    : "every" in recurrence
    ? ["every", recurrence.every, recurrence.first, recurrence.missed]
    : ["cron", recurrence.cron, recurrence.timeZone, recurrence.missed]

const recurrenceOf = (data: unknown): Recurrence | undefined | "unknown" => {
  if (data === null) return undefined
  if (!Array.isArray(data)) return "unknown"
  const [kind, a, b, missed] = data as Array<unknown>
  if (missed !== "latest" && missed !== "skip") return "unknown"
  if (kind === "every" && typeof a === "number" && a > 0 && isTime(b)) return { every: a, first: b, missed }
  if (kind === "cron" && typeof a === "string" && typeof b === "string") return { cron: a, timeZone: b, missed }
  return "unknown"
}

/** Writes a timer. */
export const write = (state: TransactionState, keys: ServerKeys, timer: Timer): void => {
  const { id, mark, message, recurrence } = timer
  const bytes = packValue([FORMAT, id, mark, dataOfRecurrence(recurrence), message])
  const prefix = prefixOf(keys, timer, mark)
  for (let piece = 0; piece * PIECE_BYTES < bytes.length; piece++) {
    state.set(Tuple.pack([piece], prefix), bytes.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES))
  }
}

/** Clears a timer's row, however many pieces it has. */
export const clear = (state: TransactionState, keys: ServerKeys, place: Place, mark: Uint8Array): void => {
  const begin = prefixOf(keys, place, mark)
  state.clearRange(begin, Tuple.strinc(begin))
}

/** What a key says of its timer. */
interface Placed extends Place {
  readonly mark: Uint8Array
}

/** The place that a key says; `undefined` for a key that is none of ours. */
const placeOfKey = (keys: ServerKeys, key: Uint8Array): Placed | undefined => {
  const elements = Result.getOrUndefined(Tuple.unpackResult(key, keys.timers.length))
  if (elements?.length !== 5) return undefined
  const [due, version, index, mark] = elements
  if (typeof due !== "number" || typeof index !== "number" || !(mark instanceof Uint8Array)) return undefined
  return typeof version === "number" || typeof version === "bigint" ? { due, version, index, mark } : undefined
}

const isOf = (a: Placed, b: Placed | undefined): boolean =>
  b !== undefined && a.due === b.due && a.index === b.index && Tuple.equalsBytes(a.mark, b.mark)

/** The timers of rows in order; the last one, of which pieces may follow, only when `isEnd`. */
export const assemble = (keys: ServerKeys, rows: ReadonlyArray<KeyValue>, isEnd: boolean): ReadonlyArray<Row> => {
  const found: Array<Row> = []
  for (let at = 0; at < rows.length;) {
    const place = placeOfKey(keys, rows[at]!.key)
    let end = at + 1
    if (place !== undefined) { while (end < rows.length && isOf(place, placeOfKey(keys, rows[end]!.key))) end++ }
    if (end === rows.length && !isEnd && at > 0) break
    const own = rows.slice(at, end)
    found.push({
      timer: place && timerOf(place, Keys.concatAll(own.map((row) => row.value))),
      due: place?.due ?? -Infinity,
      keys: own.map((row) => row.key)
    })
    at = end
  }
  return found
}

const timerOf = ({ due, index, version }: Place, bytes: Uint8Array): Timer | undefined => {
  const data = Result.getOrUndefined(unpackValue(bytes))
  if (!Array.isArray(data) || data[0] !== FORMAT || !isTime(due)) return undefined
  const [, id, mark, repeats, message] = data as Array<unknown>
  const recurrence = recurrenceOf(repeats)
  if (typeof id !== "string" || !(mark instanceof Uint8Array) || !(message instanceof Uint8Array)) return undefined
  return recurrence === "unknown" ? undefined : { due, version, index, id, mark, recurrence, message }
}

/** What the store says of an id: the mark of its setting, and where its timer lies, if it has not sent its last message. */
export interface Held {
  readonly mark: Uint8Array
  readonly place: Place | undefined
}

export const idKey = (keys: ServerKeys, id: string): Uint8Array => Tuple.pack([id], keys.timerIds)

/** The bytes of an id's row. */
export const encodeHeld = ({ mark, place }: Held): Uint8Array =>
  packValue([
    FORMAT,
    mark,
    // a version of 64 bits is more than a number holds
    place === undefined ? null : [place.due, String(place.version), place.index]
  ])

/** What an id's row says; what cannot be read says that there is no timer. */
export const decodeHeld = (bytes: Uint8Array | undefined): Held | undefined => {
  const data = bytes === undefined ? undefined : Result.getOrUndefined(unpackValue(bytes))
  if (!Array.isArray(data) || data[0] !== FORMAT || !(data[1] instanceof Uint8Array)) return undefined
  const [, mark, place] = data as [unknown, Uint8Array, unknown]
  if (!Array.isArray(place)) return { mark, place: undefined }
  const [due, version, index] = place as Array<unknown>
  const isPlace = isTime(due) && typeof index === "number" && typeof version === "string" && /^\d{1,20}$/.test(version)
  return { mark, place: isPlace ? { due, version: BigInt(version), index } : undefined }
}

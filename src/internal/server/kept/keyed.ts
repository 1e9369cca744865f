/**
 * The keys of a server's messages: what makes a message that is sent again take effect once.
 *
 * ```
 * <server> "key" <key>             what became of the message with this key
 *          "keyRest" <key> <i>     the rest of an answer that is longer than a piece
 *          "keyEnd" <millis> <key> when a row is kept no longer
 *          "keyOpen" <key>         messages that were handled and are not answered yet, or are under the lock
 *          "keys"                  how many rows count
 * ```
 *
 * 1. A row is *open* while its message is being handled: it names the message. It is *done* from the commit that settles it
 *    on, with the answer, until its time. It is *free* when its message ended without being handled: as good as none, but
 *    those who waited find the error there.
 * 2. Whoever handles a message with a key reads its row for conflict, so of two one is handled. A row holds no versionstamp.
 * 3. Only the message that opened a row settles it, once: a late answer to an earlier message with the key changes nothing.
 * 4. A change of a row is the bell of those who wait with it; nobody counts them.
 * 5. Rows go in bounded passes, in the order of their ends. Of a hosted server the index wakes it for that.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { isCount, isTime, PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import { moveWake, readWake } from "./indexes.ts"
import type { ServerKeys } from "./layout.ts"

const FORMAT = 1
const OPEN = 0
const DONE = 1
const FREE = 2

/** For so long whoever waited finds the error of a message that was not handled: longer than a process stands still. */
const FREE_MILLIS = 10 * 60_000

/** Rows that one pass takes away: few enough that timers and sockets get their turn. */
const PASS_ROWS = 100

/** Open keys of one server that ends: as many as calls that are left open. */
const OPEN_LIMIT = 20_000

/** What the store has of a key (1). */
export type Row =
  | {
    readonly _tag: "Open"
    readonly digest: Uint8Array
    readonly message: string
    /** Whether it was left open by a commit: then it stands among the open ones. */
    readonly isLeft: boolean
  }
  | {
    readonly _tag: "Done" | "Free"
    readonly digest: Uint8Array
    readonly tag: string
    readonly endMillis: number
    /** The bytes of the answer, without its rest; `undefined` of a cast. */
    readonly answer: Uint8Array | undefined
    /** How many more pieces it has. */
    readonly rest: number
    /** The message that it was opened for. */
    readonly message: string
  }

export const rowKey = (keys: ServerKeys, key: string): Uint8Array => Tuple.pack([key], keys.keyed.rows)

const restKey = (keys: ServerKeys, key: string, index: number): Uint8Array => Tuple.pack([key, index], keys.keyed.rests)

const endKey = (keys: ServerKeys, endMillis: number, key: string): Uint8Array =>
  Tuple.pack([endMillis, key], keys.keyed.ends)

const openKey = (keys: ServerKeys, key: string): Uint8Array => Tuple.pack([key], keys.keyed.open)

/** What the bytes of a row say; what cannot be read says that there is none. */
export const decode = (bytes: Uint8Array | undefined): Row | undefined => {
  const data = bytes === undefined ? undefined : Result.getOrUndefined(unpackValue(bytes))
  if (!Array.isArray(data) || data[0] !== FORMAT || !(data[2] instanceof Uint8Array)) return undefined
  const [, kind, digest, ...of] = data as [unknown, unknown, Uint8Array, ...Array<unknown>]
  if (kind === OPEN) {
    return typeof of[0] === "string" ? { _tag: "Open", digest, message: of[0], isLeft: of[1] === true } : undefined
  }
  if (kind !== DONE && kind !== FREE) return undefined
  const [endMillis, tag, answer, rest, message] = of
  if (!isTime(endMillis) || typeof tag !== "string" || !isCount(rest) || typeof message !== "string") return undefined
  return {
    _tag: kind === DONE ? "Done" : "Free",
    digest,
    endMillis,
    tag,
    answer: answer instanceof Uint8Array ? answer : undefined,
    rest,
    message
  }
}

/** The row of a key, read for conflict (2). */
export const read = (state: TransactionState, keys: ServerKeys, key: string): Effect.Effect<Row | undefined> =>
  Effect.map(state.get(rowKey(keys, key)), decode)

/** The whole answer of a row. */
export const answerOf = (
  state: TransactionState,
  keys: ServerKeys,
  key: string,
  row: Extract<Row, { readonly _tag: "Done" | "Free" }>
): Effect.Effect<Uint8Array | undefined> => {
  if (row.answer === undefined || row.rest === 0) return Effect.succeed(row.answer)
  const { begin, end } = Tuple.range([key], keys.keyed.rests)
  return Effect.map(
    state.getRange(begin, end),
    (rows) => Keys.concatAll([row.answer!, ...rows.map(({ value }) => value)])
  )
}

const write = (state: TransactionState, keys: ServerKeys, key: string, data: ReadonlyArray<unknown>): void => {
  const place = rowKey(keys, key)
  state.set(place, packValue([FORMAT, ...data]))
  signalKey(state.target, state, place)
}

/** Opens a key for a message; `before` is the row that it had, whose time was over, or that was free. */
export const open = (
  state: TransactionState,
  keys: ServerKeys,
  key: string,
  message: string,
  digest: Uint8Array,
  before: Row | undefined
): void => {
  if (before !== undefined && before._tag !== "Open") forget(state, keys, key, before)
  if (before?._tag !== "Done") state.add(keys.keyed.count, Counters.PLUS_ONE)
  state.set(rowKey(keys, key), packValue([FORMAT, OPEN, digest, message]))
}

/** Takes away what belongs to a row that had an end. */
const forget = (
  state: TransactionState,
  keys: ServerKeys,
  key: string,
  { endMillis, rest }: Extract<Row, { readonly _tag: "Done" | "Free" }>
): void => {
  state.clear(endKey(keys, endMillis, key))
  for (let index = 0; index < rest; index++) state.clear(restKey(keys, key, index))
}

/** Leaves a key open at the end of its message's handling: somebody settles it later, or frees it. */
export const leaveOpen = (
  state: TransactionState,
  keys: ServerKeys,
  key: string,
  message: string
): Effect.Effect<void> =>
  Effect.map(read(state, keys, key), (row) => {
    if (row?._tag !== "Open" || row.message !== message || row.isLeft) return
    state.set(rowKey(keys, key), packValue([FORMAT, OPEN, row.digest, message, true]))
    state.set(openKey(keys, key), new Uint8Array(0))
  })

/** What a key's message came to. */
export interface End {
  readonly key: string
  /** The message's id. */
  readonly message: string
  readonly tag: string
  /** `undefined` of a cast. */
  readonly answer: Uint8Array | undefined
}

/** Settles the key of a message that was handled (3). Succeeds with when its row ends, if it was this message's to settle. */
export const settle = (
  state: TransactionState,
  { keyRetentionMillis }: { readonly keyRetentionMillis: number },
  keys: ServerKeys,
  end: End
): Effect.Effect<number | undefined> => finish(state, keys, end, DONE, keyRetentionMillis)

/** Frees the key of a message that ended without being handled; `end.answer` is the error for those who wait. */
export const free = (state: TransactionState, keys: ServerKeys, end: End): Effect.Effect<void> =>
  Effect.asVoid(finish(state, keys, end, FREE, FREE_MILLIS))

const finish = Effect.fnUntraced(function*(
  state: TransactionState,
  keys: ServerKeys,
  { answer, key, message, tag }: End,
  kind: number,
  keptMillis: number
): Effect.fn.Return<number | undefined> {
  const row = yield* read(state, keys, key)
  if (row?._tag !== "Open" || row.message !== message) return undefined
  const endMillis = Math.ceil(state.timeMillis + keptMillis)
  const bytes = answer ?? new Uint8Array(0)
  const rest = Math.max(0, Math.ceil(bytes.length / PIECE_BYTES) - 1)
  const first = answer === undefined ? null : bytes.subarray(0, PIECE_BYTES)
  write(state, keys, key, [kind, row.digest, endMillis, tag, first, rest, message])
  for (let i = 0; i < rest; i++) {
    state.set(restKey(keys, key, i), bytes.subarray((i + 1) * PIECE_BYTES, (i + 2) * PIECE_BYTES))
  }
  if (row.isLeft) state.clear(openKey(keys, key))
  state.set(endKey(keys, endMillis, key), new Uint8Array(0))
  if (kind === FREE) state.add(keys.keyed.count, Counters.MINUS_ONE)
  if (keys.isHosted) yield* wakeBy(state, keys, endMillis)
  return endMillis
})

/** Lets the index wake a hosted server by the end of a row (5). */
const wakeBy = (state: TransactionState, keys: ServerKeys, endMillis: number): Effect.Effect<void> =>
  Effect.map(state.get(keys.wake), (bytes) => {
    const known = readWake(bytes)
    if (known === undefined || endMillis < known) moveWake(state, keys, known, endMillis)
  })

/** Frees all keys that are open: of a server that ends, whose messages nobody will answer. */
export const freeOpen = Effect.fnUntraced(function*(
  state: TransactionState,
  keys: ServerKeys,
  answer: Uint8Array
) {
  const { begin, end } = Tuple.range([], keys.keyed.open)
  for (const row of yield* state.getRange(begin, end, { limit: OPEN_LIMIT })) {
    const key = keyOf(row.key, keys.keyed.open, 0)
    const open = key === undefined ? undefined : yield* read(state, keys, key)
    if (key === undefined || open?._tag !== "Open") state.clear(row.key)
    else yield* free(state, keys, { key, message: open.message, tag: "", answer })
  }
})

const keyOf = (bytes: Uint8Array, prefix: Uint8Array, at: number): string | undefined => {
  const key = Result.getOrUndefined(Tuple.unpackResult(bytes, prefix.length))?.[at]
  return typeof key === "string" ? key : undefined
}

const endOf = (bytes: Uint8Array, prefix: Uint8Array): number | undefined => {
  const end = Result.getOrUndefined(Tuple.unpackResult(bytes, prefix.length))?.[0]
  return isTime(end) ? end : undefined
}

/** When the first row ends; `Infinity` where there is none. */
export const firstEnd = (state: TransactionState, keys: ServerKeys): Effect.Effect<number> => {
  const { begin, end } = Tuple.range([], keys.keyed.ends)
  return Effect.map(
    state.getRange(begin, end, { limit: 1 }),
    ([row]) => row === undefined ? Infinity : endOf(row.key, keys.keyed.ends) ?? -Infinity
  )
}

/** What a look at the ends of rows came to. */
export interface Swept {
  readonly done: number
  /** When there will be something to take away. */
  readonly dueMillis: number
}

/** Takes rows away whose time is over, as many as one pass may (5). */
export const sweep = Effect.fnUntraced(function*(
  state: TransactionState,
  keys: ServerKeys
): Effect.fn.Return<Swept> {
  const first = yield* firstEnd(state, keys)
  if (first > state.timeMillis) return { done: 0, dueMillis: first }
  const { begin } = Tuple.range([], keys.keyed.ends)
  const until = Tuple.pack([Math.floor(state.timeMillis) + 1], keys.keyed.ends)
  const due = yield* state.getRange(begin, until, { limit: PASS_ROWS })
  const named = due.map(({ key }) => keyOf(key, keys.keyed.ends, 1))
  yield* state.prefetch(() => named.flatMap((key) => key === undefined ? [] : [rowKey(keys, key)]))
  let counted = 0
  for (const [index, { key: place }] of due.entries()) {
    state.clear(place)
    const key = named[index]
    const row = key === undefined ? undefined : yield* read(state, keys, key)
    if (key === undefined || row === undefined || row._tag === "Open") continue
    if (row.endMillis !== endOf(place, keys.keyed.ends)) continue
    forget(state, keys, key, row)
    state.clear(rowKey(keys, key))
    if (row._tag === "Done") counted++
  }
  if (counted > 0) state.add(keys.keyed.count, Counters.amountBytes(-counted))
  const dueMillis = yield* firstEnd(state, keys)
  // the last one leaves nothing; read for conflict, so that nobody's key is forgotten
  if (dueMillis === Infinity && Counters.read(yield* state.get(keys.keyed.count)) === 0) state.clear(keys.keyed.count)
  return { done: due.length, dueMillis }
})

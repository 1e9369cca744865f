/**
 * Dead letters on the keys where they lie: messages whose handling failed as often as the threshold says, kept until an
 * operator requeues or deletes them.
 *
 * A row is `[format, attempts, millis, cause, message]` as MessagePack. It is written under the versionstamp of the
 * commit that took the message off the queue, so that they are listed in the order in which they died.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../Tuple.ts"
import { packValue, unpackValue } from "../data/codec.ts"
import * as Counters from "../data/counters.ts"
import { printable } from "../data/text.ts"
import { isCount, isTime } from "../tenant/limits.ts"
import type { TransactionState } from "../transactions/state.ts"
import type { QueueKeys } from "./layout.ts"
import * as Pieces from "./pieces.ts"
import * as Queue from "./queue.ts"

const FORMAT = 1

/** A dead letter as it lies in the store. */
export interface DeadRow {
  /** Its name: tells it from every other one of its queue. */
  readonly id: string
  readonly attempts: number
  readonly millis: number
  readonly cause: string
  readonly message: Uint8Array
}

/** Writes a dead letter; taking the message off the queue is the caller's. */
export const write = (
  state: TransactionState,
  keys: QueueKeys,
  letter: { readonly attempts: number; readonly cause: string; readonly message: Uint8Array }
): void => {
  const cause = printable(letter.cause)
  Pieces.append(
    state,
    keys.dead,
    packValue([FORMAT, letter.attempts, state.timeMillis, cause, letter.message])
  )
  state.add(keys.deadCount, Counters.PLUS_ONE)
}

/** What the bytes of a row say, if this version wrote them. */
export const decode = (bytes: Uint8Array): Omit<DeadRow, "id"> | undefined => {
  const data = Result.getOrUndefined(unpackValue(bytes))
  if (!Array.isArray(data) || data[0] !== FORMAT) return undefined
  const [, attempts, millis, cause, message] = data as Array<unknown>
  return isCount(attempts) && isTime(millis) && typeof cause === "string" && message instanceof Uint8Array
    ? { attempts, millis, cause, message }
    : undefined
}

const rowOf = (keys: QueueKeys, whole: Pieces.Whole): DeadRow => ({
  id: Pieces.nameOf(keys.dead, whole),
  ...decode(whole.bytes) ?? {
    attempts: 0,
    millis: 0,
    cause: "this row cannot be read: delete it",
    message: new Uint8Array(whole.bytes)
  }
})

/** Whether a text can be the name of a dead letter. */
export const isName = (keys: QueueKeys, id: unknown): id is string =>
  typeof id === "string" && Pieces.rangeOfName(keys.dead, id) !== undefined

/** The first dead letters, oldest first, after the one with a name if it is given. */
export const peek = (
  state: TransactionState,
  keys: QueueKeys,
  limit: number,
  after: string | undefined
): Effect.Effect<ReadonlyArray<DeadRow>> =>
  Effect.map(
    Queue.peekWhole(
      state,
      keys.dead,
      limit,
      after === undefined ? undefined : Pieces.rangeOfName(keys.dead, after)?.end
    ),
    (found) => found.map((whole) => rowOf(keys, whole))
  )

const find = (
  state: TransactionState,
  keys: QueueKeys,
  id: string
): Effect.Effect<Pieces.Whole | undefined> => {
  const range = isName(keys, id) ? Pieces.rangeOfName(keys.dead, id) : undefined
  if (range === undefined) return Effect.undefined
  return Effect.map(
    state.getRange(range.begin, range.end),
    (rows) => Pieces.assemble(keys.dead, rows, Infinity, true).find((whole) => Pieces.nameOf(keys.dead, whole) === id)
  )
}

/** Takes a dead letter out. Succeeds with it, or with `undefined` when there is none of that name. */
export const remove = (
  state: TransactionState,
  keys: QueueKeys,
  id: string
): Effect.Effect<DeadRow | undefined> =>
  Effect.map(find(state, keys, id), (whole) => {
    if (whole === undefined) return undefined
    for (const key of whole.keys) state.clear(key)
    state.add(keys.deadCount, Counters.MINUS_ONE)
    return rowOf(keys, whole)
  })

/** Puts a dead letter back at the end of the queue, with no attempts behind it. */
export const requeue = (state: TransactionState, keys: QueueKeys, id: string): Effect.Effect<boolean> =>
  Effect.map(remove(state, keys, id), (row) => {
    if (row === undefined) return false
    Queue.push(state, keys, row.message)
    keys.ring(state)
    return true
  })

/** Removes all dead letters. */
export const purge = (state: TransactionState, keys: QueueKeys): void => {
  const { begin, end } = Tuple.range([], keys.dead)
  state.clearRange(begin, end)
  state.clear(keys.deadCount)
}

/**
 * Setting, cancelling and looking at timers, within a transaction.
 *
 * 1. An id has one timer: setting it again takes the earlier one away, and what that has sent and nobody has handled counts
 *    no more (rule T3).
 * 2. Who sets a timer rings the server where it is earlier than what the server waits for: a hosted one by its wake-up in
 *    the index of its definition, one that was started by its bell.
 */
import * as Effect from "effect/Effect"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import * as Queue from "../../queue/queue.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import { TooManyTimers } from "../definition/errors.ts"
import type { Definition } from "../definition/model.ts"
import { moveWake, readWake } from "../kept/indexes.ts"
import { identityOf, type ServerKeys } from "../kept/layout.ts"
import type { Timing } from "./options.ts"
import * as Rows from "./rows.ts"

const SETTINGS = Symbol("effect-dgen/server/timerSettings")

/** The number of a setting within its transaction. */
const nextIndex = (state: TransactionState): number => {
  const index = state.kept<number>(SETTINGS) ?? 0
  state.keep(SETTINGS, index + 1)
  return index
}

/** Sets a timer. Succeeds with its id. */
export const set = Effect.fnUntraced(function*(
  definition: Definition,
  keys: ServerKeys,
  message: Uint8Array,
  timing: Timing
): Effect.fn.Return<string, TooManyTimers, Transaction> {
  const state = yield* Transaction
  const index = nextIndex(state)
  const mark = Keys.concat(state.operationId, Uint8Array.of(index >>> 24, index >>> 16, index >>> 8, index))
  const id = timing.id ?? Buffer.from(mark).toString("hex")
  const idKey = Rows.idKey(keys, id)
  const held = timing.id === undefined ? undefined : Rows.decodeHeld(yield* state.get(idKey))
  if (held?.place !== undefined) Rows.clear(state, keys, held.place, held.mark)
  else {
    if ((yield* Queue.count(state, keys.timerCount)) >= definition.maxTimers) {
      return yield* new TooManyTimers({ ...identityOf({ definition, keys }), limit: definition.maxTimers })
    }
    state.add(keys.timerCount, Counters.PLUS_ONE)
  }
  const { due, recurrence } = timing.at(state.timeMillis)
  const place = { due, version: yield* state.readVersion, index }
  Rows.write(state, keys, { ...place, id, mark, recurrence, message })
  state.set(idKey, Rows.encodeHeld({ mark, place }))
  yield* announce(definition, state, keys, due)
  return id
})

/** Lets whoever runs the server know that a timer is due at a time (2). */
export const announce = (
  definition: Definition,
  state: TransactionState,
  keys: ServerKeys,
  due: number
): Effect.Effect<void> => {
  if (!definition.hosted) {
    // a consumer waits for this counter to change, and the queue is as long as before
    state.add(keys.push, Counters.PLUS_ONE)
    state.add(keys.pop, Counters.PLUS_ONE)
    signalKey(state.target, state, keys.push)
    return Effect.void
  }
  return Effect.map(state.get(keys.wake), (bytes) => {
    const known = readWake(bytes)
    if (known === undefined || due < known) moveWake(state, keys, known, due)
  })
}

/** Cancels the timer of an id. Succeeds with whether that prevented a message. */
export const cancel = (keys: ServerKeys, id: string): Effect.Effect<boolean, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const idKey = Rows.idKey(keys, id)
    return Effect.map(state.get(idKey), (bytes) => {
      const held = Rows.decodeHeld(bytes)
      if (held === undefined) return false
      if (held.place !== undefined) {
        Rows.clear(state, keys, held.place, held.mark)
        state.add(keys.timerCount, Counters.MINUS_ONE)
      }
      state.clear(idKey)
      return true
    })
  })

/** Timers that one look reads. */
const PAGE_ROWS = 500

/** A page of timers, by snapshot, and where the next one begins, if there may be one. */
export const page = (
  keys: ServerKeys,
  from: Uint8Array | undefined
): Effect.Effect<
  { readonly rows: ReadonlyArray<Rows.Row>; readonly next: Uint8Array | undefined },
  never,
  Transaction
> =>
  Effect.flatMap(Transaction, (state) => {
    const { begin, end } = Tuple.range([], keys.timers)
    return Effect.map(state.getRange(from ?? begin, end, { limit: PAGE_ROWS, snapshot: true }), (found) => {
      const isEnd = found.length < PAGE_ROWS
      const rows = Rows.assemble(keys, found, isEnd)
      const last = rows.at(-1)?.keys.at(-1)
      return { rows, next: isEnd || last === undefined ? undefined : Keys.next(last) }
    })
  })

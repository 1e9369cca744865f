/**
 * What a host does for wake-ups that are due: it sends the messages of the timers that they stand for, and takes away what is
 * over. A wake-up is read for conflict: of two hosts one does it.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import * as Keys from "../../data/keys.ts"
import type { Behaviour } from "../definition/model.ts"
import * as Heads from "../kept/head.ts"
import { giveWork, type IndexKeys, tuidOfKey, wakeUp } from "../kept/indexes.ts"
import { ServerKeys } from "../kept/layout.ts"
import { fire } from "../timers/firing.ts"

/** Bytes of timers' messages that the transaction which finds them due sends itself. */
const DUE_LIMIT_BYTES = 500_000

/**
 * Sends the timers that wake-ups are due for, as many as fit a transaction; the other servers get an entry. The keys are in
 * order, and not none.
 */
export const sendDueTimers = (
  definition: Behaviour["definition"],
  indexes: IndexKeys,
  rows: ReadonlyArray<Uint8Array>
): Effect.Effect<void, never, Transaction> =>
  Effect.gen(function*() {
    const state = yield* Transaction
    // one read tells which of them other hosts have left
    const range = { limit: 2 * rows.length, snapshot: true }
    const found = yield* state.getRange(rows[0]!, Keys.next(rows.at(-1)!), range)
    const left = new Set(found.map(({ key }) => Keys.toText(key)))
    const known = rows.filter((row) => left.has(Keys.toText(row))).map((row) => {
      state.addReadConflict(Keys.single(row))
      const tuid = tuidOfKey(row, indexes.wakes, 1)
      return { row, keys: tuid && new ServerKeys(state.prefix, tuid, definition) }
    })
    yield* state.prefetch(() => known.flatMap(({ keys }) => keys ? [keys.head, keys.wake] : []))
    let bytes = 0
    for (const { keys, row } of known) {
      if (keys === undefined) {
        state.clear(row)
        continue
      }
      const head = yield* state.get(keys.head)
      const isReadable = head === undefined || Result.isSuccess(Heads.decode(head))
      if (!isReadable || bytes > DUE_LIMIT_BYTES) wakeUp(state, keys, row)
      else {
        state.clear(row)
        const looked = yield* fire({ definition, keys, name: definition.name }, state, false)
        bytes += looked.bytes
        // the rest of very many
        if (Math.min(looked.dueMillis, looked.keysDueMillis) <= state.timeMillis) giveWork(state, keys.place)
      }
    }
  })

/**
 * Takes away what callers that died have left under a server: keys of calls that nobody can wait for any more. A pass is
 * one small transaction; what it leaves, the next one takes (rule R9).
 */
import * as Effect from "effect/Effect"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { CALL_TIMEOUT_LIMIT_MILLIS } from "../../tenant/limits.ts"
import { transact } from "../../transactions/loop.ts"
import type { Server } from "../handling/server.ts"

/** The clocks of the machines of one tenant differ by less. */
const CLOCK_SKEW_MILLIS = 60 * 60_000

const PASS_LIMIT = 500

/** One pass over the calls that wait. A pass that fails is not worth a word: there will be another. */
export const sweepWaiting = (server: Server): Effect.Effect<void> =>
  Effect.ignore(transact(
    server.tenant,
    Effect.flatMap(Transaction, (state) => {
      const oldest = state.timeMillis - CALL_TIMEOUT_LIMIT_MILLIS - CLOCK_SKEW_MILLIS
      const { begin } = Tuple.range([], server.keys.waiting)
      const end = Tuple.pack([Math.max(0, oldest)], server.keys.waiting)
      return Effect.map(state.getRange(begin, end, { limit: PASS_LIMIT, snapshot: true }), (rows) => {
        for (const row of rows) state.clear(row.key)
      })
    })
  ))

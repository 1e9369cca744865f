/**
 * The list of a definition's servers: those that have a state, by tuid.
 */
import * as Effect from "effect/Effect"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { isComplete } from "../../tenant/listed.ts"
import { IndexIncomplete } from "../definition/errors.ts"
import type { Definition } from "../definition/model.ts"
import { indexesOf, tuidOfKey } from "../kept/indexes.ts"

/** Which servers to list. */
export interface Page {
  readonly prefix: Tuple.Tuple | undefined
  readonly after: Tuple.Tuple | undefined
  readonly limit: number
}

/** The tuids of a page, by snapshot: looking conflicts with nobody. */
export const list = (
  definition: Definition,
  { after, limit, prefix }: Page
): Effect.Effect<ReadonlyArray<Tuple.Tuple>, IndexIncomplete, Transaction> =>
  Effect.gen(function*() {
    const state = yield* Transaction
    if (!(yield* isComplete(state))) return yield* new IndexIncomplete({ server: definition.name })
    const indexes = indexesOf(state.prefix, definition.name)
    const all = prefix === undefined ? Tuple.range([], indexes.list) : rangeOf(prefix, indexes.list)
    const from = after === undefined ? undefined : Keys.next(Tuple.pack([after], indexes.list))
    const begin = from !== undefined && Buffer.compare(from, all.begin) > 0 ? from : all.begin
    return yield* Effect.map(
      state.getRange(begin, all.end, { limit, snapshot: true }),
      (rows) =>
        rows.flatMap(({ key }) => {
          const tuid = tuidOfKey(key, indexes.list, 0)
          return tuid === undefined ? [] : [tuid]
        })
    )
  })

/** The keys of a tuid, and of all that begin with it: a nested tuple without its last byte, which ends it. */
const rangeOf = (prefix: Tuple.Tuple, list: Uint8Array): Tuple.KeyRange => {
  const begin = Tuple.pack([prefix], list).slice(0, -1)
  return { begin, end: Tuple.strinc(begin) }
}

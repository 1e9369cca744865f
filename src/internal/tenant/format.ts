/**
 * The format of what the library keeps in a tenant. A tenant without a record has format 1: nothing is written for it,
 * and opening one costs a read. A version that writes what this one cannot read writes its format first, so that this
 * one refuses the tenant instead of misreading it.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { BackendError, NewerFormat } from "../../BackendError.ts"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import { transact } from "../transactions/loop.ts"
import type { Place } from "../transactions/state.ts"
import { formatKey } from "./layout.ts"
import { type Listed, look } from "./listed.ts"

/** The newest format that this version reads. */
const FORMAT = 1

/**
 * Fails where the tenant's record says that a newer version is needed. Succeeds with what a layer has to know of the
 * tenant's lists.
 */
export const open = (place: Place, path: ReadonlyArray<string>): Effect.Effect<Listed, BackendError> =>
  Effect.flatMap(
    transact(
      { ...place, slots: undefined },
      Effect.flatMap(Transaction, (state) =>
        Effect.all([state.get(formatKey(place.prefix)), look(state)], { concurrency: "unbounded" }))
    ),
    ([record, listed]) => {
      const format = record === undefined ? 1 : formatOf(record)
      if (typeof format === "number" && format <= FORMAT) {
        return Effect.succeed(listed)
      }
      const message =
        `the tenant ${JSON.stringify(path)} has format ${format}, and this version of effect-dgen reads ` +
        `formats up to ${FORMAT}: install the version that wrote it, or a later one, in this program too`
      return Effect.fail(new BackendError({ reason: new NewerFormat({ message }) }))
    }
  )

/** The number of a record; a text for one that holds none. */
const formatOf = (record: Uint8Array): number | "unknown" => {
  const [format] = Result.getOrElse(Tuple.unpackResult(record), (): Tuple.Tuple => [])
  return Number.isSafeInteger(format) && (format as number) >= 1 ? format as number : "unknown"
}

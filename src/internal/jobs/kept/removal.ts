/**
 * Jobs that go, as steps of a transaction: what the indexes hold of them follows from their rows, as in places.ts. Of a
 * job whose row is damaged only what its id leads to can be found.
 */
import * as Effect from "effect/Effect"
import type * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import type { State } from "../definition/layout.ts"
import type { Place } from "../definition/model.ts"
import { touchedOf } from "./lateWrites.ts"
import { hasEnded } from "./parents.ts"
import { changeAndUnpark, clearHeld, clearOrphan, isEntryOf, unpark } from "./places.ts"
import { remainsOf, type Row } from "./row.ts"
import { forget, tellOfDamage, tellOfEnd } from "./telling.ts"

/** A job is gone, whoever holds it. */
export const removeJob = (place: Place, id: Tuple.Element, row: Row): Effect.Effect<void> => {
  if (row.state === "running") touchedOf(place.state).ring(place.keys.revokedBell)
  const { body, parents, state } = row
  // one that had ended has told of that
  const told = hasEnded(state) ? Effect.void : tellOfEnd(place, id, row, { state: "removed", error: "", body })
  const forgot = parents === undefined ? Effect.void : forget(place, id)
  return Effect.andThen(Effect.andThen(told, forgot), changeAndUnpark(place, id, row, undefined))
}

/** The job of an entry of `ended` is gone, or the entry, if it is no job's (places.ts, 4). */
export const removeEnded = (
  place: Place,
  id: Tuple.Element,
  row: Row | undefined,
  entry: Uint8Array,
  state: State
): Effect.Effect<void> =>
  isEntryOf(place.keys, id, row, entry) ? removeJob(place, id, row!) : clearOrphan(place, entry, state)

/**
 * A job whose row is damaged is gone, and what of it can be found without its row: its data, its activity entry, and the
 * place of its key if the row still tells the key. Other entries are left to who meets them (places.ts, 4). `false` for a row that
 * is not damaged but a newer version's: it is whole, and not ours to take apart.
 */
export const removeDamaged = Effect.fnUntraced(function*(place: Place, id: Tuple.Element, bytes: Uint8Array) {
  const { keys, model, state } = place
  const { isNewer, key } = remainsOf(bytes)
  if (isNewer) return false
  const touched = touchedOf(state)
  yield* touched.prepare(keys, id)
  const wasRunning = touched.storedEntry(keys, id) !== undefined
  touched.mark(keys, id, false)
  touched.ring(keys.changedBell)
  yield* tellOfDamage(place, id)
  yield* forget(place, id)
  state.clear(keys.job(id))
  const pieces = keys.piecesOf(id)
  state.clearRange(pieces.begin, pieces.end)
  if (wasRunning) {
    state.add(keys.move("running", "none"), Counters.PLUS_ONE)
    touched.ring(keys.revokedBell)
    if (model.maxRunning !== Infinity) touched.ring(keys.pendingBell)
    if (key !== undefined) {
      state.add(keys.held(key), Counters.MINUS_ONE)
      yield* clearHeld(place, key)
    }
  }
  // parked ones of the key waited for it, wherever it was
  if (key !== undefined) yield* unpark(place, key)
  return true
})

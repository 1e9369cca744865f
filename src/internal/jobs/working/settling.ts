/**
 * What a worker owes a job whose handler has ended, as a step of a transaction.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { textOfCause, textOfThrown } from "../../data/thrown.ts"
import { encodeData, type Model, type Place, retryDelay } from "../definition/model.ts"
import { complete, failRun, handBack } from "../kept/lifecycle.ts"
import { loadHeld, prefetch } from "../kept/places.ts"
import { type Held, idBytes } from "./leases.ts"

export type Outcome =
  | { readonly _tag: "Finish"; readonly data: Uint8Array | undefined }
  | { readonly _tag: "Fail"; readonly failure: unknown; readonly text: string }
  | { readonly _tag: "HandBack" }

export interface Ended {
  readonly held: Held
  readonly outcome: Outcome
}

/** What settling a job writes, beyond a few short values: the data of its next run, or of the one that ended. */
export const sizeOf = ({ held, outcome }: Ended): number => {
  const data = outcome._tag === "Finish" ? outcome.data?.length ?? 0 : 0
  const text = outcome._tag === "Fail" ? outcome.text.length : 0
  return idBytes(held) + Math.max(held.storedBytes, data) + text
}

/** What follows from the end of a handler. */
export const outcomeOf = (model: Model, held: Held, exit: Exit.Exit<unknown, unknown>): Outcome => {
  if (Exit.isFailure(exit)) {
    if (held.interrupted !== undefined) return { _tag: "HandBack" }
    return { _tag: "Fail", failure: Cause.squash(exit.cause), text: textOfCause(exit.cause) }
  }
  if (exit.value === undefined) return { _tag: "Finish", data: undefined }
  const encoded = Effect.runSyncExit(encodeData(model, held.job.id, exit.value))
  if (Exit.isSuccess(encoded)) return { _tag: "Finish", data: encoded.value }
  const failure = Cause.squash(encoded.cause)
  return { _tag: "Fail", failure, text: textOfThrown(failure) }
}

const settleOne = (place: Place, { held: { job, lock }, outcome }: Ended): Effect.Effect<void> => {
  const { model, state } = place
  const settled = Effect.flatMap(loadHeld(place, job.id, lock), (row): Effect.Effect<unknown> => {
    switch (outcome._tag) {
      case "Finish":
        return complete(place, job.id, row, outcome.data)
      case "HandBack":
        return handBack(place, job.id, row)
      case "Fail":
        return Effect.flatMap(
          retryDelay(model, row.attempts, state.timeMillis, outcome.failure),
          (delay) =>
            failRun(place, job.id, row, {
              error: outcome.text,
              nextAt: delay === undefined ? undefined : state.timeMillis + delay
            })
        )
    }
  })
  return Effect.ignore(settled)
}

/** Settles what handlers have ended with; a job that somebody else has meanwhile is left alone. */
export const settleAll = (place: Place, batch: ReadonlyArray<Ended>): Effect.Effect<void> =>
  Effect.andThen(
    prefetch(place, () => batch.map(({ held }) => held.job.id), true),
    Effect.forEach(batch, (ended) => settleOne(place, ended), { discard: true })
  )

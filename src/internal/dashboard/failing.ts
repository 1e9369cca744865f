/** What may be said of a failure to who looks: the library's own words, and of a store's only its kind. */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../BackendError.ts"
import type { DeadLetterNotFound } from "../../DurableQueue.ts"
import type { DefinitionUnknown, InvalidMessage, InvalidOption, ServerNotFound } from "../inspect/errors.ts"
import type { InvalidId, JobNotFound, ScheduleNotFound } from "../jobs/definition/errors.ts"
import { logWarning } from "../observing/logging.ts"
import { Refused } from "./gate.ts"

/** What looks and changes fail with. */
export type Failure =
  | BackendError
  | DeadLetterNotFound
  | DefinitionUnknown
  | InvalidId
  | InvalidMessage
  | InvalidOption
  | JobNotFound
  | ScheduleNotFound
  | ServerNotFound

const STATUS = {
  DeadLetterNotFound: 404,
  DefinitionUnknown: 409,
  InvalidId: 400,
  InvalidMessage: 400,
  InvalidOption: 400,
  JobNotFound: 404,
  ScheduleNotFound: 404,
  ServerNotFound: 404
} as const

/** Fails with what may be said. What a store says of itself can name hosts and users: it goes to the log. */
export const told = <A, R>(effect: Effect.Effect<A, Failure | Refused, R>): Effect.Effect<A, Refused, R> =>
  Effect.catch(effect, (failure) => {
    if (failure._tag === "Refused") return Effect.fail(failure)
    if (failure._tag !== "BackendError") {
      return Effect.fail(new Refused({ status: STATUS[failure._tag], message: failure.message }))
    }
    const message = `The store did not do that (${failure.reason._tag}). The log of this page's server says more.`
    return Effect.andThen(
      logWarning("the dashboard's store failed", failure),
      Effect.fail(new Refused({ status: 503, message }))
    )
  })

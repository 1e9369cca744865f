/**
 * How the program ends: 0 when all went well, 1 when it failed, 2 when its arguments make no sense, 3 when there is no such
 * thing, 4 when nobody said yes to a deletion, 5 when a check found something.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** The arguments make no sense. `message` says why. */
export class UsageError extends Schema.TaggedError<UsageError>("effect-dgen/UsageError")("UsageError", {
  message: Schema.String
}) {}

/** What was asked for is not there. */
export class NotFound extends Schema.TaggedError<NotFound>("effect-dgen/cli/NotFound")("NotFound", {
  message: Schema.String
}) {}

/** Nobody said yes to a deletion. */
export class Refused extends Schema.TaggedError<Refused>("effect-dgen/cli/Refused")("Refused", {
  message: Schema.String
}) {}

/** A check found something. */
export class Found extends Schema.TaggedError<Found>("effect-dgen/cli/Found")("Found", {
  message: Schema.String
}) {}

/** Room could not be given back. */
export class VacuumFailed extends Schema.TaggedError<VacuumFailed>("effect-dgen/cli/VacuumFailed")("VacuumFailed", {
  message: Schema.String
}) {}

export const usage = (message: string): Effect.Effect<never, UsageError> => Effect.fail(new UsageError({ message }))

/** Errors of the library that say that there is no such thing. */
const NOT_FOUND: ReadonlySet<unknown> = new Set([
  "NotFound",
  "ServerNotFound",
  "DeadLetterNotFound",
  "JobNotFound",
  "ScheduleNotFound"
])

/** Errors of the library that say that an argument cannot be used. */
const USAGE: ReadonlySet<unknown> = new Set(["UsageError", "InvalidOption", "InvalidId", "InvalidMessage"])

/** The exit code of an error. */
export const codeOf = (error: unknown): number => {
  const tag = typeof error === "object" && error !== null ? (error as { readonly _tag?: unknown })._tag : undefined
  if (USAGE.has(tag)) return 2
  if (NOT_FOUND.has(tag)) return 3
  if (tag === "Refused") return 4
  return tag === "Found" ? 5 : 1
}

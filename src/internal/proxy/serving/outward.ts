/**
 * What leaves the process of what went wrong. Errors keep what they tell of the request, with the address in place of the
 * tuid; what they tell of the server's inside is replaced by an id, under which it is logged.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { BackendError } from "../../../BackendError.ts"
import { isA, show } from "../../data/show.ts"
import { logError } from "../../observing/logging.ts"
import * as Errors from "../../server/definition/errors.ts"
import { StoreUnavailable, Unforeseen } from "../definition/errors.ts"

/** The request that went wrong. */
export interface Asked {
  readonly server: string
  readonly tag: string
  /** The address, as whoever asked wrote it. */
  readonly address: unknown
  /** The key that whoever asked sent. */
  readonly key: string | undefined
}

/** Enough that nobody guesses one, and little enough to read out on the phone. */
const ID_BYTES = 9

const newId = (): string =>
  Array.from(globalThis.crypto.getRandomValues(new Uint8Array(ID_BYTES)), (byte) => byte.toString(16).padStart(2, "0"))
    .join("")

/** Gives whatever is wrong an id, and logs it. */
const logged = (asked: Asked, cause: Cause.Cause<unknown>, error: (id: string) => unknown): Effect.Effect<unknown> =>
  Effect.suspend(() => {
    const { address, server, tag } = asked
    const id = newId()
    const text = `${server} ${show(address)}: "${tag}" from outside went wrong. Who asked was told the id ${id}`
    return Effect.as(Effect.annotateLogs(logError(text, cause), { server, tag, id }), error(id))
  })

/** What went wrong, as it may be told. An interruption stays one. */
export const outward = (asked: Asked, cause: Cause.Cause<unknown>): Effect.Effect<unknown> => {
  const failure = cause.reasons.find((reason) => reason._tag === "Fail")
  if (failure !== undefined) return told(asked, failure.error, cause)
  return Cause.hasDies(cause) ? unforeseen(asked, cause) : Effect.failCause(cause as Cause.Cause<never>)
}

const unforeseen = (asked: Asked, cause: Cause.Cause<unknown>): Effect.Effect<unknown> =>
  logged(asked, cause, (id) => new Unforeseen({ ...whose(asked), id }))

const whose = ({ server, tag }: Asked) => ({ server, tag })

/** The class of an error, as far as it is made anew with other values. */
type ErrorClass = (new(fields: any) => object) & { readonly fields: object }

/** The error with other values. */
const changed = (type: ErrorClass, error: unknown, values: object): unknown =>
  new type({
    ...Object.fromEntries(Object.keys(type.fields).map((field) => [field, (error as any)[field]])),
    ...values
  })

/** Mistakes of the program that is asked. */
const INTERNAL: ReadonlyArray<ErrorClass> = [Errors.DefinitionMismatch, Errors.UnknownMessage, Errors.WouldDeadlock]

/** What has, in one of its fields, a text of the server's inside. */
const WITH_CAUSE: ReadonlyArray<readonly [ErrorClass, field: string]> = [
  [Errors.HandlerCrashed, "cause"],
  [Errors.DeadLettered, "cause"],
  [Errors.ServerStopped, "reason"]
]

/** What tells of the request and nothing else, but for the tuid. */
const WITH_TUID: ReadonlyArray<ErrorClass> = [
  Errors.CallTimeout,
  Errors.InvalidPayload,
  Errors.KeyReused,
  Errors.Locked,
  Errors.LockFenced,
  Errors.PayloadTooLarge,
  Errors.QueueFull,
  Errors.ServerKilled,
  Errors.TooManyKeys
]

const told = (asked: Asked, error: unknown, cause: Cause.Cause<unknown>): Effect.Effect<unknown> => {
  const tuid = show(asked.address)
  if (isA(error, BackendError)) return logged(asked, cause, (id) => new StoreUnavailable({ ...whose(asked), id }))
  if (INTERNAL.some((type) => isA(error, type))) return unforeseen(asked, cause)
  const caused = WITH_CAUSE.find(([type]) => isA(error, type))
  if (caused !== undefined) {
    return logged(asked, cause, (id) => changed(caused[0], error, { tuid, [caused[1]]: `see the log for ${id}` }))
  }
  if (isA(error, Errors.InvalidTuid)) {
    return Effect.succeed(new Errors.InvalidTuid({ server: asked.server, problem: BAD_ADDRESS }))
  }
  if (isA(error, Errors.InvalidOption)) {
    // of the options the key alone comes from outside
    return error.option === "key"
      ? Effect.succeed(new Errors.InvalidOption({ server: asked.server, option: "key", problem: BAD_KEY }))
      : unforeseen(asked, cause)
  }
  const type = WITH_TUID.find((type) => isA(error, type))
  // the rest is what the message declares
  if (type === undefined) return Effect.succeed(error)
  return Effect.succeed(changed(type, error, type === Errors.KeyReused ? { tuid, key: asked.key ?? "" } : { tuid }))
}

const BAD_KEY = "must have 1 to 256 bytes, with whom it is of"
const BAD_ADDRESS = "no server can have it"

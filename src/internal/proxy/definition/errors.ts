/**
 * What a request from outside can fail with besides its message's own errors, and the status of each over HTTP.
 */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as Errors from "../../server/definition/errors.ts"

const about = { server: Schema.String, tag: Schema.String, id: Schema.String }

/**
 * Something went wrong that is no business of who asked: a handler that dies, a definition that does not fit, a defect. The
 * log of the process that served the request has it all, with the same id. What became of the message is not known.
 *
 * @since 0.2.0
 * @category errors
 */
export class Unforeseen
  extends Schema.TaggedError<Unforeseen>("effect-dgen/DgenProxy/Unforeseen")("Unforeseen", about)
{
  override get message(): string {
    return `${this.server}: "${this.tag}" went wrong. The log of its process says more: look there for ${this.id}`
  }
}

/**
 * The store did not answer, or said that it cannot. The log of the process that served the request has it all, with the same
 * id. What became of the message is not known: with a key, it can be sent again.
 *
 * @since 0.2.0
 * @category errors
 */
export class StoreUnavailable
  extends Schema.TaggedError<StoreUnavailable>("effect-dgen/DgenProxy/StoreUnavailable")("StoreUnavailable", about)
{
  override get message(): string {
    return `${this.server}: the store cannot take "${this.tag}" now: send it again later. The log of its process says more: ` +
      `look there for ${this.id}`
  }
}

/**
 * The body of a request is longer than the endpoint takes. Nothing was sent to the server.
 *
 * @since 0.2.0
 * @category errors
 */
export class BodyTooLarge
  extends Schema.TaggedError<BodyTooLarge>("effect-dgen/DgenProxy/BodyTooLarge")("BodyTooLarge", {
    server: Schema.String,
    tag: Schema.String,
    limitBytes: Schema.Number
  })
{
  override get message(): string {
    return `${this.server}: the body of "${this.tag}" has more than ${this.limitBytes} bytes: send a reference to the data instead`
  }
}

/**
 * The body of a request did not come to its end in time. Nothing was sent to the server.
 *
 * @since 0.2.0
 * @category errors
 */
export class BodyTimeout extends Schema.TaggedError<BodyTimeout>("effect-dgen/DgenProxy/BodyTimeout")("BodyTimeout", {
  server: Schema.String,
  tag: Schema.String,
  timeoutMillis: Schema.Number
}) {
  override get message(): string {
    return `${this.server}: the body of "${this.tag}" did not come within ${this.timeoutMillis} ms`
  }
}

/** A status that says what happened, for each error. */
const withStatus = <S extends Schema.Top>(status: number, schema: S): S["Rebuild"] =>
  schema.annotate({ httpApiStatus: status } as never)

/** What a cast can fail with: nothing was sent then, but for `StoreUnavailable` and `Unforeseen`. */
export const castErrors = [
  withStatus(400, Errors.InvalidPayload),
  withStatus(400, Errors.InvalidTuid),
  withStatus(400, Errors.InvalidOption),
  withStatus(413, Errors.PayloadTooLarge),
  withStatus(429, Errors.QueueFull),
  withStatus(500, Unforeseen),
  withStatus(503, StoreUnavailable)
] as const

/** What a call can fail with beside its own error. */
export const callErrors = [
  ...castErrors,
  withStatus(410, Errors.ServerKilled),
  withStatus(422, Errors.KeyReused),
  withStatus(423, Errors.Locked),
  withStatus(500, Errors.HandlerCrashed),
  withStatus(500, Errors.DeadLettered),
  withStatus(503, Errors.LockFenced),
  withStatus(503, Errors.ServerStopped),
  withStatus(503, Errors.TooManyKeys),
  withStatus(504, Errors.CallTimeout)
] as const

/** What the body of a request over HTTP can be refused with. */
export const bodyErrors = [withStatus(408, BodyTimeout), withStatus(413, BodyTooLarge)] as const

/** A declared error without a status of its own is an answer: the state of the server does not allow what was asked. */
const DECLARED_STATUS = 409

/** The errors that a call declares; each by itself where they have statuses of their own. */
export const declaredErrors = (error: Schema.Top): ReadonlyArray<Schema.Top> => {
  if (SchemaAST.isNever(error.ast)) return []
  if (hasStatus(error)) return [error]
  const { members = [] } = error as { readonly members?: ReadonlyArray<Schema.Top> }
  return members.some(hasStatus) ? members.flatMap(declaredErrors) : [withStatus(DECLARED_STATUS, error)]
}

const statusOf = SchemaAST.resolveAt<number>("httpApiStatus")

const hasStatus = ({ ast }: Schema.Top): boolean => statusOf(ast) !== undefined

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

/** A status that says what happened, and the words for it in an OpenAPI document. */
const withStatus = <S extends Schema.Top>(status: number, schema: S, description?: string): S["Rebuild"] =>
  schema.annotate({ httpApiStatus: status, ...(description === undefined ? {} : { description }) } as never)

/** What a cast can fail with: nothing was sent then, but for `StoreUnavailable` and `Unforeseen`. */
export const castErrors = [
  withStatus(400, Errors.InvalidPayload, "The payload does not fit its schema."),
  withStatus(400, Errors.InvalidTuid, "No server can have this address."),
  withStatus(400, Errors.InvalidOption, "The key cannot be used."),
  withStatus(413, Errors.PayloadTooLarge, "The message is larger than the store takes."),
  withStatus(429, Errors.QueueFull, "Too many messages wait for the server."),
  withStatus(500, Unforeseen, "Something went wrong, and is in the log under this id."),
  withStatus(503, StoreUnavailable, "The store is away. What became of the message is not known.")
] as const

/** What a call can fail with beside its own error. */
export const callErrors = [
  ...castErrors,
  withStatus(410, Errors.ServerKilled, "The server ended while the call waited."),
  withStatus(422, Errors.KeyReused, "The key belongs to another message or payload."),
  withStatus(423, Errors.Locked, "The message asks for a lock that is held."),
  withStatus(500, Errors.HandlerCrashed, "The handler crashed. The log has it under this id."),
  withStatus(500, Errors.DeadLettered, "Handling the message failed for good. The log has it under this id."),
  withStatus(503, Errors.LockFenced, "The lock was broken while the message was handled."),
  withStatus(503, Errors.ServerStopped, "The server has stopped in this process."),
  withStatus(503, Errors.TooManyKeys, "The server has as many keys as it may."),
  withStatus(504, Errors.CallTimeout, "No answer in time. The message may still be handled.")
] as const

/** What the body of a request over HTTP can be refused with. */
export const bodyErrors = [
  withStatus(408, BodyTimeout, "The body did not come in time."),
  withStatus(413, BodyTooLarge, "The body is too long.")
] as const

/** A declared error without a status of its own is an answer: the state of the server does not allow what was asked. */
const DECLARED_STATUS = 409

/** The errors that a call declares; each by itself where they have statuses of their own. */
export const declaredErrors = (error: Schema.Top): ReadonlyArray<Schema.Top> => {
  if (SchemaAST.isNever(error.ast)) return []
  if (hasStatus(error)) return [error]
  return membersOf(error).some(isDivided)
    ? membersOf(error).flatMap(declaredErrors)
    : [withStatus(DECLARED_STATUS, error)]
}

const membersOf = (schema: Schema.Top): ReadonlyArray<Schema.Top> =>
  (schema as { readonly members?: ReadonlyArray<Schema.Top> }).members ?? []

const statusOf = SchemaAST.resolveAt<number>("httpApiStatus")

const hasStatus = ({ ast }: Schema.Top): boolean => statusOf(ast) !== undefined

/** Whether a schema has a status, or a part of it has one. */
const isDivided = (schema: Schema.Top): boolean => hasStatus(schema) || membersOf(schema).some(isDivided)

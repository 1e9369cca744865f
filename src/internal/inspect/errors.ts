/**
 * What looking and mending can fail with. Nothing was written then.
 */
import * as Schema from "effect/Schema"

/**
 * An option, or an argument, cannot be used. Nothing was read or written.
 *
 * @since 0.2.0
 * @category errors
 */
export class InvalidOption
  extends Schema.TaggedError<InvalidOption>("effect-dgen/Inspect/InvalidOption")("InvalidOption", {
    option: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `"${this.option}" ${this.problem}`
  }
}

/**
 * There is nothing of a server at this tuid.
 *
 * @since 0.2.0
 * @category errors
 */
export class ServerNotFound
  extends Schema.TaggedError<ServerNotFound>("effect-dgen/Inspect/ServerNotFound")("ServerNotFound", {
    tuid: Schema.String
  })
{
  override get message(): string {
    return `there is no server ${this.tuid}: it has ended, was killed, or has another tuid. List them again`
  }
}

/**
 * What was asked would wake a server, and nothing in the tenant says of what kind it is. Nothing was written.
 *
 * @since 0.2.0
 * @category errors
 */
export class DefinitionUnknown
  extends Schema.TaggedError<DefinitionUnknown>("effect-dgen/Inspect/DefinitionUnknown")("DefinitionUnknown", {
    tuid: Schema.String,
    server: Schema.UndefinedOr(Schema.String),
    problem: Schema.String
  })
{
  override get message(): string {
    return `the server ${this.tuid} cannot be woken: ${this.problem}`
  }
}

/**
 * A message cannot be sent to the server: its definition has no cast of that name, or it takes another payload. Nothing
 * was written.
 *
 * @since 0.2.0
 * @category errors
 */
export class InvalidMessage
  extends Schema.TaggedError<InvalidMessage>("effect-dgen/Inspect/InvalidMessage")("InvalidMessage", {
    server: Schema.String,
    tag: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: "${this.tag}" cannot be cast: ${this.problem}`
  }
}

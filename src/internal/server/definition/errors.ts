/**
 * What can go wrong with a server: typed errors that name the server, the message (`tag`) and the field, and say what
 * to do.
 */
import * as Schema from "effect/Schema"

/**
 * A call had no answer within its time limit. Its message stays queued and will still be handled.
 *
 * @since 0.1.0
 * @category errors
 */
export class CallTimeout extends Schema.TaggedError<CallTimeout>("effect-dgen/DgenServer/CallTimeout")("CallTimeout", {
  server: Schema.String,
  tag: Schema.String,
  timeoutMillis: Schema.Number
}) {
  override get message(): string {
    return `${this.server}: no answer to "${this.tag}" within ${this.timeoutMillis} ms. The message stays queued and is still handled`
  }
}

/**
 * The handler of a priority call died, or the answer of a call does not fit its schema or a transaction.
 *
 * @since 0.1.0
 * @category errors
 */
export class HandlerCrashed
  extends Schema.TaggedError<HandlerCrashed>("effect-dgen/DgenServer/HandlerCrashed")("HandlerCrashed", {
    server: Schema.String,
    tag: Schema.String,
    cause: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: the handler of "${this.tag}" crashed: ${this.cause}`
  }
}

/**
 * The message was taken off the queue, because handling it failed as often as the server's `deadLetterThreshold` says.
 * It lies with the dead letters: requeue it when the cause is fixed.
 *
 * @since 0.1.0
 * @category errors
 */
export class DeadLettered
  extends Schema.TaggedError<DeadLettered>("effect-dgen/DgenServer/DeadLettered")("DeadLettered", {
    server: Schema.String,
    tag: Schema.String,
    attempts: Schema.Number,
    cause: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: handling "${this.tag}" failed ${this.attempts} times, it is now a dead letter: ${this.cause}`
  }
}

/**
 * The lock of the message was broken while its locked handler ran: what the handler came to was not written, but what it
 * did to the world has happened. With `requeued` the message will be handled again.
 *
 * @since 0.1.0
 * @category errors
 */
export class LockFenced extends Schema.TaggedError<LockFenced>("effect-dgen/DgenServer/LockFenced")("LockFenced", {
  server: Schema.String,
  tag: Schema.String,
  requeued: Schema.Boolean
}) {
  override get message(): string {
    return `${this.server}: the lock of "${this.tag}" was broken before its handler ended: its outcome was not written` +
      (this.requeued ? ", and the message is handled again" : ". Send it again if it must be handled")
  }
}

/**
 * A message that came past the queue asked for the lock while it is held. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class Locked extends Schema.TaggedError<Locked>("effect-dgen/DgenServer/Locked")("Locked", {
  server: Schema.String,
  tag: Schema.String
}) {
  override get message(): string {
    return `${this.server}: "${this.tag}" asks for the lock, and it is held: call it through the queue, or try again`
  }
}

/**
 * This process's handle of the server has stopped. The durable server stays: start it again.
 *
 * @since 0.1.0
 * @category errors
 */
export class ServerStopped
  extends Schema.TaggedError<ServerStopped>("effect-dgen/DgenServer/ServerStopped")("ServerStopped", {
    server: Schema.String,
    reason: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: stopped in this process: ${this.reason}. Its state and queue stay: start it again`
  }
}

/**
 * The server has no state in the store any more. Only a new start brings it back.
 *
 * @since 0.1.0
 * @category errors
 */
export class ServerKilled
  extends Schema.TaggedError<ServerKilled>("effect-dgen/DgenServer/ServerKilled")("ServerKilled", {
    server: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: has no state in the store any more. Start it to initialise it again`
  }
}

/**
 * A message is larger than fits a transaction. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class PayloadTooLarge
  extends Schema.TaggedError<PayloadTooLarge>("effect-dgen/DgenServer/PayloadTooLarge")("PayloadTooLarge", {
    server: Schema.String,
    tag: Schema.String,
    bytes: Schema.Number,
    limitBytes: Schema.Number
  })
{
  override get message(): string {
    return `${this.server}: "${this.tag}" has ${this.bytes} bytes, and at most ${this.limitBytes} fit: send a reference to the data instead`
  }
}

/**
 * A payload does not fit its message's schema. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidPayload
  extends Schema.TaggedError<InvalidPayload>("effect-dgen/DgenServer/InvalidPayload")("InvalidPayload", {
    server: Schema.String,
    tag: Schema.String,
    field: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: the payload of "${this.tag}"${
      this.field === "" ? "" : ` at "${this.field}"`
    } does not fit its schema: ${this.problem}`
  }
}

/**
 * A message that the server's protocol does not have, or not of this kind. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnknownMessage
  extends Schema.TaggedError<UnknownMessage>("effect-dgen/DgenServer/UnknownMessage")("UnknownMessage", {
    server: Schema.String,
    tag: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: "${this.tag}": ${this.problem}`
  }
}

/**
 * A tuid cannot be a key. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidTuid extends Schema.TaggedError<InvalidTuid>("effect-dgen/DgenServer/InvalidTuid")("InvalidTuid", {
  server: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `${this.server}: the tuid cannot be used: ${this.problem}`
  }
}

/**
 * An option cannot be used. Nothing was started.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidOption
  extends Schema.TaggedError<InvalidOption>("effect-dgen/DgenServer/InvalidOption")("InvalidOption", {
    server: Schema.String,
    option: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: the option "${this.option}" ${this.problem}`
  }
}

/**
 * The tuid, or the name, belongs to another definition. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class DefinitionMismatch
  extends Schema.TaggedError<DefinitionMismatch>("effect-dgen/DgenServer/DefinitionMismatch")("DefinitionMismatch", {
    server: Schema.String,
    stored: Schema.String,
    tuid: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: the tuid ${this.tuid} belongs to ${this.stored}. Use another tuid, or another name`
  }
}

/**
 * The defect of a callback that waited for something other than its transaction.
 *
 * @since 0.1.0
 * @category errors
 */
export class ImpureCallback extends Schema.TaggedError<ImpureCallback>("effect-dgen/DgenServer/ImpureCallback")(
  "ImpureCallback",
  {
    server: Schema.String,
    tag: Schema.String
  }
) {
  override get message(): string {
    return `${this.server}: the handler of "${this.tag}" waits for something outside its transaction. Handlers can run ` +
      "many times: do it in an action"
  }
}

/**
 * The index of servers is not complete: the tenant has servers of an earlier version of this library that nobody has
 * entered yet. A host or a started server enters them in the background.
 *
 * @since 0.2.0
 * @category errors
 */
export class IndexIncomplete
  extends Schema.TaggedError<IndexIncomplete>("effect-dgen/DgenServer/IndexIncomplete")("IndexIncomplete", {
    server: Schema.String
  })
{
  override get message(): string {
    return `${this.server}: the index of servers is not complete yet: an earlier version made some. Start or host a server ` +
      "with this version, and try again when it has entered them"
  }
}

/**
 * What can go wrong with a server: typed errors that name the server, its tuid as text, the message (`tag`) and the
 * field, and say what to do.
 */
import * as Schema from "effect/Schema"

/**
 * A call had no answer within its time limit. What became of its message is not known: it may have been handled, or be
 * under way. One that waits in the queue stays there until a process runs the server.
 *
 * @since 0.1.0
 * @category errors
 */
export class CallTimeout extends Schema.TaggedError<CallTimeout>("effect-dgen/DgenServer/CallTimeout")("CallTimeout", {
  server: Schema.String,
  tuid: Schema.String,
  tag: Schema.String,
  timeoutMillis: Schema.Number
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: no answer to "${this.tag}" within ${this.timeoutMillis} ms. If it waits in the ` +
      "queue, it stays there until a process runs the server. Look whether it was handled before you send it again"
  }
}

/**
 * The handler of a priority call died, or a locked handler where no `deadLetterThreshold` is set, or the answer of a call
 * does not fit its schema or a transaction.
 *
 * @since 0.1.0
 * @category errors
 */
export class HandlerCrashed
  extends Schema.TaggedError<HandlerCrashed>("effect-dgen/DgenServer/HandlerCrashed")("HandlerCrashed", {
    server: Schema.String,
    tuid: Schema.String,
    tag: Schema.String,
    cause: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: the handler of "${this.tag}" crashed: ${this.cause}`
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
    tuid: Schema.String,
    tag: Schema.String,
    attempts: Schema.Number,
    cause: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: handling "${this.tag}" failed ${this.attempts} times, it is now a dead letter: ${this.cause}`
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
  tuid: Schema.String,
  tag: Schema.String,
  requeued: Schema.Boolean
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: the lock of "${this.tag}" was broken before its handler ended: its outcome was not written` +
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
  tuid: Schema.String,
  tag: Schema.String
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: "${this.tag}" asks for the lock, and it is held: call it through the queue, or try again`
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
    tuid: Schema.String,
    reason: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: stopped in this process: ${this.reason}. Its state and queue stay: start it again`
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
    server: Schema.String,
    tuid: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: has no state in the store any more. Start it to initialise it again`
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
    tuid: Schema.String,
    tag: Schema.String,
    bytes: Schema.Number,
    limitBytes: Schema.Number
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: "${this.tag}" has ${this.bytes} bytes, and at most ${this.limitBytes} fit: send a reference to the data instead`
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
    tuid: Schema.String,
    tag: Schema.String,
    field: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: the payload of "${this.tag}"${
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
    tuid: Schema.String,
    tag: Schema.String,
    problem: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: "${this.tag}": ${this.problem}`
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
 * A call of a server to itself that would wait for its own end: it has to go through the queue, and the queue waits for the
 * action, the locked handler or the dead-letter handler that calls. Nothing was written. Send a cast, or use `priorityCall`.
 *
 * @since 0.1.0
 * @category errors
 */
export class WouldDeadlock
  extends Schema.TaggedError<WouldDeadlock>("effect-dgen/DgenServer/WouldDeadlock")("WouldDeadlock", {
    server: Schema.String,
    tuid: Schema.String,
    tag: Schema.String
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: an action or a locked handler of this very server calls "${this.tag}" through the queue, which ` +
      "waits for it to end: it would wait for itself. Send a cast, or use priorityCall"
  }
}

/**
 * The defect of an action, or of a dead-letter handler, that took longer than the server's `actionTimeout`.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActionTimeout
  extends Schema.TaggedError<ActionTimeout>("effect-dgen/DgenServer/ActionTimeout")("ActionTimeout", {
    server: Schema.String,
    tuid: Schema.String,
    what: Schema.String,
    timeoutMillis: Schema.Number
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: ${this.what} took longer than the actionTimeout of ${this.timeoutMillis} ms and was ended. What ` +
      "takes long belongs into a background job"
  }
}

/**
 * The defect of a callback that ran on, in steps, for longer than a transaction may take (5 seconds).
 *
 * @since 0.1.0
 * @category errors
 */
export class CallbackTooLong extends Schema.TaggedError<CallbackTooLong>("effect-dgen/DgenServer/CallbackTooLong")(
  "CallbackTooLong",
  {
    server: Schema.String,
    tuid: Schema.String,
    tag: Schema.String,
    ranMillis: Schema.Number,
    limitMillis: Schema.Number
  }
) {
  override get message(): string {
    return `${this.server} ${this.tuid}: the handler of "${this.tag}" has computed for ${this.ranMillis} ms when its transaction came to ` +
      `its limit of ${this.limitMillis} ms, and was ended. Do less in one message, or compute in an action or under a lock`
  }
}

/**
 * The defect of a callback that waited for something other than its transaction, or used an `operation` that would take
 * effect outside of it.
 *
 * @since 0.1.0
 * @category errors
 */
export class ImpureCallback extends Schema.TaggedError<ImpureCallback>("effect-dgen/DgenServer/ImpureCallback")(
  "ImpureCallback",
  {
    server: Schema.String,
    tuid: Schema.String,
    tag: Schema.String,
    operation: Schema.optionalKey(Schema.String)
  }
) {
  override get message(): string {
    const handler = `${this.server} ${this.tuid}: the handler of "${this.tag}"`
    return this.operation === undefined
      ? `${handler} waits for something outside its transaction. Handlers can run many times: do it in an action`
      : `${handler} uses ${this.operation}, which is not part of its transaction and would happen with each of its runs: ` +
        "send with castTx, read and write with Transaction, or do it in an action"
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

/**
 * A server has as many timers as its definition's `maxTimers` allows. Nothing was set.
 *
 * @since 0.2.0
 * @category errors
 */
export class TooManyTimers
  extends Schema.TaggedError<TooManyTimers>("effect-dgen/DgenServer/TooManyTimers")("TooManyTimers", {
    server: Schema.String,
    tuid: Schema.String,
    limit: Schema.Number
  })
{
  override get message(): string {
    return `${this.server} ${this.tuid}: it has ${this.limit} timers already, as many as it may: cancel some, or raise maxTimers`
  }
}

/**
 * As many messages wait for a server as its definition's `maxQueueLength` allows, or fewer, and these do not fit beside
 * them. Nothing was written: send again later. A handler that does not catch it runs again after a pause.
 *
 * @since 0.2.0
 * @category errors
 */
export class QueueFull extends Schema.TaggedError<QueueFull>("effect-dgen/DgenServer/QueueFull")("QueueFull", {
  server: Schema.String,
  tuid: Schema.String,
  length: Schema.Number,
  limit: Schema.Number
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: ${this.length} messages wait, and at most ${this.limit} may: send again later, or raise ` +
      "maxQueueLength"
  }
}

/**
 * The key has been used on this server with another message, or another payload. Nothing was handled: this message must
 * have a key of its own.
 *
 * @since 0.2.0
 * @category errors
 */
export class KeyReused extends Schema.TaggedError<KeyReused>("effect-dgen/DgenServer/KeyReused")("KeyReused", {
  server: Schema.String,
  tuid: Schema.String,
  tag: Schema.String,
  key: Schema.String
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: the key of "${this.tag}", ${
      JSON.stringify(this.key)
    }, belongs to another message or ` +
      "payload: what is sent again must be the same, and what is not needs a key of its own"
  }
}

/**
 * A server has as many keys as its definition's `maxKeys` allows, and the message has a new one. It was not handled.
 *
 * @since 0.2.0
 * @category errors
 */
export class TooManyKeys extends Schema.TaggedError<TooManyKeys>("effect-dgen/DgenServer/TooManyKeys")("TooManyKeys", {
  server: Schema.String,
  tuid: Schema.String,
  tag: Schema.String,
  limit: Schema.Number
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: "${this.tag}" has a new key, and there are ${this.limit} already, as many as there may ` +
      "be: send it again later, or shorten keyRetention"
  }
}

/**
 * Messages on their way to a server: checked against its protocol, encoded, and pushed. What does not fit is refused
 * before anything is written, with the field and what to do.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { VALUE_LIMIT_BYTES } from "../../../Backend.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { codecOf } from "../../data/codec.ts"
import { show } from "../../data/show.ts"
import { traceOf } from "../../data/trace.ts"
import * as Envelopes from "../../queue/envelope.ts"
import * as Queue from "../../queue/queue.ts"
import { PIECE_BYTES } from "../../tenant/limits.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { InvalidOption, InvalidPayload, PayloadTooLarge, QueueFull, UnknownMessage } from "../definition/errors.ts"
import type { CastInput, Definition, Kind, Message } from "../definition/model.ts"
import { identityOf, ServerKeys } from "../kept/layout.ts"

/** The longest message: it leaves room in a transaction for the state it changes. */
export const MESSAGE_LIMIT_BYTES = 50 * VALUE_LIMIT_BYTES

/** Messages that are sent together share a transaction, with room for what else it writes. */
const TOGETHER_LIMIT_BYTES = 9_000_000

/** What a piece of a queued message is charged beside its bytes: its key three times, and its share of a counter. */
const KEYS_BYTES = 512

/** Whom a message is sent to. */
export interface Recipient {
  readonly definition: Definition
  readonly keys: ServerKeys
}

/** A checked message; `data` is its payload as plain data. */
export interface Checked {
  readonly message: Message
  readonly data: unknown
  readonly key?: string | undefined
}

type Refused = InvalidPayload | UnknownMessage | InvalidOption

/** The key that the options of a message say, if they do. */
export const checkKey = (server: string, options: unknown): Result.Result<string | undefined, InvalidOption> => {
  const refused = (option: string, problem: string) => Result.fail(new InvalidOption({ server, option, problem }))
  if (options === undefined) return Result.succeed(undefined)
  if (!Predicate.isObject(options)) return refused("options", `must be an object, not ${show(options)}`)
  const { key } = options as { readonly key?: unknown }
  return key === undefined || Envelopes.isKey(key)
    ? Result.succeed(key)
    : refused("key", `must be a text of 1 to ${Envelopes.KEY_LIMIT_BYTES} bytes, not ${show(key)}`)
}

/** Checks a message against a protocol. */
export const check = (
  who: Recipient,
  kinds: ReadonlyArray<Kind>,
  operation: string,
  tag: string,
  payload: unknown
): Result.Result<Checked, Refused> => {
  const { definition } = who
  const message = typeof tag === "string" ? definition.messages.get(tag) : undefined
  if (message === undefined || !kinds.includes(message.kind)) {
    const known = [...definition.messages.values()].filter((other) => kinds.includes(other.kind)).map((m) => m.tag)
    const problem = message === undefined ? `there is no such message` : `it is a ${message.kind}`
    return Result.fail(
      new UnknownMessage({
        ...identityOf(who),
        tag: show(tag),
        problem: `${operation} cannot send it: ${problem}. It takes one of: ${known.join(", ")}`
      })
    )
  }
  if (message.payload === undefined) {
    return payload === undefined
      ? Result.succeed({ message, data: null })
      : Result.fail(
        new InvalidPayload({ ...identityOf(who), tag, field: "", problem: "this message takes no payload" })
      )
  }
  return Result.match(codecOf(message.payload).encode(payload), {
    onFailure: ({ field, problem }) => Result.fail(new InvalidPayload({ ...identityOf(who), tag, field, problem })),
    onSuccess: (data) => Result.succeed({ message, data })
  })
}

/** The bytes of a checked message. */
export const toBytes = (
  who: Recipient,
  checked: Checked,
  caller: Envelopes.Caller | undefined,
  sent: Sent
): Result.Result<Uint8Array, PayloadTooLarge | InvalidPayload> => {
  const { tag } = checked.message
  const packed = Result.mapError(
    Envelopes.tryEncode({
      tag,
      payload: checked.data,
      caller,
      server: who.definition.name,
      key: checked.key,
      ...sent
    }),
    (problem) => new InvalidPayload({ ...identityOf(who), tag, ...problem })
  )
  return Result.flatMap(
    packed,
    (bytes): Result.Result<Uint8Array, PayloadTooLarge> =>
      bytes.length <= MESSAGE_LIMIT_BYTES ? Result.succeed(bytes) : Result.fail(
        new PayloadTooLarge({ ...identityOf(who), tag, bytes: bytes.length, limitBytes: MESSAGE_LIMIT_BYTES })
      )
  )
}

/** Pushes encoded messages and wakes this process's consumer. */
export const push = (
  state: TransactionState,
  keys: ServerKeys,
  items: ReadonlyArray<Uint8Array>,
  attempts = 0
): void => {
  for (const item of items) Queue.push(state, keys, item, attempts)
  if (items.length > 0) keys.ring(state)
}

/**
 * Refuses messages that a server has no room for. Nothing is read of a server without a limit; the look is by snapshot, so
 * pushes conflict with nobody. A handler is not refused by its own server's queue: it would wait for itself.
 */
export const room = (
  state: TransactionState,
  who: Recipient,
  count: number
): Effect.Effect<void, QueueFull> => {
  const limit = who.definition.maxQueueLength
  if (limit === Infinity || count === 0 || isSelf(state, who)) return Effect.void
  return Effect.flatMap(Queue.length(state, who.keys), (length) =>
    length + count <= limit
      ? Effect.void
      : Effect.fail(new QueueFull({ ...identityOf(who), length, limit })))
}

/** What looks for room, of a server that has a limit. */
export const roomOf = (who: Recipient, count: number) =>
  who.definition.maxQueueLength === Infinity ? undefined : (state: TransactionState) => room(state, who, count)

/** Where and when a message is sent. */
export type Sent = Pick<Envelopes.Envelope, "trace" | "millis">

/** The span that the current fiber is in, and the time. */
export const sentNow: Effect.Effect<Sent> = Effect.withFiber((fiber) =>
  Effect.succeed({
    trace: traceOf(fiber.context),
    millis: fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()
  })
)

/** A cast's tag, payload and options: one without a payload may have its options in the payload's place. */
const argumentsOf = ({ messages }: Definition, message: CastInput): CastInput => {
  const [tag, payload, options] = message
  const takesNone = messages.has(tag) && messages.get(tag)!.payload === undefined
  return takesNone && options === undefined && isKeyAlone(payload) ? [tag, undefined, payload] : message
}

const isKeyAlone = (value: unknown): boolean => Predicate.isObject(value) && Object.keys(value).join() === "key"

/** Checks and encodes casts, all or none. */
export const encodeCasts = (
  who: Recipient,
  operation: string,
  messages: ReadonlyArray<CastInput>,
  sent: Sent
): Result.Result<Array<Uint8Array>, Refused | PayloadTooLarge> => {
  const items: Array<Uint8Array> = []
  const noMessage = (value: unknown) =>
    Result.fail(
      new UnknownMessage({
        ...identityOf(who),
        tag: show(value),
        problem: `${operation} cannot send it: it takes an array of messages, each [tag, payload]`
      })
    )
  if (!Array.isArray(messages)) return noMessage(messages)
  for (const message of messages) {
    if (!Array.isArray(message)) return noMessage(message)
    const [tag, payload, options] = argumentsOf(who.definition, message as unknown as CastInput)
    const bytes = Result.flatMap(
      checkKey(who.definition.name, options) as Result.Result<string | undefined, Refused | PayloadTooLarge>,
      (key) =>
        Result.flatMap(
          check(who, ["cast"], operation, tag, payload) as Result.Result<Checked, Refused | PayloadTooLarge>,
          (checked) => toBytes(who, { ...checked, key }, undefined, sent)
        )
    )
    if (Result.isFailure(bytes)) return Result.fail(bytes.failure)
    items.push(bytes.success)
  }
  const bytes = items.reduce((sum, item) => sum + item.length + KEYS_BYTES * Math.ceil(item.length / PIECE_BYTES), 0)
  return bytes <= TOGETHER_LIMIT_BYTES ? Result.succeed(items) : Result.fail(
    new PayloadTooLarge({ ...identityOf(who), tag: operation, bytes, limitBytes: TOGETHER_LIMIT_BYTES })
  )
}

/** Casts as part of a transaction. */
export const castAllTx = (
  definition: Definition,
  tuid: Tuple.Tuple,
  operation: string,
  messages: ReadonlyArray<CastInput>
): Effect.Effect<void, Refused | PayloadTooLarge | QueueFull, Transaction> =>
  Effect.flatMap(Transaction, (state) =>
    Effect.flatMap(sentNow, (sent) => {
      const who = { definition, keys: new ServerKeys(state.prefix, tuid, definition) }
      return Effect.flatMap(
        Effect.fromResult(encodeCasts(who, operation, messages, sent)),
        (items) =>
          Effect.flatMap(room(state, who, items.length), () => {
            push(state, who.keys, items)
            return Queue.done(state)
          })
      )
    }))

const SELF = Symbol("effect-dgen/server/self")

/** Says whose handlers a transaction runs. */
export const runsFor = (state: TransactionState, definition: Definition, tuid: Tuple.Tuple): void =>
  state.keep(SELF, { definition, tuid } satisfies Self)

interface Self {
  readonly definition: Definition
  readonly tuid: Tuple.Tuple
}

/** Whether a transaction runs the handlers of this very server. */
const isSelf = (state: TransactionState, { definition, keys }: Recipient): boolean => {
  const running = state.kept<Self>(SELF)
  return running?.definition === definition && Tuple.equalsBytes(Tuple.pack(running.tuid), Tuple.pack(keys.tuid))
}

/** The tuid of the server whose handler runs; a defect outside of one. */
export const self = (
  definition: Definition,
  operation: string
): Effect.Effect<Tuple.Tuple, never, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    const running = state.kept<Self>(SELF)
    return running?.definition === definition
      ? Effect.succeed(running.tuid)
      : Effect.die(new TypeError(`${definition.name}.${operation}: only a handler of ${definition.name} has a self`))
  })

/** Casts to the server whose handler runs. */
export const castSelfTx = (
  definition: Definition,
  operation: string,
  messages: ReadonlyArray<CastInput>
): Effect.Effect<void, Refused | PayloadTooLarge | QueueFull, Transaction> =>
  Effect.flatMap(self(definition, operation), (tuid) => castAllTx(definition, tuid, operation, messages))

/**
 * A durable first-in-first-out queue with its dead letters: what a server's messages lie in. All operations are
 * transaction effects, so that a push or a take commits with whatever else its transaction writes.
 *
 * Items are ordered by the commits that pushed them, and within one commit by the order of the pushes. Pushes never
 * conflict with each other, nor with a consumer; two consumers that take the same item conflict, and one of them runs
 * again. A server's queue is named by the server's `queue`; what you push there yourself must be messages of that
 * server, so for sending use `cast` and `castTx`, and this module for looking and for its dead letters.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { InvalidArgument } from "./BackendError.ts"
import { show } from "./internal/data/show.ts"
import { messageOfThrown } from "./internal/data/thrown.ts"
import * as DeadLetters from "./internal/queue/deadLetters.ts"
import * as Envelopes from "./internal/queue/envelope.ts"
import { isLocated, keysOf, type Located, type QueueKeys, type Shown, shownOf } from "./internal/queue/layout.ts"
import * as Pieces from "./internal/queue/pieces.ts"
import * as Queue from "./internal/queue/queue.ts"
import type { TransactionState } from "./internal/transactions/state.ts"
import { changesOf, watchKey } from "./internal/transactions/watching.ts"
import { Transaction, type Watch } from "./Transaction.ts"

/** So many items fit a transaction that takes or lists them. */
const LIMIT_DEFAULT = 100
const LIMIT_LIMIT = 1_000

/** So much of a wrong argument is enough to know it by. */
const SHOWN_CHARACTERS = 60

/**
 * A queue, as a server names it.
 *
 * @since 0.1.0
 * @category models
 */
export interface DurableQueue extends Located {}

/**
 * An item that was taken: `id` tells it from all others of its queue, and later items have greater ones; `attempts` is
 * how often handling it has failed.
 *
 * @since 0.1.0
 * @category models
 */
export interface Item {
  readonly id: string
  readonly attempts: number
  readonly bytes: Uint8Array
}

/**
 * A message that was taken off the queue because handling it failed too often: its tag and
 * payload (as plain data; `undefined` when the bytes cannot be read), how often it was tried, when it died, and why. Parts
 * of the payload that its schema redacts are `Redacted` values, and `bytes`, in which they are in clear, is not enumerable
 * then.
 *
 * @since 0.1.0
 * @category models
 */
export interface DeadLetter {
  readonly id: string
  readonly tag: string | undefined
  readonly payload: unknown
  readonly attempts: number
  readonly at: DateTime.Utc
  readonly cause: string
  readonly bytes: Uint8Array
}

/**
 * There is no dead letter of that id in the queue. Nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class DeadLetterNotFound
  extends Schema.TaggedError<DeadLetterNotFound>("effect-dgen/DurableQueue/DeadLetterNotFound")("DeadLetterNotFound", {
    id: Schema.String
  })
{
  override get message(): string {
    return `there is no dead letter ${this.id}: it was requeued or deleted, or it is another queue's. List them again`
  }
}

const using = <A, E>(
  queue: DurableQueue,
  use: (state: TransactionState, keys: QueueKeys) => Effect.Effect<A, E>
): Effect.Effect<A, E, Transaction> =>
  Effect.flatMap(Transaction, (state) => {
    if (!isLocated(queue)) return refuse(state, "the first argument must be a queue of a server")
    const keys = Result.try({ try: () => keysOf(queue, state.prefix), catch: messageOfThrown })
    return Result.isFailure(keys) ? refuse(state, keys.failure) : use(state, keys.success)
  })

const refuse = (state: TransactionState, problem: string, operation = ""): Effect.Effect<never> => {
  state.fail(new InvalidArgument({ message: `DurableQueue${operation}: ${problem}` }))
  return Effect.die(state.failure)
}

/** Runs what only writes; what is refused fails the try. */
const writing = (
  queue: DurableQueue,
  use: (state: TransactionState, keys: QueueKeys) => void
): Effect.Effect<void, never, Transaction> =>
  using(queue, (state, keys) => {
    use(state, keys)
    return state.failure === undefined ? Effect.void : Effect.die(state.failure)
  })

/** What is wrong with a limit, if it is none. */
const problemOfLimit = (limit: unknown): string | undefined =>
  Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= LIMIT_LIMIT
    ? undefined
    : `the limit must be a whole number from 1 to ${LIMIT_LIMIT}, not ${show(limit)}`

/**
 * Adds items at the end, in their order.
 *
 * @since 0.1.0
 * @category pushing
 */
export const pushAll = (
  queue: DurableQueue,
  items: ReadonlyArray<Uint8Array>
): Effect.Effect<void, never, Transaction> =>
  using(queue, (state, keys) => {
    if (!Array.isArray(items) || !Array.from(items).every((item) => item instanceof Uint8Array)) {
      return refuse(state, "the items must be an array of Uint8Arrays", ".pushAll")
    }
    for (const item of items) Queue.push(state, keys, item)
    if (items.length > 0) keys.ring(state)
    return state.failure === undefined ? Effect.void : Effect.die(state.failure)
  })

/**
 * Takes the first items, at most `limit` (1 to 1,000), oldest first.
 *
 * @since 0.1.0
 * @category taking
 */
export const consume = (
  queue: DurableQueue,
  limit: number
): Effect.Effect<ReadonlyArray<Item>, never, Transaction> =>
  using(queue, (state, keys) => {
    const problem = problemOfLimit(limit)
    if (problem !== undefined) return refuse(state, problem, ".consume")
    return Effect.map(Queue.peek(state, keys, limit), (items) => {
      Queue.take(state, keys, items)
      return items.map(({ attempts, message, stamp }): Item => ({
        id: Pieces.stampText(stamp),
        attempts,
        bytes: new Uint8Array(message)
      }))
    })
  })

/**
 * How many items wait, or are under the lock of their server. By snapshot: it conflicts with nobody.
 *
 * @since 0.1.0
 * @category looking
 */
export const length = (queue: DurableQueue): Effect.Effect<number, never, Transaction> => using(queue, Queue.length)

/**
 * A watch that fires when something is pushed, armed when this transaction commits: await its `changed` afterwards.
 * Make it in a transaction that writes nothing, because a watch is a read conflict.
 *
 * @since 0.1.0
 * @category looking
 */
export const watchPush = (queue: DurableQueue): Effect.Effect<Watch, never, Transaction> =>
  using(queue, (state, keys) => Effect.sync(() => changesOf(watchKey(state, keys.push))))

const delete_ = (queue: DurableQueue): Effect.Effect<void, never, Transaction> => writing(queue, Queue.remove)

export {
  /**
   * Removes all items, dead letters and counters.
   *
   * @since 0.1.0
   * @category deleting
   */
  delete_ as delete
}

/**
 * The first dead letters, at most `limit` (1 to 1,000, default 100), in the order in which they died, after the one with
 * the id `after` if it is given. By snapshot: looking conflicts with nobody. A limit or an `after` that is none fails the
 * transaction with `InvalidArgument`. A row that cannot be read is listed too, with its bytes, so that it can be deleted.
 *
 * **Example** (A message that cannot be handled)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Logger, Schema } from "effect"
 * import { DgenServer, DurableQueue, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Parser extends DgenServer.Service<Parser>()("Parser", {
 *   state: Schema.Array(Schema.Int),
 *   messages: { Parse: DgenServer.call({ payload: { text: Schema.String } }) }
 * }) {}
 *
 * const behaviour = Parser.behaviour({
 *   init: Effect.succeed([]),
 *   // JSON.parse throws
 *   handlers: { Parse: ({ text }, parsed) => DgenServer.reply(undefined, [...parsed, JSON.parse(text)]) }
 * })
 *
 * const program = Effect.gen(function*() {
 *   const parser = yield* Parser.start(behaviour, { tuid: ["Parser"], deadLetterThreshold: 2 })
 *   const error = yield* Effect.flip(parser.call("Parse", { text: "one" }))
 *   const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(Parser.queue()))
 *   return [error._tag, letters.map(({ attempts, payload, tag }) => ({ tag, payload, attempts }))]
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide([TestStore, Logger.layer([])])))
 * // => ["DeadLettered", [{ tag: "Parse", payload: { text: "one" }, attempts: 2 }]]
 * ```
 *
 * @since 0.1.0
 * @category dead letters
 */
export const peekDeadLetters = (
  queue: DurableQueue,
  options: { readonly limit?: number | undefined; readonly after?: string | undefined } = {}
): Effect.Effect<ReadonlyArray<DeadLetter>, never, Transaction> =>
  using(queue, (state, keys) => {
    const problem = Predicate.isObject(options) ? problemOfPeek(keys, options) : `the options must be an object`
    if (problem !== undefined) return refuse(state, problem, ".peekDeadLetters")
    const { after, limit = LIMIT_DEFAULT } = options
    return Effect.map(DeadLetters.peek(state, keys, limit, after), (rows) =>
      rows.map((row) => deadLetterOf(row, shownOf(queue))))
  })

const problemOfPeek = (
  keys: QueueKeys,
  { after, limit = LIMIT_DEFAULT }: { readonly limit?: unknown; readonly after?: unknown }
) =>
  after === undefined || (typeof after === "string" && DeadLetters.isName(keys, after))
    ? problemOfLimit(limit)
    : `after must be the id of a dead letter of an earlier list, not ${show(after).slice(0, SHOWN_CHARACTERS)}`

const deadLetterOf = (row: DeadLetters.DeadRow, shown: Shown): DeadLetter => {
  const envelope = Result.getOrUndefined(Envelopes.decode(row.message))
  const payload = shown(envelope?.tag, envelope?.payload)
  const letter = {
    id: row.id,
    tag: envelope?.tag,
    payload,
    attempts: row.attempts,
    at: DateTime.makeUnsafe(row.millis),
    cause: row.cause
  }
  // what the payload hides is in the bytes in clear: who prints the letter does not print them
  const bytes = { value: row.message, enumerable: payload === envelope?.payload }
  return Object.defineProperty(letter, "bytes", bytes) as unknown as DeadLetter
}

/**
 * How many dead letters there are. By snapshot: it conflicts with nobody.
 *
 * @since 0.1.0
 * @category dead letters
 */
export const deadLetterCount = (queue: DurableQueue): Effect.Effect<number, never, Transaction> =>
  using(queue, (state, keys) => Queue.count(state, keys.deadCount))

/**
 * Moves a dead letter back to the end of the queue, with no attempts behind it, for when the cause is fixed. Fails with
 * `DeadLetterNotFound`.
 *
 * **Example** (Handling it when the handler is mended)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Logger, Schema } from "effect"
 * import { DgenServer, DurableQueue, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Parser extends DgenServer.Service<Parser>()("Parser", {
 *   state: Schema.Array(Schema.Int),
 *   messages: { Parse: DgenServer.call({ payload: { text: Schema.String } }) }
 * }) {}
 *
 * const parsing = (parse: (text: string) => number) =>
 *   Parser.behaviour({
 *     init: Effect.succeed([]),
 *     handlers: { Parse: ({ text }, parsed) => DgenServer.reply(undefined, [...parsed, parse(text)]) }
 *   })
 *
 * const program = Effect.gen(function*() {
 *   const options = { tuid: ["Parser"], deadLetterThreshold: 1 }
 *   const broken = Parser.start(parsing((text) => JSON.parse(text)), options)
 *   yield* Effect.scoped(Effect.flatMap(broken, (parser) => Effect.flip(parser.call("Parse", { text: "one" }))))
 *
 *   const queue = Parser.queue()
 *   const [letter] = yield* Tenant.transact(DurableQueue.peekDeadLetters(queue))
 *   yield* Tenant.transact(DurableQueue.requeueDeadLetter(queue, letter!.id))
 *
 *   const parser = yield* Parser.start(parsing((text) => text.length), options)
 *   yield* parser.call("Parse", { text: "twelve" })
 *   return yield* parser.state
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide([TestStore, Logger.layer([])])))
 * // => [3, 6]
 * ```
 *
 * @since 0.1.0
 * @category dead letters
 */
export const requeueDeadLetter = (
  queue: DurableQueue,
  id: string
): Effect.Effect<void, DeadLetterNotFound, Transaction> =>
  using(
    queue,
    (state, keys) => Effect.flatMap(DeadLetters.requeue(state, keys, id), (isFound) => unlessMissing(isFound, id))
  )

const unlessMissing = (isFound: boolean, id: string): Effect.Effect<void, DeadLetterNotFound> =>
  isFound ? Effect.void : Effect.fail(new DeadLetterNotFound({ id: show(id) }))

/**
 * Removes a dead letter for good. Fails with `DeadLetterNotFound`.
 *
 * @since 0.1.0
 * @category dead letters
 */
export const deleteDeadLetter = (
  queue: DurableQueue,
  id: string
): Effect.Effect<void, DeadLetterNotFound, Transaction> =>
  using(
    queue,
    (state, keys) => Effect.flatMap(DeadLetters.remove(state, keys, id), (row) => unlessMissing(row !== undefined, id))
  )

/**
 * Removes all dead letters for good.
 *
 * @since 0.1.0
 * @category dead letters
 */
export const purgeDeadLetters = (queue: DurableQueue): Effect.Effect<void, never, Transaction> =>
  writing(queue, DeadLetters.purge)

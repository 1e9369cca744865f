/**
 * The outcomes of handlers and what actions answer, as values with the types that keep one server's outcomes out of
 * another's.
 */
import type * as Effect from "effect/Effect"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"

/**
 * An action that an outcome asks for, of the server with the name `Server`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ActionRequest<out Server extends string = string> {
  readonly server: Server
  readonly tag: string
  readonly payload: unknown
}

/**
 * The outcome that answers a call.
 *
 * @since 0.1.0
 * @category models
 */
export interface Reply<out Value, out State, out Server extends string = never> {
  readonly _tag: "Reply"
  readonly value: Value
  readonly state: State
  readonly actions: ReadonlyArray<ActionRequest<Server>>
}

/**
 * The outcome that answers nothing.
 *
 * @since 0.1.0
 * @category models
 */
export interface NoReply<out State, out Server extends string = never> {
  readonly _tag: "NoReply"
  readonly state: State
  readonly actions: ReadonlyArray<ActionRequest<Server>>
}

/**
 * The outcome that stops this process's handle after the commit.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stop<out State, out Server extends string = never> {
  readonly _tag: "Stop"
  readonly reason: unknown
  readonly state: State
  readonly actions: ReadonlyArray<ActionRequest<Server>>
}

/**
 * The outcome that asks for the lock: the message's locked handler runs after the commit, outside of any transaction,
 * and no other queued message is handled until it ends.
 *
 * @since 0.1.0
 * @category models
 */
export interface Lock<out State> {
  readonly _tag: "Lock"
  readonly state: State
}

/**
 * What a locked handler returns to make its outcome from the state as it is when the lock ends.
 *
 * @since 0.1.0
 * @category models
 */
export interface Update<in State, out Outcome, out E> {
  readonly _tag: "Update"
  readonly apply: (state: State) => Outcome | Effect.Effect<Outcome, E, Transaction>
}

/**
 * The first state of a server whose `init` chooses its tuid.
 *
 * @since 0.1.0
 * @category models
 */
export interface At<out State> {
  readonly _tag: "At"
  readonly tuid: Tuple.Tuple
  readonly state: State
}

/**
 * In place of what a handler may not return. The one property that such a value would need is what the compiler says of
 * it.
 */
export interface ReplyRefused {
  readonly _tag: "Reply"
  readonly "only a call is answered: return noReply": never
}
export interface LockRefused {
  readonly _tag: "Lock"
  readonly "only a message that is defined with locks: true may lock": never
}
export interface SecondLockRefused {
  readonly _tag: "Lock"
  readonly "a locked handler holds the lock already: return reply, noReply or stop": never
}
export interface UpdateRefused {
  readonly _tag: "Update"
  readonly "only a locked handler may return update": never
}
export type StateRefused<State> = unknown extends State ? never : State & {
  readonly "a handler returns an outcome, as DgenServer.noReply(state) makes one, and not the state": never
}

const HaltTypeId = "~effect-dgen/DgenServer/Halt"

/**
 * What an action answers to skip the other actions of its message.
 *
 * @since 0.1.0
 * @category models
 */
export interface Halt {
  readonly [HaltTypeId]: typeof HaltTypeId
}

/**
 * What an action answers to skip the other actions of its message.
 *
 * **Example** (Nothing to deliver)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Post extends DgenServer.Service<Post>()("Post", {
 *   state: Schema.Int,
 *   messages: { Send: DgenServer.cast({ payload: { to: Schema.String } }) },
 *   actions: { Check: { to: Schema.String }, Deliver: { to: Schema.String } }
 * }) {}
 *
 * const behaviour = Post.behaviour({
 *   init: Effect.succeed(0),
 *   handlers: {
 *     Send: ({ to }, sent) =>
 *       DgenServer.noReply(sent + 1, [Post.action("Check", { to }), Post.action("Deliver", { to })])
 *   }
 * })
 *
 * const delivered: Array<string> = []
 * const PostActions = Post.actionsLayer({
 *   Check: ({ to }) => Effect.succeed(to === "nobody" ? DgenServer.halt : undefined),
 *   Deliver: ({ to }) => Effect.sync(() => void delivered.push(to))
 * })
 *
 * const PostLive = Post.layer(behaviour).pipe(
 *   Layer.provide([PostActions, Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))])
 * )
 *
 * const program = Effect.gen(function*() {
 *   const post = yield* Post
 *   yield* post.castAll([["Send", { to: "nobody" }], ["Send", { to: "ada" }]])
 *   yield* Effect.repeat(post.queueLength, { until: (waiting) => waiting === 0 })
 * })
 *
 * await Effect.runPromise(Effect.provide(program, PostLive))
 * delivered
 * // => ["ada"]
 * ```
 *
 * @since 0.1.0
 * @category outcomes
 */
export const halt: Halt = { [HaltTypeId]: HaltTypeId }

/** Whether an action answered `halt`. */
export const isHalt = (value: unknown): value is Halt => value === halt

const GoneTypeId = "~effect-dgen/DgenServer/Gone"

/**
 * What stands in place of the next state to end the server.
 *
 * @since 0.2.0
 * @category models
 */
export interface Gone {
  readonly [GoneTypeId]: typeof GoneTypeId
}

/**
 * What an outcome has in place of the next state to end the server: its state and its timers are deleted with this commit,
 * and its call is answered. What waits in its queue stays; the next message begins a new life with `init`, where the
 * server is hosted. The handle of a server that was started ends with `ServerKilled`.
 *
 * **Example** (An order that is done)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Order extends DgenServer.Service<Order>()("Order", {
 *   state: Schema.Struct({ items: Schema.Array(Schema.String) }),
 *   hosted: true,
 *   messages: {
 *     Add: DgenServer.cast({ payload: { item: Schema.String } }),
 *     Send: DgenServer.call({ success: Schema.Array(Schema.String) })
 *   }
 * }) {}
 *
 * const OrderHost = Order.hostLayer(Order.behaviour({
 *   init: Effect.succeed({ items: [] }),
 *   handlers: {
 *     Add: ({ item }, state) => DgenServer.noReply({ items: [...state.items, item] }),
 *     Send: (_, state) => DgenServer.reply(state.items, DgenServer.gone)
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const order = yield* Order.client({ tuid: ["order", 7] })
 *   yield* order.cast("Add", { item: "ink" })
 *   return [yield* order.call("Send"), yield* order.state, yield* Tenant.transact(Order.list())]
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.provide(OrderHost.pipe(Layer.provideMerge(TestStore)))))
 * // => [["ink"], undefined, []]
 * ```
 *
 * @since 0.2.0
 * @category outcomes
 */
export const gone: Gone = { [GoneTypeId]: GoneTypeId }

/** Whether a next state is none: the server ends. */
export const isGone = (value: unknown): value is Gone => value === gone

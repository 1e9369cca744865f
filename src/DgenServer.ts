/**
 * Durable, distributed servers in the `gen_server` model. A server is state plus a queue of messages in the store of a
 * tenant. It exists as long as they do: processes that run it come and go. Any number of processes can send to it, and
 * any number can consume.
 *
 * Handlers are pure: a transaction effect can require `Transaction` and nothing else, so that a batch of messages
 * commits its new state, its answers and the messages it took as one transaction. Side effects are actions: they run
 * after the commit that asked for them, in the process that committed, and are gone with it. Durable ones are kept in the
 * store until they have run.
 *
 * Messages that a client was told are sent are durable, and each is handled exactly once, in the order they were
 * committed. Info and priority messages are handled at once, past the queue. What you owe: handlers compute and use the
 * operations of `Transaction`, and nothing else; they can run many times before one run counts. A message that needs the
 * world before it can be answered asks for the lock: its locked handler runs between two commits, and may run twice.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ServiceClass } from "./internal/server/definition/api.ts"
import type * as Durables from "./internal/server/definition/durable.ts"
import { From as FromSchema } from "./internal/server/definition/from.ts"
import type * as Model from "./internal/server/definition/model.ts"
import type { ActionRequest, At, Lock, NoReply, Reply, Stop, Update } from "./internal/server/definition/outcome.ts"
import type * as D from "./internal/server/definition/protocol.ts"
import type { StateVersions } from "./internal/server/definition/versions.ts"
import * as Versions from "./internal/server/definition/versions.ts"
import * as Declaring from "./internal/server/durable/declaring.ts"
import * as Services from "./internal/server/service.ts"
import type { Transaction } from "./Transaction.ts"
import type * as Tuple from "./Tuple.ts"

export type {
  Behaviour,
  CallError,
  CastError,
  CastInput,
  CastLaterError,
  CastTxError,
  Client,
  HostedClient,
  KeyResult,
  KillableClient,
  LockInfo,
  PriorityError,
  Running,
  ServiceClass,
  StartError,
  TimerInfo
} from "./internal/server/definition/api.ts"
export type {
  Durable,
  DurableAction,
  DurableActions,
  DurableContext,
  DurableCounts,
  DurableListOptions,
  DurableOptions,
  DurablePage,
  DurableState,
  DurableWorkerOptions
} from "./internal/server/definition/durable.ts"
export {
  ActionTimeout,
  CallbackTooLong,
  CallTimeout,
  DeadLettered,
  DefinitionMismatch,
  HandlerCrashed,
  ImpureCallback,
  IndexIncomplete,
  InvalidOption,
  InvalidPayload,
  InvalidTuid,
  KeyReused,
  Locked,
  LockFenced,
  PayloadTooLarge,
  QueueFull,
  ServerKilled,
  ServerStopped,
  TooManyKeys,
  TooManyTimers,
  UnknownMessage,
  WouldDeadlock
} from "./internal/server/definition/errors.ts"
export type { ActionsOf, DeadLettersOf, Hosted, LockedOf, Needs } from "./internal/server/definition/needs.ts"
export type { HostOptions, Options, TimerOptions, Which, WhichHosted } from "./internal/server/definition/options.ts"
export { gone, halt } from "./internal/server/definition/outcome.ts"
export type {
  ActionRequest,
  At,
  Gone,
  Halt,
  Lock,
  NoReply,
  Reply,
  Stop,
  Update
} from "./internal/server/definition/outcome.ts"
export type {
  ActionContext,
  Call,
  Cast,
  HandlerContext,
  Info,
  LockedContext
} from "./internal/server/definition/protocol.ts"

export type { StateVersions } from "./internal/server/definition/versions.ts"
export { call, cast, info } from "./Protocol.ts"

/**
 * Who waits for an answer: a handler of a call gets it, and may keep it in the state, to answer later with `replyTo`.
 * `C` is the call, where the type says which (see `fromOf`); `any` is some call.
 *
 * @since 0.1.0
 * @category models
 */
export type From<C = any> = D.From<C>

/**
 * The state of a server, by its class.
 *
 * **Example** (Types of a definition)
 *
 * ```ts import.meta.vitest
 * import { Schema } from "effect"
 * import { DgenServer } from "effect-dgen"
 *
 * class Counter extends DgenServer.Service<Counter>()("Counter", {
 *   state: Schema.Struct({ count: Schema.Int }),
 *   messages: { Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }) }
 * }) {}
 *
 * const plus = (
 *   state: DgenServer.State<typeof Counter>,
 *   { by }: DgenServer.Payload<typeof Counter, "Add">
 * ): DgenServer.Success<typeof Counter, "Add"> => state.count + by
 *
 * plus({ count: 1 }, { by: 2 })
 * // => 3
 * ```
 *
 * @since 0.1.0
 * @category types
 */
export type State<C extends D.Typed> = D.TypesOf<C>["state"]

/**
 * The payload of a message of a server, by its class and the message's tag; `void` where there is none.
 *
 * @since 0.1.0
 * @category types
 */
export type Payload<C extends D.Typed, Tag extends keyof D.TypesOf<C>["messages"]> = D.PayloadOf<
  D.TypesOf<C>["messages"][Tag]
>

/**
 * What a call of a server succeeds with, by its class and the call's tag.
 *
 * @since 0.1.0
 * @category types
 */
export type Success<C extends D.Typed, Tag extends D.CallTag<D.TypesOf<C>["messages"]>> = D.SuccessOf<
  D.TypesOf<C>["messages"][Tag]
>

/**
 * What a call of a server declares to fail with, by its class and the call's tag; `never` where it declares nothing.
 *
 * @since 0.1.0
 * @category types
 */
export type Error<C extends D.Typed, Tag extends D.CallTag<D.TypesOf<C>["messages"]>> = D.ErrorOf<
  D.TypesOf<C>["messages"][Tag]
>

/**
 * The payload of an action of a server, by its class and the action's tag; `void` where there is none.
 *
 * @since 0.1.0
 * @category types
 */
export type ActionPayload<C extends D.Typed, Tag extends keyof D.TypesOf<C>["actions"]> = D.ActionPayload<
  D.TypesOf<C>["actions"][Tag]
>

/**
 * The schema of `From`, for states that keep callers.
 *
 * **Example** (A bell that answers all who wait for it)
 *
 * ```ts import.meta.vitest
 * import { Effect, Exit, Fiber, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Bell extends DgenServer.Service<Bell>()("Bell", {
 *   state: Schema.Array(DgenServer.From),
 *   messages: {
 *     Wait: DgenServer.call({ success: Schema.String }),
 *     Ring: DgenServer.call({ success: Schema.Int })
 *   }
 * }) {}
 *
 * const BellLive = Bell.layer(Bell.behaviour({
 *   init: Effect.succeed([]),
 *   handlers: {
 *     Wait: (_, waiting, { from }) => DgenServer.noReply([...waiting, from]),
 *     Ring: Effect.fnUntraced(function*(_, waiting) {
 *       for (const from of waiting) yield* Bell.replyTo(from, Exit.succeed("it rang"))
 *       return DgenServer.reply(waiting.length, [])
 *     })
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const bell = yield* Bell
 *   const waits = yield* Effect.forkChild(bell.call("Wait"))
 *   const rung = yield* Effect.repeat(bell.call("Ring"), { until: (answered) => answered === 1 })
 *   return [rung, yield* Fiber.join(waits)]
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.provide(BellLive.pipe(Layer.provide(TestStore)))))
 * // => [1, "it rang"]
 * ```
 *
 * @since 0.1.0
 * @category schemas
 */
export const From: Schema.Codec<From, unknown, never, never> = FromSchema

/**
 * The schema of callers of one call, for states that keep them: `replyTo` then takes that call's answers alone.
 *
 * **Example** (A state whose callers wait for one call)
 *
 * ```ts import.meta.vitest
 * import { Effect, Exit, Schema } from "effect"
 * import { DgenServer } from "effect-dgen"
 *
 * const Wait = DgenServer.call({ success: Schema.String })
 *
 * class Bell extends DgenServer.Service<Bell>()("Bell", {
 *   state: Schema.Array(DgenServer.fromOf(Wait)),
 *   messages: { Wait, Ring: DgenServer.call({ success: Schema.Int }) }
 * }) {}
 *
 * const behaviour = Bell.behaviour({
 *   init: Effect.succeed([]),
 *   handlers: {
 *     Wait: (_, waiting, { from }) => DgenServer.noReply([...waiting, from]),
 *     Ring: Effect.fnUntraced(function*(_, waiting) {
 *       // with Exit.succeed(1) this does not compile: it is no answer to Wait
 *       for (const from of waiting) yield* Bell.replyTo(from, Exit.succeed("it rang"))
 *       return DgenServer.reply(waiting.length, [])
 *     })
 *   }
 * })
 *
 * behaviour !== undefined
 * // => true
 * ```
 *
 * @since 0.1.0
 * @category schemas
 */
export const fromOf = <C extends D.Call<any, any, any, boolean>>(
  _call: C
): Schema.Codec<From<C>, unknown, never, never> => FromSchema as any

/**
 * A message that became a dead letter, as its handler sees it: `payload` is decoded, and `undefined` where that is not
 * possible.
 *
 * @since 0.1.0
 * @category models
 */
export interface DeadLetter extends Model.DeadMessage {}

export {
  /**
   * The longest time that a call may wait.
   *
   * @since 0.1.0
   * @category limits
   */
  CALL_TIMEOUT_LIMIT_MILLIS
} from "./internal/tenant/limits.ts"

export {
  /**
   * The most messages that one transaction may take.
   *
   * @since 0.1.0
   * @category limits
   */
  CONSUME_K_LIMIT
} from "./internal/server/checks.ts"

/**
 * Defines a durable action: it is kept in the store from the commit that asks for it until its handler has succeeded. The
 * durable actions of one server run one after the other, in the order in which they were asked for, each at least once,
 * whichever process dies: in any process that runs servers of the definition. They have no order among the others.
 *
 * A handler that fails is tried again as `retry` and `maxAttempts` say, and holds up what its server asked for after it; one
 * that has failed for good is set aside as dead (`requeueDead`). Its `id` is the same on every attempt: give it to whoever
 * can tell by it that something was done already.
 *
 * Throws a `TypeError` for options that cannot be used.
 *
 * **Example** (A mail that is sent although its process may die)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Orders extends DgenServer.Service<Orders>()("Orders", {
 *   state: Schema.Int,
 *   messages: { Place: DgenServer.call({ payload: { to: Schema.String }, success: Schema.Int }) },
 *   actions: { Confirm: DgenServer.durable({ payload: { to: Schema.String, order: Schema.Int }, maxAttempts: 10 }) }
 * }) {}
 *
 * const behaviour = Orders.behaviour({
 *   init: Effect.succeed(0),
 *   handlers: {
 *     Place: ({ to }, orders) => {
 *       const order = orders + 1
 *       return DgenServer.reply(order, order, [Orders.action("Confirm", { to, order })])
 *     }
 *   }
 * })
 *
 * const sent: Array<string> = []
 * const OrdersActions = Orders.actionsLayer({
 *   // its `id` is the same on both attempts: a mail service that is given it sends no mail twice
 *   Confirm: ({ order, to }, { attempt }) =>
 *     attempt === 1 ? Effect.fail("the line was busy") : Effect.sync(() => void sent.push(`order ${order} to ${to}`))
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * const OrdersLive = Orders.layer(behaviour).pipe(Layer.provide(OrdersActions), Layer.provideMerge(TestStore))
 *
 * const program = Effect.gen(function*() {
 *   const orders = yield* Orders
 *   yield* orders.call("Place", { to: "ada" })
 *   const { finished } = yield* Effect.repeat(Tenant.transact(Orders.durable.counts), {
 *     until: ({ pending, running }) => pending + running === 0
 *   })
 *   return finished
 * })
 *
 * await Effect.runPromise(Effect.provide(program, OrdersLive))
 * // => 1
 * sent
 * // => ["order 1 to ada"]
 * ```
 *
 * @since 0.2.0
 * @category definitions
 */
export const durable = <const P extends D.PayloadInput = undefined>(
  options: Durables.DurableOptions & { readonly payload?: P } = {}
): Durables.Durable<D.PayloadSchema<P>> => Declaring.durable(options) as any

/**
 * The outcome that answers a call, keeps a state, and asks for actions after the commit.
 *
 * **Example** (What a handler returns)
 *
 * ```ts import.meta.vitest
 * import { DgenServer } from "effect-dgen"
 *
 * DgenServer.reply("the answer", { count: 1 })
 * // => { _tag: "Reply", value: "the answer", state: { count: 1 }, actions: [] }
 * ```
 *
 * @since 0.1.0
 * @category outcomes
 */
export const reply = <const Value, const State, Server extends string = never>(
  value: Value,
  state: State,
  actions: ReadonlyArray<ActionRequest<Server>> = []
): Reply<Value, State, Server> => ({ _tag: "Reply", value, state, actions })

/**
 * The outcome that keeps a state and answers nothing.
 *
 * @since 0.1.0
 * @category outcomes
 */
export const noReply = <const State, Server extends string = never>(
  state: State,
  actions: ReadonlyArray<ActionRequest<Server>> = []
): NoReply<State, Server> => ({ _tag: "NoReply", state, actions })

/**
 * The outcome that keeps a state and then stops this process's handle; a waiting call fails with `ServerStopped`. The
 * durable server stays.
 *
 * @since 0.1.0
 * @category outcomes
 */
export const stop = <const State, Server extends string = never>(
  reason: unknown,
  state: State,
  actions: ReadonlyArray<ActionRequest<Server>> = []
): Stop<State, Server> => ({ _tag: "Stop", reason, state, actions })

/**
 * The outcome that keeps a state and asks for the lock: the message's locked handler runs next, outside of any
 * transaction, and until it ends no other queued message is handled.
 *
 * **Example** (Work between two commits)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Page extends DgenServer.Service<Page>()("Page", {
 *   state: Schema.Struct({ status: Schema.String, text: Schema.String }),
 *   messages: { Load: DgenServer.call({ payload: { name: Schema.String }, success: Schema.Int, locks: true }) }
 * }) {}
 *
 * const behaviour = Page.behaviour({
 *   init: Effect.succeed({ status: "new", text: "" }),
 *   handlers: { Load: (_, state) => DgenServer.lock({ ...state, status: "loading" }) }
 * })
 *
 * const PageLocked = Page.lockedLayer({
 *   // here anything may be used: a file, an HTTP client, another server
 *   Load: ({ name }, state) =>
 *     Effect.map(
 *       Effect.promise(() => Promise.resolve(`the text of ${name}`)),
 *       (text) => DgenServer.reply(text.length, { text, status: `was ${state.status}` })
 *     )
 * })
 *
 * const program = Effect.gen(function*() {
 *   const page = yield* Page
 *   return [yield* page.call("Load", { name: "home" }), yield* page.state]
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * const PageLive = Page.layer(behaviour, { lockTimeout: "30 seconds" }).pipe(Layer.provide([PageLocked, TestStore]))
 * await Effect.runPromise(program.pipe(Effect.provide(PageLive)))
 * // => [16, { text: "the text of home", status: "was loading" }]
 * ```
 *
 * @since 0.1.0
 * @category outcomes
 */
export const lock = <const State>(state: State): Lock<State> => ({ _tag: "Lock", state })

/**
 * What a locked handler returns to make its outcome from the state as it is when the lock ends: `apply` is pure, and runs
 * in the transaction that gives the lock back.
 *
 * **Example** (Counting, whatever was counted while the lock was held)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Tally extends DgenServer.Service<Tally>()("Tally", {
 *   state: Schema.Int,
 *   messages: { Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int, locks: true }) }
 * }) {}
 *
 * const behaviour = Tally.behaviour({
 *   init: Effect.succeed(100),
 *   handlers: { Add: (_, total) => DgenServer.lock(total) }
 * })
 *
 * const TallyLocked = Tally.lockedLayer({
 *   Add: ({ by }) => Effect.succeed(DgenServer.update((total: number) => DgenServer.reply(total + by, total + by)))
 * })
 *
 * const program = Effect.flatMap(Tally, (tally) => tally.call("Add", { by: 10 }))
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * const TallyLive = Tally.layer(behaviour).pipe(Layer.provide([TallyLocked, TestStore]))
 * await Effect.runPromise(Effect.provide(program, TallyLive))
 * // => 110
 * ```
 *
 * @since 0.1.0
 * @category outcomes
 */
export const update = <State, Outcome, E = never>(
  apply: (state: State) => Outcome | Effect.Effect<Outcome, E, Transaction>
): Update<State, Outcome, E> => ({ _tag: "Update", apply })

/**
 * The first state of a server whose `init` chooses the tuid.
 *
 * **Example** (A server that says itself where it lies)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Cart extends DgenServer.Service<Cart>()("Cart", {
 *   state: Schema.Struct({ items: Schema.Array(Schema.String) }),
 *   messages: {}
 * }) {}
 *
 * const behaviour = Cart.behaviour({
 *   init: ({ tuid }) => Effect.succeed(DgenServer.at(["shop", ...tuid], { items: [] })),
 *   handlers: {}
 * })
 *
 * const program = Effect.map(Cart.start(behaviour, { tuid: ["cart", 7] }), (cart) => cart.tuid)
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(TestStore)))
 * // => ["shop", "cart", 7]
 * ```
 *
 * @since 0.1.0
 * @category outcomes
 */
export const at = <const State>(tuid: Tuple.Tuple, state: State): At<State> => ({ _tag: "At", tuid, state })

/**
 * The versions of a state, for definitions whose states change their shape: the first schema, then `to` with each later one
 * and a pure function that makes its state of the one before. The state's type is that of the newest schema.
 *
 * The number of its version is stored with a state. An older one is taken through the steps when it is read, and written
 * whole in its new shape with the first change. A number that the program does not know is refused before anything is
 * read. A state from before there were versions has version 1. An optional field needs no version.
 *
 * **Example** (A cart that got an owner)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * const CartV1 = Schema.Struct({ lines: Schema.Array(Schema.String) })
 * const CartV2 = Schema.Struct({ owner: Schema.NullOr(Schema.String), items: Schema.Array(Schema.String) })
 * const messages = { Items: DgenServer.call({ success: Schema.Array(Schema.String) }) }
 *
 * class Old extends DgenServer.Service<Old>()("Cart", { state: CartV1, messages }) {}
 * class Cart extends DgenServer.Service<Cart>()("Cart", {
 *   state: DgenServer.versions(CartV1).to(CartV2, (v1) => ({ owner: null, items: v1.lines })),
 *   messages
 * }) {}
 *
 * const oldBehaviour = Old.behaviour({
 *   init: Effect.succeed({ lines: ["ink"] }),
 *   handlers: { Items: (_, state) => DgenServer.reply(state.lines, state) }
 * })
 * const behaviour = Cart.behaviour({
 *   init: Effect.succeed({ owner: "nobody", items: [] }),
 *   handlers: { Items: (_, state) => DgenServer.reply(state.items, state) }
 * })
 *
 * const program = Effect.gen(function*() {
 *   yield* Effect.scoped(Old.start(oldBehaviour, { tuid: ["cart", 7] })).pipe(Effect.provide(Tenant.layer(["docs"])))
 *   const cart = yield* Effect.provide(Cart.start(behaviour, { tuid: ["cart", 7] }), Tenant.layer(["docs"]))
 *   return [yield* cart.call("Items"), yield* cart.state]
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(MemoryBackend.layer)))
 * // => [["ink"], { owner: null, items: ["ink"] }]
 * ```
 *
 * @since 0.2.0
 * @category definitions
 */
export const versions = <S extends D.PureSchema>(schema: S): StateVersions<S> => Versions.versions(schema)

/**
 * Defines a server: its name, its state, its messages and its actions. Extend the class that it returns.
 *
 * With `hosted: true` nobody starts its servers: the first message makes one, any message wakes it, and `hostLayer` runs
 * them, in as many processes as there are (see the second example). A server has at most `maxTimers` timers (100,000). With
 * `maxQueueLength` (1 or more) messages to a server with so many waiting are refused with `QueueFull`. What became of a
 * message with a key is kept for `keyRetention` from its answer on (24 hours), of `maxKeys` messages at the most (100,000).
 *
 * **Example** (A counter)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Counter extends DgenServer.Service<Counter>()("Counter", {
 *   state: Schema.Struct({ count: Schema.Int }),
 *   messages: {
 *     Add: DgenServer.cast({ payload: { by: Schema.Int } }),
 *     Value: DgenServer.call({ success: Schema.Int })
 *   },
 *   actions: { Announce: { count: Schema.Int } }
 * }) {}
 *
 * const behaviour = Counter.behaviour({
 *   init: Effect.succeed({ count: 0 }),
 *   handlers: {
 *     Add: ({ by }, state) => {
 *       const count = state.count + by
 *       return DgenServer.noReply({ count }, [Counter.action("Announce", { count })])
 *     },
 *     Value: (_, state) => DgenServer.reply(state.count, state)
 *   }
 * })
 *
 * const announced: Array<number> = []
 * const CounterLive = Counter.layer(behaviour).pipe(
 *   Layer.provide(Counter.actionsLayer({ Announce: ({ count }) => Effect.sync(() => void announced.push(count)) })),
 *   Layer.provide(Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer)))
 * )
 *
 * const program = Effect.gen(function*() {
 *   const counter = yield* Counter
 *   yield* counter.castAll([["Add", { by: 1 }], ["Add", { by: 2 }]])
 *   return yield* counter.call("Value")
 * })
 *
 * await Effect.runPromise(Effect.provide(program, CounterLive))
 * // => 3
 * announced
 * // => [1, 3]
 * ```
 *
 * **Example** (A server for each user)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Points extends DgenServer.Service<Points>()("Points", {
 *   hosted: true,
 *   state: Schema.Int,
 *   messages: { Add: DgenServer.call({ payload: { points: Schema.Int }, success: Schema.Int }) }
 * }) {}
 *
 * const PointsHost = Points.hostLayer(Points.behaviour({
 *   init: Effect.succeed(0),
 *   handlers: { Add: ({ points }, sum) => DgenServer.reply(sum + points, sum + points) }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const ada = yield* Points.client({ tuid: ["user", "ada"] })
 *   const bob = yield* Points.client({ tuid: ["user", "bob"] })
 *   yield* ada.call("Add", { points: 2 })
 *   return [yield* ada.call("Add", { points: 3 }), yield* bob.call("Add", { points: 7 })]
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.provide(PointsHost.pipe(Layer.provideMerge(TestStore)))))
 * // => [5, 7]
 * ```
 *
 * @since 0.1.0
 * @category definitions
 */
export const Service = <Self>(): {
  <
    const Name extends string,
    S extends D.PureSchema | StateVersions<any>,
    const M extends D.Messages,
    const A extends D.Actions = {},
    const H extends boolean = false
  >(protocol: D.Protocol<Name, M>, options: Own<S, A, H>): ServiceClass<Self, Name, D.StateType<S>, M, A, H>
  <
    const Name extends string,
    S extends D.PureSchema | StateVersions<any>,
    const M extends D.Messages,
    const A extends D.Actions = {},
    const H extends boolean = false
  >(
    name: Name,
    options: Own<S, A, H> & { readonly messages: M }
  ): ServiceClass<Self, Name, D.StateType<S>, M, A, H>
} =>
(given: string | D.Protocol<string, D.Messages>, options: unknown): any => Services.define(given, options)

/** What a server does not show: all of its definition but its name and its messages. */
interface Own<S, A, H> {
  readonly state: S
  readonly actions?: A
  readonly hosted?: H
  readonly maxTimers?: number
  readonly maxQueueLength?: number
  readonly maxKeys?: number
  readonly keyRetention?: Duration.Input
}

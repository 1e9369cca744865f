/**
 * What a program does with a server, as types: its service class, its handles and clients, and what each of them can fail
 * with. `DgenServer` exports them.
 */
import type * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { BackendError } from "../../../BackendError.ts"
import type { DurableQueue } from "../../../DurableQueue.ts"
import type { StateError } from "../../../StateCodec.ts"
import type { Tenant } from "../../../Tenant.ts"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import type { DurableAction, DurableActions, DurableTag, DurableWorkerOptions } from "./durable.ts"
import type * as Errors from "./errors.ts"
import type * as Model from "./model.ts"
import type { ActionsOf, DeadLettersOf, Hosted, LockedOf, Needs } from "./needs.ts"
import type { HostOptions, Options, TimerOptions, Which, WhichArgs, WhichHosted } from "./options.ts"
import type { ActionRequest } from "./outcome.ts"
import type * as D from "./protocol.ts"

/**
 * What a cast can fail with. Nothing was written then.
 *
 * @since 0.1.0
 * @category errors
 */
export type CastError = RefusedError | Errors.QueueFull | Errors.InvalidOption | BackendError

/** What a message can be refused with, whichever way it takes. */
type RefusedError = Errors.InvalidPayload | Errors.UnknownMessage | Errors.PayloadTooLarge

/**
 * What a cast as part of a transaction can fail with. It has written nothing then.
 *
 * @since 0.1.0
 * @category errors
 */
export type CastTxError = RefusedError | Errors.QueueFull | Errors.InvalidOption | Errors.InvalidTuid

/**
 * What setting a timer can fail with. It has written nothing then.
 *
 * @since 0.2.0
 * @category errors
 */
export type CastLaterError = CastTxError | Errors.TooManyTimers

/**
 * A timer that is set: the message that it sends, when it is due next, and its period if it comes again.
 *
 * @since 0.2.0
 * @category models
 */
export interface TimerInfo {
  readonly id: string
  readonly tag: string
  readonly due: DateTime.Utc
  readonly period: Duration.Duration | { readonly cron: string; readonly timeZone: string } | undefined
}

/**
 * What a message that goes past the queue can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type PriorityError =
  | RefusedError
  | BackendError
  | Errors.HandlerCrashed
  | Errors.Locked
  | Errors.LockFenced
  | Errors.ServerStopped
  | Errors.ServerKilled

/**
 * What a call can fail with besides its own error.
 *
 * @since 0.1.0
 * @category errors
 */
export type CallError =
  | PriorityError
  | Errors.CallTimeout
  | Errors.DeadLettered
  | Errors.DefinitionMismatch
  | Errors.InvalidOption
  | Errors.KeyReused
  | Errors.QueueFull
  | Errors.TooManyKeys
  | Errors.WouldDeadlock

/**
 * What is known of a key: its message was handled and is not answered yet, it is done, with its answer (a cast's is
 * nothing), or no message with it has been handled, or was within `keyRetention`.
 *
 * @since 0.2.0
 * @category models
 */
export type KeyResult<Success, Error> =
  | { readonly _tag: "Waiting" }
  | { readonly _tag: "Done"; readonly exit: Exit.Exit<Success | void, Error | CallError> }
  | { readonly _tag: "Unknown" }

/**
 * What a start can fail with besides its `init`'s error. Nothing was written then.
 *
 * @since 0.1.0
 * @category errors
 */
export type StartError =
  | Errors.DefinitionMismatch
  | Errors.InvalidTuid
  | Errors.InvalidOption
  | StateError
  | BackendError

/**
 * What any process can do with a server.
 *
 * @since 0.1.0
 * @category models
 */
export interface Client<M, State> {
  /**
   * Sends a message and waits for its answer, five seconds if it does not say how long.
   * A call whose time is over, or that is interrupted, may still be handled. With a `key` it can be sent again: within the
   * definition's `keyRetention` all messages with one key take effect once, and get the same answer.
   */
  readonly call: <T extends D.CallTag<M>>(
    tag: T,
    ...args: D.CallArgs<D.PayloadOf<M[T]>>
  ) => Effect.Effect<D.SuccessOf<M[T]>, D.ErrorOf<M[T]> | CallError>
  /**
   * Sends a message: it is durable when the effect succeeds. With a `key` it takes effect once, however often it is sent.
   */
  readonly cast: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>, [options?: D.KeyOptions]>
  ) => Effect.Effect<void, CastError>
  /** Sends messages, all or none, in their order. */
  readonly castAll: (messages: ReadonlyArray<CastInput<M>>) => Effect.Effect<void, CastError>
  /**
   * Sets a timer: the message is cast at its time, whoever runs the server then. An id that has a timer already gets this
   * one in its place, and what the earlier one has sent and nobody has handled counts no more. Succeeds with the id.
   *
   * **Example** (A reminder that is put off, and one that is cancelled)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Schema } from "effect"
   * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
   *
   * class Diary extends DgenServer.Service<Diary>()("Diary", {
   *   state: Schema.Array(Schema.String),
   *   messages: { Note: DgenServer.cast({ payload: { text: Schema.String } }) }
   * }) {}
   *
   * const DiaryLive = Diary.layer(Diary.behaviour({
   *   init: Effect.succeed([]),
   *   handlers: { Note: ({ text }, notes) => DgenServer.noReply([...notes, text]) }
   * }))
   *
   * const program = Effect.gen(function*() {
   *   const diary = yield* Diary
   *   yield* diary.castLater("Note", { text: "water the plants" }, { every: "1 day", id: "plants" })
   *   yield* diary.castLater("Note", { text: "call Ada" }, { after: "1 hour", id: "ada" })
   *   const set = (yield* diary.timers).map(({ id }) => id)
   *   // the same id: this one takes the place of the one before
   *   yield* diary.castLater("Note", { text: "call Ada now" }, { after: "10 millis", id: "ada" })
   *   const prevented = yield* diary.cancelTimer("plants")
   *   const notes = yield* Effect.repeat(diary.state, { until: (notes) => notes?.length === 1 })
   *   return [set, prevented, notes, yield* diary.timers]
   * })
   *
   * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
   * await Effect.runPromise(program.pipe(Effect.provide(DiaryLive.pipe(Layer.provide(TestStore)))))
   * // => [["ada", "plants"], true, ["call Ada now"], []]
   * ```
   */
  readonly castLater: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.LaterArgs<D.PayloadOf<M[T]>, TimerOptions>
  ) => Effect.Effect<string, CastLaterError | BackendError>
  /** Cancels a timer. Succeeds with whether that prevented a message. */
  readonly cancelTimer: (id: string) => Effect.Effect<boolean, Errors.InvalidOption | BackendError>
  /** The timers that are set, in the order of their times. */
  readonly timers: Effect.Effect<ReadonlyArray<TimerInfo>, BackendError>
  /** What is known of a key. A message that still waits in the queue is not known. */
  readonly result: (
    key: string
  ) => Effect.Effect<
    KeyResult<D.SuccessOf<M[D.CallTag<M>]>, D.ErrorOf<M[D.CallTag<M>]>>,
    Errors.InvalidOption | BackendError
  >
  /** How many messages wait, or are under the lock; one that came past the queue does not count. */
  readonly queueLength: Effect.Effect<number, BackendError>
  /** Whether the lock is held. */
  readonly locked: Effect.Effect<boolean, StateError | BackendError>
  /** The state in the store; `undefined` where the server was never started. */
  readonly state: Effect.Effect<State | undefined, StateError | BackendError>
}

/**
 * What a program can do with a server of a hosted definition, with no host at hand.
 *
 * @since 0.2.0
 * @category models
 */
export interface KillableClient<M, State> extends Client<M, State> {
  /**
   * Deletes the server with all that it has: state, queue, dead letters, lock, timers, and its places in indexes. Calls
   * that wait fail with `ServerKilled`. The next message makes it anew.
   */
  readonly kill: Effect.Effect<void, BackendError>
}

/**
 * A server of a hosted definition, in a process that hosts it: messages can go past its queue. After the host's scope
 * they fail with `ServerStopped`.
 *
 * @since 0.2.0
 * @category models
 */
export interface HostedClient<M, State>
  extends KillableClient<M, State>, Pick<Running<M, State>, "tuid" | "priorityCall" | "priorityCast" | "info">
{}

/**
 * A cast's tag, its payload, and its key, if it has one.
 *
 * @since 0.1.0
 * @category models
 */
export type CastInput<M> = {
  [T in D.CastTag<M>]: D.IsNone<D.PayloadOf<M[T]>> extends true
    ? readonly [tag: T, payload?: undefined, options?: D.KeyOptions]
    : readonly [tag: T, payload: D.PayloadOf<M[T]>, options?: D.KeyOptions]
}[D.CastTag<M>]

/**
 * A server that runs in this process.
 *
 * @since 0.1.0
 * @category models
 */
export interface Running<M, State> extends Client<M, State> {
  readonly tuid: Tuple.Tuple
  /** Like `call`, past the queue, and without a key. A crash of the handler is answered with `HandlerCrashed`. */
  readonly priorityCall: <T extends D.CallTag<M>>(
    tag: T,
    ...args: D.CallArgs<D.PayloadOf<M[T]>, D.PriorityOptions>
  ) => Effect.Effect<D.SuccessOf<M[T]>, D.ErrorOf<M[T]> | CallError>
  /** Handles a cast at once, past the queue; one that crashes fails with `HandlerCrashed` and is lost. */
  readonly priorityCast: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>>
  ) => Effect.Effect<void, PriorityError>
  /** Handles an info message at once, past the queue; one that crashes fails with `HandlerCrashed` and is lost. */
  readonly info: <T extends D.InfoTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>>
  ) => Effect.Effect<void, PriorityError>
  /**
   * Ends this process's handle after the transaction in flight and its actions. Calls of the handle that wait, and
   * later ones, fail with `ServerStopped`. The durable server stays.
   */
  readonly stop: (reason?: unknown) => Effect.Effect<void>
  /**
   * Deletes the durable server: its state, queue, dead letters and lock. Calls that wait fail with `ServerKilled`, and so
   * do later calls, priority and info messages of a handle, in any process. Only a new start makes the server again; a
   * later `cast` is queued for that.
   */
  readonly kill: (reason?: unknown) => Effect.Effect<void, BackendError>
}

/**
 * The pure part of a server: how its state begins and what its messages do.
 *
 * @since 0.1.0
 * @category models
 */
export interface Behaviour<Self, E> {
  readonly self: Self
  readonly error: E
}

/**
 * A lock that is held: by which message, since when, and how often handling the message failed before (`undefined` for
 * one that came past the queue).
 *
 * @since 0.1.0
 * @category models
 */
export interface LockInfo {
  readonly token: string
  readonly since: DateTime.Utc
  readonly tag: string
  readonly kind: Model.Kind
  readonly attempts: number | undefined
}

/**
 * A server's definition: a service, and what starts it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ServiceClass<Self, Name extends string, State, M, A, IsHosted extends boolean = false>
  extends Context.ServiceClass<Self, Name, Running<M, State>>, D.Typed<State, M, A>, D.Protocol<Name, M>
{
  /** The pure part: `init`, which makes the first state, and a handler for each message. */
  readonly behaviour: <E = never>(options: {
    readonly init: IsHosted extends true ? D.HostedInit<State, E> : D.Init<State, E>
    readonly handlers: D.Handlers<M, State, Name>
  }) => Behaviour<Self, E>
  /** An action for an outcome. */
  readonly action: <T extends keyof A & string>(
    tag: T,
    ...args: D.PayloadArgs<D.ActionPayload<A[T]>>
  ) => ActionRequest<Name>
  /**
   * The action handlers, with whatever services they need. Those of durable actions get `(payload, { id, tuid, attempt })`, and
   * may fail: that is a failed attempt.
   */
  readonly actionsLayer: <H extends D.ActionHandlers<A, State, any>>(
    handlers: H & D.ActionHandlers<A, State, any> & D.NoOthers<H, keyof A>
  ) => Layer.Layer<ActionsOf<Name>, never, D.ServicesOf<H>>
  /**
   * The locked handlers, with whatever services they need. They run outside of any
   * transaction and may run twice.
   */
  readonly lockedLayer: <H extends D.LockedHandlers<M, State, Name, any>>(
    handlers: H & D.LockedHandlers<M, State, Name, any> & D.NoOthers<H, D.LockingTag<M>>
  ) => Layer.Layer<LockedOf<Name>, never, D.ServicesOf<H>>
  /** The handler of dead letters, with whatever services it needs. It is optional. */
  readonly deadLetterLayer: <R>(
    handler: (letter: Model.DeadMessage) => Effect.Effect<void, never, R>
  ) => Layer.Layer<DeadLettersOf<Name>, never, R>
  /** The one server of this name, as a layer; its tuid is `[name]`. */
  readonly layer: <E>(
    behaviour: Behaviour<Self, E>,
    options?: Options
  ) => Layer.Layer<Self, E | StartError, Tenant | Needs<M, A, Name>>
  /**
   * Runs the durable actions of this definition's servers in this process until the layer's scope closes: for a process that
   * runs none of the servers. Who starts or hosts some runs them as well. Fails with `InvalidOption`.
   */
  readonly durableLayer: [DurableTag<A>] extends [never] ? `declare an action of ${Name} with DgenServer.durable` : (
    options?: DurableWorkerOptions
  ) => Layer.Layer<never, Errors.InvalidOption, Tenant | ActionsOf<Name>>
  /** The durable actions of all servers of this definition, for operators. */
  readonly durable: [DurableTag<A>] extends [never] ? `declare an action of ${Name} with DgenServer.durable`
    : DurableActions<
      { [T in DurableTag<A>]: DurableAction<T, D.ActionPayload<A[T]>> }[DurableTag<A>]
    >
  /** Starts one of many servers of this definition. */
  readonly start: <E>(
    behaviour: Behaviour<Self, E>,
    options: Options & { readonly tuid: Tuple.Tuple }
  ) => Effect.Effect<Running<M, State>, E | StartError, Scope.Scope | Tenant | Needs<M, A, Name>>
  /** A client of a server that others run; the default tuid is `[name]`. */
  readonly client: IsHosted extends true
    ? (which: WhichHosted) => Effect.Effect<KillableClient<M, State>, Errors.InvalidTuid, Tenant>
    : (which?: Which) => Effect.Effect<Client<M, State>, Errors.InvalidTuid, Tenant>
  /**
   * Hosts the servers of this definition: whichever has something to do is run, in whatever process hosts it. Requires the
   * definition's `hosted: true`, an `init` that cannot fail, and a finite `lockTimeout` where messages lock. Fails with
   * `InvalidOption` where an option cannot be used, or where this tenant's layer has a host of the definition already.
   *
   * **Example** (Sensors that nobody starts)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Schema } from "effect"
   * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
   *
   * class Sensor extends DgenServer.Service<Sensor>()("Sensor", {
   *   hosted: true,
   *   state: Schema.Struct({ name: Schema.String, highest: Schema.Number }),
   *   messages: {
   *     Measured: DgenServer.cast({ payload: { value: Schema.Number } }),
   *     Highest: DgenServer.call({ success: Schema.Number })
   *   }
   * }) {}
   *
   * const SensorHost = Sensor.hostLayer(Sensor.behaviour({
   *   init: ({ tuid }) => Effect.succeed({ name: tuid.join("/"), highest: -Infinity }),
   *   handlers: {
   *     Measured: ({ value }, state) => DgenServer.noReply({ ...state, highest: Math.max(value, state.highest) }),
   *     Highest: (_, state) => DgenServer.reply(state.highest, state)
   *   }
   * }))
   *
   * const program = Effect.gen(function*() {
   *   // any process can do this, with a tenant's layer and no host
   *   const cellar = yield* Sensor.client({ tuid: ["sensor", "cellar"] })
   *   const roof = yield* Sensor.client({ tuid: ["sensor", "roof"] })
   *   yield* cellar.cast("Measured", { value: 12 })
   *   yield* roof.castAll([["Measured", { value: 31 }], ["Measured", { value: 19 }]])
   *   return [yield* cellar.call("Highest"), yield* roof.call("Highest")]
   * })
   *
   * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
   * await Effect.runPromise(program.pipe(Effect.provide(SensorHost.pipe(Layer.provideMerge(TestStore)))))
   * // => [12, 31]
   * ```
   */
  readonly hostLayer: IsHosted extends true ? (
      behaviour: Behaviour<Self, never>,
      options?: HostOptions
    ) => Layer.Layer<Hosted<Name>, StartError, Tenant | Needs<M, A, Name>>
    : `define ${Name} with hosted: true`
  /**
   * A server in this process's host, for messages that go past its queue: a client with `info`, `priorityCall` and
   * `priorityCast`. Fails with `InvalidTuid`.
   *
   * **Example** (A look that does not wait in the queue)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Schema } from "effect"
   * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
   *
   * class Room extends DgenServer.Service<Room>()("Room", {
   *   hosted: true,
   *   state: Schema.Array(Schema.String),
   *   messages: {
   *     Enter: DgenServer.cast({ payload: { who: Schema.String } }),
   *     Who: DgenServer.call({ success: Schema.Array(Schema.String) })
   *   }
   * }) {}
   *
   * const RoomHost = Room.hostLayer(Room.behaviour({
   *   init: Effect.succeed([]),
   *   handlers: {
   *     Enter: ({ who }, state) => DgenServer.noReply([...state, who]),
   *     Who: (_, state) => DgenServer.reply(state, state)
   *   }
   * }))
   *
   * const program = Effect.gen(function*() {
   *   const room = yield* Room.hosted({ tuid: ["room", 1] })
   *   yield* room.priorityCast("Enter", { who: "ada" })
   *   return yield* room.priorityCall("Who")
   * })
   *
   * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
   * await Effect.runPromise(program.pipe(Effect.provide(RoomHost.pipe(Layer.provide(TestStore)))))
   * // => ["ada"]
   * ```
   */
  readonly hosted: IsHosted extends true
    ? (which: WhichHosted) => Effect.Effect<HostedClient<M, State>, Errors.InvalidTuid, Hosted<Name>>
    : `define ${Name} with hosted: true`
  /**
   * The tuids of the servers of this definition that have a state, in their order: those that begin with `prefix` (itself
   * included), after the one that `after` says; at most `limit` of them, 100 if it does not say, 1,000 at the most.
   *
   * **Example** (All servers, page by page)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Schema } from "effect"
   * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
   *
   * class Cart extends DgenServer.Service<Cart>()("Cart", {
   *   hosted: true,
   *   state: Schema.Int,
   *   messages: { Add: DgenServer.call() }
   * }) {}
   *
   * const CartHost = Cart.hostLayer(Cart.behaviour({
   *   init: Effect.succeed(0),
   *   handlers: { Add: (_, count) => DgenServer.reply(undefined, count + 1) }
   * }))
   *
   * const program = Effect.gen(function*() {
   *   for (const tuid of [["cart", 1], ["cart", 2], ["cart", 3], ["trial", 1]]) {
   *     yield* (yield* Cart.client({ tuid })).call("Add")
   *   }
   *   const first = yield* Tenant.transact(Cart.list({ prefix: ["cart"], limit: 2 }))
   *   const second = yield* Tenant.transact(Cart.list({ prefix: ["cart"], limit: 2, after: first.at(-1) }))
   *   return [first, second]
   * })
   *
   * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
   * await Effect.runPromise(program.pipe(Effect.provide(CartHost.pipe(Layer.provideMerge(TestStore)))))
   * // => [[["cart", 1], ["cart", 2]], [["cart", 3]]]
   * ```
   */
  readonly list: (
    options?: {
      readonly prefix?: Tuple.Tuple | undefined
      readonly after?: Tuple.Tuple | undefined
      readonly limit?: number | undefined
    }
  ) => Effect.Effect<ReadonlyArray<Tuple.Tuple>, Errors.InvalidOption | Errors.IndexIncomplete, Transaction>
  /** Sets a timer as part of a transaction; the options say which server. */
  readonly castLaterTx: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.LaterArgs<D.PayloadOf<M[T]>, TimerOptions & (IsHosted extends true ? WhichHosted : Which)>
  ) => Effect.Effect<string, CastLaterError, Transaction>
  /**
   * Sets a timer of the server whose handler runs: a defect elsewhere. Succeeds with its id.
   *
   * **Example** (A session that ends when nothing came for a while)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Schema } from "effect"
   * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
   *
   * class Session extends DgenServer.Service<Session>()("Session", {
   *   hosted: true,
   *   state: Schema.Struct({ seen: Schema.Int }),
   *   messages: { Seen: DgenServer.call({ success: Schema.Int }), End: DgenServer.cast() }
   * }) {}
   *
   * const SessionHost = Session.hostLayer(Session.behaviour({
   *   init: Effect.succeed({ seen: 0 }),
   *   handlers: {
   *     Seen: Effect.fnUntraced(function*(_, { seen }) {
   *       // one id, one timer: each look puts the end off
   *       yield* Effect.orDie(Session.castLaterSelfTx("End", { after: "20 millis", id: "end" }))
   *       return DgenServer.reply(seen + 1, { seen: seen + 1 })
   *     }),
   *     End: () => DgenServer.noReply(DgenServer.gone)
   *   }
   * }))
   *
   * const program = Effect.gen(function*() {
   *   const session = yield* Session.client({ tuid: ["session", "ada"] })
   *   const seen = yield* session.call("Seen")
   *   // nobody comes any more
   *   return [seen, yield* Effect.repeat(session.state, { until: (state) => state === undefined })]
   * })
   *
   * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
   * await Effect.runPromise(program.pipe(Effect.provide(SessionHost.pipe(Layer.provideMerge(TestStore)))))
   * // => [1, undefined]
   * ```
   */
  readonly castLaterSelfTx: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.LaterArgs<D.PayloadOf<M[T]>, TimerOptions>
  ) => Effect.Effect<string, CastLaterError, Transaction>
  /** Cancels a timer as part of a transaction. Succeeds with whether that prevented a message. */
  readonly cancelTimerTx: (
    id: string,
    ...which: WhichArgs<IsHosted>
  ) => Effect.Effect<boolean, Errors.InvalidOption | Errors.InvalidTuid, Transaction>
  /** Cancels a timer of the server whose handler runs: a defect elsewhere. */
  readonly cancelTimerSelfTx: (id: string) => Effect.Effect<boolean, Errors.InvalidOption, Transaction>
  /**
   * A cast to the server whose handler runs, as part of its transaction: a defect elsewhere. A full queue does not refuse
   * it.
   */
  readonly castSelfTx: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>, [options?: D.KeyOptions]>
  ) => Effect.Effect<void, Exclude<CastTxError, Errors.QueueFull>, Transaction>
  /** A cast as part of a transaction. */
  readonly castTx: <T extends D.CastTag<M>>(
    tag: T,
    ...args: IsHosted extends true ? D.HostedArgs<D.PayloadOf<M[T]>, WhichHosted & D.KeyOptions>
      : D.PayloadArgs<D.PayloadOf<M[T]>, [which?: Which & D.KeyOptions]>
  ) => Effect.Effect<void, CastTxError, Transaction>
  /** Several casts as part of a transaction. */
  readonly castAllTx: (
    messages: ReadonlyArray<CastInput<M>>,
    ...which: WhichArgs<IsHosted>
  ) => Effect.Effect<void, CastTxError, Transaction>
  /**
   * Answers a call whose handler returned `noReply`, as part of a transaction. A caller that does not wait any more is no
   * failure; a caller of another server, or an answer of another type, is a defect.
   */
  readonly replyTo: <C = any>(from: D.From<C>, exit: D.AnswerTo<M, C>) => Effect.Effect<void, never, Transaction>
  /** The queue of a server, for `DurableQueue`. */
  readonly queue: (...which: WhichArgs<IsHosted>) => DurableQueue
  /** The lock of a server, if it is held: for operators. */
  readonly lock: (
    ...which: WhichArgs<IsHosted>
  ) => Effect.Effect<Option.Option<LockInfo>, Errors.InvalidTuid, Transaction>
  /**
   * Breaks the lock of a server, if it is held: for operators. Its message is queued again, with one more attempt behind
   * it; its holder writes nothing. Succeeds with whether the lock was held.
   */
  readonly unlock: (...which: WhichArgs<IsHosted>) => Effect.Effect<boolean, Errors.InvalidTuid, Transaction>
}

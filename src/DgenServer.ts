/**
 * Durable, distributed servers in the `gen_server` model. A server is state plus a queue of messages in the store of a
 * tenant. It exists as long as they do: processes that run it come and go. Any number of processes can send to it, and
 * any number can consume.
 *
 * Handlers are pure: a transaction effect can require `Transaction` and nothing else, so that a batch of messages
 * commits its new state, its answers and the messages it took as one transaction. Side effects are actions: they run
 * after the commit that asked for them, in the process that committed.
 *
 * Messages that a client was told are sent are durable, and each is handled exactly once, in the order they were
 * committed. Info and priority messages are handled at once, past the queue. What you owe: handlers compute and use the
 * operations of `Transaction`, and nothing else; they can run many times before one run counts.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { BackendError } from "./BackendError.ts"
import type * as D from "./internal/server/definition.ts"
import * as Definition from "./internal/server/definition.ts"
import {
  type CallTimeout,
  type DefinitionMismatch,
  type HandlerCrashed,
  InvalidOption,
  type InvalidPayload,
  type InvalidTuid,
  type PayloadTooLarge,
  type ServerKilled,
  type ServerStopped,
  type UnknownMessage
} from "./internal/server/errors.ts"
import type * as Model from "./internal/server/model.ts"
import type { ActionRequest, At, NoReply, Reply, Stop } from "./internal/server/outcome.ts"
import * as Runtime from "./internal/server/runtime.ts"
import type { StateError } from "./StateCodec.ts"
import type { Tenant } from "./Tenant.ts"
import type { Transaction } from "./Transaction.ts"
import type * as Tuple from "./Tuple.ts"

export type { Call, Cast, HandlerContext, Info } from "./internal/server/definition.ts"
export {
  CallTimeout,
  DefinitionMismatch,
  HandlerCrashed,
  ImpureCallback,
  InvalidOption,
  InvalidPayload,
  InvalidTuid,
  PayloadTooLarge,
  ServerKilled,
  ServerStopped,
  UnknownMessage
} from "./internal/server/errors.ts"
export type { ActionRequest, At, Halt, NoReply, Reply, Stop } from "./internal/server/outcome.ts"
export { halt } from "./internal/server/outcome.ts"

/**
 * What a cast can fail with. Nothing was written then.
 *
 * @since 0.1.0
 * @category errors
 */
export type CastError = InvalidPayload | UnknownMessage | PayloadTooLarge | BackendError

/**
 * What a call can fail with besides its own error.
 *
 * @since 0.1.0
 * @category errors
 */
export type CallError = CastError | CallTimeout | HandlerCrashed | ServerStopped | ServerKilled

/**
 * What a start can fail with besides its `init`'s error. Nothing was written then.
 *
 * @since 0.1.0
 * @category errors
 */
export type StartError = DefinitionMismatch | InvalidTuid | InvalidOption | StateError | BackendError

/** A call waits five seconds when it does not say how long (as in Erlang). */
const CALL_TIMEOUT_DEFAULT = Duration.seconds(5)

/**
 * The longest time that a call may wait.
 *
 * @since 0.1.0
 * @category limits
 */
export const CALL_TIMEOUT_LIMIT_MILLIS = 24 * 60 * 60 * 1000

/**
 * The most messages that one transaction may take.
 *
 * @since 0.1.0
 * @category limits
 */
export const CONSUME_K_LIMIT = 1_000

/**
 * Defines a call: a message that is answered, with a value of `success` (default: nothing) or an `error` (default:
 * none).
 *
 * @since 0.1.0
 * @category definitions
 */
export const call = <
  const P extends D.PayloadInput = undefined,
  S extends D.PureSchema = Schema.Void,
  E extends D.PureSchema = Schema.Never
>(options: {
  readonly payload?: P
  readonly success?: S
  readonly error?: E
} = {}): D.Call<D.PayloadSchema<P>, S, E> => Definition.message("call", options) as any

/**
 * Defines a cast: a message that is queued and not answered.
 *
 * @since 0.1.0
 * @category definitions
 */
export const cast = <const P extends D.PayloadInput = undefined>(
  options: { readonly payload?: P } = {}
): D.Cast<D.PayloadSchema<P>> => Definition.message("cast", options) as any

/**
 * Defines an info message: handled at once, past the queue, and not answered. One that crashes is lost.
 *
 * @since 0.1.0
 * @category definitions
 */
export const info = <const P extends D.PayloadInput = undefined>(
  options: { readonly payload?: P } = {}
): D.Info<D.PayloadSchema<P>> => Definition.message("info", options) as any

/**
 * The outcome that answers a call, keeps a state, and asks for actions after the commit.
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
 * The first state of a server whose `init` chooses the tuid.
 *
 * @since 0.1.0
 * @category outcomes
 */
export const at = <const State>(tuid: Tuple.Tuple, state: State): At<State> => ({ _tag: "At", tuid, state })

/**
 * How a server runs in this process.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Whether this process takes messages off the queue, or only sends. Default: `true`. */
  readonly consume?: boolean | undefined
  /** Whether to put the state of `init` over the one that exists. Default: `false`. */
  readonly reset?: boolean | undefined
  /** The most messages that one transaction takes, 1 to 1,000; calls run inline only at 1. Default: 1. */
  readonly consumeK?: number | undefined
  /** Whether to keep the state in memory while no other process changes it. Default: `true`. */
  readonly cache?: boolean | undefined
  /** When the consumer comes back after a crash; it starts over after a commit. Default: exponential, 30 s at most. */
  readonly restart?: Schedule.Schedule<unknown, unknown> | undefined
}

/**
 * What any process can do with a server.
 *
 * @since 0.1.0
 * @category models
 */
export interface Client<M, State> {
  /**
   * Sends a message and waits for its answer (source document, section 4.7). A call whose time is over, or that is
   * interrupted, may still be handled.
   */
  readonly call: <T extends D.CallTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>, [options?: { readonly timeout?: Duration.Input | undefined }]>
  ) => Effect.Effect<D.SuccessOf<M[T]>, D.ErrorOf<M[T]> | CallError | InvalidOption>
  /** Sends a message: it is durable when the effect succeeds. */
  readonly cast: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>>
  ) => Effect.Effect<void, CastError>
  /** Sends messages, all or none, in their order. */
  readonly castAll: (messages: ReadonlyArray<CastInput<M>>) => Effect.Effect<void, CastError>
  /** How many messages wait. */
  readonly queueLength: Effect.Effect<number, BackendError>
  /** The state in the store; `undefined` where the server was never started. */
  readonly state: Effect.Effect<State | undefined, StateError | BackendError>
}

/** A cast's tag and its payload. */
export type CastInput<M> = {
  [T in D.CastTag<M>]: [D.PayloadOf<M[T]>] extends [void] ? readonly [tag: T]
    : readonly [tag: T, payload: D.PayloadOf<M[T]>]
}[D.CastTag<M>]

/**
 * A server that runs in this process.
 *
 * @since 0.1.0
 * @category models
 */
export interface Running<M, State> extends Client<M, State> {
  readonly tuid: Tuple.Tuple
  /** Like `call`, past the queue. A crash of the handler is answered with `HandlerCrashed`. */
  readonly priorityCall: Client<M, State>["call"]
  /** Handles a cast at once, past the queue; one that crashes fails with `HandlerCrashed` and is lost. */
  readonly priorityCast: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>>
  ) => Effect.Effect<void, CastError | HandlerCrashed | ServerStopped | ServerKilled>
  /** Handles an info message at once, past the queue; one that crashes fails with `HandlerCrashed` and is lost. */
  readonly info: <T extends D.InfoTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>>
  ) => Effect.Effect<void, CastError | HandlerCrashed | ServerStopped | ServerKilled>
  /**
   * Ends this process's handle after the transaction in flight and its actions. Calls of the handle that wait, and
   * later ones, fail with `ServerStopped`. The durable server stays.
   */
  readonly stop: (reason?: unknown) => Effect.Effect<void>
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
 * The action handlers of a server, as a service.
 *
 * @since 0.1.0
 * @category models
 */
export interface ActionsOf<in out Name extends string> {
  readonly "the server's actions need a layer: provide its actionsLayer": Name
}

/** What running a server needs besides its tenant: its action handlers, if it has actions. */
export type Needs<A, Name extends string> = [keyof A] extends [never] ? never : ActionsOf<Name>

/**
 * A server's definition: a service, and what starts it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ServiceClass<Self, Name extends string, State, M, A>
  extends Context.ServiceClass<Self, Name, Running<M, State>>
{
  /** The pure part: `init`, which makes the first state, and a handler for each message. */
  readonly behaviour: <E = never>(options: {
    readonly init: D.Init<State, E>
    readonly handlers: D.Handlers<M, State, Name>
  }) => Behaviour<Self, E>
  /** An action for an outcome. */
  readonly action: <T extends keyof A & string>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadType<D.PayloadSchema<A[T]>>>
  ) => ActionRequest<Name>
  /** The action handlers, with whatever services they need. */
  readonly actionsLayer: <H extends D.ActionHandlers<A, State, any>>(
    handlers: H & D.ActionHandlers<A, State, any>
  ) => Layer.Layer<ActionsOf<Name>, never, D.ServicesOf<H>>
  /** The one server of this name, as a layer; its tuid is `[name]`. */
  readonly layer: <E>(
    behaviour: Behaviour<Self, E>,
    options?: Options
  ) => Layer.Layer<Self, E | StartError, Tenant | Needs<A, Name>>
  /** Starts one of many servers of this definition. */
  readonly start: <E>(
    behaviour: Behaviour<Self, E>,
    options: Options & { readonly tuid: Tuple.Tuple }
  ) => Effect.Effect<Running<M, State>, E | StartError, Scope.Scope | Tenant | Needs<A, Name>>
  /** A client of a server that others run; the default tuid is `[name]`. */
  readonly client: (
    options?: { readonly tuid?: Tuple.Tuple | undefined }
  ) => Effect.Effect<Client<M, State>, InvalidTuid, Tenant>
  /** A cast as part of a transaction. */
  readonly castTx: <T extends D.CastTag<M>>(
    tag: T,
    ...args: D.PayloadArgs<D.PayloadOf<M[T]>, [options?: { readonly tuid?: Tuple.Tuple | undefined }]>
  ) => Effect.Effect<void, InvalidPayload | UnknownMessage | PayloadTooLarge, Transaction>
  /** Several casts as part of a transaction. */
  readonly castAllTx: (
    messages: ReadonlyArray<CastInput<M>>,
    options?: { readonly tuid?: Tuple.Tuple | undefined }
  ) => Effect.Effect<void, InvalidPayload | UnknownMessage | PayloadTooLarge, Transaction>
}

/**
 * Defines a server: its name, its state, its messages and its actions. Extend the class that it returns.
 *
 * @since 0.1.0
 * @category definitions
 */
export const Service = <Self>() =>
<
  const Name extends string,
  S extends D.PureSchema,
  const M extends D.Messages,
  const A extends D.Actions = {}
>(
  name: Name,
  options: { readonly state: S; readonly messages: M; readonly actions?: A }
): ServiceClass<Self, Name, S["Type"], M, A> => {
  const definition = Definition.model(name, { ...options, actions: options.actions ?? {} })
  const Base: any = Context.Service<Self, any>()(`effect-dgen/server/${name}`)
  const ActionsService = Context.Service<any, Model.Effects>(`effect-dgen/server/${name}/actions`)
  const needsActions = definition.actions.size > 0
  const effects: Effect.Effect<Model.Effects, never, any> = needsActions
    ? Effect.service(ActionsService)
    : Effect.succeed({ actions: new Map() })
  const start = (behaviour: Model.Behaviour, started: Options & { readonly tuid: Tuple.Tuple }) =>
    Effect.flatMap(
      checkOptions(name, started),
      (checked) =>
        Effect.flatMap(effects, (handlers) =>
          Effect.map(Runtime.start(behaviour, handlers, checked), (running) => typedRunning(name, running)))
    )
  return Object.assign(Base, {
    behaviour: (input: any) => makeBehaviour(definition, input),
    action: (tag: string, payload?: unknown): ActionRequest<Name> => ({ server: name, tag, payload }),
    actionsLayer: (handlers: Record<string, any>) =>
      Layer.effect(
        ActionsService,
        Effect.map(Effect.context<any>(), (context) => ({
          actions: new Map(
            Object.entries(handlers).map(([tag, handler]) => [
              tag,
              (payload: unknown, state: unknown) => Effect.provideContext(handler(payload, state), context) as any
            ])
          )
        }))
      ),
    layer: (behaviour: Model.Behaviour, started: Options = {}) =>
      Layer.effect(Base, start(behaviour, { ...started, tuid: [name] }) as any),
    start,
    client: (client: { readonly tuid?: Tuple.Tuple } = {}) =>
      Effect.map(Runtime.client(definition, client.tuid ?? [name]), (made) => typedClient(name, made)),
    castTx: (tag: string, payload?: unknown, cast: { readonly tuid?: Tuple.Tuple } = {}) =>
      Runtime.castAllTx(definition, cast.tuid ?? [name], [[tag, payload]]),
    castAllTx: (messages: any, cast: { readonly tuid?: Tuple.Tuple } = {}) =>
      Runtime.castAllTx(definition, cast.tuid ?? [name], messages)
  })
}

// --- internal ---

const makeBehaviour = (
  definition: Model.Definition,
  input: { readonly init: any; readonly handlers: Record<string, Model.Handler> }
): Model.Behaviour => {
  const missing = [...definition.messages.keys()].filter((tag) => !Predicate.isFunction(input.handlers[tag]))
  if (missing.length > 0) throw new TypeError(`${definition.name}: there is no handler for ${missing.join(", ")}`)
  const init = (options: { readonly tuid: Tuple.Tuple }): Effect.Effect<Model.Initial, unknown, Transaction> =>
    Effect.map(
      Predicate.isFunction(input.init) ? input.init(options) : input.init,
      (first: any) => Predicate.isTagged(first, "At") ? first as any : { tuid: undefined, state: first }
    )
  return { definition, init, handlers: new Map(Object.entries(input.handlers)) }
}

const invalid = (server: string, option: string, problem: string) =>
  Effect.fail(new InvalidOption({ server, option, problem }))

const checkOptions = (server: string, options: Options & { readonly tuid: Tuple.Tuple }) => {
  const consumeK = options.consumeK ?? 1
  if (!Number.isInteger(consumeK) || consumeK < 1 || consumeK > CONSUME_K_LIMIT) {
    return invalid(server, "consumeK", `must be a whole number from 1 to ${CONSUME_K_LIMIT}, not ${String(consumeK)}`)
  }
  for (const option of ["consume", "reset", "cache"] as const) {
    const value: unknown = options[option]
    if (value !== undefined && typeof value !== "boolean") {
      return invalid(server, option, `must be true or false, not ${String(value)}`)
    }
  }
  return Effect.succeed<Model.Options>({
    tuid: options.tuid,
    consume: options.consume ?? true,
    reset: options.reset ?? false,
    consumeK,
    cache: options.cache ?? true,
    restart: options.restart
  })
}

const timed = (
  server: string,
  run: (tag: string, payload: unknown, timeoutMillis: number) => Effect.Effect<unknown, unknown>
) =>
(tag: string, payload?: unknown, options: { readonly timeout?: Duration.Input } = {}) => {
  const timeout = Duration.fromInput(options.timeout ?? CALL_TIMEOUT_DEFAULT)
  const millis = timeout._tag === "Some" ? Duration.toMillis(timeout.value) : NaN
  return millis > 0 && millis <= CALL_TIMEOUT_LIMIT_MILLIS
    ? run(tag, payload, millis)
    : invalid(server, "timeout", `must be a duration above zero, at most 24 hours, not ${String(options.timeout)}`)
}

const typedClient = (server: string, client: Model.Client) => ({ ...client, call: timed(server, client.call) })

const typedRunning = (server: string, running: Model.Running) => ({
  ...running,
  call: timed(server, running.call),
  priorityCall: timed(server, running.priorityCall)
})

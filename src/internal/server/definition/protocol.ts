/**
 * What a user writes of a server, as types: its messages and actions, and the handlers, arguments and outcomes that follow
 * from them. `making.ts` makes the runtime's model of it.
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import type { AnyDurable, Durable, DurableContext } from "./durable.ts"
import type * as Model from "./model.ts"
import type {
  ActionRequest,
  At,
  Gone,
  Halt,
  Lock,
  LockRefused,
  NoReply,
  Reply,
  ReplyRefused,
  SecondLockRefused,
  StateRefused,
  Stop,
  Update,
  UpdateRefused
} from "./outcome.ts"
import type { StateVersions } from "./versions.ts"

/** A schema whose codec needs no service. */
export type PureSchema = Schema.Codec<any, any, never, never>

/** The fields of a struct, each a schema whose codec needs no service. */
export type PureFields = { readonly [field: string]: PureSchema }

/** The state's type: that of its schema, or of its newest version. */
export type StateType<S> = S extends StateVersions<infer Newest> ? Newest["Type"]
  : S extends PureSchema ? S["Type"]
  : never

/** A payload: a schema, the fields of a struct, or none. */
export type PayloadInput = PureSchema | PureFields | undefined

/** The schema that a payload's definition stands for. */
export type PayloadSchema<P> = P extends PureSchema ? P
  : P extends PureFields ? Schema.Struct<P>
  : undefined

/** The value of a payload; `void` when there is none. */
export type PayloadType<P> = P extends Schema.Constraint ? P["Type"] : void

export const MessageTypeId = "~effect-dgen/DgenServer/Message"

/**
 * A call: it is answered.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call<Payload, Success, Error, Locks extends boolean = false> {
  readonly [MessageTypeId]: "call"
  readonly payload: Payload
  readonly success: Success
  readonly error: Error
  readonly locks: Locks
}

/**
 * A cast: it is handled some time after it was sent, and not answered.
 *
 * @since 0.1.0
 * @category models
 */
export interface Cast<Payload, Locks extends boolean = false> {
  readonly [MessageTypeId]: "cast"
  readonly payload: Payload
  readonly locks: Locks
}

/**
 * An info message: it is handled at once, past the queue, and not answered.
 *
 * @since 0.1.0
 * @category models
 */
export interface Info<Payload, Locks extends boolean = false> {
  readonly [MessageTypeId]: "info"
  readonly payload: Payload
  readonly locks: Locks
}

/**
 * Any message of a protocol. It says nothing of the types inside: as a bound with `any` in it, it would be what an
 * omitted `error` is inferred from, and that error would be `any` instead of `never`.
 */
export interface AnyMessage {
  readonly [MessageTypeId]: "call" | "cast" | "info"
}

export type Messages = { readonly [tag: string]: AnyMessage }

export const ProtocolTypeId = "~effect-dgen/Protocol"

/**
 * What can be said to a server: its name and its messages.
 *
 * @since 0.2.0
 * @category models
 */
export interface Protocol<out Name extends string, out M> {
  readonly [ProtocolTypeId]: { readonly name: Name; readonly messages: M }
}

export type Actions = { readonly [tag: string]: PureSchema | PureFields | AnyDurable }

/** The value of an action's payload; `void` when there is none. */
export type ActionPayload<Action> = PayloadType<Action extends Durable<infer P> ? P : PayloadSchema<Action>>

/**
 * The tags of a protocol's calls, casts and infos, and of the messages whose handlers may ask for the lock. As a
 * property's type, they have no name that an error would show instead of the tags.
 */
export type CallTag<M> = {
  readonly tags: { [T in keyof M]: M[T] extends Call<any, any, any, any> ? T : never }[keyof M] & string
}["tags"]
export type CastTag<M> = {
  readonly tags: { [T in keyof M]: M[T] extends Cast<any, any> ? T : never }[keyof M] & string
}["tags"]
export type InfoTag<M> = {
  readonly tags: { [T in keyof M]: M[T] extends Info<any, any> ? T : never }[keyof M] & string
}["tags"]
export type LockingTag<M> = {
  readonly tags: { [T in keyof M]: M[T] extends { readonly locks: true } ? T : never }[keyof M] & string
}["tags"]

export type PayloadOf<Message> = Message extends { readonly payload: infer P } ? PayloadType<P> : never
export type SuccessOf<Message> = Message extends Call<any, infer S, any, any> ?
  S extends Schema.Constraint ? S["Type"] : never
  : never
export type ErrorOf<Message> = Message extends Call<any, any, infer E, any> ?
  E extends Schema.Constraint ? E["Type"] : never
  : never

/**
 * Who waits for the answer of a call: a handler of a call gets it, and may keep it in the state, to answer later with
 * `replyTo`. `C` is the call, where the type says which; `any` is some call.
 *
 * @since 0.1.0
 * @category models
 */
export interface From<in out C = any> extends Model.From {
  readonly "~effect-dgen/DgenServer/From"?: (call: C) => C
}

/** What answers a caller: exactly what its call declares, or, of some call, what any of the server's calls does. */
export type AnswerTo<M, C> = 0 extends 1 & C ? Exit.Exit<SuccessOf<M[CallTag<M>]>, ErrorOf<M[CallTag<M>]>>
  : Exit.Exit<SuccessOf<C>, ErrorOf<C>>

/** What tells the types of a definition from the class that it is. */
export const TypesId = "~effect-dgen/DgenServer/Types"
export interface Types<State, M, A> {
  readonly state: State
  readonly messages: M
  readonly actions: A
}
export interface Typed<State = any, M = any, A = any> {
  readonly [TypesId]?: Types<State, M, A>
}
export type TypesOf<C> = C extends { readonly [TypesId]?: infer T } ? Extract<T, Types<any, any, any>> : never

/** What tells a message from every other one of its server that means something else: a text of 1 to 256 bytes. */
export interface KeyOptions {
  readonly key?: string | undefined
}

/** What a call past the queue may be told beside its payload. */
export interface PriorityOptions {
  readonly timeout?: Duration.Input | undefined
}

/** What a call may be told beside its payload. */
export interface CallOptions extends KeyOptions {
  readonly timeout?: Duration.Input | undefined
}

/** The arguments of a call behind its tag: where there is no payload, the options may come in its place. */
export type CallArgs<P, Options = CallOptions> = IsNone<P> extends true ?
  [options?: Options | undefined, behind?: Options]
  : [payload: P, options?: Options]

/** Whether a payload's type is that of no payload; `any` is a payload. */
export type IsNone<P> = unknown extends P ? false : [P] extends [void] ? true : false

/** The payload argument, left out where there is none. */
export type PayloadArgs<P, Rest extends ReadonlyArray<unknown> = []> = IsNone<P> extends true
  ? [payload?: undefined, ...rest: Rest]
  : [payload: P, ...rest: Rest]

/** The payload, left out where there is none, and what follows it. */
export type LaterArgs<P, When> = IsNone<P> extends true ? [when: When] | [payload: undefined, when: When]
  : [payload: P, when: When]

/** What ends the handling of a message. */
export type SettledOf<Message, State, Name extends string> = Message extends Call<any, any, any, any>
  ? Reply<SuccessOf<Message>, State | Gone, Name> | NoReply<State | Gone, Name> | Stop<State, Name>
  : NoReply<State | Gone, Name> | Stop<State, Name> | ReplyRefused

/** What a handler of a message may return. */
export type OutcomeOf<Message, State, Name extends string> =
  | SettledOf<Message, State, Name>
  | (Message extends { readonly locks: true } ? Lock<State> : LockRefused)
  | UpdateRefused
  | StateRefused<State>

/** What a locked handler of a message may return. */
export type LockedOutcomeOf<Message, State, Name extends string> =
  | SettledOf<Message, State, Name>
  | Update<State, SettledOf<Message, State, Name>, ErrorOf<Message>>
  | SecondLockRefused
  | StateRefused<State>

/**
 * What a handler gets besides payload and state: who waits (`from`, in calls), which attempt this is, an `id` that tells
 * the message from every other one of its server, and the server's tuid.
 *
 * @since 0.1.0
 * @category models
 */
export interface HandlerContext<out Caller extends From | undefined = From | undefined> extends Model.HandlerContext {
  /** Who waits: in the handler of a call always somebody, elsewhere nobody. */
  readonly from: Caller
}

/**
 * What a locked handler, and a dead-letter handler, get: the same, and the message's kind.
 *
 * @since 0.1.0
 * @category models
 */
export interface LockedContext<out Caller extends From | undefined = From | undefined> extends HandlerContext<Caller> {
  readonly kind: Model.Kind
}

/** Who waits in a handler of a message. */
export type CallerOf<Message> = Message extends Call<any, any, any, any> ? From<Message> : undefined

/** A handler of a message. */
export type Handler<Message, State, Name extends string> = (
  payload: PayloadOf<Message>,
  state: State,
  context: HandlerContext<CallerOf<Message>>
) => OutcomeOf<Message, State, Name> | Effect.Effect<OutcomeOf<Message, State, Name>, ErrorOf<Message>, Transaction>

/** A handler for each message. */
export type Handlers<M, State, Name extends string> = { readonly [T in keyof M]: Handler<M[T], State, Name> }

/** A locked handler for each message that locks. */
export type LockedHandlers<M, State, Name extends string, R> = {
  readonly [T in LockingTag<M>]: (
    payload: PayloadOf<M[T]>,
    state: State,
    context: LockedContext<CallerOf<M[T]>>
  ) => LockedOutcomeOf<M[T], State, Name> | Effect.Effect<LockedOutcomeOf<M[T], State, Name>, ErrorOf<M[T]>, R>
}

/** How a first state is made. */
export type InitResult<State> = State | At<State>
export type Init<State, E> =
  | Effect.Effect<InitResult<State>, E, Transaction>
  | ((options: { readonly tuid: Tuple.Tuple }) => Effect.Effect<InitResult<State>, E, Transaction>)

/** How the first state of a hosted server is made: any message may make it, so it lies where that says. */
export type HostedInit<State, E> =
  | Effect.Effect<State, E, Transaction>
  | ((options: { readonly tuid: Tuple.Tuple }) => Effect.Effect<State, E, Transaction>)

/** The payload argument, and which server after it. */
export type HostedArgs<P, Which> = IsNone<P> extends true ? [payload: undefined, which: Which]
  : [payload: P, which: Which]

/**
 * What a handler of an action gets besides payload and state: the server's `tuid`, and the `id` of the message that asked
 * for it, which tells the message from every other one of its server.
 *
 * @since 0.2.0
 * @category models
 */
export type ActionContext = Model.ActionContext

/** A handler for each action: one of a durable action may fail, and gets no state, which is another one by then. */
export type ActionHandlers<A, State, R> = {
  readonly [T in keyof A]: A[T] extends AnyDurable ? (
      payload: ActionPayload<A[T]>,
      context: DurableContext
    ) => Effect.Effect<void, unknown, R>
    : (payload: ActionPayload<A[T]>, state: State, context: ActionContext) => Effect.Effect<void | Halt, never, R>
}

/** What keeps a record of handlers from having other keys, with the error that the user sees. */
export type NoOthers<H, Keys> = { readonly [T in Exclude<keyof H, Keys>]: "the server declares no such handler" }

/** The services that a record of action handlers needs, all together. */
export type ServicesOf<H> = {
  [T in keyof H]: H[T] extends (...args: any) => infer Result
    ? Result extends Effect.Effect<any, any, infer R> ? R : never
    : never
}[keyof H]

export type { ActionRequest }

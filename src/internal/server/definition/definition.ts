/**
 * From what a user wrote to what the runtime works on, and the types between them.
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { show } from "../../data/show.ts"
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
import { isVersions, schemasOf, type StateVersions } from "./versions.ts"

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

const MessageTypeId = "~effect-dgen/DgenServer/Message"

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
export type Actions = { readonly [tag: string]: PureSchema | PureFields }

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

/** What a call may be told beside its payload. */
export interface CallOptions {
  readonly timeout?: Duration.Input | undefined
}

/** The arguments of a call behind its tag: where there is no payload, the options may come in its place. */
export type CallArgs<P> = IsNone<P> extends true ? [options?: CallOptions | undefined, behind?: CallOptions]
  : [payload: P, options?: CallOptions]

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

/** A handler for each action. */
export type ActionHandlers<A, State, R> = {
  readonly [T in keyof A]: (
    payload: PayloadType<PayloadSchema<A[T]>>,
    state: State,
    context: ActionContext
  ) => Effect.Effect<void | Halt, never, R>
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

const isSchema = (value: unknown): value is PureSchema => Schema.isSchema(value)

/** The schema of a payload's definition; throws a `TypeError` for what is none. */
export const payloadSchema = (what: string, payload: PayloadInput): PureSchema | undefined => {
  if (payload === undefined || isSchema(payload)) return payload
  if (!Predicate.isObject(payload) || !Object.values(payload).every(isSchema)) {
    throw new TypeError(`${what} must be a schema, or an object of schemas, not ${show(payload)}`)
  }
  return Schema.Struct(payload) as unknown as PureSchema
}

/** A schema of a definition; throws a `TypeError` for what is none. */
const schemaOf = (what: string, schema: PureSchema): PureSchema => {
  if (isSchema(schema)) return schema
  throw new TypeError(`${what} must be a schema, not ${show(schema)}`)
}

/** A message as the user's constructors make it. */
export const message = (kind: Model.Kind, options: {
  readonly payload?: PayloadInput
  readonly success?: PureSchema | undefined
  readonly error?: PureSchema | undefined
  readonly locks?: boolean | undefined
}): AnyMessage => {
  const name = `DgenServer.${kind}`
  if (!Predicate.isObject(options)) throw new TypeError(`${name}: the options must be an object, not ${show(options)}`)
  const { error = Schema.Never, locks = false, payload, success = Schema.Void } = options
  if (typeof locks !== "boolean") throw new TypeError(`${name}: locks must be true or false, not ${show(locks)}`)
  return {
    [MessageTypeId]: kind,
    payload: payloadSchema(`${name}: the payload`, payload),
    success: schemaOf(`${name}: success`, success),
    error: schemaOf(`${name}: error`, error),
    locks
  } as any
}

/** Throws a `TypeError` for what no server can be. */
/** The name of a hosted definition stands in the keys of its servers, beside their tuids. */
export const HOSTED_NAME_LIMIT_BYTES = 256

/** Timers of one server: more are better many servers. */
const MAX_TIMERS = 100_000

const checkDefinition = (
  name: unknown,
  options: { readonly messages: unknown; readonly actions?: unknown; readonly hosted?: unknown }
): void => {
  if (typeof name !== "string" || name === "" || !name.isWellFormed()) {
    throw new TypeError(`DgenServer.Service: the name must be a text, and not empty, not ${show(name)}`)
  }
  if (!Predicate.isObject(options)) throw new TypeError(`${name}: the definition must be an object`)
  const { actions = {}, messages } = options
  if (!Predicate.isObject(messages)) throw new TypeError(`${name}: messages must be an object, not ${show(messages)}`)
  if (!Predicate.isObject(actions)) throw new TypeError(`${name}: actions must be an object, not ${show(actions)}`)
  if (options.hosted !== undefined && typeof options.hosted !== "boolean") {
    throw new TypeError(`${name}: hosted must be true or false, not ${show(options.hosted)}`)
  }
  if (options.hosted === true && Buffer.byteLength(name) > HOSTED_NAME_LIMIT_BYTES) {
    throw new TypeError(
      `${name}: the name of a hosted server has ${HOSTED_NAME_LIMIT_BYTES} bytes at the most: shorten it`
    )
  }
  const { maxTimers = MAX_TIMERS } = options as { readonly maxTimers?: unknown }
  if (!Number.isInteger(maxTimers) || (maxTimers as number) < 1 || (maxTimers as number) > MAX_TIMERS) {
    throw new TypeError(`${name}: maxTimers must be a whole number from 1 to ${MAX_TIMERS}, not ${show(maxTimers)}`)
  }
  for (const [tag, definition] of Object.entries(messages)) {
    if (!Predicate.hasProperty(definition, MessageTypeId)) {
      throw new TypeError(`${name}: the message "${tag}" must be made with DgenServer.call, cast or info`)
    }
  }
}

/** The runtime's model of a definition; throws a `TypeError` for what is none. */
export const model = (name: string, options: {
  readonly state: PureSchema | StateVersions<PureSchema>
  readonly messages: Messages
  readonly actions?: Actions | undefined
  readonly hosted?: boolean | undefined
  readonly maxTimers?: number | undefined
}): Model.Definition => {
  checkDefinition(name, options)
  return modelOf(name, options)
}

/** The schemas of a state, from the newest one back. */
const stateOf = (name: string, state: PureSchema | StateVersions<PureSchema>) =>
  isVersions(state)
    ? {
      state: state.schema,
      earlier: state.steps.map((step, index) => ({ schema: schemasOf(state)[index]!, step }))
    }
    : { state: schemaOf(`${name}: the state`, state), earlier: [] }

const modelOf = (name: string, options: Parameters<typeof model>[1]): Model.Definition => ({
  name,
  hosted: options.hosted ?? false,
  maxTimers: options.maxTimers ?? MAX_TIMERS,
  ...stateOf(name, options.state),
  messages: new Map(
    Object.entries(options.messages).map(([tag, definition]) => {
      const { error, locks, payload, success } = definition as Call<
        PureSchema | undefined,
        PureSchema,
        PureSchema,
        boolean
      >
      return [tag, { tag, kind: definition[MessageTypeId], locks, payload, success, error }]
    })
  ),
  actions: new Map(
    Object.entries(options.actions ?? {}).map(([tag, payload]) => [
      tag,
      { tag, payload: payloadSchema(`${name}: the payload of the action "${tag}"`, payload) }
    ])
  )
})

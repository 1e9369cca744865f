/**
 * From what a user wrote to what the runtime works on: messages and definitions, checked when they are made. What is none
 * is a mistake of the program, and a `TypeError` that names it.
 */
import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { show } from "../../data/show.ts"
import { type Durable, durableOptionsOf } from "./durable.ts"
import type * as Model from "./model.ts"
import {
  type Actions,
  type AnyMessage,
  type Call,
  type Messages,
  MessageTypeId,
  type PayloadInput,
  type Protocol,
  ProtocolTypeId,
  type PureSchema
} from "./protocol.ts"
import { isVersions, schemasOf, type StateVersions } from "./versions.ts"

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

/** The name of a hosted definition stands in the keys of its servers, beside their tuids. */
export const HOSTED_NAME_LIMIT_BYTES = 256

/** The name of a durable action stands in the keys of jobs, beside its server's. */
const DURABLE_TAG_LIMIT_BYTES = 256

/** Timers of one server: more are better many servers. */
const MAX_TIMERS = 100_000

/** Keys of one server: more are better many servers, or a shorter retention. */
const MAX_KEYS = 100_000

/** Longer than anybody sends a message again for. */
const KEY_RETENTION_DEFAULT = Duration.hours(24)

/** What `Date` holds has room for it. */
const KEY_RETENTION_LIMIT_MILLIS = 100 * 366 * 24 * 60 * 60_000

const millisOf = (input: unknown): number => {
  const duration = Duration.fromInput(input as Duration.Input)
  return duration._tag === "Some" ? Duration.toMillis(duration.value) : Number.NaN
}

const isWhole = (value: unknown, most: number): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 1 && (value as number) <= most

interface Limits {
  readonly maxTimers?: unknown
  readonly maxQueueLength?: unknown
  readonly maxKeys?: unknown
  readonly keyRetention?: unknown
}

/** Throws a `TypeError` for a limit that is none. */
const checkLimits = (
  name: string,
  { keyRetention = KEY_RETENTION_DEFAULT, maxKeys = MAX_KEYS, maxQueueLength, maxTimers = MAX_TIMERS }: Limits
): void => {
  if (!isWhole(maxKeys, MAX_KEYS)) {
    throw new TypeError(`${name}: maxKeys must be a whole number from 1 to ${MAX_KEYS}, not ${show(maxKeys)}`)
  }
  const retentionMillis = millisOf(keyRetention)
  if (!(retentionMillis > 0 && retentionMillis <= KEY_RETENTION_LIMIT_MILLIS)) {
    throw new TypeError(
      `${name}: keyRetention must be a duration above zero, at most 100 years, not ${show(keyRetention)}`
    )
  }
  if (!isWhole(maxTimers, MAX_TIMERS)) {
    throw new TypeError(`${name}: maxTimers must be a whole number from 1 to ${MAX_TIMERS}, not ${show(maxTimers)}`)
  }
  if (maxQueueLength !== undefined && !isWhole(maxQueueLength, Number.MAX_SAFE_INTEGER)) {
    throw new TypeError(`${name}: maxQueueLength must be a whole number, 1 or more, not ${show(maxQueueLength)}`)
  }
}

const bytesOf = (text: string): number => new TextEncoder().encode(text).length

/** Throws a `TypeError` where names of durable actions are no part of a job's type. */
const checkDurable = (name: string, actions: object): void => {
  const tags = Object.entries(actions).flatMap(([tag, action]) => durableOptionsOf(action) === undefined ? [] : [tag])
  if (tags.length === 0) return
  if (bytesOf(name) > HOSTED_NAME_LIMIT_BYTES) {
    throw new TypeError(
      `${name}: the name of a server with durable actions has ${HOSTED_NAME_LIMIT_BYTES} bytes at the most: shorten it`
    )
  }
  for (const tag of tags) {
    const bytes = bytesOf(tag)
    if (bytes === 0 || bytes > DURABLE_TAG_LIMIT_BYTES || !tag.isWellFormed()) {
      throw new TypeError(
        `${name}: the name of a durable action must be a text of 1 to ${DURABLE_TAG_LIMIT_BYTES} bytes, not ${
          show(tag)
        }`
      )
    }
  }
}

/** Throws a `TypeError` for what no server can be named, and for what it cannot be told. */
const checkProtocol = (what: string, name: unknown, options: { readonly messages: unknown }): void => {
  if (typeof name !== "string" || name === "" || !name.isWellFormed()) {
    throw new TypeError(`${what}: the name must be a text, and not empty, not ${show(name)}`)
  }
  if (!Predicate.isObject(options)) throw new TypeError(`${name}: the definition must be an object`)
  const { messages } = options
  if (!Predicate.isObject(messages)) throw new TypeError(`${name}: messages must be an object, not ${show(messages)}`)
  for (const [tag, definition] of Object.entries(messages)) {
    if (!Predicate.hasProperty(definition, MessageTypeId)) {
      throw new TypeError(`${name}: the message "${tag}" must be made with DgenServer.call, cast or info`)
    }
  }
}

/** The protocol of a server; throws a `TypeError` for what is none. */
export const protocol = (name: string, options: { readonly messages: Messages }): Protocol<string, Messages> => {
  checkProtocol("Protocol.make", name, options)
  return { [ProtocolTypeId]: { name, messages: options.messages } }
}

export const isProtocol = (value: unknown): value is Protocol<string, Messages> =>
  Predicate.hasProperty(value, ProtocolTypeId)

/**
 * The name and the options of a definition, wherever its messages stand: in the options, beside a name, or in a protocol.
 * Throws a `TypeError` where they stand in both.
 */
export const namedOptions = (
  given: string | Protocol<string, Messages>,
  options: any
): readonly [name: string, options: Parameters<typeof model>[1]] => {
  if (!isProtocol(given)) return [given, options]
  const { messages, name } = given[ProtocolTypeId]
  if (!Predicate.isObject(options)) return [name, options as never]
  if ("messages" in options) throw new TypeError(`${name}: its protocol has the messages: leave them out here`)
  return [name, { ...options, messages } as never]
}

/** Throws a `TypeError` for what no server can be. */
const checkDefinition = (
  name: string,
  options: { readonly messages: unknown; readonly actions?: unknown; readonly hosted?: unknown } & Limits
): void => {
  checkProtocol("DgenServer.Service", name, options)
  const { actions = {} } = options
  if (!Predicate.isObject(actions)) throw new TypeError(`${name}: actions must be an object, not ${show(actions)}`)
  if (options.hosted !== undefined && typeof options.hosted !== "boolean") {
    throw new TypeError(`${name}: hosted must be true or false, not ${show(options.hosted)}`)
  }
  if (options.hosted === true && bytesOf(name) > HOSTED_NAME_LIMIT_BYTES) {
    throw new TypeError(
      `${name}: the name of a hosted server has ${HOSTED_NAME_LIMIT_BYTES} bytes at the most: shorten it`
    )
  }
  checkLimits(name, options)
  checkDurable(name, actions)
}

/** The runtime's model of a definition; throws a `TypeError` for what is none. */
export const model = (name: string, options: {
  readonly state: PureSchema | StateVersions<any>
  readonly messages: Messages
  readonly actions?: Actions | undefined
  readonly hosted?: boolean | undefined
  readonly maxTimers?: number | undefined
  readonly maxQueueLength?: number | undefined
  readonly maxKeys?: number | undefined
  readonly keyRetention?: Duration.Input | undefined
}): Model.Definition => {
  checkDefinition(name, options)
  return modelOf(name, options)
}

/** The schemas of a state, from the newest one back. */
const stateOf = (name: string, state: PureSchema | StateVersions<any>) =>
  isVersions(state)
    ? {
      state: state.schema as PureSchema,
      earlier: state.steps.map((step, index) => ({ schema: schemasOf(state)[index]!, step }))
    }
    : { state: schemaOf(`${name}: the state`, state as PureSchema), earlier: [] }

const modelOf = (name: string, options: Parameters<typeof model>[1]): Model.Definition => ({
  name,
  hosted: options.hosted ?? false,
  maxTimers: options.maxTimers ?? MAX_TIMERS,
  maxQueueLength: options.maxQueueLength ?? Infinity,
  maxKeys: options.maxKeys ?? MAX_KEYS,
  keyRetentionMillis: millisOf(options.keyRetention ?? KEY_RETENTION_DEFAULT),
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
  actions: new Map(Object.entries(options.actions ?? {}).map(([tag, action]) => [tag, actionOf(name, tag, action)])),
  hasDurable: Object.values(options.actions ?? {}).some((action) => durableOptionsOf(action) !== undefined)
})

const actionOf = (name: string, tag: string, action: Actions[string]): Model.Action => {
  const durable = durableOptionsOf(action)
  const payload = durable === undefined ? action as PayloadInput : (action as Durable<PayloadInput>).payload
  return { tag, payload: payloadSchema(`${name}: the payload of the action "${tag}"`, payload), durable }
}

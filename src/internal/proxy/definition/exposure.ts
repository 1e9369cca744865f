/**
 * What is shown of a server to the outside, and how: the options of a group, checked, and carried by each of its procedures
 * and endpoints to whoever serves them.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Tuple from "../../../Tuple.ts"
import { show } from "../../data/show.ts"
import { isProtocol } from "../../server/definition/making.ts"
import {
  type Call,
  type Messages,
  MessageTypeId,
  type Protocol,
  ProtocolTypeId
} from "../../server/definition/protocol.ts"

/** A request from outside, as `keyOf` sees it. */
export interface Request<out Address = unknown> {
  /** The message's tag. */
  readonly tag: string
  /** The address, decoded by its schema. */
  readonly address: Address
  readonly payload: unknown
  readonly headers: Headers.Headers
}

/** A message that is shown, and how a request for it becomes a message. */
export interface Exposure {
  readonly server: string
  readonly tag: string
  readonly kind: "call" | "cast"
  readonly toTuid: (address: any) => Tuple.Tuple | Effect.Effect<Tuple.Tuple, never, any>
  readonly keyOf:
    | ((request: Request<any>) => string | undefined | Effect.Effect<string | undefined, never, any>)
    | undefined
  readonly timeout: Duration.Input | undefined
  readonly maxBodyBytes: number
  readonly bodyTimeoutMillis: number
}

/** Where a procedure and an endpoint carry it. */
export class Exposed extends Context.Service<Exposed, Exposure>()("effect-dgen/DgenProxy/Exposed") {}

/** The schemas of a message that is shown. */
export interface Shown {
  readonly exposure: Exposure
  readonly payload: Schema.Top | undefined
  readonly success: Schema.Top
  readonly error: Schema.Top
}

/** What the options of both kinds of groups have, with their types erased. */
export interface Given {
  readonly messages: ReadonlyArray<string>
  readonly tuid: { readonly schema: Schema.Top; readonly toTuid: Exposure["toTuid"] }
  readonly authorization: unknown
  readonly keyOf?: Exposure["keyOf"]
  readonly timeout?: Duration.Input | undefined
  readonly maxBodyBytes?: number | undefined
  readonly bodyTimeout?: Duration.Input | undefined
}

/** As much as a message may have, and some: its JSON is longer than what is kept of it. */
const MAX_BODY_BYTES = 10_000_000

/** Longer than a slow line needs for a message, and shorter than somebody who only holds a place would like. */
const BODY_TIMEOUT = Duration.seconds(10)

/** What stands for "everybody may", where a middleware would. */
export const PUBLIC = "public"

/**
 * The name of a server, and the messages that are shown of it; throws a `TypeError` for what cannot be. `middleware` is the
 * mark of the middlewares that can stand before them.
 */
export const exposed = (
  what: string,
  middleware: string,
  definition: Protocol<string, Messages>,
  given: Given
): { readonly server: string; readonly shown: ReadonlyArray<Shown> } => {
  if (!isProtocol(definition)) throw new TypeError(`DgenProxy.${what}: ${show(definition)} is no server's definition`)
  const { messages, name } = definition[ProtocolTypeId]
  const refuse = (problem: string) => new TypeError(`DgenProxy.${what}: ${name}: ${problem}`)
  if (!Predicate.isObject(given)) throw refuse(`the options must be an object, not ${show(given)}`)
  checkWho(given, middleware, refuse)
  const limits = limitsOf(given, refuse)
  if (!Array.isArray(given.messages)) throw refuse(`messages must be an array of tags, not ${show(given.messages)}`)
  const tags = new Set<string>(given.messages)
  return {
    server: name,
    shown: [...tags].map((tag) => {
      const message = Object.hasOwn(messages, tag) ? messages[tag] as unknown as Call<any, any, any> : undefined
      const kind: unknown = message?.[MessageTypeId]
      if (message === undefined || (kind !== "call" && kind !== "cast")) {
        throw refuse(`${show(tag)} is no call and no cast of it: nothing else can be shown`)
      }
      const { keyOf, timeout, tuid: { toTuid } } = given
      const { error, payload, success } = message
      return { exposure: { server: name, tag, kind, toTuid, keyOf, timeout, ...limits }, payload, success, error }
    })
  }
}

const checkWho = (
  { authorization, keyOf, tuid }: Given,
  middleware: string,
  refuse: (problem: string) => TypeError
): void => {
  // who forgets it must not have opened the server to everybody
  if (authorization !== PUBLIC && !Predicate.hasProperty(authorization, middleware)) {
    const name = middleware.slice(middleware.lastIndexOf("/") + 1)
    throw refuse(`authorization must be a class of ${name}.Service, or "${PUBLIC}", not ${show(authorization)}`)
  }
  if (!Predicate.isObject(tuid) || !Schema.isSchema(tuid.schema) || !Predicate.isFunction(tuid.toTuid)) {
    throw refuse(`tuid must have a schema, and toTuid, which makes a tuid of its values, not ${show(tuid)}`)
  }
  if (keyOf !== undefined && !Predicate.isFunction(keyOf)) throw refuse(`keyOf must be a function, not ${show(keyOf)}`)
}

const limitsOf = (
  { bodyTimeout = BODY_TIMEOUT, maxBodyBytes = MAX_BODY_BYTES, timeout }: Given,
  refuse: (problem: string) => TypeError
) => {
  const isDuration = (value: Duration.Input) => {
    const duration = Duration.fromInput(value)
    return duration._tag === "Some" && Duration.toMillis(duration.value) > 0
  }
  if (timeout !== undefined && !isDuration(timeout)) {
    throw refuse(`timeout must be a duration above zero, not ${show(timeout)}`)
  }
  if (!isDuration(bodyTimeout)) throw refuse(`bodyTimeout must be a duration above zero, not ${show(bodyTimeout)}`)
  if (!Number.isSafeInteger(maxBodyBytes) || maxBodyBytes < 1) {
    throw refuse(`maxBodyBytes must be a whole number above zero, not ${show(maxBodyBytes)}`)
  }
  return { maxBodyBytes, bodyTimeoutMillis: Duration.toMillis(Duration.fromInputUnsafe(bodyTimeout)) }
}

/** What a function of a user gave, an effect or a value, as an effect. */
export const asEffect = <A>(value: A | Effect.Effect<A, never, any>): Effect.Effect<A, never, any> =>
  Effect.isEffect(value) ? value : Effect.succeed(value)

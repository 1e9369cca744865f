/**
 * Servers for browsers and other services: makes of a definition a group of procedures (`effect/rpc`) or of HTTP endpoints
 * (`effect/http-api`), with the payloads, answers and errors of its messages. `DgenProxyServer` serves them. Like `Protocol`,
 * this module uses nothing of Node: a browser makes its client of the same group.
 *
 * A message is shown if its tag is in `messages`, and to whom `authorization` lets through: what is not said is closed. What
 * goes wrong inside of the server, or in its store, leaves the process as an id, and lies with it in the log.
 *
 * What you owe: an `authorization` that also looks at the address, where not everybody may reach every server (or a `toTuid`
 * that makes the tuid of who asks), and a `keyOf` for what must not happen twice: a request whose answer got lost is sent again.
 *
 * @since 0.2.0
 */
import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Rpc from "effect/rpc/Rpc"
import * as RpcGroup from "effect/rpc/RpcGroup"
import * as RpcMiddleware from "effect/rpc/RpcMiddleware"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { bodyErrors, callErrors, castErrors, declaredErrors } from "./internal/proxy/definition/errors.ts"
import { Exposed, exposed, type Given, PUBLIC, type Request, type Shown } from "./internal/proxy/definition/exposure.ts"
import type * as D from "./internal/server/definition/protocol.ts"
import type * as Tuple from "./Tuple.ts"

export { BodyTimeout, BodyTooLarge, StoreUnavailable, Unforeseen } from "./internal/proxy/definition/errors.ts"

/**
 * What a cast from outside can fail with.
 *
 * @since 0.2.0
 * @category errors
 */
export type CastError = typeof castErrors[number]["Type"]

/**
 * What a call from outside can fail with beside its own error.
 *
 * @since 0.2.0
 * @category errors
 */
export type CallError = typeof callErrors[number]["Type"]

/**
 * The tags of what can be shown of a server: its calls and its casts.
 *
 * @since 0.2.0
 * @category types
 */
export type Tags<M> = D.CallTag<M> | D.CastTag<M>

/**
 * What tells a request from every other one that means something else: a text of 1 to 256 bytes, or nothing, for a request
 * that may take effect each time it is sent. May need what the middleware provides, to know who asks.
 *
 * @since 0.2.0
 * @category models
 */
export type KeyOf<Address = any, R = never> = (request: Request<Address>) => Key<R>

/** A key, or nothing. */
type Key<R> = string | undefined | Effect.Effect<string | undefined, never, R>

/**
 * How a server is shown to the outside.
 *
 * @since 0.2.0
 * @category models
 */
export interface Options<Shown, Address extends Schema.Top, Authorization, R, K> {
  /** The tags of the messages that are shown. */
  readonly messages: Shown
  /**
   * How a request says which server it is for: the schema of its address, and what makes a tuid of one. With an effect, the
   * tuid can be made of what the middleware provides, so that everybody reaches servers of their own alone.
   */
  readonly tuid: {
    readonly schema: Address
    readonly toTuid: (address: Address["Type"]) => Tuple.Tuple | Effect.Effect<Tuple.Tuple, never, R>
  }
  /** The middleware that lets requests through, or `"public"`, where everybody may do everything that is shown. */
  readonly authorization: Authorization
  /** The key of a request, if it has one: all requests with one key take effect once, and get the same answer. */
  readonly keyOf?: K
  /** How long a call waits for its answer. Default: 5 seconds. */
  readonly timeout?: Duration.Input | undefined
}

/**
 * How a server is shown over HTTP.
 *
 * @since 0.2.0
 * @category models
 */
export interface HttpOptions<Shown, Address extends Schema.Top, Authorization, R, K>
  extends Options<Shown, Address, Authorization, R, K>
{
  /** The longest body, in bytes. Default: 10,000,000. */
  readonly maxBodyBytes?: number | undefined
  /** How long a body may take to come. Default: 10 seconds. */
  readonly bodyTimeout?: Duration.Input | undefined
}

/** A class of `HttpApiMiddleware.Service`. */
interface HttpMiddleware extends Context.Key<any, any>, Pick<HttpApiMiddleware.AnyService, "error"> {
  readonly "~effect/http-api/HttpApiMiddleware": string
}

/** The id of a middleware; of `"public"` none. */
type IdOf<A> = A extends { readonly Identifier: infer I } ? I : never

/** The fields of a procedure's payload. */
type Fields<Message, Address extends Schema.Top> = Message extends { readonly payload: infer P extends Schema.Top }
  ? { readonly tuid: Address; readonly payload: P }
  : { readonly tuid: Address }

/** The schema of an error, or of a proxy's own. */
type WithErrors<E, Own> = Schema.Codec<Own | (E extends Schema.Top ? E["Type"] : never), any, never, never>

/**
 * The procedures of a server, by its name and its messages.
 *
 * @since 0.2.0
 * @category types
 */
export type ConvertRpcs<Name extends string, M, Tag extends keyof M & string, Address extends Schema.Top, A> =
  Tag extends unknown ? Rpc.Rpc<
      `${Name}.${Tag}`,
      Schema.Struct<Fields<M[Tag], Address>>,
      M[Tag] extends { readonly success: infer S extends Schema.Top } ? S : Schema.Void,
      M[Tag] extends { readonly error: infer E } ? WithErrors<E, CallError> : WithErrors<never, CastError>,
      typeof RpcGate | (A extends RpcMiddleware.AnyService ? A : never),
      A extends RpcMiddleware.AnyService ? RpcMiddleware.Requires<IdOf<A>> : never
    >
    : never

/**
 * What stands around each procedure, outside of `authorization`: it keeps the process's defects in the process.
 * `DgenProxyServer.layerRpcHandlers` provides it.
 *
 * @since 0.2.0
 * @category models
 */
export class RpcGate extends RpcMiddleware.Service<RpcGate>()("effect-dgen/DgenProxy/RpcGate") {}

/**
 * Makes of a server, or of its protocol, a group of procedures: one for each message that is shown, with the name of both
 * (`"Cart.Add"`), and a payload of `tuid`, the address, and `payload`, the message's, if it has one. A cast succeeds with
 * nothing when it is durable.
 *
 * Throws a `TypeError` for options that programs without types got wrong: a tag that is no call and no cast, no
 * `authorization`.
 *
 * **Example** (A server by its procedures)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenProxy, DgenProxyServer, DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 * import { RpcTest } from "effect/rpc"
 *
 * class Cart extends DgenServer.Service<Cart>()("Cart", {
 *   hosted: true,
 *   state: Schema.Array(Schema.String),
 *   messages: {
 *     Add: DgenServer.cast({ payload: { sku: Schema.String } }),
 *     Items: DgenServer.call({ success: Schema.Array(Schema.String) }),
 *     Close: DgenServer.cast()
 *   }
 * }) {}
 *
 * class CartRpcs extends DgenProxy.toRpcGroup(Cart, {
 *   messages: ["Add", "Items"],
 *   tuid: { schema: Schema.Int, toTuid: (number) => ["cart", number] },
 *   authorization: "public"
 * }) {}
 *
 * const CartHost = Cart.hostLayer(Cart.behaviour({
 *   init: Effect.succeed([]),
 *   handlers: {
 *     Add: ({ sku }, items) => DgenServer.noReply([...items, sku]),
 *     Items: (_, items) => DgenServer.reply(items, items),
 *     Close: () => DgenServer.noReply(DgenServer.gone)
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   // a client without a network; RpcClient.make(CartRpcs) makes one that has it
 *   const client = yield* RpcTest.makeClient(CartRpcs)
 *   yield* client["Cart.Add"]({ tuid: 7, payload: { sku: "ink" } })
 *   return yield* client["Cart.Items"]({ tuid: 7 })
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * const Handlers = DgenProxyServer.layerRpcHandlers(Cart).pipe(Layer.merge(CartHost), Layer.provide(TestStore))
 * await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Handlers)))
 * // => ["ink"]
 * ```
 *
 * @since 0.2.0
 * @category constructors
 */
export const toRpcGroup = <
  const Name extends string,
  M,
  const Shown extends ReadonlyArray<Tags<M>>,
  Address extends D.PureSchema,
  A extends RpcMiddleware.AnyService | "public"
>(
  definition: D.Protocol<Name, M>,
  options: Options<
    Shown,
    Address,
    A,
    RpcMiddleware.Provides<IdOf<A>>,
    KeyOf<Address["Type"], RpcMiddleware.Provides<IdOf<A>>>
  >
): RpcGroup.RpcGroup<ConvertRpcs<Name, M, Shown[number], Address, A>> => {
  const { server, shown } = exposed("toRpcGroup", RpcMiddleware.TypeId, definition as never, options as Given)
  const rpcs = shown.map(({ error, exposure, payload, success }) => {
    const rpc = Rpc.make(`${server}.${exposure.tag}`, {
      payload: { tuid: options.tuid.schema, ...(payload === undefined ? {} : { payload }) },
      success: exposure.kind === "call" ? success : Schema.Void,
      error: Schema.Union(exposure.kind === "call" ? [...callErrors, error] : castErrors)
    }).annotate(Exposed, exposure)
    // the last one is the outermost
    return (options.authorization === PUBLIC ? rpc : rpc.middleware(options.authorization)).middleware(RpcGate)
  })
  return RpcGroup.make(...rpcs) as any
}

/**
 * The header that keys are read from.
 *
 * @since 0.2.0
 * @category models
 */
export interface KeyHeaders
  extends Schema.Struct<{ readonly "idempotency-key": Schema.optionalKey<typeof Schema.String> }>
{}

const KeyHeaders: KeyHeaders = Schema.Struct({ "idempotency-key": Schema.optionalKey(Schema.String) })

/**
 * A `KeyOf` that reads the header `Idempotency-Key`, scoped by who asks: the same header of another user is another key. A
 * request without the header has no key; one with an empty header, or one that is too long beside who asks, is refused.
 *
 * @since 0.2.0
 * @category constructors
 */
export const idempotencyKey = <R>(whoAsks: Effect.Effect<string, never, R>): KeyOf<any, R> => ({ headers }) => {
  const given = headers["idempotency-key"]
  if (given === undefined) return undefined
  // two texts in one, so that no two pairs are the same
  return Effect.map(whoAsks, (who) => isText(given) && given !== "" ? JSON.stringify([who, given]) : "")
}

/** Whether a header is one: those of procedures are part of the request, and can be anything. */
const isText = (header: unknown): boolean => typeof header === "string"

/**
 * What stands before each endpoint, inside of `authorization`: it bounds the body in length and time, and turns what does
 * not fit its schema into the typed error that says so. `DgenProxyServer.layerHttpApi` provides it.
 *
 * @since 0.2.0
 * @category models
 */
export class Gate extends HttpApiMiddleware.Service<Gate>()("effect-dgen/DgenProxy/Gate", {
  error: bodyErrors
}) {}

/**
 * The endpoints of a server, by its messages.
 *
 * @since 0.2.0
 * @category types
 */
export type ConvertHttpApi<M, Tag extends keyof M & string, Address extends Schema.Top, A, K> = Tag extends unknown
  ? HttpApiEndpoint.HttpApiEndpoint<
    Tag,
    "POST",
    `/${Lowercase<Tag>}/:tuid`,
    Schema.Struct<{ readonly tuid: Address }>,
    never,
    M[Tag] extends { readonly payload: infer P extends Schema.Top } ? P : never,
    [K] extends [never] ? never : KeyHeaders,
    M[Tag] extends { readonly success: infer S extends Schema.Top } ? S : HttpApiSchema.Accepted,
    M[Tag] extends { readonly error: infer E } ? WithErrors<E, CallError> : WithErrors<never, CastError>,
    Gate | IdOf<A>,
    HttpApiMiddleware.Requires<IdOf<A>>
  >
  : never

/**
 * Makes of a server, or of its protocol, a group of HTTP endpoints: `POST /<tag>/:tuid` for each message that is shown (the
 * tag in lower case), with the message's payload as its JSON body. A cast is answered with 202 when it is durable.
 *
 * Throws a `TypeError` for options that programs without types got wrong, as `toRpcGroup` does, and for a tag that cannot
 * stand in a path.
 *
 * **Example** (A server by its endpoints)
 *
 * ```ts import.meta.vitest
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenProxy, DgenProxyServer, DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 * import { HttpRouter } from "effect/http"
 * import { HttpApi, HttpApiBuilder, HttpApiClient } from "effect/http-api"
 *
 * class Cart extends DgenServer.Service<Cart>()("Cart", {
 *   hosted: true,
 *   state: Schema.Array(Schema.String),
 *   messages: {
 *     Add: DgenServer.cast({ payload: { sku: Schema.String } }),
 *     Items: DgenServer.call({ success: Schema.Array(Schema.String) })
 *   }
 * }) {}
 *
 * class Api extends HttpApi.make("shop").add(
 *   DgenProxy.toHttpApiGroup("carts", Cart, {
 *     messages: ["Add", "Items"],
 *     tuid: { schema: Schema.Int, toTuid: (number) => ["cart", number] },
 *     authorization: "public"
 *   }).prefix("/carts")
 * ) {}
 *
 * const CartHost = Cart.hostLayer(Cart.behaviour({
 *   init: Effect.succeed([]),
 *   handlers: {
 *     Add: ({ sku }, items) => DgenServer.noReply([...items, sku]),
 *     Items: (_, items) => DgenServer.reply(items, items)
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const client = yield* HttpApiClient.make(Api)
 *   // POST /carts/add/7 {"sku":"ink"}
 *   yield* client.carts.Add({ params: { tuid: 7 }, payload: { sku: "ink" } })
 *   return yield* client.carts.Items({ params: { tuid: 7 } })
 * })
 *
 * const TestStore = Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))
 * const ApiLive = HttpRouter.serve(
 *   HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
 *     Layer.provide(DgenProxyServer.layerHttpApi(Api, "carts", Cart))
 *   ),
 *   { disableLogger: true, disableListenLog: true }
 * ).pipe(Layer.provideMerge(NodeHttpServer.layerTest), Layer.provide(CartHost), Layer.provide(TestStore))
 * await Effect.runPromise(program.pipe(Effect.provide(ApiLive)))
 * // => ["ink"]
 * ```
 *
 * @since 0.2.0
 * @category constructors
 */
export const toHttpApiGroup = <
  const Group extends string,
  M,
  const Shown extends ReadonlyArray<Tags<M>>,
  Address extends D.PureSchema,
  A extends HttpMiddleware | "public",
  K extends Key<HttpApiMiddleware.Provides<IdOf<A>>> = never
>(
  name: Group,
  definition: D.Protocol<string, M>,
  options: HttpOptions<
    Shown,
    Address,
    A,
    HttpApiMiddleware.Provides<IdOf<A>>,
    (request: Request<Address["Type"]>) => K
  >
): HttpApiGroup.HttpApiGroup<Group, ConvertHttpApi<M, Shown[number], Address, A, K>> => {
  const { server, shown } = exposed("toHttpApiGroup", HTTP_MIDDLEWARE, definition as never, options as Given)
  const paths = new Set<string>()
  let group: any = HttpApiGroup.make(name)
  for (const each of shown) {
    const path = pathOf(server, each.exposure.tag)
    if (paths.has(path)) throw new TypeError(`DgenProxy.toHttpApiGroup: ${server}: two messages have the path ${path}`)
    paths.add(path)
    const endpoint: HttpApiEndpoint.Top = endpointOf(path, each, options as Given)
    group = group.add(options.authorization === PUBLIC ? endpoint : endpoint.middleware(options.authorization as any))
  }
  return group
}

/** The mark of `HttpApiMiddleware.Service`. */
const HTTP_MIDDLEWARE = "~effect/http-api/HttpApiMiddleware"

/** What stands in a path as it is, whoever writes or reads it. */
const IN_A_PATH = /^[\w-]+$/

const pathOf = (server: string, tag: string): `/${string}` => {
  if (!IN_A_PATH.test(tag)) {
    throw new TypeError(
      `DgenProxy.toHttpApiGroup: ${server}: the tag ${JSON.stringify(tag)} cannot stand in a path: ` +
        "use letters, digits, _ and -"
    )
  }
  return `/${tag.toLowerCase()}/:tuid`
}

const endpointOf = (path: `/${string}`, { error, exposure, payload, success }: Shown, given: Given): any => {
  const isCall = exposure.kind === "call"
  const isEmpty = SchemaAST.isVoid(success.ast)
  return HttpApiEndpoint.post(exposure.tag, path, {
    params: { tuid: given.tuid.schema },
    ...(given.keyOf === undefined ? {} : { headers: KeyHeaders }),
    ...(payload === undefined ? {} : { payload }),
    success: isCall ? isEmpty ? HttpApiSchema.NoContent : success : HttpApiSchema.Accepted,
    error: isCall ? [...callErrors, ...declaredErrors(error)] : castErrors
  } as any)
    .annotate(Exposed, exposure)
    .annotate(OpenApi.Transform, withRetryAfter)
    .middleware(Gate)
}

/** The statuses whose answers say when to ask again. */
const RETRY_LATER = ["429", "503"]

/** Tells of the header `Retry-After` where an answer has it. */
const withRetryAfter = (operation: Record<string, any>): Record<string, any> => {
  const responses = { ...operation["responses"] }
  for (const status of RETRY_LATER) {
    if (responses[status] === undefined) continue
    const headers = { "Retry-After": { description: "Ask again after so many seconds.", schema: { type: "integer" } } }
    responses[status] = { ...responses[status], headers }
  }
  return { ...operation, responses }
}

/**
 * Serves the groups that `DgenProxy` makes: each request from outside becomes a call or a cast to the server that it names,
 * through the tenant of the layer, wherever that server runs. What is said of keys, durability and order of messages holds
 * for these.
 *
 * Who goes away before the answer takes the waiting along, but not the message: it may still be handled. What you owe is
 * what `DgenProxy` says, and a limit of how many requests a process takes at a time.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type * as Headers from "effect/http/Headers"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Rpc from "effect/rpc/Rpc"
import { Gate, RpcGate, type Tags } from "./DgenProxy.ts"
import { Exposed, type Exposure } from "./internal/proxy/definition/exposure.ts"
import { forward, type Service } from "./internal/proxy/serving/forwarding.ts"
import { gate } from "./internal/proxy/serving/gate.ts"
import { rpcGate } from "./internal/proxy/serving/rpcGate.ts"
import type { Protocol } from "./internal/server/definition/protocol.ts"
import { ProtocolTypeId } from "./internal/server/definition/protocol.ts"
import { Tenant } from "./Tenant.ts"

/**
 * The handlers of a server's procedures, as services.
 *
 * @since 0.2.0
 * @category services
 */
export type RpcHandlers<Name extends string, M> = Tags<M> extends infer Tag extends string
  ? Tag extends unknown ? Rpc.Handler<`${Name}.${Tag}`> : never
  : never

/** What carries an exposure. */
interface Carrier {
  readonly annotations: Context.Context<never>
}

const exposureOf = (carrier: Carrier, server: string): Exposure | undefined => {
  const exposure = Option.getOrUndefined(Context.getOption(carrier.annotations, Exposed as never)) as
    | Exposure
    | undefined
  return exposure?.server === server ? exposure : undefined
}

/** A service class: what has a protocol, and clients. */
type Served<Name extends string, M> = Protocol<Name, M> & { readonly client: (which: any) => any }

/**
 * Handles the procedures of a server: those of any group that `DgenProxy.toRpcGroup` made of its definition or its protocol.
 * The group says which there are, and how a request becomes a message; `RpcServer.layer` requires its middleware.
 *
 * **Example** (Serving over HTTP)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenProxy, DgenProxyServer, DgenServer } from "effect-dgen"
 * import { RpcSerialization, RpcServer } from "effect/rpc"
 *
 * class Cart extends DgenServer.Service<Cart>()("Cart", {
 *   hosted: true,
 *   state: Schema.Array(Schema.String),
 *   messages: { Items: DgenServer.call({ success: Schema.Array(Schema.String) }) }
 * }) {}
 *
 * class CartRpcs extends DgenProxy.toRpcGroup(Cart, {
 *   messages: ["Items"],
 *   tuid: { schema: Schema.Int, toTuid: (number) => ["cart", number] },
 *   authorization: "public"
 * }) {}
 *
 * // requires a tenant and an HttpRouter
 * const CartRpcLive = RpcServer.layer(CartRpcs).pipe(
 *   Layer.provide(DgenProxyServer.layerRpcHandlers(Cart)),
 *   Layer.provide(RpcServer.layerProtocolHttp({ path: "/rpc" })),
 *   Layer.provide(RpcSerialization.layerNdjson)
 * )
 * ```
 *
 * @since 0.2.0
 * @category layers
 */
export const layerRpcHandlers = <const Name extends string, M>(
  definition: Served<Name, M>
): Layer.Layer<RpcHandlers<Name, M> | RpcGate, never, Tenant> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const tenant = Context.pick(Tenant)(yield* Effect.context<Tenant>())
      const { messages, name } = definition[ProtocolTypeId]
      const handler = (
        request: { readonly tuid: unknown; readonly payload?: unknown },
        { headers, rpc }: { readonly headers: Headers.Headers; readonly rpc: Rpc.Any }
      ) => {
        const exposure = exposureOf(rpc, name)
        if (exposure === undefined) {
          return Effect.die(
            new TypeError(`DgenProxyServer.layerRpcHandlers: ${rpc._tag} is not of DgenProxy.toRpcGroup`)
          )
        }
        return forward(definition as Service, tenant, exposure, {
          address: request.tuid,
          payload: request.payload,
          headers
        })
      }
      const handlers = Object.keys(messages as object).map((tag) => {
        const rpc = `${name}.${tag}`
        return [`effect/rpc/Rpc/${rpc}`, { context: Context.empty(), tag: rpc, handler }] as const
      })
      return Context.makeUnsafe(new Map<string, unknown>([...handlers, [RpcGate.key, rpcGate]])) as any
    })
  )

/**
 * Handles the endpoints of a server: those of a group of an API that `DgenProxy.toHttpApiGroup` made of its definition or its
 * protocol. The layer requires the middleware that the group was made with, unless that is public.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerHttpApi = <
  ApiId extends string,
  Groups extends HttpApiGroup.Constraint,
  const Identifier extends HttpApiGroup.Identifier<Groups>
>(
  api: HttpApi.HttpApi<ApiId, Groups>,
  identifier: Identifier,
  definition: Served<string, any>
): Layer.Layer<
  HttpApiGroup.Service<ApiId, Identifier>,
  never,
  | Tenant
  | Exclude<
    | HttpApiEndpoint.Middleware<HttpApiGroup.EndpointsWithIdentifier<Groups, Identifier>>
    | HttpApiEndpoint.MiddlewareServices<HttpApiGroup.EndpointsWithIdentifier<Groups, Identifier>>,
    Gate
  >
> =>
  HttpApiBuilder.group(
    api,
    identifier,
    Effect.fnUntraced(function*(handlers: any) {
      const tenant = Context.pick(Tenant)(yield* Effect.context<Tenant>())
      const { name } = definition[ProtocolTypeId]
      for (const endpoint of Object.values(handlers.group.endpoints) as Array<HttpApiEndpoint.Top>) {
        const exposure = exposureOf(endpoint, name)
        if (exposure === undefined) {
          return yield* Effect.die(
            new TypeError(
              `DgenProxyServer.layerHttpApi: ${endpoint.identifier} of ${identifier} is not of DgenProxy.toHttpApiGroup` +
                ` with ${name}`
            )
          )
        }
        handlers = handlers.handle(
          endpoint.identifier,
          ({ params, payload, request }: any) =>
            forward(definition as Service, tenant, exposure, {
              address: params.tuid,
              payload,
              headers: request.headers
            })
        )
      }
      return handlers as HttpApiBuilder.Handlers<never>
    })
  ).pipe(Layer.provide(Layer.succeed(Gate, gate as any))) as any

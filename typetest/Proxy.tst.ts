/** What is shown of a server: a client's call has the payload, the answer and the errors of its message, and no other is there. */
import { Context, Effect, Layer, Schema } from "effect"
import { DgenProxy, DgenProxyServer, DgenServer, type Tenant } from "effect-dgen"
import * as Protocol from "effect-dgen/Protocol"
import type { HttpRouter } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { RpcClient, RpcMiddleware, RpcServer } from "effect/rpc"
import { describe, expect, test } from "tstyche"
import { Counter, type Overflow } from "./counter.ts"

class User extends Context.Service<User, { readonly id: string }>()("test/User") {}
class Auth extends HttpApiMiddleware.Service<Auth, { provides: User }>()("test/Auth") {}
class RpcAuth extends RpcMiddleware.Service<RpcAuth, { provides: User }>()("test/RpcAuth") {}

const tuid = { schema: Schema.Int, toTuid: (n: number) => ["counter", n] }
const keyOf = DgenProxy.idempotencyKey(Effect.map(User, ({ id }) => id))

class Rpcs extends DgenProxy.toRpcGroup(Counter, {
  messages: ["Increment", "Value", "Add", "Clear"],
  tuid,
  authorization: RpcAuth,
  keyOf
}) {}

class Api extends HttpApi.make("api").add(
  DgenProxy.toHttpApiGroup("counters", Counter, {
    messages: ["Increment", "Value", "Reset", "Add", "Clear"],
    tuid,
    authorization: Auth,
    keyOf
  }),
  DgenProxy.toHttpApiGroup("open", Counter, { messages: ["Value"], tuid, authorization: "public" })
) {}

declare const rpcs: Effect.Success<ReturnType<typeof makeRpcs>>
const makeRpcs = () => RpcClient.make(Rpcs)
declare const api: Effect.Success<ReturnType<typeof makeApi>>
const makeApi = () => HttpApiClient.make(Api)

type ErrorOf<E> = E extends Effect.Effect<any, infer Error, any> ? Error : never

describe("a client of procedures", () => {
  test("has the payload and the answer of a message", () => {
    expect(rpcs["Counter.Increment"]({ tuid: 1, payload: { by: 2 } })).type.toBeAssignableTo<
      Effect.Effect<number, unknown>
    >()
    expect(rpcs["Counter.Value"]({ tuid: 1 })).type.toBeAssignableTo<Effect.Effect<number, unknown>>()
    expect(rpcs["Counter.Add"]({ tuid: 1, payload: { by: 2 } })).type.toBeAssignableTo<Effect.Effect<void, unknown>>()
    expect(rpcs["Counter.Increment"]).type.not.toBeCallableWith({ tuid: 1 })
    expect(rpcs["Counter.Increment"]).type.not.toBeCallableWith({ tuid: 1, payload: { by: "2" } })
    expect(rpcs["Counter.Increment"]).type.not.toBeCallableWith({ tuid: "one", payload: { by: 2 } })
    expect(rpcs["Counter.Increment"]).type.not.toBeCallableWith({ payload: { by: 2 } })
  })
  test("has the errors of a message, and those of the proxy", () => {
    const increment = rpcs["Counter.Increment"]({ tuid: 1, payload: { by: 2 } })
    expect<Overflow | DgenProxy.CallError>().type.toBeAssignableTo<ErrorOf<typeof increment>>()
    const add = rpcs["Counter.Add"]({ tuid: 1, payload: { by: 2 } })
    expect<DgenProxy.CastError>().type.toBeAssignableTo<ErrorOf<typeof add>>()
    expect<Overflow>().type.not.toBeAssignableTo<ErrorOf<typeof add>>()
    expect<DgenServer.CallTimeout>().type.not.toBeAssignableTo<ErrorOf<typeof add>>()
    expect<ErrorOf<typeof add>>().type.not.toBe<any>()
  })
  test("has no message that was not asked for", () => {
    expect(rpcs).type.toHaveProperty("Counter.Value")
    expect(rpcs).type.not.toHaveProperty("Counter.Reset")
    expect(rpcs).type.not.toHaveProperty("Counter.Import")
    expect(rpcs).type.not.toHaveProperty("Counter.Tick")
  })
})

describe("a client of endpoints", () => {
  const params = { tuid: 1 }
  const headers = {}

  test("has the payload, the key and the answer of a message", () => {
    expect(api.counters.Increment({ params, headers, payload: { by: 2 } })).type.toBeAssignableTo<
      Effect.Effect<number, unknown>
    >()
    expect(api.counters.Value({ params, headers: { "idempotency-key": "1" } })).type.toBeAssignableTo<
      Effect.Effect<number, unknown>
    >()
    expect(api.counters.Add({ params, headers, payload: { by: 2 } })).type.toBeAssignableTo<
      Effect.Effect<void, unknown>
    >()
    expect(api.open.Value({ params })).type.toBeAssignableTo<Effect.Effect<number, unknown>>()
    expect(api.counters.Increment).type.not.toBeCallableWith({ params, headers })
    expect(api.counters.Increment).type.not.toBeCallableWith({ params, headers, payload: { by: "2" } })
    expect(api.counters.Increment).type.not.toBeCallableWith({ params: { tuid: "one" }, headers, payload: { by: 2 } })
  })
  test("has the errors of a message, and those of the proxy and of bodies", () => {
    const increment = api.counters.Increment({ params, headers, payload: { by: 2 } })
    expect<Overflow | DgenProxy.CallError | DgenProxy.BodyTooLarge>().type.toBeAssignableTo<ErrorOf<typeof increment>>()
    const add = api.counters.Add({ params, headers, payload: { by: 2 } })
    expect<DgenProxy.CastError>().type.toBeAssignableTo<ErrorOf<typeof add>>()
    expect<Overflow>().type.not.toBeAssignableTo<ErrorOf<typeof add>>()
  })
  test("has no message that was not asked for", () => {
    expect(api.counters).type.toHaveProperty("Reset")
    expect(api.counters).type.not.toHaveProperty("Import")
    expect(api.open).type.not.toHaveProperty("Reset")
  })
})

describe("what is shown", () => {
  test("is calls and casts of the server", () => {
    expect(DgenProxy.toRpcGroup).type.toBeCallableWith(Counter, {
      messages: ["Value"],
      tuid,
      authorization: "public" as const
    })
    // @ts-expect-error is not assignable to type
    DgenProxy.toRpcGroup(Counter, { messages: ["Tick"], tuid, authorization: "public" })
    // @ts-expect-error is not assignable to type
    DgenProxy.toHttpApiGroup("counters", Counter, { messages: ["Valeu"], tuid, authorization: "public" })
  })
  test("says who may ask", () => {
    // @ts-expect-error Property 'authorization' is missing in type
    DgenProxy.toRpcGroup(Counter, { messages: ["Value"], tuid })
    // @ts-expect-error Property 'authorization' is missing in type
    DgenProxy.toHttpApiGroup("counters", Counter, { messages: ["Value"], tuid })
    // @ts-expect-error is not assignable to type
    DgenProxy.toRpcGroup(Counter, { messages: ["Value"], tuid, authorization: undefined })
    // @ts-expect-error is not assignable to type
    DgenProxy.toRpcGroup(Counter, { messages: ["Value"], tuid, authorization: "everybody" })
    // @ts-expect-error is not assignable to type
    DgenProxy.toRpcGroup(Counter, { messages: ["Value"], tuid, authorization: Auth })
    // @ts-expect-error is not assignable to type
    DgenProxy.toHttpApiGroup("counters", Counter, { messages: ["Value"], tuid, authorization: RpcAuth })
  })
  test("says how an address becomes a tuid", () => {
    // @ts-expect-error Property 'tuid' is missing in type
    DgenProxy.toRpcGroup(Counter, { messages: ["Value"], authorization: "public" })
    DgenProxy.toRpcGroup(Counter, {
      messages: ["Value"],
      // @ts-expect-error Type 'number' is not assignable to type 'string'
      tuid: { schema: Schema.Int, toTuid: (name: string) => ["counter", name] },
      authorization: "public"
    })
  })
  test("asks for nothing that the middleware does not provide", () => {
    DgenProxy.toRpcGroup(Counter, {
      messages: ["Value"],
      tuid: { schema: Schema.Int, toTuid: (n) => Effect.map(User, ({ id }) => ["counter", id, n]) },
      authorization: RpcAuth
    })
    const own = DgenProxy.toHttpApiGroup("counters", Counter, {
      messages: ["Value"],
      tuid,
      authorization: Auth,
      keyOf: ({ address, headers, tag }) => {
        expect(address).type.toBe<number>()
        return headers["request-id"] && `${tag} ${headers["request-id"]}`
      }
    })
    expect(own.endpoints.Value["~Headers"].Type).type.toBe<{ readonly "idempotency-key"?: string }>()
    // @ts-expect-error Type 'number' is not assignable to type
    DgenProxy.toHttpApiGroup("counters", Counter, { messages: ["Value"], tuid, authorization: Auth, keyOf: () => 1 })
    // @ts-expect-error Type 'User' is not assignable to type 'never'
    DgenProxy.toRpcGroup(Counter, { messages: ["Value"], tuid, authorization: "public", keyOf })
    // @ts-expect-error Type 'User' is not assignable to type 'never'
    DgenProxy.toHttpApiGroup("counters", Counter, { messages: ["Value"], tuid, authorization: "public", keyOf })
  })
  test("may be a protocol's, without the server behind it", () => {
    const CounterProtocol = Protocol.make("Counter", {
      messages: { Add: Protocol.cast({ payload: { by: Schema.Int } }), Tick: Protocol.info() }
    })
    expect(DgenProxy.toRpcGroup(CounterProtocol, { messages: ["Add"], tuid, authorization: "public" }).requests).type
      .toBeAssignableTo<ReadonlyMap<string, { readonly _tag: "Counter.Add" }>>()
    class Server extends DgenServer.Service<Server>()(CounterProtocol, { state: Schema.Int }) {}
    expect<DgenServer.Payload<typeof Server, "Add">>().type.toBe<{ readonly by: number }>()
    // @ts-expect-error 'messages' does not exist in type
    DgenServer.Service<Server>()(CounterProtocol, { state: Schema.Int, messages: {} })
  })
})

describe("a layer that serves", () => {
  test("requires a tenant, and the middleware", () => {
    expect(DgenProxyServer.layerRpcHandlers(Counter)).type.toBeAssignableTo<Layer.Layer<any, never, Tenant.Tenant>>()
    expect(DgenProxyServer.layerHttpApi(Api, "open", Counter)).type.toBeAssignableTo<
      Layer.Layer<any, never, Tenant.Tenant>
    >()
    expect(DgenProxyServer.layerHttpApi(Api, "counters", Counter)).type.toBeAssignableTo<
      Layer.Layer<any, never, Tenant.Tenant | Auth>
    >()
    expect(DgenProxyServer.layerHttpApi(Api, "counters", Counter)).type.not.toBeAssignableTo<
      Layer.Layer<any, never, Tenant.Tenant>
    >()
    const rpcServer = RpcServer.layer(Rpcs).pipe(Layer.provide(DgenProxyServer.layerRpcHandlers(Counter)))
    expect(rpcServer).type.toBeAssignableTo<Layer.Layer<never, never, RpcServer.Protocol | Tenant.Tenant | RpcAuth>>()
    expect(rpcServer).type.not.toBeAssignableTo<Layer.Layer<never, never, RpcServer.Protocol | Tenant.Tenant>>()
  })
  test("serves all of an API", () => {
    const served = HttpApiBuilder.layer(Api).pipe(
      Layer.provide(DgenProxyServer.layerHttpApi(Api, "open", Counter)),
      Layer.provide(DgenProxyServer.layerHttpApi(Api, "counters", Counter))
    )
    expect<Layer.Services<typeof served>>().type.not.toBe<any>()
    expect<HttpRouter.HttpRouter>().type.toBeAssignableTo<Layer.Services<typeof served>>()
    // @ts-expect-error is not assignable to parameter of type
    DgenProxyServer.layerHttpApi(Api, "counter", Counter)
  })
})

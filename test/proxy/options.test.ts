/** What programs without types get wrong where they show a server: refused when the group is made, or served. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Schema, SchemaAST } from "effect"
import { DgenProxy, DgenProxyServer, DgenServer, MemoryBackend, Tenant } from "effect-dgen"
import * as Protocol from "effect-dgen/Protocol"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware } from "effect/http-api"
import { Rpc, RpcGroup, RpcTest } from "effect/rpc"
import { declaredErrors } from "../../src/internal/proxy/definition/errors.ts"

const messages = {
  Add: Protocol.cast({ payload: { sku: Schema.String } }),
  add: Protocol.cast(),
  "a/b": Protocol.cast(),
  Tick: Protocol.info()
}

class Cart extends DgenServer.Service<Cart>()("Cart", { hosted: true, state: Schema.Int, messages }) {}
class Other
  extends DgenServer.Service<Other>()("Other", { hosted: true, state: Schema.Int, messages: { Add: messages.Add } })
{}
class Auth extends HttpApiMiddleware.Service<Auth>()("test/Auth") {}

const good = {
  messages: ["Add"],
  tuid: { schema: Schema.String, toTuid: (name: string) => [name] },
  authorization: "public"
}

const toRpcGroup = DgenProxy.toRpcGroup as (definition: unknown, options?: unknown) => RpcGroup.RpcGroup<any>
const toHttpApiGroup = DgenProxy.toHttpApiGroup as unknown as (
  name: string,
  definition: unknown,
  options?: unknown
) => unknown

const refusals: ReadonlyArray<readonly [title: string, options: unknown, problem: RegExp]> = [
  ["none", undefined, /Cart: the options must be an object, not undefined/],
  ["without an authorization", { ...good, authorization: undefined }, /Cart: authorization must be a class of Rpc/],
  ["with a word for it", { ...good, authorization: "everybody" }, /or "public", not everybody/],
  ["with true for it", { ...good, authorization: true }, /authorization must be/],
  [
    "with a middleware of another kind",
    { ...good, authorization: Auth },
    /authorization must be a class of RpcMiddleware/
  ],
  ["without messages", { ...good, messages: undefined }, /messages must be an array of tags, not undefined/],
  ["with a text of messages", { ...good, messages: "Add" }, /messages must be an array of tags, not Add/],
  ["with a message that is none", { ...good, messages: ["Added"] }, /Added is no call and no cast of it/],
  [
    "with a message of every object",
    { ...good, messages: ["constructor"] },
    /constructor is no call and no cast of it/
  ],
  ["with an info message", { ...good, messages: ["Tick"] }, /Tick is no call and no cast of it/],
  ["without an address", { ...good, tuid: undefined }, /tuid must have a schema, and toTuid/],
  [
    "with an address without a function",
    { ...good, tuid: { schema: Schema.String } },
    /tuid must have a schema, and toTuid/
  ],
  ["with a key that is no function", { ...good, keyOf: "header" }, /keyOf must be a function, not header/],
  ["with a timeout that is none", { ...good, timeout: -1 }, /timeout must be a duration above zero, not -1/],
  ["with a body of no length", { ...good, maxBodyBytes: 0 }, /maxBodyBytes must be a whole number above zero, not 0/],
  ["with no time for a body", { ...good, bodyTimeout: "soon" }, /bodyTimeout must be a duration above zero, not soon/]
]

describe("options of a group", () => {
  for (const [title, options, problem] of refusals) {
    it(`are refused: ${title}`, () => assert.throws(() => toRpcGroup(Cart, options), problem))
  }
  it("are refused for HTTP where a tag cannot stand in a path, or two would stand in one", () => {
    assert.throws(
      () => toHttpApiGroup("carts", Cart, { ...good, messages: ["a/b"] }),
      /the tag "a\/b" cannot stand in a path/
    )
    assert.throws(
      () => toHttpApiGroup("carts", Cart, { ...good, messages: ["Add", "add"] }),
      /two messages have the path \/add/
    )
    assert.throws(
      () => toHttpApiGroup("carts", Cart, { ...good, authorization: undefined }),
      /HttpApiMiddleware.Service/
    )
  })
  it("are of a definition", () => {
    for (const definition of [undefined, null, {}, "Cart", class Cart {}]) {
      assert.throws(() => toRpcGroup(definition, good), /is no server's definition/)
    }
  })
  it("may name a message twice", () => {
    assert.strictEqual(toRpcGroup(Cart, { ...good, messages: ["Add", "Add"] }).requests.size, 1)
  })
})

describe("a protocol", () => {
  it("has a name and messages", () => {
    const make = Protocol.make as (name: unknown, options?: unknown) => unknown
    assert.throws(() => make("", { messages }), /Protocol.make: the name must be a text/)
    assert.throws(() => make("Cart"), /Cart: the definition must be an object/)
    assert.throws(() => make("Cart", { messages: { Add: {} } }), /"Add" must be made with/)
  })
  it("has the messages alone: a server that is made of it has no others", () => {
    const CartProtocol = Protocol.make("Cart", { messages })
    const service = DgenServer.Service<never>() as (protocol: unknown, options?: unknown) => unknown
    assert.throws(() => service(CartProtocol, { state: Schema.Int, messages }), /its protocol has the messages/)
    assert.throws(() => service(CartProtocol), /Cart: the definition must be an object/)
  })
})

describe("declared errors", () => {
  class Paid extends Schema.TaggedError<Paid>()("Paid", {}, { httpApiStatus: 402 }) {}
  class Gone extends Schema.TaggedError<Gone>()("Gone", {}, { httpApiStatus: 418 }) {}
  class Busy extends Schema.TaggedError<Busy>()("Busy", {}) {}
  const statuses = (error: Schema.Top) =>
    declaredErrors(error).map((each) => SchemaAST.resolveAt<number>("httpApiStatus")(each.ast))

  it("have the status that is nearest, and 409 where nobody says one", () => {
    assert.deepStrictEqual(statuses(Schema.Never), [])
    assert.deepStrictEqual(statuses(Busy), [409])
    assert.deepStrictEqual(statuses(Paid), [402])
    assert.deepStrictEqual(statuses(Schema.Union([Paid, Busy])), [402, 409])
    assert.deepStrictEqual(statuses(Schema.Union([Schema.Union([Paid, Gone]), Busy])), [402, 418, 409])
    assert.deepStrictEqual(statuses(Schema.Union([Busy, Busy])), [409])
    assert.deepStrictEqual(statuses(Schema.Literals(["a", "b"])), [409])
    assert.deepStrictEqual(statuses(Schema.Union([Paid, Busy]).annotate({ httpApiStatus: 400 })), [400])
  })
})

describe("what is served", () => {
  const Store = Tenant.layer(["options"]).pipe(Layer.provide(MemoryBackend.layer))
  const defectOf = (exit: Exit.Exit<unknown, unknown>) => Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : ""

  it.live("is a group that was made of the server, and no other", () =>
    Effect.gen(function*() {
      const group = HttpApiGroup.make("carts").add(HttpApiEndpoint.post("Add", "/add"))
      const foreign = HttpApi.make("api").add(group)
      const none = yield* Effect.exit(Layer.build(DgenProxyServer.layerHttpApi(foreign, "carts", Cart)))
      assert.include(defectOf(none), "Add of carts is not of DgenProxy.toHttpApiGroup with Cart")
      const api = HttpApi.make("api").add(
        DgenProxy.toHttpApiGroup("carts", Cart, {
          messages: ["Add"],
          tuid: { schema: Schema.String, toTuid: (name) => [name] },
          authorization: "public"
        })
      )
      const wrong = yield* Effect.exit(Layer.build(DgenProxyServer.layerHttpApi(api, "carts", Other)))
      assert.include(defectOf(wrong), "Add of carts is not of DgenProxy.toHttpApiGroup with Other")
    }).pipe(Effect.scoped, Effect.provide(Store)))
  it.live("is a procedure that was made of the server, and no other of its name", () =>
    Effect.gen(function*() {
      const group = RpcGroup.make(Rpc.make("Cart.Add", { payload: { tuid: Schema.String } }))
      const client = yield* RpcTest.makeClient(group).pipe(Effect.provide(DgenProxyServer.layerRpcHandlers(Cart)))
      const exit = yield* Effect.exit(client["Cart.Add"]({ tuid: "a" }))
      assert.include(defectOf(exit), "Cart.Add is not of DgenProxy.toRpcGroup")
    }).pipe(Effect.scoped, Effect.provide(Store)))
})

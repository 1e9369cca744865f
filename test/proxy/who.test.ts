/** A middleware that dies, or that never decides: nobody gets through, and nothing is told of the inside. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { Cause, Context, Effect, Fiber, Layer, Logger, Schema } from "effect"
import { DgenProxy, DgenProxyServer, DgenServer, MemoryBackend, Tenant } from "effect-dgen"
import { HttpRouter, HttpServer, HttpServerRequest } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiMiddleware } from "effect/http-api"
import { RpcMiddleware, RpcSerialization, RpcServer } from "effect/rpc"
import { createServer } from "node:http"
import { post } from "./asking.ts"
import { Lines, Url } from "./support.ts"

class User extends Context.Service<User, string>()("test/who/User") {}

class Tally extends DgenServer.Service<Tally>()("Tally", {
  hosted: true,
  state: Schema.Int,
  messages: { Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }) }
}) {}

class Login extends HttpApiMiddleware.Service<Login, { provides: User }>()("test/who/Login") {}
class RpcLogin extends RpcMiddleware.Service<RpcLogin, { provides: User }>()("test/who/RpcLogin") {}

/** Who decides: one dies, one never ends, one says that it is somebody. */
const decided = (authorization: string | undefined) => {
  const [, user = ""] = /^Bearer token-of-(\w+)$/.exec(authorization ?? "") ?? []
  return user === "dies"
    ? Effect.die(new Error("a secret of the inside"))
    : user === "hangs"
    ? asked
    : Effect.succeed(user)
}

const hanging = { now: 0 }
const asked = Effect.acquireUseRelease(
  Effect.sync(() => void hanging.now++),
  () => Effect.never,
  () => Effect.sync(() => void hanging.now--)
)

const options = {
  messages: ["Add"],
  tuid: { schema: Schema.String, toTuid: (name: string) => Effect.map(User, (user) => [user, name]) },
  keyOf: DgenProxy.idempotencyKey(User)
} as const

class Api extends HttpApi.make("who").add(
  DgenProxy.toHttpApiGroup("tallies", Tally, { ...options, authorization: Login }).prefix("/tallies")
) {}
class Rpcs extends DgenProxy.toRpcGroup(Tally, { ...options, authorization: RpcLogin }) {}

const Handlers = Layer.merge(
  HttpApiBuilder.layer(Api).pipe(Layer.provide(DgenProxyServer.layerHttpApi(Api, "tallies", Tally))),
  RpcServer.layer(Rpcs).pipe(
    Layer.provide(RpcServer.layerProtocolHttp({ path: "/rpc" })),
    Layer.provide(DgenProxyServer.layerRpcHandlers(Tally)),
    Layer.provide(RpcSerialization.layerNdjson)
  )
).pipe(Layer.provide([
  Layer.succeed(
    Login,
    (handler) =>
      Effect.flatMap(
        HttpServerRequest.HttpServerRequest,
        ({ headers }) =>
          Effect.flatMap(decided(headers["authorization"]), (user) => Effect.provideService(handler, User, user))
      )
  ),
  Layer.succeed(
    RpcLogin,
    (handler, { headers }) =>
      Effect.flatMap(decided(headers["authorization"]), (user) => Effect.provideService(handler, User, user))
  )
]))

const lines: Array<string> = []
const logger = Logger.make(({ cause, message }) => {
  lines.push([message, cause].flat().map((part) => Cause.isCause(part) ? Cause.pretty(part) : String(part)).join(" "))
})

const Front = Layer.effect(Url, HttpServer.addressFormattedWith(Effect.succeed)).pipe(
  Layer.merge(HttpRouter.serve(Handlers, { disableLogger: true, disableListenLog: true })),
  Layer.provide(
    NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1", gracefulShutdownTimeout: "1 second" })
  ),
  Layer.provide(Tally.hostLayer(Tally.behaviour({
    init: Effect.succeed(0),
    handlers: { Add: ({ by }, sum) => DgenServer.reply(sum + by, sum + by) }
  }))),
  Layer.provideMerge(Tenant.layer(["who"]).pipe(Layer.provide(MemoryBackend.layer))),
  Layer.provideMerge(Layer.merge(Layer.succeed(Lines, lines), Logger.layer([logger])))
)

const add = (user: string, more: object = {}) => post("/tallies/add/one", { user, json: { by: 1 }, ...more })

const rpc = (user: string) =>
  post("/rpc", {
    user,
    headers: { "content-type": "application/ndjson" },
    body: `${
      JSON.stringify({
        _tag: "Request",
        id: "1",
        tag: "Tally.Add",
        payload: { tuid: "one", payload: { by: 1 } },
        headers: [["authorization", `Bearer token-of-${user}`]]
      })
    }\n`
  })

const isHanging = (count: number) =>
  Effect.timeout(
    Effect.repeat(Effect.delay(Effect.sync(() => hanging.now), 5), { until: (now) => now === count }),
    "5 seconds"
  )

layer(Front, { excludeTestServices: true, timeout: 60_000 })("an authorization", (it) => {
  const sumOf = (user: string) => Effect.flatMap(Tally.client({ tuid: [user, "one"] }), (tally) => tally.state)

  describe("that dies", () => {
    it.effect("lets nobody through, and tells nothing over HTTP", () =>
      Effect.gen(function*() {
        const { status, text } = yield* add("dies")
        assert.strictEqual(status, 500)
        assert.notInclude(text, "secret")
        assert.isUndefined(yield* sumOf("dies"))
      }))
    it.effect("lets nobody through as a procedure", () =>
      Effect.gen(function*() {
        const { text } = yield* rpc("dies")
        assert.notInclude(text, "\"Success\"")
        assert.notInclude(text, "secret")
        const [, id] = /"id":"(\w{18})"/.exec(text)!
        assert.include(text, "\"Unforeseen\"")
        assert.include((yield* Lines).find((line) => line.includes(id!)), "a secret of the inside")
        assert.isUndefined(yield* sumOf("dies"))
      }))
  })

  describe("that never decides", () => {
    for (const [name, ask] of [["over HTTP", add], ["as a procedure", rpc]] as const) {
      it.effect(`is given up with its request, ${name}, and holds up nobody else`, () =>
        Effect.gen(function*() {
          const waiting = yield* Effect.forkChild(
            Effect.all(Array.from({ length: 10 }, () => ask("hangs")), { concurrency: "unbounded" })
          )
          yield* isHanging(10)
          assert.include((yield* ask(`other${name.length}`)).text, "1")
          yield* Fiber.interrupt(waiting)
          yield* isHanging(0)
          assert.isUndefined(yield* sumOf("hangs"))
        }))
    }
  })

  describe("that says who asks", () => {
    it.effect("makes one header two keys of two users, also of requests at the same time", () =>
      Effect.gen(function*() {
        const users = ["eve", "mallory"]
        const answers = yield* Effect.all(
          Array.from({ length: 20 }, (_, n) => add(users[n % 2]!, { key: "the same" })),
          { concurrency: "unbounded" }
        )
        for (const { status, text } of answers) assert.deepStrictEqual([status, text], [200, "1"])
        for (const user of users) assert.strictEqual(yield* sumOf(user), 1)
      }))
  })
})

/** Where servers run that are shown to the outside: started, in another process than the front, nowhere yet. */
import { NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { ByteSize, Context, Effect, Fiber, Layer, Schema } from "effect"
import { DgenProxy, DgenProxyServer, DgenServer, MemoryBackend, SqliteBackend, Tenant } from "effect-dgen"
import { HttpIncomingMessage, HttpRouter } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { RpcTest } from "effect/rpc"
import * as path from "node:path"
import { temporaryFolder } from "../support/temporary.ts"

const messages = { Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }) }

class Lone extends DgenServer.Service<Lone>()("Lone", { state: Schema.Int, messages }) {}
class Tally extends DgenServer.Service<Tally>()("Tally", { state: Schema.Int, messages, hosted: true }) {}

const handlers = {
  Add: ({ by }: { readonly by: number }, sum: number) => DgenServer.reply(sum + by, sum + by)
}
const LoneLive = Lone.layer(Lone.behaviour({ init: Effect.succeed(100), handlers }))
const TallyHost = Tally.hostLayer(Tally.behaviour({ init: Effect.succeed(0), handlers }))

class User extends Context.Service<User, { readonly id: string }>()("test/User") {}
class Login extends HttpApiMiddleware.Service<Login, { provides: User }>()("test/Login") {}

const LoginLive = Layer.succeed(Login, (handler) => Effect.provideService(handler, User, { id: "ada" }))

class Api extends HttpApi.make("places").add(
  DgenProxy.toHttpApiGroup("lone", Lone, {
    messages: ["Add"],
    tuid: { schema: Schema.Literal("lone"), toTuid: () => ["Lone"] },
    authorization: "public"
  }).prefix("/lone"),
  DgenProxy.toHttpApiGroup("tallies", Tally, {
    messages: ["Add"],
    tuid: { schema: Schema.String, toTuid: (name) => Effect.map(User, ({ id }) => ["tally", id, name]) },
    authorization: Login,
    keyOf: ({ headers, tag }) => headers["idempotency-key"] && `${tag} ${headers["idempotency-key"]}`,
    timeout: "200 millis"
  }).prefix("/tallies")
) {}

const Front = HttpRouter.serve(
  HttpApiBuilder.layer(Api).pipe(
    Layer.provide(DgenProxyServer.layerHttpApi(Api, "lone", Lone)),
    Layer.provide(DgenProxyServer.layerHttpApi(Api, "tallies", Tally)),
    Layer.provide(LoginLive)
  ),
  { disableLogger: true, disableListenLog: true }
).pipe(Layer.provideMerge(NodeHttpServer.layerTest))

describe("a server that is shown", () => {
  it.live("may be one that was started", () =>
    Effect.gen(function*() {
      const { lone } = yield* HttpApiClient.make(Api)
      assert.strictEqual(yield* lone.Add({ params: { tuid: "lone" }, payload: { by: 2 } }), 102)
      const other = yield* Effect.exit(lone.Add({ params: { tuid: "other" as "lone" }, payload: { by: 2 } }))
      assert.strictEqual(other._tag, "Failure")
    }).pipe(Effect.provide(
      Layer.provideMerge(Front, LoneLive).pipe(
        Layer.provide(Tenant.layer(["places"]).pipe(Layer.provide(MemoryBackend.layer)))
      )
    )))

  it.live("may run in another process than the front, or nowhere yet: a key finds out what became of a call", () =>
    Effect.gen(function*() {
      const { tallies } = yield* HttpApiClient.make(Api)
      const add = (by: number, key: string) =>
        tallies.Add({ params: { tuid: "one" }, headers: { "idempotency-key": key }, payload: { by } })
      const late = yield* Effect.flip(add(2, "first"))
      assert.deepInclude(late, { _tag: "CallTimeout", tuid: "one", timeoutMillis: 200 })
      const tenant = yield* Tenant.Tenant
      // a layer of its own on the same store, as another process has it
      const host = yield* Effect.forkChild(
        Effect.scoped(Effect.andThen(
          Layer.build(TallyHost.pipe(Layer.provide(Layer.fresh(Tenant.layer(tenant.path))))),
          Effect.never
        ))
      )
      const answer = yield* Effect.retry(add(2, "first"), { while: ({ _tag }) => _tag === "CallTimeout" })
      assert.strictEqual(answer, 2)
      assert.strictEqual(yield* Effect.retry(add(3, "second"), { while: ({ _tag }) => _tag === "CallTimeout" }), 5)
      const state = yield* Effect.flatMap(Tally.client({ tuid: ["tally", "ada", "one"] }), (tally) => tally.state)
      assert.strictEqual(state, 5)
      yield* Fiber.interrupt(host)
    }).pipe(Effect.provide(
      Front.pipe(
        Layer.provideMerge(Tenant.layer(["places"])),
        Layer.provideMerge(SqliteBackend.layer({ filename: path.join(temporaryFolder(), "places.db") }))
      )
    )))

  it.live("is sent no longer bodies than its process takes, whatever the group allows", () =>
    Effect.gen(function*() {
      const { lone } = yield* HttpApiClient.make(Api)
      const error = yield* Effect.flip(lone.Add({ params: { tuid: "lone" }, payload: { by: 12_345 } }))
      assert.deepInclude(error, { _tag: "BodyTooLarge", limitBytes: 10 })
      assert.strictEqual(yield* lone.Add({ params: { tuid: "lone" }, payload: { by: 1 } }), 101)
    }).pipe(Effect.provide(
      Layer.provideMerge(Front, LoneLive).pipe(
        Layer.provide(Layer.succeed(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(10))),
        Layer.provide(Tenant.layer(["places"]).pipe(Layer.provide(MemoryBackend.layer)))
      )
    )))

  it.live("may be reached by procedures without a network", () =>
    Effect.gen(function*() {
      const group = DgenProxy.toRpcGroup(Tally, {
        messages: ["Add"],
        tuid: {
          schema: Schema.Struct({ shelf: Schema.Int, name: Schema.String }),
          toTuid: ({ name, shelf }) => [name, shelf]
        },
        authorization: "public"
      })
      const client = yield* RpcTest.makeClient(group).pipe(Effect.provide(DgenProxyServer.layerRpcHandlers(Tally)))
      const tuid = { shelf: 1, name: "a" }
      assert.strictEqual(yield* client["Tally.Add"]({ tuid, payload: { by: 2 } }), 2)
      const tally = yield* Tally.client({ tuid: ["a", 1] })
      assert.strictEqual(yield* tally.state, 2)
    }).pipe(
      Effect.scoped,
      Effect.provide(
        TallyHost.pipe(Layer.provideMerge(Tenant.layer(["places"])), Layer.provide(MemoryBackend.layer))
      )
    ))
})

/** Servers behind procedures, asked by Effect's own clients over HTTP and over a WebSocket. */
import { NodeSocket } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { DateTime, Effect, Exit, Fiber, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { RpcClient, type RpcClientError, RpcSerialization } from "effect/rpc"
import { DeskRpcs, Lines, Seen, served, untilWaiting, Url, waiting } from "./support.ts"

const overHttp = Layer.unwrap(
  Effect.map(Url, (url) =>
    RpcClient.layerProtocolHttp({ url: `${url}/rpc` }).pipe(
      Layer.provide([FetchHttpClient.layer, RpcSerialization.layerNdjson])
    ))
)

const overWebSocket = Layer.unwrap(Effect.map(Url, (url) =>
  RpcClient.layerProtocolSocket().pipe(
    Layer.provide(NodeSocket.layerWebSocket(`${url.replace("http", "ws")}/ws`)),
    Layer.provide(RpcSerialization.layerNdjson)
  )))

const as = (user: string, key?: string) =>
  RpcClient.withHeaders({
    authorization: `Bearer token-of-${user}`,
    ...(key === undefined ? {} : { "idempotency-key": key })
  })

for (const [name, protocol] of [["HTTP", overHttp], ["a WebSocket", overWebSocket]] as const) {
  layer(served(), { excludeTestServices: true, timeout: 60_000 })(`servers behind procedures, over ${name}`, (it) => {
    const withClient = <A, E, R>(
      use: (client: RpcClient.FromGroup<typeof DeskRpcs, RpcClientError.RpcClientError>) => Effect.Effect<A, E, R>
    ) => Effect.scoped(Effect.provide(Effect.flatMap(RpcClient.make(DeskRpcs), use), protocol))

    describe("a client", () => {
      it.effect("sends what the messages take, and gets what they answer", () =>
        withClient((desk) =>
          Effect.gen(function*() {
            yield* desk["Desk.Put"]({ tuid: "a", payload: { note: "ink" } })
            assert.deepStrictEqual(yield* desk["Desk.Notes"]({ tuid: "a" }), ["ink"])
            const at = DateTime.makeUnsafe("2026-02-03T00:00:00Z")
            const drawn = yield* desk["Desk.Draw"]({ tuid: "a", payload: { amount: 30, at } })
            assert.deepStrictEqual(drawn, { balance: 70, by: "desk" })
            const error = yield* Effect.flip(desk["Desk.Draw"]({ tuid: "a", payload: { amount: 300 } }))
            assert.deepInclude(error, { _tag: "Overdrawn", balance: 70 })
          }).pipe(as("ada"))
        ))
      it.effect("is told by the middleware that it may not", () =>
        withClient((desk) =>
          Effect.gen(function*() {
            assert.strictEqual((yield* Effect.flip(desk["Desk.Notes"]({ tuid: "a" })))._tag, "Denied")
          })
        ))
      it.effect("gets one answer to a key, and another one to another user's", () =>
        withClient((desk) =>
          Effect.gen(function*() {
            const seen = yield* Seen
            const before = seen.draws
            const draw = desk["Desk.Draw"]({ tuid: "keys", payload: { amount: 10 } })
            assert.strictEqual((yield* draw.pipe(as("ada", "1"))).balance, 90)
            assert.strictEqual((yield* draw.pipe(as("ada", "1"))).balance, 90)
            assert.strictEqual((yield* draw.pipe(as("bob", "1"))).balance, 80)
            assert.strictEqual(seen.draws, before + 2)
            const reused = yield* Effect.flip(
              desk["Desk.Draw"]({ tuid: "keys", payload: { amount: 11 } }).pipe(as("ada", "1"))
            )
            assert.deepInclude(reused, { _tag: "KeyReused", key: "1", tuid: "keys" })
            const bad = yield* Effect.flip(draw.pipe(as("ada", "k".repeat(300))))
            assert.deepInclude(bad, { _tag: "InvalidOption", option: "key" })
          })
        ))
      it.effect("hears of what went wrong inside by an id alone", () =>
        withClient((desk) =>
          Effect.gen(function*() {
            const error = yield* Effect.flip(desk["Desk.Crash"]({ tuid: "b" }))
            assert.strictEqual(error._tag, "DeadLettered")
            assert.notInclude(JSON.stringify(error), "secret")
            const id = /^see the log for (\w+)$/.exec((error as { readonly cause: string }).cause)![1]!
            assert.include((yield* Lines).find((line) => line.includes(id)), "a secret of the inside")
            const lie = yield* Effect.flip(desk["Desk.Lie"]({ tuid: "b" }))
            assert.strictEqual(lie._tag, "HandlerCrashed")
            // what went wrong with one request is no matter of the others
            assert.deepStrictEqual(yield* desk["Desk.Notes"]({ tuid: "b" }), [])
          }).pipe(as("ada"))
        ))
      it.effect("that goes away leaves nothing waiting", () =>
        Effect.gen(function*() {
          const tuid = ["desk", "left"]
          const gone = yield* Effect.forkChild(
            withClient((desk) =>
              Effect.all(Array.from({ length: 20 }, () => desk["Desk.Wait"]({ tuid: "left" })), {
                concurrency: "unbounded"
              })
                .pipe(as("ada"))
            )
          )
          yield* untilWaiting(tuid, 20)
          yield* Fiber.interrupt(gone)
          yield* untilWaiting(tuid, 0)
          assert.deepStrictEqual(yield* waiting(tuid), { calls: 0, rows: 0 })
        }))
      it.effect("that goes on, but does not want one answer any more, leaves nothing waiting", () =>
        withClient((desk) =>
          Effect.gen(function*() {
            const tuid = ["desk", "interrupted"]
            const call = yield* Effect.forkChild(desk["Desk.Wait"]({ tuid: "interrupted" }))
            yield* untilWaiting(tuid, 1)
            yield* Fiber.interrupt(call)
            yield* untilWaiting(tuid, 0)
            assert.deepStrictEqual(yield* desk["Desk.Notes"]({ tuid: "interrupted" }), [])
          }).pipe(as("ada"))
        ))
      it.effect("does not reach what is not shown, nor with a payload that does not fit", () =>
        withClient((desk) =>
          Effect.gen(function*() {
            const untyped = desk as unknown as Record<string, unknown>
            assert.isUndefined(untyped["Desk.Secret"])
            assert.isUndefined(untyped["Desk.Tick"])
            const wrong = yield* Effect.exit(
              desk["Desk.Draw"]({ tuid: "c", payload: { amount: "much" as unknown as number } })
            )
            assert.isTrue(Exit.isFailure(wrong))
          }).pipe(as("ada"))
        ))
    })
  })
}

/** The payment of examples/paymentServer.ts charges once, whatever happens while it runs. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { MemoryBackend, Tenant } from "effect-dgen"
import { behaviour, Order, OrderLocked, Payments } from "../../examples/paymentServer.ts"

/** A service that charges once for each key. It does not answer its first request, and says when that has come. */
const bank = Effect.gen(function*() {
  const charged = new Map<string, number>()
  const asked = yield* Deferred.make<void>()
  let requests = 0
  const layer = Layer.succeed(Payments, {
    charge: (key, cents) =>
      Effect.suspend(() => {
        if (!charged.has(key)) charged.set(key, cents)
        return requests++ === 0
          ? Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
          : Effect.succeed(`receipt for ${charged.get(key)}`)
      })
  })
  return { charged, asked: Deferred.await(asked), layer, requests: () => requests }
})

const startOrder = (layer: Layer.Layer<Payments>) =>
  Order.start(behaviour, { tuid: ["order", 1], lockTimeout: "1 minute", grace: "20 millis" }).pipe(
    Effect.provide(OrderLocked.pipe(Layer.provide(layer)))
  )

describe("examples/paymentServer.ts", () => {
  it.live("charges once when its scope closes during the payment, and the caller asks again", () =>
    Effect.gen(function*() {
      const { asked, charged, layer, requests } = yield* bank
      const scope = yield* Scope.make()
      const order = yield* startOrder(layer).pipe(Effect.provideService(Scope.Scope, scope))
      yield* order.cast("Add", { cents: 1_750 })
      const paying = yield* Effect.forkChild(order.call("Pay"))
      yield* asked
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Effect.flip(Fiber.join(paying)))._tag, "ServerStopped")

      const again = yield* startOrder(layer)
      assert.strictEqual(yield* again.call("Pay"), "receipt for 1750")
      assert.strictEqual(yield* again.call("Pay"), "receipt for 1750")
      assert.strictEqual(yield* again.call("Status"), "paid, 1750 cents")
      assert.deepStrictEqual([...charged], [["order-1", 1_750]])
      assert.strictEqual(requests(), 2)
      assert.strictEqual(yield* again.queueLength, 0)
    }).pipe(
      Effect.scoped,
      Effect.provide([Tenant.layer(["payment"]).pipe(Layer.provide(MemoryBackend.layer)), Logger.layer([])])
    ))
})

/** Many calls that wait at the same time in one process, on a backend between processes. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Schema } from "effect"
import { Backend, type BackendError, DgenServer, Tenant } from "effect-dgen"

class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Int,
  messages: { Add: DgenServer.call({ success: Schema.Int }) }
}) {}

const behaviour = Counter.behaviour({
  init: Effect.succeed(0),
  handlers: { Add: (_, state) => DgenServer.reply(state + 1, state + 1) }
})

/** Counts the watches that are armed. */
const counting = (backend: Backend.Backend["Service"], armed: { count: number }): Backend.Backend["Service"] => ({
  ...backend,
  begin: Effect.map(backend.begin, (driver): Backend.DriverTransaction => ({
    readVersion: driver.readVersion,
    get: (key) => driver.get(key),
    getRange: (begin, end, options) => driver.getRange(begin, end, options),
    commit: (request, accepted) => {
      armed.count += request.watches.length
      return driver.commit(request, accepted)
    },
    close: () => driver.close()
  }))
})

export const suite = (
  name: string,
  backend: Layer.Layer<Backend.Backend, BackendError.BackendError>,
  count: number
) =>
  describe(name, () => {
    const armed = { count: 0 }
    const counted = Layer.effect(
      Backend.Backend,
      Effect.map(Layer.build(backend), (context) => counting(Context.get(context, Backend.Backend), armed))
    )
    it.live(`${count} open calls wait with a few watches, and all are answered`, () =>
      Effect.gen(function*() {
        const tenant = yield* Tenant.Tenant
        // the callers have a layer of their own, like another process: their answers come through the store
        const answers = yield* Effect.gen(function*() {
          const client = yield* Counter.client()
          const call = client.call("Add", undefined, { timeout: "10 minutes" })
          const calling = yield* Effect.forkChild(
            Effect.all(Array.from({ length: count }, () => call), { concurrency: "unbounded" })
          )
          yield* Effect.repeat(Effect.delay(client.queueLength, 20), { while: (length) => length < count })
          assert.isBelow(armed.count, 20)
          yield* Effect.provideService(
            Counter.start(behaviour, { tuid: ["Counter"], consumeK: 500 }),
            Tenant.Tenant,
            tenant
          )
          return yield* Fiber.join(calling)
        }).pipe(Effect.provide(Layer.fresh(Tenant.layer(tenant.path))))
        assert.deepStrictEqual([...answers].sort((a, b) => a - b), Array.from({ length: count }, (_, i) => i + 1))
      }).pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["open calls"]).pipe(Layer.provideMerge(counted))),
        Effect.provide(Logger.layer([]))
      ), 300_000)
  })

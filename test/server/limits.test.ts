/** What takes too long: handlers that compute past their transaction's time, and actions, under a test's clock. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Schedule, Schema, Scope } from "effect"
import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
import { TestClock } from "effect/testing"
import { keptLogs, until } from "../suites/server/support.ts"

class Mule extends DgenServer.Service<Mule>()("Mule", {
  state: Schema.Int,
  messages: {
    Do: DgenServer.call({ payload: Schema.String, success: Schema.Int }),
    DoCast: DgenServer.cast({ payload: Schema.String }),
    DoInfo: DgenServer.info({ payload: Schema.String }),
    Update: DgenServer.call({ payload: Schema.String, success: Schema.Int, locks: true })
  },
  actions: { Act: Schema.String }
}) {}

/** What never ends, and never waits for anything but its next turn. */
const endless: { readonly [what: string]: Effect.Effect<never> } = {
  "yields for ever": Effect.forever(Effect.yieldNow),
  "yields for ever, and cannot be interrupted": Effect.uninterruptible(Effect.forever(Effect.yieldNow)),
  "yields for ever when it is interrupted": Effect.onInterrupt(
    Effect.forever(Effect.yieldNow),
    () => Effect.forever(Effect.yieldNow)
  )
}

const behaviourOf = (endless: Effect.Effect<never>, init: Effect.Effect<number> = Effect.succeed(0)) => {
  const run = (what: string) => what === "endless" ? endless : Effect.void
  return Mule.behaviour({
    init,
    handlers: {
      Do: (what, state) => Effect.as(run(what), DgenServer.reply(state + 1, state + 1)),
      DoCast: (what, state) => Effect.as(run(what), DgenServer.noReply(state + 1, [Mule.action("Act", what)])),
      DoInfo: (what, state) => Effect.as(run(what), DgenServer.noReply(state + 1, [Mule.action("Act", what)])),
      Update: (_, state) => DgenServer.lock(state)
    }
  })
}

const handlersOf = (endless: Effect.Effect<never>, act: Effect.Effect<void> = Effect.void) =>
  Layer.merge(
    Mule.actionsLayer({ Act: (what) => what === "act" ? act : Effect.void }),
    Mule.lockedLayer({
      Update: (what) =>
        Effect.succeed(DgenServer.update((state: number) =>
          Effect.as(what === "endless" ? endless : Effect.void, DgenServer.reply(state + 1, state + 1))
        ))
    })
  )

const start = (endless: Effect.Effect<never>, options: DgenServer.Options = {}, act?: Effect.Effect<void>) =>
  Mule.start(behaviourOf(endless), { tuid: ["mule", 7], restart: Schedule.forever, lockTimeout: "1 hour", ...options })
    .pipe(Effect.provide(handlersOf(endless, act)))

/** Lets time pass, a second at a time, until something has ended. */
const passing = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    for (let i = 0; i < 100 && fiber.pollUnsafe() === undefined; i++) {
      yield* TestClock.withLive(Effect.sleep(1))
      yield* TestClock.adjust("1 second")
    }
    return yield* Fiber.join(fiber)
  })

const inMemory = <A, E>(test: Effect.Effect<A, E, Tenant.Tenant | Scope.Scope>) =>
  test.pipe(
    Effect.scoped,
    Effect.provide(Tenant.layer(["limits"]).pipe(Layer.provide(MemoryBackend.layer))),
    Effect.provide(Logger.layer([]))
  )

describe("a handler that computes past the time of its transaction", () => {
  for (const [what, run] of Object.entries(endless)) {
    it.effect(`and ${what}: is ended and charged, on every way`, () =>
      inMemory(Effect.gen(function*() {
        const waits = { timeout: "10 minutes" } as const
        for (const consumeK of [1, 5]) {
          const server = yield* start(run, { deadLetterThreshold: 2, consumeK })
          const ways = {
            call: [server.call("Do", "endless", waits), "DeadLettered"],
            update: [server.call("Update", "endless", waits), "DeadLettered"],
            priorityCall: [server.priorityCall("Do", "endless", waits), "HandlerCrashed"],
            priorityUpdate: [server.priorityCall("Update", "endless", waits), "HandlerCrashed"],
            priorityCast: [server.priorityCast("DoCast", "endless"), "HandlerCrashed"],
            info: [server.info("DoInfo", "endless"), "HandlerCrashed"]
          } as const
          for (const [way, [send, tag]] of Object.entries(ways)) {
            const error: any = yield* passing(Effect.flip(send as Effect.Effect<unknown, DgenServer.CallError>))
            assert.strictEqual(error._tag, tag, way)
            assert.include(error.message, "CallbackTooLong", way)
            assert.include(error.message, "Do less in one message", way)
          }
          assert.strictEqual(yield* server.priorityCall("Do", "a"), 1)
          yield* server.kill()
        }
      })))
  }
  it.effect("is ended in init, too, and nothing is started", () =>
    inMemory(Effect.gen(function*() {
      const run = endless["yields for ever"]!
      const starting = Mule.start(behaviourOf(run, run), { tuid: ["mule", 7] }).pipe(Effect.provide(handlersOf(run)))
      const exit: any = yield* passing(Effect.provide(Effect.exit(starting), yield* Effect.context<any>()))
      assert.strictEqual(exit.cause.reasons[0].defect._tag, "CallbackTooLong")
      assert.strictEqual(exit.cause.reasons[0].defect.tag, "init")
      assert.isUndefined(yield* Effect.flatMap(Mule.client({ tuid: ["mule", 7] }), (client) => client.state))
    })))
  it.effect("does not hold up the scope", () =>
    inMemory(Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const scope = yield* Scope.fork(yield* Effect.scope)
      const run = Effect.andThen(Deferred.succeed(begun, undefined), endless["yields for ever"]!)
      const server = yield* start(run).pipe(Effect.provideService(Scope.Scope, scope))
      yield* server.cast("DoCast", "endless")
      yield* Deferred.await(begun)
      yield* passing(Scope.close(scope, Exit.void))
      assert.strictEqual(yield* server.queueLength, 1)
    })))
  it.effect("charges nobody but itself: those before it in a batch are handled", () =>
    inMemory(Effect.gen(function*() {
      const sender = yield* start(endless["yields for ever"]!, { consume: false })
      const messages = ["a", "b", "endless", "c"].map((what) => ["DoCast", what] as const)
      yield* sender.castAll(messages)
      const server = yield* start(endless["yields for ever"]!, { consumeK: 10, deadLetterThreshold: 1 })
      yield* passing(until(server.queueLength, (length) => length === 0))
      assert.strictEqual(yield* server.state, 3)
    })))
})

describe("an action that takes long", () => {
  it.effect("is warned about by name, again and again, with growing pauses", () =>
    inMemory(Effect.gen(function*() {
      const logs = keptLogs()
      const warned = () => logs.count("has run for")
      const server = yield* start(Effect.never, { grace: 0 }, Effect.never).pipe(Effect.provide(logs.layer))
      yield* server.cast("DoCast", "act")
      yield* until(server.queueLength, (length) => length === 0)
      yield* TestClock.adjust("29 seconds")
      assert.strictEqual(warned(), 0)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(warned(), 1)
      for (const part of ["Mule", "mule", "7", "Act", "30 s"]) assert.include(logs.lines.at(-1), part)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(warned(), 1)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(warned(), 2)
      yield* TestClock.adjust("119 seconds")
      assert.strictEqual(warned(), 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(warned(), 3)
    })))
  it.effect("ends at actionTimeout, as if it had crashed: the next message is handled", () =>
    inMemory(Effect.gen(function*() {
      for (const act of [Effect.never, Effect.uninterruptible(Effect.never), Effect.forever(Effect.yieldNow)]) {
        const logs = keptLogs()
        const options = { actionTimeout: "3 seconds", grace: 0 } as const
        const server = yield* start(Effect.never, options, act).pipe(Effect.provide(logs.layer))
        yield* server.castAll([["DoCast", "act"], ["DoCast", "a"]])
        yield* until(server.queueLength, (length) => length === 1)
        yield* TestClock.adjust("2 seconds")
        assert.strictEqual(logs.count("actionTimeout"), 0)
        yield* passing(until(server.queueLength, (length) => length === 0))
        assert.strictEqual(logs.count("crashed"), 1)
        assert.strictEqual(logs.count("actionTimeout"), 1)
        yield* server.kill()
      }
    })))
  it.effect("goes on for ever without one, and the grace period is counted by the clock", () =>
    inMemory(Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope)
      const server = yield* start(Effect.never, {}, Effect.never).pipe(Effect.provideService(Scope.Scope, scope))
      yield* server.cast("DoCast", "act")
      yield* until(server.queueLength, (length) => length === 0)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* TestClock.adjust("9 seconds")
      assert.isUndefined(closing.pollUnsafe())
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
    })))
})

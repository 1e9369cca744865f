/** Hosted servers under their locks, and the end of a host whose handlers run: as for servers that are started. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Schedule, Schema, Scope } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { elsewhere, inside, type Store, testsOf, until } from "../server/support.ts"

class Stall extends DgenServer.Service<Stall>()("Stall", {
  state: Schema.Array(Schema.String),
  hosted: true,
  messages: {
    Say: DgenServer.cast({ payload: Schema.String }),
    Log: DgenServer.call({ success: Schema.Array(Schema.String) }),
    Work: DgenServer.call({ success: Schema.Int, locks: true }),
    WorkCast: DgenServer.cast({ locks: true })
  },
  actions: { Tell: Schema.String }
}) {}

const behaviour = Stall.behaviour({
  init: () => Effect.succeed([]),
  handlers: {
    Say: (line, state) => DgenServer.noReply([...state, line], [Stall.action("Tell", line)]),
    Log: (_, state) => DgenServer.reply(state, state),
    Work: (_, state) => DgenServer.lock(state),
    WorkCast: (_, state) => DgenServer.lock(state)
  }
})

interface Work {
  readonly locked?: (attempt: number) => Effect.Effect<void>
  readonly tell?: (line: string) => Effect.Effect<void>
}

/** A host until its scope is closed, or the test's. */
const host = (work: Work, options: DgenServer.HostOptions = {}) =>
  Effect.gen(function*() {
    const run = (attempt: number) => work.locked?.(attempt) ?? Effect.void
    const layer = Stall.hostLayer(behaviour, { lockTimeout: "1 minute", grace: 30, restart: undefined, ...options })
      .pipe(
        Layer.provide([
          Stall.lockedLayer({
            Work: (_, state, { attempt }) =>
              Effect.as(run(attempt), DgenServer.reply(attempt, [...state, `worked ${attempt}`])),
            WorkCast: (_, state, { attempt }) =>
              Effect.as(run(attempt), DgenServer.noReply([...state, `worked ${attempt}`]))
          }),
          Stall.actionsLayer({ Tell: (line) => work.tell?.(line) ?? Effect.void })
        ])
      )
    const scope = yield* Scope.fork(yield* Effect.scope)
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
    return { context, close: Scope.close(scope, Exit.void) }
  })

const stubborn: { readonly [how: string]: Effect.Effect<never> } = {
  "waits": Effect.never,
  "cannot be interrupted": Effect.uninterruptible(Effect.never)
}

const seven = { tuid: ["stall", 7] }

export const hostedLocksSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "hosted locks")

  describe(`${name}: hosted servers under their locks`, () => {
    for (const [how, run] of Object.entries(stubborn)) {
      for (const way of ["queued", "inline"] as const) {
        test(
          `a locked handler (${way}) that ${how} does not hold up the host's scope, and its message is not lost`,
          Effect.gen(function*() {
            const begun = yield* Deferred.make<void>()
            const first = yield* host({ locked: () => Effect.andThen(Deferred.succeed(begun, undefined), run) })
            const sender = way === "inline" ? undefined : yield* elsewhere
            const stall = yield* sender === undefined ? Stall.client(seven) : inside(sender)(Stall.client(seven))
            const call = yield* Effect.forkChild(stall.call("Work", undefined, { timeout: "20 seconds" }))
            yield* Deferred.await(begun)
            assert.strictEqual(yield* stall.queueLength, 1)
            yield* first.close
            assert.isFalse(yield* stall.locked)
            assert.strictEqual(yield* stall.queueLength, 1)
            yield* host({})
            assert.deepStrictEqual(yield* until(stall.call("Log"), (log) => log.length > 0), ["worked 1"])
            yield* Fiber.interrupt(call)
          })
        )
      }
      test(
        `an action that ${how} does not hold up the host's scope`,
        Effect.gen(function*() {
          const begun = yield* Deferred.make<void>()
          const first = yield* host({ tell: () => Effect.andThen(Deferred.succeed(begun, undefined), run) })
          const stall = yield* Stall.client(seven)
          yield* stall.castAll([["Say", "a"], ["Say", "b"]])
          yield* Deferred.await(begun)
          yield* first.close
          yield* host({})
          assert.deepStrictEqual(yield* until(stall.call("Log"), (log) => log.length > 1), ["a", "b"])
        })
      )
    }
    test(
      "a locked handler that ends in the grace period is committed",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const locked = () => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
        const first = yield* host({ locked }, { grace: "1 minute" })
        const stall = yield* Stall.client(seven)
        yield* stall.cast("WorkCast")
        yield* Deferred.await(begun)
        const closing = yield* Effect.forkChild(first.close, { startImmediately: true })
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(closing)
        assert.deepStrictEqual(yield* stall.state, ["worked 1"])
        assert.strictEqual(yield* stall.queueLength, 0)
      })
    )
    test(
      "a locked handler that dies is tried again",
      Effect.gen(function*() {
        let runs = 0
        const die = Effect.suspend(() => {
          runs++
          return Effect.die(new Error("connection reset"))
        })
        yield* host({ locked: (attempt) => attempt === 1 ? die : Effect.void }, { deadLetterThreshold: 3 })
        const stall = yield* Stall.client(seven)
        yield* stall.cast("WorkCast")
        assert.deepStrictEqual(yield* until(stall.state, (state) => state?.length === 1), ["worked 2"])
        assert.strictEqual(runs, 1)
      })
    )
    test(
      "a locked handler that dies is tried again under the restart schedule, whatever comes meanwhile",
      Effect.gen(function*() {
        let pauses = 0
        const go = yield* Deferred.make<void>()
        const dead = yield* Deferred.make<void>()
        const restart = Schedule.tap(Schedule.forever, () =>
          Effect.andThen(
            Effect.sync(() => void pauses++),
            Effect.andThen(Deferred.succeed(dead, undefined), Deferred.await(go))
          ))
        const attempts: Array<number> = []
        const locked = (attempt: number) =>
          Effect.suspend(() => attempts.push(attempt) === 1 ? Effect.die(new Error("reset")) : Effect.void)
        yield* host({ locked }, { deadLetterThreshold: 3, restart })
        const stall = yield* Stall.client(seven)
        yield* stall.cast("WorkCast")
        yield* Deferred.await(dead)
        yield* stall.cast("Say", "meanwhile")
        for (let i = 0; i < 100; i++) yield* Effect.yieldNow
        assert.deepStrictEqual(attempts, [1])
        yield* Deferred.succeed(go, undefined)
        yield* until(stall.state, (state) => state?.length === 2)
        assert.deepStrictEqual([pauses, attempts], [1, [1, 2]])
      })
    )
    test(
      "a locked handler that always dies makes a dead letter of its message",
      Effect.gen(function*() {
        yield* host({ locked: () => Effect.die(new Error("connection reset")) }, { deadLetterThreshold: 2 })
        const stall = yield* Stall.client(seven)
        const error: any = yield* Effect.flip(stall.call("Work"))
        assert.deepStrictEqual([error._tag, error.attempts], ["DeadLettered", 2])
        const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(Stall.queue(seven)))
        assert.deepStrictEqual(letters.map(({ attempts, tag }) => [tag, attempts]), [["Work", 2]])
      })
    )
    test(
      "an operator's unlock interrupts the locked handler, and the message is handled again",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        yield* host({
          locked: (attempt) =>
            attempt === 1 ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) : Effect.void
        })
        const stall = yield* Stall.client(seven)
        yield* stall.cast("WorkCast")
        yield* Deferred.await(begun)
        assert.isTrue(Option.isSome(yield* Tenant.transact(Stall.lock(seven))))
        yield* Tenant.transact(Stall.unlock(seven))
        assert.deepStrictEqual(yield* until(stall.state, (state) => state?.length === 1), ["worked 2"])
      })
    )
    for (const from of ["an action", "a locked handler"]) {
      test(
        `a call through the own queue from ${from} is refused at once`,
        Effect.gen(function*() {
          const asked = yield* Deferred.make<string>()
          const tenant = yield* elsewhere
          const mine = yield* Tenant.Tenant
          // a client of this very layer may run inline: another layer's goes through the queue, and is not found out
          const ask = Effect.gen(function*() {
            const stall = yield* Stall.client(seven)
            const exit = yield* Effect.exit(stall.call("Log"))
            const tag = Exit.isFailure(exit) ? (exit.cause.reasons[0] as any).error?._tag : "answered"
            yield* Deferred.succeed(asked, tag)
          }).pipe(Effect.provideService(Tenant.Tenant, mine), Effect.orDie)
          yield* host({ locked: () => ask, tell: (line) => line === "ask" ? ask : Effect.void })
          const stall = yield* inside(tenant)(Stall.client(seven))
          yield* from === "an action" ? stall.castAll([["Say", "ask"], ["Say", "b"]]) : stall.cast("WorkCast")
          const tag = yield* Deferred.await(asked)
          assert.strictEqual(tag, "WouldDeadlock")
        })
      )
    }
  })
}

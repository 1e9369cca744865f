/** The end of a handle whose actions and locked handlers run: they have the grace period, and it ends in bounded time. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { Desk, desk, deskHandlers, done, held, type Locked, logged, startDesk } from "./desk.ts"
import { failureOf, fast, keptLogs, type Store, testsOf, until } from "./support.ts"

/** What a test's handlers do that does not end by itself. */
const stubborn: { readonly [how: string]: Effect.Effect<never> } = {
  "waits": Effect.never,
  "computes, with yields": Effect.forever(Effect.yieldNow),
  "cannot be interrupted": Effect.uninterruptible(Effect.never),
  "ignores its interruption": Effect.onInterrupt(Effect.never, () => Effect.never)
}

/** A desk that tells somebody of every note, by an action. */
const telling = Desk.behaviour({
  init: Effect.succeed({ log: [], count: 0 }),
  handlers: {
    Work: (_, state) => DgenServer.lock(state),
    WorkCast: (_, state) => DgenServer.lock(state),
    WorkInfo: (_, state) => DgenServer.lock(state),
    Note: ({ item }, state) => DgenServer.noReply(logged(state, item), [Desk.action("Told", { item })]),
    NoteInfo: ({ item }, state) => DgenServer.noReply(logged(state, item), [Desk.action("Told", { item })]),
    Count: ({ by }, state) => DgenServer.reply(by, state, [Desk.action("Told", { item: "count" })]),
    Log: (_, state) => DgenServer.reply(state.log, state)
  }
})

const startTelling = (
  told: (item: string) => Effect.Effect<void>,
  options: DgenServer.Options = {},
  behaviour = telling
) =>
  Desk.start(behaviour, { ...fast, tuid: ["Desk"], grace: 30, ...options }).pipe(
    Effect.provide(deskHandlers(() => Effect.never, told))
  )

/** Starts in a scope that the test closes. */
const inScope = <A, E, R>(start: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const server = yield* Effect.provideService(start, Scope.Scope, scope)
    return { server, close: Scope.close(scope, Exit.void) }
  })

export const closingSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "closing")

  describe(`${name}: the end of what runs`, () => {
    for (const [how, run] of Object.entries(stubborn)) {
      // each that is left behind takes a second
      const isLeft = how.startsWith("cannot") || how.startsWith("ignores")
      for (const way of isLeft ? ["cast"] as const : ["cast", "call", "info", "dead letter"] as const) {
        live(
          `an action of a ${way} that ${how} does not hold up the scope`,
          Effect.gen(function*() {
            const begun = yield* Deferred.make<void>()
            const hold = Effect.andThen(Deferred.succeed(begun, undefined), run)
            const start = startTelling(() => hold, { deadLetterThreshold: 1 }).pipe(
              Effect.provide(Desk.deadLetterLayer(() => hold))
            )
            const { close, server } = yield* inScope(start)
            if (way === "cast") yield* server.cast("Note", { item: "a" })
            if (way === "call") yield* server.call("Count", { by: 1 })
            if (way === "info") yield* Effect.forkChild(server.info("NoteInfo", { item: "a" }))
            if (way === "dead letter") yield* Tenant.transact(DurableQueue.pushAll(Desk.queue(), [Uint8Array.of(0xc1)]))
            yield* Deferred.await(begun)
            yield* close
            // what comes next is handled by the next one
            const again = yield* startTelling(() => Effect.void)
            assert.strictEqual(yield* again.call("Count", { by: 7 }), 7)
          })
        )
      }
      for (const way of isLeft ? ["queued", "inline"] as const : ["queued", "inline", "priority"] as const) {
        live(
          `a locked handler of a ${way} call that ${how} does not hold up the scope, and its message is not lost`,
          Effect.gen(function*() {
            const begun = yield* Deferred.make<void>()
            const locked: Locked = () => Effect.andThen(Deferred.succeed(begun, undefined), run)
            const { close, server } = yield* inScope(startDesk(locked, { grace: 30, deadLetterThreshold: 1 }))
            const client = yield* Desk.client()
            const call = yield* Effect.forkChild(
              way === "queued"
                ? client.call("Work", { item: "a" }, { timeout: "20 seconds" })
                : server[way === "inline" ? "call" : "priorityCall"]("Work", { item: "a" })
            )
            yield* Deferred.await(begun)
            yield* close
            assert.isFalse(yield* client.locked)
            assert.strictEqual(yield* client.queueLength, way === "priority" ? 0 : 1)
            if (way !== "queued") assert.strictEqual((yield* failureOf(call))._tag, "ServerStopped")
            const attempts: Array<number> = []
            const again = yield* startDesk((item, state, context) =>
              Effect.sync(() => {
                attempts.push(context.attempt)
                return done(item, state, context)
              })
            )
            if (way === "queued") assert.strictEqual(yield* Fiber.join(call), "a 1")
            yield* until(again.queueLength, (length) => length === 0)
            assert.deepStrictEqual(attempts, way === "priority" ? [] : [1])
          })
        )
      }
    }
    for (const way of ["queued", "inline"] as const) {
      live(
        `a locked handler of a ${way} call that ends in the grace period is committed, and its actions run`,
        Effect.gen(function*() {
          const { begun, go, locked } = yield* held
          const { close, server } = yield* inScope(startDesk(locked, { grace: "1 minute" }))
          const client = yield* Desk.client()
          const call = yield* Effect.forkChild((way === "inline" ? server : client).call("Work", { item: "a" }))
          yield* begun
          const closing = yield* Effect.forkChild(close, { startImmediately: true })
          assert.strictEqual((yield* Effect.flip(server.call("Log")))._tag, "ServerStopped")
          yield* client.cast("Note", { item: "late" })
          assert.isTrue(yield* client.locked)
          yield* go
          yield* Fiber.join(closing)
          assert.strictEqual(yield* Fiber.join(call), "a 1")
          assert.deepStrictEqual((yield* client.state)!.log, ["lock a", "done a"])
          assert.isFalse(yield* client.locked)
          assert.strictEqual(yield* client.queueLength, 1)
        })
      )
    }
    live(
      "all share one grace period, and stop and kill keep it too",
      Effect.gen(function*() {
        for (const end of ["stop", "kill"] as const) {
          const begun = yield* Deferred.make<void>()
          let count = 0
          const server = yield* startTelling(() =>
            Effect.andThen(
              Effect.suspend(() => ++count === 3 ? Deferred.succeed(begun, undefined) : Effect.void),
              Effect.never
            )
          )
          yield* server.cast("Note", { item: "a" })
          yield* Effect.forkChild(server.info("NoteInfo", { item: "b" }))
          yield* server.priorityCall("Count", { by: 1 })
          yield* Deferred.await(begun)
          yield* server[end]()
          assert.notStrictEqual((yield* Effect.flip(server.call("Log")))._tag, "CallTimeout")
        }
      })
    )
    live(
      "an action that is interrupted says so, and the ones after it do not run",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const ran: Array<string> = []
        const logs = keptLogs()
        const two = Desk.behaviour({
          init: Effect.succeed({ log: [], count: 0 }),
          handlers: {
            Work: (_, state) => DgenServer.lock(state),
            WorkCast: (_, state) => DgenServer.lock(state),
            WorkInfo: (_, state) => DgenServer.lock(state),
            Note: (_, state) =>
              DgenServer.noReply(state, [Desk.action("Told", { item: "one" }), Desk.action("Told", { item: "two" })]),
            NoteInfo: (_, state) => DgenServer.noReply(state),
            Count: (_, state) => DgenServer.reply(0, state),
            Log: (_, state) => DgenServer.reply(state.log, state)
          }
        })
        const start = startTelling(
          (item) =>
            Effect.andThen(
              Effect.sync(() => void ran.push(item)),
              Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
            ),
          {},
          two
        )
        const { close, server } = yield* inScope(Effect.provide(start, logs.layer))
        yield* server.cast("Note", { item: "a" })
        yield* Deferred.await(begun)
        yield* close
        assert.deepStrictEqual(ran, ["one"])
        assert.strictEqual(logs.count("Told"), 1)
      })
    )
    live(
      "a scope that an action of its own closes does not wait for itself",
      Effect.gen(function*() {
        const scope = yield* Scope.fork(yield* Effect.scope)
        const ended = yield* Deferred.make<void>()
        const server = yield* startTelling(
          () => Effect.andThen(Scope.close(scope, Exit.void), Deferred.succeed(ended, undefined)),
          { grace: "1 hour" }
        ).pipe(
          Effect.provideService(Scope.Scope, scope)
        )
        yield* server.cast("Note", { item: "a" })
        yield* Deferred.await(ended)
        assert.strictEqual((yield* Effect.flip(server.call("Log")))._tag, "ServerStopped")
      })
    )
    live(
      "nothing that runs: the scope closes at once",
      Effect.gen(function*() {
        const { close, server } = yield* inScope(
          Desk.start(desk, { ...fast, tuid: ["Desk"], grace: "Infinity" }).pipe(
            Effect.provide(deskHandlers(() => Effect.never))
          )
        )
        yield* server.call("Count", { by: 1 })
        yield* close
      })
    )
  })
}

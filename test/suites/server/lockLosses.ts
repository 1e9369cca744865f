/**
 * What becomes of a lock whose holder does not come back, or comes back too late: it is broken, its holder fenced, and
 * its message not lost (source document, sections 4.4 and 4.7).
 */
import { assert, describe } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Option, Scope } from "effect"
import { type DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { Desk, done, held, type Locked, startDesk } from "./desk.ts"
import { elsewhere, failureOf, inside, keptLogs, scan, type Store, testsOf, until } from "./support.ts"

/** Short, so that tests end soon: what they wait for is the event, whenever it comes. */
const lockTimeout = "30 millis" as const

/** The same server in a tenant layer of its own. */
const startElsewhere = (locked: Locked, options: DgenServer.Options = {}) =>
  Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(locked, options)))

/** A locked handler that ends at once, and remembers what it ran. */
const quick = () => {
  const runs: Array<string> = []
  const locked: Locked = (item, state, context) =>
    Effect.sync(() => {
      runs.push(`${item} ${context.attempt}`)
      return done(item, state, context)
    })
  return { runs, locked }
}

const lockOf = Tenant.transact(Desk.lock())

/** Nothing of a lock, or of its message, is left. */
const nothingKept = Effect.gen(function*() {
  assert.isTrue(Option.isNone(yield* lockOf))
  assert.isFalse((yield* scan(["Desk"])).some(([kind]) => kind === "lock"))
})

export const lockLossesSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "losses")

  describe(`${name}: broken locks`, () => {
    for (const item of ["small", "x".repeat(3_000_000)]) {
      live(
        `of a holder that never comes back: another consumer handles the message (${item.length} bytes)`,
        Effect.gen(function*() {
          const { begun, locked } = yield* held
          const dead = yield* startElsewhere(locked)
          const client = yield* Desk.client()
          const call = yield* Effect.forkChild(client.call("Work", { item }, { timeout: "20 seconds" }))
          yield* begun
          assert.isTrue(yield* client.locked)
          // it finds the lock held and nothing to do; only time wakes it
          const { locked: other, runs } = quick()
          const server = yield* startDesk(other, { lockTimeout })
          assert.strictEqual(yield* Fiber.join(call), `${item} 2`)
          assert.deepStrictEqual(runs, [`${item} 2`])
          const short = item.slice(0, 9)
          assert.deepStrictEqual(yield* server.call("Log"), [`lock ${short}`, `lock ${short}`, `done ${short}`])
          yield* nothingKept
          assert.strictEqual(dead.tuid.length, 1)
        })
      )
    }
    live(
      "of a holder that never comes back, with messages that wait: they are handled first",
      Effect.gen(function*() {
        const { begun, locked } = yield* held
        yield* startElsewhere(locked)
        const { locked: other } = quick()
        const server = yield* startDesk(other, { lockTimeout, consumeK: 3 })
        yield* Effect.forkChild(Desk.client().pipe(Effect.flatMap((client) => client.cast("WorkCast", { item: "a" }))))
        yield* Effect.raceFirst(begun, until(server.priorityCall("Log"), (log) => log.includes("done a")))
        yield* server.castAll([["Note", { item: "1" }], ["Note", { item: "2" }]])
        const log = yield* until(server.priorityCall("Log"), (log) => log.includes("done a") && log.includes("2"))
        assert.isBelow(log.indexOf("1"), log.indexOf("2"))
        assert.strictEqual(log.filter((line) => line === "done a").length, 1)
      })
    )
    live(
      "of a holder that comes back: it writes nothing and puts its message back with one more attempt",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const client = yield* Desk.client()
        const logs = keptLogs()
        const slow = yield* startElsewhere(locked).pipe(Effect.provide(logs.layer))
        const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "20 seconds" }))
        const first = yield* begun
        assert.strictEqual(first.attempt, 1)
        // an hour must pass before anybody but the holder may put the message back
        const { locked: other, runs } = quick()
        const server = yield* startDesk(other, { lockTimeout: "1 hour" })
        const breaker = yield* Effect.scoped(
          Effect.andThen(startElsewhere(other, { lockTimeout }), until(client.locked, (locked) => !locked))
        ).pipe(Effect.as("broken"))
        assert.strictEqual(breaker, "broken")
        yield* go
        assert.strictEqual(yield* Fiber.join(call), "a 2")
        assert.deepStrictEqual(runs.filter((run) => run !== "a 2"), [])
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a", "done a"])
        assert.strictEqual(logs.count("was broken"), 1)
        yield* nothingKept
        yield* slow.stop()
      })
    )
    for (const operation of ["call", "priorityCall"] as const) {
      live(
        `of ${operation === "call" ? "an inline" : "a priority"} message: its caller is told, nothing is put back`,
        Effect.gen(function*() {
          const { begun, go, locked } = yield* held
          const server = yield* startDesk(locked)
          const call = yield* Effect.forkChild(server[operation]("Work", { item: "a" }, { timeout: "20 seconds" }))
          yield* begun
          yield* startElsewhere(quick().locked, { lockTimeout })
          yield* until(server.locked, (locked) => !locked)
          // others go on before the holder comes back
          yield* server.cast("Note", { item: "b" })
          yield* until(server.priorityCall("Log"), (log) => log.includes("b"))
          yield* go
          const error: any = yield* failureOf(call)
          assert.deepStrictEqual([error._tag, error.requeued], ["LockFenced", false])
          assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "b"])
          assert.strictEqual(yield* server.queueLength, 0)
          yield* nothingKept
        })
      )
    }
    live(
      "of a handler that is always too slow: its message ends among the dead letters",
      Effect.gen(function*() {
        const attempts: Array<number> = []
        const client = yield* Desk.client()
        const locked: Locked = (item, state, context) =>
          Effect.gen(function*() {
            attempts.push(context.attempt)
            // as slow as it takes for its lock to be broken
            yield* until(Effect.orDie(client.locked), (locked) => !locked)
            return done(item, state, context)
          })
        const options = { lockTimeout, deadLetterThreshold: 2 }
        const logs = keptLogs()
        const one = yield* startDesk(locked, { ...options, consumeK: 2 }).pipe(Effect.provide(logs.layer))
        yield* startElsewhere(locked, options).pipe(Effect.provide(logs.layer))
        const error: any = yield* Effect.flip(one.call("Work", { item: "a" }, { timeout: "20 seconds" }))
        assert.deepStrictEqual([error._tag, error.attempts], ["DeadLettered", 2])
        assert.deepStrictEqual(attempts, [1, 2])
        const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(Desk.queue()))
        assert.deepStrictEqual(letters.map(({ attempts, payload, tag }) => [tag, payload, attempts]), [
          ["Work", { item: "a" }, 2]
        ])
        assert.deepStrictEqual(yield* one.call("Log"), ["lock a", "lock a"])
        yield* until(Effect.sync(() => logs.count("now a dead letter")), (count) => count === 1)
        yield* nothingKept
      })
    )
    for (
      const [how, end] of [
        ["the scope that closes", (_server: unknown, scope: Scope.Closeable) => Scope.close(scope, Exit.void)],
        ["stop", (server: { readonly stop: () => Effect.Effect<void> }) => server.stop()]
      ] as const
    ) {
      live(
        `by ${how}: the message is handled at the next start, with no attempt counted`,
        Effect.gen(function*() {
          const { begun, locked } = yield* held
          const scope = yield* Scope.make()
          const server = yield* startDesk(locked, { deadLetterThreshold: 1 }).pipe(
            Effect.provideService(Scope.Scope, scope)
          )
          const client = yield* Desk.client()
          const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "20 seconds" }))
          yield* begun
          yield* server.cast("Note", { item: "queued" })
          yield* end(server as any, scope)
          assert.isFalse(yield* client.locked)
          assert.strictEqual(yield* client.queueLength, 2)
          const { locked: other, runs } = quick()
          const again = yield* startDesk(other)
          assert.strictEqual(yield* Fiber.join(call), "a 1")
          assert.deepStrictEqual(runs, ["a 1"])
          assert.deepStrictEqual(yield* again.call("Log"), ["lock a", "queued", "lock a", "done a"])
          yield* nothingKept
          yield* Scope.close(scope, Exit.void)
        })
      )
      live(
        `by ${how}, of an inline call: its caller is told, and nothing that waits is handled any more`,
        Effect.gen(function*() {
          const { begun, locked } = yield* held
          const scope = yield* Scope.make()
          const server = yield* startDesk(locked).pipe(Effect.provideService(Scope.Scope, scope))
          const call = yield* Effect.forkChild(server.call("Work", { item: "a" }))
          yield* begun
          yield* server.cast("Note", { item: "queued" })
          yield* end(server as any, scope)
          assert.strictEqual((yield* failureOf(call))._tag, "ServerStopped")
          const client = yield* Desk.client()
          yield* until(client.locked, (locked) => !locked)
          yield* Scope.close(scope, Exit.void)
          assert.deepStrictEqual(yield* client.state, { log: ["lock a"], count: 0 })
          assert.strictEqual(yield* client.queueLength, 1)
        })
      )
    }
    live(
      "by an operator: the message is queued again, the holder fenced",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const dead = yield* startElsewhere(locked)
        const client = yield* Desk.client()
        const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "20 seconds" }))
        yield* begun
        const { locked: other, runs } = quick()
        const server = yield* startDesk(other)
        assert.isTrue(yield* Tenant.transact(Desk.unlock()))
        assert.strictEqual(yield* Fiber.join(call), "a 2")
        assert.deepStrictEqual(runs, ["a 2"])
        assert.isFalse(yield* Tenant.transact(Desk.unlock()))
        yield* go
        yield* dead.stop()
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a", "done a"])
        yield* nothingKept
      })
    )
    live(
      "by an operator, of an inline call: its caller is told",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const server = yield* startDesk(locked)
        const call = yield* Effect.forkChild(server.call("Work", { item: "a" }))
        yield* begun
        assert.isTrue(yield* Tenant.transact(Desk.unlock()))
        assert.isFalse(yield* server.locked)
        yield* go
        assert.deepInclude(yield* failureOf(call), { _tag: "LockFenced", requeued: false })
        assert.strictEqual(yield* server.queueLength, 0)
        yield* nothingKept
      })
    )
    live(
      "of a server that does not exist: there is nothing to see and nothing to break",
      Effect.gen(function*() {
        assert.isTrue(Option.isNone(yield* Tenant.transact(Desk.lock({ tuid: ["nobody"] }))))
        assert.isFalse(yield* Tenant.transact(Desk.unlock({ tuid: ["nobody"] })))
        assert.deepStrictEqual(yield* scan(["nobody"]), [])
        const error = yield* Effect.flip(Tenant.transact(Desk.lock({ tuid: [] })))
        assert.strictEqual(error._tag, "InvalidTuid")
      })
    )
    live(
      "do not come too soon for a handler that runs again: each run has the whole time, under one token",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const tenant = yield* Tenant.Tenant
        const look = Effect.provideService(Effect.map(lockOf, Option.getOrThrow), Tenant.Tenant, tenant)
        const seen: Array<DgenServer.LockInfo> = []
        const server = yield* startDesk((item, state, context) =>
          Effect.andThen(Effect.map(Effect.orDie(look), (lock) => seen.push(lock)), locked(item, state, context))
        )
        const call = yield* Effect.forkChild(server.call("Work", { item: "a" }))
        yield* begun
        yield* server.priorityCast("Note", { item: "b" })
        // the lock's time is that of its acquisition until the handler has to run again, later
        yield* until(Clock.currentTimeMillis, (now) => now > seen[0]!.since.epochMilliseconds)
        assert.deepStrictEqual(yield* look, seen[0])
        yield* go
        yield* Fiber.join(call)
        assert.strictEqual(seen.length, 2)
        assert.strictEqual(seen[1]!.token, seen[0]!.token)
        assert.isAbove(seen[1]!.since.epochMilliseconds, seen[0]!.since.epochMilliseconds)
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "b", "done a"])
      })
    )
  })
}

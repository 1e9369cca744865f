/**
 * What becomes of a lock whose holder does not come back, or comes back too late: it is broken, its holder fenced, and
 * its message not lost (rules R18, R19).
 */
import { assert, describe } from "@effect/vitest"
import { Clock, Deferred, Effect, Exit, Fiber, Option, Result, Scope } from "effect"
import { type DgenServer, DurableQueue, Tenant, Transaction } from "effect-dgen"
import * as Heads from "../../../src/internal/server/kept/head.ts"
import { Desk, done, held, type Locked, startDesk } from "./desk.ts"
import {
  elsewhere,
  failureOf,
  inside,
  keptLogs,
  keysOf,
  overwrite,
  scan,
  type Store,
  tapped,
  testsOf,
  touches,
  until
} from "./support.ts"

/**
 * Short, so that tests end soon, and longer than a holder's commit takes on a disk that others use, too: while it is synced,
 * time goes on for who waits for its lock.
 */
const lockTimeout = "1 second" as const

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
    // a commit of megabytes takes its time as well
    for (const [item, lockTimeout] of [["small", "1 second"], ["x".repeat(3_000_000), "4 seconds"]] as const) {
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
      "put their message back in the same commit, wherever it came from; the holder is interrupted and writes nothing",
      Effect.gen(function*() {
        const { begun, locked } = yield* held
        const client = yield* Desk.client()
        const logs = keptLogs()
        const interrupted = yield* Deferred.make<void>()
        const slow = yield* startElsewhere((item, state, context) =>
          Effect.onInterrupt(locked(item, state, context), () => Deferred.succeed(interrupted, undefined))
        ).pipe(Effect.provide(logs.layer))
        const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "20 seconds" }))
        assert.strictEqual((yield* begun).attempt, 1)
        const { locked: other, runs } = quick()
        const { head } = yield* keysOf(["Desk"])
        const lengths: Array<number> = []
        const context = yield* Effect.context<Tenant.Tenant>()
        const tenant = yield* tapped({
          after: ({ mutations }) =>
            mutations.some(touches(head))
              ? Effect.map(Effect.provideContext(Effect.orDie(client.queueLength), context), (length) => {
                lengths.push(length)
              })
              : Effect.void
        })
        // long enough for the other process to stop when it is the one that takes it next
        yield* inside(tenant)(startDesk(other, { lockTimeout: "3 seconds" }))
        yield* Deferred.await(interrupted)
        // whoever takes it next: it is the second attempt
        yield* Effect.raceFirst(Fiber.join(call), until(client.locked, (locked) => locked))
        yield* slow.stop()
        assert.strictEqual(yield* Fiber.join(call), "a 2")
        assert.deepStrictEqual(runs, ["a 2"])
        assert.isTrue(lengths.every((length) => length <= 1))
        assert.strictEqual(lengths[0], 1)
        yield* until(Effect.sync(() => logs.count("was broken")), (count) => count >= 1)
        yield* nothingKept
      })
    )
    live(
      "of an inline call: it is handled again, and its caller has the answer",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const ids = new Set<string>()
        const locked: Locked = (item, state, context) =>
          Effect.gen(function*() {
            ids.add(context.id)
            if (context.attempt > 1) return done(item, state, context)
            yield* Deferred.succeed(begun, undefined)
            return yield* Effect.never
          })
        const server = yield* startDesk(locked)
        const call = yield* Effect.forkChild(server.call("Work", { item: "a" }, { timeout: "20 seconds" }))
        yield* Deferred.await(begun)
        assert.strictEqual(yield* server.queueLength, 1)
        yield* startElsewhere(locked, { lockTimeout, consumeK: 3 })
        assert.strictEqual(yield* Fiber.join(call), "a 2")
        assert.strictEqual(ids.size, 1)
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a", "done a"])
        assert.strictEqual(yield* server.queueLength, 0)
        yield* nothingKept
      })
    )
    live(
      "of a priority message: its caller is told, nothing is put back",
      Effect.gen(function*() {
        const { begun, locked } = yield* held
        const server = yield* startDesk(locked)
        const call = yield* Effect.forkChild(server.priorityCall("Work", { item: "a" }, { timeout: "20 seconds" }))
        yield* begun
        yield* startElsewhere(quick().locked, { lockTimeout })
        const error: any = yield* failureOf(call)
        assert.deepStrictEqual([error._tag, error.requeued], ["LockFenced", false])
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a"])
        assert.strictEqual(yield* server.queueLength, 0)
        yield* nothingKept
      })
    )
    live(
      "that an earlier version broke without putting their messages back: they are counted, and put back at once",
      Effect.gen(function*() {
        const { begun, locked } = yield* held
        const scope = yield* Scope.fork(yield* Effect.scope)
        yield* startElsewhere(locked, { grace: 0 }).pipe(Effect.provideService(Scope.Scope, scope))
        const client = yield* Desk.client()
        const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "20 seconds" }))
        yield* begun
        const { head } = yield* keysOf(["Desk"])
        const write = yield* Tenant.transact(Effect.gen(function*() {
          const state = yield* Transaction.Transaction
          const found = Result.getOrThrow(Heads.decode((yield* state.get(head))!))
          const { attempts, millis, token } = found.lock!
          return Heads.encode({ ...found, lock: undefined, fenced: [{ token, millis, attempts: attempts! }] })
        }))
        yield* overwrite([{ op: "set", key: head, value: write }])
        assert.strictEqual(yield* client.queueLength, 1)
        assert.isFalse(yield* client.locked)
        const { locked: other, runs } = quick()
        yield* startElsewhere(other, { lockTimeout: "1 hour" })
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(yield* Fiber.join(call), "a 2")
        assert.deepStrictEqual(runs, ["a 2"])
        yield* nothingKept
      })
    )
    live(
      "of a handler that is always too slow: its message ends among the dead letters",
      Effect.gen(function*() {
        const attempts: Array<number> = []
        const locked: Locked = (_item, _state, context) =>
          Effect.gen(function*() {
            attempts.push(context.attempt)
            // as slow as it takes for its lock to be broken
            return yield* Effect.never
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
          const scope = yield* Scope.fork(yield* Effect.scope)
          const server = yield* startDesk(locked, { deadLetterThreshold: 1, grace: 0 }).pipe(
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
        `by ${how}, of an inline call: its caller is told, and the message is handled at the next start`,
        Effect.gen(function*() {
          const { begun, locked } = yield* held
          const scope = yield* Scope.fork(yield* Effect.scope)
          const server = yield* startDesk(locked, { grace: 0 }).pipe(Effect.provideService(Scope.Scope, scope))
          const call = yield* Effect.forkChild(server.call("Work", { item: "a" }))
          const { id } = yield* begun
          yield* server.cast("Note", { item: "queued" })
          yield* end(server as any, scope)
          assert.strictEqual((yield* failureOf(call))._tag, "ServerStopped")
          const client = yield* Desk.client()
          assert.isFalse(yield* client.locked)
          yield* Scope.close(scope, Exit.void)
          assert.deepStrictEqual(yield* client.state, { log: ["lock a"], count: 0 })
          assert.strictEqual(yield* client.queueLength, 2)
          const ids: Array<string> = []
          const again = yield* startDesk((item, state, context) =>
            Effect.sync(() => {
              ids.push(`${context.id} ${context.attempt}`)
              return done(item, state, context)
            })
          )
          yield* until(again.queueLength, (length) => length === 0)
          assert.deepStrictEqual(ids, [`${id} 1`])
          assert.deepStrictEqual(yield* again.call("Log"), ["lock a", "queued", "lock a", "done a"])
          yield* nothingKept
        })
      )
    }
    for (const inline of [true, false]) {
      live(
        `by an operator: the message is queued again, the holder interrupted (${inline ? "inline" : "queued"} call)`,
        Effect.gen(function*() {
          const runs: Array<string> = []
          const begun = yield* Deferred.make<void>()
          const server = yield* startDesk((item, state, context) =>
            Effect.gen(function*() {
              runs.push(`${item} ${context.attempt}`)
              if (context.attempt > 1) return done(item, state, context)
              yield* Deferred.succeed(begun, undefined)
              return yield* Effect.never
            })
          )
          const client = yield* Desk.client()
          const call = yield* Effect.forkChild((inline ? server : client).call("Work", { item: "a" }))
          yield* Deferred.await(begun)
          assert.isTrue(yield* Tenant.transact(Desk.unlock()))
          assert.strictEqual(yield* Fiber.join(call), "a 2")
          assert.deepStrictEqual(runs, ["a 1", "a 2"])
          assert.isFalse(yield* Tenant.transact(Desk.unlock()))
          assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a", "done a"])
          yield* nothingKept
        })
      )
    }
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

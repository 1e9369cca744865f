/** What a held lock keeps out, and what it does not end for (rules R11, R20, R21). */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import { Desk, done, held, type Locked, logged, startDesk } from "./desk.ts"
import { elsewhere, failureOf, inside, type Store, testsOf, until, waitingCalls } from "./support.ts"

export const lockBoundsSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "lock bounds")

  describe(`${name}: bounds of locks`, () => {
    live(
      "a message past the queue that asks for a held lock is refused and writes nothing",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const server = yield* startDesk(locked)
        const call = yield* Effect.forkChild(server.call("Work", { item: "a" }))
        yield* begun
        const other = yield* Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(locked)))
        for (const handle of [server, other]) {
          for (
            const run of [
              handle.priorityCall("Work", { item: "b" }),
              handle.priorityCast("WorkCast", { item: "b" }),
              handle.info("WorkInfo", { item: "b" })
            ]
          ) {
            const error = yield* Effect.flip(run as Effect.Effect<unknown, DgenServer.CallError>)
            assert.strictEqual(error._tag, "Locked")
          }
        }
        assert.isUndefined(yield* Tenant.transact(Transaction.get(["locked by", "b"])))
        const lock = Option.getOrThrow(yield* Tenant.transact(Desk.lock()))
        assert.strictEqual(lock.tag, "Work")
        yield* go
        assert.strictEqual(yield* Fiber.join(call), "a 1")
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "done a"])
      })
    )
    live(
      "a call that would have run inline waits in the queue for a held lock",
      Effect.gen(function*() {
        const { begun, go, locked, runs } = yield* held
        const server = yield* startDesk(locked)
        const first = yield* Effect.forkChild(server.call("Work", { item: "a" }))
        yield* begun
        const second = yield* Effect.forkChild(server.call("Work", { item: "b" }))
        yield* until(server.queueLength, (length) => length === 1)
        yield* go
        assert.strictEqual(yield* Fiber.join(first), "a 1")
        assert.strictEqual(yield* Fiber.join(second), "b 1")
        assert.deepStrictEqual(runs, ["a 1", "b 1"])
      })
    )
    live(
      "a lock ends its batch: what follows waits, what came before is committed",
      Effect.gen(function*() {
        const seen: Array<ReadonlyArray<string>> = []
        const server = yield* startDesk((item, state, context) =>
          Effect.sync(() => {
            seen.push(state.log)
            return done(item, state, context)
          }), { consumeK: 10 })
        yield* server.castAll([
          ["Note", { item: "before" }],
          ["WorkCast", { item: "a" }],
          ["Note", { item: "between" }],
          ["WorkCast", { item: "b" }],
          ["Note", { item: "after" }]
        ])
        const log = yield* until(server.priorityCall("Log"), (log) => log.includes("after"))
        assert.deepStrictEqual(log, ["before", "lock a", "done a", "between", "lock b", "done b", "after"])
        assert.deepStrictEqual(seen, [["before", "lock a"], ["before", "lock a", "done a", "between", "lock b"]])
      })
    )
    live(
      "casts and infos that lock past the queue: done when their locked handler is, and told of its crash",
      Effect.gen(function*() {
        const kinds: Array<string> = []
        const server = yield* startDesk((item, state, context) =>
          Effect.sync(() => {
            kinds.push(context.kind)
            assert.isUndefined(context.from)
            if (item === "dies") throw new Error("no paper")
            return done(item, state, context)
          })
        )
        yield* server.priorityCast("WorkCast", { item: "a" })
        yield* server.info("WorkInfo", { item: "b" })
        assert.deepStrictEqual(kinds, ["cast", "info"])
        assert.deepStrictEqual(yield* server.priorityCall("Log"), ["lock a", "done a", "lock b", "done b"])
        const cast = yield* Effect.flip(server.priorityCast("WorkCast", { item: "dies" }))
        assert.strictEqual(cast._tag, "HandlerCrashed")
        const info = yield* Effect.flip(server.info("WorkInfo", { item: "dies" }))
        assert.strictEqual(info._tag, "HandlerCrashed")
      })
    )
    live(
      "one lock at a time, and no queued message beside it, whoever consumes",
      Effect.gen(function*() {
        let inside_ = 0
        let most = 0
        const lengths: Array<readonly [number, number]> = []
        const locked: Locked = (item, state, context) =>
          Effect.gen(function*() {
            most = Math.max(most, ++inside_)
            const before = (yield* Effect.orDie(look)).length
            yield* Effect.yieldNow
            const after = (yield* Effect.orDie(look)).length
            lengths.push([before, after])
            inside_--
            return done(item, state, context)
          })
        const client = yield* Desk.client()
        const look = Effect.map(client.state, (state) => state!.log)
        const handles = [yield* startDesk(locked), yield* startDesk(locked, { consumeK: 5 })]
        for (const options of [{}, { consumeK: 3 }]) {
          handles.push(yield* Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(locked, options))))
        }
        yield* Effect.forEach(
          Array.from({ length: 24 }, (_, i) => i),
          (i) => {
            const handle = handles[i % handles.length]!
            return i % 3 === 0
              ? handle.call("Work", { item: `work ${i}` }, { timeout: "20 seconds" })
              : handle.cast("Note", { item: `note ${i}` })
          },
          { concurrency: "unbounded", discard: true }
        )
        const log = yield* until(look, (log) => log.length === 32)
        assert.strictEqual(most, 1)
        assert.deepStrictEqual(lengths.filter(([before, after]) => before !== after), [])
        assert.strictEqual(new Set(log).size, 32)
        for (const [i, line] of log.entries()) {
          if (line.startsWith("lock")) assert.strictEqual(log[i + 1], line.replace("lock", "done"))
        }
      })
    )
    for (const operation of ["call", "priorityCall"] as const) {
      live(
        `a ${operation} that is given up before its locked handler says that the answer comes later leaves nothing`,
        Effect.gen(function*() {
          const { begun, go, locked } = yield* held
          const server = yield* startDesk((item, state, context) =>
            Effect.as(locked(item, state, context), DgenServer.noReply(logged(state, "later")))
          )
          const call = yield* Effect.forkChild(server[operation]("Work", { item: "a" }))
          yield* begun
          yield* Fiber.interrupt(call)
          yield* go
          yield* until(server.locked, (locked) => !locked)
          yield* until(waitingCalls(["Desk"]), (rows) => rows.length === 0)
          assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "later"])
        })
      )
    }
    live(
      "a caller that goes does not end the locked handler of its inline call",
      Effect.gen(function*() {
        const { begun, go, locked } = yield* held
        const server = yield* startDesk(locked)
        const timeout = yield* Effect.forkChild(server.call("Work", { item: "a" }, { timeout: "20 millis" }))
        yield* begun
        assert.strictEqual((yield* failureOf(timeout))._tag, "CallTimeout")
        assert.isTrue(yield* server.locked)
        yield* go
        assert.deepStrictEqual(yield* until(server.priorityCall("Log"), (log) => log.length === 2), [
          "lock a",
          "done a"
        ])
        yield* until(server.locked, (locked) => !locked)
      })
    )
  })
}

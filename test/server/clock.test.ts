/** What servers do when time passes, under a clock that the tests set: in memory alone, because files need real time. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Logger, type Scope } from "effect"
import { type Backend, DgenServer, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { TestClock } from "effect/testing"
import * as Heads from "../../src/internal/server/kept/head.ts"
import { Desk, done, held, type Locked, startDesk } from "../suites/server/desk.ts"
import { grains, Mill, mill, type Run, startMill } from "../suites/server/mill.ts"
import {
  elsewhere,
  failureOf,
  inside,
  keysOf,
  overwrite,
  rowsUnder,
  tapped,
  waitingCalls
} from "../suites/server/support.ts"

const timed = (title: string, test: Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>) =>
  it.effect(title, () =>
    test.pipe(
      Effect.provide(Tenant.layer(["clock"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
      Effect.provide(Logger.layer([]))
    ))

/** Lets all fibers go on until they wait for the clock. */
const settle = Effect.repeat(Effect.yieldNow, { times: 200 })

const pass = (duration: Parameters<typeof TestClock.adjust>[0]) =>
  Effect.andThen(Effect.andThen(settle, TestClock.adjust(duration)), settle)

describe("time and locks", () => {
  const startElsewhere = (...args: Parameters<typeof startDesk>) =>
    Effect.flatMap(elsewhere, (context) => inside(context)(startDesk(...args)))

  timed(
    "a lock is held for ever by default",
    Effect.gen(function*() {
      const { begun, go, locked } = yield* held
      yield* startElsewhere(locked)
      const server = yield* startDesk(locked)
      const call = yield* Effect.forkChild(server.call("Work", { item: "a" }, { timeout: "1 hour" }))
      yield* begun
      yield* pass("50 minutes")
      assert.isTrue(yield* server.locked)
      yield* go
      assert.strictEqual(yield* Fiber.join(call), "a 1")
    })
  )
  /** Hangs in the first attempt, and says when that has begun. */
  const hangsOnce = Effect.map(Deferred.make<void>(), (begun) => {
    const runs: Array<string> = []
    const locked: Locked = (item, state, context) => {
      runs.push(`${item} ${context.attempt}`)
      return context.attempt === 1
        ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
        : Effect.succeed(done(item, state, context))
    }
    return { begun: Deferred.await(begun), locked, runs }
  })

  timed(
    "a lock is broken when its time is over, and not before; its message is handled again at once",
    Effect.gen(function*() {
      const { begun, locked, runs } = yield* hangsOnce
      yield* startElsewhere(locked)
      const client = yield* Desk.client()
      const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "1 hour" }))
      yield* begun
      yield* startDesk(locked, { lockTimeout: "10 minutes" })
      yield* pass("599 seconds")
      assert.isTrue(yield* client.locked)
      assert.strictEqual(yield* client.queueLength, 1)
      assert.deepStrictEqual(runs, ["a 1"])
      yield* pass("1 seconds")
      assert.strictEqual(yield* Fiber.join(call), "a 2")
      assert.isFalse(yield* client.locked)
      assert.deepStrictEqual(runs, ["a 1", "a 2"])
      assert.strictEqual(yield* client.queueLength, 0)
    })
  )
  timed(
    "a consumer that comes later breaks a lock whose time is over at once",
    Effect.gen(function*() {
      const { begun, locked } = yield* hangsOnce
      yield* startElsewhere(locked)
      const client = yield* Desk.client()
      const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "2 hours" }))
      yield* begun
      yield* pass("1 hour")
      assert.isTrue(yield* client.locked)
      yield* startDesk(locked, { lockTimeout: "1 hour" })
      assert.strictEqual(yield* Fiber.join(call), "a 2")
    })
  )
  timed(
    "a lock of a holder whose clock is ahead is broken by what the consumer has seen itself",
    Effect.gen(function*() {
      const { begun, locked } = yield* hangsOnce
      yield* startElsewhere(locked)
      const client = yield* Desk.client()
      const call = yield* Effect.forkChild(client.call("Work", { item: "a" }, { timeout: "24 hours" }))
      yield* begun
      const { head } = yield* keysOf(["Desk"])
      const [row] = yield* rowsUnder(head)
      const stored: any = Heads.decode(row!.value)
      const lock = { ...stored.success.lock, millis: 365 * 24 * 60 * 60 * 1_000 }
      yield* overwrite([{ op: "set", key: head, value: Heads.encode({ ...stored.success, lock }) }])
      yield* startDesk(locked, { lockTimeout: "10 minutes" })
      yield* pass("599 seconds")
      assert.isTrue(yield* client.locked)
      yield* pass("1 seconds")
      assert.strictEqual(yield* Fiber.join(call), "a 2")
    })
  )
  timed(
    "a scope closes although time stands still",
    Effect.gen(function*() {
      const { begun, locked } = yield* hangsOnce
      const client = yield* Desk.client()
      yield* Effect.scoped(Effect.gen(function*() {
        yield* startDesk(locked, { grace: "20 millis" })
        yield* client.cast("WorkCast", { item: "a" })
        yield* begun
      }))
      assert.isFalse(yield* client.locked)
      assert.strictEqual(yield* client.queueLength, 1)
    })
  )
})

describe("time and calls", () => {
  timed(
    "a call waits five seconds by default",
    Effect.gen(function*() {
      const server = yield* startMill({ consume: false })
      const call = yield* Effect.forkChild(server.call("Log"))
      yield* pass("4999 millis")
      assert.isUndefined(call.pollUnsafe())
      yield* pass("1 millis")
      const error: any = yield* failureOf(call)
      assert.deepStrictEqual([error._tag, error.timeoutMillis], ["CallTimeout", 5_000])
    })
  )
  timed(
    "keys of callers that died are swept when no call can wait so long, and none that can",
    Effect.gen(function*() {
      const keys = yield* keysOf(["Mill"])
      const leave = (millis: number, id: number) =>
        overwrite([{ op: "set", key: keys.waitingKey(millis, new Uint8Array(20), id), value: Uint8Array.of(1) }])
      const hour = 60 * 60 * 1_000
      yield* TestClock.adjust("1000 hours")
      const server = yield* startMill()
      const now = 1_000 * hour
      const limit = DgenServer.CALL_TIMEOUT_LIMIT_MILLIS
      for (let i = 0; i < 600; i++) yield* leave(now - limit - 2 * hour - i, i)
      yield* leave(now - limit, 1_000)
      yield* leave(now - 1, 1_001)
      // a consumer looks when it has nothing to do; each look is one small pass
      for (let i = 0; i < 4; i++) {
        yield* pass("11 minutes")
        yield* server.castAll(grains(`${i}`))
        yield* settle
      }
      const left = (yield* waitingCalls(["Mill"])).map((row) => Tuple.unpack(row.key, keys.waiting.length)[2])
      assert.deepStrictEqual(left, [1_000, 1_001])
    })
  )
})

describe("time and crashes", () => {
  timed(
    "a consumer comes back quickly at first, and every thirty seconds in the end",
    Effect.gen(function*() {
      const runs: Array<Run> = []
      const server = yield* Mill.start(mill(runs), { tuid: ["Mill"] })
      yield* server.castAll(grains(["a", "crash"]))
      yield* settle
      assert.strictEqual(runs.length, 1)
      yield* pass("49 millis")
      assert.strictEqual(runs.length, 1)
      yield* pass("1 millis")
      assert.strictEqual(runs.length, 2)
      for (let i = 0; i < 60; i++) yield* pass("1 seconds")
      const early = runs.length
      assert.isAtLeast(early, 9)
      assert.isAtMost(early, 13)
      for (let i = 0; i < 20; i++) yield* pass("30 seconds")
      assert.isAtLeast(runs.length - early, 19)
      assert.isAtMost(runs.length - early, 21)
    })
  )
})

describe("time and waiting", () => {
  timed(
    "servers that are idle do not look again all at once",
    Effect.gen(function*() {
      let looks = 0
      const many = yield* tapped({ watched: () => Effect.sync(() => void looks++) })
      const count = 200
      for (let i = 0; i < count; i++) yield* inside(many)(Mill.start(mill(), { tuid: ["idle", i] }))
      yield* settle
      looks = 0
      const each: Array<number> = []
      for (let minute = 0; minute < 30; minute++) {
        yield* pass("1 minute")
        each.push(looks)
        looks = 0
      }
      const all = each.reduce((sum, some) => sum + some, 0)
      assert.isAtLeast(all, count)
      assert.isAtMost(Math.max(...each), count / 5)
    })
  )
})

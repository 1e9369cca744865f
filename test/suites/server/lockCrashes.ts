/** What becomes of a message whose locked handler dies: it is tried again like one whose handler died, or it is lost and the log says so. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { Desk, done, type Locked, startDesk } from "./desk.ts"
import { keptLogs, scan, type Store, testsOf, until } from "./support.ts"

/** A locked handler that dies in as many attempts as it is told. */
const dying = (times: number, die: Effect.Effect<never> = Effect.die(new Error("connection reset"))) => {
  const attempts: Array<number> = []
  const ids = new Set<string>()
  const locked: Locked = (item, state, context) =>
    Effect.suspend(() => {
      attempts.push(context.attempt)
      ids.add(context.id)
      return attempts.length <= times ? die : Effect.succeed(done(item, state, context))
    })
  return { attempts, ids, locked }
}

const letters = Tenant.transact(DurableQueue.peekDeadLetters(Desk.queue()))

/** The message is nowhere but where it is looked for. */
const nothingKept = Effect.gen(function*() {
  assert.isFalse((yield* scan(["Desk"])).some(([kind]) => kind === "lock" || kind === "item"))
})

const deaths: { readonly [how: string]: Effect.Effect<never> } = {
  "dies": Effect.die(new Error("connection reset")),
  "throws": Effect.sync(() => {
    throw new Error("connection reset")
  }),
  "interrupts itself": Effect.interrupt
}

export const lockCrashesSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "lock crashes")

  describe(`${name}: locked handlers that die`, () => {
    for (const [how, death] of Object.entries(deaths)) {
      live(
        `a cast whose locked handler ${how} once is tried again, its attempt counted`,
        Effect.gen(function*() {
          const { attempts, ids, locked } = dying(1, death)
          const server = yield* startDesk(locked, { deadLetterThreshold: 3 })
          yield* server.cast("WorkCast", { item: "a" })
          yield* until(server.queueLength, (length) => length === 0)
          assert.deepStrictEqual(attempts, [1, 2])
          assert.strictEqual(ids.size, 1)
          assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a", "done a"])
          assert.isFalse(yield* server.locked)
          yield* nothingKept
        })
      )
    }
    for (const consumeK of [1, 3]) {
      live(
        `a call (consumeK ${consumeK}) has its answer from the attempt that lives`,
        Effect.gen(function*() {
          const { attempts, locked } = dying(2)
          const server = yield* startDesk(locked, { deadLetterThreshold: 3, consumeK })
          assert.strictEqual(yield* server.call("Work", { item: "a" }), "a 3")
          assert.deepStrictEqual(attempts, [1, 2, 3])
        })
      )
      live(
        `a call (consumeK ${consumeK}) is told when its message becomes a dead letter`,
        Effect.gen(function*() {
          const { attempts, locked } = dying(Infinity)
          const told: Array<string> = []
          const server = yield* startDesk(locked, { deadLetterThreshold: 2, consumeK }).pipe(
            Effect.provide(
              Desk.deadLetterLayer(({ attempts, cause, tag }) =>
                Effect.sync(() => void told.push(`${tag} ${attempts} ${cause.includes("connection reset")}`))
              )
            )
          )
          const error: any = yield* Effect.flip(server.call("Work", { item: "a" }))
          assert.deepStrictEqual([error._tag, error.attempts], ["DeadLettered", 2])
          assert.include(error.cause, "connection reset")
          assert.deepStrictEqual(attempts, [1, 2])
          const [letter] = yield* letters
          assert.deepStrictEqual([letter!.tag, letter!.payload, letter!.attempts], ["Work", { item: "a" }, 2])
          yield* until(Effect.sync(() => told), (lines) => lines.length > 0)
          assert.deepStrictEqual(told, ["Work 2 true"])
          assert.strictEqual(yield* server.queueLength, 0)
          assert.isFalse(yield* server.locked)
          yield* nothingKept
        })
      )
    }
    live(
      "what dies because its outcome cannot be written counts too",
      Effect.gen(function*() {
        const server = yield* startDesk(
          () => Effect.succeed(DgenServer.noReply({ log: [7], count: 0 } as any)),
          { deadLetterThreshold: 2 }
        )
        assert.strictEqual((yield* Effect.flip(server.call("Work", { item: "a" })))._tag, "DeadLettered")
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a"])
      })
    )
    live(
      "a message behind it is handled before it, and the restart schedule is kept",
      Effect.gen(function*() {
        const { locked } = dying(1)
        let pauses = 0
        const restart = Schedule.tap(Schedule.forever, () => Effect.sync(() => void pauses++))
        const sender = yield* startDesk(locked, { consume: false })
        yield* sender.castAll([["WorkCast", { item: "a" }], ["Note", { item: "b" }]])
        const server = yield* startDesk(locked, { deadLetterThreshold: 3, restart })
        yield* until(server.queueLength, (length) => length === 0)
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "b", "lock a", "done a"])
        assert.strictEqual(pauses, 1)
      })
    )
    live(
      "is never nowhere: it is in the queue, under the lock, or a dead letter, after each commit",
      Effect.gen(function*() {
        const { locked } = dying(Infinity)
        const counts: Array<number> = []
        const look = Effect.gen(function*() {
          const queue = Desk.queue()
          return (yield* DurableQueue.length(queue)) + (yield* DurableQueue.deadLetterCount(queue))
        })
        const sender = yield* startDesk(locked, { consume: false })
        yield* sender.cast("WorkCast", { item: "a" })
        const looking = yield* Effect.forkChild(Effect.forever(
          Effect.flatMap(Tenant.transact(look), (count) => {
            counts.push(count)
            return Effect.yieldNow
          })
        ))
        yield* startDesk(locked, { deadLetterThreshold: 4 })
        yield* until(letters, (found) => found.length === 1)
        yield* Fiber.interrupt(looking)
        assert.isAbove(counts.length, 0)
        assert.deepStrictEqual([...new Set(counts)], [1])
      })
    )
    live(
      "without a threshold it is not tried again, and the log says that the message is lost",
      Effect.gen(function*() {
        const { attempts, locked } = dying(1)
        const logs = keptLogs()
        const server = yield* startDesk(locked).pipe(Effect.provide(logs.layer))
        yield* server.cast("WorkCast", { item: "a" })
        yield* until(server.queueLength, (length) => length === 0)
        assert.strictEqual(yield* server.call("Work", { item: "b" }), "b 1")
        assert.deepStrictEqual(attempts, [1, 1])
        assert.strictEqual(logs.count("its message is lost"), 1)
      })
    )
    for (const operation of ["priorityCall", "priorityCast", "info"] as const) {
      live(
        `of a message past the queue (${operation}) lose it; its sender is told`,
        Effect.gen(function*() {
          const { attempts, locked } = dying(Infinity)
          const server = yield* startDesk(locked, { deadLetterThreshold: 3 })
          const tag = { priorityCall: "Work", priorityCast: "WorkCast", info: "WorkInfo" }[operation]
          const send = server[operation] as (
            tag: string,
            payload: unknown
          ) => Effect.Effect<unknown, DgenServer.CallError>
          assert.strictEqual((yield* Effect.flip(send(tag, { item: "a" })))._tag, "HandlerCrashed")
          assert.deepStrictEqual(attempts, [1])
          assert.strictEqual(yield* server.queueLength, 0)
        })
      )
    }
    live(
      "after an operator has broken the lock, of a holder that dies later: the message is queued once",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const attempts: Array<number> = []
        const locked: Locked = (item, state, context) =>
          Effect.gen(function*() {
            attempts.push(context.attempt)
            if (context.attempt > 1) return done(item, state, context)
            yield* Deferred.succeed(begun, undefined)
            return yield* Effect.onInterrupt(Effect.never, () => Effect.die(new Error("too late")))
          })
        const server = yield* startDesk(locked, { deadLetterThreshold: 3 })
        yield* server.cast("WorkCast", { item: "a" })
        yield* Deferred.await(begun)
        yield* Tenant.transact(Desk.unlock())
        yield* until(server.queueLength, (length) => length === 0)
        assert.deepStrictEqual(attempts, [1, 2])
        assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock a", "done a"])
      })
    )
    live(
      "a server whose messages lock and whose locks are never broken says so when it starts",
      Effect.gen(function*() {
        const logs = keptLogs()
        const start = (options: DgenServer.Options) =>
          Effect.scoped(Effect.asVoid(startDesk(() => Effect.never, options))).pipe(Effect.provide(logs.layer))
        yield* start({ lockTimeout: "1 minute" })
        assert.strictEqual(logs.count("lockTimeout"), 0)
        yield* start({})
        assert.strictEqual(logs.count("lockTimeout"), 1)
        yield* start({ lockTimeout: "Infinity" })
        assert.strictEqual(logs.count("lockTimeout"), 2)
      })
    )
  })
}

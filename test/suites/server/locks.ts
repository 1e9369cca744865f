/** What a lock does while it is held, and how it ends when all goes well (rules R18, R20, R21). */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Fiber, Option } from "effect"
import { DgenServer, DurableQueue, Tenant, Transaction } from "effect-dgen"
import { Desk, done, held, logged, Refused, startDesk } from "./desk.ts"
import { scan, type Store, testsOf, until, waitingCalls } from "./support.ts"

/** The ways in which a call gets the lock. */
const ways = {
  queued: { options: { consumeK: 7 }, operation: "call" },
  inline: { options: {}, operation: "call" },
  priority: { options: {}, operation: "priorityCall" }
} as const

export const locksSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "locks")

  describe(`${name}: locks`, () => {
    for (const [way, { operation, options }] of Object.entries(ways)) {
      describe(`of a ${way} call`, () => {
        live(
          "hold back queued messages and no others, until state, answer and unlock commit together",
          Effect.gen(function*() {
            const { begun, go, locked } = yield* held
            const server = yield* startDesk(locked, options)
            const call = yield* Effect.forkChild(server[operation]("Work", { item: "a" }))
            yield* begun
            assert.isTrue(yield* server.locked)
            yield* server.cast("Note", { item: "queued" })
            const waiting = yield* Effect.forkChild(server.call("Count", { by: 2 }))
            // what is under the lock counts, unless it came past the queue
            const length = way === "priority" ? 2 : 3
            yield* until(server.queueLength, (now) => now === length)
            assert.strictEqual(yield* Tenant.transact(DurableQueue.length(Desk.queue())), length)
            yield* server.priorityCast("Note", { item: "priority" })
            yield* server.info("NoteInfo", { item: "info" })
            assert.strictEqual(yield* server.priorityCall("Count", { by: 1 }), 1)
            assert.deepStrictEqual(yield* server.priorityCall("Log"), ["lock a", "priority", "info"])
            assert.strictEqual(yield* server.queueLength, length)
            yield* go
            // the locked handler changed an entry that others changed too: it runs again, on what they left
            assert.strictEqual(yield* Fiber.join(call), "a 1")
            assert.strictEqual(yield* Fiber.join(waiting), 3)
            assert.isFalse(yield* server.locked)
            assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "priority", "info", "done a", "queued"])
          })
        )
        live(
          "an operator sees them",
          Effect.gen(function*() {
            const { begun, go, locked } = yield* held
            const server = yield* startDesk(locked, options)
            assert.isTrue(Option.isNone(yield* Tenant.transact(Desk.lock())))
            const before = Date.now()
            const call = yield* Effect.forkChild(server[operation]("Work", { item: "a" }))
            yield* begun
            const lock = Option.getOrThrow(yield* Tenant.transact(Desk.lock()))
            assert.strictEqual(lock.tag, "Work")
            assert.strictEqual(lock.kind, "call")
            assert.strictEqual(lock.attempts, way === "priority" ? undefined : 0)
            assert.isAtLeast(lock.since.epochMilliseconds, before)
            assert.isAtMost(lock.since.epochMilliseconds, Date.now())
            assert.match(lock.token, /^[0-9a-f]+$/)
            yield* go
            yield* Fiber.join(call)
            assert.isTrue(Option.isNone(yield* Tenant.transact(Desk.lock())))
          })
        )
        live(
          "end with a declared error: the call has it, the state stays what the lock's commit left",
          Effect.gen(function*() {
            const server = yield* startDesk((item) => Effect.fail(new Refused({ item })), options)
            const error = yield* Effect.flip(server[operation]("Work", { item: "a" }))
            assert.deepStrictEqual([error._tag, (error as Refused).item], ["Refused", "a"])
            assert.isFalse(yield* server.locked)
            assert.deepStrictEqual(yield* server.call("Log"), ["lock a"])
          })
        )
        live(
          "end with an exception: it is not run again, and its caller is told",
          Effect.gen(function*() {
            let runs = 0
            const server = yield* startDesk(() => {
              runs++
              throw new Error("no paper")
            }, options)
            const error = yield* Effect.flip(server[operation]("Work", { item: "a" }))
            assert.strictEqual(error._tag, "HandlerCrashed")
            assert.include(error.message, "no paper")
            assert.isFalse(yield* server.locked)
            assert.deepStrictEqual(yield* server.call("Log"), ["lock a"])
            assert.strictEqual(runs, 1)
            assert.isFalse((yield* scan(["Desk"])).some(([kind]) => kind === "lock"))
          })
        )
        live(
          "end with an interruption of the handler's own making as with an exception",
          Effect.gen(function*() {
            let runs = 0
            const server = yield* startDesk(() => {
              runs++
              return Effect.interrupt
            }, options)
            const error = yield* Effect.flip(server[operation]("Work", { item: "a" }))
            assert.strictEqual(error._tag, "HandlerCrashed")
            assert.deepStrictEqual(yield* server.call("Log"), ["lock a"])
            assert.strictEqual(runs, 1)
          })
        )
        live(
          "end with an update of the state as it is then",
          Effect.gen(function*() {
            const { begun, go, locked } = yield* held
            const server = yield* startDesk((item, state, context) =>
              Effect.as(
                locked(item, state, context),
                DgenServer.update((fresh) => done(item, logged(fresh, "of", String(fresh.log.length)), context) as any)
              ), options)
            const call = yield* Effect.forkChild(server[operation]("Work", { item: "a" }))
            yield* begun
            yield* server.priorityCast("Note", { item: "meanwhile" })
            yield* go
            assert.strictEqual(yield* Fiber.join(call), "a 1")
            assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "meanwhile", "of 2", "done a"])
          })
        )
        live(
          "end with an update that fails with the declared error, or dies",
          Effect.gen(function*() {
            const server = yield* startDesk((item) =>
              Effect.succeed(DgenServer.update(() => {
                if (item === "dies") throw new Error("no update")
                return Effect.fail(new Refused({ item }))
              })), options)
            assert.strictEqual((yield* Effect.flip(server[operation]("Work", { item: "a" })))._tag, "Refused")
            const crashed = yield* Effect.flip(server[operation]("Work", { item: "dies" }))
            assert.strictEqual(crashed._tag, "HandlerCrashed")
            assert.include(crashed.message, "no update")
            assert.isFalse(yield* server.locked)
            assert.deepStrictEqual(yield* server.call("Log"), ["lock a", "lock dies"])
          })
        )
        live(
          "end with what cannot be written: the call is told, the lock is free",
          Effect.gen(function*() {
            const outcomes: Record<string, () => any> = {
              state: () => DgenServer.noReply({ log: [7], count: 0 }),
              value: () => DgenServer.update(() => Effect.as(Transaction.set(["k"], new Uint8Array(200_000)), 1)),
              nothing: () => undefined
            }
            const server = yield* startDesk((item) => Effect.sync(() => outcomes[item]!()), options)
            for (const item of Object.keys(outcomes)) {
              assert.strictEqual((yield* Effect.flip(server[operation]("Work", { item })))._tag, "HandlerCrashed", item)
              assert.isFalse(yield* server.locked)
            }
            assert.deepStrictEqual(yield* server.call("Log"), ["lock state", "lock value", "lock nothing"])
          })
        )
        live(
          "can be answered before they end: by their handler, or by the locked one",
          Effect.gen(function*() {
            const tenant = yield* Tenant.Tenant
            const server = yield* startDesk((item, state, { from }) =>
              Effect.as(
                Effect.orDie(Effect.provideService(
                  Tenant.transact(Desk.replyTo(from!, Exit.succeed(`early ${item}`))),
                  Tenant.Tenant,
                  tenant
                )),
                item === "twice" ? DgenServer.reply("late", logged(state, "twice")) : DgenServer.noReply(state)
              ), options)
            const answers = { a: "early a", twice: "early twice", answered: "at once" }
            for (const [item, answer] of Object.entries(answers)) {
              assert.strictEqual(yield* server[operation]("Work", { item }), answer)
              yield* until(server.locked, (locked) => !locked)
            }
            assert.deepStrictEqual(yield* waitingCalls(["Desk"]), [])
          })
        )
        live(
          "stop the handle when their handler does",
          Effect.gen(function*() {
            const server = yield* startDesk(
              (item, state) => Effect.succeed(DgenServer.stop("the end", logged(state, item))),
              options
            )
            const error = yield* Effect.flip(server[operation]("Work", { item: "a" }))
            assert.strictEqual(error._tag, "ServerStopped")
            assert.include(error.message, "the end")
            assert.strictEqual((yield* Effect.flip(server.call("Log")))._tag, "ServerStopped")
            const again = yield* startDesk(() => Effect.never)
            assert.deepStrictEqual(yield* again.call("Log"), ["lock a", "a"])
          })
        )
        live(
          "leave entries alone that others changed and their handler did not",
          Effect.gen(function*() {
            const { begun, go, locked, runs } = yield* held
            const server = yield* startDesk(locked, options)
            const call = yield* Effect.forkChild(server[operation]("Work", { item: "a" }))
            yield* begun
            yield* server.priorityCall("Count", { by: 5 })
            yield* go
            yield* Fiber.join(call)
            assert.deepStrictEqual(runs, ["a 1"])
            assert.deepStrictEqual(yield* server.state, { log: ["lock a", "done a"], count: 5 })
          })
        )
        live(
          "run their handler again, five times at the most, while others change what it changes",
          Effect.gen(function*() {
            let runs = 0
            const times: Array<number> = []
            const tenant = yield* Tenant.Tenant
            const since = Tenant.transact(Desk.lock()).pipe(
              Effect.map((lock) => Option.getOrThrow(lock).since.epochMilliseconds),
              Effect.provideService(Tenant.Tenant, tenant)
            )
            const other = yield* startDesk(() => Effect.never, { consume: false })
            const server = yield* startDesk(
              (item, state, context) =>
                Effect.gen(function*() {
                  runs++
                  if (context.attempt > 1) return done(item, state, context)
                  times.push(yield* since)
                  yield* other.priorityCast("Note", { item: `${runs}` })
                  return done(item, state, context)
                }).pipe(Effect.catch((error) => error instanceof Refused ? Effect.fail(error) : Effect.die(error))),
              options
            )
            const call = yield* Effect.exit(server[operation]("Work", { item: "a" }))
            assert.deepStrictEqual(times, [...times].sort((a, b) => a - b))
            if (way !== "priority") {
              assert.deepStrictEqual(call, Exit.succeed("a 2"))
              assert.strictEqual(runs, 7)
            } else {
              const error: any = Exit.isFailure(call) ? call.cause.reasons[0] : undefined
              assert.deepStrictEqual([error.error._tag, error.error.requeued], ["LockFenced", false])
              assert.strictEqual(runs, 6)
            }
            const notes = ["1", "2", "3", "4", "5", "6"]
            const log: ReadonlyArray<string> = yield* server.call("Log")
            assert.deepStrictEqual(log.filter((line) => /^\d$/.test(line)), notes)
            assert.strictEqual(log.filter((line) => line === "done a").length, way === "priority" ? 0 : 1)
            assert.isFalse(yield* server.locked)
          })
        )
      })
    }
  })
}

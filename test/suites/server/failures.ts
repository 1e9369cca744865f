/** What becomes of messages whose handlers crash (rules R3, R12, R13). */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { grains, Mill, type Run, startMill } from "./mill.ts"
import {
  elsewhere,
  failureOf,
  fast,
  inside,
  keptLogs,
  keysOf,
  type Store,
  tapped,
  testsOf,
  touches,
  until
} from "./support.ts"

const deadLetters = Tenant.transact(DurableQueue.peekDeadLetters(Mill.queue()))

/** The log of the state in the store. */
const logOf = Effect.map(Effect.flatMap(Mill.client(), (client) => client.state), (state) => state?.log ?? [])

export const failuresSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "failures")

  describe(`${name}: crashes`, () => {
    live(
      "in the middle of a batch: what is in front is handled, what is behind waits",
      Effect.gen(function*() {
        let isBroken = true
        const runs: Array<Run> = []
        const server = yield* startMill({ consume: false })
        yield* server.castAll(grains("a", "b", ["poison", "broken"], "c", "d"))
        yield* startMill({ consumeK: 10 }, runs, () => isBroken)
        yield* until(logOf, (log) => log.length === 2)
        yield* until(Effect.sync(() => runs.at(-1)!.attempt), (attempt) => attempt > 5)
        assert.deepStrictEqual(yield* logOf, ["a", "b"])
        assert.strictEqual(yield* server.queueLength, 3)
        isBroken = false
        assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 5), ["a", "b", "poison", "c", "d"])
        // it ran alone after its first crash
        const after = runs.slice(runs.findIndex(({ item }) => item === "poison") + 1)
        assert.deepStrictEqual(after.filter(({ item }) => item === "a" || item === "b").length, 2)
        assert.isTrue(runs.every(({ attempt, item }) => item === "poison" || attempt === 1))
      })
    )
    live(
      "are counted in the store: another start sees them",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const first = yield* startMill({ restart: Schedule.recurs(1) }, runs)
        const call = yield* Effect.forkChild(
          Effect.flatMap(
            Mill.client(),
            (client) => client.call("Ask", { item: "a", does: "crash 2" }, { timeout: "20 seconds" })
          )
        )
        yield* until(Effect.sync(() => runs.length), (length) => length === 2)
        assert.strictEqual((yield* Effect.flip(first.call("Log")))._tag, "ServerStopped")
        assert.deepStrictEqual(runs, [{ item: "a", attempt: 1 }, { item: "a", attempt: 2 }])
        yield* Effect.flatMap(elsewhere, (context) => inside(context)(startMill({}, runs)))
        assert.strictEqual(yield* Fiber.join(call), 3)
        assert.deepStrictEqual(runs.map(({ attempt }) => attempt), [1, 2, 3])
      })
    )
    live(
      "of two consumers on one message count once",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const { items } = yield* keysOf(["Mill"])
        const both = yield* Deferred.make<void>()
        let charging = 0
        // each counts the attempt that it saw; both commits are let go when both are there
        const hooks = {
          before: ({ mutations }: { readonly mutations: ReadonlyArray<any> }) =>
            mutations.some((mutation) => mutation.op === "set" && touches(items)(mutation)) && charging < 2
              ? Effect.suspend(() => {
                if (++charging === 2) Deferred.doneUnsafe(both, Effect.void)
                return Deferred.await(both)
              })
              : Effect.void
        }
        const one = yield* Effect.flatMap(tapped(hooks), (tenant) => inside(tenant)(startMill({}, runs)))
        yield* Effect.flatMap(tapped(hooks), (tenant) => inside(tenant)(startMill({}, runs)))
        yield* one.castAll(grains(["a", "crash 1"]))
        yield* until(logOf, (log) => log.length === 1)
        assert.strictEqual(charging, 2)
        const attempts = runs.map(({ attempt }) => attempt).sort()
        assert.deepStrictEqual(attempts.slice(0, 3), [1, 1, 2])
        assert.notInclude(attempts, 3)
      })
    )
    live(
      "that are counted late, when others have counted more, take nothing back",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const { items } = yield* keysOf(["Mill"])
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const late = yield* tapped({
          before: ({ mutations }) =>
            mutations.some((mutation) => mutation.op === "set" && touches(items)(mutation))
              ? Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
              : Effect.void
        })
        const one = yield* inside(late)(startMill({}, runs))
        yield* one.castAll(grains(["a", "crash 2"]))
        yield* Deferred.await(begun)
        const two = yield* startMill({ restart: Schedule.recurs(1), consumeK: 2 }, runs)
        yield* until(Effect.sync(() => runs.length), (length) => length === 3)
        assert.strictEqual((yield* Effect.flip(two.call("Log")))._tag, "ServerStopped")
        yield* Deferred.succeed(go, undefined)
        yield* until(logOf, (log) => log.includes("a"))
        assert.deepStrictEqual(runs.filter(({ item }) => item === "a").map(({ attempt }) => attempt), [1, 1, 2, 3])
      })
    )
    live(
      "are retried for ever by default",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const server = yield* startMill({}, runs)
        yield* server.castAll(grains(["a", "crash 30"]))
        yield* until(logOf, (log) => log.length === 1)
        assert.deepStrictEqual(runs.map(({ attempt }) => attempt), Array.from({ length: 31 }, (_, i) => i + 1))
        assert.deepStrictEqual(yield* deadLetters, [])
      })
    )
    live(
      "of a batch that is too large for a transaction: it is halved, nobody is charged",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const sender = yield* startMill({ consume: false })
        const items = Array.from({ length: 8 }, (_, i) => `${i}`)
        yield* sender.castAll(grains(...items.map((item) => [item, "large 30"] as const)))
        yield* startMill({ consumeK: 8, deadLetterThreshold: 1 }, runs)
        assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 8), items)
        assert.isTrue(runs.every(({ attempt }) => attempt === 1))
        assert.deepStrictEqual(yield* deadLetters, [])
      })
    )
    live(
      "of one message that is too large alone: it is charged, and no other",
      Effect.gen(function*() {
        const sender = yield* startMill({ consume: false })
        yield* sender.castAll(grains("a", "b", ["giant", "large 120"], "c"))
        yield* startMill({ consumeK: 8, deadLetterThreshold: 2 })
        assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 3), ["a", "b", "c"])
        const letters = yield* deadLetters
        assert.deepStrictEqual(letters.map(({ attempts, payload }) => [attempts, payload]), [
          [2, { item: "giant", does: "large 120" }]
        ])
        assert.include(letters[0]!.cause, "bytes")
      })
    )
    for (const does of ["wide", "state"]) {
      live(
        `of what the store or the schema refuses (${does}): only their message is charged`,
        Effect.gen(function*() {
          const sender = yield* startMill({ consume: false })
          yield* sender.castAll(grains("a", "b", ["bad", does], "c", "d"))
          yield* startMill({ consumeK: 8, deadLetterThreshold: 2 })
          assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 4), ["a", "b", "c", "d"])
          const letters = yield* deadLetters
          assert.deepStrictEqual(letters.map(({ attempts, payload }) => [attempts, payload]), [
            [2, { item: "bad", does }]
          ])
          assert.include(letters[0]!.cause, does === "wide" ? "100001" : "log")
        })
      )
      live(
        `of what the store or the schema refuses (${does}), past the queue: the caller is told`,
        Effect.gen(function*() {
          const server = yield* startMill({ deadLetterThreshold: 2 })
          const urgent = yield* Effect.flip(server.priorityCall("Ask", { item: "a", does }))
          assert.strictEqual(urgent._tag, "HandlerCrashed")
          const inline = yield* Effect.flip(server.call("Ask", { item: "b", does }))
          assert.deepInclude(inline, { _tag: "DeadLettered", attempts: 2 })
          assert.deepStrictEqual(yield* server.call("Log"), [])
        })
      )
    }
    live(
      "of a message past the queue lose it; its sender is told, nothing is written",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const server = yield* startMill({}, runs)
        for (
          const run of [
            server.priorityCall("Ask", { item: "a", does: "crash" }),
            server.priorityCast("Grind", { item: "a", does: "crash" })
          ]
        ) {
          const error = yield* Effect.flip(run as Effect.Effect<unknown, DgenServer.CallError>)
          assert.strictEqual(error._tag, "HandlerCrashed")
          assert.include(error.message, "a is poison")
        }
        assert.strictEqual(runs.length, 2)
        assert.strictEqual(yield* server.queueLength, 0)
        assert.deepStrictEqual(yield* server.call("Log"), [])
      })
    )
    live(
      "of an inline call are its first attempt: the message is queued, the caller waits on",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const server = yield* startMill({}, runs)
        assert.strictEqual(yield* server.call("Ask", { item: "a", does: "crash 1" }), 2)
        assert.deepStrictEqual(runs.map(({ attempt }) => attempt), [1, 2])
        assert.deepStrictEqual(yield* server.call("Log"), ["a"])
      })
    )
    live(
      "do not touch a message that fails with its declared error: it is handled",
      Effect.gen(function*() {
        const runs: Array<Run> = []
        const server = yield* startMill({ deadLetterThreshold: 1, consumeK: 5 }, runs)
        const error = yield* Effect.flip(server.call("Ask", { item: "a", does: "refused" }))
        assert.strictEqual(error._tag, "Refused")
        assert.strictEqual(runs.length, 1)
        assert.strictEqual(yield* server.queueLength, 0)
        assert.deepStrictEqual(yield* deadLetters, [])
      })
    )

    live(
      "of handlers that return what is no outcome of theirs: their message is charged, the sender told",
      Effect.gen(function*() {
        const outcomes: { readonly [what: string]: () => unknown } = {
          nothing: () => undefined,
          text: () => "text",
          reply: () => DgenServer.reply(1, { log: [] }),
          lock: () => DgenServer.lock({ log: [] }),
          throws: () => {
            throw new Error("thrown")
          }
        }
        const behaviour = Mill.behaviour({
          init: Effect.succeed({ log: [] }),
          handlers: {
            Grind: ({ does }) => outcomes[does]!() as any,
            Ask: (_, state) => DgenServer.reply(0, state),
            Log: (_, state) => DgenServer.reply(state.log, state)
          }
        })
        const server = yield* Mill.start(behaviour, { ...fast, tuid: ["Mill"], deadLetterThreshold: 1, consumeK: 10 })
        for (const does of Object.keys(outcomes)) {
          const error = yield* Effect.flip(server.priorityCast("Grind", { item: "a", does }))
          assert.strictEqual(error._tag, "HandlerCrashed")
          if (does !== "throws") assert.include(error.message, "the handler of \"Grind\" in Mill")
        }
        yield* server.castAll(grains(...Object.keys(outcomes).map((does) => ["a", does] as const)))
        const letters = yield* until(deadLetters, (letters) => letters.length === Object.keys(outcomes).length)
        assert.deepStrictEqual(letters.map(({ payload }: any) => payload.does), Object.keys(outcomes))
        assert.isFalse(yield* server.locked)
        assert.deepStrictEqual(yield* server.state, { log: [] })
      })
    )

    describe("and the restart schedule", () => {
      live(
        "its end stops the handle: calls settle, an error is logged, the durable server stays",
        Effect.gen(function*() {
          const logs = keptLogs()
          const runs: Array<Run> = []
          const server = yield* startMill({ restart: Schedule.recurs(2), consumeK: 2 }, runs).pipe(
            Effect.provide(logs.layer)
          )
          yield* server.castAll(grains(["a", "crash 5"]))
          const waiting = yield* Effect.forkChild(server.call("Ask", { item: "b", does: "" }))
          const error: any = yield* failureOf(waiting)
          assert.strictEqual(error._tag, "ServerStopped")
          assert.include(error.reason, "schedule")
          assert.strictEqual((yield* Effect.flip(server.call("Log")))._tag, "ServerStopped")
          assert.strictEqual((yield* Effect.flip(server.priorityCall("Log")))._tag, "ServerStopped")
          assert.strictEqual(runs.length, 3)
          assert.strictEqual(
            logs.lines.filter((line) => line.includes("Error") && line.includes("has ended")).length,
            1
          )
          const again = yield* startMill({}, runs)
          yield* until(logOf, (log) => log.length === 2)
          assert.deepStrictEqual(yield* again.call("Log"), ["a", "b"])
          assert.deepStrictEqual(runs.slice(3, 6).map(({ attempt }) => attempt), [4, 5, 6])
        })
      )
      live(
        "it starts over after a commit",
        Effect.gen(function*() {
          const server = yield* startMill({ restart: Schedule.recurs(2) })
          yield* server.castAll(grains(["a", "crash 2"], ["b", "crash 2"], "c", ["d", "crash 2"]))
          assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 4), ["a", "b", "c", "d"])
          assert.strictEqual((yield* server.call("Log")).length, 4)
        })
      )
      live(
        "stop and kill do not wait for it",
        Effect.gen(function*() {
          for (const end of ["stop", "kill"] as const) {
            const logs = keptLogs()
            const server = yield* startMill({ restart: Schedule.spaced("1 hour") }).pipe(Effect.provide(logs.layer))
            yield* server.castAll(grains(["a", "crash"]))
            yield* until(Effect.sync(() => logs.count("crashed")), (count) => count === 1)
            yield* server[end]()
          }
        })
      )
    })

    describe("of messages that cannot be handled at all", () => {
      /** The mill of a later release: one message is new, and one has another payload. */
      class Later extends DgenServer.Service<Later>()("Mill", {
        state: Schema.Struct({ log: Schema.Array(Schema.String) }),
        messages: {
          New: DgenServer.call(),
          Grind: DgenServer.cast({ payload: { kilos: Schema.Int } })
        }
      }) {}

      live(
        "because their bytes say nothing: they die, the consumer goes on",
        Effect.gen(function*() {
          const logs = keptLogs()
          const server = yield* startMill({ consumeK: 3, deadLetterThreshold: 2 }).pipe(Effect.provide(logs.layer))
          const garbage = [new Uint8Array(0), Uint8Array.of(1, 2, 3), Uint8Array.of(0xc1), new Uint8Array(300_000)]
          yield* Tenant.transact(DurableQueue.pushAll(Mill.queue(), garbage))
          yield* server.castAll(grains("a"))
          yield* until(logOf, (log) => log.length === 1)
          const letters = yield* deadLetters
          assert.deepStrictEqual(
            letters.map(({ attempts, bytes, tag }) => [tag, attempts, [...bytes]]),
            garbage.map((bytes) => [undefined, 2, [...bytes]])
          )
          assert.strictEqual(yield* server.queueLength, 0)
          assert.strictEqual(logs.count("now a dead letter"), 4)
        })
      )
      live(
        "because the handler or the payload is of another release: their caller is told, the others are handled",
        Effect.gen(function*() {
          const later = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Later.client()))
          yield* later.cast("Grind", { kilos: 7 })
          const call = yield* Effect.forkChild(later.call("New", undefined, { timeout: "20 seconds" }))
          yield* until(later.queueLength, (length) => length === 2)
          const server = yield* startMill({ consumeK: 3, deadLetterThreshold: 3, unreadableGrace: 0 })
          yield* server.castAll(grains("a"))
          const error: any = yield* failureOf(call)
          assert.deepStrictEqual([error._tag, error.attempts], ["DeadLettered", 3])
          assert.include(error.cause, "New")
          yield* until(logOf, (log) => log.length === 1)
          const letters = yield* deadLetters
          assert.deepStrictEqual(letters.map(({ payload, tag }) => [tag, payload]), [
            ["Grind", { kilos: 7 }],
            ["New", null]
          ])
          assert.include(letters[0]!.cause, "item")
          // a later release can handle them
          yield* server.stop()
          for (const { id } of letters) {
            yield* Tenant.transact(DurableQueue.requeueDeadLetter(Mill.queue(), id))
          }
          assert.strictEqual(yield* later.queueLength, 2)
        })
      )
    })
  })
}

/** What a server must do on every backend: run for each of them. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Schedule, Schema, Scope } from "effect"
import { type Backend, type BackendError, DgenServer, Tenant, Transaction } from "effect-dgen"
import { Ledger, ledger, ledgerActions } from "./ledger.ts"

const quiet = Logger.layer([])
/** A server as a program without types sees it. */
const untyped = (server: object) =>
  server as Record<"call" | "cast" | "castAll" | "info", (...args: ReadonlyArray<unknown>) => Effect.Effect<void, any>>

const fast = { restart: Schedule.forever }

export const suite = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>) => {
  let paths = 0
  const live = (title: string, test: Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>) =>
    it.live(title, () =>
      test.pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["server", String(++paths)]).pipe(Layer.provideMerge(backend))),
        Effect.provide(quiet)
      ))

  const start = (options: DgenServer.Options & { readonly runs?: (item: string) => void; readonly told?: any } = {}) =>
    Ledger.start(ledger(options.runs), { ...fast, tuid: ["Ledger"], ...options }).pipe(
      Effect.provide(ledgerActions(options.told))
    )

  describe(name, () => {
    for (const consumeK of [1, 7]) {
      describe(`with consumeK ${consumeK}`, () => {
        live(
          "handles casts in their order, once each, and calls after them",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const items = Array.from({ length: 40 }, (_, i) => `item ${i}`)
            yield* server.castAll(items.slice(0, 20).map((item) => ["Record", { item }] as const))
            for (const item of items.slice(20)) yield* server.cast("Record", { item })
            assert.strictEqual(yield* server.call("Append", { item: "last" }), 41)
            assert.deepStrictEqual(yield* server.call("Items"), [...items, "last"])
            assert.strictEqual(yield* server.queueLength, 0)
          })
        )
        live(
          "answers many callers at once, each with its own answer",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const answers = yield* Effect.forEach(
              Array.from({ length: 100 }, (_, i) => i),
              (i) => server.call("Append", { item: `item ${i}` }),
              { concurrency: "unbounded" }
            )
            assert.deepStrictEqual([...answers].sort((a, b) => a - b), Array.from({ length: 100 }, (_, i) => i + 1))
            const items = yield* server.call("Items")
            answers.forEach((at, i) => assert.strictEqual(items[at - 1], `item ${i}`))
          })
        )
        live(
          "an error of the handler is the call's, changes nothing and holds nobody up",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const error = yield* Effect.flip(server.call("Append", { item: "refused" }))
            assert.strictEqual(error._tag, "Refused")
            assert.strictEqual(yield* server.call("Append", { item: "next" }), 1)
          })
        )
        live(
          "the state outlives the handle",
          Effect.gen(function*() {
            yield* Effect.scoped(
              Effect.flatMap(start({ consumeK }), (server) => server.call("Append", { item: "kept" }))
            )
            const again = yield* start({ consumeK })
            assert.deepStrictEqual(yield* again.call("Items"), ["kept"])
          })
        )
        live(
          "a crash runs the message again until it passes; those before and after it are not lost",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const poison = yield* Effect.forkChild(
              Effect.andThen(
                server.castAll([["Record", { item: "before" }], ["Record", { item: "also before" }]]),
                server.call("Poison", { until: 3 })
              )
            )
            assert.strictEqual(yield* Fiber.join(poison), 3)
            assert.strictEqual(yield* server.call("Append", { item: "after" }), 4)
            assert.deepStrictEqual(yield* server.call("Items"), ["before", "also before", "poison 3", "after"])
          })
        )
        live(
          "a handler that waits for the world dies, and does not hang",
          Effect.gen(function*() {
            const crashes: Array<string> = []
            const server = yield* start({ consumeK, restart: Schedule.recurs(1) }).pipe(
              Effect.provide(
                Logger.layer([
                  Logger.make(({ cause }) =>
                    void crashes.push(...cause.reasons.map((reason: any) => String(reason.defect?._tag)))
                  )
                ])
              )
            )
            const error = yield* Effect.flip(server.call("Impure"))
            assert.strictEqual(error._tag, "ServerStopped")
            assert.include(crashes, "ImpureCallback")
          })
        )
        live(
          "a reply that does not fit its schema is answered so, and the message counts",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const error = yield* Effect.flip(server.call("WrongReply"))
            assert.strictEqual(error._tag, "HandlerCrashed")
            assert.include(error.message, "WrongReply")
            assert.deepStrictEqual(yield* server.call("Items"), ["wrong"])
          })
        )
        live(
          "a call without an answer ends at its time limit",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const error = yield* Effect.flip(server.call("Silent", undefined, { timeout: "20 millis" }))
            assert.strictEqual(error._tag, "CallTimeout")
            assert.strictEqual(yield* server.call("Append", { item: "next" }), 1)
          })
        )
        live(
          "a handler that stops ends the handle after its commit; the durable server stays",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            const error = yield* Effect.flip(server.call("Leave"))
            assert.strictEqual(error._tag, "ServerStopped")
            assert.strictEqual((yield* Effect.flip(server.call("Items")))._tag, "ServerStopped")
            const again = yield* start({ consumeK })
            assert.deepStrictEqual(yield* again.call("Items"), ["left"])
          })
        )
        live(
          "a cast to itself is handled once, after the current message",
          Effect.gen(function*() {
            const server = yield* start({ consumeK })
            yield* server.call("Forward", { item: "forwarded" })
            assert.strictEqual(yield* server.call("Append", { item: "next" }), 2)
            assert.deepStrictEqual(yield* server.call("Items"), ["forwarded", "next"])
          })
        )
        live(
          "actions run once a commit, after it, with the state of its end",
          Effect.gen(function*() {
            const told: Array<readonly [string, number]> = []
            const done = yield* Deferred.make<void>()
            const server = yield* start({
              consumeK,
              told: (item: string, state: { readonly items: ReadonlyArray<string> }) => {
                told.push([item, state.items.length])
                if (item === "c") Deferred.doneUnsafe(done, Exit.void)
              }
            })
            for (const item of ["a", "crash action", "halt", "b", "c"]) yield* server.call("Append", { item })
            yield* Deferred.await(done)
            assert.deepStrictEqual(told, [["a", 1], ["b", 4], ["c", 5]])
          })
        )
      })
    }

    live(
      "an inline handler runs once a call where nobody interferes",
      Effect.gen(function*() {
        const runs: Array<string> = []
        const server = yield* start({ runs: (item) => void runs.push(item) })
        yield* Effect.forEach(["a", "b", "c"], (item) => server.call("Append", { item }), { concurrency: "unbounded" })
        assert.deepStrictEqual(runs.sort(), ["a", "b", "c"])
      })
    )
    live(
      "priority and info messages pass the queue of a server that does not consume",
      Effect.gen(function*() {
        const server = yield* start({ consume: false })
        yield* server.cast("Record", { item: "waits" })
        yield* server.info("Note", { item: "noted" })
        yield* server.priorityCast("Record", { item: "urgent" })
        assert.deepStrictEqual(yield* server.priorityCall("Items"), ["noted", "urgent"])
        assert.strictEqual(yield* server.queueLength, 1)
        const crashed = yield* Effect.flip(server.priorityCall("Poison", { until: 2 }))
        assert.strictEqual(crashed._tag, "HandlerCrashed")
        yield* start()
        assert.strictEqual(yield* server.call("Append", { item: "called" }), 4)
        assert.deepStrictEqual(yield* server.priorityCall("Items"), ["noted", "urgent", "waits", "called"])
      })
    )
    live(
      "a client calls, casts and looks without a behaviour",
      Effect.gen(function*() {
        const client = yield* Ledger.client()
        assert.strictEqual(yield* client.state, undefined)
        yield* client.cast("Record", { item: "early" })
        yield* start()
        assert.strictEqual(yield* client.call("Append", { item: "late" }), 2)
        assert.deepStrictEqual(yield* client.state, { items: ["early", "late"] })
      })
    )
    live(
      "two handles of one server share the work and lose nothing",
      Effect.gen(function*() {
        const one = yield* start()
        const two = yield* start({ consumeK: 5 })
        const items = Array.from({ length: 60 }, (_, i) => `item ${i}`)
        yield* Effect.forEach(items, (item, i) => (i % 2 ? one : two).call("Append", { item }), { concurrency: 10 })
        const kept = yield* one.call("Items")
        assert.deepStrictEqual([...kept].sort(), [...items].sort())
      })
    )
    live(
      "a caller in another tenant layer is answered through the store",
      Effect.gen(function*() {
        yield* start()
        const { path } = yield* Tenant.Tenant
        const answers = yield* Effect.gen(function*() {
          const client = yield* Ledger.client()
          return yield* Effect.forEach(["a", "b", "c"], (item) => client.call("Append", { item }), {
            concurrency: "unbounded"
          })
        }).pipe(Effect.provide(Layer.fresh(Tenant.layer(path))))
        assert.deepStrictEqual([...answers].sort(), [1, 2, 3])
      })
    )
    live(
      "init of a server that exists is run and ignored; reset puts it over",
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.flatMap(start(), (server) => server.call("Append", { item: "old" })))
        const kept = yield* Effect.scoped(Effect.flatMap(start(), (server) => server.call("Items")))
        assert.deepStrictEqual(kept, ["old"])
        const reset = yield* start({ reset: true })
        assert.deepStrictEqual(yield* reset.call("Items"), [])
      })
    )
    live(
      "a failing init leaves nothing and is the start's error",
      Effect.gen(function*() {
        class Broken extends DgenServer.Service<Broken>()("Broken", { state: Schema.Int, messages: {} }) {}
        const failing = Broken.behaviour({ init: Effect.fail("no state" as const), handlers: {} })
        assert.strictEqual(yield* Effect.flip(Broken.start(failing, { tuid: ["broken"] })), "no state")
        const client = yield* Broken.client({ tuid: ["broken"] })
        assert.strictEqual(yield* client.state, undefined)
      })
    )
    live(
      "stopping ends waiting calls with an error; casts still wait for the next start",
      Effect.gen(function*() {
        const server = yield* start({ consume: false })
        const waiting = yield* Effect.forkChild(Effect.flip(server.call("Append", { item: "waits" })))
        yield* Effect.repeat(server.queueLength, { until: (length) => length === 1 })
        yield* server.stop("enough")
        assert.strictEqual((yield* Fiber.join(waiting))._tag, "ServerStopped")
        yield* server.cast("Record", { item: "cast" })
        const again = yield* start()
        assert.strictEqual(yield* again.call("Append", { item: "last" }), 3)
      })
    )
    live(
      "closing the scope ends the calls of the handle",
      Effect.gen(function*() {
        const scope = yield* Scope.fork(yield* Effect.scope)
        const server = yield* start({ consume: false }).pipe(Effect.provideService(Scope.Scope, scope))
        const waiting = yield* Effect.forkChild(Effect.flip(server.call("Append", { item: "waits" })))
        yield* Effect.repeat(server.queueLength, { until: (length) => length === 1 })
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* Fiber.join(waiting))._tag, "ServerStopped")
      })
    )

    describe("bad input", () => {
      const nothingWritten = Effect.gen(function*() {
        const client = yield* Ledger.client()
        assert.strictEqual(yield* client.queueLength, 0)
      })
      live(
        "of a payload names server, message and field, and sends nothing",
        Effect.gen(function*() {
          const server = untyped(yield* start({ consume: false }))
          for (const payload of [{ item: 7 }, {}, { itm: "a" }, undefined, "text"]) {
            const error = yield* Effect.flip(server.cast("Record", payload))
            assert.strictEqual(error._tag, "InvalidPayload")
            assert.strictEqual(error.server, "Ledger")
            assert.strictEqual(error.tag, "Record")
          }
          const wrong = yield* Effect.flip(server.cast("Record", { item: 7 }))
          assert.strictEqual(wrong.field, "item")
          const all = yield* Effect.flip(server.castAll([["Record", { item: "fine" }], ["Record", { item: 7 }]]))
          assert.strictEqual(all._tag, "InvalidPayload")
          yield* nothingWritten
        })
      )
      live(
        "of a message that does not exist, or is of another kind",
        Effect.gen(function*() {
          const server = untyped(yield* start({ consume: false }))
          for (
            const run of [
              server.cast("Append", { item: "a" }),
              server.call("Record", { item: "a" }),
              server.cast("Nope"),
              server.info("Record", { item: "a" })
            ]
          ) {
            assert.strictEqual((yield* Effect.flip(run))._tag, "UnknownMessage")
          }
          yield* nothingWritten
        })
      )
      live(
        "of a payload that is too large",
        Effect.gen(function*() {
          const server = yield* start({ consume: false })
          const error = yield* Effect.flip(server.cast("Record", { item: "x".repeat(6_000_000) }))
          assert.strictEqual(error._tag, "PayloadTooLarge")
          // each would fit alone, and together they do not fit a transaction
          const large = ["Record", { item: "x".repeat(3_000_000) }] as const
          for (
            const messages of [
              [large, large, large, large],
              Array.from({ length: 30_000 }, () => ["Record", { item: "x" }] as const)
            ]
          ) {
            const together = yield* Effect.flip(server.castAll(messages))
            assert.strictEqual(together._tag, "PayloadTooLarge")
            assert.strictEqual(
              yield* Effect.flip(Tenant.transact(Ledger.castAllTx(messages))).pipe(Effect.map((e) => e._tag)),
              "PayloadTooLarge"
            )
          }
          yield* nothingWritten
        })
      )
      live(
        "of options and tuids names them",
        Effect.gen(function*() {
          for (const options of [{ consumeK: 0 }, { consumeK: 1.5 }, { consumeK: 5_000 }, { cache: "yes" }]) {
            const error: any = yield* Effect.flip(start(options as any))
            assert.strictEqual(error._tag, "InvalidOption")
            assert.strictEqual(error.option, Object.keys(options)[0])
          }
          for (const tuid of [[], [{}], ["\ud800"], "text"]) {
            const error: any = yield* Effect.flip(start({ tuid } as any))
            assert.strictEqual(error._tag, "InvalidTuid")
          }
          const server = yield* start()
          for (const timeout of [0, -1, "soon", "25 hours"] as any) {
            assert.strictEqual((yield* Effect.flip(server.call("Items", undefined, { timeout })))._tag, "InvalidOption")
          }
        })
      )
      live(
        "of two definitions with one name in one tenant layer",
        Effect.gen(function*() {
          yield* start()
          class Other extends DgenServer.Service<Other>()("Ledger", { state: Schema.Int, messages: {} }) {}
          const error = yield* Effect.flip(
            Other.start(Other.behaviour({ init: Effect.succeed(1), handlers: {} }), { tuid: ["other"] })
          )
          assert.strictEqual(error._tag, "DefinitionMismatch")
        })
      )
      live(
        "of a tuid that belongs to another definition",
        Effect.gen(function*() {
          yield* start()
          class Other extends DgenServer.Service<Other>()("Other", { state: Schema.Int, messages: {} }) {}
          const error = yield* Effect.flip(
            Other.start(Other.behaviour({ init: Effect.succeed(1), handlers: {} }), { tuid: ["Ledger"] })
          )
          assert.strictEqual(error._tag, "DefinitionMismatch")
          assert.include(error.message, "Ledger")
        })
      )
    })

    live(
      "servers whose tuids contain each other do not meet, nor a user's keys",
      Effect.gen(function*() {
        const outer = yield* start({ tuid: ["cart"] } as any)
        const inner = yield* start({ tuid: ["cart", 1] } as any)
        yield* Tenant.transact(Transaction.set(["s", ["cart"], "head"], new Uint8Array(3)))
        yield* outer.call("Append", { item: "outer" })
        yield* inner.call("Append", { item: "inner" })
        assert.deepStrictEqual(yield* outer.call("Items"), ["outer"])
        assert.deepStrictEqual(yield* inner.call("Items"), ["inner"])
      })
    )
  })
}

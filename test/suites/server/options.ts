/** Every option of a server: its default, what it does, and what a value that is none gets. */
import { assert, describe } from "@effect/vitest"
import { Duration, Effect, Exit, Layer, Schedule, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { inside, keptLogs, keysOf, scan, type Store, tapped, testsOf, touches, until } from "./support.ts"

class Plain extends DgenServer.Service<Plain>()("Plain", {
  state: Schema.Struct({ items: Schema.Array(Schema.String) }),
  messages: {
    Add: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int }),
    AddCast: DgenServer.cast({ payload: { item: Schema.String } })
  }
}) {}

const plain = (first: ReadonlyArray<string> = []) =>
  Plain.behaviour({
    init: Effect.succeed({ items: first }),
    handlers: {
      Add: ({ item }, { items }, { attempt }) => {
        if (item === "crash" && attempt < 8) throw new Error("crash")
        return DgenServer.reply(items.length + 1, { items: [...items, item] })
      },
      AddCast: ({ item }, { items }) => DgenServer.noReply({ items: [...items, item] })
    }
  })

const start = (options: DgenServer.Options & { readonly first?: ReadonlyArray<string> } = {}) =>
  Plain.start(plain(options.first), { tuid: ["Plain"], ...options })

const wrong: { readonly [option: string]: ReadonlyArray<unknown> } = {
  consume: ["yes", 1, {}],
  reset: ["yes", 0, {}],
  deadLetterThreshold: [0, -1, 1.5, NaN, -Infinity, "3", {}],
  consumeK: [0, -1, 1.5, NaN, Infinity, DgenServer.CONSUME_K_LIMIT + 1, "5", {}],
  lockTimeout: [0, -1, NaN, "soon", "-1 seconds", "0 millis", {}, true],
  grace: [-1, NaN, "soon", "-1 seconds", {}, true],
  actionTimeout: [0, -1, NaN, "soon", "-1 seconds", "0 millis", {}, true],
  cache: ["yes", 1, {}],
  restart: ["soon", 5, {}, () => "1 second"]
}

export const optionsSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "options")

  describe(`${name}: options`, () => {
    for (const [option, values] of Object.entries(wrong)) {
      live(
        `${option}: a value that is none is refused with its name, and nothing is written`,
        Effect.gen(function*() {
          for (const value of values) {
            const error: any = yield* Effect.flip(start({ [option]: value }))
            assert.deepStrictEqual([error._tag, error.server, error.option], ["InvalidOption", "Plain", option])
            assert.include(error.message, option)
            const layer = Plain.layer(plain(), { [option]: value } as DgenServer.Options)
            const built: any = yield* Effect.flip(Effect.scoped(Layer.build(layer)))
            assert.deepStrictEqual([built._tag, built.option], ["InvalidOption", option])
          }
          assert.deepStrictEqual(yield* scan(["Plain"]), [])
        })
      )
    }
    live(
      "grace: nothing is a duration too",
      Effect.forEach(
        [0, "0 seconds", "0 millis", { seconds: 0 }, Duration.zero, Duration.infinity] as const,
        (grace) => Effect.scoped(Effect.flatMap(start({ grace }), (server) => server.call("Add", { item: "a" }))),
        { discard: true }
      )
    )
    live(
      "those that are missing are no error",
      Effect.gen(function*() {
        const missing = Object.fromEntries(Object.keys(wrong).map((option) => [option, undefined]))
        const server = yield* start(missing as DgenServer.Options)
        assert.strictEqual(yield* server.call("Add", { item: "a" }), 1)
      })
    )
    live(
      "timeout of a call: a value that is none is refused with its name, and nothing is sent",
      Effect.gen(function*() {
        const server = yield* start({ consume: false })
        const client = yield* Plain.client()
        const over = DgenServer.CALL_TIMEOUT_LIMIT_MILLIS + 1
        for (const timeout of [0, -1, NaN, "soon", over, Infinity, {}] as Array<any>) {
          for (const call of [server.call, server.priorityCall, client.call]) {
            const error: any = yield* Effect.flip(call("Add", { item: "a" }, { timeout }))
            assert.deepStrictEqual([error._tag, error.option], ["InvalidOption", "timeout"])
          }
        }
        assert.strictEqual(yield* server.queueLength, 0)
        assert.deepStrictEqual(yield* server.state, { items: [] })
      })
    )
    live(
      "consume: true by default; false only sends",
      Effect.gen(function*() {
        const sender = yield* start({ consume: false })
        yield* sender.cast("AddCast", { item: "a" })
        assert.strictEqual(
          (yield* Effect.flip(sender.call("Add", { item: "b" }, { timeout: "20 millis" })))._tag,
          "CallTimeout"
        )
        assert.strictEqual(yield* sender.queueLength, 2)
        yield* start()
        yield* until(sender.queueLength, (length) => length === 0)
        assert.deepStrictEqual(yield* sender.state, { items: ["a", "b"] })
      })
    )
    live(
      "reset: false by default; true puts the state of init over the one that exists, and leaves the queue",
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.flatMap(start({ first: ["1"] }), (server) => server.call("Add", { item: "a" })))
        const kept = yield* Effect.scoped(
          Effect.flatMap(
            start({ first: ["2"], consume: false }),
            (server) => Effect.andThen(server.cast("AddCast", { item: "b" }), server.state)
          )
        )
        assert.deepStrictEqual(kept, { items: ["1", "a"] })
        const reset = yield* start({ first: ["3"], reset: true, consume: false })
        assert.deepStrictEqual(yield* reset.state, { items: ["3"] })
        const server = yield* start({ first: ["4"] })
        yield* until(server.queueLength, (length) => length === 0)
        assert.deepStrictEqual(yield* server.state, { items: ["3", "b"] })
      })
    )
    live(
      "reset: a handle that runs goes on with the new state",
      Effect.gen(function*() {
        const server = yield* start()
        assert.strictEqual(yield* server.call("Add", { item: "a" }), 1)
        yield* start({ first: ["x", "y"], reset: true, consume: false })
        assert.strictEqual(yield* server.call("Add", { item: "b" }), 3)
        assert.deepStrictEqual(yield* server.state, { items: ["x", "y", "b"] })
      })
    )
    for (const cache of [undefined, true, false]) {
      live(
        `cache ${cache}: the state is ${cache === false ? "" : "not "}read again where nobody else changed it`,
        Effect.gen(function*() {
          const { state } = yield* keysOf(["Plain"])
          let reads = 0
          const isState = touches(state)
          const tenant = yield* tapped({
            reads: (begin) => {
              if (isState({ op: "clear", key: begin })) reads++
            }
          })
          const server = yield* inside(tenant)(start({ cache }))
          yield* server.call("Add", { item: "first" })
          reads = 0
          for (let i = 2; i <= 6; i++) assert.strictEqual(yield* server.call("Add", { item: `${i}` }), i)
          yield* server.cast("AddCast", { item: "cast" })
          yield* until(server.queueLength, (length) => length === 0)
          assert.strictEqual(reads > 0, cache === false)
          // what another handle writes is never missed
          const other = yield* start()
          assert.strictEqual(yield* other.call("Add", { item: "other" }), 8)
          assert.strictEqual(yield* server.call("Add", { item: "last" }), 9)
        })
      )
    }
    live(
      "restart: by default the consumer comes back for ever, and quickly at first",
      Effect.gen(function*() {
        const server = yield* start()
        const logs = keptLogs()
        const call = server.call("Add", { item: "crash" }, { timeout: "100 millis" })
        assert.strictEqual((yield* Effect.flip(call))._tag, "CallTimeout")
        // it is still there, and so is the message
        assert.strictEqual(yield* server.queueLength, 1)
        assert.strictEqual(yield* server.priorityCall("Add", { item: "a" }), 1)
        assert.strictEqual(logs.count("has ended"), 0)
      })
    )
    live(
      "restart: any schedule of Effect",
      Effect.gen(function*() {
        const restart = Schedule.max([Schedule.exponential("1 millis"), Schedule.recurs(20)])
        const server = yield* start({ restart })
        assert.strictEqual(yield* server.call("Add", { item: "crash" }), 1)
      })
    )
    live(
      "of layer: its server's tuid is its name",
      Effect.gen(function*() {
        const handle = yield* Effect.provide(Plain, Plain.layer(plain(["layer"])))
        assert.deepStrictEqual(handle.tuid, ["Plain"])
        const exit = yield* Effect.exit(handle.call("Add", { item: "a" }))
        assert.isTrue(Exit.isFailure(exit))
        const client = yield* Plain.client()
        assert.deepStrictEqual(yield* client.state, { items: ["layer"] })
      })
    )
  })
}

/** What programs without types can pass to servers: typed errors that name the server, and nothing written. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Schema, SchemaGetter } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { defectOf, fast, scan, type Store, testsOf } from "./support.ts"

/** A schema that does not read what it writes. */
const OneWay = Schema.String.pipe(
  Schema.decodeTo(Schema.Int, { decode: SchemaGetter.transform(() => 0.5), encode: SchemaGetter.transform(String) })
)

class Till extends DgenServer.Service<Till>()("Till", {
  state: Schema.Struct({ total: Schema.Int }),
  messages: {
    Pay: DgenServer.call({ payload: { amount: Schema.Int }, success: Schema.Int }),
    Total: DgenServer.call({ success: Schema.Int }),
    Note: DgenServer.cast({ payload: { text: Schema.String } }),
    Keep: DgenServer.cast({ payload: Schema.Any }),
    Odd: DgenServer.call({ payload: OneWay }),
    Tick: DgenServer.info()
  },
  actions: { Print: { text: Schema.String } }
}) {}

class Other extends DgenServer.Service<Other>()("Other", { state: Schema.Int, messages: {} }) {}

const handlers: any = {
  Pay: ({ amount }: any, { total }: any) => DgenServer.reply(total + amount, { total: total + amount }),
  Total: (_: any, state: any) => DgenServer.reply(state.total, state),
  Note: (_: any, state: any) => DgenServer.noReply(state),
  Keep: (_: any, state: any) => DgenServer.noReply(state),
  Odd: (_: any, state: any) => DgenServer.reply(undefined, state),
  Tick: (_: any, state: any) => DgenServer.noReply(state)
}

const behaviour = Till.behaviour({ init: Effect.succeed({ total: 0 }), handlers })

const actions = Till.actionsLayer({ Print: () => Effect.void })

const tuid = ["Till"]

const loose: any = Till

const startWith = (what: any, options: any): Effect.Effect<any, any, any> =>
  Effect.provide(Effect.suspend(() => loose.start(what, options) as Effect.Effect<any, any, any>), actions)

const start = (options: any) => startWith(behaviour, options)

const bare = Object.create(null)
const throwing = Object.defineProperty({}, "amount", {
  enumerable: true,
  get: () => {
    throw new Error("it does not want to be read")
  }
})
const cycle: any = {}
cycle.cycle = cycle

/** What tells an error: its tag, its server, and what the test asks for. */
const told = (error: any, ...fields: ReadonlyArray<string>) => [
  error._tag,
  error.server,
  ...fields.map((field) => error[field])
]

export const badArgumentsSuite = (name: string, backend: Store) => {
  const live: (title: string, test: Effect.Effect<void, any, any>) => void = testsOf(backend, "bad arguments") as any

  /** Runs with a server that only sends and a client, and looks that nothing was written. */
  const sending = (title: string, test: (server: any, client: any) => Effect.Effect<void, any, any>) =>
    live(
      title,
      Effect.gen(function*() {
        const server = yield* start({ tuid, consume: false })
        const client = yield* Till.client({ tuid })
        const before = yield* scan(tuid)
        yield* test(server, client)
        assert.deepStrictEqual(yield* scan(tuid), before)
        assert.deepStrictEqual(yield* server.state, { total: 0 })
      })
    )

  describe(`${name}: bad arguments`, () => {
    for (
      const [what, payload, field] of [
        ["nothing", undefined, ""],
        ["null", null, ""],
        ["a text", "5", ""],
        ["a field of another type", { amount: "5" }, "amount"],
        ["a fraction", { amount: 1.5 }, "amount"],
        ["an object without a prototype", bare, "amount"],
        ["what throws when it is read", throwing, ""]
      ] as const
    ) {
      sending(
        `a payload that does not fit (${what}) is refused with server, message and field`,
        (server, client) =>
          Effect.gen(function*() {
            const expected = ["InvalidPayload", "Till", "Pay", field]
            for (const call of [server.call, server.priorityCall, client.call]) {
              assert.deepStrictEqual(told(yield* Effect.flip(call("Pay", payload)), "tag", "field"), expected)
            }
            for (
              const cast of [
                server.castAll([["Note", { text: "fits" }], ["Note", payload]]),
                server.priorityCast("Note", payload),
                client.cast("Note", payload),
                Tenant.transact(loose.castTx("Note", payload, { tuid }))
              ]
            ) assert.deepStrictEqual(told(yield* Effect.flip(cast), "tag"), ["InvalidPayload", "Till", "Note"])
            assert.strictEqual((yield* Effect.flip<any, any, any>(server.info("Tick", 5)))._tag, "InvalidPayload")
          })
      )
    }
    sending("a payload that no message can keep is refused with its place", (server) =>
      Effect.gen(function*() {
        const deep = Array.from({ length: 1_000 }).reduce<unknown>((inside) => [inside], 1)
        for (const payload of [cycle, deep, { a: NaN }, { a: "\ud800" }, { a: new Map() }, 5n, () => 1, throwing]) {
          const error: any = yield* Effect.flip(server.cast("Keep", payload))
          assert.deepStrictEqual(told(error, "tag"), ["InvalidPayload", "Till", "Keep"])
        }
      }))
    live(
      "a payload whose schema does not read what it writes is refused by its handle",
      Effect.gen(function*() {
        const server = yield* start({ tuid })
        for (const call of [server.call, server.priorityCall]) {
          assert.deepStrictEqual(told(yield* Effect.flip(call("Odd", 5)), "tag"), ["InvalidPayload", "Till", "Odd"])
        }
      })
    )
    sending("a tag that is none is refused with what there is", (server) =>
      Effect.gen(function*() {
        for (const tag of [undefined, null, 5, bare, Symbol("x"), "__proto__", "constructor", ["Note"]]) {
          for (const operation of ["call", "cast", "priorityCall", "priorityCast", "info"]) {
            const error: any = yield* Effect.flip(server[operation](tag, {}))
            assert.deepStrictEqual(told(error), ["UnknownMessage", "Till"])
            assert.include(error.message, operation)
          }
        }
      }))
    sending("messages that are no list of messages are refused", (server) =>
      Effect.gen(function*() {
        for (const messages of [undefined, null, "Note", 5, { length: 1 }, [null], [5], ["Note"], [[]]]) {
          for (const cast of [server.castAll(messages), Tenant.transact(loose.castAllTx(messages, { tuid }))]) {
            assert.deepStrictEqual(told(yield* Effect.flip(cast)), ["UnknownMessage", "Till"])
          }
        }
      }))
    sending("options of a call that are none are refused", (server, client) =>
      Effect.gen(function*() {
        for (const options of [null, 5, "1 second", { timeout: null }, { timeout: bare }, { timeout: Symbol("x") }]) {
          for (const call of [server.call, server.priorityCall, client.call]) {
            const error = yield* Effect.flip(call("Total", undefined, options))
            assert.deepStrictEqual(told(error, "option"), ["InvalidOption", "Till", "timeout"])
          }
        }
      }))
    live(
      "what names no server is refused, and names the default one neither",
      Effect.gen(function*() {
        const long = [`${"x".repeat(9_000)}`]
        const wrong = [
          null,
          5,
          "Till",
          ["Till"],
          ...[null, "Till", [], [{}], [undefined], long].map((t) => ({ tuid: t }))
        ]
        for (const which of wrong) {
          const expected = ["InvalidTuid", "Till"]
          assert.deepStrictEqual(told(yield* Effect.flip(loose.client(which))), expected)
          for (
            const transaction of [
              loose.castTx("Note", { text: "" }, which),
              loose.castAllTx([["Note", { text: "" }]], which),
              loose.lock(which),
              loose.unlock(which)
            ]
          ) assert.deepStrictEqual(told(yield* Effect.flip(Tenant.transact(transaction))), expected)
          const error: any = yield* Effect.flip(Tenant.transact(DurableQueue.length(loose.queue(which))))
          assert.strictEqual(error.reason._tag, "InvalidArgument")
        }
        for (const bad of [undefined, null, "Till", [], [{}], long]) {
          assert.deepStrictEqual(told(yield* Effect.flip(start({ tuid: bad }))), ["InvalidTuid", "Till"])
        }
        assert.deepStrictEqual(yield* scan(tuid), [])
      })
    )
    live(
      "what starts no server is refused",
      Effect.gen(function*() {
        for (const options of [undefined, null, 5, "Till"]) {
          const error = yield* Effect.flip(start(options))
          assert.deepStrictEqual(told(error, "option"), ["InvalidOption", "Till", "options"])
        }
        for (const option of ["consumeK", "deadLetterThreshold", "lockTimeout", "consume", "cache", "restart"]) {
          for (const value of [null, bare, Symbol("x")]) {
            const error = yield* Effect.flip(start({ tuid, [option]: value }))
            assert.deepStrictEqual(told(error, "option"), ["InvalidOption", "Till", option])
          }
        }
        const other = Other.behaviour({ init: Effect.succeed(0), handlers: {} })
        for (const wrong of [undefined, null, 5, {}, other, { init: Effect.succeed({ total: 0 }), handlers }]) {
          const error = yield* Effect.flip(startWith(wrong, { tuid }))
          assert.deepStrictEqual(told(error, "option"), ["InvalidOption", "Till", "behaviour"])
          const layer = loose.layer(wrong).pipe(Layer.provide(actions))
          const built: any = yield* Effect.flip(Effect.scoped(Layer.build(layer as Layer.Layer<any, any, any>)))
          assert.deepStrictEqual(told(built, "option"), ["InvalidOption", "Till", "behaviour"])
        }
        assert.deepStrictEqual(yield* scan(tuid), [])
      })
    )
    live(
      "a first state that does not fit is refused with the server and the field",
      Effect.gen(function*() {
        const wrong = loose.behaviour({ init: Effect.succeed({ total: "0" }), handlers })
        const error = yield* Effect.flip(startWith(wrong, { tuid }))
        assert.deepStrictEqual(told(error, "operation", "field"), ["StateError", "Till", "encode", "total"])
        assert.include(error.message, "Till")
        assert.deepStrictEqual(yield* scan(tuid), [])
      })
    )
    live(
      "an init that returns no effect says so",
      Effect.gen(function*() {
        const promised = loose.behaviour({ init: async () => ({ total: 0 }), handlers })
        assert.include(
          defectOf(yield* Effect.exit(startWith(promised, { tuid, ...fast }))),
          "init must return an Effect"
        )
      })
    )
    live(
      "an answer, or a caller, that is none is a defect that says so",
      Effect.gen(function*() {
        const from = { server: "Till", tag: "Total", tuid, process: new Uint8Array(20), id: 1, millis: 1 }
        const replies = [
          ...[undefined, null, "x", {}, { ...from, tuid: "x" }, { ...from, process: "x" }, { ...from, id: {} }]
            .map((caller) => loose.replyTo(caller, Exit.succeed(1))),
          ...[undefined, 5, {}].map((exit) => loose.replyTo(from, exit))
        ]
        for (const reply of replies) {
          assert.include(defectOf(yield* Effect.exit(Tenant.transact(reply))), "Till.replyTo")
        }
        assert.deepStrictEqual(yield* scan(tuid), [])
      })
    )
    live(
      "what no queue can do is refused",
      Effect.gen(function*() {
        const queue = Till.queue({ tuid })
        const operations: any = DurableQueue
        const items = [undefined, "abc", ["abc"], [5], [null], [new Uint16Array(2)], {}]
        const refused = [
          ...items.map((all) => operations.pushAll(queue, all)),
          ...[undefined, null, "5", 0, 1.5, bare].map((limit) => operations.consume(queue, limit)),
          ...[null, 5, { after: 5 }, { after: "x" }, { limit: "5" }].map((o) => operations.peekDeadLetters(queue, o)),
          ...["length", "watchPush", "delete", "deadLetterCount"].map((operation) => operations[operation](bare))
        ]
        for (const transaction of refused) {
          const error: any = yield* Effect.flip(Tenant.transact(transaction))
          assert.strictEqual(error.reason._tag, "InvalidArgument")
        }
        for (const id of [undefined, 5, bare, "x"]) {
          const error: any = yield* Effect.flip(Tenant.transact(operations.requeueDeadLetter(queue, id)))
          assert.strictEqual(error._tag, "DeadLetterNotFound")
        }
        assert.deepStrictEqual(yield* scan(tuid), [])
      })
    )
  })
}

/** Definitions that no server can have: thrown where they are made, with what is wrong. */
export const badDefinitionsSuite = () => {
  const define: any = DgenServer.Service()
  const parts: any = DgenServer
  const fine = { state: Schema.Int, messages: {} }
  const cases: { readonly [what: string]: readonly [() => unknown, RegExp] } = {
    "no name": [() => define(undefined, fine), /name/],
    "an empty name": [() => define("", fine), /name/],
    "no definition": [() => define("X", undefined), /X: the definition/],
    "no state": [() => define("X", { messages: {} }), /X: the state/],
    "no messages": [() => define("X", { state: Schema.Int }), /X: messages/],
    "a message of its own making": [
      () => define("X", { ...fine, messages: { A: { payload: {} } } }),
      /X: the message "A"/
    ],
    "an action that is no schema": [
      () => define("X", { ...fine, actions: { A: 5 } }),
      /X: the payload of the action "A"/
    ],
    "a message whose options are none": [() => parts.info(null), /DgenServer.info/],
    "a payload that is no schema": [() => parts.cast({ payload: { a: 5 } }), /DgenServer.cast: the payload/],
    "an answer that is no schema": [() => parts.call({ success: 5 }), /DgenServer.call: success/],
    "an error that is no schema": [() => parts.call({ error: "x" }), /DgenServer.call: error/],
    "a lock that is neither": [() => parts.call({ locks: "yes" }), /DgenServer.call: locks/],
    "no behaviour": [() => loose.behaviour(undefined), /Till: a behaviour/],
    "no handlers": [() => loose.behaviour({ init: Effect.succeed({ total: 0 }) }), /Till: there is no handler/],
    "no init": [() => loose.behaviour({ handlers }), /Till: init/],
    "no actions": [() => loose.actionsLayer(undefined), /Till: there is no handler of the action for Print/],
    "no handler of dead letters": [() => loose.deadLetterLayer(5), /Till: the handler of dead letters/]
  }
  describe("definitions that are none", () => {
    for (const [what, [make, says]] of Object.entries(cases)) {
      it(`${what}: thrown at once`, () => {
        assert.throws(make, TypeError, says)
      })
    }
  })
}

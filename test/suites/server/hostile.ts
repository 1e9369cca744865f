/** What handlers, schemas and senders do to a server that they should not, and what must hold nevertheless. */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Schema, SchemaGetter } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { type Run, startMill } from "./mill.ts"
import { failureOf, fast, type Store, testsOf } from "./support.ts"

/** A number, unless it is one of those that its schema throws at. */
const Sharp = (encode: number, decode: number) => {
  const throwAt = (bad: number) =>
    SchemaGetter.transform((value: number) => {
      if (value === bad) throw new RangeError(`no ${bad} here`)
      return value
    })
  return Schema.Int.pipe(
    Schema.decodeTo(Schema.Int, { decode: throwAt(decode), encode: throwAt(encode) })
  )
}

class Blunt extends DgenServer.Service<Blunt>()("Blunt", {
  state: Schema.Struct({ log: Schema.Array(Schema.Int) }),
  messages: {
    Put: DgenServer.cast({ payload: Sharp(1, 2) }),
    Ask: DgenServer.call({ payload: Sharp(1, 2), success: Sharp(3, 4) }),
    Leave: DgenServer.call(),
    Log: DgenServer.call({ success: Schema.Array(Schema.Int) })
  }
}) {}

const blunt = Blunt.behaviour({
  init: Effect.succeed({ log: [] }),
  handlers: {
    Put: (n, { log }) => DgenServer.noReply({ log: [...log, n] }),
    Ask: (n, { log }) => DgenServer.reply(n, { log: [...log, n] }),
    Leave: (_, state) => DgenServer.stop(Object.create(null), state),
    Log: (_, state) => DgenServer.reply(state.log, state)
  }
})

const startBlunt = (options: DgenServer.Options = {}) => Blunt.start(blunt, { ...fast, tuid: ["Blunt"], ...options })

export const hostileSuite = (name: string, backend: Store): void => {
  const live = testsOf(backend, "hostile")
  describe(`${name}: hostile programs`, () => {
    for (const consumeK of [1, 10]) {
      live(
        `a payload whose schema throws when it is decoded is poison like any other (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* startBlunt({ consumeK, deadLetterThreshold: 2 })
          yield* server.castAll([["Put", 7], ["Put", 2], ["Put", 8]])
          assert.deepStrictEqual(yield* server.call("Log"), [7, 8])
          const [letter] = yield* Tenant.transact(DurableQueue.peekDeadLetters(Blunt.queue()))
          assert.include(letter!.cause, "no 2 here")
          assert.strictEqual(letter!.attempts, 2)
          const error = yield* Effect.flip(server.call("Ask", 2))
          // a handle that would handle it itself sees it at once; in the queue it is poison
          assert.strictEqual(error._tag, consumeK === 1 ? "InvalidPayload" : "DeadLettered")
          const cast = yield* Effect.flip(server.priorityCast("Put", 2))
          assert.strictEqual(cast._tag, "InvalidPayload")
          assert.include(cast.message, "no 2 here")
        })
      )
      live(
        `an answer whose schema throws is an error of its call, and holds nobody up (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* startBlunt({ consumeK })
          const encoding = yield* Effect.flip(server.call("Ask", 3))
          assert.strictEqual(encoding._tag, "HandlerCrashed")
          const decoding = yield* Effect.flip(server.call("Ask", 4))
          assert.strictEqual(decoding._tag, "HandlerCrashed")
          assert.deepStrictEqual(yield* server.call("Log"), [3, 4])
        })
      )
      live(
        `a payload whose schema throws when it is encoded is refused, and not sent (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* startBlunt({ consumeK })
          for (const run of [server.call("Ask", 1), server.cast("Put", 1), server.priorityCast("Put", 1)]) {
            const error = yield* Effect.flip(run as Effect.Effect<unknown, DgenServer.CallError>)
            assert.strictEqual(error._tag, "InvalidPayload")
          }
          assert.strictEqual(yield* server.queueLength, 0)
        })
      )
      live(
        `a stop with a reason that is no text stops (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* startBlunt({ consumeK })
          assert.strictEqual((yield* Effect.flip(server.call("Leave")))._tag, "ServerStopped")
        })
      )
    }
    for (const consumeK of [1, 10]) {
      live(
        `a call that is too large, or no text, is refused whether it would run inline or not (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const runs: Array<Run> = []
          const server = yield* startMill({ consumeK }, runs)
          const large = yield* Effect.flip(server.call("Ask", { item: "x".repeat(6_000_000), does: "" }))
          assert.strictEqual(large._tag, "PayloadTooLarge")
          const torn = yield* Effect.flip(server.call("Ask", { item: "\ud800", does: "" }))
          assert.strictEqual(torn._tag, "InvalidPayload")
          assert.deepStrictEqual(runs, [])
        })
      )
    }
    live(
      "calls that wait behind one that stops the handle are not handled",
      Effect.gen(function*() {
        const server = yield* startBlunt()
        const [before, leave, ...after] = yield* Effect.forEach(
          [server.call("Ask", 11), server.call("Leave"), server.call("Ask", 12), server.call("Ask", 13)],
          (call) => Effect.forkChild(call as Effect.Effect<unknown, DgenServer.CallError>, { startImmediately: true })
        )
        assert.strictEqual(yield* Fiber.join(before!), 11)
        for (const call of [leave!, ...after]) {
          assert.strictEqual((yield* failureOf(call))._tag, "ServerStopped")
        }
        assert.deepStrictEqual((yield* server.state)!.log, [11])
      })
    )
  })
}

/**
 * A consumer that meets messages of another version of its program: it steps back from them, for so long that a
 * deployment has ended. Under a clock that the tests set, in memory.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Logger, Schema, Scope } from "effect"
import { type Backend, DgenServer, DurableQueue, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { TestClock } from "effect/testing"
import { packValue } from "../../src/internal/data/codec.ts"
import { elsewhere, fast, inside, keptLogs, keysOf, overwrite } from "../suites/server/support.ts"

const timed = (title: string, test: Effect.Effect<void, unknown, Tenant.Tenant | Backend.Backend | Scope.Scope>) =>
  it.effect(title, () =>
    test.pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["versions"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
      Effect.provide(Logger.layer([]))
    ))

const settle = Effect.repeat(Effect.yieldNow, { times: 200 })

const pass = (duration: Parameters<typeof TestClock.adjust>[0]) =>
  Effect.andThen(Effect.andThen(settle, TestClock.adjust(duration)), settle)

const state = Schema.Array(Schema.String)

class Old extends DgenServer.Service<Old>()("Till", {
  state,
  messages: {
    Add: DgenServer.cast({ payload: { item: Schema.String } }),
    Ask: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int }),
    Look: DgenServer.call({ success: Schema.Int }),
    Note: DgenServer.info({ payload: { item: Schema.String } })
  }
}) {}

/** The next release: a new message, and one whose payload has another form. */
class New extends DgenServer.Service<New>()("Till", {
  state,
  messages: {
    Add: DgenServer.cast({ payload: { item: Schema.Union([Schema.String, Schema.Struct({ sku: Schema.Int })]) } }),
    Extra: DgenServer.cast({ payload: { item: Schema.String } }),
    ExtraCall: DgenServer.call({ success: Schema.Int }),
    Ask: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int }),
    Look: DgenServer.call({ success: Schema.Int }),
    Note: DgenServer.info({ payload: { item: Schema.String } })
  }
}) {}

class Other extends DgenServer.Service<Other>()("Other", {
  state: Schema.Int,
  messages: {
    Add: DgenServer.cast({ payload: { item: Schema.String } }),
    Look: DgenServer.call({ success: Schema.Int })
  }
}) {}

type Items = ReadonlyArray<string>

const old = Old.behaviour({
  init: Effect.succeed([]),
  handlers: {
    Add: ({ item }, items) => DgenServer.noReply([...items, item]),
    Ask: ({ item }, items) => DgenServer.reply(items.length + 1, [...items, item]),
    Look: (_, items) => DgenServer.reply(items.length, items),
    Note: ({ item }, items) => DgenServer.noReply([...items, item])
  }
})

const add = ({ item }: { readonly item: unknown }, items: Items) => DgenServer.noReply([...items, JSON.stringify(item)])

const next = New.behaviour({
  init: Effect.succeed([]),
  handlers: {
    Add: add,
    Extra: add,
    ExtraCall: (_, items) => DgenServer.reply(items.length, items),
    Ask: ({ item }, items) => DgenServer.reply(items.length + 1, [...items, item]),
    Look: (_, items) => DgenServer.reply(items.length, items),
    Note: ({ item }, items) => DgenServer.noReply([...items, item])
  }
})

const tuid = ["Till"]

const startOld = (options: DgenServer.Options = {}) =>
  Old.start(old, { tuid, ...fast, deadLetterThreshold: 3, ...options })

const letters = Tenant.transact(DurableQueue.peekDeadLetters(Old.queue()))

/** A message as a version after this one may write it, before all that is pushed. */
const newerFormat = Effect.gen(function*() {
  const { items } = yield* keysOf(tuid)
  const message = Buffer.concat([new Uint8Array(4), packValue([2, { whatever: "it says" }, null])])
  const key = Tuple.pack([new Tuple.Versionstamp(new Uint8Array(10)), 0, 1], items)
  yield* overwrite([{ op: "set", key, value: new Uint8Array(message) }])
})

const foreign: { readonly [what: string]: Effect.Effect<unknown, any, Tenant.Tenant | Backend.Backend> } = {
  "a message that it does not know": Effect.flatMap(New.client(), (client) => client.cast("Extra", { item: "x" })),
  "a payload of another schema": Effect.flatMap(New.client(), (client) => client.cast("Add", { item: { sku: 1 } })),
  "an envelope of a later version": newerFormat
}

describe("a consumer that meets", () => {
  for (const [what, send] of Object.entries(foreign)) {
    for (const consumeK of [1, 10]) {
      timed(
        `${what} leaves it alone for ten minutes, and what is behind it; then it fails (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const logs = keptLogs()
          const server = yield* startOld({ consumeK }).pipe(Effect.provide(logs.layer))
          const client = yield* inside(yield* elsewhere)(Old.client())
          yield* client.cast("Add", { item: "before" })
          yield* pass("1 seconds")
          yield* send
          yield* client.cast("Add", { item: "behind" })
          yield* pass("1 seconds")
          // an inline call joins the queue
          const call = yield* Effect.forkChild(server.call("Ask", { item: "call" }, { timeout: "1 hour" }))
          yield* pass("9 minutes")
          assert.deepStrictEqual(yield* letters, [])
          assert.deepStrictEqual(yield* server.state, ["before"])
          // what goes past the queue is served
          assert.strictEqual(yield* server.priorityCall("Look"), 1)
          yield* server.info("Note", { item: "info" })
          assert.deepStrictEqual(yield* server.state, ["before", "info"])
          yield* pass("58 seconds")
          assert.deepStrictEqual(yield* letters, [])
          assert.strictEqual(logs.count("this version cannot read"), 1)
          assert.strictEqual(logs.count("crashed"), 0)
          yield* pass("10 seconds")
          const [letter] = yield* letters
          assert.strictEqual(letter!.attempts, 3)
          assert.deepStrictEqual(yield* server.state, ["before", "info", "behind", "call"])
          assert.strictEqual(yield* Fiber.join(call), 4)
        })
      )
    }
    timed(
      `${what} goes on as soon as another version has taken it`,
      Effect.gen(function*() {
        const server = yield* startOld()
        yield* send
        yield* server.cast("Add", { item: "behind" })
        yield* pass("5 minutes")
        if (what === "an envelope of a later version") {
          // as that version would: it takes it off the queue
          const { items } = yield* keysOf(tuid)
          yield* overwrite([{
            op: "clear",
            key: Tuple.pack([new Tuple.Versionstamp(new Uint8Array(10)), 0, 1], items)
          }])
        } else {
          const scope = yield* Scope.fork(yield* Effect.scope)
          yield* inside(yield* elsewhere)(
            Effect.provideService(New.start(next, { tuid, ...fast, deadLetterThreshold: 1 }), Scope.Scope, scope)
          )
          yield* settle
          yield* Scope.close(scope, Exit.void)
        }
        yield* pass("31 seconds")
        yield* server.cast("Add", { item: "after" })
        yield* pass("1 seconds")
        assert.deepStrictEqual(yield* letters, [])
        assert.strictEqual((yield* server.state)?.at(-1), "after")
        assert.strictEqual(yield* server.queueLength, 0)
      })
    )
  }

  timed(
    "one counts from the first meeting, whoever met it",
    Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope)
      yield* Effect.provideService(startOld(), Scope.Scope, scope)
      const client = yield* New.client()
      yield* client.cast("Extra", { item: "x" })
      yield* pass("6 minutes")
      yield* Scope.close(scope, Exit.void)
      yield* inside(yield* elsewhere)(startOld({ deadLetterThreshold: 1 }))
      yield* pass("3 minutes")
      assert.deepStrictEqual(yield* letters, [])
      yield* pass("61 seconds")
      assert.strictEqual((yield* letters).length, 1)
    })
  )

  timed(
    "one for another time, if it is told so; the caller hears of the end",
    Effect.gen(function*() {
      yield* startOld({ unreadableGrace: "1 minute", deadLetterThreshold: 1 })
      const client = yield* New.client()
      const call = yield* Effect.forkChild(Effect.flip(client.call("ExtraCall", undefined, { timeout: "1 hour" })))
      yield* pass("59 seconds")
      assert.deepStrictEqual(yield* letters, [])
      yield* pass("2 seconds")
      assert.strictEqual((yield* Fiber.join(call))._tag, "DeadLettered")
    })
  )

  timed(
    "one with no grace at once, and one without an end never",
    Effect.gen(function*() {
      const client = yield* New.client()
      const scope = yield* Scope.fork(yield* Effect.scope)
      yield* Effect.provideService(startOld({ unreadableGrace: "Infinity" }), Scope.Scope, scope)
      yield* client.cast("Extra", { item: "x" })
      yield* pass("10 days")
      assert.deepStrictEqual(yield* letters, [])
      yield* Scope.close(scope, Exit.void)
      yield* startOld({ unreadableGrace: 0 })
      yield* pass("1 seconds")
      assert.strictEqual((yield* letters).length, 1)
    })
  )

  it.effect("a grace that is none refuses the start", () =>
    Effect.gen(function*() {
      for (const unreadableGrace of [-1, "a while", NaN] as ReadonlyArray<any>) {
        const error = yield* Effect.flip(startOld({ unreadableGrace }))
        assert.deepInclude(error, { _tag: "InvalidOption", option: "unreadableGrace" })
      }
    }).pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["versions"]).pipe(Layer.provide(MemoryBackend.layer)))
    ))

  timed(
    "a message for another definition buries it at once, whatever the threshold, and tells the caller",
    Effect.gen(function*() {
      const server = yield* startOld({ deadLetterThreshold: Infinity, consumeK: 5 })
      const other = yield* Other.client({ tuid })
      yield* server.cast("Add", { item: "before" })
      yield* other.cast("Add", { item: "misled" })
      const call = yield* Effect.forkChild(Effect.flip(other.call("Look")))
      yield* server.cast("Add", { item: "behind" })
      yield* pass("1 seconds")
      assert.deepStrictEqual(yield* server.state, ["before", "behind"])
      assert.deepInclude(yield* Fiber.join(call), {
        _tag: "DefinitionMismatch",
        server: "Other",
        stored: "Till",
        tuid: "[\"Till\"]"
      })
      const found = yield* letters
      assert.deepStrictEqual(found.map(({ tag }) => tag), ["Add", "Look"])
      assert.include(found[0]!.cause, "Other")
    })
  )

  timed(
    "a message that does not say for whom it is takes it as its own",
    Effect.gen(function*() {
      const { items } = yield* keysOf(tuid)
      const message = Buffer.concat([
        new Uint8Array(4),
        packValue([1, "Add", { item: "old" }, null, null, 0, null])
      ])
      const key = Tuple.pack([new Tuple.Versionstamp(new Uint8Array(10)), 0, 1], items)
      yield* overwrite([{ op: "set", key, value: new Uint8Array(message) }])
      const server = yield* startOld()
      yield* pass("1 seconds")
      assert.deepStrictEqual(yield* server.state, ["old"])
    })
  )
})

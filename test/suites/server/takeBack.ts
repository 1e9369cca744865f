/** What a handler that fails takes back, and what a message keeps when it is put back. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Option, Schema, type Scope } from "effect"
import { type Backend, type BackendError, DgenServer, DurableQueue, Tenant, Transaction } from "effect-dgen"

class Till extends DgenServer.Service<Till>()("Till", {
  state: Schema.Struct({ taken: Schema.Array(Schema.String) }),
  messages: {
    Take: DgenServer.call({ payload: { item: Schema.String, fails: Schema.Boolean }, error: Schema.String }),
    Wipe: DgenServer.call({ error: Schema.String }),
    Noted: DgenServer.cast({ payload: { item: Schema.String } }),
    Hold: DgenServer.call({ success: Schema.Array(Schema.String), locks: true }),
    Poison: DgenServer.cast()
  }
}) {}

const till = Till.behaviour({
  init: Effect.succeed({ taken: [] }),
  handlers: {
    Take: Effect.fnUntraced(function*({ fails, item }, state) {
      yield* Transaction.set(["item", item], new Uint8Array(1))
      yield* Transaction.add(["count"], 1)
      yield* Effect.orDie(Till.castTx("Noted", { item }))
      if (fails) return yield* Effect.fail("refused")
      return DgenServer.reply(undefined, { taken: [...state.taken, item] })
    }),
    Wipe: Effect.fnUntraced(function*() {
      yield* Transaction.clearRange(["item"])
      yield* Transaction.set(["item", "new"], new Uint8Array(1))
      return yield* Effect.fail("refused")
    }),
    Noted: ({ item }, state) => DgenServer.noReply({ taken: [...state.taken, `noted ${item}`] }),
    Hold: (_, state) => DgenServer.lock(state),
    Poison: () => Effect.die(new Error("poison"))
  }
})

const count = Tenant.transact(
  Effect.map(
    Transaction.get(["count"]),
    (bytes) => bytes === undefined ? 0 : new DataView(bytes.buffer).getInt32(0, true)
  )
)

const items = Tenant.transact(Effect.map(Transaction.getRange(["item"]), (rows) => rows.map((row) => row.key[1])))

export const takeBackSuite = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>) => {
  let paths = 0
  const live = (title: string, test: Effect.Effect<void, unknown, Tenant.Tenant | Scope.Scope>) =>
    it.live(title, () =>
      test.pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["till", String(++paths)]).pipe(Layer.provide(backend))),
        Effect.provide(Logger.layer([]))
      ))
  const start = (options: DgenServer.Options, ids: (id: string) => Effect.Effect<ReadonlyArray<string>>) =>
    Till.start(till, { tuid: ["Till"], ...options }).pipe(
      Effect.provide(Till.lockedLayer({
        Hold: (_, state, { id }) => Effect.map(ids(id), (all) => DgenServer.reply(all, state))
      }))
    )
  const idle = () => Effect.succeed([])

  describe(`${name}: what is taken back, and what is kept`, () => {
    for (const consumeK of [1, 8]) {
      live(
        `a handler that fails leaves nothing of what it wrote and sent (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* start({ consumeK }, idle)
          const take = (item: string, fails: boolean) => Effect.exit(server.call("Take", { item, fails }))
          const exits = yield* Effect.forEach(
            [take("a", false), take("b", true), take("c", false), take("d", true)],
            (one) => one,
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, false, true, false])
          // a call that comes after all casts
          assert.strictEqual(yield* Effect.flip(server.call("Wipe")), "refused")
          assert.strictEqual(yield* count, 2)
          assert.deepStrictEqual(yield* items, ["a", "c"])
          assert.deepStrictEqual([...(yield* server.state)!.taken].sort(), ["a", "c", "noted a", "noted c"])
        })
      )
    }

    live(
      "a message that is put back keeps its id, and so does its dead letter",
      Effect.gen(function*() {
        const first = yield* Deferred.make<string>()
        const seen: Array<string> = []
        const server = yield* start({ consumeK: 5, deadLetterThreshold: 1 }, (id) =>
          Effect.suspend(() => {
            seen.push(id)
            if (seen.length > 1) return Effect.succeed(seen)
            return Effect.andThen(Deferred.succeed(first, id), Effect.never)
          }))
        const other = yield* Effect.forkChild(server.call("Hold", undefined, { timeout: "1 minute" }))
        yield* Deferred.await(first)
        assert.isTrue(yield* Tenant.transact(Till.unlock()))
        // a second consumer takes the message, since the first still runs its handler
        yield* start({ consumeK: 5 }, (id) =>
          Effect.sync(() => {
            seen.push(id)
            return seen
          }))
        const ids = yield* Fiber.join(other)
        assert.lengthOf(ids, 2)
        assert.strictEqual(ids[0], ids[1])
      })
    )

    live(
      "a dead letter's handler is told the message's id, and it is the same after a requeue",
      Effect.gen(function*() {
        const letters: Array<string> = []
        const died = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
        const server = yield* start({ consumeK: 5, deadLetterThreshold: 1 }, idle).pipe(
          Effect.provide(Till.deadLetterLayer((letter) =>
            Effect.suspend(() => {
              letters.push(letter.id)
              return Effect.asVoid(Deferred.succeed(died[letters.length - 1]!, undefined))
            })
          ))
        )
        yield* server.cast("Poison")
        yield* Deferred.await(died[0])
        const [letter] = yield* Tenant.transact(DurableQueue.peekDeadLetters(Till.queue()))
        yield* Tenant.transact(DurableQueue.requeueDeadLetter(Till.queue(), letter!.id))
        yield* Deferred.await(died[1])
        assert.isTrue(letters[0] !== "" && letters[0] === letters[1])
        assert.isTrue(Option.isNone(yield* Tenant.transact(Till.lock())))
      })
    )
  })
}

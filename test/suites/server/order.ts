/** Order, exactly once, and who conflicts with whom (rules R1, R2, R7, R8). */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schema } from "effect"
import { type Backend, DgenServer, Tenant, Transaction } from "effect-dgen"
import { conflict, elsewhere, fast, inside, keysOf, type Store, tapped, testsOf, touches, until } from "./support.ts"

const ONE = Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0)

class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

class Book extends DgenServer.Service<Book>()("Book", {
  state: Schema.Struct({ lines: Schema.Array(Schema.String), sum: Schema.Int }),
  messages: {
    Write: DgenServer.cast({ payload: { line: Schema.String } }),
    Read: DgenServer.call({ success: Schema.Array(Schema.String) }),
    Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
    AddCast: DgenServer.cast({ payload: { by: Schema.Int } }),
    Look: DgenServer.cast(),
    Refuse: DgenServer.call({ payload: { line: Schema.String }, error: Refused })
  }
}) {}

const start = (options: DgenServer.Options = {}, runs: Array<string> = []) =>
  Book.start(
    Book.behaviour({
      init: Effect.succeed({ lines: [], sum: 0 }),
      handlers: {
        Write: ({ line }, state) => {
          runs.push(line)
          return DgenServer.noReply({ ...state, lines: [...state.lines, line] })
        },
        Read: (_, state) => DgenServer.reply(state.lines, state),
        Add: ({ by }, state) => {
          runs.push(`add ${by}`)
          return DgenServer.reply(state.sum + by, { ...state, sum: state.sum + by })
        },
        AddCast: ({ by }, state) => DgenServer.noReply({ ...state, sum: state.sum + by }),
        Look: (_, state) => Effect.as(Transaction.add(["looks"], 1), DgenServer.noReply(state)),
        Refuse: Effect.fnUntraced(function*({ line }) {
          yield* Transaction.set(["refused", line], Uint8Array.of(1))
          yield* Transaction.set(["kept"], Uint8Array.of(2))
          yield* Transaction.clearRange(["cleared"])
          yield* Effect.orDie(Book.castTx("Write", { line }))
          return yield* new Refused()
        })
      }
    }),
    { ...fast, tuid: ["Book"], ...options }
  )

/** A tenant layer whose first commit that takes a message, or changes the head, is held up. */
const heldUp = (prefix: Uint8Array) =>
  Effect.gen(function*() {
    const begun = yield* Deferred.make<void>()
    const go = yield* Deferred.make<void>()
    const control = { hold: false }
    const tenant = yield* tapped({
      before: ({ mutations }: Backend.CommitRequest) =>
        Effect.suspend(() => {
          if (!control.hold || !mutations.some(touches(prefix))) return Effect.void
          control.hold = false
          return Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go))
        })
    })
    return { begun: Deferred.await(begun), go: Deferred.succeed(go, undefined), tenant, control }
  })

export const orderSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "order")

  describe(`${name}: order`, () => {
    for (const consumeK of [1, 3, 50]) {
      live(
        `messages of one sender are handled in its order, once, with several consumers (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const server = yield* start({ consumeK })
          const others = [yield* elsewhere, yield* elsewhere]
          for (const other of others) yield* inside(other)(start({ consumeK }))
          const senders = [yield* Book.client()]
          for (const other of others) senders.push(yield* inside(other)(Book.client()))
          yield* Effect.forEach(
            senders,
            (sender, s) =>
              Effect.forEach(Array.from({ length: 15 }, (_, i) => i), (i) =>
                i % 5 === 0
                  ? sender.castAll([["Write", { line: `${s} ${i}` }], ["Write", { line: `${s} ${i}+` }]])
                  : sender.cast("Write", { line: `${s} ${i}` })),
            { concurrency: "unbounded" }
          )
          const { lines } = (yield* until(server.state, (state) => state!.lines.length >= 54))!
          for (const s of [0, 1, 2]) {
            const own = lines.filter((line) => line.startsWith(`${s} `))
            const expected = Array.from(
              { length: 15 },
              (_, i) => i % 5 === 0 ? [`${s} ${i}`, `${s} ${i}+`] : [`${s} ${i}`]
            )
            assert.deepStrictEqual(own, expected.flat())
          }
          assert.strictEqual(lines.length, 54)
        })
      )
    }
    live(
      "pushes while a batch commits do not make it run again",
      Effect.gen(function*() {
        const runs: Array<string> = []
        const { begun, control, go, tenant } = yield* Effect.flatMap(keysOf(["Book"]), ({ pop }) => heldUp(pop))
        const sender = yield* Book.client()
        yield* inside(tenant)(start({ consumeK: 2 }, runs))
        control.hold = true
        yield* sender.castAll(["a", "b"].map((line) => ["Write", { line }] as const))
        yield* begun
        for (const line of ["c", "d"]) yield* sender.cast("Write", { line })
        assert.strictEqual(yield* sender.queueLength, 4)
        yield* go
        yield* until(sender.state, (state) => state!.lines.length === 4)
        assert.deepStrictEqual(runs, ["a", "b", "c", "d"])
      })
    )
    live(
      "pushes while an inline call commits do not make it run again, and are ordered after it",
      Effect.gen(function*() {
        const runs: Array<string> = []
        const { begun, control, go, tenant } = yield* Effect.flatMap(keysOf(["Book"]), ({ head }) => heldUp(head))
        const server = yield* inside(tenant)(start({}, runs))
        const sender = yield* Book.client()
        control.hold = true
        const call = yield* Effect.forkChild(server.call("Add", { by: 1 }))
        yield* begun
        const stopping = yield* Effect.forkChild(server.stop(), { startImmediately: true })
        yield* sender.cast("Write", { line: "after" })
        yield* go
        assert.strictEqual(yield* Fiber.join(call), 1)
        yield* Fiber.join(stopping)
        assert.deepStrictEqual(runs, ["add 1"])
        yield* start({}, runs)
        yield* until(sender.state, (state) => state!.lines.length === 1)
        assert.deepStrictEqual(runs, ["add 1", "after"])
      })
    )
    live(
      "two consumers that take one message handle it once, also when it changes no state",
      Effect.gen(function*() {
        const { pop } = yield* keysOf(["Book"])
        const both = yield* Deferred.make<void>()
        let taking = 0
        const hooks = {
          before: ({ mutations }: Backend.CommitRequest) =>
            Effect.suspend(() => {
              if (!mutations.some(touches(pop)) || taking >= 2) return Effect.void
              if (++taking === 2) Deferred.doneUnsafe(both, Effect.void)
              return Deferred.await(both)
            })
        }
        const sender = yield* Book.client()
        yield* sender.cast("Look")
        const takers = yield* Effect.forEach(
          [1, 2],
          () => Effect.flatMap(tapped(hooks), (tenant) => inside(tenant)(start({ consumeK: 2 })))
        )
        yield* Deferred.await(both)
        for (const taker of takers) yield* taker.stop()
        assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["looks"])), ONE)
        assert.strictEqual(yield* sender.queueLength, 0)
      })
    )
    live(
      "a batch whose commit is refused is applied once when it passes",
      Effect.gen(function*() {
        const runs: Array<string> = []
        let refusals = 4
        const { pop } = yield* keysOf(["Book"])
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            Effect.suspend(() => mutations.some(touches(pop)) && refusals-- > 0 ? Effect.fail(conflict) : Effect.void)
        })
        const sender = yield* Book.client()
        yield* sender.castAll(["a", "b"].map((line) => ["Write", { line }] as const))
        const server = yield* inside(tenant)(start({ consumeK: 2 }, runs))
        yield* until(sender.queueLength, (length) => length === 0)
        // four refused runs and the one that counts; batches that are refused again and again get smaller
        assert.isAtLeast(runs.length, 8)
        assert.deepStrictEqual(yield* server.call("Read"), ["a", "b"])
      })
    )
    live(
      "every message counts once, whatever way it comes and whoever handles it",
      Effect.gen(function*() {
        const one = yield* start()
        const two = yield* start({ consumeK: 4 })
        const three = yield* Effect.flatMap(elsewhere, (context) => inside(context)(start({ consumeK: 2 })))
        const handles = [one, two, three]
        const ways = handles.flatMap((handle) => [
          handle.call("Add", { by: 1 }, { timeout: "20 seconds" }),
          handle.priorityCall("Add", { by: 1 }, { timeout: "20 seconds" }),
          handle.cast("AddCast", { by: 1 }),
          handle.priorityCast("AddCast", { by: 1 }),
          handle.castAll([["AddCast", { by: 1 }], ["AddCast", { by: 1 }]])
        ])
        yield* Effect.forEach(
          Array.from({ length: 5 }, () => ways).flat(),
          (way) => way as Effect.Effect<unknown, any>,
          {
            concurrency: "unbounded",
            discard: true
          }
        )
        yield* until(one.queueLength, (length) => length === 0)
        assert.strictEqual((yield* until(one.state, (state) => state!.sum >= 90))!.sum, 90)
        assert.strictEqual(yield* two.call("Add", { by: 0 }), 90)
      })
    )
    for (const [way, options] of Object.entries({ inline: {}, queued: { consumeK: 5 } })) {
      live(
        `a handler that fails with its declared error leaves nothing that it wrote or sent (${way})`,
        Effect.gen(function*() {
          const server = yield* start(options)
          yield* Tenant.transact(Effect.andThen(
            Transaction.set(["kept"], Uint8Array.of(1)),
            Transaction.set(["cleared", "never"], Uint8Array.of(1))
          ))
          const get = (...key: ReadonlyArray<string>) => Tenant.transact(Transaction.get(key))
          for (const call of [server.call, server.priorityCall]) {
            assert.strictEqual((yield* Effect.flip(call("Refuse", { line: "no" })))._tag, "Refused")
          }
          assert.isUndefined(yield* get("refused", "no"))
          assert.deepStrictEqual(yield* get("kept"), Uint8Array.of(1))
          assert.deepStrictEqual(yield* get("cleared", "never"), Uint8Array.of(1))
          assert.strictEqual(yield* server.queueLength, 0)
          assert.deepStrictEqual(yield* server.call("Read"), [])
        })
      )
    }
  })
}

/** What a server writes of its state: only what a message changed, in whatever form the schema has by now. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Exit, HashMap, Option, Schema, Scope } from "effect"
import { type Backend, DgenServer, StateCodec, Tenant } from "effect-dgen"
import { fast, inside, keysOf, rowsUnder, type Store, tapped, testsOf, touches } from "./support.ts"

const Item = Schema.Struct({ id: Schema.String, n: Schema.Int })
type Items = ReadonlyArray<typeof Item.Type>
const items = (...ids: ReadonlyArray<string>): Items => ids.map((id, n) => ({ id, n }))

class Shelf extends DgenServer.Service<Shelf>()("Shelf", {
  state: Schema.Struct({ list: Schema.Array(Item), count: Schema.Int, text: Schema.String }),
  messages: {
    /** The list in this order; what has been there stays the same object. */
    Order: DgenServer.call({ payload: Schema.Array(Schema.String) }),
    /** So many new items at the end. */
    Grow: DgenServer.call({ payload: Schema.Int }),
    Touch: DgenServer.call({ payload: Schema.Int }),
    Count: DgenServer.call({ success: Schema.Int }),
    Text: DgenServer.call({ payload: Schema.Int, success: Schema.Int }),
    Twice: DgenServer.call({ payload: Schema.String }),
    Ids: DgenServer.call({ success: Schema.Array(Schema.String) })
  }
}) {}

const shelf = (list: Items) =>
  Shelf.behaviour({
    init: Effect.succeed({ list, count: 0, text: "" }),
    handlers: {
      Order: (ids, state) =>
        DgenServer.reply(undefined, {
          ...state,
          list: ids.map((id, n) => state.list.find((item) => item.id === id) ?? { id, n })
        }),
      Grow: (count, state) =>
        DgenServer.reply(undefined, {
          ...state,
          list: [
            ...state.list,
            ...Array.from({ length: count }, (_, n) => ({ id: String(state.list.length + n), n }))
          ]
        }),
      Touch: (at, state) =>
        DgenServer.reply(undefined, { ...state, list: state.list.with(at, { ...state.list[at]!, n: -1 }) }),
      Count: (_, state) => DgenServer.reply(state.count + 1, { ...state, count: state.count + 1 }),
      Text: (length, state) => DgenServer.reply(state.text.length, { ...state, text: "x".repeat(length) }),
      Twice: (id, state) => DgenServer.reply(undefined, { ...state, list: [...state.list, ...items(id, id)] }),
      Ids: (_, state) => DgenServer.reply(state.list.map((item) => item.id), state)
    }
  })

/** A shelf that can be started again, and what its commits ask of the store. */
const counted = (list: Items, options: DgenServer.Options) =>
  Effect.gen(function*() {
    const { head, prefix, state } = yield* keysOf(["Shelf"])
    const asked: Array<Backend.Mutation> = []
    const tenant = yield* tapped({ before: ({ mutations }) => Effect.sync(() => void asked.push(...mutations)) })
    const within = (key: Uint8Array) => (mutation: Backend.Mutation) =>
      mutation.op === "clearRange"
        ? Buffer.from(mutation.begin).subarray(0, key.length).equals(Buffer.from(key))
        : touches(key)(mutation)
    let scope = yield* Scope.fork(yield* Effect.scope)
    const open = Effect.suspend(() =>
      inside(tenant)(Shelf.start(shelf(list), { ...fast, tuid: ["Shelf"], ...options }))
        .pipe(Effect.provideService(Scope.Scope, scope))
    )
    let server = yield* open
    return {
      get server() {
        return server
      },
      restart: Effect.gen(function*() {
        yield* Scope.close(scope, Exit.void)
        scope = yield* Scope.fork(yield* Effect.scope)
        server = yield* open
      }),
      /** How many keys of the state, heads, and other keys of the server a call sets and clears. */
      cost: <A, E>(call: Effect.Effect<A, E>) =>
        Effect.gen(function*() {
          asked.length = 0
          yield* call
          const ofState = asked.filter(within(state))
          const heads = asked.filter(within(head)).length
          const others = asked.filter(within(prefix)).length - ofState.length - heads
          const clears = ofState.filter((mutation) => mutation.op.startsWith("clear")).length
          return { sets: ofState.length - clears, clears, heads, others }
        })
    }
  })

export const changesSuite = (name: string, backend: Store): void => {
  const live = testsOf(backend, "changes")
  describe(`${name}: changes of a state`, () => {
    for (const [consumeK, cache] of [[1, true], [1, false], [5, true], [5, false]] as const) {
      // through the queue, a call adds: the item, its counter and the caller's key; and takes all of them away
      const others = consumeK === 1 ? 0 : 6
      live(
        `are all that is written, and a restart shows the same order (consumeK ${consumeK}, cache ${cache})`,
        Effect.gen(function*() {
          const shelf = yield* counted(items("a", "b", "c"), { consumeK, cache })
          const steps: ReadonlyArray<readonly [string, { readonly sets: number; readonly clears: number }]> = [
            // one place
            ["c a b", { sets: 1, clears: 0 }],
            // a place and an item
            ["c x a b", { sets: 2, clears: 0 }],
            ["c x b", { sets: 0, clears: 1 }],
            // one place moves; one item and its place are new; one goes
            ["b y c", { sets: 3, clears: 1 }],
            ["c y b z", { sets: 4, clears: 0 }],
            ["z", { sets: 0, clears: 3 }]
          ]
          for (const [order, cost] of steps) {
            const ids = order.split(" ")
            assert.deepStrictEqual(yield* shelf.cost(shelf.server.call("Order", ids)), { ...cost, heads: 1, others })
            yield* shelf.restart
            assert.deepStrictEqual(yield* shelf.server.call("Ids"), ids)
          }
          // nothing changes: nothing of the state is written
          const nothing = { sets: 0, clears: 0, heads: 0, others }
          assert.deepStrictEqual(yield* shelf.cost(shelf.server.call("Ids")), nothing)
          assert.deepStrictEqual(yield* shelf.cost(shelf.server.call("Count")), { ...nothing, sets: 1, heads: 1 })
        })
      )
    }
    live(
      "of one item cost the same among 10 and among 100,000",
      Effect.gen(function*() {
        const shelf = yield* counted([], { consumeK: 1 })
        yield* shelf.server.call("Grow", 10)
        const few = yield* shelf.cost(shelf.server.call("Touch", 5))
        assert.deepStrictEqual(few, { sets: 1, clears: 0, heads: 1, others: 0 })
        for (let n = 10; n < 100_000; n += Math.min(10_000, 100_000 - n)) {
          yield* shelf.server.call("Grow", Math.min(10_000, 100_000 - n), { timeout: "30 seconds" })
        }
        assert.deepStrictEqual(yield* shelf.cost(shelf.server.call("Touch", 50_000)), few)
        assert.deepStrictEqual(yield* shelf.cost(shelf.server.call("Count")), few)
      })
    )
    live(
      "to two items with one id are refused before the commit, and the state stays",
      Effect.gen(function*() {
        const shelf = yield* counted(items("a"), { consumeK: 1, deadLetterThreshold: 1 })
        const error = yield* Effect.flip(shelf.server.call("Twice", "b"))
        assert.strictEqual(error._tag, "DeadLettered")
        assert.include(error.message, "two items have the id \"b\"")
        assert.deepStrictEqual(yield* shelf.server.call("Ids"), ["a"])
      })
    )
    for (const bytes of [250_000, 5_000_000]) {
      live(
        `of a text of ${bytes} bytes, and back to a small one`,
        Effect.gen(function*() {
          const shelf = yield* counted([], { consumeK: 1, cache: false })
          yield* shelf.server.call("Text", bytes)
          yield* shelf.restart
          assert.strictEqual(yield* shelf.server.call("Text", 3), bytes)
          yield* shelf.restart
          assert.strictEqual(yield* shelf.server.call("Text", 0), 3)
          const { state } = yield* keysOf(["Shelf"])
          assert.isBelow((yield* rowsUnder(state)).length, 8)
        })
      )
    }
    live(
      "of all kinds of values are handled and read back",
      Effect.gen(function*() {
        interface Tree {
          readonly value: number
          readonly under: ReadonlyArray<Tree>
        }
        const Tree = Schema.Struct({
          value: Schema.Int,
          under: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
        })
        class Point extends Schema.Class<Point>("changes/Point")({ x: Schema.Int }) {}
        const State = Schema.Struct({
          point: Point,
          maybe: Schema.Option(Schema.DateTimeUtc),
          big: Schema.BigInt,
          bytes: Schema.Uint8Array,
          map: Schema.ReadonlyMap(Schema.String, Schema.BigInt),
          hash: Schema.HashMap(Schema.String, Schema.Int),
          tree: Tree,
          either: Schema.Union([Schema.Struct({ kind: Schema.Literal("a"), a: Schema.Int }), Schema.String])
        })
        class Box extends DgenServer.Service<Box>()("Box", {
          state: State,
          messages: {
            Put: DgenServer.call({ payload: State, success: State }),
            Get: DgenServer.call({ success: State })
          }
        }) {}
        const value = (n: number): typeof State.Type => ({
          point: new Point({ x: n }),
          maybe: n % 2 === 0 ? Option.none() : Option.some(DateTime.makeUnsafe(n)),
          big: BigInt(n) << 70n,
          bytes: Uint8Array.of(n, 255, 0),
          map: new Map([["k", BigInt(n)]]),
          hash: HashMap.make(["k", n]),
          tree: { value: n, under: [{ value: n + 1, under: [{ value: -0, under: [] }] }] },
          either: n % 2 === 0 ? "text" : { kind: "a", a: n }
        })
        const behaviour = Box.behaviour({
          init: Effect.succeed(value(0)),
          handlers: {
            Put: (next, state) => DgenServer.reply(state, next),
            Get: (_, state) => DgenServer.reply(state, state)
          }
        })
        for (const cache of [true, false]) {
          const box = yield* Box.start(behaviour, { ...fast, tuid: ["Box"], cache, reset: true })
          for (const n of [1, 2, 3]) assert.deepStrictEqual(yield* box.call("Put", value(n)), value(n - 1))
          assert.deepStrictEqual(yield* box.call("Get"), value(3))
          assert.deepStrictEqual(yield* box.state, value(3))
        }
      })
    )
    live(
      "of its schema between two releases: a term becomes components, and a term again",
      Effect.gen(function*() {
        const release = (list: Schema.Codec<Items, any>) => {
          class Deployed extends DgenServer.Service<Deployed>()("Deployed", {
            state: Schema.Struct({ list }),
            messages: {
              Add: DgenServer.call({ payload: Schema.String }),
              Ids: DgenServer.call({ success: Schema.Array(Schema.String) })
            }
          }) {}
          return Deployed.start(
            Deployed.behaviour({
              init: Effect.succeed({ list: [] }),
              handlers: {
                Add: (id, state) => DgenServer.reply(undefined, { list: [...state.list, { id, n: 0 }] }),
                Ids: (_, state) => DgenServer.reply(state.list.map((item) => item.id), state)
              }
            }),
            { ...fast, tuid: ["Deployed"] }
          )
        }
        const { path } = yield* Tenant.Tenant
        const split = Schema.Array(Item)
        const whole = StateCodec.term(split)
        const { state } = yield* keysOf(["Deployed"])
        const expected: Array<string> = []
        for (const [schema, id] of [[whole, "a"], [split, "b"], [whole, "c"], [split, "d"]] as const) {
          const before = (yield* rowsUnder(state)).length
          // each release is a process of its own
          yield* Effect.scoped(
            Effect.gen(function*() {
              const server = yield* release(schema)
              assert.deepStrictEqual(yield* server.call("Ids"), expected)
              assert.lengthOf(yield* rowsUnder(state), before || 2)
              yield* server.call("Add", id)
              assert.deepStrictEqual(yield* server.call("Ids"), [...expected, id])
            }).pipe(Effect.provide(Tenant.layer(path), { local: true }))
          )
          expected.push(id)
          assert.lengthOf(yield* rowsUnder(state), schema === whole ? 2 : 2 + 2 * expected.length)
        }
      })
    )
  })
}

/** What an update writes, and what is refused. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { StateCodec } from "effect-dgen"
import { cell, rows, take, testLayer, within } from "./support.ts"

const Item = Schema.Struct({ id: Schema.String, n: Schema.Int })
const State = Schema.Struct({
  a: Schema.Int,
  b: Schema.optionalKey(Schema.String),
  list: Schema.Array(Item),
  record: Schema.Record(Schema.String, Schema.Int)
})

const items = (...ids: ReadonlyArray<string>) => ids.map((id) => ({ id, n: 0 }))
const test = (title: string, body: Effect.Effect<unknown, unknown, any>) =>
  it.effect(title, () => Effect.provide(body, testLayer) as Effect.Effect<unknown, unknown>)

const failure = <A>(schema: any, value: A) => Effect.flip(cell(schema).write(value))

describe("StateCodec", () => {
  describe("where a state lies", () => {
    test(
      "a key an entry, and two an item",
      Effect.gen(function*() {
        yield* cell(State).write({ a: 1, list: items("x"), record: { k: 2 } })
        assert.deepStrictEqual((yield* rows).map((row) => row.key), [
          [1],
          [1, "a", 0, 0],
          [1, "list", 2],
          [1, "list", 2, "x"],
          [1, "list", 2, "x", 0, 0],
          [1, "record", 1],
          [1, "record", 1, "k", 0, 0]
        ])
      })
    )
    test(
      "a struct in a struct is split, one of many is not, unless a list or a record is in it",
      Effect.gen(function*() {
        const Split = Schema.Struct({ id: Schema.String, inner: Schema.Struct({ tags: Schema.Array(Item) }) })
        const schema = Schema.Struct({
          one: Schema.Struct({ x: Schema.Int }),
          many: Schema.Record(Schema.String, Schema.Struct({ x: Schema.Int })),
          splits: Schema.Array(Split)
        })
        yield* cell(schema).write({
          one: { x: 1 },
          many: { k: { x: 1 } },
          splits: [{ id: "s", inner: { tags: items("t") } }]
        })
        assert.deepStrictEqual((yield* rows).map((row) => row.key), [
          [1],
          [1, "many", 1],
          [1, "many", 1, "k", 0, 0],
          [1, "one", 1],
          [1, "one", 1, "x", 0, 0],
          [1, "splits", 2],
          [1, "splits", 2, "s"],
          [1, "splits", 2, "s", 1],
          [1, "splits", 2, "s", 1, "id", 0, 0],
          [1, "splits", 2, "s", 1, "inner", 1],
          [1, "splits", 2, "s", 1, "inner", 1, "tags", 2],
          [1, "splits", 2, "s", 1, "inner", 1, "tags", 2, "t"],
          [1, "splits", 2, "s", 1, "inner", 1, "tags", 2, "t", 0, 0]
        ])
      })
    )
    test(
      "a recursive schema is split until it comes back to itself",
      Effect.gen(function*() {
        interface Tree {
          readonly id: string
          readonly children: ReadonlyArray<Tree>
        }
        const Tree = Schema.Struct({
          id: Schema.String,
          children: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
        })
        yield* cell(Tree).write({ id: "r", children: [{ id: "c", children: [{ id: "d", children: [] }] }] })
        assert.deepStrictEqual((yield* rows).map((row) => row.key), [
          [1],
          [1, "children", 2],
          [1, "children", 2, "c"],
          [1, "children", 2, "c", 0, 0],
          [1, "id", 0, 0]
        ])
      })
    )
    test(
      "annotations override it",
      Effect.gen(function*() {
        const schema = Schema.Struct({
          whole: StateCodec.term(State),
          list: Schema.Array(StateCodec.assigns(Item)),
          sure: Schema.optionalKey(StateCodec.components(Schema.Array(Item).check(Schema.isMaxLength(9))))
        })
        yield* cell(schema).write({
          whole: { a: 1, list: [], record: {} },
          list: items("x"),
          sure: items("y")
        })
        assert.deepStrictEqual((yield* rows).map((row) => row.key), [
          [1],
          [1, "list", 2],
          [1, "list", 2, "x"],
          [1, "list", 2, "x", 1],
          [1, "list", 2, "x", 1, "id", 0, 0],
          [1, "list", 2, "x", 1, "n", 0, 0],
          [1, "sure", 2],
          [1, "sure", 2, "y"],
          [1, "sure", 2, "y", 0, 0],
          [1, "whole", 0, 0]
        ])
      })
    )
    test(
      "the last annotation counts, on whichever side of a check",
      Effect.gen(function*() {
        const list = StateCodec.components(Schema.Array(Item)).check(Schema.isMaxLength(9))
        yield* cell(
          Schema.Struct({ a: list, b: StateCodec.term(list), c: StateCodec.components(StateCodec.term(list)) })
        )
          .write({ a: [], b: [], c: [] })
        assert.deepStrictEqual((yield* rows).map((row) => row.key), [[1], [1, "a", 2], [1, "b", 0, 0], [1, "c", 2]])
      })
    )
    it("an annotation that cannot be followed is refused at once, with its place", () => {
      const renamed = Schema.Struct({ a: Schema.Int }).pipe(Schema.encodeKeys({ a: "b" }))
      assert.throws(
        () => StateCodec.make(Schema.Struct({ x: StateCodec.assigns(renamed) })),
        "StateCodec.assigns: the state at \"x\""
      )
      assert.throws(
        () => StateCodec.make(StateCodec.components(Schema.Array(Schema.String))),
        "StateCodec.components: the state is not"
      )
    })
    test(
      "null or undefined beside a list or a struct leaves it split",
      Effect.gen(function*() {
        const schema = Schema.Struct({
          list: Schema.optional(Schema.Array(Item)),
          inner: Schema.NullOr(Schema.Struct({ x: Schema.Int }))
        })
        const state = cell(schema)
        yield* state.write({ list: items("a", "b"), inner: { x: 1 } })
        assert.lengthOf(yield* state.cost({ ...state.value, list: [state.value.list![0]!, { id: "b", n: 2 }] }), 1)
        yield* state.checkForms
        for (const value of [{ list: undefined, inner: null }, { inner: { x: 2 } }, { list: [], inner: null }]) {
          assert.deepStrictEqual(yield* state.write(value), value)
          yield* state.check
          yield* state.checkForms
        }
      })
    )
  })

  describe("an update", () => {
    const first = { a: 1, b: "b", list: items("w", "x", "y", "z"), record: { k: 1, l: 2 } }
    const update = (title: string, change: (value: typeof State.Type) => typeof State.Type, expected: Array<string>) =>
      test(
        title,
        Effect.gen(function*() {
          const state = cell(State)
          yield* state.write(first)
          const next = change(state.value)
          assert.deepStrictEqual((yield* state.cost(next)).sort(), expected.sort())
          assert.deepStrictEqual(state.value, next)
          yield* state.check
          yield* state.checkForms
        })
      )
    // a key below the state: 0x15 0x01 is the tag of assigns, 0x15 0x02 that of components, 0x14 0x14 a term's piece 0
    const entry = (...path: ReadonlyArray<string>) => path.map((name) => `\x15\x01\x02${name}\x00`).join("")
    const item = (id: string) => `${entry("list")}\x15\x02\x02${id}\x00`
    const term = "\x14\x14"
    const show = (operation: string, key: string) => `${operation} ${JSON.stringify(key)}`

    update("of nothing writes nothing", (value) => ({ ...value, list: [...value.list] }), [])
    update("of an entry writes it", (value) => ({ ...value, a: 2 }), [show("set", entry("a") + term)])
    update("that removes an entry clears it", ({ a, list, record }) => ({ a, list, record }), [
      show("clear", entry("b") + term)
    ])
    update("of an item writes it", (value) => ({ ...value, list: value.list.with(1, { id: "x", n: 1 }) }), [
      show("set", item("x") + term)
    ])
    update("that removes an item clears it", (value) => ({ ...value, list: value.list.toSpliced(1, 1) }), [
      show("clearRange", item("x"))
    ])
    update("that adds an item writes it and its place", (value) => ({
      ...value,
      list: [...value.list, { id: "new", n: 1 }]
    }), [show("set", item("new")), show("set", item("new") + term)])
    update("that moves an item writes its place", ({ list: [w, ...others], ...value }) => ({
      ...value,
      list: [...others, w!]
    }), [show("set", item("w"))])
    update("that reverses a list writes all places but one", (value) => ({ ...value, list: value.list.toReversed() }), [
      show("set", item("x")),
      show("set", item("y")),
      show("set", item("z"))
    ])
    update("of a record's entries writes those", (value) => ({ ...value, record: { l: 2, m: 3 } }), [
      show("clear", entry("record", "k") + term),
      show("set", entry("record", "m") + term)
    ])
    update("that empties a list clears one range", (value) => ({ ...value, list: [] }), [
      show("clearRange", `${entry("list")}\x00`),
      show("set", `${entry("list")}\x15\x02`)
    ])

    test(
      "neither encodes nor compares what is the same object",
      Effect.gen(function*() {
        const encoded: Array<string> = []
        const Watched = Schema.Struct({ id: Schema.String, text: Schema.String }).check(
          Schema.makeFilter((item) => {
            encoded.push(item.id)
            return undefined
          })
        )
        const state = cell(Schema.Struct({ list: Schema.Array(Watched), count: Schema.Int }))
        yield* state.write({ list: ["a", "b", "c"].map((id) => ({ id, text: id })), count: 0 })
        encoded.length = 0
        yield* state.write({ ...state.value, count: 1 })
        assert.deepStrictEqual(encoded, [])
        yield* state.write({ ...state.value, list: state.value.list.toReversed() })
        assert.deepStrictEqual(encoded, [])
        yield* state.write({ ...state.value, list: state.value.list.with(1, { id: "b", text: "new" }) })
        assert.deepStrictEqual([...new Set(encoded)], ["b"])
      })
    )
    test(
      "keeps the objects that did not change, and the whole when nothing did",
      Effect.gen(function*() {
        const state = cell(State)
        yield* state.write(first)
        const before = state.value
        yield* state.write({ ...before, list: before.list.with(0, { id: "w", n: 9 }) })
        assert.strictEqual(state.value.record, before.record)
        assert.strictEqual(state.value.list[3], before.list[3])
        const kept = state.value
        yield* state.write({ ...kept })
        assert.strictEqual(state.value, kept)
      })
    )
    test(
      "of one item writes as much among 10 as among 100,000",
      Effect.gen(function*() {
        const change = Effect.fnUntraced(function*(count: number) {
          const state = cell(Schema.Array(Item))
          const all = Array.from({ length: count }, (_, n) => ({ id: `item ${n}`, n }))
          yield* state.write([])
          for (let to = 10; to < count; to += 10_000) {
            yield* state.write([...state.value, ...all.slice(state.value.length, to)])
          }
          yield* state.write([...state.value, ...all.slice(state.value.length)])
          const middle = count >> 1
          const update = yield* state.cost(state.value.with(middle, { id: `item ${middle}`, n: -1 }))
          const move = yield* state.cost(state.value.with(middle, state.value[0]!).with(0, state.value[middle]!))
          const insert = yield* state.cost(state.value.toSpliced(middle, 0, { id: "new", n: 0 }))
          yield* state.check
          return [update.length, move.length, insert.length]
        })
        assert.deepStrictEqual(yield* change(10), [1, 2, 2])
        yield* within((prefix) => StateCodec.make(Schema.Null).write(prefix, undefined, null))
        assert.deepStrictEqual(yield* change(100_000), [1, 2, 2])
      })
    )
  })

  describe("refuses", () => {
    const refused = (title: string, schema: any, value: unknown, field: string, problem: string) =>
      test(
        title,
        Effect.gen(function*() {
          const error: any = yield* failure(schema, value)
          assert.strictEqual(error._tag, "StateError")
          assert.strictEqual(error.operation, "encode")
          assert.strictEqual(error.field, field)
          assert.include(error.problem, problem)
          assert.deepStrictEqual(yield* rows, [])
          assert.deepStrictEqual((yield* take).filter((mutation: any) => mutation.op !== "clearRange"), [])
        })
      )
    const fine = { a: 1, list: [], record: {} }
    refused("two items with one id", State, { ...fine, list: items("x", "y", "x") }, "list", "the id \"x\"")
    refused("an item without an id", State, { ...fine, list: [{ n: 1 }] }, "list.0.id", "Missing")
    refused("a list that is none", State, { ...fine, list: "list" }, "list", "array")
    refused("a missing entry", State, { list: [], record: {} }, "a", "Missing")
    refused("a wrong entry", State, { ...fine, a: "1" }, "a", "number")
    refused("a key that the schema has not", State, { ...fine, c: 1 }, "c", "no such key")
    refused("a symbol as a key", State, { ...fine, [Symbol.for("s")]: 1 }, "Symbol(s)", "no such key")
    refused("a key that an item has not", State, { ...fine, list: [{ id: "x", n: 1, m: 1 }] }, "list.x.m", "excess")
    refused(
      "a lone surrogate as a name",
      State,
      { ...fine, record: { "\ud800": 1 } },
      "record.\ufffd",
      "half of a surrogate pair"
    )
    refused(
      "a lone surrogate as an id",
      State,
      { ...fine, list: items("\udc00") },
      "list.\ufffd",
      "half of a surrogate pair"
    )
    refused("a lone surrogate in a text", State, { ...fine, b: "a\ud800b" }, "b", "lone surrogate")
    refused(
      "a name that no key can hold",
      State,
      { ...fine, record: { ["n".repeat(10_000)]: 1 } },
      `record.${"n".repeat(60)}…`,
      "StateCodec.term"
    )
    refused(
      "a name that is longer than all keys",
      State,
      { ...fine, record: { ["n".repeat(11_000_000)]: 1 } },
      `record.${"n".repeat(60)}…`,
      "key"
    )
    refused(
      "an item that is in the list twice",
      State,
      { ...fine, list: [items("x")[0], items("y")[0], items("x")[0]] },
      "list",
      "the id \"x\""
    )
    refused("a state that is no object", State, null, "", "object")
    refused(
      "what is not plain data",
      Schema.Struct({ any: Schema.Any }),
      { any: { at: new Map() } },
      "any.at",
      "[object Map]"
    )
    refused("too few items", Schema.NonEmptyArray(Item), [], "0", "Missing")
    refused(
      "what a check of the whole list refuses",
      Schema.Struct({ list: Schema.Array(Item).check(Schema.isMaxLength(1)) }),
      { list: items("x", "y") },
      "list",
      "at most 1"
    )
    test(
      "an item whose id is that of an item which did not change, and changes nothing",
      Effect.gen(function*() {
        const state = cell(State)
        yield* state.write({ ...fine, list: items("w", "x", "y", "z") })
        const before = yield* rows
        for (const at of [0, 2, 4]) {
          const error = yield* Effect.flip(
            state.write({ ...state.value, a: 2, list: state.value.list.toSpliced(at, 0, { id: "x", n: 1 }) })
          )
          assert.include(error.message, "the id \"x\"")
          const same = state.value.list.toSpliced(at, 0, state.value.list[1]!)
          assert.include((yield* Effect.flip(state.write({ ...state.value, list: same }))).message, "the id \"x\"")
        }
        // whoever catches the error commits nothing of the refused state either
        yield* within((prefix) =>
          Effect.ignore(StateCodec.make(State).write(prefix, undefined, { ...fine, list: items("q", "q") }))
        )
        assert.deepStrictEqual(yield* rows, before)
      })
    )
    test(
      "an update that a check of the whole refuses",
      Effect.gen(function*() {
        const schema = Schema.Struct({ least: Schema.Int, most: Schema.Int }).check(
          Schema.makeFilter(({ least, most }) => least <= most ? undefined : "least is over most")
        )
        const state = cell(schema)
        yield* state.write({ least: 1, most: 2 })
        const error = yield* Effect.flip(state.write({ ...state.value, least: 3 }))
        assert.include(error.message, "least is over most")
        // the store can have what the schema refuses by now
        yield* cell(Schema.Struct({ least: Schema.Int, most: Schema.Int })).write({ least: 3, most: 2 })
        const stored = yield* Effect.flip(state.read)
        assert.include(stored.message, "least is over most")
      })
    )
  })
})

/** Values of all kinds of schemas come back equal, from the cache and from the store, and over each other. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, DateTime, Effect, HashMap, HashSet, Option, Schema, SchemaGetter } from "effect"
import { StateCodec } from "effect-dgen"
import { cell, rows, testLayer } from "./support.ts"

class Point extends Schema.Class<Point>("Point")({ x: Schema.Finite, y: Schema.Finite }) {
  get sum() {
    return this.x + this.y
  }
}
class Task extends Schema.Class<Task>("Task")({
  id: Schema.String,
  at: Schema.DateTimeUtc,
  point: Schema.optionalKey(Point)
}) {}
class Board extends Schema.Class<Board>("Board")(
  Schema.Struct({ tasks: Schema.Array(Task), size: Schema.Int }).check(
    Schema.makeFilter(({ size, tasks }) => tasks.length <= size ? undefined : "too many tasks")
  )
) {}
class Note extends Schema.TaggedClass<Note>()("Note", { id: Schema.String, text: Schema.String }) {}
class Image extends Schema.TaggedClass<Image>()("Image", { id: Schema.String, bytes: Schema.Uint8Array }) {}

interface Tree {
  readonly id: string
  readonly children: ReadonlyArray<Tree>
}
const Tree = Schema.Struct({
  id: Schema.String,
  children: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
})
interface Chain {
  readonly next?: Chain | undefined
}
const Chain = Schema.Struct({ next: Schema.optional(Schema.suspend((): Schema.Codec<Chain> => Chain)) })

const task = (id: string, millis = 0, x?: number) =>
  new Task({ id, at: DateTime.makeUnsafe(millis), ...(x === undefined ? {} : { point: new Point({ x, y: 1 }) }) })
const Rounded = Schema.Finite.pipe(
  Schema.decodeTo(Schema.Finite, { decode: SchemaGetter.passthrough(), encode: SchemaGetter.transform(Math.round) })
)
const nested = (depth: number): Chain => depth === 0 ? {} : { next: nested(depth - 1) }

const Nested = Schema.Struct({
  groups: Schema.Record(
    Schema.String,
    Schema.Struct({ members: Schema.Array(Schema.Struct({ id: Schema.String, tags: Schema.Array(Schema.String) })) })
  )
})

/** Each value is written over the one before it. */
const cases: Record<string, readonly [Schema.Codec<any, any>, ReadonlyArray<unknown>]> = {
  class: [Point, [new Point({ x: 1, y: 2 }), new Point({ x: 1, y: -0 })]],
  "class with a list of classes": [Board, [
    new Board({ tasks: [], size: 3 }),
    new Board({ tasks: [task("a"), task("b", 5, 1)], size: 3 }),
    new Board({ tasks: [task("b", 6, 2), task("c"), task("a")], size: 3 })
  ]],
  option: [Schema.Struct({ o: Schema.Option(Schema.Int), f: Schema.OptionFromOptionalKey(Schema.Int) }), [
    { o: Option.none(), f: Option.none() },
    { o: Option.some(1), f: Option.some(2) },
    { o: Option.some(1), f: Option.none() }
  ]],
  numbers: [Schema.Struct({ n: Schema.Number, big: Schema.BigInt }), [
    { n: -0, big: 0n },
    { n: 0, big: -(2n ** 100n) },
    { n: NaN, big: 1n },
    { n: Infinity, big: 1n },
    { n: 2 ** 53, big: 1n },
    { n: 5e-324, big: 1n }
  ]],
  dates: [Schema.Struct({ utc: Schema.DateTimeUtc, date: Schema.Date }), [
    { utc: DateTime.makeUnsafe(0), date: new Date(0) },
    { utc: DateTime.makeUnsafe(1_000), date: new Date(-1) }
  ]],
  bytes: [Schema.Struct({ bytes: Schema.Uint8Array }), [
    { bytes: new Uint8Array(0) },
    { bytes: Uint8Array.of(0, 255) }
  ]],
  maps: [
    Schema.Struct({
      hash: Schema.HashMap(Schema.String, Schema.Int),
      set: Schema.HashSet(Schema.String),
      map: Schema.ReadonlyMap(Schema.Int, Schema.String)
    }),
    [
      { hash: HashMap.empty(), set: HashSet.empty(), map: new Map() },
      { hash: HashMap.make(["a", 1]), set: HashSet.make("x"), map: new Map([[1, "a"], [0, "b"]]) }
    ]
  ],
  "recursive list": [Tree, [
    { id: "root", children: [] },
    { id: "root", children: [{ id: "a", children: [{ id: "b", children: [] }] }] },
    { id: "root", children: [{ id: "c", children: [] }, { id: "a", children: [] }] }
  ]],
  "recursive struct": [Chain, [nested(0), nested(3), nested(100), nested(1)]],
  "union at the top": [Schema.Union([Schema.Int, Schema.Struct({ a: Schema.Int }), Schema.Null]), [1, { a: 1 }, null]],
  "tagged union": [
    Schema.Struct({
      shape: Schema.Union([
        Schema.TaggedStruct("Circle", { r: Schema.Finite }),
        Schema.TaggedStruct("Square", { a: Schema.Finite })
      ])
    }),
    [{ shape: { _tag: "Circle", r: 1 } }, { shape: { _tag: "Square", a: 2 } }]
  ],
  "list of a union": [Schema.Array(Schema.Union([Note, Image])), [
    [],
    [new Note({ id: "a", text: "" }), new Image({ id: "b", bytes: Uint8Array.of(1) })],
    [new Image({ id: "a", bytes: Uint8Array.of(2) }), new Note({ id: "c", text: "t" })]
  ]],
  "optional fields": [
    Schema.Struct({ key: Schema.optionalKey(Schema.Int), value: Schema.optional(Schema.Int) }),
    [{}, { value: undefined }, { key: 1, value: 2 }, { key: 1 }, { value: undefined, key: 2 }]
  ],
  "odd keys": [Schema.Record(Schema.String, Schema.Int), [
    {},
    JSON.parse("{\"\": 1, \"__proto__\": 2, \"constructor\": 3, \"10\": 4, \"9\": 5, \"\\u0000\": 6, \".\": 7}"),
    JSON.parse("{\"__proto__\": 3, \"\": 1, \"\uffff\": 1, \"\u{10000}\": 2, \"a\": 1}"),
    JSON.parse("{\"\u{10000}\": 2, \"b\": 1, \"\uffff\": 1}")
  ]],
  "odd keys in a term": [StateCodec.term(Schema.Record(Schema.String, Schema.Int)), [
    {},
    JSON.parse("{\"\": 1, \"__proto__\": 2, \"10\": 4, \"9\": 5}")
  ]],
  "a field named __proto__": [Schema.Struct({ ["__proto__"]: Schema.Int, a: Schema.Int }), [
    JSON.parse("{\"__proto__\": 1, \"a\": 2}"),
    JSON.parse("{\"__proto__\": 2, \"a\": 2}")
  ]],
  "checked keys": [
    Schema.Record(Schema.TemplateLiteral(["user-", Schema.Int]), Schema.Record(Schema.String, Schema.Int)),
    [{}, { "user-1": { a: 1 } }, { "user-1": {}, "user-2": { b: 2 } }]
  ],
  "struct with rest": [
    Schema.StructWithRest(Schema.Struct({ a: Schema.Int }), [Schema.Record(Schema.String, Schema.Int)]),
    [{ a: 1 }, { a: 1, b: 2 }, { a: 2, "0": 1, c: 3 }]
  ],
  "renamed fields": [Schema.Struct({ a: Schema.Int, b: Schema.String }).pipe(Schema.encodeKeys({ a: "x" })), [
    { a: 1, b: "b" },
    { a: 2, b: "b" }
  ]],
  "nested lists": [Nested, [
    { groups: {} },
    { groups: { g: { members: [] }, h: { members: [{ id: "1", tags: ["t"] }, { id: "2", tags: [] }] } } },
    { groups: { h: { members: [{ id: "2", tags: [] }, { id: "3", tags: ["u"] }] }, i: { members: [] } } }
  ]],
  "empty struct": [Schema.Struct({}), [{}, {}]],
  "empty list": [Schema.Array(Schema.Struct({ id: Schema.String })), [[], [{ id: "" }], []]],
  "nothing in a record": [Schema.Record(Schema.String, Schema.UndefinedOr(Schema.Array(Task))), [
    { a: undefined, b: [] },
    { a: [task("x")], b: undefined },
    { a: [task("y"), task("x")], c: undefined }
  ]],
  "overrides of classes": [Schema.Struct({ p: StateCodec.term(Point), t: Schema.Array(StateCodec.assigns(Task)) }), [
    { p: new Point({ x: 1, y: 1 }), t: [task("a", 0, 1)] },
    { p: new Point({ x: 1, y: 2 }), t: [task("b"), task("a", 0, 2)] }
  ]],
  null: [Schema.Null, [null, null]],
  undefined: [Schema.UndefinedOr(Schema.Int), [undefined, 1, undefined]],
  "json": [Schema.Struct({ json: Schema.Json }), [{ json: null }, { json: [{ a: [true, -0, "é", 1e300] }] }]]
}

describe("StateCodec", () => {
  for (const [title, [schema, values]] of Object.entries(cases)) {
    it.effect(`keeps values: ${title}`, () =>
      Effect.gen(function*() {
        const state = cell(schema as Schema.Codec<any, any, never, never>)
        for (const value of values) {
          assert.deepStrictEqual(yield* state.write(value), value)
          const cold = yield* state.check
          assert.strictEqual(cold?.constructor, (value as object | null | undefined)?.constructor)
        }
        // what a cold reader knows is enough to go back
        for (const value of values.toReversed()) {
          yield* state.load
          yield* state.write(value)
          assert.deepStrictEqual(yield* state.check, value)
        }
      }).pipe(Effect.provide(testLayer)))
  }

  it.effect("an empty list, an empty struct and nothing are three things", () =>
    Effect.gen(function*() {
      const Item = Schema.Struct({ id: Schema.String })
      const state = cell(Schema.Struct({
        list: Schema.optionalKey(Schema.Array(Item)),
        struct: Schema.optionalKey(Schema.Struct({ a: Schema.optionalKey(Schema.Int) }))
      }))
      assert.isUndefined(yield* state.read)
      for (const value of [{}, { list: [] }, { struct: {} }, { list: [], struct: {} }, {}]) {
        yield* state.write(value)
        assert.deepStrictEqual(yield* state.check, value)
        yield* state.checkForms
      }
    }).pipe(Effect.provide(testLayer)))

  const defaults: Record<string, (value: Effect.Effect<any>) => any> = {
    key: Schema.withDecodingDefaultKey,
    "type and key": Schema.withDecodingDefaultTypeKey,
    value: Schema.withDecodingDefault,
    "type and value": Schema.withDecodingDefaultType
  }
  for (const [title, withDefault] of Object.entries(defaults)) {
    it.effect(`a default leaves a list split: ${title}`, () =>
      Effect.gen(function*() {
        const At = Schema.Struct({
          id: Schema.String,
          at: Schema.DateTimeUtcFromString,
          o: Schema.Option(Schema.BigInt)
        })
        const list = Schema.Array(At).check(Schema.isMaxLength(2)).pipe(withDefault(Effect.succeed([])))
        yield* cell(Schema.Struct({ a: Schema.Int })).write({ a: 1 })
        const state = cell<any>(Schema.Struct({ a: Schema.Int, list, record: withRecord }) as Schema.Codec<any, any>)
        assert.deepStrictEqual(yield* state.load, { a: 1, list: [], record: { x: 1 } })
        const one = { id: "x", at: DateTime.makeUnsafe(5), o: Option.some(1n) }
        yield* state.write({ a: 1, list: [one], record: {} })
        assert.deepStrictEqual(yield* state.check, { a: 1, list: [one], record: {} })
        yield* state.checkForms
        assert.includeDeepMembers((yield* rows).map((row) => row.key), [[1, "list", 2, "x"], [1, "record", 1]])
        assert.lengthOf(yield* state.cost({ ...state.value, list: [...state.value.list, { ...one, id: "y" }] }), 2)
        assert.lengthOf((yield* state.check).list, 2)
        const over = [...state.value.list, { ...one, id: "z" }]
        assert.strictEqual((yield* Effect.flip(state.write({ ...state.value, list: over })))._tag, "StateError")
      }).pipe(Effect.provide(testLayer)))
  }
  const withRecord = Schema.Record(Schema.String, Schema.Int).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed({ x: 1 }))
  )
  it.effect("a conversion of a whole list does not pass as a default", () =>
    Effect.gen(function*() {
      const Encoded = Schema.Array(Schema.Struct({ id: Schema.String, n: Schema.FiniteFromString }))
      const list = Encoded.pipe(Schema.decodeTo(Schema.Array(Schema.Struct({ id: Schema.String, n: Schema.Finite })), {
        decode: SchemaGetter.transform((items) => items),
        encode: SchemaGetter.passthrough()
      }))
      const swapped = Schema.Array(Schema.Struct({ id: Schema.String, n: Schema.Finite })).pipe(
        Schema.decodeTo(Encoded, {
          decode: SchemaGetter.transform(() => []),
          encode: SchemaGetter.passthrough() as any
        })
      )
      for (const schema of [list, swapped]) {
        const state = cell<any>(Schema.Struct({ list: schema }))
        const written = yield* Effect.result(state.write({ list: [{ id: "x", n: 1 }] }))
        if (written._tag === "Success") yield* state.check
      }
      yield* cell<any>(Schema.Struct({ list })).write({ list: [{ id: "x", n: 1 }] })
      assert.deepStrictEqual(yield* cell<any>(Schema.Struct({ list })).load, { list: [{ id: "x", n: 1 }] })
    }).pipe(Effect.provide(testLayer)))

  const isNot = (refused: number) =>
    Schema.makeFilter((value: { readonly n: number }) => value.n === refused ? `not ${refused}` : undefined)
  class Odd extends Schema.Class<Odd>("Odd")(Schema.Struct({ n: Rounded }).check(isNot(1.4))) {}
  class Even extends Schema.Class<Even>("Even")(Schema.Struct({ n: Rounded }).check(isNot(1))) {}
  const listIsNot = (refused: number) =>
    Schema.Array(Schema.Struct({ id: Schema.String, n: Rounded })).check(
      Schema.makeFilter((items) => items.some(({ n }) => n === refused) ? `not ${refused}` : undefined)
    )
  const checked: Record<string, readonly [Schema.Codec<any, any>, unknown]> = {
    "the given struct": [Schema.Struct({ n: Rounded }).check(isNot(1.4)), { n: 1.4 }],
    "the struct that a read would give": [Schema.Struct({ n: Rounded }).check(isNot(1)), { n: 1.4 }],
    "the given instance": [Odd, Object.assign(Object.create(Odd.prototype), { n: 1.4 })],
    "the instance that a read would give": [Even, new Even({ n: 1.4 })],
    "the given list": [listIsNot(1.4), [{ id: "x", n: 1.4 }]],
    "the list that a read would give": [listIsNot(1), [{ id: "x", n: 1.4 }]],
    "a key of a record of records": [
      Schema.Record(Schema.TemplateLiteral(["user-", Schema.Int]), Schema.Record(Schema.String, Schema.Int)),
      { "user-x": {} }
    ]
  }
  for (const [title, [schema, value]] of Object.entries(checked)) {
    it.effect(`checks ${title}`, () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* Effect.flip(cell(schema).write(value)))._tag, "StateError")
        assert.deepStrictEqual(yield* rows, [])
      }).pipe(Effect.provide(testLayer)))
  }

  it("types that refer to each other in all ways are planned in no time", () => {
    const types: Array<any> = []
    const fields = Object.fromEntries(
      Array.from({ length: 14 }, (_, i) => [`f${i}`, Schema.optionalKey(Schema.suspend((): any => types[i]))])
    )
    for (let i = 0; i < 14; i++) types.push(Schema.Struct(fields).annotate({ title: `T${i}` }))
    StateCodec.make(types[0])
  })

  it.effect("an instance that a check of its class refuses is not written", () =>
    Effect.gen(function*() {
      const state = cell(Board)
      const full = new Board({ tasks: [task("a")], size: 1 })
      yield* state.write(full)
      const over = Object.assign(Object.create(Board.prototype), { ...state.value, size: 0 })
      assert.include((yield* Effect.flip(state.write(over))).message, "too many tasks")
      assert.include((yield* Effect.flip(state.write({ ...state.value } as any))).message, "Board")
      assert.deepStrictEqual(yield* state.check, full)
    }).pipe(Effect.provide(testLayer)))

  it.effect("what encoding does not give back is cached as a read gives it", () =>
    Effect.gen(function*() {
      const state = cell(
        Schema.Struct({ n: Rounded, list: Schema.Array(Schema.Struct({ id: Schema.String, n: Rounded })) })
      )
      yield* state.write({ n: 1.4, list: [{ id: "x", n: 2.6 }] })
      assert.deepStrictEqual(yield* state.check, { n: 1, list: [{ id: "x", n: 3 }] })
    }).pipe(Effect.provide(testLayer)))

  for (const bytes of [0, 89_990, 90_000, 100_000, 250_000, 5_000_000]) {
    it.effect(`a term of ${bytes} bytes, and back to a small one`, () =>
      Effect.gen(function*() {
        const state = cell(Schema.Struct({ text: Schema.String }))
        const texts = ["é".repeat(bytes / 2), "x".repeat(bytes), "small", "y".repeat(bytes)]
        for (const text of texts) {
          yield* state.write({ text })
          assert.strictEqual((yield* state.read)!.value.text, text)
          yield* state.checkForms
          for (const row of yield* rows) assert.isAtMost(row.value.length, 100_000)
        }
      }).pipe(Effect.provide(testLayer)))
  }

  const generated = {
    flat: Schema.Struct({
      a: Schema.optionalKey(Schema.String),
      b: Schema.optional(Schema.Number),
      c: Schema.NullOr(Schema.Array(Schema.String)),
      d: Schema.Option(Schema.BigInt),
      e: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Boolean]))
    }),
    nested: Schema.Struct({ n: Nested, p: Schema.optional(Point), t: Schema.Tuple([Schema.Int, Schema.DateTimeUtc]) })
  }
  for (const [title, schema] of Object.entries(generated)) {
    const states = Arbitrary.array(Arbitrary.schema(schema), { minLength: 2, maxLength: 5 })
    it.effect.prop(`generated values over each other: ${title}`, { states }, ({ states }) =>
      Effect.gen(function*() {
        const state = cell(schema as Schema.Codec<any, any, never, never>)
        for (const value of states) {
          const wellFormed = !/\\ud[89a-f]/i.test(JSON.stringify(value, (_, v) => typeof v === "bigint" ? `${v}` : v))
          const ids = idsDiffer(value)
          const written = yield* Effect.result(state.write(value))
          if (!wellFormed || !ids) {
            assert.strictEqual(written._tag, "Failure")
            continue
          }
          assert.strictEqual(written._tag, "Success")
          assert.deepStrictEqual(state.value, value)
          yield* state.check
        }
      }).pipe(Effect.provide(testLayer)), { arbitrary: { runs: 200 } })
  }
})

const idsDiffer = (value: any): boolean =>
  Object.values(value.n?.groups ?? {}).every(({ members }: any) =>
    new Set(members.map((member: any) => member.id)).size === members.length
  )

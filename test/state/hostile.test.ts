/** Bytes in the store that no codec wrote: refused with a place, never thrown, never believed. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { StateCodec, Transaction, Tuple } from "effect-dgen"
import { Packr } from "msgpackr"
import { packPlain, unpackPlain } from "../../src/internal/data/plain.ts"
import { Refused } from "../../src/internal/data/problem.ts"
import { cell, rows, testLayer, within } from "./support.ts"

const Item = Schema.Struct({ id: Schema.String, n: Schema.Int })
const State = Schema.Struct({ a: Schema.Int, list: Schema.Array(Item) })
const codec = StateCodec.make(State)

type Row = readonly [Tuple.Tuple | Uint8Array, Uint8Array | string]
const bytes = (value: Uint8Array | string) => typeof value === "string" ? Buffer.from(value, "latin1") : value
const pack = (value: unknown) => packPlain(value, [])

/** Reads a state that these rows are. */
const readRows = (all: ReadonlyArray<Row>) =>
  within((prefix) =>
    Effect.flatMap(Transaction.Transaction, (state) => {
      const { begin, end } = Tuple.range([], prefix)
      state.clearRange(begin, end)
      for (const [key, value] of all) {
        const packed = key instanceof Uint8Array ? Buffer.concat([prefix, key]) : Tuple.pack(key, prefix)
        state.set(new Uint8Array(packed), new Uint8Array(bytes(value)))
      }
      return codec.read(prefix)
    })
  )

const good: ReadonlyArray<Row> = [
  [[1], ""],
  [[1, "a", 0, 0], pack(1)],
  [[1, "list", 2], ""],
  [[1, "list", 2, "x"], "a0"],
  [[1, "list", 2, "x", 0, 0], pack({ id: "x", n: 1 })],
  [[1, "list", 2, "y"], "a1"],
  [[1, "list", 2, "y", 0, 0], pack({ id: "y", n: 2 })]
]
const without = (index: number) => good.filter((_, i) => i !== index)
const replaced = (index: number, value: Uint8Array | string): ReadonlyArray<Row> =>
  good.map((row, i) => i === index ? [row[0], value] : row)

const deepEntry = Array.from({ length: 200 }, () => [1, "d"]).flat()

const hostile: Record<string, readonly [ReadonlyArray<Row>, string]> = {
  "entries without a head": [without(0), ""],
  "a head with something in it": [replaced(0, "1"), ""],
  "a missing entry": [without(1), "a"],
  "items without a head": [without(2), "list"],
  "an item without a place": [without(3), "list.x"],
  "a place without an item": [without(4), "list.x"],
  "two items in one place": [replaced(5, "a0"), "list"],
  "a place that is no order key": [replaced(5, "a"), "list.y"],
  "a place that is longer than any": [replaced(5, `a0${"1".repeat(5_000)}`), "list.y"],
  "an item with another id": [replaced(6, pack({ id: "z", n: 2 })), "list.y"],
  "an item of another type": [replaced(6, pack({ id: "y", n: "2" })), "list.1.n"],
  "an empty term": [replaced(1, ""), "a"],
  "half a term": [replaced(4, pack({ id: "x", n: 1 }).subarray(0, 5)), "list.x"],
  "two encodings": [[...good, [[2], ""]], ""],
  "an unknown encoding": [[[[3], ""]], ""],
  "a head and an unknown encoding": [[...good, [[1, "list", 7], ""]], "list"],
  "no encoding": [[...good, [[1, "b"], ""]], "b"],
  "an entry whose name is no text": [[...good, [[1, 5, 0, 0], ""]], ""],
  "an item whose id is no text": [[...good, [[1, "list", 2, null], ""]], "list"],
  "a piece that is missing": [[...good, [[1, "a", 0, 2], ""]], "a"],
  "a piece that is no number": [[...good, [[1, "a", 0, "1"], ""]], "a"],
  "a piece below a piece": [[...good, [[1, "a", 0, 1, 1], ""]], "a"],
  "a key that is no tuple": [[...good, [Uint8Array.of(0x15, 0x02, 0xfe), ""]], ""],
  "entries that have no end": [[...good, [[...deepEntry, 0, 0], pack(1)]], Array(65).fill("d").join(".")]
}

describe("StateCodec", () => {
  it.effect("reads the rows that the hostile ones are made from", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* readRows(good))!.value, { a: 1, list: [{ id: "x", n: 1 }, { id: "y", n: 2 }] })
    }).pipe(Effect.provide(testLayer)))

  for (const [title, [all, field]] of Object.entries(hostile)) {
    it.effect(`refuses ${title}`, () =>
      Effect.gen(function*() {
        yield* cell(State).write({ a: 5, list: [] })
        const before = yield* rows
        const error = yield* Effect.flip(readRows(all)) as Effect.Effect<StateCodec.StateError, unknown, any>
        assert.strictEqual(error._tag, "StateError")
        assert.strictEqual(error.operation, "decode")
        assert.strictEqual(error.field.slice(0, field.length), field)
        assert.deepStrictEqual(yield* rows, before)
      }).pipe(Effect.provide(testLayer)))
  }

  const byte = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 })))
  it.effect.prop("survives any change of any row", {
    at: byte,
    patch: Arbitrary.array(byte, { maxLength: 8 }),
    how: byte
  }, ({
    at,
    how,
    patch
  }) =>
    Effect.gen(function*() {
      const [key, value] = good[at % good.length]!
      const target = how % 2 === 0 ? Buffer.from(bytes(value)) : Buffer.from(Tuple.pack(key as Tuple.Tuple))
      const from = how % (target.length + 1)
      const changed = Buffer.concat([
        target.subarray(0, from),
        Uint8Array.from(patch),
        target.subarray(from + (how % 3))
      ])
      const row: Row = how % 2 === 0 ? [key, changed] : [changed, value]
      const result = yield* Effect.result(readRows(without(at % good.length).concat([row])))
      if (result._tag === "Success") {
        // what is believed can be written over, and read again
        const read = result.success
        if (read === undefined) return
        const next = { a: 9, list: [{ id: "new", n: 1 }, ...read.value.list.filter(({ id }) => id !== "new")] }
        yield* within((prefix) => codec.write(prefix, read, next))
        assert.deepStrictEqual((yield* within((prefix) => codec.read(prefix)))!.value, next)
      } else {
        assert.strictEqual((result.failure as { readonly _tag: string })._tag, "StateError")
      }
    }).pipe(Effect.provide(testLayer)), { arbitrary: { runs: 500 } })

  it.effect("a term that is nested too deep is refused both ways, and no stack runs over", () =>
    Effect.gen(function*() {
      const schema = Schema.Struct({ json: Schema.Json })
      let deep: Schema.Json = 1
      for (let i = 0; i < 100_000; i++) deep = [deep]
      const error = yield* Effect.flip(cell(schema).write({ json: deep }))
      assert.strictEqual(error._tag, "StateError")
      const json = Buffer.alloc(90_000, 0x91)
      yield* within((prefix) =>
        Effect.flatMap(Transaction.Transaction, (state) => {
          state.set(Tuple.pack([1], prefix), new Uint8Array(0))
          return Effect.sync(() => state.set(Tuple.pack([1, "json", 0, 0], prefix), new Uint8Array(json)))
        })
      )
      assert.strictEqual((yield* Effect.flip(cell(schema).read))._tag, "StateError")
    }).pipe(Effect.provide(testLayer)))
})

const refuses = (data: Uint8Array, problem: string) => {
  try {
    unpackPlain(data, ["here"])
  } catch (cause) {
    assert.instanceOf(cause, Refused)
    assert.strictEqual(cause.field, "here")
    assert.include(cause.problem, problem)
    return
  }
  assert.fail("it was not refused")
}

describe("plain data", () => {
  const packr = new Packr({ useRecords: false, moreTypes: false, variableMapSize: true })
  const values = [
    null,
    true,
    false,
    0,
    -0,
    1,
    -1,
    -32,
    -33,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    2 ** 31 - 1,
    2 ** 31,
    -(2 ** 31),
    -(2 ** 31) - 1,
    2 ** 53 - 1,
    -(2 ** 53),
    0.5,
    5e-324,
    1e300,
    "",
    "a",
    "é".repeat(20),
    "x".repeat(31),
    "x".repeat(32),
    "x".repeat(255),
    "x".repeat(256),
    "x".repeat(70_000),
    "💩\0\ufeff",
    [],
    Array(15).fill(1),
    Array(16).fill(1),
    Array(70_000).fill(0),
    {},
    Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`, i])),
    Object.fromEntries(Array.from({ length: 70_000 }, (_, i) => [`k${i}`, i])),
    { a: [{ b: null }] }
  ]
  it("comes back as it was, and another reader of MessagePack agrees", () => {
    for (const value of values) {
      assert.deepStrictEqual(unpackPlain(pack(value), []), value)
      assert.deepStrictEqual(packr.unpack(Buffer.from(pack(value))), value)
    }
  })
  it("reads what another writer makes of it", () => {
    for (const value of values) {
      if (Object.is(value, -0)) continue
      assert.deepStrictEqual(unpackPlain(new Uint8Array(packr.pack(value)), []), value)
    }
  })
  it.effect.prop(
    "any JSON comes back as it was",
    { json: Arbitrary.schema(Schema.Json) },
    ({ json }) =>
      Effect.sync(() => {
        let packed: Uint8Array
        try {
          packed = pack(json)
        } catch (cause) {
          assert.instanceOf(cause, Refused)
          assert.match(JSON.stringify(json), /\\ud[89a-f]/)
          return
        }
        assert.deepStrictEqual(unpackPlain(packed, []), json)
        assert.strictEqual(JSON.stringify(unpackPlain(packed, [])), JSON.stringify(json))
      }),
    { arbitrary: { runs: 300 } }
  )
  it("keeps the order of keys, and __proto__ as one of them", () => {
    const value: unknown = JSON.parse("{\"b\": 1, \"__proto__\": {\"x\": 1}, \"a\": 2}")
    const back = unpackPlain(pack(value), []) as object
    assert.deepStrictEqual(Object.keys(back), ["b", "__proto__", "a"])
    assert.strictEqual(Object.getPrototypeOf(back), Object.prototype)
  })
  it("keeps bytes, and reads them as a copy", () => {
    const value = [Uint8Array.of(1, 2, 3), new Uint8Array(300), new Uint8Array(70_000)]
    assert.deepStrictEqual(unpackPlain(pack(value), []), value)
  })
  it("refuses everything else", () => {
    refuses(Uint8Array.of(), "end too early")
    refuses(Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff), "end too early")
    refuses(Uint8Array.of(0xdf, 0xff, 0xff, 0xff, 0xff), "end too early")
    refuses(Uint8Array.of(0xdb, 0xff, 0xff, 0xff, 0xff), "end too early")
    refuses(Uint8Array.of(0xcb, 0), "end too early")
    refuses(Uint8Array.of(1, 1), "behind the value")
    refuses(Uint8Array.of(0xa2, 0xc3, 0x28), "UTF-8")
    refuses(Uint8Array.of(0xa3, 0xed, 0xa0, 0x80), "UTF-8")
    refuses(Uint8Array.of(0xd9, 30, ...Array(30).fill(0xff)), "UTF-8")
    refuses(Uint8Array.of(0x81, 1, 1), "not text")
    refuses(Uint8Array.of(0x82, 0xa1, 97, 1, 0xa1, 97, 1), "twice")
    refuses(Uint8Array.of(0xc1), "0xc1")
    refuses(Uint8Array.of(0xc6, 0xff, 0xff, 0xff, 0xff), "end too early")
    refuses(Uint8Array.of(0xd6, 0xff, 0, 0, 0, 0), "0xd6")
    refuses(Uint8Array.of(0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "cannot hold")
    refuses(Uint8Array.of(0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0), "not finite")
    refuses(new Uint8Array(5_000).fill(0x91), "inside each other")
  })
  it("refuses to write what it cannot keep, with the place", () => {
    const cyclic: Array<unknown> = []
    cyclic.push(cyclic)
    for (
      const value of [
        undefined,
        1n,
        NaN,
        Infinity,
        new Date(0),
        new Map(),
        () => 0,
        Symbol.iterator,
        Array.from({ length: 1 }),
        cyclic
      ]
    ) {
      try {
        packPlain({ a: [value] }, ["top"])
        assert.fail("it was not refused")
      } catch (cause) {
        assert.instanceOf(cause, Refused)
        assert.strictEqual(cause.field.slice(0, 3), "top")
      }
    }
  })
})

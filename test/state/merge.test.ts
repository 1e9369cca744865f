/** Two changes of one state, entry by entry (rule R20). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Schema } from "effect"
import { StateCodec } from "effect-dgen"

class Place extends Schema.Class<Place>("Place")({ x: Schema.Int, y: Schema.Int }) {}

const State = Schema.Struct({
  title: Schema.String,
  note: Schema.optionalKey(Schema.String),
  place: Place,
  point: StateCodec.term(Schema.Struct({ x: Schema.Int, y: Schema.Int })),
  counts: Schema.Record(Schema.String, Schema.Int),
  items: Schema.Array(Schema.Struct({ id: Schema.String, n: Schema.Int }))
})

type State = typeof State["Type"]

const codec = StateCodec.make(State)

const base: State = {
  title: "t",
  place: new Place({ x: 1, y: 1 }),
  point: { x: 1, y: 1 },
  counts: { a: 1, b: 2 },
  items: [{ id: "one", n: 1 }, { id: "two", n: 2 }, { id: "three", n: 3 }]
}

const merge = (mine: Partial<State>, fresh: Partial<State>) =>
  codec.merge(base, { ...base, ...mine }, { ...base, ...fresh })

const together = (title: string, mine: Partial<State>, fresh: Partial<State>, expected: Partial<State>) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      const merged = yield* merge(mine, fresh)
      assert.deepStrictEqual(Option.getOrThrow(merged), { ...base, ...expected })
    }))

const apart = (title: string, mine: Partial<State>, fresh: Partial<State>) =>
  it.effect(title, () => Effect.map(merge(mine, fresh), (merged) => assert.isTrue(Option.isNone(merged))))

describe("go together:", () => {
  together("nothing and something", {}, { title: "fresh" }, { title: "fresh" })
  together("something and nothing", { title: "mine" }, {}, { title: "mine" })
  together("two fields", { title: "mine" }, { note: "fresh" }, { title: "mine", note: "fresh" })
  together("two fields of a class", { place: new Place({ x: 5, y: 1 }) }, { place: new Place({ x: 1, y: 6 }) }, {
    place: new Place({ x: 5, y: 6 })
  })
  together("two entries of a record, one of them removed", { counts: { b: 2, c: 3 } }, { counts: { a: 1, b: 9 } }, {
    counts: { b: 9, c: 3 }
  })
  together(
    "two items of a list",
    { items: [{ id: "one", n: 10 }, base.items[1]!, base.items[2]!] },
    { items: [base.items[0]!, { id: "two", n: 20 }, base.items[2]!] },
    { items: [{ id: "one", n: 10 }, { id: "two", n: 20 }, base.items[2]!] }
  )
  together(
    "an item and the order",
    { items: [{ id: "one", n: 10 }, base.items[1]!, base.items[2]!] },
    { items: [base.items[2]!, base.items[0]!, base.items[1]!] },
    { items: [base.items[2]!, { id: "one", n: 10 }, base.items[1]!] }
  )
  together("an item, and one that is gone", { items: [{ id: "one", n: 10 }, ...base.items.slice(1)] }, {
    items: base.items.slice(0, 2)
  }, { items: [{ id: "one", n: 10 }, base.items[1]!] })
})

describe("do not go together:", () => {
  apart("two values of a field", { title: "mine" }, { title: "fresh" })
  apart("the same value from both, of which each may have counted one more", { counts: { a: 2, b: 2 } }, {
    counts: { a: 2, b: 2 }
  })
  apart("one removal by both", { counts: { a: 1 } }, { counts: { a: 1 } })
  apart("two parts of a term", { point: { x: 2, y: 1 } }, { point: { x: 1, y: 2 } })
  apart("two values of an item", { items: [{ id: "one", n: 10 }, ...base.items.slice(1)] }, {
    items: [{ id: "one", n: 11 }, ...base.items.slice(1)]
  })
  apart("two orders", { items: [...base.items, { id: "mine", n: 0 }] }, {
    items: [...base.items, { id: "fresh", n: 0 }]
  })
  apart("an item that was changed, and is gone", { items: base.items.slice(1) }, {
    items: [{ id: "one", n: 11 }, ...base.items.slice(1)]
  })
})

it.effect("what has not even the shape of the schema is refused with its place", () =>
  Effect.gen(function*() {
    const error = yield* Effect.flip(merge({ counts: 7 as unknown as {} }, { counts: { b: 1 } }))
    assert.strictEqual(error.operation, "encode")
    assert.include(error.field, "counts")
  }))

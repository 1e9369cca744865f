/**
 * Old and new code side by side: what an old schema does not know of a state survives what it writes. Where both would
 * do the same to the state, the store has in the end what the new code alone would have written.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { StateCodec } from "effect-dgen"
import { cell, rows, testLayer } from "./support.ts"

const optional = Schema.optionalKey

const OldItem = Schema.Struct({ id: Schema.String, title: Schema.String })
const Old = Schema.Struct({
  n: Schema.Int,
  name: optional(Schema.String),
  items: Schema.Array(OldItem),
  parts: Schema.Array(OldItem),
  boxes: Schema.Record(Schema.String, Schema.Struct({ size: Schema.Int })),
  place: Schema.Struct({ street: Schema.String, at: Schema.Struct({ x: Schema.Int }) }),
  whole: StateCodec.term(Schema.Struct({ size: Schema.Int, at: Schema.Struct({ x: Schema.Int }) })),
  form: Schema.Union([
    Schema.TaggedStruct("Disc", { r: Schema.Int }),
    Schema.TaggedStruct("Square", { a: Schema.Int })
  ]),
  lines: Schema.Array(Schema.Struct({ text: Schema.String })),
  prices: Schema.ReadonlyMap(Schema.String, Schema.Struct({ cents: Schema.Int }))
})

/** The next release: it has more of everything, and one list is split in another way because of that. */
const NewItem = { id: Schema.String, title: Schema.String, done: optional(Schema.Boolean) }
const New = Schema.Struct({
  n: Schema.Int,
  name: optional(Schema.String),
  log: optional(Schema.Array(Schema.String)),
  byUser: optional(Schema.Record(Schema.String, Schema.Struct({ id: Schema.String, visits: Schema.Int }))),
  items: Schema.Array(Schema.Struct(NewItem)),
  parts: Schema.Array(
    Schema.Struct({ ...NewItem, votes: optional(Schema.Record(Schema.String, Schema.Int)) })
  ),
  boxes: Schema.Record(Schema.String, Schema.Struct({ size: Schema.Int, colour: optional(Schema.String) })),
  place: Schema.Struct({
    street: Schema.String,
    town: optional(Schema.String),
    at: Schema.Struct({ x: Schema.Int, y: optional(Schema.Int) })
  }),
  whole: StateCodec.term(
    Schema.Struct({
      size: Schema.Int,
      unit: optional(Schema.String),
      at: Schema.Struct({ x: Schema.Int, y: optional(Schema.Int) })
    })
  ),
  form: Schema.Union([
    Schema.TaggedStruct("Disc", { r: Schema.Int, fill: optional(Schema.String) }),
    Schema.TaggedStruct("Square", { a: Schema.Int, fill: optional(Schema.String) })
  ]),
  lines: Schema.Array(Schema.Struct({ text: Schema.String, bold: optional(Schema.Boolean) })),
  prices: Schema.ReadonlyMap(Schema.String, Schema.Struct({ cents: Schema.Int, currency: optional(Schema.String) }))
})
type State = typeof New.Type

const full: State = {
  n: 0,
  name: "ada",
  log: ["a", "b"],
  byUser: { ada: { id: "1", visits: 1 } },
  items: [{ id: "x", title: "X", done: true }, { id: "y", title: "Y", done: false }],
  parts: [{ id: "x", title: "X", votes: { ada: 1 } }, { id: "y", title: "Y", done: true, votes: {} }],
  boxes: { a: { size: 1, colour: "red" }, b: { size: 2, colour: "blue" } },
  place: { street: "Main", town: "Ulm", at: { x: 1, y: 2 } },
  whole: { size: 1, unit: "m", at: { x: 1, y: 2 } },
  form: { _tag: "Disc", r: 1, fill: "red" },
  lines: [{ text: "one", bold: true }, { text: "two" }, { text: "three", bold: false }],
  prices: new Map([["a", { cents: 1, currency: "EUR" }], ["b", { cents: 2 }]])
}

const replaced = <A>(list: ReadonlyArray<A>, at: number, by: (item: A) => A): ReadonlyArray<A> =>
  list.length === 0 ? list : list.with(at % list.length, by(list[at % list.length]!))

const titled = <I extends { readonly title: string }>(list: ReadonlyArray<I>, what: number): ReadonlyArray<I> =>
  what % 2 === 0
    ? replaced(list, what >> 2, (item) => ({ ...item, title: `${item.title}${what}` }))
    : list.length > 1
    ? list.toSpliced(what % list.length, 1).toReversed()
    : [...list, { id: `new${list.length}`, title: "new" } as unknown as I]

const omit = <O extends object, K extends keyof O>(object: O, key: K): Omit<O, K> => {
  const { [key]: _, ...others } = object
  return others
}

const relined = (lines: State["lines"], what: number): State["lines"] => {
  const text = `line ${what}`
  if (lines.some((line) => line.text === text)) return lines
  if (what % 3 === 0) return replaced(lines, what, (line) => ({ ...line, text }))
  return lines.toSpliced(what % 5, what % 3 - 1, ...(what % 3 === 1 ? [{ text }] : []))
}

/** Changes that code of both releases would make alike: they touch what the old one knows, and keep the rest. */
const changes: ReadonlyArray<(state: State, what: number) => State> = [
  (state) => ({ ...state, n: state.n + 1 }),
  (state) => state.name === undefined ? { ...state, name: "eva" } : omit(state, "name"),
  (state, what) => ({ ...state, items: titled(state.items, what) }),
  (state, what) => ({ ...state, parts: titled(state.parts, what) }),
  (state, what) => {
    const name = what % 2 === 0 ? "a" : "c"
    return {
      ...state,
      boxes: what % 3 === 0 ? omit(state.boxes, "a") : { ...state.boxes, [name]: { ...state.boxes[name], size: what } }
    }
  },
  (state, what) => ({ ...state, place: { ...state.place, at: { ...state.place.at, x: what } } }),
  (state, what) => ({ ...state, whole: { ...state.whole, at: { ...state.whole.at, x: what } } }),
  (state, what) => ({
    ...state,
    form: state.form._tag === "Disc" ? { ...state.form, r: what } : { ...state.form, a: what }
  }),
  (state, what) => ({
    ...state,
    form: state.form._tag === "Disc" ? { _tag: "Square", a: what } : { _tag: "Disc", r: what }
  }),
  (state, what) => ({ ...state, lines: relined(state.lines, what) }),
  (state, what) => {
    const name = what % 2 === 0 ? "a" : "c"
    return { ...state, prices: new Map(state.prices).set(name, { ...state.prices.get(name), cents: what }) }
  }
]

const run = (state: State, step: { readonly at: number; readonly what: number }): State =>
  changes[step.at % changes.length]!(state, step.what)

describe("an old schema beside a new one", () => {
  const cases: Record<string, readonly [Schema.Codec<any, any>, Schema.Codec<any, any>, any, (state: any) => any]> = {
    "entries": [
      Schema.Struct({ n: Schema.Int }),
      Schema.Struct({
        n: Schema.Int,
        log: Schema.Array(Schema.String),
        byUser: Schema.Record(Schema.String, Schema.Int)
      }),
      { n: 0, log: ["a"], byUser: { ada: 1 } },
      (state) => ({ ...state, n: 1 })
    ],
    "a class's entries": [
      Schema.Struct({ at: Schema.Class<any>("At")({ x: Schema.Int }) }),
      Schema.Struct({ at: Schema.Struct({ x: Schema.Int, y: Schema.Int }) }),
      { at: { x: 1, y: 2 } },
      ({ at }) => ({ at: Object.assign(Object.create(Object.getPrototypeOf(at)), at, { x: 7 }) })
    ],
    "what is nested in a whole that becomes entries": [
      Schema.Struct({ at: Schema.Struct({ x: Schema.Int, in: Schema.Struct({ a: Schema.Int }) }) }),
      Schema.Struct({
        at: StateCodec.term(
          Schema.Struct({ x: Schema.Int, y: Schema.Int, in: Schema.Struct({ a: Schema.Int, b: Schema.Int }) })
        )
      }),
      { at: { x: 1, y: 2, in: { a: 1, b: 2 } } },
      ({ at }) => ({ at: { ...at, x: 7, in: { ...at.in, a: 7 } } })
    ],
    "what is nested in entries that become a whole": [
      Schema.Struct({ at: StateCodec.term(Schema.Struct({ x: Schema.Int, in: Schema.Struct({ a: Schema.Int }) })) }),
      Schema.Struct({
        at: Schema.Struct({ x: Schema.Int, y: Schema.Int, in: Schema.Struct({ a: Schema.Int, b: Schema.Int }) })
      }),
      { at: { x: 1, y: 2, in: { a: 1, b: 2 } } },
      ({ at }) => ({ at: { ...at, x: 7, in: { ...at.in, a: 7 } } })
    ],
    "items of a list that is kept whole, and is split now": [
      Schema.Struct({ list: Schema.Array(OldItem) }),
      Schema.Struct({ list: StateCodec.term(Schema.Array(Schema.Struct({ ...NewItem, more: Schema.Int }))) }),
      { list: [{ id: "a", title: "A", more: 1 }, { id: "b", title: "B", more: 2, done: true }] },
      ({ list }) => ({ list: [{ ...list[1], title: "C" }, list[0]] })
    ],
    "a recursive schema": [
      Schema.Struct({ tree: tree({}) }),
      Schema.Struct({ tree: tree({ more: Schema.Int }) }),
      { tree: { name: "a", more: 1, below: [{ name: "b", more: 2, below: [{ name: "c", more: 3, below: [] }] }] } },
      ({ tree }) => ({ tree: { ...tree, name: "A", below: [{ ...tree.below[0], name: "B" }] } })
    ],
    "a state that is one whole": [
      StateCodec.term(Schema.Struct({ n: Schema.Int })),
      StateCodec.term(Schema.Struct({ n: Schema.Int, more: Schema.Int })),
      { n: 1, more: 2 },
      (state) => ({ ...state, n: 7 })
    ]
  }

  for (const [title, [Before, After, stored, change]] of Object.entries(cases)) {
    it.effect(`keeps ${title}`, () =>
      Effect.gen(function*() {
        const next = cell(After)
        yield* next.write(stored)
        const old = cell(Before)
        const value = yield* old.load
        yield* old.write(change(value))
        yield* old.checkForms
        // also of what it has written itself, and of its cache
        yield* old.write(change(change(old.value)))
        yield* old.checkForms
        const expected = change(change(change(stored)))
        assert.deepStrictEqual(JSON.parse(JSON.stringify(yield* next.load)), JSON.parse(JSON.stringify(expected)))
      }).pipe(Effect.provide(testLayer)))
  }

  it.effect("lets go of what is taken out on purpose: a field that it knows, an item, an entry of a record", () =>
    Effect.gen(function*() {
      const next = cell(New)
      yield* next.write(full)
      const old = cell(Old)
      const state = yield* old.load
      yield* old.write({ ...omit(state, "name"), items: [state.items[1]!], boxes: { b: state.boxes.b! }, lines: [] })
      assert.deepStrictEqual(yield* next.load, {
        ...omit(full, "name"),
        items: [full.items[1]!],
        boxes: { b: full.boxes.b! },
        lines: []
      })
      assert.deepStrictEqual((yield* rows).filter(({ key }) => key.includes("a") || key.includes("name")), [])
    }).pipe(Effect.provide(testLayer)))

  it.effect("takes nothing of one member of a union to another, nor of an old form to the new one", () =>
    Effect.gen(function*() {
      const V1 = Schema.Struct({ lines: Schema.Array(Schema.String) })
      const V2 = Schema.Struct({ items: Schema.Array(Schema.String) })
      const old = cell(Schema.Struct({ cart: StateCodec.term(V1) }))
      yield* old.write({ cart: { lines: ["a"] } })
      const both = cell(Schema.Struct({ cart: Schema.Union([V1, V2]) }))
      yield* both.load
      yield* both.write({ cart: { items: ["b"] } })
      assert.deepStrictEqual(yield* both.load, { cart: { items: ["b"] } })
    }).pipe(Effect.provide(testLayer)))

  it.effect("does not know what it does not write: unchanged parts cost nothing", () =>
    Effect.gen(function*() {
      const next = cell(New)
      yield* next.write(full)
      const old = cell(Old)
      const state = yield* old.load
      assert.strictEqual((yield* old.cost({ ...state, n: 1 })).length, 1)
      assert.strictEqual((yield* old.cost({ ...old.value })).length, 0)
    }).pipe(Effect.provide(testLayer)))

  const number = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 }))
  const steps = Schema.Array(Schema.Struct({ old: Schema.Boolean, at: number, what: number }))

  it.effect.prop("comes to what the new one alone would come to", { steps }, ({ steps }) =>
    Effect.gen(function*() {
      const [old, next] = [cell(Old), cell(New)]
      yield* next.write(full)
      let expected: State = full
      for (const step of steps) {
        const side = step.old ? old : next
        const state = (yield* side.load) as State
        yield* (side as typeof next).write(run(state, step))
        yield* side.checkForms
        expected = run(expected, step)
      }
      assert.deepStrictEqual(yield* next.load, expected)
    }).pipe(Effect.provide(testLayer)), { arbitrary: { runs: 200 }, timeout: 60_000 })
})

interface Tree {
  readonly name: string
  readonly below: ReadonlyArray<Tree>
}

function tree(more: Schema.Struct.Fields): Schema.Codec<any, any> {
  const Self: Schema.Codec<Tree, any> = Schema.Struct({
    name: Schema.String,
    ...more,
    below: Schema.Array(Schema.suspend((): Schema.Codec<Tree, any> => Self))
  }) as any
  return Self
}

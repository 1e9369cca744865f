/** Random changes read back equal, and states live through changes of their schema. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { StateCodec } from "effect-dgen"
import { cell, rows, testLayer } from "./support.ts"

const Sub = Schema.Struct({ id: Schema.String, n: Schema.Int })
const Item = Schema.Struct({ id: Schema.String, text: Schema.String })
const Box = Schema.Struct({ id: Schema.String, subs: Schema.Array(Sub) })
const State = Schema.Struct({
  count: Schema.Int,
  name: Schema.optionalKey(Schema.String),
  list: Schema.Array(Item),
  boxes: Schema.Array(Box),
  record: Schema.Record(Schema.String, Schema.Struct({ n: Schema.Int })),
  lists: Schema.Record(Schema.String, Schema.Array(Sub)),
  whole: StateCodec.term(Schema.Struct({ n: Schema.Int }))
})
type State = typeof State.Type

const names = ["a", "b", "", "10", "9", "__proto__", "\uffff", "\u{10000}", "c", "d", "e", "f"]
const nameOf = (n: number) => names[n % names.length]!

/** A change of a list: insert, remove, move, change, swap, shuffle, empty. */
const changeList = <I extends { readonly id: string }>(
  list: ReadonlyArray<I>,
  make: (id: string, n: number) => I,
  what: number,
  at: number,
  n: number
): ReadonlyArray<I> => {
  const place = list.length === 0 ? 0 : at % list.length
  switch (what % 8) {
    case 0:
    case 1:
    case 2: {
      const id = nameOf(n)
      const found = list.findIndex((item) => item.id === id)
      return found === -1 ? list.toSpliced(at % (list.length + 1), 0, make(id, n)) : list.with(found, make(id, n))
    }
    case 3:
      return list.toSpliced(place, 1)
    case 4:
      return list.length === 0 ? list : list.toSpliced(place, 1).toSpliced(n % list.length, 0, list[place]!)
    case 5:
      return list.toSorted((a, b) => (a.id + n > b.id + at ? 1 : -1))
    case 6:
      return list.toReversed()
    default:
      return n % 3 === 0 ? [] : list.slice(place)
  }
}

const put = <V>(record: { readonly [k: string]: V }, name: string, value: V): { readonly [k: string]: V } =>
  Object.fromEntries([...Object.entries(record).filter(([k]) => k !== name), [name, value]])
const drop = <V>(record: { readonly [k: string]: V }, name: string): { readonly [k: string]: V } =>
  Object.fromEntries(Object.entries(record).filter(([k]) => k !== name))

const makeItem = (id: string, n: number) => ({ id, text: `text ${n}` })
const makeSub = (id: string, n: number) => ({ id, n })

const change = (state: State, [kind, what, at, n]: readonly [number, number, number, number]): State => {
  switch (kind % 8) {
    case 0:
      return { ...state, count: n }
    case 1: {
      const { name: _, ...others } = state
      return n % 2 === 0 ? others : { ...others, name: nameOf(at) }
    }
    case 2:
      return { ...state, list: changeList(state.list, makeItem, what, at, n) }
    case 3:
      return { ...state, boxes: changeList(state.boxes, (id) => ({ id, subs: [makeSub("s", n)] }), what, at, n) }
    case 4: {
      const box = state.boxes[at % Math.max(1, state.boxes.length)]
      if (box === undefined) return state
      const next = { ...box, subs: changeList(box.subs, makeSub, what, n, at) }
      return { ...state, boxes: state.boxes.with(state.boxes.indexOf(box), next) }
    }
    case 5:
      return { ...state, record: what % 3 === 0 ? drop(state.record, nameOf(n)) : put(state.record, nameOf(n), { n }) }
    case 6: {
      const name = nameOf(at)
      const subs = Object.hasOwn(state.lists, name) ? state.lists[name]! : []
      const lists = what % 5 === 0
        ? drop(state.lists, name)
        : put(state.lists, name, changeList(subs, makeSub, what, at, n))
      return { ...state, lists }
    }
    default:
      return { ...state, whole: { n } }
  }
}

const byte = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 })))
const steps = Arbitrary.array(
  Arbitrary.array(Arbitrary.all([byte, byte, byte, byte] as const), { minLength: 1, maxLength: 6 }),
  { maxLength: 30 }
)
const empty: State = { count: 0, list: [], boxes: [], record: {}, lists: {}, whole: { n: 0 } }

describe("StateCodec", () => {
  it.effect.prop(
    "random changes read back equal, from the cache and cold",
    { steps },
    ({ steps }) =>
      Effect.gen(function*() {
        const state = cell(State)
        yield* state.write(empty)
        for (const [index, step] of steps.entries()) {
          // every third write starts from what a cold read gives
          if (index % 3 === 2) yield* state.load
          const next = step.reduce((value, one) => change(value, one as any), state.value)
          assert.deepStrictEqual(yield* state.write(next), next)
          yield* state.check
          yield* state.checkForms
        }
        // nothing that was removed is left
        yield* state.write(empty)
        const left = (yield* rows).length
        yield* cell(State).write(empty)
        assert.strictEqual(left, (yield* rows).length)
      }).pipe(Effect.provide(testLayer)),
    { arbitrary: { runs: 150 } }
  )

  it.effect.prop(
    "a list in any other order writes no more places than must move",
    { numbers: Arbitrary.array(byte) },
    ({
      numbers
    }) =>
      Effect.gen(function*() {
        const ids = [...new Set(numbers)]
        const state = cell(Schema.Array(Item))
        yield* state.write(ids.map((n) => makeItem(String(n), n)))
        const next = state.value.toSorted((a, b) => Number(a.id) - Number(b.id))
        const cost = yield* state.cost(next)
        assert.lengthOf(cost, ids.length - longestRun(ids))
        assert.deepStrictEqual(yield* state.check, next)
      }).pipe(Effect.provide(testLayer)),
    { arbitrary: { runs: 150 } }
  )

  const kinds = {
    term: StateCodec.term(Schema.Array(Box)) as Schema.Codec<ReadonlyArray<typeof Box.Type>, any>,
    components: Schema.Array(Box),
    split: Schema.Array(StateCodec.assigns(Box)),
    items: Schema.Array(StateCodec.term(Box)),
    terms: Schema.Array(Schema.Struct({ id: Schema.String, subs: StateCodec.term(Schema.Array(Sub)) }))
  }
  const boxes = [{ id: "a", subs: [makeSub("1", 1), makeSub("2", 2)] }, { id: "b", subs: [] }]
  for (const [from, before] of Object.entries(kinds)) {
    for (const [to, after] of Object.entries(kinds)) {
      if (from === to) continue
      it.effect(`a list stored as ${from} is read, changed and read back as ${to}`, () =>
        Effect.gen(function*() {
          const old = cell(Schema.Struct({ boxes: before, other: Schema.Int }))
          const state = cell(Schema.Struct({ boxes: after, other: Schema.Int }))
          const fresh = cell(Schema.Struct({ boxes: after, other: Schema.Int }))
          const first = { boxes, other: 1 }
          yield* old.write(first)
          assert.deepStrictEqual(yield* state.load, first)
          // what does not change stays as it is stored
          assert.lengthOf(yield* state.cost({ ...state.value, other: 2 }), 1)
          assert.deepStrictEqual(yield* state.check, { boxes, other: 2 })
          const next = [
            ...state.value.boxes.map((box) => ({ ...box, subs: [...box.subs, makeSub("new", 0)] })),
            boxes[1]!
          ]
          const changed = { boxes: next.map(({ id, subs }, i) => ({ id: `${id}${i}`, subs })), other: 3 }
          yield* state.write(changed)
          assert.deepStrictEqual(yield* state.check, changed)
          yield* state.checkForms
          const found = yield* rows
          yield* fresh.write(changed)
          assert.deepStrictEqual(found.map((row) => row.key), (yield* rows).map((row) => row.key))
          assert.deepStrictEqual(yield* old.load, changed)
          yield* old.write({ ...changed, boxes })
          assert.deepStrictEqual(yield* old.check, { ...changed, boxes })
        }).pipe(Effect.provide(testLayer)))
    }
  }

  it.effect("fields come and go with the schema; what it does not know any more stays as it is", () =>
    Effect.gen(function*() {
      const old = cell(Schema.Struct({ a: Schema.Int, gone: Schema.Array(Item) }))
      yield* old.write({ a: 1, gone: [makeItem("x", 1)] })
      const state = cell(Schema.Struct({ a: Schema.Int, fresh: Schema.optionalKey(Schema.Int) }))
      assert.deepStrictEqual(yield* state.load, { a: 1 })
      yield* state.write({ a: 1, fresh: 2 })
      yield* state.checkForms
      assert.deepStrictEqual((yield* rows).map((row) => row.key), [
        [1],
        [1, "a", 0, 0],
        [1, "fresh", 0, 0],
        [1, "gone", 2],
        [1, "gone", 2, "x"],
        [1, "gone", 2, "x", 0, 0]
      ])
      assert.deepStrictEqual(yield* old.load, { a: 1, gone: [makeItem("x", 1)] })
      const strict = cell(Schema.Struct({ a: Schema.String }))
      const error = yield* Effect.flip(strict.read)
      assert.strictEqual(error._tag, "StateError")
      assert.strictEqual((error as StateCodec.StateError).field, "a")
      const defaulted = cell(
        Schema.Struct({ a: Schema.Int, more: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(7))) })
      )
      assert.deepStrictEqual(yield* defaulted.load, { a: 1, more: 7 })
      yield* defaulted.write({ ...defaulted.value, a: 2 })
      assert.deepStrictEqual(yield* defaulted.check, { a: 2, more: 7 })
    }).pipe(Effect.provide(testLayer)))
})

/** By trying all: the length of the longest run of numbers that only grows. */
const longestRun = (numbers: ReadonlyArray<number>): number => {
  const best: Array<number> = []
  numbers.forEach((n, i) => best.push(1 + Math.max(0, ...best.filter((_, j) => j < i && numbers[j]! < n))))
  return Math.max(0, ...best)
}

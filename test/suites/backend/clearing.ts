/** What every backend must do with ranges of very many keys: they are cleared in one commit that is seen at once. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Backend, type BackendError, Tenant, Transaction } from "effect-dgen"

const ROWS = 1_500
const PART = 500

const value = (n: number) => Uint8Array.of(n & 0xff, n >> 8)
const rowOf = (i: number) => ["row", i] as const

const fill = (from = 0) =>
  Effect.forEach(
    Array.from({ length: ROWS / PART }, (_, part) => from + part * PART),
    (first) =>
      Tenant.transact(Effect.forEach(
        Array.from({ length: PART }, (_, i) => first + i),
        (i) => Transaction.set(rowOf(i), value(i)),
        { discard: true }
      )),
    { discard: true }
  )

const numbers = (options?: { readonly limit?: number; readonly reverse?: boolean }) =>
  Effect.map(Transaction.getRange(["row"], options), (rows) => rows.map(({ key }) => key[1]))

const seen = (options?: { readonly limit?: number; readonly reverse?: boolean }) => Tenant.transact(numbers(options))

export const clearingSuite = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>) => {
  let paths = 0
  const live = <E>(title: string, test: Effect.Effect<void, E, Tenant.Tenant | Backend.Backend>) =>
    it.live(
      title,
      () => test.pipe(Effect.provide(Tenant.layer(["clearing", String(++paths)]).pipe(Layer.provideMerge(backend))))
    )

  describe(`${name}: long ranges`, () => {
    live(
      "all of it is gone with the commit, and nothing beside it",
      Effect.gen(function*() {
        yield* fill()
        yield* Tenant.transact(Transaction.set(["s"], value(1)))
        yield* Tenant.transact(Transaction.clearRange(["row"]))
        assert.deepStrictEqual(yield* seen(), [])
        assert.deepStrictEqual(yield* seen({ reverse: true, limit: 1 }), [])
        assert.strictEqual(yield* Tenant.transact(Transaction.get(rowOf(7))), undefined)
        assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["s"])), value(1))
      })
    )
    live(
      "what is written into it, in the same commit or later, is there",
      Effect.gen(function*() {
        yield* fill()
        yield* Tenant.transact(Effect.gen(function*() {
          yield* Transaction.set(rowOf(3), value(1))
          yield* Transaction.clearRange(["row"])
          yield* Transaction.set(rowOf(5), value(2))
          yield* Transaction.add(rowOf(6), 3n)
          assert.deepStrictEqual(yield* numbers(), [5, 6])
        }))
        assert.deepStrictEqual(yield* seen(), [5, 6])
        yield* Tenant.transact(Transaction.add(rowOf(8), 4n))
        yield* Tenant.transact(Transaction.set(rowOf(1_000), value(9)))
        yield* Tenant.transact(Transaction.clear(rowOf(5)))
        assert.deepStrictEqual(yield* seen(), [6, 8, 1_000])
        assert.deepStrictEqual(yield* seen({ limit: 2, reverse: true }), [1_000, 8])
        assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(rowOf(1_000))), value(9))
        const [added] = yield* Tenant.transact(Transaction.getRange(["row"], { limit: 1 }))
        assert.deepStrictEqual([...added!.value], [3, 0, 0, 0, 0, 0, 0, 0])
      })
    )
    live(
      "it can be filled and cleared again, and overlapping ones too",
      Effect.gen(function*() {
        for (let round = 0; round < 3; round++) {
          yield* fill()
          assert.strictEqual((yield* seen()).length, ROWS)
          yield* Tenant.transact(Transaction.clearRange(["row"]))
          assert.deepStrictEqual(yield* seen(), [])
        }
        yield* fill()
        const part = (begin: number, end: number) =>
          Tenant.transact(Transaction.clearRange({ begin: rowOf(begin), end: rowOf(end) }))
        yield* part(200, 1_100)
        yield* Tenant.transact(Transaction.set(rowOf(600), value(1)))
        yield* part(300, 1_300)
        yield* Tenant.transact(Transaction.set(rowOf(700), value(1)))
        const expected = Array.from({ length: ROWS }, (_, i) => i).filter((i) => i < 200 || i === 700 || i >= 1_300)
        assert.deepStrictEqual(yield* seen(), expected)
        assert.deepStrictEqual(yield* seen({ reverse: true }), expected.toReversed())
      })
    )
    live(
      "commits of one moment apply in their order",
      Effect.gen(function*() {
        yield* fill()
        yield* Effect.all([
          Tenant.transact(Transaction.set(rowOf(1), value(1))),
          Tenant.transact(Transaction.clearRange(["row"])),
          Tenant.transact(Transaction.set(rowOf(2), value(2))),
          Tenant.transact(Effect.flatMap(numbers(), (rows) => Transaction.set(["count"], value(rows.length))))
        ], { concurrency: "unbounded" })
        const rows = yield* seen()
        const count = (yield* Tenant.transact(Transaction.get(["count"])))![0]
        assert.isTrue(rows.length <= 2 && rows.includes(2))
        assert.isTrue(count === 1 || count === 2 || count === (ROWS & 0xff))
      })
    )
    live(
      "a transaction that began before sees all of it or nothing, and does not commit beside it",
      Effect.gen(function*() {
        yield* fill()
        const context = yield* Effect.context<Tenant.Tenant>()
        const clearAll = () => Effect.runPromiseWith(context)(Tenant.transact(Transaction.clearRange(["row"])))
        let tries = 0
        const found = yield* Tenant.transact(Effect.gen(function*() {
          const row = yield* Transaction.get(rowOf(1))
          if (tries++ === 0) yield* Effect.promise(clearAll)
          const rest = yield* numbers()
          assert.strictEqual(rest.length, row === undefined ? 0 : ROWS)
          yield* Transaction.set(["seen"], value(rest.length))
          return rest.length
        }))
        assert.deepStrictEqual([found, tries], [0, 2])
      })
    )
    live(
      "who watches a key of it is woken",
      Effect.gen(function*() {
        yield* fill()
        const watch = yield* Tenant.transact(Transaction.watch(rowOf(9)))
        yield* Tenant.transact(Transaction.clearRange(["row"]))
        yield* watch.changed
      })
    )
    live(
      "a tenant with very many keys is removed, and empty when it is made again",
      Effect.gen(function*() {
        const path = ["clearing", "removed", name]
        const inside = <A, E>(effect: Effect.Effect<A, E, Tenant.Tenant>) => Effect.provide(effect, Tenant.layer(path))
        yield* inside(fill())
        assert.isTrue(yield* Tenant.remove(path))
        yield* inside(Tenant.transact(Transaction.set(rowOf(4), value(1))))
        assert.deepStrictEqual(yield* inside(seen()), [4])
      })
    )
  })
}

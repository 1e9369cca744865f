import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { make, makeStore } from "../../src/internal/stores/memory.ts"
import { between, clear, commit, get, outcome, point, put, range, text, within, write } from "../support/driver.ts"

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)

/** Numbers below a limit, the same for the same seed (mulberry32). */
const numbers = (from: number) => {
  let state = from
  return (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % limit
  }
}

describe("OptimisticStore", () => {
  it.effect("reads one snapshot however many commits pass by", () =>
    Effect.scoped(Effect.gen(function*() {
      const store = makeStore()
      const backend = yield* make(store)
      yield* write(backend, put("a", "1"), put("b", "1"), put("c", "1"))
      yield* within(backend, (old) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* get(old, "a"), "1")
          yield* write(backend, put("b", "2"), clear("c"), put("d", "2"))
          yield* within(backend, (middle) =>
            Effect.gen(function*() {
              assert.strictEqual(yield* get(middle, "b"), "2")
              yield* write(backend, put("b", "3"), put("c", "3"))
              assert.deepStrictEqual(yield* range(middle, "a", "z"), [["a", "1"], ["b", "2"], ["d", "2"]])
            }))
          assert.deepStrictEqual(yield* range(old, "a", "z"), [["a", "1"], ["b", "1"], ["c", "1"]])
          assert.deepStrictEqual(yield* range(old, "a", "z", 2, true), [["c", "1"], ["b", "1"]])
        }))
      assert.strictEqual(store.kept, 0)
    })))

  it.effect(`agrees with copies of every version (seed ${seed})`, () =>
    Effect.scoped(Effect.gen(function*() {
      const random = numbers(seed)
      const store = makeStore()
      const backend = yield* make(store)
      const key = () => String.fromCharCode(97 + random(12))
      let now = new Map<string, string>()
      const open: Array<{
        readonly driver: typeof backend extends { begin: Effect.Effect<infer D, any> } ? D : never
        readonly copy: ReadonlyMap<string, string>
      }> = []
      for (let step = 0; step < 3_000; step++) {
        const what = random(10)
        if (what < 2 && open.length < 8) {
          const driver = yield* backend.begin
          yield* driver.readVersion
          open.push({ driver, copy: new Map(now) })
        } else if (what === 2 && open.length > 0) {
          open.splice(random(open.length), 1)[0]!.driver.close()
        } else if (what < 6) {
          const next = new Map(now)
          const mutations = Array.from({ length: 1 + random(3) }, () => {
            const one = key()
            const kind = random(5)
            if (kind === 0) {
              const end = key()
              for (const k of next.keys()) {
                if (one <= k && k < end) next.delete(k)
              }
              return { op: "clearRange" as const, ...between(one, end) }
            }
            if (kind === 1) {
              next.delete(one)
              return clear(one)
            }
            next.set(one, String(step))
            return put(one, String(step))
          })
          yield* write(backend, ...mutations)
          now = next
        } else if (open.length > 0) {
          const { copy, driver } = open[random(open.length)]!
          const begin = key()
          const end = key()
          const limit = 1 + random(6)
          const reverse = random(2) === 1
          const expected = [...copy].filter(([k]) => begin <= k && k < end).sort(([a], [b]) => a < b ? -1 : 1)
          if (reverse) expected.reverse()
          assert.deepStrictEqual(yield* range(driver, begin, end, limit, reverse), expected.slice(0, limit))
          assert.strictEqual(yield* get(driver, begin), copy.get(begin))
        }
      }
      for (const { driver } of open) driver.close()
      assert.strictEqual(store.kept, 0)
    })))

  for (
    const [title, reads, writes, expected] of [
      ["the key that was read", [point("a")], [put("a", "2")], "Conflict"],
      ["another key", [point("a")], [put("b", "2")], "success"],
      ["the key after it", [point("a")], [put("a\0", "2")], "success"],
      ["a key in the range", [between("a", "c")], [put("b", "2")], "Conflict"],
      ["the end of the range", [between("a", "c")], [put("c", "2")], "success"],
      ["the begin of the range", [between("a", "c")], [put("a", "2")], "Conflict"],
      ["a range over the key", [point("b")], [{ op: "clearRange" as const, ...between("a", "c") }], "Conflict"],
      ["a range up to the key", [point("c")], [{ op: "clearRange" as const, ...between("a", "c") }], "success"],
      ["overlapping ranges", [between("a", "c")], [{ op: "clearRange" as const, ...between("b", "d") }], "Conflict"],
      ["the same value again", [point("a")], [put("a", "1")], "Conflict"],
      ["nothing that was declared as read", [], [put("a", "2")], "success"]
    ] as const
  ) {
    it.effect(`${expected} when another commit writes ${title}`, () =>
      Effect.scoped(Effect.gen(function*() {
        const backend = yield* make(makeStore())
        yield* write(backend, put("a", "1"))
        const seen = yield* within(backend, (driver) =>
          Effect.gen(function*() {
            yield* get(driver, "a")
            yield* write(backend, ...writes)
            return yield* outcome(commit(driver, [put("x", "1")], { reads }))
          }))
        assert.strictEqual(seen, expected)
      })))
  }

  it.effect("never refuses what only reads, nor what was committed before the snapshot", () =>
    Effect.scoped(Effect.gen(function*() {
      const backend = yield* make(makeStore())
      const holder = yield* backend.begin
      yield* holder.readVersion
      yield* write(backend, put("a", "1"))
      const seen = yield* within(
        backend,
        (driver) => Effect.andThen(get(driver, "a"), outcome(commit(driver, [put("b", "1")], { reads: [point("a")] })))
      )
      assert.strictEqual(seen, "success")
      assert.strictEqual(yield* outcome(commit(holder, [], { reads: [point("a")] })), "success")
      holder.close()
    })))

  it.effect("finds conflicts with keys that only the commit names", () =>
    Effect.scoped(Effect.gen(function*() {
      const backend = yield* make(makeStore())
      const key = Buffer.from("q/0123456789")
      const seen = yield* within(backend, (driver) =>
        Effect.gen(function*() {
          yield* range(driver, "q/", "q0")
          yield* write(backend, { op: "versionstampedKey", key, position: 2, value: key })
          return yield* outcome(commit(driver, [put("x", "1")], { reads: [between("q/", "q0")] }))
        }))
      assert.strictEqual(seen, "Conflict")
    })))

  it.effect("forgets a transaction after five seconds, and keeps nothing for it", () =>
    Effect.scoped(Effect.gen(function*() {
      const store = makeStore()
      const backend = yield* make(store)
      yield* write(backend, put("a", "1"))
      const driver = yield* backend.begin
      assert.strictEqual(yield* get(driver, "a"), "1")
      yield* TestClock.adjust(5_000)
      yield* write(backend, put("a", "2"))
      assert.isAbove(store.kept, 0)
      assert.strictEqual(yield* get(driver, "a"), "1")
      yield* TestClock.adjust(1)
      yield* write(backend, put("a", "3"))
      assert.strictEqual(store.kept, 0)
      assert.strictEqual(yield* outcome(get(driver, "a")), "TransactionTooOld")
      assert.strictEqual(yield* outcome(commit(driver, [put("b", "1")])), "TransactionTooOld")
      driver.close()
    })))

  it.effect("keeps no more than the oldest reader needs while readers come and go", () =>
    Effect.scoped(Effect.gen(function*() {
      const store = makeStore()
      const backend = yield* make(store)
      let previous = yield* backend.begin
      yield* previous.readVersion
      let most = 0
      for (let i = 0; i < 500; i++) {
        yield* write(backend, put(`k${i}`, "v"), put("same", String(i)))
        const next = yield* backend.begin
        yield* next.readVersion
        previous.close()
        previous = next
        most = Math.max(most, store.kept)
      }
      assert.isBelow(most, 20)
      previous.close()
    })))

  it.effect("fires a watch once, when the value differs from what its transaction saw", () =>
    Effect.scoped(Effect.gen(function*() {
      const backend = yield* make(makeStore())
      yield* write(backend, put("a", "1"))
      let fired = 0
      const watch = { key: Buffer.from("a"), fire: () => void fired++, fail: () => {}, onCancel: undefined }
      yield* within(backend, (driver) => commit(driver, [], { watches: [watch] }))
      yield* write(backend, put("a", "1"), put("b", "1"))
      assert.strictEqual(fired, 0)
      yield* write(backend, put("a", "2"))
      yield* write(backend, put("a", "3"))
      assert.strictEqual(fired, 1)
      const late = { key: Buffer.from("a"), fire: () => void fired++, fail: () => {}, onCancel: undefined }
      yield* within(backend, (driver) =>
        Effect.gen(function*() {
          assert.strictEqual(text(yield* driver.get(late.key)), "3")
          yield* write(backend, put("a", "4"))
          yield* commit(driver, [], { watches: [late] })
        }))
      assert.strictEqual(fired, 2)
    })))

  it.effect("ends transactions and watches with the scope", () =>
    Effect.gen(function*() {
      let failure: string | undefined
      const backend = yield* Effect.scoped(Effect.gen(function*() {
        const made = yield* make(makeStore())
        const watch = {
          key: Buffer.from("a"),
          fire: () => {},
          fail: (error: { readonly reason: { readonly _tag: string } }) => void (failure = error.reason._tag),
          onCancel: undefined
        }
        yield* within(made, (driver) => commit(driver, [], { watches: [watch] }))
        return made
      }))
      assert.strictEqual(failure, "Closed")
      assert.strictEqual(yield* outcome(backend.begin), "Closed")
    }))
})

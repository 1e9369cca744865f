/** The order keys of components, without a store. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { generateKeyBetween } from "fractional-indexing"
import { fillOrders, isOrderKey, longestIncreasing, ORDER_LIMIT_BYTES } from "../../src/internal/state/order.ts"

const ascends = (keys: ReadonlyArray<string | undefined>): boolean =>
  keys.every((key, i) => key !== undefined && isOrderKey(key) && (i === 0 || keys[i - 1]! < key))

/** Inserts `count` times where `where` says, and gives the keys that were written. */
const insert = (count: number, where: (length: number, i: number) => number) => {
  let keys: Array<string | undefined> = ["a0", "a1"]
  let written = 0
  for (let i = 0; i < count; i++) {
    const at = where(keys.length, i)
    const before = keys.toSpliced(at, 0, undefined)
    keys = [...before]
    const touched = fillOrders(keys, at, at + 1)
    for (let j = 0; j < keys.length; j++) {
      if (keys[j] !== before[j]) {
        written++
        assert.isTrue(j >= touched.begin && j < touched.end)
      }
    }
  }
  assert.isTrue(ascends(keys))
  return { longest: Math.max(...keys.map((key) => key!.length)), written }
}

describe("order keys", () => {
  it("appending and prepending count on", () => {
    for (const where of [(length: number) => length, () => 0]) {
      const { longest, written } = insert(10_000, where)
      assert.isAtMost(longest, 5)
      assert.strictEqual(written, 10_000)
    }
  })
  const gaps: Record<string, (length: number, i: number) => number> = {
    "after the first": () => 1,
    "before the last": (length) => length - 1,
    "in the middle": (length) => length >> 1,
    "to and fro": (length, i) => (length >> 1) + (i % 2)
  }
  for (const [title, where] of Object.entries(gaps)) {
    it(`5,000 insertions into one gap leave keys short and write few: ${title}`, () => {
      const { longest, written } = insert(5_000, where)
      assert.isAtMost(longest, ORDER_LIMIT_BYTES)
      assert.isAtMost(written, 4 * 5_000)
    })
  }
  const byte = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 })))
  it.effect.prop(
    "any places are filled in order",
    { moves: Arbitrary.array(byte, { minLength: 1, maxLength: 200 }) },
    ({
      moves
    }) =>
      Effect.sync(() => {
        let keys: Array<string | undefined> = []
        for (const move of moves) {
          const kept = keys.filter((_, i) => (i * 31 + move) % 7 !== 0)
          const at = move % (kept.length + 1)
          const added = Array.from({ length: 1 + (move % 4) }, () => undefined)
          keys = [...kept.slice(0, at), ...added, ...kept.slice(at)].map((key, i) =>
            (i * 13 + move) % 11 === 0 ? undefined : key
          )
          fillOrders(keys, 0, keys.length)
          assert.isTrue(ascends(keys))
        }
      })
  )
  it("knows the keys that others can be made next to", () => {
    for (const key of ["a0", "Zz", "a0V", "zzzzzzzzzzzzzzzzzzzzzzzzzzz", `A${"0".repeat(25)}1`]) {
      assert.isTrue(isOrderKey(key), key)
      assert.isTrue(generateKeyBetween(null, key) < key)
      assert.isTrue(generateKeyBetween(key, null) > key)
    }
    for (
      const key of ["", "0", "a", "b0", "a00", "a0V0", "a-", "aé", `A${"0".repeat(26)}`, `a0${"1".repeat(99)}`, "a0\n"]
    ) {
      assert.isFalse(isOrderKey(key), key)
    }
  })
  it("finds a longest increasing run", () => {
    assert.deepStrictEqual([...longestIncreasing([])], [])
    assert.lengthOf([...longestIncreasing([3, 2, 1])], 1)
    assert.deepStrictEqual([...longestIncreasing([5, 1, 2, 9, 3, 4])].sort(), [1, 2, 3, 4])
  })
})

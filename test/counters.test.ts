import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/testing/FastCheck"
import * as Counters from "../src/internal/counters.ts"

const safe = FastCheck.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER })

const stored = (value: bigint): Uint8Array => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigInt64(0, value, true)
  return bytes
}

describe("counters", () => {
  it("are eight bytes, signed and little-endian, whatever the amount", () =>
    FastCheck.assert(FastCheck.property(safe, (amount) => {
      assert.deepStrictEqual(Counters.amountBytes(amount), stored(BigInt(amount)))
      assert.strictEqual(Counters.read(stored(BigInt(amount))), amount)
      assert.strictEqual(Counters.readBigint(stored(BigInt(amount))), BigInt(amount))
    })))

  it("read as the nearest number what no number holds exactly", () =>
    FastCheck.assert(FastCheck.property(FastCheck.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      const number = Counters.read(stored(value))
      assert.isAtMost(Math.abs(number - Number(value)), Math.abs(Number(value)) * Number.EPSILON)
    })))

  it("are zero where there is none", () => {
    for (const bytes of [undefined, new Uint8Array(0), new Uint8Array(7).fill(1), new Uint8Array(9).fill(1)]) {
      assert.strictEqual(Counters.read(bytes), 0)
    }
  })
})

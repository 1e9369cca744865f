import { assert, describe, it } from "@effect/vitest"
import { Arbitrary } from "effect"
import * as Counters from "../../src/internal/data/counters.ts"
import { byte } from "../tuple/arbitrary.ts"

const view = new DataView(new ArrayBuffer(8))

const stored = (value: bigint): Uint8Array => {
  view.setBigInt64(0, value, true)
  return new Uint8Array(view.buffer.slice(0))
}

const edges = [
  0n,
  1n,
  -1n,
  255n,
  256n,
  -256n,
  2n ** 31n,
  -(2n ** 31n),
  2n ** 32n - 1n,
  2n ** 32n,
  -(2n ** 32n) - 1n,
  2n ** 53n - 1n,
  1n - 2n ** 53n
]

describe("counters", () => {
  it.each(edges)("hold %s in eight bytes, signed and little-endian", (value) => {
    assert.deepStrictEqual(Counters.amountBytes(Number(value)), stored(value))
    assert.strictEqual(Counters.read(stored(value)), Number(value))
    assert.strictEqual(Counters.readBigint(stored(value)), value)
  })

  it.prop("read as the number nearest to what is stored", {
    bytes: Arbitrary.array(byte, { minLength: 8, maxLength: 8 })
  }, ({ bytes }) => {
    const value = Uint8Array.from(bytes)
    const exact = Counters.readBigint(value)
    const number = Counters.read(value)
    assert.isAtMost(Math.abs(number - Number(exact)), Math.abs(Number(exact)) * Number.EPSILON)
    if (Number.isSafeInteger(number)) assert.deepStrictEqual(Counters.amountBytes(number), value)
  })

  it("are zero where there is none", () => {
    for (const bytes of [undefined, new Uint8Array(0), new Uint8Array(7).fill(1), new Uint8Array(9).fill(1)]) {
      assert.strictEqual(Counters.read(bytes), 0)
    }
  })
})

/**
 * What the tests of keys share: bytes as text, what a refusal is, and what an element comes back as.
 */
import { assert } from "@effect/vitest"
import * as Tuple from "../../src/Tuple.ts"

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

export const fromHex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"))

export const concat = (...parts: ReadonlyArray<Uint8Array>): Uint8Array => new Uint8Array(Buffer.concat(parts))

export const runs = (count: number) => ({ arbitrary: { runs: count, size: 60 } })

export const refusal = (run: () => unknown): Tuple.TupleError => {
  try {
    run()
  } catch (error) {
    assert.instanceOf(error, Tuple.TupleError)
    return error
  }
  return assert.fail("nothing was refused")
}

export const loneSurrogate = /\p{Surrogate}/u

const isCanonicalNan = (element: Tuple.Double): boolean => Number.isNaN(element.value) && element.nanBits === undefined

/** What a packed element comes back as. */
export const unpacked = (element: Tuple.Element): Tuple.Element => {
  if (typeof element === "bigint") {
    const fits = element >= BigInt(Number.MIN_SAFE_INTEGER) && element <= BigInt(Number.MAX_SAFE_INTEGER)
    return fits ? Number(element) : element
  }
  if (element instanceof Tuple.Double) {
    const staysWrapped = (Number.isSafeInteger(element.value) && !Object.is(element.value, -0)) ||
      (Number.isNaN(element.value) && !isCanonicalNan(element))
    return staysWrapped ? element : element.value
  }
  return Array.isArray(element) ? element.map(unpacked) : element
}

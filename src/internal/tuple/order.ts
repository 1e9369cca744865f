/**
 * The order of tuples, computed from their elements: the same as the order of their packed bytes.
 *
 * @internal
 */
import {
  canonicalNanBits32,
  canonicalNanBits64,
  Code,
  describe,
  Double,
  Float,
  invalidArgument,
  maximumDepth,
  TupleError,
  Uuid,
  Versionstamp
} from "./element.ts"

/** @internal */
export type Ordering = -1 | 0 | 1

/** @internal */
export const orderBytes = (a: Uint8Array, b: Uint8Array): Ordering => {
  const shared = Math.min(a.length, b.length)
  for (let i = 0; i < shared; i++) {
    const x = a[i]!
    const y = b[i]!
    if (x !== y) return x < y ? -1 : 1
  }
  return orderValues(a.length, b.length)
}

const orderValues = <A extends number | bigint>(a: A, b: A): Ordering => a < b ? -1 : a > b ? 1 : 0

/** @internal */
export const orderTuples = (a: unknown, b: unknown, depth: number): Ordering => {
  if (!Array.isArray(a) || !Array.isArray(b)) {
    throw invalidArgument(`a tuple must be an array of elements, and is ${describe(Array.isArray(a) ? b : a)}`)
  }
  if (depth > maximumDepth) {
    throw new TupleError({
      reason: "NestedTooDeep",
      message: `a tuple is nested more than ${maximumDepth} deep: see that it does not contain itself`,
      path: []
    })
  }
  const shared = Math.min(a.length, b.length)
  for (let i = 0; i < shared; i++) {
    const order = orderElements(a[i], b[i], depth)
    if (order !== 0) return order
  }
  return orderValues(a.length, b.length)
}

const orderElements = (a: unknown, b: unknown, depth: number): Ordering => {
  const code = codeOf(a)
  const order = orderValues(code, codeOf(b))
  if (order !== 0) return order
  switch (code) {
    case Code.string:
      return orderStrings(a as string, b as string)
    case Code.integerZero:
      return orderValues(a as number, b as number)
    case Code.bytes:
      return orderBytes(a as Uint8Array, b as Uint8Array)
    case Code.nested:
      return orderTuples(a, b, depth + 1)
    case Code.double:
      return orderDoubles(a as number | Double, b as number | Double)
    case Code.float:
      return orderValues(sortable32(a as Float), sortable32(b as Float))
    case Code.uuid:
      return orderBytes((a as Uuid).bytes, (b as Uuid).bytes)
    case Code.versionstamp:
      return orderStamps(a as Versionstamp, b as Versionstamp)
    default:
      return 0
  }
}

// integers of all sizes and signs share one code here
const codeOf = (element: unknown): number => {
  switch (typeof element) {
    case "string":
      return Code.string
    case "number":
      return Number.isSafeInteger(element) && !Object.is(element, -0) ? Code.integerZero : Code.double
    case "bigint":
      return Code.integerZero
    case "boolean":
      return element ? Code.true : Code.false
  }
  if (element === null) return Code.null
  if (element instanceof Uint8Array) return Code.bytes
  if (Array.isArray(element)) return Code.nested
  if (element instanceof Versionstamp) return Code.versionstamp
  if (element instanceof Uuid) return Code.uuid
  if (element instanceof Double) return Code.double
  if (element instanceof Float) return Code.float
  throw new TupleError({
    reason: "UnsupportedElement",
    message: `a tuple cannot hold ${describe(element)}`,
    path: []
  })
}

// UTF-8 orders by code point, JavaScript by 16 bit unit: they differ where a surrogate meets a unit above it
const orderStrings = (a: string, b: string): Ordering => {
  const shared = Math.min(a.length, b.length)
  for (let i = 0; i < shared; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return orderValues(orderedUnit(x), orderedUnit(y))
  }
  return orderValues(a.length, b.length)
}

const orderedUnit = (unit: number): number => unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit

const orderStamps = (a: Versionstamp, b: Versionstamp): Ordering => {
  const order = orderBytes(a.bytes, b.bytes)
  return order !== 0 ? order : orderValues(a.userVersion, b.userVersion)
}

const view = new DataView(new ArrayBuffer(8))

const orderDoubles = (a: number | Double, b: number | Double): Ordering => {
  const x = typeof a === "number" ? a : a.value
  const y = typeof b === "number" ? b : b.value
  if (x < y) return -1
  if (x > y) return 1
  // only zeros and NaNs differ in nothing but their bits
  return x === y && x !== 0 ? 0 : orderValues(sortable64(a), sortable64(b))
}

const sortable64 = (element: number | Double): bigint => {
  const value = typeof element === "number" ? element : element.value
  let bits = typeof element === "number" ? canonicalNanBits64 : element.nanBits ?? canonicalNanBits64
  if (value === value) {
    view.setFloat64(0, value)
    bits = view.getBigUint64(0)
  }
  return bits >> 63n === 1n ? bits ^ 0xffffffffffffffffn : bits | 0x8000000000000000n
}

const sortable32 = (element: Float): number => {
  let bits = element.nanBits ?? canonicalNanBits32
  if (element.value === element.value) {
    view.setFloat32(0, element.value)
    bits = view.getUint32(0)
  }
  return (bits >>> 31 === 1 ? ~bits : bits | 0x80000000) >>> 0
}

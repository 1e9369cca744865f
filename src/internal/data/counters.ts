/**
 * The counters of the store: eight bytes, signed and little-endian, changed by atomic additions alone, so that who counts
 * conflicts with nobody. What is no counter counts as zero.
 */
const COUNTER_BYTES = 8

const HALF = 2 ** 32

/** What an addition of the store takes, of a safe integer, or of a bigint: that wraps. */
export const amountBytes = (amount: number | bigint): Uint8Array => {
  const bytes = new Uint8Array(COUNTER_BYTES)
  if (typeof amount === "bigint") {
    new DataView(bytes.buffer).setBigInt64(0, BigInt.asIntN(64, amount), true)
    return bytes
  }
  const high = Math.floor(amount / HALF)
  for (let i = 0; i < 4; i++) {
    bytes[i] = amount >>> (8 * i)
    bytes[4 + i] = high >> (8 * i)
  }
  return bytes
}

export const PLUS_ONE = amountBytes(1)
export const MINUS_ONE = amountBytes(-1)

/** The whole number, also where it is longer than a `number` holds exactly. */
export const readBigint = (bytes: Uint8Array | undefined): bigint =>
  bytes === undefined || bytes.length !== COUNTER_BYTES
    ? 0n
    : new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0, true)

/** The same, rounded where a `number` is not exact. */
export const read = (bytes: Uint8Array | undefined): number => {
  if (bytes === undefined || bytes.length !== COUNTER_BYTES) return 0
  let low = 0
  let high = 0
  for (let i = 3; i >= 0; i--) {
    low = low * 256 + bytes[i]!
    high = (high << 8) | bytes[4 + i]!
  }
  return high * HALF + low
}

/** Adds little-endian, wrapping, in the operand's length; a missing value counts as zero. */
export const addBytes = (value: Uint8Array | undefined, operand: Uint8Array): Uint8Array => {
  const out = new Uint8Array(operand.length)
  let carry = 0
  for (let i = 0; i < operand.length; i++) {
    const sum = (value?.[i] ?? 0) + operand[i]! + carry
    out[i] = sum & 0xff
    carry = sum >> 8
  }
  return out
}

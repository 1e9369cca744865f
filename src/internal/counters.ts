/**
 * The counters of the store: eight bytes, signed and little-endian, changed by atomic additions alone, so that who counts
 * conflicts with nobody. What is no counter counts as zero.
 */
const COUNTER_BYTES = 8

/** What an addition of the store takes. */
export const amountBytes = (amount: number): Uint8Array => {
  const bytes = new Uint8Array(COUNTER_BYTES)
  new DataView(bytes.buffer).setBigInt64(0, BigInt(amount), true)
  return bytes
}

export const PLUS_ONE = amountBytes(1)
export const MINUS_ONE = amountBytes(-1)

/** The whole number, also where it is longer than a `number` holds exactly. */
export const readBigint = (bytes: Uint8Array | undefined): bigint =>
  bytes === undefined || bytes.length !== COUNTER_BYTES
    ? 0n
    : new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0, true)

export const read = (bytes: Uint8Array | undefined): number => Number(readBigint(bytes))

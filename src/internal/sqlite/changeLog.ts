/**
 * What the newest commits of a file changed: one small value beside its version, so that another process learns which of
 * the keys that it watches to read again, instead of reading all of them.
 *
 * It holds entries, oldest first. Each leads from the version before a flush to the one after it, and an older one gives way
 * to newer ones at `LIMIT_BYTES`. Who last looked at a version that no entry leads on from, knows nothing: that of an older
 * process which writes no entries, or one that is too long ago.
 *
 * ```
 * <bytes: 4> <since: 8> <version: 8> <hashes: 2> <ranges: 2> (<hash: 4>)* (<length: 2> <begin> <length: 2> <end>)*
 * ```
 */
import type { Range } from "../stores/acceptedCommit.ts"
import type { Changes } from "../stores/changes.ts"

/** The value lies in one page with the version that is written with it: it costs no write of its own. */
const LIMIT_BYTES = 2_048

const HEAD_BYTES = 24

const encode = (since: number, version: number, { hashes, ranges }: Changes): Buffer => {
  const bounds = ranges.flatMap(({ begin, end }) => [begin, end])
  const length = HEAD_BYTES + 4 * hashes.length + bounds.reduce((sum, bound) => sum + 2 + bound.length, 0)
  const entry = Buffer.alloc(length)
  entry.writeUInt32LE(length, 0)
  entry.writeDoubleLE(since, 4)
  entry.writeDoubleLE(version, 12)
  entry.writeUInt16LE(hashes.length, 20)
  entry.writeUInt16LE(ranges.length, 22)
  let at = HEAD_BYTES
  for (const hash of hashes) at = entry.writeUInt32LE(hash, at)
  for (const bound of bounds) {
    at = entry.writeUInt16LE(bound.length, at)
    at += entry.write(bound, at, "latin1")
  }
  return entry
}

/** A log with one more entry. */
export const append = (log: Buffer, since: number, version: number, changes: Changes): Buffer => {
  const entry = encode(since, version, changes)
  if (entry.length > LIMIT_BYTES) return Buffer.alloc(0)
  let from = 0
  while (log.length - from + entry.length > LIMIT_BYTES) {
    // bytes that this version did not write
    if (log.length - from < HEAD_BYTES) return entry
    from += Math.max(HEAD_BYTES, log.readUInt32LE(from))
  }
  return Buffer.concat([log.subarray(from), entry])
}

const decode = (entry: Buffer): Changes => {
  const hashes: Array<number> = []
  const bounds: Array<string> = []
  let at = HEAD_BYTES
  for (let left = entry.readUInt16LE(20); left > 0; left--, at += 4) hashes.push(entry.readUInt32LE(at))
  for (let left = 2 * entry.readUInt16LE(22); left > 0; left--) {
    const length = entry.readUInt16LE(at)
    bounds.push(entry.toString("latin1", at + 2, at + 2 + length))
    at += 2 + length
  }
  const ranges: Array<Range> = []
  for (let i = 0; i < bounds.length; i += 2) ranges.push({ begin: bounds[i]!, end: bounds[i + 1]! })
  return { hashes, ranges }
}

/** What was changed since a version up to another one; `undefined` when the log does not say. */
export const changesBetween = (log: Buffer, since: number, version: number): Changes | undefined => {
  const hashes: Array<number> = []
  const ranges: Array<Range> = []
  let known = since
  try {
    for (let at = 0; at < log.length;) {
      const entry = log.subarray(at, at + Math.max(HEAD_BYTES, log.readUInt32LE(at)))
      at += entry.length
      const to = entry.readDoubleLE(12)
      if (to <= known) continue
      if (entry.readDoubleLE(4) > known) return undefined
      const changes = decode(entry)
      for (const hash of changes.hashes) hashes.push(hash)
      for (const range of changes.ranges) ranges.push(range)
      known = to
    }
  } catch {
    // bytes that this version did not write
    return undefined
  }
  return known === version ? { hashes, ranges } : undefined
}

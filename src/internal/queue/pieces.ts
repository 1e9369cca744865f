/**
 * Byte strings of any length, in order of the commits that wrote them: each lies in pieces under its own versionstamp,
 * `<versionstamp> <piece> <pieces>`, so that one commit can write several and none is longer than a value may be.
 */
import type { KeyValue } from "../../Backend.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { PIECE_BYTES } from "../tenant/limits.ts"
import type { TransactionState } from "../transactions/state.ts"

/** More than a transaction can write: a key that says so is none of ours, and nobody looks for all those pieces. */
const PIECES_LIMIT = 1_000

/** A whole byte string, and the keys of its pieces. */
export interface Whole {
  /** Of no commit, where the key is none of ours. */
  readonly stamp: Tuple.Versionstamp
  readonly keys: ReadonlyArray<Uint8Array>
  readonly bytes: Uint8Array
}

/** Writes a byte string after all that earlier commits, and this one so far, wrote under the prefix. */
export const append = (state: TransactionState, prefix: Uint8Array, bytes: Uint8Array): void => {
  const stamp = Tuple.Versionstamp.incomplete(state.nextUserVersion() & 0xffff)
  const pieces = Math.max(1, Math.ceil(bytes.length / PIECE_BYTES))
  for (let i = 0; i < pieces; i++) {
    const packed = Tuple.packVersionstamped([stamp, i, pieces], prefix)
    state.setVersionstampedKey(packed.bytes, packed.position, bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
  }
}

/**
 * The whole byte strings among rows, at most `limit`. `isEnd` says that no rows follow: what is not whole by then never
 * will be, and counts as it is. So does a row whose key is none of ours: whoever takes it meets bytes that say nothing.
 */
export const assemble = (
  prefix: Uint8Array,
  rows: ReadonlyArray<KeyValue>,
  limit: number,
  isEnd: boolean
): Array<Whole> => {
  const found: Array<Whole> = []
  for (let at = 0; at < rows.length && found.length < limit;) {
    const { index, pieces, stamp } = placeOf(prefix, rows[at]!.key)
    if (index === 0 && pieces > 1 && at + pieces > rows.length && !isEnd) break
    const own = index === 0 && isWhole(prefix, rows, at, pieces) ? rows.slice(at, at + pieces) : [rows[at]!]
    found.push({
      stamp,
      keys: own.map((row) => row.key),
      bytes: own.length === 1 ? own[0]!.value : Keys.concatAll(own.map((row) => row.value))
    })
    at += own.length
  }
  return found
}

interface Place {
  readonly stamp: Tuple.Versionstamp
  readonly index: number
  readonly pieces: number
}

const NOWHERE: Place = { stamp: new Tuple.Versionstamp(new Uint8Array(10)), index: 0, pieces: 1 }

const placeOf = (prefix: Uint8Array, key: Uint8Array): Place => {
  try {
    const [stamp, index, pieces] = Tuple.unpack(key, prefix.length)
    if (stamp instanceof Tuple.Versionstamp && stamp.isComplete && isNumber(index, 0) && isNumber(pieces, 1)) {
      return { stamp, index, pieces }
    }
  } catch {
    // a key that this library did not write
  }
  return NOWHERE
}

const isNumber = (value: unknown, least: number): value is number =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= PIECES_LIMIT

const isWhole = (prefix: Uint8Array, rows: ReadonlyArray<KeyValue>, at: number, pieces: number): boolean => {
  if (pieces === 1) return true
  if (at + pieces > rows.length) return false
  const first = placeOf(prefix, rows[at]!.key)
  for (let i = 1; i < pieces; i++) {
    const place = placeOf(prefix, rows[at + i]!.key)
    if (place.index !== i || place.pieces !== pieces || stampText(place.stamp) !== stampText(first.stamp)) return false
  }
  return true
}

/** What is wrong with what `assemble` gave as whole, if something is. */
export const problemOf = (prefix: Uint8Array, { keys, stamp }: Whole): string | undefined => {
  if (stamp === NOWHERE.stamp) return "its key is none"
  const { index, pieces } = placeOf(prefix, keys[0]!)
  return index === 0 && pieces === keys.length
    ? undefined
    : `piece ${index + 1} of ${pieces} is there, and not all of the others`
}

/** The name of a versionstamp in texts: 20 digits for the commit and 4 for the place in it. */
export const stampText = (stamp: Tuple.Versionstamp): string =>
  Buffer.from(stamp.bytes).toString("hex") + stamp.userVersion.toString(16).padStart(4, "0")

const FOREIGN = "key-"

/** The name of a byte string under a prefix: its versionstamp's, or its key where that is none of ours. */
export const nameOf = (prefix: Uint8Array, { keys, stamp }: Whole): string =>
  stamp === NOWHERE.stamp
    ? FOREIGN + Buffer.from(keys[0]!.subarray(prefix.length)).toString("hex")
    : stampText(stamp)

/** The keys that a name stands for under a prefix; `undefined` when the text is no name. */
export const rangeOfName = (prefix: Uint8Array, name: string): Tuple.KeyRange | undefined => {
  if (name.startsWith(FOREIGN)) {
    const hex = name.slice(FOREIGN.length)
    return /^([0-9a-f]{2})+$/.test(hex) ? Keys.single(Keys.concat(prefix, Buffer.from(hex, "hex"))) : undefined
  }
  const stamp = stampOfText(name)
  if (stamp === undefined) return undefined
  const begin = Tuple.pack([stamp], prefix)
  return { begin, end: Tuple.strinc(begin) }
}

/** The versionstamp of its name, or `undefined` when the text is none; the one of no commit is none. */
const stampOfText = (text: string): Tuple.Versionstamp | undefined =>
  /^(?!f{20})[0-9a-f]{24}$/.test(text)
    ? new Tuple.Versionstamp(new Uint8Array(Buffer.from(text.slice(0, 20), "hex")), Number.parseInt(text.slice(20), 16))
    : undefined

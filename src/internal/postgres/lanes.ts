/**
 * Lanes: the parts of the store that commit beside each other, each with a lock and a log of its own. A directory is one,
 * found by the prefix of its keys (`stores/directory.ts`), and so is all that lies outside of directories.
 *
 * 1. Every key has one lane. A range that a transaction relies on, or clears, lies within one.
 */
import { createHash } from "node:crypto"
import type { KeyRange } from "../../Backend.ts"
import { BackendError, InvalidArgument } from "../../BackendError.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"

/** A lane, as the text of the prefix of its keys. */
export type Lane = string

/** The first bytes of packed numbers that are positive, of one byte to eight. */
const NUMBER_FIRST = 0x15
const NUMBER_LAST = 0x1c

const isNumber = (first: number | undefined): first is number =>
  first !== undefined && first >= NUMBER_FIRST && first <= NUMBER_LAST

/** The lane of a key. */
export const laneOf = (key: Uint8Array): Lane =>
  isNumber(key[0]) ? Keys.toText(key.subarray(0, 2 + key[0] - NUMBER_FIRST)) : ""

const isWithin = (lane: Lane, { begin, end }: KeyRange): boolean => {
  if (laneOf(end) === lane) return lane !== "" || !((begin[0] ?? 0) < NUMBER_FIRST && (end[0] ?? 0) > NUMBER_LAST)
  return lane !== "" && Tuple.equalsBytes(end, Tuple.strinc(Keys.fromText(lane)))
}

/** The lane of a range (1). */
export const laneOfRange = (range: KeyRange): Lane => {
  const lane = laneOf(range.begin)
  if (range instanceof Keys.Single || isWithin(lane, range)) return lane
  throw new BackendError({
    reason: new InvalidArgument({
      message: "a range of keys spans several directories: read or clear one after the other"
    })
  })
}

/** Sixty-four bits that stand for a lane of a store: the number of its lock, and its name in notifications. */
export const lockOf = (store: string, lane: Lane): bigint =>
  createHash("sha256").update(`effect-dgen\0${store}\0`).update(lane, "latin1").digest().readBigInt64BE(0)

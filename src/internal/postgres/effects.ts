/**
 * What a commit asks for, in the few kinds of writes that the store's function applies, in this order: ranges cleared, keys
 * written or cleared, additions, and what holds the commit's versionstamp.
 */
import type { CommitRequest, KeyRange, Mutation } from "../../Backend.ts"
import { BackendError, InvalidArgument } from "../../BackendError.ts"
import { addBytes } from "../data/counters.ts"
import * as Keys from "../data/keys.ts"
import { type Lane, laneOf, laneOfRange } from "./lanes.ts"

export type Point = Extract<Mutation, { readonly op: "set" | "clear" | "add" }>
export type Stamped = Extract<Mutation, { readonly op: "versionstampedKey" | "versionstampedValue" }>

export interface Effects {
  readonly clears: ReadonlyArray<KeyRange>
  /** By the texts of their keys. */
  readonly points: ReadonlyMap<string, Point>
  readonly stamped: ReadonlyArray<Stamped>
  readonly readKeys: ReadonlyArray<string>
  readonly readRanges: ReadonlyArray<KeyRange>
  /** The lanes that it reads or writes; the one it reads first. */
  readonly lanes: ReadonlyArray<Lane>
  /** About so much text it is. */
  readonly size: number
}

const refuse = (message: string): never => {
  throw new BackendError({ reason: new InvalidArgument({ message }) })
}

const STAMP_BYTES = 10

/** All keys that a versionstamped one can become. */
export const rangeOf = (mutation: Extract<Stamped, { readonly op: "versionstampedKey" }>): KeyRange => {
  const begin = mutation.key.slice().fill(0, mutation.position, mutation.position + STAMP_BYTES)
  return { begin, end: Keys.next(mutation.key.slice().fill(0xff, mutation.position, mutation.position + STAMP_BYTES)) }
}

class Writes {
  readonly clears: Array<KeyRange> = []
  readonly points = new Map<string, Point>()
  stamped: Array<Stamped> = []

  apply(mutation: Mutation): void {
    switch (mutation.op) {
      case "clearRange":
        return this.#clearRange(mutation)
      case "versionstampedKey":
        this.stamped.push(mutation)
        return
      case "versionstampedValue":
        this.points.delete(Keys.toText(mutation.key))
        this.#unstamp(Keys.toText(mutation.key))
        this.stamped.push(mutation)
        return
      case "add":
        return this.#add(mutation.key, mutation.operand)
      default: {
        const text = Keys.toText(mutation.key)
        this.#unstamp(text)
        this.points.set(text, mutation)
      }
    }
  }

  #unstamp(text: string): void {
    if (this.stamped.length === 0) return
    this.stamped = this.stamped.filter((one) => one.op === "versionstampedKey" || Keys.toText(one.key) !== text)
  }

  #clearRange(range: KeyRange): void {
    const begin = Keys.toText(range.begin)
    const end = Keys.toText(range.end)
    for (const text of this.points.keys()) if (begin <= text && text < end) this.points.delete(text)
    this.stamped = this.stamped.filter((one) => {
      const keys = one.op === "versionstampedKey" ? rangeOf(one) : Keys.single(one.key)
      const [first, last] = [Keys.toText(keys.begin), Keys.toText(keys.end)]
      if (last <= begin || end <= first) return true
      if (begin <= first && last <= end) return false
      return refuse("a range is cleared that may hold a key whose versionstamp is not known yet")
    })
    this.clears.push({ begin: range.begin, end: range.end })
  }

  #add(key: Uint8Array, operand: Uint8Array): void {
    const text = Keys.toText(key)
    if (this.stamped.some((one) => one.op === "versionstampedValue" && Keys.toText(one.key) === text)) {
      return refuse("what is written with a versionstamp cannot be added to in the same transaction")
    }
    const known = this.points.get(text)
    if (known?.op === "add") {
      this.points.set(text, { op: "add", key, operand: addBytes(known.operand, operand) })
    } else if (known !== undefined) {
      this.points.set(text, { op: "set", key, value: addBytes(known.op === "set" ? known.value : undefined, operand) })
    } else this.points.set(text, { op: "add", key, operand })
  }
}

const bytesOf = (one: Point | Stamped): number =>
  one.key.length + ("value" in one ? one.value.length : "operand" in one ? one.operand.length : 0)

/** The effects of a request. Throws a `BackendError` for what cannot be committed together. */
export const effectsOf = (request: CommitRequest): Effects => {
  const writes = new Writes()
  const lanes = new Set<Lane>()
  const readKeys: Array<string> = []
  const readRanges: Array<KeyRange> = []
  let size = 0
  for (const range of request.readConflicts) {
    lanes.add(laneOfRange(range))
    const isKey = range instanceof Keys.Single || Keys.toText(range.end) === `${Keys.toText(range.begin)}\0`
    if (isKey) readKeys.push(Keys.toText(range.begin))
    else readRanges.push(range)
    size += range.begin.length + (isKey ? 0 : range.end.length)
  }
  if (lanes.size > 1) return refuse("a transaction relies on keys of several directories")
  for (const mutation of request.mutations) writes.apply(mutation)
  const { clears, points, stamped } = writes
  for (const range of clears) {
    lanes.add(laneOfRange(range))
    size += range.begin.length + range.end.length
  }
  for (const one of [...points.values(), ...stamped]) {
    lanes.add(laneOf(one.key))
    size += bytesOf(one)
  }
  return { clears, points, stamped, readKeys, readRanges, lanes: [...lanes], size: 2 * size }
}

/**
 * Requests that are committed together, divided into steps (see `statements.ts`), and the text of a step. Pure.
 *
 * 1. A request comes in a later step than those before it that write what it reads, or what it writes. Additions to one key
 *    may be in one step: their order does not matter.
 * 2. What a versionstamped key becomes is known to nobody else: only ranges that hold it can meet it.
 */
import type { KeyRange } from "../../Backend.ts"
import * as Keys from "../data/keys.ts"
import { type Effects, rangeOf } from "./effects.ts"
import type { Lane } from "./lanes.ts"
import * as Literals from "./literals.ts"

/** What a step needs to know of a request. */
export interface Asked {
  readonly effects: Effects
  /** The version of its snapshot, or `undefined` when it relies on nothing. */
  readonly readVersion: bigint | undefined
}

interface TextRange {
  readonly begin: string
  readonly end: string
  readonly step: number
}

const textRange = ({ begin, end }: KeyRange, step: number): TextRange => ({
  begin: Keys.toText(begin),
  end: Keys.toText(end),
  step
})

/** What the requests so far write, and in which step at the latest. */
class Written {
  readonly #sets = new Map<string, number>()
  readonly #adds = new Map<string, number>()
  readonly #ranges: Array<TextRange> = []

  /** The first step that a request may be in. */
  after({ clears, points, readKeys, readRanges, stamped }: Effects): number {
    let step = 0
    const behind = (other: number | undefined) => {
      if (other !== undefined && other >= step) step = other + 1
    }
    const key = (text: string, isAdd: boolean) => {
      behind(this.#sets.get(text))
      if (!isAdd) behind(this.#adds.get(text))
      for (const range of this.#ranges) if (range.begin <= text && text < range.end) behind(range.step)
    }
    const range = (asked: KeyRange) => {
      const { begin, end } = textRange(asked, 0)
      for (const written of this.#ranges) if (written.begin < end && begin < written.end) behind(written.step)
      for (const [text, at] of this.#sets) if (begin <= text && text < end) behind(at)
      for (const [text, at] of this.#adds) if (begin <= text && text < end) behind(at)
    }
    for (const text of readKeys) key(text, false)
    for (const [text, point] of points) key(text, point.op === "add")
    for (const one of stamped) if (one.op === "versionstampedValue") key(Keys.toText(one.key), false)
    for (const asked of readRanges) range(asked)
    for (const asked of clears) range(asked)
    return step
  }

  add({ clears, points, stamped }: Effects, step: number): void {
    for (const [text, point] of points) (point.op === "add" ? this.#adds : this.#sets).set(text, step)
    for (const one of stamped) {
      if (one.op === "versionstampedValue") this.#sets.set(Keys.toText(one.key), step)
      else this.#ranges.push(textRange(rangeOf(one), step))
    }
    for (const range of clears) this.#ranges.push(textRange(range, step))
  }
}

/** The steps of requests, in order. */
export const stepsOf = <A extends Asked>(requests: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> => {
  const written = new Written()
  const steps: Array<Array<A>> = []
  for (const request of requests) {
    const step = Math.min(written.after(request.effects), steps.length)
    if (step === steps.length) steps.push([request])
    else steps[step]!.push(request)
    written.add(request.effects, step)
  }
  return steps
}

/** What all steps of a text have in common. */
export interface Place {
  /** The schema's name as it stands in SQL. */
  readonly schema: string
  readonly origin: bigint
  readonly lanes: ReadonlyArray<Lane>
  /** The locks of the lanes, sorted: whoever takes several takes them in one order. */
  readonly locks: ReadonlyArray<bigint>
}

/** What the store's function takes of the requests of a step. */
export const requestArguments = (step: ReadonlyArray<Asked>): ReadonlyArray<string> => {
  const numbers: Array<Array<number>> = Array.from({ length: 8 }, () => [])
  const [readOf, rangeNumbers, clearOf, writeOf, addOf, stampOf, keyPlaces, valuePlaces] = numbers as [
    Array<number>,
    Array<number>,
    Array<number>,
    Array<number>,
    Array<number>,
    Array<number>,
    Array<number>,
    Array<number>
  ]
  const reads: Array<Uint8Array> = []
  const ranges: Array<KeyRange> = []
  const clears: Array<KeyRange> = []
  const keys: Array<Uint8Array> = []
  const values: Array<Uint8Array | undefined> = []
  const addKeys: Array<Uint8Array> = []
  const operands: Array<Uint8Array> = []
  const stampKeys: Array<Uint8Array> = []
  const stampValues: Array<Uint8Array> = []
  step.forEach(({ effects, readVersion }, at) => {
    const n = at + 1
    if (readVersion !== undefined) {
      for (const text of effects.readKeys) {
        readOf.push(n)
        reads.push(Keys.fromText(text))
      }
      for (const range of effects.readRanges) {
        rangeNumbers.push(n)
        ranges.push(range)
      }
    }
    for (const range of effects.clears) {
      clearOf.push(n)
      clears.push(range)
    }
    for (const point of effects.points.values()) {
      if (point.op === "add") {
        addOf.push(n)
        addKeys.push(point.key)
        operands.push(point.operand)
      } else {
        writeOf.push(n)
        keys.push(point.key)
        values.push(point.op === "set" ? point.value : undefined)
      }
    }
    for (const one of effects.stamped) {
      stampOf.push(n)
      stampKeys.push(one.key)
      stampValues.push(one.value)
      keyPlaces.push(one.op === "versionstampedKey" ? one.position : -1)
      valuePlaces.push(one.op === "versionstampedValue" ? one.position : -1)
    }
  })
  const { bigints, byteas, ints } = Literals
  const begins = (of: ReadonlyArray<KeyRange>) => byteas(of.map(({ begin }) => begin))
  const ends = (of: ReadonlyArray<KeyRange>) => byteas(of.map(({ end }) => end))
  return [
    bigints(step.map(({ readVersion }) => readVersion)),
    ints(readOf),
    byteas(reads),
    ints(rangeNumbers),
    begins(ranges),
    ends(ranges),
    ints(clearOf),
    begins(clears),
    ends(clears),
    ints(writeOf),
    byteas(keys),
    byteas(values),
    ints(addOf),
    byteas(addKeys),
    byteas(operands),
    ints(stampOf),
    byteas(stampKeys),
    byteas(stampValues),
    ints(keyPlaces),
    ints(valuePlaces)
  ]
}

/** The statement that commits a step; with `trimFrom`, it also shortens the log from that version on. */
export const stepText = (place: Place, step: ReadonlyArray<Asked>, trimFrom: bigint | undefined): string => {
  const args = [
    Literals.bigints(place.locks),
    Literals.byteas(place.lanes.map(Keys.fromText)),
    `${place.origin}::bigint`,
    trimFrom === undefined ? "NULL::bigint" : `${trimFrom}::bigint`,
    ...requestArguments(step)
  ]
  return `SELECT ${place.schema}.commit(${args.join(",")})`
}

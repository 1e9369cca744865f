/**
 * What commits changed, in a few bytes whatever they wrote: for whoever did not see them, and wants to know which of very
 * many keys to read again. More may be named than was changed, never less.
 */
import * as Keys from "../data/keys.ts"
import type { Range, Value } from "./acceptedCommit.ts"

/** Changed keys by their hashes, and ranges of keys that may have been changed. */
export interface Changes {
  readonly hashes: ReadonlyArray<number>
  readonly ranges: ReadonlyArray<Range>
}

/** More keys than this are named by ranges that hold them. */
const HASHES_LIMIT = 256

/** So many ranges name the keys of a large commit: messages of some servers, and what counts them. */
const RANGES_LIMIT = 12

/** Longer bounds are moved outward. */
const BOUND_BYTES = 64

/** What is written by some commits together. */
export const changesOf = (writes: ReadonlyMap<string, Value>, clears: ReadonlyArray<Range>): Changes => {
  const ranges = clears.map(short)
  if (writes.size > HASHES_LIMIT) return { hashes: [], ranges: joined([...ranges, ...around([...writes.keys()])]) }
  const hashes: Array<number> = []
  for (const key of writes.keys()) hashes.push(Keys.hash(key))
  return { hashes, ranges: joined(ranges) }
}

/** Few ranges that hold all of many keys: cut where neighbours have least in common. */
const around = (keys: Array<string>): ReadonlyArray<Range> => {
  keys.sort()
  const cuts: Array<readonly [at: number, common: number]> = []
  for (let at = 1; at < keys.length; at++) cuts.push([at, commonOf(keys[at - 1]!, keys[at]!)])
  cuts.sort((a, b) => a[1] - b[1])
  const begins = [0, ...cuts.slice(0, RANGES_LIMIT - 1).map(([at]) => at)].sort((a, b) => a - b)
  return begins.map((begin, i) => short({ begin: keys[begin]!, end: `${keys[(begins[i + 1] ?? keys.length) - 1]!}\0` }))
}

const commonOf = (a: string, b: string): number => {
  let at = 0
  while (at < a.length && a[at] === b[at]) at++
  return at
}

/** At most `RANGES_LIMIT` ranges: more are one, from the first begin to the last end. */
const joined = (ranges: ReadonlyArray<Range>): ReadonlyArray<Range> => {
  if (ranges.length <= RANGES_LIMIT) return ranges
  return [
    ranges.reduce((all, range) => ({
      begin: range.begin < all.begin ? range.begin : all.begin,
      end: range.end > all.end ? range.end : all.end
    }))
  ]
}

const short = ({ begin, end }: Range): Range => ({
  begin: begin.slice(0, BOUND_BYTES),
  end: end.length <= BOUND_BYTES ? end : after(end.slice(0, BOUND_BYTES))
})

/** The first key that neither is a text nor begins with it; one that nothing comes after stands for itself. */
const after = (text: string): string => {
  let at = text.length - 1
  while (at >= 0 && text.charCodeAt(at) === 0xff) at--
  return at < 0 ? `${text}\xff` : text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) + 1)
}

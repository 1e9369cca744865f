/**
 * The order of components: each item has an order key, and items sort as their keys do. A key between any two can be
 * made, so that an item is put somewhere without touching the others.
 *
 * 1. A reorder gives new keys to the fewest items: those that are not in a longest run of items still in order.
 * 2. Keys stay short. One behind the last, or before the first, is a number that counts on. One between two can be
 *    a character longer than both every few times; where that made one too long, the neighbours get new keys too, as
 *    few as make all of them short again.
 */
import { generateNKeysBetween } from "fractional-indexing"

/** No key is longer. */
export const ORDER_LIMIT_BYTES = 64

/** What a renewal of keys must reach, so that the next one is hundreds of insertions away (2). */
const RENEWED_BYTES = 24

/** A renewal first takes so many neighbours on each side, then twice as many, and so on. */
const FIRST_NEIGHBOURS = 32

const INTEGER_HEAD = /^[A-Za-z]/
const DIGITS = /^[0-9A-Za-z]*$/
const SMALLEST = `A${"0".repeat(26)}`

/** Whether text from a store is an order key that others can be made next to. */
export const isOrderKey = (text: string): boolean => {
  if (text.length > ORDER_LIMIT_BYTES || !INTEGER_HEAD.test(text) || !DIGITS.test(text)) return false
  const head = text.charCodeAt(0)
  const integer = head >= 97 ? head - 97 + 2 : 90 - head + 2
  if (text.length < integer || text === SMALLEST) return false
  return text.length === integer || !text.endsWith("0")
}

/**
 * Fills the places of `orders` from `begin` to `end` that are `undefined`, between those that are not. Gives the range
 * that it touched: neighbours may have new keys (2).
 */
export const fillOrders = (
  orders: Array<string | undefined>,
  begin: number,
  end: number
): { readonly begin: number; readonly end: number } => {
  let first = begin
  let last = end
  for (let at = begin; at < end; at++) {
    if (orders[at] !== undefined) continue
    const run = runFrom(orders, at)
    const between = keysFor(orders, at, run)
    const { keys, low, high } = isLong(between.keys, ORDER_LIMIT_BYTES) ? renewed(orders, at, run) : between
    for (let i = low; i < high; i++) orders[i] = keys[i - low]
    first = Math.min(first, low)
    last = Math.max(last, high)
  }
  return { begin: first, end: last }
}

interface Keyed {
  readonly keys: ReadonlyArray<string>
  readonly low: number
  readonly high: number
}

/** Where the places without a key that begin at `at` end. */
const runFrom = (orders: ReadonlyArray<string | undefined>, at: number): number => {
  let end = at
  while (end < orders.length && orders[end] === undefined) end++
  return end
}

const keysFor = (orders: ReadonlyArray<string | undefined>, low: number, high: number): Keyed => ({
  keys: generateNKeysBetween(orders[low - 1] ?? null, orders[high] ?? null, high - low),
  low,
  high
})

/** New keys for a run and as many neighbours as it takes to make them short. */
const renewed = (orders: ReadonlyArray<string | undefined>, at: number, run: number): Keyed => {
  for (let take = FIRST_NEIGHBOURS;; take *= 2) {
    const low = Math.max(0, at - take)
    const high = runFrom(orders, Math.min(orders.length, run + take))
    const keyed = keysFor(orders, low, high)
    if (!isLong(keyed.keys, RENEWED_BYTES) || low === 0 && high === orders.length) return keyed
  }
}

const isLong = (keys: ReadonlyArray<string>, limit: number): boolean => keys.some((key) => key.length > limit)

/** Which of some distinct numbers to keep in place so that the others are the fewest: a longest increasing run (1). */
export const longestIncreasing = (numbers: ReadonlyArray<number>): ReadonlySet<number> => {
  // ends[k]: where the smallest last number of a run of k + 1 is
  const ends: Array<number> = []
  const before = new Int32Array(numbers.length)
  for (let i = 0; i < numbers.length; i++) {
    let low = 0
    let high = ends.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (numbers[ends[middle]!]! < numbers[i]!) low = middle + 1
      else high = middle
    }
    before[i] = low === 0 ? -1 : ends[low - 1]!
    ends[low] = i
  }
  const kept = new Set<number>()
  for (let i = ends.at(-1) ?? -1; i >= 0; i = before[i]!) kept.add(numbers[i]!)
  return kept
}

/**
 * Looking at many jobs: how many there are by state, and pages of them. By snapshot: looking conflicts with nobody.
 */
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type { KeyValue } from "../../../Backend.ts"
import type { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { InvalidOption, type UnreadableData } from "../definition/errors.ts"
import { isState, type State, STATES } from "../definition/layout.ts"
import { decodeData, type Model, optionsOf, type Place, within } from "../definition/model.ts"
import { Share } from "../kept/passLimits.ts"
import { isEntryOf, isWaiting, tryLoad } from "../kept/places.ts"
import { removeEnded } from "../kept/removal.ts"
import { decode, readData, type Row } from "../kept/row.ts"

/**
 * The most jobs of one page, and the most that one transaction purges.
 *
 * @since 0.1.0
 * @category limits
 */
export const PAGE_LIMIT = 1_000

const PAGE_DEFAULT = 100

/** A page ends early when its data has so many bytes: a transaction must be read in its five seconds. */
const PAGE_BYTES_LIMIT = 5_000_000

/**
 * How many jobs there are in each state.
 *
 * @since 0.1.0
 * @category models
 */
export type Counts = { readonly [S in State]: number }

export const counts = (model: Model): Effect.Effect<Counts, InvalidOption, Transaction> =>
  within(model, ({ keys, state }) => {
    const { begin, end } = Tuple.range([], keys.moves)
    return Effect.map(state.getRange(begin, end, { snapshot: true }), (rows) => {
      const sums: Record<string, number> = Object.fromEntries(STATES.map((name) => [name, 0]))
      for (const row of rows) {
        const [, from, to] = Tuple.unpack(row.key, keys.moves.length) as [string, string, string]
        const moved = Counters.read(row.value)
        if (from in sums) sums[from]! -= moved
        if (to in sums) sums[to]! += moved
      }
      return sums as Counts
    })
  })

/** How many runs have begun since the type was used first. */
export const runs = (model: Model): Effect.Effect<number, InvalidOption, Transaction> =>
  within(model, ({ keys, state }) => {
    const { begin, end } = Tuple.range([], keys.runMoves)
    return Effect.map(state.getRange(begin, end, { snapshot: true }), (rows) =>
      rows.reduce((sum, { key, value }) => {
        const [, to] = Tuple.unpack(key, keys.runMoves.length)
        return to === "running" ? sum + Counters.read(value) : sum
      }, 0))
  })

/**
 * A job as a list shows it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Listed<out A> {
  readonly id: Tuple.Element
  readonly state: State
  /** The data, or why it cannot be read. */
  readonly data: Result.Result<A, UnreadableData>
  /** Runs that began since the job was added, resubmitted or requeued. */
  readonly attempts: number
  readonly priority: number
  /** When the job is or was due, in milliseconds since 1970. */
  readonly scheduledAt: number
  readonly addedAt: number
  /** When the job was finished or died; `undefined` if it did neither. */
  readonly endedAt: number | undefined
  /** What the last run failed with; empty if it did not. */
  readonly error: string
  readonly isResubmitted: boolean
  /** How many jobs it waits for that have not ended; 0 for one that waits for none. */
  readonly waitsFor: number
}

/**
 * A page of jobs. `next` is where the following page begins; `undefined` after the last one.
 *
 * @since 0.1.0
 * @category models
 */
export interface Page<out A> {
  readonly jobs: ReadonlyArray<Listed<A>>
  readonly next: string | undefined
}

/**
 * Which jobs a page shows: those of one state, or all.
 *
 * @since 0.1.0
 * @category models
 */
export interface ListOptions {
  readonly state?: State | undefined
  /** 1 to 1,000; 100 if absent. */
  readonly limit?: number | undefined
  /** The `next` of the page before. */
  readonly after?: string | undefined
}

/** The ranges that hold the jobs of a state, one after the other. */
const rangesOf = (
  { keys }: Place,
  state: State | undefined
): ReadonlyArray<Tuple.KeyRange & { prefix: Uint8Array }> => {
  const whole = (prefix: Uint8Array) => ({ ...Tuple.range([], prefix), prefix })
  switch (state) {
    case undefined:
      return [whole(keys.jobs)]
    case "pending":
      return [whole(keys.now), whole(keys.pending), whole(keys.parked), whole(keys.parkedNow), whole(keys.waits)]
    case "running":
      return [whole(keys.seqs)]
    default:
      return [{ ...keys.endedOf(state), prefix: keys.ended }]
  }
}

const checkOptions = (model: Model, options: ListOptions): InvalidOption | undefined => {
  const problem = (option: string, text: string) => new InvalidOption({ type: model.type, option, problem: text })
  const { after, limit = PAGE_DEFAULT, state } = options
  if (state !== undefined && !isState(state)) return problem("state", `must be one of ${STATES.join(", ")}`)
  if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_LIMIT) {
    return problem("limit", `must be a whole number from 1 to ${PAGE_LIMIT}`)
  }
  if (after !== undefined && (typeof after !== "string" || !/^[0-9a-f]*$/.test(after) || after.length % 2 === 1)) {
    return problem("after", "must be the `next` of a page")
  }
  return undefined
}

/** A row of a page as pages name it: its key, without the type's prefix. */
export const cursorOf = ({ keys }: Place, key: Uint8Array): string =>
  Buffer.from(key.subarray(keys.prefix.length)).toString("hex")

const keyOf = ({ keys }: Place, cursor: string | undefined): Uint8Array | undefined =>
  cursor === undefined ? undefined : Keys.concat(keys.prefix, new Uint8Array(Buffer.from(cursor, "hex")))

/** Pages up to a row, and no further: more may come all the time. */
interface BoundedListOptions extends ListOptions {
  readonly upTo?: string | undefined
}

/** The last row of all pages of a state, or of all states, as they are now; `undefined` when they are empty. */
export const lastRow = (
  model: Model,
  of: State | undefined
): Effect.Effect<string | undefined, InvalidOption, Transaction> =>
  within(model, (place) =>
    Effect.gen(function*() {
      for (const { begin, end } of rangesOf(place, of).toReversed()) {
        const [last] = yield* place.state.getRange(begin, end, { limit: 1, reverse: true, snapshot: true })
        if (last !== undefined) return cursorOf(place, last.key)
      }
      return undefined
    }))

/** The rows of a page, over its ranges. */
const pageRows = Effect.fnUntraced(function*(place: Place, options: BoundedListOptions, limit: number) {
  const { keys, state } = place
  const from = keyOf(place, options.after)
  const last = keyOf(place, options.upTo)
  const rows: Array<KeyValue & { readonly id: Tuple.Element | undefined }> = []
  for (const range of rangesOf(place, options.state)) {
    const begin = from !== undefined && Tuple.compareBytes(from, range.begin) >= 0 ? Keys.next(from) : range.begin
    const end = last !== undefined && Tuple.compareBytes(last, range.end) < 0 ? Keys.next(last) : range.end
    if (rows.length > limit || Tuple.compareBytes(begin, end) >= 0) continue
    const found = yield* state.getRange(begin, end, { limit: limit + 1 - rows.length, snapshot: true })
    for (const row of found) rows.push({ ...row, id: keys.lastOf(row.key, range.prefix) })
  }
  return rows
})

/** Whether a key in the range of a state is its job's: damage can leave entries behind. */
const isListed = ({ keys }: Place, state: State | undefined, id: Tuple.Element, row: Row, key: Uint8Array): boolean =>
  state === undefined || (state === "running" ? row.state === state : isEntryOf(keys, id, row, key))

export const list = (model: Model, input?: BoundedListOptions): Effect.Effect<Page<any>, InvalidOption, Transaction> =>
  within(model, (place) => listIn(place, input))

const listIn = Effect.fnUntraced(
  function*(place: Place, input: BoundedListOptions | undefined): Effect.fn.Return<Page<any>, InvalidOption> {
    const { next, rows } = yield* pageIn(place, input)
    return { next, jobs: rows.map((job) => listed(place.model, job)) }
  }
)

/** A stored job as a list shows it. */
export const listed = (model: Model, { data, id, row }: StoredJob): Listed<any> => ({
  id,
  state: row.state,
  data: decodeData(model, id, data),
  attempts: row.attempts,
  priority: row.priority,
  scheduledAt: row.scheduledAt,
  addedAt: row.addedAt,
  endedAt: row.state === "finished" || row.state === "dead" ? row.endedAt : undefined,
  error: row.error,
  isResubmitted: row.resubmit !== undefined,
  waitsFor: isWaiting(row) ? row.parents!.waits : 0
})

/** A job as it is stored, and the key by which the page has found it. */
export interface StoredJob {
  readonly key: Uint8Array
  readonly id: Tuple.Element
  readonly row: Row
  readonly data: Uint8Array
}

/** A page of jobs as they are stored; `looked` is how many entries it has looked at. */
export interface StoredPage {
  readonly rows: ReadonlyArray<StoredJob>
  readonly looked: number
  readonly next: string | undefined
}

export const pageOf = (
  model: Model,
  input?: BoundedListOptions
): Effect.Effect<StoredPage, InvalidOption, Transaction> => within(model, (place) => pageIn(place, input))

const pageIn = Effect.fnUntraced(
  function*(place: Place, input: BoundedListOptions | undefined): Effect.fn.Return<StoredPage, InvalidOption> {
    const { model } = place
    const options = yield* optionsOf(model, input)
    const problem = checkOptions(model, options)
    if (problem !== undefined) return yield* problem
    const limit = options.limit ?? PAGE_DEFAULT
    const { keys, state } = place
    const entries = yield* pageRows(place, options, limit)
    const rows: Array<StoredJob> = []
    let bytes = 0
    let at = 0
    for (; at < Math.min(limit, entries.length) && bytes < PAGE_BYTES_LIMIT; at++) {
      const { id, key } = entries[at]!
      const stored = id === undefined ? undefined : yield* state.get(keys.job(id), true)
      const row = stored === undefined ? undefined : decode(stored)
      if (id === undefined || row === undefined || !isListed(place, options.state, id, row, key)) continue
      const { data } = yield* readData(state, keys, id, row)
      bytes += data.length
      rows.push({ key, id, row, data })
    }
    const last = entries[at - 1]
    const next = at < entries.length && last !== undefined ? cursorOf(place, last.key) : undefined
    return { rows, looked: at, next }
  }
)

interface PurgeOptions {
  readonly limit?: number | undefined
}

/** Removes the dead jobs that died first, a bounded number; succeeds with how many they were. */
export const purgeDead = (
  model: Model,
  input?: PurgeOptions
): Effect.Effect<number, InvalidOption, Transaction> => within(model, (place) => purgeIn(place, input))

const purgeIn = Effect.fnUntraced(
  function*(place: Place, input: PurgeOptions | undefined): Effect.fn.Return<number, InvalidOption> {
    const { model } = place
    const options = yield* optionsOf(model, input)
    const problem = checkOptions(model, { limit: options.limit })
    if (problem !== undefined) return yield* problem
    const { keys, state } = place
    const { begin, end } = keys.endedOf("dead")
    const rows = yield* state.getRange(begin, end, { limit: options.limit ?? PAGE_LIMIT })
    let count = 0
    const share = new Share(state)
    for (const entry of rows) {
      const id = keys.lastOf(entry.key, keys.ended)
      const row = id === undefined ? "unreadable" : yield* tryLoad(place, id)
      if (id === undefined || row === "unreadable") continue
      yield* removeEnded(place, id, row, entry.key, "dead")
      count++
      share.did(row?.parents?.count ?? 0)
      if (share.isDone) break
    }
    return count
  }
)

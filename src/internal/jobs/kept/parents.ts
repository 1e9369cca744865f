/**
 * What a job knows of the jobs that it waits for: a row for each, which says how it ended, and what it left if that is
 * short. So results are there when the job runs, whatever became of the others since.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackOwn } from "../../data/codec.ts"
import type { Family, State } from "../definition/layout.ts"
import { bareModel, elementText, keysOf, type Place } from "../definition/model.ts"
import { tryLoad } from "./places.ts"
import { type Body, isFamily, isWhole, readData, type Row } from "./row.ts"

/** What a parent left is kept for its children up to here: a child can have 1,000 parents, and a parent 10,000 children. */
const RESULT_LIMIT_BYTES = 60_000

/** How a job ended: one that was removed before it did ended so. */
export interface End {
  readonly state: "finished" | "dead" | "removed"
  readonly error: string
  /** What it left; `undefined` when that is too long to be kept here, or when it left nothing. */
  readonly data: Uint8Array | undefined
}

/** A job that another one waits for, or waited for. */
export interface ParentRow {
  readonly type: Tuple.Element
  readonly id: Tuple.Element
  /** Which life of it. */
  readonly family: Family | undefined
  readonly state: "waiting" | End["state"]
  readonly error: string
}

/** The place of a job of any type, to whoever has no definition of it. */
export const placeOf = (state: Place["state"], type: Tuple.Element): Place => ({
  state,
  model: bareModel(type),
  keys: keysOf(state.prefix, type)
})

export const sameElement = (a: Tuple.Element, b: Tuple.Element): boolean => a === b || elementText(a) === elementText(b)

/** How a job ended that has a body. */
export const endOf = (
  { keys, state }: Place,
  id: Tuple.Element,
  row: Row,
  end: { readonly state: End["state"]; readonly error: string; readonly body: Body }
): Effect.Effect<End> => {
  const isKept = end.state === "finished" && end.body.dataBytes <= RESULT_LIMIT_BYTES
  return Effect.map(
    isKept ? readData(state, keys, id, { ...row, body: end.body }) : Effect.undefined,
    (read) => ({ state: end.state, error: end.error, data: read?.data })
  )
}

export const writeParent = ({ keys, state }: Place, id: Tuple.Element, index: number, row: ParentRow): void =>
  state.set(
    keys.parent(id, index),
    packValue([Tuple.pack([row.type, row.id]), row.family ?? null, row.state, row.error])
  )

/** The end of what a job waited for. */
export const writeEnd = (place: Place, id: Tuple.Element, index: number, row: ParentRow, end: End): void => {
  writeParent(place, id, index, { ...row, family: undefined, state: end.state, error: end.error })
  if (end.data !== undefined) place.state.set(place.keys.parentData(id, index), end.data)
}

const ENDS: ReadonlySet<unknown> = new Set(["finished", "dead", "removed"])

/** Whether bytes that may come from anywhere hold how a job ended. */
export const isEnd = (state: unknown, error: unknown): state is End["state"] =>
  ENDS.has(state) && typeof error === "string"

/** `undefined` for bytes that are no such row. */
const decodeParent = (bytes: Uint8Array): ParentRow | undefined => {
  const unpacked = Result.getOrUndefined(unpackOwn(bytes))
  if (!Array.isArray(unpacked) || !(unpacked[0] instanceof Uint8Array)) return undefined
  const named = Result.getOrUndefined(Tuple.unpackResult(unpacked[0]))
  const [, family, state, error] = unpacked
  if (named?.length !== 2 || (family !== null && !isFamily(family))) return undefined
  if (state === "waiting" ? family === null : !isEnd(state, error)) return undefined
  return { type: named[0]!, id: named[1]!, family: family ?? undefined, state, error }
}

/** `undefined` when there is none. */
export const readParent = (
  { keys, state }: Place,
  id: Tuple.Element,
  index: number
): Effect.Effect<ParentRow | "damaged" | undefined> =>
  Effect.map(
    state.get(keys.parent(id, index)),
    (bytes) => bytes === undefined ? undefined : decodeParent(bytes) ?? "damaged"
  )

/** All of a job, in the order in which they were named. */
export const readParents = (
  { keys, state }: Place,
  id: Tuple.Element
): Effect.Effect<ReadonlyArray<ParentRow & { readonly index: number }>> => {
  const { begin, end } = keys.parentsOf(id)
  return Effect.map(state.getRange(begin, end), (rows) =>
    rows.flatMap(({ key, value }) => {
      const row = decodeParent(value)
      const index = keys.lastOf(key, keys.prefix)
      return row === undefined || !isWhole(index, 0) ? [] : [{ ...row, index }]
    }))
}

/**
 * What a parent left: as it was at its end, or, if that is too long to be kept here, as the parent has it now.
 * `undefined` when it is gone.
 */
export const readResult = (
  { keys, state }: Place,
  id: Tuple.Element,
  parent: ParentRow & { readonly index: number }
): Effect.Effect<Uint8Array | undefined> =>
  Effect.flatMap(state.get(keys.parentData(id, parent.index)), (kept) => {
    if (kept !== undefined) return Effect.succeed(kept)
    const place = placeOf(state, parent.type)
    return Effect.flatMap(tryLoad(place, parent.id), (row) =>
      row === undefined || row === "unreadable"
        ? Effect.undefined
        : Effect.map(readData(state, place.keys, parent.id, row), ({ data }) => data))
  })

/** Whether a job in a state has ended. */
export const hasEnded = (state: State): state is "finished" | "dead" => state === "finished" || state === "dead"

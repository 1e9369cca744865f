/**
 * What a program asks of the durable actions of a definition's servers: looks, which conflict with nobody, and what becomes of
 * dead ones.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { unpackValue } from "../../data/codec.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { show } from "../../data/show.ts"
import { isState } from "../../jobs/definition/layout.ts"
import { keysOf, type Place } from "../../jobs/definition/model.ts"
import { tryLoad } from "../../jobs/kept/places.ts"
import { removeJob } from "../../jobs/kept/removal.ts"
import { decode, readData, type Row } from "../../jobs/kept/row.ts"
import * as Listing from "../../jobs/operations/listing.ts"
import type { TransactionState } from "../../transactions/state.ts"
import type {
  DurableAction,
  DurableActions,
  DurableCounts,
  DurableListOptions,
  DurablePage
} from "../definition/durable.ts"
import { InvalidOption, InvalidPayload } from "../definition/errors.ts"
import type { Definition } from "../definition/model.ts"
import { textOfTuid } from "../kept/layout.ts"
import { append, ChainKeys, rowsIn, tuidOf } from "./chain.ts"
import { type Data, modelOfTag, modelsOf } from "./jobs.ts"

const LIMIT_DEFAULT = 100

/** More tags than any definition has had. */
const TAGS_LIMIT = 10_000

/** Pieces of rows that a page reads at the most: more than one action can have, and not too many for a transaction. */
const PIECES_LIMIT = 100

type Action = DurableAction<string, unknown>

/** The tags that there have been jobs of, also those that this version does not declare. */
export const tagsIn = (state: TransactionState, name: string): Effect.Effect<ReadonlyArray<string>> => {
  const { tags } = new ChainKeys(state.prefix, name)
  const { begin, end } = Tuple.range([], tags)
  return Effect.map(
    state.getRange(begin, end, { limit: TAGS_LIMIT, snapshot: true }),
    (rows) =>
      rows.flatMap(({ key }) => {
        const [tag] = Result.getOrElse(Tuple.unpackResult(key, tags.length), () => [])
        return typeof tag === "string" ? [tag] : []
      })
  )
}

const placeOf = (state: TransactionState, definition: Definition, tag: string): Place => {
  const model = modelOfTag(definition, tag)
  return { model, state, keys: keysOf(state.prefix, model.type) }
}

/** All tags of a definition, declared or not, in one order for every version that knows the same. */
const placesOf = (
  state: TransactionState,
  definition: Definition
): Effect.Effect<ReadonlyArray<readonly [string, Place]>> =>
  Effect.map(
    tagsIn(state, definition.name),
    (stored) =>
      [...new Set([...stored, ...modelsOf(definition).keys()])].toSorted().map((tag) => [
        tag,
        placeOf(state, definition, tag)
      ])
  )

const counts = (definition: Definition): Effect.Effect<DurableCounts, never, Transaction> =>
  Effect.gen(function*() {
    const state = yield* Transaction
    const places = yield* placesOf(state, definition)
    const waiting = Counters.read(yield* state.get(new ChainKeys(state.prefix, definition.name).count, true))
    const sums = { pending: waiting, running: 0, finished: 0, dead: 0 }
    const all = yield* Effect.forEach(places, ([, { model }]) => Effect.orDie(Listing.counts(model)), {
      concurrency: "unbounded"
    })
    for (const one of all) {
      for (const state of ["pending", "running", "finished", "dead"] as const) sums[state] += one[state]
    }
    return sums
  })

/** Where a page begins: in the jobs of a tag, behind one of them, or in the rows, behind a key. */
type Cursor = readonly [part: "jobs", tag: string, after: string | null] | readonly [part: "rows", after: string | null]

const START: Cursor = ["jobs", "", null]

const writeCursor = (cursor: Cursor): string => Buffer.from(JSON.stringify(cursor)).toString("base64url")

const isHex = (text: unknown): text is string | null =>
  text === null || typeof text === "string" && /^([0-9a-f]{2})*$/.test(text)

/** `undefined` for what no page gave. */
const readCursor = (text: unknown): Cursor | undefined => {
  if (typeof text !== "string") return undefined
  const read = Result.try((): unknown => JSON.parse(Buffer.from(text, "base64url").toString()))
  const cursor = Result.getOrUndefined(read)
  if (!Array.isArray(cursor)) return undefined
  const [part, ...rest] = cursor as Array<unknown>
  const isCursor = part === "jobs"
    ? rest.length === 2 && typeof rest[0] === "string" && isHex(rest[1])
    : part === "rows" && rest.length === 1 && isHex(rest[0])
  return isCursor ? cursor as unknown as Cursor : undefined
}

interface Asked {
  readonly state: DurableListOptions["state"]
  readonly limit: number
  readonly cursor: Cursor
}

const invalid = (server: string, option: string, problem: string) => new InvalidOption({ server, option, problem })

const checkLimit = (server: string, limit: unknown): InvalidOption | undefined =>
  Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= Listing.PAGE_LIMIT
    ? undefined
    : invalid(server, "limit", `must be a whole number from 1 to ${Listing.PAGE_LIMIT}, not ${show(limit)}`)

const checkList = (server: string, options: unknown): Result.Result<Asked, InvalidOption> => {
  if (!Predicate.isObject(options)) {
    return Result.fail(invalid(server, "options", `must be an object, not ${show(options)}`))
  }
  const { after, limit = LIMIT_DEFAULT, state } = options as Record<string, unknown>
  const problem = checkLimit(server, limit)
  if (problem !== undefined) return Result.fail(problem)
  if (state !== undefined && !isState(state)) {
    return Result.fail(invalid(server, "state", `must be pending, running, finished or dead, not ${show(state)}`))
  }
  const cursor = after === undefined ? START : readCursor(after)
  return cursor === undefined
    ? Result.fail(invalid(server, "after", "must be the `next` of a page"))
    : Result.succeed({ state, limit: limit as number, cursor })
}

/** The data of an action as a list shows it. */
const shown = (
  definition: Definition,
  tag: string,
  data: Result.Result<Data, { readonly field: string; readonly problem: string }>,
  tuid: Tuple.Tuple
): Action["payload"] =>
  Result.mapBoth(data, {
    onSuccess: ({ payload }) => payload,
    onFailure: ({ field, problem }) =>
      new InvalidPayload({ server: definition.name, tuid: textOfTuid(tuid), tag, field, problem })
  })

/** Whose action a job is, also where its payload cannot be read. */
const tuidOfJob = ({ keys, state }: Place, id: Tuple.Element): Effect.Effect<Tuple.Tuple> =>
  Effect.flatMap(state.get(keys.job(id), true), (bytes) => {
    const row = bytes && decode(bytes)
    if (row === undefined) return Effect.succeed([])
    return Effect.map(
      readData(state, keys, id, row),
      ({ data }) => tuidOf(Result.getOrUndefined(unpackValue(data))) ?? []
    )
  })

/** A page of the jobs of one tag. */
const jobsPage = Effect.fnUntraced(function*(
  definition: Definition,
  tag: string,
  place: Place,
  { limit, state }: Pick<Asked, "limit" | "state">,
  after: string | null
) {
  const options = { state, limit, after: after ?? undefined }
  const { jobs, next } = yield* Effect.orDie(Listing.list(place.model, options))
  const actions: Array<Action> = []
  for (const { attempts, data, endedAt, error, id, scheduledAt, state } of jobs) {
    const tuid = Result.isSuccess(data) ? (data.success as Data).tuid : yield* tuidOfJob(place, id)
    actions.push({
      id: String(id),
      tuid,
      tag,
      payload: shown(definition, tag, data, tuid),
      state,
      attempts,
      error,
      dueMillis: scheduledAt,
      endedMillis: endedAt
    })
  }
  return { actions, next }
})

/** A page of what waits behind the fronts. */
const rowsPage = Effect.fnUntraced(function*(
  state: TransactionState,
  definition: Definition,
  limit: number,
  after: string | null
) {
  const keys = new ChainKeys(state.prefix, definition.name)
  const { begin, end } = Tuple.range([], keys.rows)
  const from = after === null ? begin : Keys.next(Keys.concat(keys.rows, Buffer.from(after, "hex")))
  const rows = yield* state.getRange(from, end, { limit: PIECES_LIMIT, snapshot: true })
  const isLast = rows.length < PIECES_LIMIT
  const whole = rowsIn(keys, rows, isLast).slice(0, limit)
  const actions = whole.map(({ entry, tuid }): Action => {
    const tag = entry?.tag ?? ""
    const unreadable = Result.fail({ field: "", problem: "its row cannot be read" })
    const data = entry === undefined ? unreadable : Result.flatMap(
      Result.mapError(unpackValue(entry.data), (problem) => ({ field: "", problem })),
      modelOfTag(definition, tag).codec.decode
    )
    return {
      id: entry?.id ?? "",
      tuid,
      tag,
      payload: shown(definition, tag, data as Result.Result<Data, never>, tuid),
      state: "pending",
      attempts: 0,
      error: "",
      dueMillis: undefined,
      endedMillis: undefined
    }
  })
  const last = whole.at(-1)?.last
  const isEnd = last === undefined || isLast && last === rows.at(-1)!.key
  return { actions, next: isEnd ? undefined : Buffer.from(last.subarray(keys.rows.length)).toString("hex") }
})

const list = Effect.fnUntraced(function*(
  definition: Definition,
  options: unknown
): Effect.fn.Return<DurablePage<Action>, InvalidOption, Transaction> {
  const asked = yield* Effect.fromResult(checkList(definition.name, options))
  const state = yield* Transaction
  const actions: Array<Action> = []
  const { cursor, limit } = asked
  const page = (next: Cursor | undefined) => ({ actions, next: next && writeCursor(next) })
  if (cursor[0] === "jobs") {
    const [, from, behind] = cursor
    for (const [tag, place] of yield* placesOf(state, definition)) {
      if (tag < from) continue
      if (actions.length >= limit) return page(["jobs", tag, null])
      const rest = { limit: limit - actions.length, state: asked.state }
      const part = yield* jobsPage(definition, tag, place, rest, tag === from ? behind : null)
      actions.push(...part.actions)
      if (part.next !== undefined) return page(["jobs", tag, part.next])
    }
  }
  if (asked.state !== undefined && asked.state !== "pending") return page(undefined)
  if (actions.length >= limit) return page(["rows", null])
  const after = cursor[0] === "rows" ? cursor[1] : null
  const part = yield* rowsPage(state, definition, limit - actions.length, after)
  actions.push(...part.actions)
  return page(part.next === undefined ? undefined : ["rows", part.next])
})

const requeueDead = Effect.fnUntraced(function*(
  definition: Definition,
  id: unknown
): Effect.fn.Return<boolean, InvalidOption, Transaction> {
  if (typeof id !== "string" || id === "" || id.length > ID_LIMIT_CHARS || !id.isWellFormed()) {
    return yield* invalid(definition.name, "id", `must be the id of a durable action, not ${show(id)}`)
  }
  const state = yield* Transaction
  for (const [tag, place] of yield* placesOf(state, definition)) {
    const row = yield* tryLoad(place, id)
    if (row === undefined || row === "unreadable" || row.state !== "dead") continue
    return yield* putBack(place, definition.name, tag, id, row)
  }
  return false
})

/**
 * Puts an action that has ended behind all that its server has waiting. Succeeds with whether it could: one that does not say
 * whose it is cannot be put anywhere.
 */
export const putBack = Effect.fnUntraced(function*(place: Place, name: string, tag: string, id: string, row: Row) {
  const { keys, state } = place
  const { data } = yield* readData(state, keys, id, row)
  const tuid = tuidOf(Result.getOrUndefined(unpackValue(data)))
  if (tuid === undefined) return false
  yield* removeJob(place, id, row)
  yield* append(state, name, tuid, [{ id, tag, data, trace: row.trace }])
  return true
})

/** Longer than any id of ours. */
const ID_LIMIT_CHARS = 200

const purgeDead = Effect.fnUntraced(function*(
  definition: Definition,
  options: unknown
): Effect.fn.Return<number, InvalidOption, Transaction> {
  if (!Predicate.isObject(options)) {
    return yield* invalid(definition.name, "options", `must be an object, not ${show(options)}`)
  }
  const { limit = Listing.PAGE_LIMIT } = options as { readonly limit?: unknown }
  const problem = checkLimit(definition.name, limit)
  if (problem !== undefined) return yield* problem
  const state = yield* Transaction
  let count = 0
  for (const [, { model }] of yield* placesOf(state, definition)) {
    const left = limit as number - count
    if (left > 0) count += yield* Effect.orDie(Listing.purgeDead(model, { limit: left }))
  }
  return count
})

/** The operations of a definition. */
export const operationsOf = (definition: Definition): DurableActions<Action> => ({
  counts: counts(definition),
  list: (options = {}) => list(definition, options),
  requeueDead: (id) => requeueDead(definition, id),
  purgeDead: (options = {}) => purgeDead(definition, options)
})

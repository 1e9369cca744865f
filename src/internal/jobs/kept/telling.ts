/**
 * Jobs that wait for the end of others: their parents, which can be of another type. A job becomes a child when it is added,
 * or when a dead one is asked for again; whoever ends a parent tells its children.
 *
 * 1. A job begins to wait only at a moment at which nobody waits for it: when it is new, or has ended. So there are no
 *    cycles. It waits only for jobs that are there.
 * 2. Who becomes a child reads the parent's row for conflict; who ends the parent writes it. So a child is in the family
 *    that is told, or finds the end itself.
 * 3. An end is told in its own transaction as far as that has room; of what is left there is a row, by which the rest is
 *    told in bounded transactions: by the process that committed the end, or by any that uses the parent's type.
 * 4. A child is told once of each parent: its row of the parent names the family that it waits in.
 * 5. The family is written in the parent's row, which versions that know nothing of it leave alone.
 * 6. What is damaged of a family holds nobody up: an entry that names no job is cleared, and one that names a job is enough
 *    to tell it.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { KeyValue } from "../../../Backend.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { packValue, unpackOwn } from "../../data/codec.ts"
import * as Keys from "../../data/keys.ts"
import { logWarning } from "../../observing/logging.ts"
import { transact } from "../../transactions/loop.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { ParentNotFound, render } from "../definition/errors.ts"
import type { Family, JobKeys } from "../definition/layout.ts"
import { elementText, type Place } from "../definition/model.ts"
import { touchedOf } from "./lateWrites.ts"
import { type End, endOf, hasEnded, isEnd, placeOf, readParent, readParents, writeEnd, writeParent } from "./parents.ts"
import { PART_BYTES_LIMIT, PartLimit } from "./passLimits.ts"
import { change, load, orderNow, tryLoad } from "./places.ts"
import { reportFailure } from "./reports.ts"
import { type Body, isFamily, isWhole, keptError, type Parents, readData, type Row } from "./row.ts"

/** Children that one transaction tells besides what else it does; the rest is told by others (3). */
const TELL_LIMIT = 100

/** Nobody is told any more by a transaction that has written so much. */
const TELL_BYTES_LIMIT = 1_000_000

/** After a failure the next try waits for so long. */
const PAUSE_MILLIS = 250

const EMPTY = new Uint8Array(0)

/** What the key of a family's entry holds behind the type's prefix: its own name, the family, and whom it names. */
const CHILD_ELEMENTS = 5

/** A job that has ended, and those who wait for it. */
interface Ended {
  readonly type: Tuple.Element
  readonly id: Tuple.Element
  readonly family: Family
  readonly end: End
}

/** A job that another one is to wait for. */
export interface Parent {
  readonly type: Tuple.Element
  readonly id: Tuple.Element
}

const newFamily = (place: Place): Effect.Effect<Family> =>
  Effect.map(orderNow(place), (version) => [version, place.state.nextUserVersion()] as const)

const sameFamily = (a: Family | undefined, b: Family): boolean => a !== undefined && a[0] === b[0] && a[1] === b[1]

/** A job waits for another one, which has not ended. */
const attach = Effect.fnUntraced(function*(child: Place, id: Tuple.Element, index: number, parent: Parent, row: Row) {
  const place = placeOf(child.state, parent.type)
  const family = row.family ?? (yield* newFamily(place))
  if (row.family === undefined) {
    change(place, parent.id, row, { ...row, family })
    child.state.set(place.keys.family(parent.id), packValue(family))
  }
  child.state.set(place.keys.child(family, child.model.type, id), packValue(index))
  writeParent(child, id, index, { ...parent, family, state: "waiting", error: "" })
})

/** A job waits for another one, or knows how it ended; succeeds with how, if it has. */
const join = Effect.fnUntraced(function*(child: Place, id: Tuple.Element, index: number, parent: Parent, row: Row) {
  if (!hasEnded(row.state)) {
    yield* attach(child, id, index, parent, row)
    return undefined
  }
  const { body, error, state } = row
  const end = yield* endOf(placeOf(child.state, parent.type), parent.id, row, { state, error, body })
  writeEnd(child, id, index, { ...parent, family: undefined, state, error }, end)
  return end
})

/** The rows of jobs that a new one is to wait for; nothing is written. */
export const findParents = (
  child: Place,
  id: Tuple.Element,
  parents: ReadonlyArray<Parent>
): Effect.Effect<ReadonlyArray<Row>, ParentNotFound> =>
  Effect.forEach(
    parents,
    (parent) =>
      Effect.flatMap(load(placeOf(child.state, parent.type), parent.id), (row) =>
        row !== undefined ? Effect.succeed(row) : Effect.fail(
          new ParentNotFound({ type: child.model.type, id, parentType: parent.type, parentId: parent.id })
        )),
    { concurrency: "unbounded" }
  )

/** A new job is added that waits for others, which were found: pending, or dead if it dies with one of them. */
export const addChild = Effect.fnUntraced(function*(
  child: Place,
  id: Tuple.Element,
  row: Row,
  options: { readonly parents: ReadonlyArray<Parent>; readonly rows: ReadonlyArray<Row>; readonly dies: boolean }
) {
  const { dies, parents, rows } = options
  let waits = 0
  let death: string | undefined
  for (const [index, parent] of parents.entries()) {
    const end = yield* join(child, id, index, parent, rows[index]!)
    if (end === undefined) waits++
    if (end?.state === "dead") death ??= reasonOf(parent, end)
  }
  const added = { ...row, parents: { count: parents.length, waits, dies } }
  change(child, id, undefined, added)
  if (dies && death !== undefined) yield* die(child, id, added, death)
})

/**
 * A job that has ended is asked for again: it waits for those of its parents that had not finished and have a run before
 * them now. Others stay what they were to it.
 */
export const rejoin = Effect.fnUntraced(function*(
  child: Place,
  id: Tuple.Element,
  parents: Parents
): Effect.fn.Return<Parents> {
  let waits = 0
  for (const parent of yield* readParents(child, id)) {
    if (parent.state === "finished") continue
    const row = parent.state === "waiting" ? undefined : yield* tryLoad(placeOf(child.state, parent.type), parent.id)
    if (row === "unreadable" || (row === undefined && parent.state !== "waiting")) continue
    const { id: parentId, type } = parent
    const end = row === undefined ? undefined : yield* join(child, id, parent.index, { type, id: parentId }, row)
    if (end === undefined) waits++
  }
  return { ...parents, waits }
})

/** A job is gone: so is what it knew of its parents, and its place among their children. */
export const forget = Effect.fnUntraced(function*(child: Place, id: Tuple.Element) {
  const { keys, model, state } = child
  for (const { family, state: parentState, type } of yield* readParents(child, id)) {
    if (parentState === "waiting" && family !== undefined) {
      state.clear(placeOf(state, type).keys.child(family, model.type, id))
    }
  }
  const parents = keys.parentsOf(id)
  state.clearRange(parents.begin, parents.end)
  const data = keys.parentDataOf(id)
  state.clearRange(data.begin, data.end)
})

/** A job has ended: `row` is that of its last run, or of its removal. What its type has follow comes first. */
export const tellOfEnd = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  end: { readonly state: End["state"]; readonly error: string; readonly body: Body }
): Effect.Effect<void> => {
  const { ended } = place.model
  const told = tellFamily(place, id, row, end)
  if (ended === undefined) return told
  const followed = Effect.flatMap(readData(place.state, place.keys, id, row), ({ data }) => ended(place, id, data))
  return Effect.andThen(followed, told)
}

/** Tells those who wait for a job of its end. */
const tellFamily = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  end: { readonly state: End["state"]; readonly error: string; readonly body: Body }
): Effect.Effect<void> => {
  const { family } = row
  if (family === undefined) return Effect.void
  return Effect.flatMap(
    endOf(place, id, row, end),
    (end) => tellAll(place.state, { type: place.model.type, id, family, end })
  )
}

/** A job whose row cannot be read is gone: who waits for it is found by its id. */
export const tellOfDamage = (place: Place, id: Tuple.Element): Effect.Effect<void> => {
  const { keys, model: { type }, state } = place
  return Effect.flatMap(state.get(keys.family(id)), (bytes) => {
    const family: unknown = bytes === undefined ? undefined : Result.getOrUndefined(unpackOwn(bytes))
    const end: End = { state: "removed", error: "", data: undefined }
    return isFamily(family) ? tellAll(state, { type, id, family, end }) : Effect.void
  })
}

/** Tells of an end, and of those that follow from it, as far as there is room (3). */
const tellAll = Effect.fnUntraced(function*(state: TransactionState, first: Ended) {
  const all = [first]
  // grows: children that die have ended, too
  for (const ended of all) {
    state.clear(placeOf(state, ended.type).keys.family(ended.id))
    const told = state.size > TELL_BYTES_LIMIT ? undefined : yield* tellSome(state, ended, TELL_LIMIT, 0)
    all.push(...told?.died ?? [])
    if (told?.isDone !== true) yield* leaveRest(state, ended)
  }
})

interface Told {
  readonly died: ReadonlyArray<Ended>
  /** Children that were told. */
  readonly told: number
  /** Children whose rows cannot be read: they stay. */
  readonly left: number
  /** There are no others. */
  readonly isDone: boolean
}

/** Tells so many children, behind `skip` others. */
const tellSome = Effect.fnUntraced(function*(
  state: TransactionState,
  ended: Ended,
  limit: number,
  skip: number
): Effect.fn.Return<Told> {
  const { keys } = placeOf(state, ended.type)
  const { begin, end } = keys.childrenOf(ended.family)
  const rows = yield* state.getRange(begin, end, { limit: skip + limit + 1 })
  const children = rows.slice(skip, skip + limit).map((row) => childOf(state, keys, row))
  yield* state.prefetch(() =>
    children.flatMap(({ child, index = 0 }) =>
      child === undefined ? [] : [child.place.keys.job(child.id), child.place.keys.parent(child.id, index)]
    )
  )
  const died: Array<Ended> = []
  let told = 0
  let left = 0
  for (const { child, index, key } of children) {
    if (child === undefined) state.clear(key)
    const death = child === undefined ? undefined : yield* tellOne(child.place, child.id, index, key, ended)
    if (death === "unreadable") left++
    else told++
    if (typeof death === "object") died.push(death)
    if (state.size > PART_BYTES_LIMIT) break
  }
  return { died, told, left, isDone: skip + left === 0 && told === rows.length }
})

/** Whom an entry of a family names, and what number its job has among what the child waits for, as far as it tells (6). */
const childOf = (state: TransactionState, keys: JobKeys, { key, value }: KeyValue) => {
  const elements = Result.getOrElse(Tuple.unpackResult(key, keys.prefix.length), () => [])
  const [type, id] = elements.slice(-2)
  const index = Result.getOrUndefined(unpackOwn(value))
  return {
    key,
    index: isWhole(index, 0) ? index : undefined,
    child: elements.length === CHILD_ELEMENTS ? { place: placeOf(state, type!), id: id! } : undefined
  }
}

/** Tells a child; succeeds with its own end if it dies of it, and somebody waits for it. */
const tellOne = Effect.fnUntraced(function*(
  place: Place,
  id: Tuple.Element,
  known: number | undefined,
  entry: Uint8Array,
  { end, family, id: parentId, type }: Ended
): Effect.fn.Return<Ended | "unreadable" | undefined> {
  const row = yield* tryLoad(place, id)
  if (row === "unreadable") return "unreadable"
  place.state.clear(entry)
  const { parents } = row ?? {}
  if (row === undefined || parents === undefined) return undefined
  const index = known ?? (yield* readParents(place, id)).find((parent) => sameFamily(parent.family, family))?.index
  if (index === undefined) return undefined
  const stored = yield* readParent(place, id, index)
  // the child was removed, and added anew, or told before (4)
  const isWaiting = stored === "damaged" || (stored?.state === "waiting" && sameFamily(stored.family, family))
  if (!isWaiting) return undefined
  writeEnd(place, id, index, { type, id: parentId, family, state: "waiting", error: "" }, end)
  if (row.state !== "pending" || parents.waits === 0) return undefined
  if (parents.dies && end.state !== "finished") {
    return yield* die(place, id, row, reasonOf({ type, id: parentId }, end))
  }
  const after: Row = { ...row, parents: { ...parents, waits: parents.waits - 1 } }
  change(place, id, row, after.parents!.waits === 0 ? yield* comesDue(place, after) : after)
  return undefined
})

/** A job that waits for none any more: due now, unless its time is still to come. */
const comesDue = (place: Place, row: Row): Effect.Effect<Row> => {
  const now = place.state.timeMillis
  return row.order === undefined && row.scheduledAt > now
    ? Effect.succeed(row)
    : Effect.map(orderNow(place), (order) => ({ ...row, order, scheduledAt: now }))
}

const reasonOf = ({ id, type }: Parent, { error, state }: End): string => {
  const which = `it waited for job ${render(id)} of type ${render(type)}`
  // what waits for what waits: one reason holds the others, and must not grow with their number
  return state === "removed" ? `${which}, which was removed` : keptError(`${which}, which died: ${error}`)
}

/** A waiting job dies of what it waited for; succeeds with its end, if somebody waits for it. */
const die = Effect.fnUntraced(function*(
  place: Place,
  id: Tuple.Element,
  row: Row,
  error: string
): Effect.fn.Return<Ended | undefined> {
  const { family } = row
  const after: Row = {
    ...row,
    state: "dead",
    revision: row.revision + 1,
    order: undefined,
    endedAt: place.state.timeMillis,
    error,
    family: undefined
  }
  change(place, id, row, after)
  yield* reportFailure(place, id, row, after, error)
  const end: End = { state: "dead", error, data: undefined }
  return family === undefined ? undefined : { type: place.model.type, id, family, end }
})

/** Writes down that an end has still to be told, and tells of it after the commit (3). */
const leaveRest = (state: TransactionState, { end, family, id, type }: Ended): Effect.Effect<void> =>
  Effect.withFiber(({ context }) => {
    const { keys } = placeOf(state, type)
    state.set(keys.end(family), packValue([Tuple.pack([id]), end.state, end.error, end.data ?? null]))
    touchedOf(state).ring(keys.changedBell)
    state.onCommit.push(() => startTelling(state.target as Tenant["Service"], type, context))
    return Effect.void
  })

/** Ends that nobody has told yet of a type. */
export const hasUntold = ({ keys, state }: Pick<Place, "keys" | "state">): Effect.Effect<boolean> => {
  const { begin, end } = Tuple.range([], keys.ends)
  return Effect.map(state.getRange(begin, end, { limit: 1, snapshot: true }), (rows) => rows.length > 0)
}

/** By tenant layer, the types of which this process tells, and whether there is more since. */
const telling = new WeakMap<object, Map<string, { isMore: boolean }>>()

/** Tells in the background of all ends of a type that are still to be told; a second start is no harm. */
export const startTelling = (
  tenant: Tenant["Service"],
  type: Tuple.Element,
  context: Context.Context<never>
): void => {
  // who commits by other means than a tenant's layer leaves it to the monitors
  if (tenant.scope === undefined) return
  const byType = telling.get(tenant) ?? new Map<string, { isMore: boolean }>()
  telling.set(tenant, byType)
  const text = elementText(type)
  const running = byType.get(text)
  if (running !== undefined) {
    running.isMore = true
    return
  }
  const own = { isMore: true }
  byType.set(text, own)
  const turn = Effect.suspend(() => {
    own.isMore = false
    return tellRest(tenant, type)
  })
  const all = Effect.ensuring(
    Effect.repeat(turn, { while: () => own.isMore }),
    Effect.sync(() => byType.delete(text))
  )
  Effect.runForkWith(context)(Effect.forkIn(Effect.interruptible(all), tenant.scope))
}

/** Where telling of the rest stands: behind this end, or behind so many children of the next one. */
interface Cursor {
  readonly after: Uint8Array
  readonly skip: number
}

/** Tells of each end what is left of it. What always fails is passed over, so that others are not held up. */
const tellRest = Effect.fnUntraced(function*(tenant: Tenant["Service"], type: Tuple.Element) {
  const limit = new PartLimit()
  let cursor: Cursor | undefined = { after: EMPTY, skip: 0 }
  while (cursor !== undefined) {
    const at: Cursor = cursor
    cursor = yield* Effect.matchCauseEffect(
      transact(tenant, tellPart(type, at, limit.jobs)),
      {
        onSuccess: (next) => {
          limit.succeeded()
          return Effect.succeed(next)
        },
        onFailure: (cause) => {
          const error = cause.reasons.find((reason) => reason._tag === "Fail")?.error
          const isStuck = limit.jobs === 1 && error?.isRetryable !== true
          limit.failed(limit.jobs)
          return Effect.as(
            Effect.andThen(
              logWarning(
                `jobs of type ${render(type)}: telling those who wait for their end failed, trying again`,
                cause
              ),
              Effect.sleep(PAUSE_MILLIS)
            ),
            isStuck ? { ...at, skip: at.skip + 1 } : at
          )
        }
      }
    )
  }
})

/** One transaction of it; succeeds with where to go on. */
const tellPart = (type: Tuple.Element, { after, skip }: Cursor, limit: number) =>
  Effect.flatMap(Transaction, (state) =>
    Effect.gen(function*() {
      const { keys } = placeOf(state, type)
      const range = Tuple.range([], keys.ends)
      const begin = after.length === 0 ? range.begin : Keys.next(after)
      const [item] = yield* state.getRange(begin, range.end, { limit: 1 })
      if (item === undefined) return undefined
      const ended = endedOf(type, item.key.subarray(keys.ends.length), item.value)
      if (ended === undefined) return { after: item.key, skip: 0 }
      const { died, isDone, left, told } = yield* tellSome(state, ended, limit, skip)
      for (const one of died) yield* tellAll(state, one)
      if (isDone) state.clear(item.key)
      return isDone || told + left === 0 ? { after: item.key, skip: 0 } : { after, skip: skip + left }
    }))

/** `undefined` for bytes that are no such row. */
const endedOf = (type: Tuple.Element, packedFamily: Uint8Array, value: Uint8Array): Ended | undefined => {
  const family = Result.getOrUndefined(Tuple.unpackResult(packedFamily))
  const fields = Result.getOrUndefined(unpackOwn(value))
  if (!isFamily(family) || !Array.isArray(fields) || !(fields[0] instanceof Uint8Array)) return undefined
  const [packedId, state, error, data] = fields
  const id = Result.getOrUndefined(Tuple.unpackResult(packedId))?.[0]
  if (id === undefined || !isEnd(state, error) || !(data === null || data instanceof Uint8Array)) return undefined
  return { type, id, family, end: { state, error, data: data ?? undefined } }
}

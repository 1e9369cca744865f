/**
 * The jobs of a tenant, of types that nobody here has a definition of: looked at, and put in order.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BackendError } from "../../BackendError.ts"
import type { Tenant } from "../../Tenant.ts"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import type { Hidden } from "../data/hidden.ts"
import * as Keys from "../data/keys.ts"
import { printable } from "../data/text.ts"
import {
  type InvalidId,
  InvalidOption as InvalidJobOption,
  JobNotFound,
  type ScheduleNotFound
} from "../jobs/definition/errors.ts"
import { STAMP_BYTES, type State, STATES } from "../jobs/definition/layout.ts"
import {
  bareModel,
  checkId,
  keysOf,
  type Model,
  type Place,
  TYPE_LIMIT_BYTES,
  within
} from "../jobs/definition/model.ts"
import { hasEnded } from "../jobs/kept/parents.ts"
import { isWaiting, tryLoad } from "../jobs/kept/places.ts"
import { readRecord } from "../jobs/kept/record.ts"
import { decode, readData, type Row } from "../jobs/kept/row.ts"
import * as Settings from "../jobs/kept/settings.ts"
import * as Listing from "../jobs/operations/listing.ts"
import * as Many from "../jobs/operations/many.ts"
import * as Operations from "../jobs/operations/operations.ts"
import * as Control from "../jobs/schedules/control.ts"
import { advance, ownerOf } from "../server/durable/chain.ts"
import { putBack } from "../server/durable/operations.ts"
import { libraryPrefix } from "../tenant/layout.ts"
import type { TransactionState } from "../transactions/state.ts"
import { InvalidOption } from "./errors.ts"
import * as Paging from "./paging.ts"
import type { LookOptions } from "./server.ts"
import { jsonOf, textOf } from "./texts.ts"
import { type Value, valueOfBytes } from "./values.ts"
import { atMost, type PageAfter, streamOf } from "./walking.ts"

/** The most types of one page, and the most jobs. */
const TYPES_LIMIT = 1_000
const TYPES_DEFAULT = 100

/** Rows of a page of a walk over jobs. */
const WALK_ROWS = 100

/**
 * A type or an id: as a text that `Inspect.parseElement` takes, and as JSON has it.
 *
 * @since 0.2.0
 * @category models
 */
export interface ElementRow {
  readonly text: string
  readonly json: unknown
}

const elementOf = (element: Tuple.Element): ElementRow => ({ text: textOf(element), json: jsonOf(element) })

/**
 * A type of jobs.
 *
 * @since 0.2.0
 * @category models
 */
export interface JobTypeRow {
  readonly type: ElementRow
  readonly counts: Listing.Counts
  /** Runs that have begun since the type was used first: of two looks, the difference is how fast. */
  readonly runs: number
  readonly isPaused: boolean
  /** When the pending job was due that was due first, of those with the highest priority. */
  readonly oldestDueAt: number | undefined
  readonly schedules: number
  /** Whether the tenant says what of its data is redacted. */
  readonly hasRecord: boolean
}

/**
 * A page of types.
 *
 * @since 0.2.0
 * @category models
 */
export interface JobTypePage {
  readonly types: ReadonlyArray<JobTypeRow>
  readonly next: string | undefined
}

/**
 * A job. Times are milliseconds since 1970.
 *
 * @since 0.2.0
 * @category models
 */
export interface JobRow {
  readonly type: ElementRow
  readonly id: ElementRow
  readonly state: State
  readonly data: Value
  readonly attempts: number
  readonly priority: number
  readonly scheduledAt: number
  readonly addedAt: number
  readonly endedAt: number | undefined
  readonly error: string
  readonly isResubmitted: boolean
  /** How many jobs it waits for that have not ended. */
  readonly waitsFor: number
  /** What limits of jobs that run together count by. */
  readonly key: ElementRow | undefined
}

/**
 * A page of jobs.
 *
 * @since 0.2.0
 * @category models
 */
export interface JobPage {
  readonly jobs: ReadonlyArray<JobRow>
  readonly looked: number
  readonly next: string | undefined
}

/**
 * Which jobs a page shows: those of one state, or all; 1 to 1,000, 100 if `limit` is absent.
 *
 * @since 0.2.0
 * @category models
 */
export interface JobOptions extends LookOptions {
  readonly state?: State | undefined
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

/**
 * A schedule.
 *
 * @since 0.2.0
 * @category models
 */
export interface ScheduleRow extends Control.Scheduled {
  readonly type: ElementRow
}

/**
 * Runs may be limited: who makes room for one rings, as if they were. From the end of a durable action of a server follows
 * what does where its definition is at hand.
 */
const modelOf = (type: Tuple.Element): Model => {
  const owner = ownerOf(type)
  const ended = owner && advance(owner.name, owner.tag)
  return { ...bareModel(type), maxRunning: Number.MAX_SAFE_INTEGER, ended }
}

/** A durable action goes to the end of those of its server: two of them never run together. */
const againOf = (type: Tuple.Element): Many.Again | undefined => {
  const owner = ownerOf(type)
  return owner && ((place, id, row) => putBack(place, owner.name, owner.tag, String(id), row))
}

const checkType = (type: unknown): Effect.Effect<Model, InvalidOption> => {
  const packed = type === undefined ? undefined : Tuple.packResult([type as Tuple.Element])
  if (packed === undefined || Result.isFailure(packed)) return Paging.refuse("type", "must be an element of a tuple")
  return packed.success.length > TYPE_LIMIT_BYTES
    ? Paging.refuse("type", `has ${packed.success.length} bytes, and at most ${TYPE_LIMIT_BYTES} fit`)
    : Effect.succeed(modelOf(type as Tuple.Element))
}

/** Runs an operation of jobs; what it says of options it says in this module's words. */
const withModel = <A, E, R>(
  type: Tuple.Element,
  use: (model: Model) => Effect.Effect<A, E | InvalidJobOption, R>
): Effect.Effect<A, E | InvalidOption, R> =>
  Effect.flatMap(checkType(type), (model) =>
    Effect.mapError(
      use(model),
      (error): E | InvalidOption => error instanceof InvalidJobOption ? new InvalidOption(error) : error
    ))

// --- types ---

const typesPrefix = (tenant: Uint8Array): Uint8Array => Tuple.pack(["j"], libraryPrefix(tenant))

/** The type that a key begins with, and the rest of its elements, where it has no more than those. */
export const typeOfKey = (
  key: Uint8Array,
  prefix: Uint8Array
): { readonly type: Tuple.Element; readonly rest: Tuple.Tuple | undefined } | undefined => {
  const [type, ...rest] = Result.getOrElse(Tuple.unpackResult(key, prefix.length), (): Tuple.Tuple => [])
  if (type !== undefined) return { type, rest }
  // signs of life end with bytes that are no element
  const end = key.length - STAMP_BYTES
  const [cut] = end > prefix.length
    ? Result.getOrElse(Tuple.unpackResult(key.subarray(0, end), prefix.length), (): Tuple.Tuple => [])
    : []
  return cut === undefined ? undefined : { type: cut, rest: undefined }
}

/** The types that have anything, from a key on. */
export const typesFrom = Effect.fnUntraced(function*(state: TransactionState, from: Uint8Array, limit: number) {
  const prefix = typesPrefix(state.prefix)
  const { end } = Tuple.range([], prefix)
  const types: Array<Tuple.Element> = []
  let at = from
  for (let looked = 0; looked < limit; looked++) {
    const [row] = yield* state.getRange(at, end, { limit: 1, snapshot: true })
    if (row === undefined) return { types, next: undefined }
    const found = typeOfKey(row.key, prefix)
    if (found === undefined) at = Keys.next(row.key)
    else {
      types.push(found.type)
      at = Tuple.strinc(Tuple.pack([found.type], prefix))
    }
  }
  return { types, next: at }
})

const typeRow = Effect.fnUntraced(function*(
  state: TransactionState,
  type: Tuple.Element
): Effect.fn.Return<JobTypeRow, InvalidOption, Transaction> {
  const [counts, runs, isPaused, schedules, hidden, oldestDueAt] = yield* withModel(type, (model) =>
    Effect.all([
      Listing.counts(model),
      Listing.runs(model),
      Settings.isPaused(model),
      Control.list(model),
      readRecord(state, type),
      oldestOf(model)
    ], { concurrency: "unbounded" }))
  return {
    type: elementOf(type),
    counts,
    runs,
    isPaused,
    oldestDueAt,
    schedules: schedules.length,
    hasRecord: hidden !== undefined
  }
})

/** When the first of the jobs that wait was due. */
const oldestOf = (model: Model) =>
  within(model, ({ keys, state }) => {
    const first = (prefix: Uint8Array) => {
      const { begin, end } = Tuple.range([], prefix)
      return state.getRange(begin, end, { limit: 1, snapshot: true })
    }
    return Effect.map(Effect.zip(first(keys.now), first(keys.pending)), ([[now], [pending]]) => {
      const times = [now && keys.nowPlaceOf(now.key), pending && keys.placeOf(pending.key)].flatMap((place) =>
        place === undefined ? [] : [place.scheduledAt]
      )
      return times.length === 0 ? undefined : Math.min(...times)
    })
  })

/** A page of types. */
export const jobTypes = Effect.fnUntraced(function*(
  input?: { readonly limit?: number | undefined; readonly after?: string | undefined }
): Effect.fn.Return<JobTypePage, InvalidOption, Transaction> {
  const options = yield* Paging.optionsOf(input)
  const limit = yield* Paging.limitOf(options.limit, TYPES_DEFAULT, TYPES_LIMIT)
  const state = yield* Transaction
  const prefix = typesPrefix(state.prefix)
  const from = yield* Paging.beginOf(Tuple.range([], prefix), prefix, options.after)
  const { next, types } = yield* typesFrom(state, from, limit)
  return {
    types: yield* Effect.forEach(types, (type) => typeRow(state, type), { concurrency: 8 }),
    next: next === undefined ? undefined : Paging.cursorAt(next, prefix)
  }
})

// --- jobs ---

const jobRow = (type: Tuple.Element, id: Tuple.Element, row: Row, data: Value): JobRow => ({
  type: elementOf(type),
  id: elementOf(id),
  state: row.state,
  data,
  attempts: row.attempts,
  priority: row.priority,
  scheduledAt: row.scheduledAt,
  addedAt: row.addedAt,
  endedAt: row.state === "finished" || row.state === "dead" ? row.endedAt : undefined,
  error: printable(row.error),
  isResubmitted: row.resubmit !== undefined,
  waitsFor: isWaiting(row) ? row.parents!.waits : 0,
  key: row.key === undefined ? undefined : elementOf(row.key)
})

const showing = (hidden: Hidden | undefined, { values }: LookOptions) => ({ hidden, values: values === true })

/** A page of jobs. */
export const jobs = Effect.fnUntraced(function*(
  type: Tuple.Element,
  input?: JobOptions
): Effect.fn.Return<JobPage, InvalidOption, Transaction> {
  const options = yield* Paging.optionsOf(input)
  if (options.state !== undefined && !STATES.includes(options.state)) {
    return yield* Paging.refuse("state", `must be one of ${STATES.join(", ")}`)
  }
  const state = yield* Transaction
  const { after, limit } = options
  return yield* withModel(type, (model) =>
    Effect.gen(function*() {
      const hidden = yield* readRecord(state, type)
      const { looked, next, rows } = yield* Listing.pageOf(model, { state: options.state, limit, after })
      return {
        looked,
        next,
        jobs: rows.map(({ data, id, row }) => jobRow(type, id, row, valueOfBytes(data, showing(hidden, options))))
      }
    }))
})

/** A page as a walk needs it. */
export const walkedJobs =
  (type: Tuple.Element, input?: JobOptions): PageAfter<JobRow, InvalidOption> => (limit, after) =>
    Effect.map(
      jobs(type, { ...input, limit: atMost(input?.limit, limit), after: after ?? input?.after }),
      (page) => ({ rows: page.jobs, looked: page.looked, next: page.next })
    )

/** All jobs that are meant, page by page. */
export const allJobRows = (type: Tuple.Element, input?: JobOptions) => streamOf(WALK_ROWS, walkedJobs(type, input))

/** One job. */
export const job = Effect.fnUntraced(function*(
  type: Tuple.Element,
  id: Tuple.Element,
  input?: LookOptions
): Effect.fn.Return<JobRow, InvalidOption | InvalidId | JobNotFound, Transaction> {
  const options = yield* Paging.optionsOf(input)
  const state = yield* Transaction
  return yield* withModel(type, (model) =>
    Effect.gen(function*() {
      yield* checkId(model, id)
      const keys = keysOf(state.prefix, type)
      const bytes = yield* state.get(keys.job(id), true)
      if (bytes === undefined) return yield* new JobNotFound({ type, id })
      const row = decode(bytes)
      if (row === undefined) return yield* new InvalidOption({ option: "id", problem: DAMAGED })
      const { data } = yield* readData(state, keys, id, row)
      return jobRow(type, id, row, valueOfBytes(data, showing(yield* readRecord(state, type), options)))
    }))
})

const DAMAGED = "names a job whose row cannot be read: it is damaged, or of a later version. Removing it takes it away"

/** Asks for another run. */
const resubmit = (model: Model, id: Tuple.Element) =>
  Effect.gen(function*() {
    const again = againOf(model.type)
    if (again !== undefined) {
      const state = yield* Transaction
      const place: Place = { model, state, keys: keysOf(state.prefix, model.type) }
      yield* checkId(model, id)
      const row = yield* tryLoad(place, id)
      if (row !== undefined && row !== "unreadable" && hasEnded(row.state)) {
        yield* again(place, id, row)
        return "pending" as const
      }
    }
    return yield* Operations.resubmit(model, id)
  })

/** Runs a dead or finished job again. */
export const requeueJob = (
  type: Tuple.Element,
  id: Tuple.Element
): Effect.Effect<State, InvalidOption | InvalidId | JobNotFound, Transaction> =>
  withModel(type, (model) =>
    Effect.catchTags(resubmit(model, id), {
      // no data is given
      InvalidData: Effect.die,
      JobTooLarge: Effect.die
    }))

/** Removes a job, whatever it does, and one that is damaged. */
export const removeJob = (
  type: Tuple.Element,
  id: Tuple.Element
): Effect.Effect<void, InvalidOption | InvalidId | JobNotFound, Transaction> =>
  withModel(type, (model) => Operations.remove(model, id))

/** Which jobs are meant, of many. */
export interface ManyJobs {
  readonly state?: State | undefined
  /** Is told after each pass how many it has been so far. */
  readonly onProgress?: ((count: number) => void) | undefined
}

/** Runs all dead or all finished jobs again, in passes. Succeeds with how many. */
export const requeueJobs = (
  type: Tuple.Element,
  options: ManyJobs = {}
): Effect.Effect<number, InvalidOption | BackendError, Tenant> =>
  withModel(type, (model) => Many.retryAll(model, options, againOf(type)))

/** Removes all jobs, or all of a state, in passes. Succeeds with how many. */
export const removeJobs = (
  type: Tuple.Element,
  options: ManyJobs = {}
): Effect.Effect<number, InvalidOption | BackendError, Tenant> =>
  withModel(type, (model) => Many.removeAll(model, options))

/** Lets nobody take jobs of a type any more. */
export const pause = (type: Tuple.Element): Effect.Effect<void, InvalidOption, Transaction> =>
  withModel(type, Settings.pause)

/** Lets jobs of a type be taken again. */
export const resume = (type: Tuple.Element): Effect.Effect<void, InvalidOption, Transaction> =>
  withModel(type, Settings.resume)

// --- schedules ---

/** The schedules of a type. */
export const schedules = (
  type: Tuple.Element
): Effect.Effect<ReadonlyArray<ScheduleRow>, InvalidOption, Transaction> =>
  Effect.map(
    withModel(type, Control.list),
    (found) => found.map((one): ScheduleRow => ({ ...one, type: elementOf(type) }))
  )

const ofSchedule =
  <A>(use: (model: Model, name: string) => Effect.Effect<A, ScheduleNotFound | InvalidJobOption, Transaction>) =>
  (type: Tuple.Element, name: string): Effect.Effect<A, ScheduleNotFound | InvalidOption, Transaction> =>
    withModel(type, (model) => use(model, name))

export const pauseSchedule = ofSchedule(Control.pause)
export const resumeSchedule = ofSchedule(Control.resume)
export const resetSchedule = ofSchedule(Control.reset)
export const removeSchedule = ofSchedule(Control.remove)
export const runSchedule = ofSchedule(Control.run)

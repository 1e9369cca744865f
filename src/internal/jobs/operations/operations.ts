/**
 * The transaction effects on one job: what a creator and a holder can ask for. Everything is checked before anything is
 * written.
 */
import * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import { textOfThrown } from "../../data/thrown.ts"
import { type Trace, traceOf } from "../../data/trace.ts"
import {
  type Halt,
  type InvalidData,
  type InvalidId,
  InvalidOption,
  JobExists,
  JobNotFound,
  type JobTooLarge,
  type ParentNotFound,
  unreadable,
  type UnreadableData
} from "../definition/errors.ts"
import type { State } from "../definition/layout.ts"
import {
  checkId,
  decodeData,
  elementProblem,
  encodeData,
  isPriority,
  millisOf,
  type Model,
  optionsOf,
  type Place,
  PRIORITY_LIMIT,
  retryDelay,
  TIME_LIMIT_MILLIS,
  within
} from "../definition/model.ts"
import { type Job, lockOf, makeJob, settled } from "../kept/job.ts"
import * as Lifecycle from "../kept/lifecycle.ts"
import { sameElement } from "../kept/parents.ts"
import * as Places from "../kept/places.ts"
import * as Removal from "../kept/removal.ts"
import { readData, type Row } from "../kept/row.ts"
import { addChild, findParents } from "../kept/telling.ts"
import { checkDependencies, type DependencyOptions } from "./dependencies.ts"

/**
 * How a job is added.
 *
 * @since 0.1.0
 * @category models
 */
export interface AddOptions extends DependencyOptions {
  /** When the job is due: at once if absent. Not together with `delay`. */
  readonly scheduledAt?: DateTime.DateTime.Input | undefined
  /** How long after now the job is due. Not together with `scheduledAt`. */
  readonly delay?: Duration.Input | undefined
  /** What happens when the id is there already: `"error"` if absent. */
  readonly ifExists?: "error" | "resubmit" | "ignore" | undefined
  /** A whole number from -100 to 100, 0 if absent: of the due jobs the highest is taken first. */
  readonly priority?: number | undefined
  /** What `maxRunningPerKey` counts by: any element of a tuple, or a tuple. */
  readonly key?: Tuple.Element | undefined
}

/**
 * What an `add` did.
 *
 * @since 0.1.0
 * @category models
 */
export type Added = "added" | "resubmitted" | "ignored"

/** What an `add` can fail with. */
export type AddError = InvalidId | InvalidOption | InvalidData | JobTooLarge | JobExists | ParentNotFound

type BadInput = InvalidId | InvalidOption

const invalid = (model: Model, option: string, problem: string) =>
  Effect.fail(new InvalidOption({ type: model.type, option, problem }))

/** A time in milliseconds, or `undefined` where none is given. */
export const timeOf = (
  model: Model,
  option: string,
  input: DateTime.DateTime.Input | undefined
): Effect.Effect<number | undefined, InvalidOption> => {
  if (input === undefined) return Effect.undefined
  const isInput = typeof input === "number" ? Number.isFinite(input) : typeof input === "string" || (
    typeof input === "object" && input !== null
  )
  const time = isInput ? Option.map(DateTime.make(input), DateTime.toEpochMillis) : Option.none<number>()
  return Option.isSome(time) && Math.abs(time.value) <= TIME_LIMIT_MILLIS
    ? Effect.succeed(Math.round(time.value) + 0)
    : invalid(model, option, "must be a time: a DateTime, a Date, milliseconds since 1970 or an ISO string")
}

const scheduleOf = Effect.fnUntraced(function*(model: Model, options: AddOptions, now: number) {
  const at = yield* timeOf(model, "scheduledAt", options.scheduledAt)
  if (options.delay === undefined) return at
  if (at !== undefined) return yield* invalid(model, "delay", "cannot be used together with scheduledAt")
  const millis = millisOf(options.delay)
  if (millis === 0) return undefined
  return millis === undefined || now + millis > TIME_LIMIT_MILLIS
    ? yield* invalid(model, "delay", "must be a duration that ends at some time")
    : Math.round(now + millis)
})

const checkAdd = Effect.fnUntraced(function*(model: Model, options: AddOptions) {
  const { ifExists = "error", key, priority = 0 } = options
  if (!["error", "resubmit", "ignore"].includes(ifExists)) {
    return yield* invalid(model, "ifExists", "must be \"error\", \"resubmit\" or \"ignore\"")
  }
  if (!isPriority(priority)) {
    return yield* invalid(model, "priority", `must be a whole number from -${PRIORITY_LIMIT} to ${PRIORITY_LIMIT}`)
  }
  const problem = key === undefined ? undefined : elementProblem(key)
  if (problem !== undefined) return yield* invalid(model, "key", `cannot be used: ${problem}`)
  return { ifExists, priority: priority + 0, key }
})

/** All that an add asks for, checked. */
const checkAll = Effect.fnUntraced(function*(model: Model, id: Tuple.Element, input: AddOptions, now: number) {
  const options = yield* optionsOf(model, input)
  yield* checkId(model, id)
  const asked = yield* checkAdd(model, options)
  const dependencies = yield* checkDependencies(model, options)
  return { ...asked, ...dependencies, scheduledAt: yield* scheduleOf(model, options, now) }
})

/** What most adds ask for, who have no options: there is nothing to check. */
const PLAIN: Effect.Success<ReturnType<typeof checkAll>> = {
  ifExists: "error",
  priority: 0,
  key: undefined,
  dies: true,
  parents: [],
  scheduledAt: undefined
}

export const add = (
  model: Model,
  id: Tuple.Element,
  data: unknown,
  input?: AddOptions
): Effect.Effect<Added, AddError, Transaction> => within(model, (place) => addTo(place, id, data, input))

/** The same in a transaction that is at hand. */
export const addTo = Effect.fnUntraced(function*(
  place: Place,
  id: Tuple.Element,
  data: unknown,
  input: AddOptions | undefined
): Effect.fn.Return<Added, AddError> {
  const { model } = place
  const now = place.state.timeMillis
  const { dies, ifExists, key, parents, priority, scheduledAt } = input === undefined
    ? yield* Effect.as(checkId(model, id), PLAIN)
    : yield* checkAll(model, id, input, now)
  const bytes = yield* encodeData(model, id, data)
  const row = yield* Places.load(place, id)
  if (row === undefined) {
    const rows = parents.length === 0 ? [] : yield* findParents(place, id, parents)
    const trace = traceOf(yield* Effect.context<never>())
    const order = scheduledAt === undefined ? yield* Places.orderNow(place) : undefined
    const at = { scheduledAt: scheduledAt ?? now, addedAt: now, order }
    const added = Lifecycle.newRow({ data: bytes, priority, key, trace, ...at })
    if (parents.length === 0) Places.change(place, id, undefined, added)
    else yield* addChild(place, id, added, { parents, rows, dies })
    return "added"
  }
  if (ifExists === "ignore") return "ignored"
  if (ifExists === "error") return yield* new JobExists({ type: model.type, id })
  yield* Lifecycle.askAgain(place, id, row, { scheduledAt, data: bytes })
  return "resubmitted"
})

/**
 * Adds a job that is due at once, of data that lies in the store already: whoever adds it may not know its type. The id must
 * be new.
 */
export const addStored = (
  place: Place,
  id: Tuple.Element,
  data: Uint8Array,
  trace: Trace | undefined
): Effect.Effect<void> =>
  Effect.map(Places.orderNow(place), (order) => {
    const now = place.state.timeMillis
    const row = { data, priority: 0, key: undefined, trace, scheduledAt: now, addedAt: now, order }
    Places.change(place, id, undefined, Lifecycle.newRow(row))
  })

const found = (place: Place, id: Tuple.Element): Effect.Effect<Row, InvalidId | JobNotFound> =>
  Effect.flatMap(
    Effect.andThen(checkId(place.model, id), Places.load(place, id)),
    (row) => row === undefined ? Effect.fail(new JobNotFound({ type: place.model.type, id })) : Effect.succeed(row)
  )

/** Removes a job, also one whose row is damaged: nobody could get rid of it otherwise. */
export const remove = (model: Model, id: Tuple.Element): Effect.Effect<void, BadInput | JobNotFound, Transaction> =>
  within(model, (place) => removeFrom(place, id))

const removeFrom = Effect.fnUntraced(function*(
  place: Place,
  id: Tuple.Element
): Effect.fn.Return<void, BadInput | JobNotFound> {
  yield* checkId(place.model, id)
  const row = yield* Places.tryLoad(place, id)
  if (row === undefined) return yield* new JobNotFound({ type: place.model.type, id })
  if (row !== "unreadable") return yield* Removal.removeJob(place, id, row)
  const bytes = yield* place.state.get(place.keys.job(id))
  const isGone = yield* Removal.removeDamaged(place, id, bytes!)
  if (!isGone) return yield* Effect.die(unreadable(place.model.type, id))
})

interface ResubmitOptions {
  readonly scheduledAt?: DateTime.DateTime.Input | undefined
  readonly data?: unknown
}

export const resubmit = (
  model: Model,
  id: Tuple.Element,
  input?: ResubmitOptions
): Effect.Effect<State, BadInput | JobNotFound | InvalidData | JobTooLarge, Transaction> =>
  within(model, (place) => resubmitIn(place, id, input))

const resubmitIn = Effect.fnUntraced(function*(
  place: Place,
  id: Tuple.Element,
  input: ResubmitOptions | undefined
): Effect.fn.Return<State, BadInput | JobNotFound | InvalidData | JobTooLarge> {
  const { model } = place
  const options = yield* optionsOf(model, input)
  yield* checkId(model, id)
  const scheduledAt = yield* timeOf(model, "scheduledAt", options.scheduledAt)
  const data = options.data === undefined ? undefined : yield* encodeData(model, id, options.data)
  const row = yield* found(place, id)
  return (yield* Lifecycle.askAgain(place, id, row, { scheduledAt, data })).state
})

/** A waiting job has another priority, another key, or both; succeeds with whether it was waiting. */
export const move = (
  model: Model,
  id: Tuple.Element,
  input: Pick<AddOptions, "priority" | "key">
): Effect.Effect<boolean, BadInput | JobNotFound, Transaction> =>
  within(model, (place) =>
    Effect.gen(function*() {
      const options = yield* optionsOf(model, input)
      const row = yield* found(place, id)
      const { key, priority } = yield* checkAdd(model, {
        priority: options.priority ?? row.priority,
        key: "key" in options ? options.key : row.key
      })
      if (row.state !== "pending") return false
      const isSame = priority === row.priority &&
        (key === row.key || (key !== undefined && row.key !== undefined && sameElement(key, row.key)))
      if (!isSame) yield* Lifecycle.moveTo(place, id, row, { priority, key })
      return true
    }))

/** A dead job is pending again, its attempts back to 0. */
export const requeueDead = (
  model: Model,
  id: Tuple.Element
): Effect.Effect<boolean, BadInput | JobNotFound, Transaction> =>
  within(model, (place) =>
    Effect.flatMap(found(place, id), (row) =>
      row.state === "dead"
        ? Effect.as(Lifecycle.askAgain(place, id, row, { scheduledAt: undefined, data: undefined }), true)
        : Effect.succeed(false)))

export const getState = (model: Model, id: Tuple.Element): Effect.Effect<State, BadInput | JobNotFound, Transaction> =>
  within(model, (place) => Effect.map(found(place, id), (row) => row.state))

const readDecoded = (place: Place, id: Tuple.Element, row: Row): Effect.Effect<any, UnreadableData> =>
  Effect.flatMap(
    readData(place.state, place.keys, id, row),
    ({ data }) => Effect.fromResult(decodeData(place.model, id, data))
  )

export const getData = (
  model: Model,
  id: Tuple.Element
): Effect.Effect<any, BadInput | JobNotFound | UnreadableData, Transaction> =>
  within(model, (place) => Effect.flatMap(found(place, id), (row) => readDecoded(place, id, row)))

/** A job as its holder's operation finds it. */
interface Holding {
  readonly place: Place
  readonly job: Job<unknown>
  readonly row: Row
  readonly lock: Uint8Array
}

/** Runs a holder's operation: the job must be of this type, and still be held. */
const held = <A, E>(
  model: Model,
  job: Job<unknown>,
  use: (holding: Holding) => Effect.Effect<A, E>
): Effect.Effect<A, E | Halt | InvalidOption, Transaction> =>
  within(model, (place): Effect.Effect<A, E | Halt | InvalidOption> => {
    const lock = lockOf(job)
    // a type can be an array: what counts is what it packs to
    if (lock === undefined || !sameElement(job.type, model.type)) {
      return invalid(model, "job", "must be a job of this type that accept gave, or a handler got")
    }
    return Effect.flatMap(Places.loadHeld(place, job.id, lock), (row) => use({ place, job, row, lock }))
  })

/** The same for an operation that ends the run. */
const ending = <A, E>(
  model: Model,
  job: Job<unknown>,
  use: (holding: Holding) => Effect.Effect<A, E>
): Effect.Effect<A, E | Halt | InvalidOption, Transaction> =>
  held(model, job, (holding) =>
    Effect.tap(use(holding), () => {
      holding.place.state.onAccepted.push(() => settled(holding.lock))
      return Effect.void
    }))

const encodeOptional = (model: Model, id: Tuple.Element, data: unknown) =>
  data === undefined ? Effect.undefined : encodeData(model, id, data)

type HolderError = Halt | InvalidOption | InvalidData | JobTooLarge

export const update = (
  model: Model,
  job: Job<unknown>,
  data?: unknown
): Effect.Effect<Job<any>, HolderError, Transaction> =>
  held(model, job, ({ lock, place, row }) =>
    Effect.map(
      Effect.flatMap(encodeOptional(model, job.id, data), (bytes) => Lifecycle.renew(place, job.id, row, bytes)),
      (after) => makeJob(model.type, job.id, lock, after, data === undefined ? job.data : data)
    ))

export const updateProgress = (
  model: Model,
  job: Job<unknown>,
  change: (data: any) => unknown
): Effect.Effect<Job<any>, HolderError | UnreadableData, Transaction> =>
  held(model, job, (holding) => changeData(holding, change))

const changeData = Effect.fnUntraced(function*(
  { job, lock, place, row }: Holding,
  change: (data: any) => unknown
): Effect.fn.Return<Job<any>, HolderError | UnreadableData> {
  const { model } = place
  if (typeof change !== "function") return yield* invalid(model, "change", "must be a function")
  const data = change(yield* readDecoded(place, job.id, row))
  const bytes = yield* encodeData(model, job.id, data)
  const after = yield* Lifecycle.renew(place, job.id, row, bytes)
  return makeJob(model.type, job.id, lock, after, data)
})

export const finish = (
  model: Model,
  job: Job<unknown>,
  data?: unknown
): Effect.Effect<void, HolderError, Transaction> =>
  ending(model, job, ({ place, row }) =>
    Effect.flatMap(
      encodeOptional(model, job.id, data),
      (bytes) => Effect.asVoid(Lifecycle.complete(place, job.id, row, bytes))
    ))

export const resubmitJob = (
  model: Model,
  job: Job<unknown>,
  input?: { readonly scheduledAt?: DateTime.DateTime.Input | undefined }
): Effect.Effect<Job<any>, Halt | InvalidOption, Transaction> =>
  held(model, job, (holding) => resubmitHeld(holding, input))

const resubmitHeld = Effect.fnUntraced(function*(
  { job, lock, place, row }: Holding,
  input: Pick<ResubmitOptions, "scheduledAt"> | undefined
): Effect.fn.Return<Job<any>, InvalidOption> {
  const { model } = place
  const options = yield* optionsOf(model, input)
  const scheduledAt = yield* timeOf(model, "scheduledAt", options.scheduledAt)
  const renewed = yield* Lifecycle.renew(place, job.id, row, undefined)
  const after = yield* Lifecycle.askAgain(place, job.id, renewed, { scheduledAt, data: undefined })
  return makeJob(model.type, job.id, lock, after, job.data)
})

export const isResubmitted = (
  model: Model,
  job: Job<unknown>
): Effect.Effect<boolean, InvalidOption, Transaction> =>
  Effect.catchIf(
    held(model, job, ({ row }) => Effect.succeed(row.resubmit !== undefined)),
    (error): error is Halt => error._tag === "Halt",
    () => Effect.succeed(false)
  )

export const fail = (
  model: Model,
  job: Job<unknown>,
  error: unknown
): Effect.Effect<State, Halt | InvalidOption, Transaction> =>
  ending(model, job, ({ place, row }) =>
    Effect.flatMap(
      retryDelay(model, row.attempts, place.state.timeMillis, error),
      (delay) =>
        Lifecycle.failRun(place, job.id, row, {
          error: textOfThrown(error),
          nextAt: delay === undefined ? undefined : place.state.timeMillis + delay
        })
    ))

export const release = (model: Model, job: Job<unknown>): Effect.Effect<void, Halt | InvalidOption, Transaction> =>
  ending(model, job, ({ place, row }) => Lifecycle.handBack(place, job.id, row))

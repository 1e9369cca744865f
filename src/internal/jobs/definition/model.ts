/**
 * What the jobs of one type are to the runtime: the definition with its options checked, and its keys in a tenant.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { type Codec, codecOf, packData, unpackValue } from "../../data/codec.ts"
import { type Hidden, hiddenOf } from "../../data/hidden.ts"
import * as Keys from "../../data/keys.ts"
import { logError } from "../../observing/logging.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { InvalidData, InvalidId, InvalidOption, JobTooLarge, render, UnreadableData } from "./errors.ts"
import { JobKeys } from "./layout.ts"

/** The longest data: with that of the next run beside it, it still leaves room in a transaction. */
export const DATA_LIMIT_BYTES = 4_000_000

/** The longest packed id, and the longest key: both lie in one key of the store, with the type and two numbers. */
export const ID_LIMIT_BYTES = 4_000

/** The longest packed type, for the same reason. */
export const TYPE_LIMIT_BYTES = 1_500

/** The shortest activity timeout: heartbeats are commits, and there are three of them in a timeout. */
export const TIMEOUT_LIMIT_MILLIS = 100

/** So many priorities on both sides of 0: a worker may have to look at each one that is in use. */
export const PRIORITY_LIMIT = 100

/** A schedule is followed for so many steps; a later attempt waits as long as this one. */
const REPLAY_LIMIT = 1_000

/** So many runs in a window of time. */
export interface Rate {
  readonly limit: number
  readonly windowMillis: number
}

/** The most runs that a rate can allow in its window: each is written down with its time. */
export const RATE_LIMIT = 1_000

/** A window is no longer than this: longer ones are schedules. */
const RATE_WINDOW_LIMIT_MILLIS = 366 * 86_400_000

export interface Model {
  readonly type: Tuple.Element
  readonly codec: Codec
  /** What of the data is redacted. */
  readonly hidden: () => Hidden
  readonly timeoutMillis: number
  readonly retry: Schedule.Schedule<unknown, unknown>
  readonly maxAttempts: number
  /** How long a finished and a dead job stay; `Infinity` until they are removed. */
  readonly retentionMillis: number
  readonly deadRetentionMillis: number
  /** Nobody has said how long: a process that does not use the type need not stay awake for it. */
  readonly hasOwnRetention: boolean
  /** How long a job with data that this version cannot read waits for one that can. */
  readonly unreadableGraceMillis: number
  readonly maxRunning: number
  readonly maxRunningPerKey: number
  /** A due job counts as one priority higher each time it has waited for so long; `Infinity` for never. */
  readonly agingMillis: number
  readonly rateLimit: Rate | undefined
  readonly rateLimitPerKey: Rate | undefined
  /**
   * What follows, in the same transaction, when a job has finished, died, or is removed before it did either: `data` is what
   * is stored of it.
   */
  readonly ended: ((place: Place, id: Tuple.Element, data: Uint8Array) => Effect.Effect<void>) | undefined
  /** Why the definition cannot be used: every operation fails with it, nothing is written. */
  readonly problem: InvalidOption | undefined
}

export interface Options {
  readonly data: Schema.Codec<any, any, never, never>
  readonly timeout?: Duration.Input | undefined
  readonly retry?: Schedule.Schedule<unknown, unknown> | undefined
  readonly maxAttempts?: number | undefined
  readonly retention?: Retention | undefined
  readonly unreadableGrace?: Duration.Input | undefined
  readonly maxRunning?: number | undefined
  readonly maxRunningPerKey?: number | undefined
  readonly aging?: Duration.Input | undefined
  readonly rateLimit?: RateInput | undefined
  readonly rateLimitPerKey?: RateInput | undefined
}

interface RateInput {
  readonly limit: number
  readonly window: Duration.Input
}

/** `undefined` for what is no rate. */
const rateOf = (input: RateInput | undefined): Rate | undefined => {
  if (typeof input !== "object" || input === null) return undefined
  const windowMillis = Math.ceil(millisOf(input.window) ?? 0)
  const isRate = Number.isInteger(input.limit) && input.limit >= 1 && input.limit <= RATE_LIMIT &&
    windowMillis >= 1 && windowMillis <= RATE_WINDOW_LIMIT_MILLIS
  return isRate ? { limit: input.limit, windowMillis } : undefined
}

/** A holder may be silent for so long unless its type says otherwise. */
const TIMEOUT_DEFAULT = "30 seconds"

/** As for messages of servers: longer than a deploy takes to reach every process. */
const UNREADABLE_GRACE_DEFAULT = "10 minutes"

/** How long jobs stay that have ended, for both kinds or for each. */
export type Retention = Duration.Input | {
  readonly finished?: Duration.Input | undefined
  readonly dead?: Duration.Input | undefined
}

/** Long enough to look at what was done; nothing grows for ever. */
const RETENTION_DEFAULT = "7 days"

/** What died waits for somebody who decides, and people go on holiday. */
const DEAD_RETENTION_DEFAULT = "90 days"

interface Retentions {
  readonly finished: Duration.Input
  readonly dead: Duration.Input
}

/** What is not by state is a duration, which can be an object, too: that of finished jobs. */
const retentionsOf = (retention: Retention | undefined): Retentions => {
  const isByState = typeof retention === "object" && retention !== null &&
    ("finished" in retention || "dead" in retention)
  const { dead = DEAD_RETENTION_DEFAULT, finished = RETENTION_DEFAULT } = isByState
    ? retention
    : { finished: retention as Duration.Input | undefined }
  return { dead, finished }
}

/** A failed job runs again soon at first, and every five minutes in the end. */
export const defaultRetry: Schedule.Schedule<unknown, unknown> = Schedule.min([
  Schedule.exponential("1 second"),
  Schedule.spaced("5 minutes")
])

/** A duration in milliseconds, `undefined` for what is none. */
export const millisOf = (input: unknown): number | undefined => {
  try {
    const millis = Duration.toMillis(Duration.fromInputUnsafe(input as Duration.Input))
    return Number.isNaN(millis) || millis < 0 ? undefined : millis
  } catch {
    return undefined
  }
}

/** Whether a value is a whole number from 1, or `Infinity`. */
export const isCount = (value: unknown): value is number =>
  value === Infinity || (Number.isSafeInteger(value) && (value as number) >= 1)

/** Whether a value is a priority. */
export const isPriority = (value: unknown): value is number =>
  Number.isInteger(value) && Math.abs(value as number) <= PRIORITY_LIMIT

interface Urgent {
  readonly priority: number
  readonly scheduledAt: number
}

/**
 * Which of two due jobs is taken first, as a sort has it. With aging a job that is due for one step of it longer is as
 * urgent as one of the next higher priority: as both age alike, their order does not change while they wait.
 */
export const byUrgency = ({ agingMillis }: Model) => (a: Urgent, b: Urgent): number =>
  agingMillis === Infinity || a.priority === b.priority
    ? b.priority - a.priority || a.scheduledAt - b.scheduledAt
    : (a.scheduledAt - a.priority * agingMillis) - (b.scheduledAt - b.priority * agingMillis) || b.priority - a.priority

/** What is wrong with an activity timeout, if something is. */
export const timeoutProblem = (millis: number | undefined): string | undefined =>
  millis === undefined || !Number.isFinite(millis) || millis < TIMEOUT_LIMIT_MILLIS
    ? `must be a finite duration of at least ${TIMEOUT_LIMIT_MILLIS} ms`
    : undefined

const typeProblem = (type: Tuple.Element): string | undefined => {
  const packed = Tuple.packResult([type])
  if (Result.isFailure(packed)) return packed.failure.message
  return packed.success.length > TYPE_LIMIT_BYTES
    ? `is too long: packed it has ${packed.success.length} bytes, and at most ${TYPE_LIMIT_BYTES} fit`
    : undefined
}

const problemOf = (type: Tuple.Element, options: Options): InvalidOption | undefined => {
  const problem = (option: string, text: string | undefined) =>
    text === undefined ? undefined : new InvalidOption({ type, option, problem: text })
  const count = (option: "maxAttempts" | "maxRunning" | "maxRunningPerKey") =>
    problem(option, isCount(options[option] ?? 1) ? undefined : "must be a whole number of at least 1, or Infinity")
  const rate = (option: "rateLimit" | "rateLimitPerKey") =>
    problem(
      option,
      options[option] === undefined || rateOf(options[option]) !== undefined
        ? undefined
        : `must be { limit, window }: a whole number from 1 to ${RATE_LIMIT}, and a duration of 1 ms to a year`
    )
  return problem("type", typeProblem(type)) ??
    problem("data", Schema.isSchema(options.data) ? undefined : "must be a schema") ??
    problem("timeout", timeoutProblem(millisOf(options.timeout ?? TIMEOUT_DEFAULT))) ??
    problem(
      "retention",
      Object.values(retentionsOf(options.retention)).some((one) => millisOf(one) === undefined)
        ? "must be a duration, or { finished, dead } with a duration each"
        : undefined
    ) ??
    problem(
      "unreadableGrace",
      millisOf(options.unreadableGrace ?? 0) === undefined ? "must be a duration" : undefined
    ) ??
    problem(
      "retry",
      Schedule.isSchedule(options.retry ?? defaultRetry) ? undefined : "must be a Schedule"
    ) ??
    problem(
      "aging",
      (millisOf(options.aging ?? Infinity) ?? 0) >= 1 ? undefined : "must be a duration of at least 1 ms"
    ) ??
    rate("rateLimit") ?? rate("rateLimitPerKey") ?? count("maxAttempts") ?? count("maxRunning") ??
    count("maxRunningPerKey")
}

const models = new WeakMap<object, Model>()

/** Remembers whose model it is. */
export const defines = <D extends object>(definition: D, model: Model): D => {
  models.set(definition, model)
  return definition
}

/** The model of what `Jobs.make` gave; `undefined` for what it did not give. */
export const modelOf = (definition: unknown): Model | undefined =>
  typeof definition === "object" && definition !== null ? models.get(definition) : undefined

/** The model of a definition. */
export const make = (type: Tuple.Element, input: Options): Model => {
  const options: Options = typeof input === "object" && input !== null ? input : { data: undefined as any }
  const problem = problemOf(type, options)
  return {
    type,
    codec: codecOf(problem?.option === "data" ? Schema.Never : options.data),
    hidden: () => problem?.option === "data" ? true : hiddenOf(options.data),
    timeoutMillis: millisOf(options.timeout ?? TIMEOUT_DEFAULT) ?? 0,
    retry: options.retry ?? defaultRetry,
    maxAttempts: options.maxAttempts ?? Infinity,
    retentionMillis: millisOf(retentionsOf(options.retention).finished) ?? Infinity,
    deadRetentionMillis: millisOf(retentionsOf(options.retention).dead) ?? Infinity,
    hasOwnRetention: options.retention !== undefined,
    unreadableGraceMillis: millisOf(options.unreadableGrace ?? UNREADABLE_GRACE_DEFAULT) ?? 0,
    maxRunning: options.maxRunning ?? Infinity,
    maxRunningPerKey: options.maxRunningPerKey ?? Infinity,
    agingMillis: options.aging === undefined ? Infinity : millisOf(options.aging) ?? Infinity,
    rateLimit: rateOf(options.rateLimit),
    rateLimitPerKey: rateOf(options.rateLimitPerKey),
    ended: undefined,
    problem
  }
}

let bare: Model | undefined

/** The model of a type to those who have no definition of it: they know its jobs, and neither their data nor its options. */
export const bareModel = (type: Tuple.Element): Model => ({ ...bare ??= make("", { data: Schema.Unknown }), type })

/** The options of an operation: an object, or none. */
export const optionsOf = <O extends object>(model: Model, options: O | undefined): Effect.Effect<O, InvalidOption> =>
  options === undefined || (typeof options === "object" && options !== null)
    ? Effect.succeed(options ?? {} as O)
    : Effect.fail(new InvalidOption({ type: model.type, option: "options", problem: "must be an object" }))

/** How long a caller is ready to wait, in milliseconds. */
export const patienceOf = (model: Model, timeout: Duration.Input | undefined): Effect.Effect<number, InvalidOption> => {
  const millis = timeout === undefined ? Infinity : millisOf(timeout)
  return millis === undefined
    ? Effect.fail(new InvalidOption({ type: model.type, option: "timeout", problem: "must be a duration" }))
    : Effect.succeed(millis)
}

/**
 * A string that two elements share when they are one key. Most are strings or whole numbers, and need not be packed: the
 * letter in front is none that a packed element begins with.
 */
export const elementText = (element: Tuple.Element): string => {
  if (typeof element === "string") return `s${element}`
  const isNumber = typeof element === "number" || typeof element === "bigint"
  return isNumber && Number.isSafeInteger(Number(element)) && !Object.is(element, -0)
    ? `n${element}`
    : Keys.toText(Tuple.pack([element]))
}

/** Types of a tenant whose keys are remembered: a program can have any number, and use each once. */
const KEYS_LIMIT = 200

/** A tenant's prefix, and a type: the keys are computed once. */
const keysCache = new WeakMap<Uint8Array, Map<string, JobKeys>>()

export const keysOf = (tenantPrefix: Uint8Array, type: Tuple.Element): JobKeys => {
  let byType = keysCache.get(tenantPrefix)
  if (byType === undefined) {
    byType = new Map()
    keysCache.set(tenantPrefix, byType)
  }
  const text = elementText(type)
  let keys = byType.get(text)
  if (keys === undefined) {
    if (byType.size >= KEYS_LIMIT) byType.clear()
    keys = new JobKeys(tenantPrefix, type)
    byType.set(text, keys)
  }
  return keys
}

/** Where an operation works. */
export interface Place {
  readonly model: Model
  readonly state: TransactionState
  readonly keys: JobKeys
}

/** Runs an operation in the surrounding transaction; a write that was refused ends the try. */
export const within = <A, E>(
  model: Model,
  use: (place: Place) => Effect.Effect<A, E>
): Effect.Effect<A, E | InvalidOption, Transaction> =>
  Effect.flatMap(Transaction, (state): Effect.Effect<A, E | InvalidOption> => {
    if (model.problem !== undefined) return Effect.fail(model.problem)
    const place = { model, state, keys: keysOf(state.prefix, model.type) }
    return Effect.flatMap(
      use(place),
      (value) => state.failure === undefined ? Effect.succeed(value) : Effect.die(state.failure)
    )
  })

/** Refuses an id that cannot be a key. */
export const checkId = (model: Model, id: Tuple.Element): Effect.Effect<void, InvalidId> => {
  const problem = elementProblem(id)
  return problem === undefined ? Effect.void : Effect.fail(new InvalidId({ type: model.type, problem }))
}

/** Why an element cannot be part of a job's keys, if it cannot. */
export const elementProblem = (element: Tuple.Element): string | undefined => {
  const packed = Tuple.packResult([element])
  if (Result.isFailure(packed)) return packed.failure.message
  return packed.success.length > ID_LIMIT_BYTES
    ? `packed it has ${packed.success.length} bytes, and at most ${ID_LIMIT_BYTES} fit`
    : undefined
}

/** Data as it is stored. */
export const encodeData = (
  model: Model,
  id: Tuple.Element,
  data: unknown
): Effect.Effect<Uint8Array, InvalidData | JobTooLarge> => {
  const encoded = model.codec.encode(data)
  if (Result.isFailure(encoded)) {
    return Effect.fail(new InvalidData({ type: model.type, id, ...encoded.failure }))
  }
  const packed = packData(encoded.success)
  if (Result.isFailure(packed)) return Effect.fail(new InvalidData({ type: model.type, id, ...packed.failure }))
  const bytes = packed.success
  return bytes.length <= DATA_LIMIT_BYTES ? Effect.succeed(bytes) : Effect.fail(
    new JobTooLarge({ type: model.type, id, bytes: bytes.length, limitBytes: DATA_LIMIT_BYTES })
  )
}

/** Data as its schema has it. */
export const decodeData = (
  model: Model,
  id: Tuple.Element,
  bytes: Uint8Array
): Result.Result<any, UnreadableData> =>
  Result.mapError(
    Result.flatMap(
      Result.mapError(unpackValue(bytes), (problem) => ({ field: "", problem })),
      model.codec.decode
    ),
    (problem) => new UnreadableData({ type: model.type, id, ...problem })
  )

/** No time is later than this: who waits until then waits for ever. */
export const TIME_LIMIT_MILLIS = 8.64e15

/** Follows a schedule for so many steps. */
const replay = Effect.fnUntraced(function*(
  schedule: Schedule.Schedule<unknown, unknown>,
  attempts: number,
  nowMillis: number,
  failure: unknown
) {
  const step = yield* Schedule.toStep(schedule)
  let delay = 0
  let now = nowMillis
  for (let i = 0; i < Math.min(attempts, REPLAY_LIMIT); i++) {
    delay = Duration.toMillis((yield* step(now, failure))[1])
    now += delay
  }
  return nowMillis + delay <= TIME_LIMIT_MILLIS ? Math.ceil(delay) : undefined
})

/**
 * How long a job waits after so many attempts, or `undefined` when its schedule has ended: also by a mistake of its
 * author, or by a wait beyond all times. Only the count is stored, so the schedule is followed from its start: any
 * process comes to the same answer.
 */
export const retryDelay = (
  model: Model,
  attempts: number,
  nowMillis: number,
  failure: unknown
): Effect.Effect<number | undefined> => {
  if (attempts >= model.maxAttempts) return Effect.undefined
  // a schedule that has ended says so as a failure
  return Effect.catchCause(replay(model.retry, attempts, nowMillis, failure), (cause) =>
    Cause.hasDies(cause)
      ? Effect.as(
        logError(
          `jobs of type ${render(model.type)}: the schedule "retry" died, so this run was the last`,
          cause
        ),
        undefined
      )
      : Effect.undefined)
}

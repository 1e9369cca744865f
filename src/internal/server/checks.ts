/**
 * What programs without types can get wrong where they start and call servers: refused before anything is done, with the
 * server's name.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import type * as Tuple from "../../Tuple.ts"
import { show } from "../data/show.ts"
import { CALL_TIMEOUT_LIMIT_MILLIS } from "../tenant/limits.ts"
import type { DurableWorkerOptions } from "./definition/durable.ts"
import { InvalidOption, InvalidTuid } from "./definition/errors.ts"
import type * as Model from "./definition/model.ts"
import type { HostOptions, Options, Which } from "./definition/options.ts"
import { problemOfTuid } from "./kept/layout.ts"
import type { Page } from "./mending/listing.ts"

/** A call waits five seconds when it does not say how long (as in Erlang). */
const CALL_TIMEOUT_DEFAULT = Duration.seconds(5)

/** Longer than a deployment takes from its first process to its last. */
const UNREADABLE_GRACE_DEFAULT = Duration.minutes(10)

/** A larger batch would not fit a transaction's five seconds. */
export const CONSUME_K_LIMIT = 1_000

/** Actions and locked handlers have so long to end with their server: less than supervisors wait before they kill. */
const GRACE_DEFAULT = Duration.seconds(10)

type Started = Options & { readonly tuid: Tuple.Tuple }

const invalid = (server: string, option: string, problem: string) =>
  Effect.fail(new InvalidOption({ server, option, problem }))

/** The options of a start, with their defaults. */
export const checkOptions = (server: string, options: Started): Effect.Effect<Model.Options, InvalidOption> => {
  if (!Predicate.isObject(options)) return invalid(server, "options", `must be an object, not ${show(options)}`)
  const { consumeK = 1, deadLetterThreshold = Infinity, lockTimeout = Duration.infinity } = options
  if (!Number.isInteger(consumeK) || consumeK < 1 || consumeK > CONSUME_K_LIMIT) {
    return invalid(server, "consumeK", `must be a whole number from 1 to ${CONSUME_K_LIMIT}, not ${show(consumeK)}`)
  }
  if (deadLetterThreshold !== Infinity && (!Number.isInteger(deadLetterThreshold) || deadLetterThreshold < 1)) {
    const given = show(deadLetterThreshold)
    return invalid(server, "deadLetterThreshold", `must be a whole number above zero, or Infinity, not ${given}`)
  }
  const lockTimeoutMillis = millisOf(lockTimeout)
  if (!(lockTimeoutMillis > 0)) {
    return invalid(server, "lockTimeout", `must be a duration above zero, not ${show(lockTimeout)}`)
  }
  const { actionTimeout = Duration.infinity, grace = GRACE_DEFAULT } = options
  const graceMillis = millisOf(grace)
  if (!(graceMillis > 0 || isZero(grace))) return invalid(server, "grace", `must be a duration, not ${show(grace)}`)
  const actionTimeoutMillis = millisOf(actionTimeout)
  if (!(actionTimeoutMillis > 0)) {
    return invalid(server, "actionTimeout", `must be a duration above zero, not ${show(actionTimeout)}`)
  }
  const { unreadableGrace = UNREADABLE_GRACE_DEFAULT } = options
  const unreadableGraceMillis = millisOf(unreadableGrace)
  const isNegative = typeof unreadableGrace === "number" && !(unreadableGrace >= 0)
  if (isNegative || Number.isNaN(unreadableGraceMillis)) {
    return invalid(server, "unreadableGrace", `must be a duration, zero or more, not ${show(unreadableGrace)}`)
  }
  for (const option of ["consume", "reset", "cache"] as const) {
    const value: unknown = options[option]
    if (value !== undefined && typeof value !== "boolean") {
      return invalid(server, option, `must be true or false, not ${show(value)}`)
    }
  }
  if (options.restart !== undefined && !Schedule.isSchedule(options.restart)) {
    return invalid(server, "restart", `must be a Schedule, not ${show(options.restart)}`)
  }
  return Effect.succeed({
    tuid: options.tuid,
    consume: options.consume ?? true,
    reset: options.reset ?? false,
    consumeK,
    cache: options.cache ?? true,
    deadLetterThreshold,
    lockTimeoutMillis,
    unreadableGraceMillis,
    restart: options.restart,
    graceMillis,
    actionTimeoutMillis
  })
}

/** How many servers a host lets work at a time, run locked, and keep, when it does not say. */
const HOST_DEFAULTS = { concurrency: 64, maxLocked: 1_000, maxResident: 10_000 }

/** More of anything is a mistake: each costs a fiber or a state in memory. */
const HOST_LIMIT = 1_000_000

const IDLE_TIME_TO_LIVE_DEFAULT = Duration.minutes(5)

/** The options of a host, with their defaults. */
export const checkHostOptions = (
  server: string,
  given: HostOptions | undefined
): Effect.Effect<Model.HostOptions, InvalidOption> => {
  const options: HostOptions = given ?? {}
  if (!Predicate.isObject(given ?? {})) return invalid(server, "options", `must be an object, not ${show(given)}`)
  const numbers = { ...HOST_DEFAULTS }
  for (const option of ["concurrency", "maxLocked", "maxResident"] as const) {
    const value = options[option] ?? HOST_DEFAULTS[option]
    const least = option === "maxResident" ? 0 : 1
    if (!Number.isInteger(value) || value < least || value > HOST_LIMIT) {
      return invalid(server, option, `must be a whole number from ${least} to ${HOST_LIMIT}, not ${show(value)}`)
    }
    numbers[option] = value
  }
  for (const option of ["consume", "reset", "tuid"]) {
    if (option in options) return invalid(server, option, "is no option of a host: leave it out")
  }
  const { idleTimeToLive = IDLE_TIME_TO_LIVE_DEFAULT } = options
  const idleTimeToLiveMillis = millisOf(idleTimeToLive)
  if (!(idleTimeToLiveMillis > 0)) {
    return invalid(server, "idleTimeToLive", `must be a duration above zero, not ${show(idleTimeToLive)}`)
  }
  return Effect.map(
    checkOptions(server, { ...options, tuid: [server] }),
    (checked) => ({ ...checked, ...numbers, idleTimeToLiveMillis })
  )
}

/** How many durable actions run together, when their worker does not say: as many as a host lets servers work. */
const DURABLE_CONCURRENCY_DEFAULT = 64

/** More is a mistake: each holds a lease that has to be renewed. */
const DURABLE_CONCURRENCY_LIMIT = 10_000

/** The options of a worker of durable actions, with their defaults. */
export const checkDurable = (
  server: string,
  options: DurableWorkerOptions | undefined = {}
): Effect.Effect<Required<DurableWorkerOptions>, InvalidOption> => {
  if (!Predicate.isObject(options)) return invalid(server, "options", `must be an object, not ${show(options)}`)
  const { concurrency = DURABLE_CONCURRENCY_DEFAULT, grace = GRACE_DEFAULT }: DurableWorkerOptions = options
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > DURABLE_CONCURRENCY_LIMIT) {
    const range = `from 1 to ${DURABLE_CONCURRENCY_LIMIT}`
    return invalid(server, "concurrency", `must be a whole number ${range}, not ${show(concurrency)}`)
  }
  if (!(millisOf(grace) > 0 || isZero(grace))) return invalid(server, "grace", `must be a duration, not ${show(grace)}`)
  return Effect.succeed({ concurrency, grace })
}

/** Tuids that one look lists, when it does not say, and at the most. */
const LIST_DEFAULT = 100
const LIST_LIMIT = 1_000

/** Which servers to list. */
export const checkList = (server: string, options: unknown = {}): Effect.Effect<Page, InvalidOption> => {
  if (!Predicate.isObject(options)) return invalid(server, "options", `must be an object, not ${show(options)}`)
  const { after, limit = LIST_DEFAULT, prefix } = options as Record<string, unknown>
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > LIST_LIMIT) {
    return invalid(server, "limit", `must be a whole number from 1 to ${LIST_LIMIT}, not ${show(limit)}`)
  }
  for (const [option, value] of [["prefix", prefix], ["after", after]] as const) {
    const problem = value === undefined ? undefined : problemOfTuid(value)
    if (problem !== undefined) return invalid(server, option, `must be a tuple: ${problem}`)
  }
  return Effect.succeed({ prefix, after, limit } as Page)
}

/** Whether a duration is nothing: what is less than that, or none at all, becomes nothing on the way. */
const isZero = (input: Duration.Input): boolean =>
  typeof input === "string"
    ? /^0(\.0+)?\s/.test(input)
    : Duration.isDuration(input) || Number(input) === 0 && typeof input !== "boolean" ||
      Predicate.isObject(input) && Object.values(input).length > 0 && Object.values(input).every((part) => part === 0)

/** A duration in milliseconds; `NaN` for what is none. */
const millisOf = (input: Duration.Input): number => {
  const duration = Duration.fromInput(input)
  return duration._tag === "Some" ? Duration.toMillis(duration.value) : NaN
}

/** Whether a behaviour is one of a definition. */
export const checkBehaviour = (
  definition: Model.Definition,
  behaviour: Model.Behaviour
): Effect.Effect<void, InvalidOption> =>
  (behaviour as Model.Behaviour | null | undefined)?.definition === definition
    ? Effect.void
    : invalid(definition.name, "behaviour", `must be made by the behaviour function of ${definition.name}`)

/** The time limit of a call, from its options. */
export const checkTimeout = (
  server: string,
  options: { readonly timeout?: Duration.Input | undefined }
): Effect.Effect<number, InvalidOption> => {
  if (!Predicate.isObject(options)) return invalid(server, "timeout", `must be in an object, not ${show(options)}`)
  const { timeout = CALL_TIMEOUT_DEFAULT } = options
  const millis = millisOf(timeout)
  return millis > 0 && millis <= CALL_TIMEOUT_LIMIT_MILLIS
    ? Effect.succeed(millis)
    : invalid(server, "timeout", `must be a duration above zero, at most 24 hours, not ${show(timeout)}`)
}

/** The tuid of one of many servers; the default is the server's name. */
export const tuidOf = (
  { hosted, name }: Model.Definition,
  which: Which | undefined
): Effect.Effect<Tuple.Tuple, InvalidTuid> => {
  const tuid = lenientTuidOf(name, which)
  const problem = problemOfTuid(tuid, hosted)
  return problem === undefined ? Effect.succeed(tuid) : Effect.fail(new InvalidTuid({ server: name, problem }))
}

/** The same, without a look at the tuid; what is no object names no server, the default one neither. */
export const lenientTuidOf = (server: string, which: Which | undefined): Tuple.Tuple => {
  if (which === undefined) return [server]
  if (!Predicate.isObject(which)) return undefined as never
  return which.tuid === undefined ? [server] : which.tuid as Tuple.Tuple
}

/** Throws a `TypeError` where an object of functions has none of some names. */
export const checkHandlers = (server: string, what: string, tags: Iterable<string>, handlers: unknown): void => {
  const given = Predicate.isObject(handlers) ? handlers : {}
  const missing = [...tags].filter((tag) => !Predicate.isFunction(given[tag]))
  if (missing.length > 0) throw new TypeError(`${server}: there is no ${what} for ${missing.join(", ")}`)
}

/**
 * Jobs that are added at the ticks of a cron expression.
 *
 * Owner: one fiber a layer; any number of processes can run the same schedule.
 *
 * 1. The store keeps the last tick that was handled. Who handles ticks reads it and writes it in the transaction that
 *    adds the jobs: a tick is handled at most once, in whatever process.
 * 2. A schedule that the store does not know yet begins now: no tick before its first start is a missed one.
 * 3. A tick is missed when nobody handled it before the next one, or within `LATE_LIMIT_MILLIS`. The schedule's policy
 *    says what happens then.
 */
import * as Clock from "effect/Clock"
import * as Cron from "effect/Cron"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import { packValue, unpackValue } from "../../data/codec.ts"
import { show } from "../../data/show.ts"
import { messageOfThrown } from "../../data/thrown.ts"
import { logError } from "../../transactions/logging.ts"
import { transact } from "../../transactions/loop.ts"
import { keepRunning } from "../../transactions/unforeseen.ts"
import { type Hub, hubOf } from "../background/hub.ts"
import { type InvalidData, type InvalidId, InvalidOption, type JobTooLarge, render } from "../definition/errors.ts"
import { isPriority, type Model, optionsOf, PRIORITY_LIMIT, within } from "../definition/model.ts"
import { add } from "../operations/operations.ts"

/** A tick that is handled so late counts as missed: longer than a restart takes, shorter than most schedules' steps. */
const LATE_LIMIT_MILLIS = 60_000

/** Ticks that one transaction handles; the next one goes on. */
const TICKS_LIMIT = 100

const PAUSE_MILLIS = 1_000

/** A schedule's fiber looks at its clock at least so often: clocks are set, machines sleep. */
const REST_LIMIT_MILLIS = 60_000

/**
 * When and how jobs are added by the clock.
 *
 * @since 0.1.0
 * @category models
 */
export interface CronOptions<A> {
  /** Five fields (minute, hour, day of the month, month, day of the week) or six (with seconds first), or a `Cron`. */
  readonly cron: string | Cron.Cron
  /** An IANA name, such as `"Europe/Berlin"`; UTC if absent. Not together with a `Cron`, which has its own. */
  readonly timeZone?: string | undefined
  /**
   * What happens with ticks that passed while no process ran: `"latest"` (if absent) adds a job for the latest of them,
   * `"skip"` does so only if that one is less than a minute late, `"all"` adds a job for each.
   */
  readonly missed?: "skip" | "latest" | "all" | undefined
  /** The data of a tick's job; a function gets the tick's time in milliseconds since 1970. */
  readonly data: A | ((tickMillis: number) => A)
  readonly priority?: number | undefined
}

export interface Plan {
  readonly name: string
  readonly cron: Cron.Cron
  readonly missed: "skip" | "latest" | "all"
  readonly priority: number
  readonly dataOf: (tickMillis: number) => unknown
}

/** A schedule with its options checked. */
const planOf = (
  model: Model,
  name: string,
  options: CronOptions<any>
): Result.Result<Plan, InvalidOption> => {
  const invalid = (option: string, problem: string) =>
    Result.fail(new InvalidOption({ type: model.type, option, problem }))
  if (typeof name !== "string" || name.length === 0 || !name.isWellFormed()) {
    return invalid("name", "must be a string that is not empty")
  }
  const { cron, data, missed = "latest", priority = 0, timeZone } = options
  if (!["skip", "latest", "all"].includes(missed)) return invalid("missed", "must be \"skip\", \"latest\" or \"all\"")
  if (!isPriority(priority)) {
    return invalid("priority", `must be a whole number from -${PRIORITY_LIMIT} to ${PRIORITY_LIMIT}`)
  }
  if (Cron.isCron(cron) && timeZone !== undefined) return invalid("timeZone", "cannot be used together with a Cron")
  if (typeof data !== "function" && Result.isFailure(model.codec.encode(data))) {
    return invalid("data", "must fit the schema of the type, or be a function")
  }
  const parsed = Cron.isCron(cron)
    ? Result.succeed(cron)
    : Result.mapError(
      Result.flatMap(zoneProblem(timeZone), () => Cron.parse(show(cron), timeZone ?? "UTC")),
      messageOfThrown
    )
  if (Result.isFailure(parsed)) {
    return invalid("cron", `must be a cron expression, in a time zone that exists: ${parsed.failure}`)
  }
  const first = Result.try({ try: () => Cron.next(parsed.success, 0), catch: () => "no date fits it" })
  if (Result.isFailure(first)) return invalid("cron", `must have a tick at some time: ${first.failure}`)
  return Result.succeed({
    name,
    cron: parsed.success,
    missed,
    priority,
    dataOf: typeof data === "function" ? data : () => data
  })
}

const zoneProblem = (timeZone: string | undefined): Result.Result<void, Error> =>
  Result.try({
    try: () => void new Intl.DateTimeFormat("en", { timeZone: timeZone ?? "UTC" }),
    catch: (cause) => new Error(messageOfThrown(cause))
  })

const nextTick = (plan: Plan, afterMillis: number): number => Cron.next(plan.cron, afterMillis).getTime()

/** The ticks after a time up to now, at most so many. */
const ticksBetween = (plan: Plan, afterMillis: number, nowMillis: number): ReadonlyArray<number> => {
  const ticks: Array<number> = []
  let tick = nextTick(plan, afterMillis)
  while (tick <= nowMillis && ticks.length < TICKS_LIMIT) {
    ticks.push(tick)
    tick = nextTick(plan, tick)
  }
  return ticks
}

/** The latest tick up to now: what a long pause leaves of many. */
const latestTick = (plan: Plan, nowMillis: number): number => Cron.prev(plan.cron, nowMillis + 1).getTime()

/** Which of the ticks get a job (3), and up to where all are handled. */
const chosen = (plan: Plan, lastMillis: number, nowMillis: number) => {
  if (plan.missed === "all") {
    const ticks = ticksBetween(plan, lastMillis, nowMillis)
    return { ticks, handled: ticks.at(-1) ?? lastMillis }
  }
  const latest = latestTick(plan, nowMillis)
  if (latest <= lastMillis) return { ticks: [], handled: lastMillis }
  const isLate = nowMillis - latest > LATE_LIMIT_MILLIS
  return { ticks: isLate && plan.missed === "skip" ? [] : [latest], handled: latest }
}

/** One transaction: handles what is due, and succeeds with the tick that comes next. */
const handleTicks = Effect.fnUntraced(function*(
  model: Model,
  plan: Plan
): Effect.fn.Return<number, InvalidOption | InvalidId | InvalidData | JobTooLarge, Transaction> {
  const state = yield* Transaction
  const now = state.timeMillis
  const stored = yield* within(model, (place) =>
    Effect.map(state.get(place.keys.cron(plan.name)), (bytes) => {
      const last = bytes === undefined ? undefined : unpackValue(bytes)
      return last !== undefined && Result.isSuccess(last) && typeof last.success === "number"
        ? last.success
        : undefined
    }))
  const { handled, ticks } = chosen(plan, stored ?? now, now)
  for (const tick of ticks) {
    yield* Effect.catchTag(
      add(model, [plan.name, tick], plan.dataOf(tick), { priority: plan.priority, ifExists: "ignore" }),
      "JobExists",
      () => Effect.void
    )
  }
  if (handled !== stored) {
    yield* within(model, (place) => Effect.sync(() => state.set(place.keys.cron(plan.name), packValue(handled))))
  }
  // whatever is left of many ticks comes first
  return nextTick(plan, ticks.length === TICKS_LIMIT ? handled : Math.max(handled, now))
})

/** Runs a schedule for ever. */
const runCron = (hub: Hub, model: Model, plan: Plan): Effect.Effect<never> => {
  const step = Effect.flatMap(
    transact(hub.tenant, handleTicks(model, plan)),
    (next) => Effect.map(Clock.currentTimeMillis, (now) => Math.min(REST_LIMIT_MILLIS, Math.max(0, next - now)))
  )
  const safe = Effect.catchCause(step, (cause) =>
    Effect.as(
      logError(`jobs of type ${render(model.type)}: the schedule ${render(plan.name)} failed`, cause),
      PAUSE_MILLIS
    ))
  return Effect.forever(Effect.flatMap(safe, Effect.sleep))
}

export const cronLayer = (
  model: Model,
  name: string,
  input: CronOptions<any>
): Layer.Layer<never, InvalidOption, Tenant> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const hub = yield* hubOf(model)
    const options = yield* optionsOf(model, input)
    const plan = yield* Effect.fromResult(planOf(model, name, options))
    yield* Effect.forkScoped(Effect.interruptible(
      keepRunning("jobs", `jobs of type ${render(model.type)}: the schedule ${render(name)}`, runCron(hub, model, plan))
    ))
  }))

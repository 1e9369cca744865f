/**
 * A worker as a layer: its options checked, its loops started, its end prepared.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import type { Trace } from "../../data/trace.ts"
import { captured, guarded } from "../../transactions/lending.ts"
import { transact } from "../../transactions/loop.ts"
import { traced } from "../../transactions/tracing.ts"
import { keepRunning } from "../../transactions/unforeseen.ts"
import { type Hub, usedHub } from "../background/hub.ts"
import { startMonitor } from "../background/monitor.ts"
import {
  type Halt,
  type InvalidData,
  InvalidOption,
  type JobTooLarge,
  render,
  type UnreadableData
} from "../definition/errors.ts"
import { isCount, millisOf, type Model, optionsOf } from "../definition/model.ts"
import type { Job } from "../kept/job.ts"
import { update, updateProgress } from "../operations/operations.ts"
import { Worker } from "./worker.ts"

/** More handlers than this in one worker are a mistake: each holds a lease that has to be renewed. */
const CONCURRENCY_LIMIT = 10_000

/** Handlers have so long to end when their worker's scope closes: less than supervisors wait before they kill. */
const GRACE_DEFAULT = Duration.seconds(10)

/**
 * How a worker runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface WorkerOptions {
  /** So many jobs this worker runs together: 1 if absent. */
  readonly concurrency?: number | undefined
  /** How long handlers may go on when the layer's scope closes: 10 seconds if absent. */
  readonly grace?: Duration.Input | undefined
  /** Instead of the definition's `retry`, for the jobs of this worker. */
  readonly retry?: Schedule.Schedule<unknown, unknown> | undefined
  /**
   * Instead of the definition's `maxAttempts`, for the jobs of this worker, and for those whose silent holders this
   * process notices while the worker is open (the one opened last, if several are).
   */
  readonly maxAttempts?: number | undefined
}

/**
 * What a handler gets besides its job.
 *
 * @since 0.1.0
 * @category models
 */
export interface HandlerContext<in out A> {
  /** Aborted when the handler is interrupted, because the lease is lost or the worker stops: for foreign code. */
  readonly signal: AbortSignal
  /** Writes new data in a transaction of its own; subscribers see it. */
  readonly update: (data: A) => Effect.Effect<void, Halt | InvalidOption | InvalidData | JobTooLarge | BackendError>
  /** The same with data that is computed from the stored data. */
  readonly updateProgress: (
    change: (data: A) => A
  ) => Effect.Effect<void, Halt | InvalidOption | InvalidData | JobTooLarge | UnreadableData | BackendError>
}

const Signal = Symbol("effect-dgen/jobs/signal")

/** One for all runs: a getter in an object's literal would cost each a hidden class of its own, collected late. */
const SIGNAL: PropertyDescriptor & ThisType<{ readonly [Signal]: () => AbortSignal }> = {
  configurable: true,
  enumerable: true,
  get() {
    return this[Signal]()
  }
}

/** What a handler gets; its signal is made when it asks for it. */
const makeContext = <A>(
  { tenant }: Hub,
  model: Model,
  job: Job<A>,
  signal: () => AbortSignal
): HandlerContext<A> => {
  const context: Omit<HandlerContext<A>, "signal"> & { readonly [Signal]: () => AbortSignal } = {
    [Signal]: signal,
    update: (data) => Effect.asVoid(transact(tenant, update(model, job, data))),
    updateProgress: (change) => Effect.asVoid(transact(tenant, updateProgress(model, job, change)))
  }
  return Object.defineProperty(context, "signal", SIGNAL) as unknown as HandlerContext<A>
}

interface Checked {
  readonly model: Model
  readonly concurrency: number
  readonly graceMillis: number
}

const check = (model: Model, options: WorkerOptions): Effect.Effect<Checked, InvalidOption> => {
  const invalid = (option: string, problem: string) =>
    Effect.fail(new InvalidOption({ type: model.type, option, problem }))
  const { concurrency = 1, grace = GRACE_DEFAULT, maxAttempts = model.maxAttempts, retry = model.retry } = options
  if (!isCount(concurrency) || concurrency > CONCURRENCY_LIMIT) {
    return invalid("concurrency", `must be a whole number from 1 to ${CONCURRENCY_LIMIT}`)
  }
  const graceMillis = millisOf(grace)
  if (graceMillis === undefined) return invalid("grace", "must be a duration")
  if (!isCount(maxAttempts)) return invalid("maxAttempts", "must be a whole number of at least 1, or Infinity")
  const own = options.retry === undefined && options.maxAttempts === undefined
  if (!Schedule.isSchedule(retry)) return invalid("retry", "must be a Schedule")
  return Effect.succeed({ model: own ? model : { ...model, maxAttempts, retry }, concurrency, graceMillis })
}

/** The layer of a worker: it runs from when it is built until its scope closes. */
export const workerLayer = <A, E, R>(
  model: Model,
  handler: (job: Job<A>, context: HandlerContext<A>) => Effect.Effect<A | void, E, R>,
  input?: WorkerOptions
): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    if (typeof handler !== "function") {
      return yield* new InvalidOption({ type: model.type, option: "handler", problem: "must be a function" })
    }
    const checked = yield* check(model, yield* optionsOf(model, input))
    const own = checked.model
    const hub = yield* usedHub(own)
    const services = captured(yield* Effect.context<Exclude<R, Scope.Scope>>())
    const jobType = render(own.type)
    const run = (job: Job<A>, trace: Trace | undefined, signal: () => AbortSignal) => {
      const context = makeContext(hub, own, job, signal)
      // a handler may use a scope: it is the run's own
      const scoped = Effect.scoped(Effect.suspend(() => handler(job, context))) as Effect.Effect<
        A | void,
        E,
        Exclude<R, Scope.Scope>
      >
      const id = render(job.id)
      const logged = Effect.annotateLogs(Effect.provideContext(scoped, services), { job: id, jobType })
      return traced(logged, "Jobs/run", () => ({
        attributes: { type: jobType, id, attempt: job.attempt },
        root: true,
        links: trace === undefined ? [] : [{ span: Tracer.externalSpan(trace), attributes: {} }]
      }))
    }
    const worker = new Worker(hub, own, run, checked.concurrency, guarded(yield* Effect.context<never>()))
    hub.follow(model)
    yield* hub.followWorker(own)
    yield* startMonitor(hub)
    yield* worker.present
    for (const loop of worker.loops) {
      yield* Effect.forkScoped(Effect.interruptible(keepRunning("jobs", `the worker of ${jobType}`, loop)))
    }
    // finalizers run last to first: the loops go on until the end has been prepared
    yield* Effect.addFinalizer(() => worker.drain(checked.graceMillis))
  }))

/**
 * A worker as a layer: its options checked, its loops started, its end prepared.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import type { Tenant } from "../../../Tenant.ts"
import { captured, guarded } from "../../observing/lending.ts"
import { logWarning } from "../../observing/logging.ts"
import { traced } from "../../observing/tracing.ts"
import { effectOf, keepRunning } from "../../observing/unforeseen.ts"
import { transact } from "../../transactions/loop.ts"
import { type Hub, usedHub } from "../background/hub.ts"
import { startMonitor } from "../background/monitor.ts"
import { InvalidOption, render } from "../definition/errors.ts"
import { isCount, millisOf, type Model, optionsOf } from "../definition/model.ts"
import type { Job } from "../kept/job.ts"
import { keepRecord } from "../kept/record.ts"
import { Batches, type BatchLimits, type BatchResult } from "./batching.ts"
import { type HandlerContext, makeContext } from "./context.ts"
import { type Capacity, type Run, type Signals, Worker } from "./worker.ts"

/** More handlers than this in one worker are a mistake: each holds a lease that has to be renewed. */
const CONCURRENCY_LIMIT = 10_000

/** Handlers have so long to end when their worker's scope closes: less than supervisors wait before they kill. */
const GRACE_DEFAULT = Duration.seconds(10)

const BATCH_JOBS_DEFAULT = 100

/** Long enough for jobs that come one after another, short enough for who waits for one. */
const BATCH_WAIT_DEFAULT = Duration.millis(100)

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
 * How a worker runs that gets several jobs at once. `concurrency` says how many batches run together.
 *
 * @since 0.1.0
 * @category models
 */
export interface BatchWorkerOptions extends WorkerOptions {
  /** So many jobs are one batch at the most: 100 if absent. */
  readonly maxJobs?: number | undefined
  /** A batch that is not full begins so long after its first job came: 100 ms if absent, 0 for at once. */
  readonly maxWait?: Duration.Input | undefined
}

/**
 * What the handler of a batch gets besides its jobs.
 *
 * @since 0.1.0
 * @category models
 */
export interface BatchContext {
  /** Ends when the worker is told to stop: the handler has `grace` left before it is interrupted. */
  readonly stopping: Effect.Effect<void>
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

const requireFunction = (model: Model, handler: unknown): Effect.Effect<void, InvalidOption> =>
  typeof handler === "function"
    ? Effect.void
    : Effect.fail(new InvalidOption({ type: model.type, option: "handler", problem: "must be a function" }))

const keptRecord = (hub: Hub, model: Model): Effect.Effect<void> =>
  Effect.catchCause(transact(hub.tenant, keepRecord(hub.tenant, model)), (cause) =>
    Cause.hasInterruptsOnly(cause)
      ? Effect.void
      : logWarning(
        `the record of jobs of type ${render(model.type)} was not written: tools do not show their data`,
        cause
      ))

/** A worker from here to the end of the scope; `makeRun` gets what ends when a stop is coming. */
const open = Effect.fnUntraced(function*<E>(
  hub: Hub,
  model: Model,
  checked: Checked,
  capacity: Capacity,
  makeRun: (stopping: Effect.Effect<void>) => (job: Job<any>, signals: Signals) => Effect.Effect<unknown, E>
) {
  const own = checked.model
  const jobType = render(own.type)
  // a store that does not answer must not hold up the worker
  yield* Effect.forkScoped(Effect.interruptible(keptRecord(hub, own)))
  const run: Run<E> = (job, trace, signals) => {
    const id = render(job.id)
    const logged = Effect.annotateLogs(runOne(job, signals), { job: id, jobType })
    return traced(logged, "Jobs/run", () => ({
      attributes: { type: jobType, id, attempt: job.attempt },
      root: true,
      links: trace === undefined ? [] : [{ span: Tracer.externalSpan(trace), attributes: {} }]
    }))
  }
  const worker = new Worker(hub, own, run, capacity, guarded(yield* Effect.context<never>()))
  const runOne = makeRun(worker.stopping)
  hub.follow(model)
  yield* hub.followWorker(own)
  yield* startMonitor(hub)
  yield* worker.present
  for (const loop of worker.loops) {
    yield* Effect.forkScoped(Effect.interruptible(keepRunning("jobs", `the worker of ${jobType}`, loop)))
  }
  // finalizers run last to first: the loops go on until the end has been prepared
  yield* Effect.addFinalizer(() => worker.drain(checked.graceMillis))
})

/** The layer of a worker: it runs from when it is built until its scope closes. */
export const workerLayer = <A, E, R>(
  model: Model,
  handler: (job: Job<A>, context: HandlerContext<A>) => Effect.Effect<A | void, E, R>,
  input?: WorkerOptions
): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    yield* requireFunction(model, handler)
    const checked = yield* check(model, yield* optionsOf(model, input))
    const hub = yield* usedHub(checked.model)
    const services = captured(yield* Effect.context<Exclude<R, Scope.Scope>>())
    const capacity: Capacity = { jobs: () => checked.concurrency, isBatched: false }
    yield* open(hub, model, checked, capacity, (stopping) => (job: Job<A>, signals) => {
      const context = makeContext(hub, checked.model, job, signals, stopping)
      // a handler may use a scope: it is the run's own
      const scoped = Effect.scoped(effectOf(() => handler(job, context)))
      return Effect.provideContext(scoped as Effect.Effect<A | void, E, Exclude<R, Scope.Scope>>, services)
    })
  }))

/** The layer of a worker whose handler gets several jobs at once. */
export const batchWorkerLayer = <A, E, R>(
  model: Model,
  handler: (
    jobs: ReadonlyArray<Job<A>>,
    context: BatchContext
  ) => Effect.Effect<ReadonlyArray<BatchResult<A>> | void, E, R>,
  input?: BatchWorkerOptions
): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    yield* requireFunction(model, handler)
    const options = yield* optionsOf(model, input)
    const checked = yield* check(model, options)
    const limits = yield* batchLimits(model, options, checked.concurrency)
    const hub = yield* usedHub(checked.model)
    const services = captured(yield* Effect.context<Exclude<R, Scope.Scope>>())
    let stopping: Effect.Effect<void> = Effect.never
    const run = (jobs: ReadonlyArray<Job<A>>) => {
      const scoped = Effect.annotateLogs(
        Effect.scoped(effectOf(() => handler(jobs, { stopping }))),
        // it runs with the context of the first job's run
        { job: jobs.length === 1 ? render(jobs[0]!.id) : `${render(jobs[0]!.id)} and ${jobs.length - 1} more` }
      )
      return Effect.provideContext(
        scoped as Effect.Effect<ReadonlyArray<BatchResult<A>> | void, E, Exclude<R, Scope.Scope>>,
        services
      )
    }
    const batches = new Batches(run, limits)
    yield* open(hub, model, checked, { jobs: () => batches.capacity, isBatched: true }, (stops) => {
      stopping = stops
      return (job: Job<A>) => batches.run(job)
    })
  }))

const batchLimits = (
  model: Model,
  { maxJobs = BATCH_JOBS_DEFAULT, maxWait = BATCH_WAIT_DEFAULT }: BatchWorkerOptions,
  batches: number
): Effect.Effect<BatchLimits, InvalidOption> => {
  const invalid = (option: string, problem: string) =>
    Effect.fail(new InvalidOption({ type: model.type, option, problem }))
  if (!isCount(maxJobs) || maxJobs * batches > CONCURRENCY_LIMIT) {
    return invalid(
      "maxJobs",
      `must be a whole number from 1; together with concurrency up to ${CONCURRENCY_LIMIT} jobs`
    )
  }
  const maxWaitMillis = millisOf(maxWait)
  return maxWaitMillis === undefined || maxWaitMillis === Infinity
    ? invalid("maxWait", "must be a finite duration")
    : Effect.succeed({ maxJobs, maxWaitMillis, batches })
}

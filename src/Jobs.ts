/**
 * Background jobs: durable, scheduled, leased work. A job has a type, an id and data. Its creator adds it, in the same
 * commit as whatever else the creator writes. A worker, in any process, takes it, shows signs of life while it works,
 * and finishes it, in the same commit as the result.
 *
 * A job runs at least once: when its holder dies, or is silent for the type's timeout, it is pending again and another
 * worker takes it. At most one holder's writes count: each run has a lock, and every `update`, `finish` and
 * `resubmitJob` of a holder that lost it fails with `Halt`, and then nothing of its transaction is written. Of the due
 * jobs the one with the highest priority is taken first, then the one that was due first; a job that is due later is
 * taken at its time. A job can wait for the end of others.
 *
 * What you owe: a handler's side effects outside the store can happen twice, so make them idempotent; what a holder
 * writes to the store belongs in a transaction with `update` or `finish`, so that only the holder's writes count.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { BackendError } from "./BackendError.ts"
import type {
  Halt,
  InvalidData,
  InvalidId,
  InvalidOption,
  JobExists,
  JobNotFound,
  JobTooLarge,
  ParentNotFound,
  ScheduleNotFound,
  UnreadableData
} from "./internal/jobs/definition/errors.ts"
import type { State } from "./internal/jobs/definition/layout.ts"
import * as Model from "./internal/jobs/definition/model.ts"
import type { Job } from "./internal/jobs/kept/job.ts"
import type * as Reports from "./internal/jobs/kept/reports.ts"
import * as Settings from "./internal/jobs/kept/settings.ts"
import * as Dependencies from "./internal/jobs/operations/dependencies.ts"
import * as Listing from "./internal/jobs/operations/listing.ts"
import * as Many from "./internal/jobs/operations/many.ts"
import * as Operations from "./internal/jobs/operations/operations.ts"
import * as Control from "./internal/jobs/schedules/control.ts"
import * as Cron from "./internal/jobs/schedules/cron.ts"
import type { CronOptions } from "./internal/jobs/schedules/plan.ts"
import * as Subscriptions from "./internal/jobs/watching/subscriptions.ts"
import type { Change } from "./internal/jobs/watching/waiting.ts"
import * as Accept from "./internal/jobs/working/accept.ts"
import type { BatchResult } from "./internal/jobs/working/batching.ts"
import type { HandlerContext } from "./internal/jobs/working/context.ts"
import * as DeadJobs from "./internal/jobs/working/deadJobs.ts"
import * as Working from "./internal/jobs/working/layer.ts"
import type { Tenant } from "./Tenant.ts"
import type { Transaction } from "./Transaction.ts"
import type * as Tuple from "./Tuple.ts"

export {
  Halt,
  InvalidData,
  InvalidId,
  InvalidOption,
  JobExists,
  JobNotFound,
  JobTooLarge,
  ParentNotFound,
  ScheduleNotFound,
  UnreadableData
} from "./internal/jobs/definition/errors.ts"
export type { Job } from "./internal/jobs/kept/job.ts"
export type { DeadJob } from "./internal/jobs/kept/reports.ts"
export type { DependencyOptions, Parent, ParentInput, ParentResult } from "./internal/jobs/operations/dependencies.ts"
export {
  type Counts,
  type Listed,
  type ListOptions,
  type Page,
  PAGE_LIMIT
} from "./internal/jobs/operations/listing.ts"
export type { ManyOptions } from "./internal/jobs/operations/many.ts"
export type { Added, AddOptions } from "./internal/jobs/operations/operations.ts"
export type { Scheduled } from "./internal/jobs/schedules/control.ts"
export type { CronOptions } from "./internal/jobs/schedules/plan.ts"
export type { Subscription } from "./internal/jobs/watching/subscriptions.ts"
export type { Change } from "./internal/jobs/watching/waiting.ts"
export type { BatchResult } from "./internal/jobs/working/batching.ts"
export type { HandlerContext } from "./internal/jobs/working/context.ts"
export type { BatchContext, BatchWorkerOptions, WorkerOptions } from "./internal/jobs/working/layer.ts"

/**
 * The longest data of a job, packed.
 *
 * @since 0.1.0
 * @category limits
 */
export const DATA_LIMIT_BYTES = Model.DATA_LIMIT_BYTES

/**
 * The longest id, and the longest concurrency key, packed.
 *
 * @since 0.1.0
 * @category limits
 */
export const ID_LIMIT_BYTES = Model.ID_LIMIT_BYTES

/**
 * The state of a job. A `dead` one has used up its attempts; it stays until it is requeued, resubmitted or removed.
 *
 * @since 0.1.0
 * @category models
 */
export type JobState = State

/**
 * What a write of a job's holder can fail with. Nothing was written then.
 *
 * @since 0.1.0
 * @category errors
 */
export type HolderError = Halt | InvalidOption | InvalidData | JobTooLarge

/**
 * So many runs in a window of time: 1 to 1,000 in 1 ms to a year.
 *
 * @since 0.1.0
 * @category models
 */
export interface RateLimit {
  readonly limit: number
  readonly window: Duration.Input
}

/**
 * How the jobs of a type are kept and run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<S extends Schema.Codec<any, any, never, never>> {
  /** The schema of the data: anything that JSON can hold. */
  readonly data: S
  /**
   * How long a holder may be silent before its job is pending again: 30 seconds if absent, 100 ms at least. `setTimeout`
   * stores another one, which wins.
   */
  readonly timeout?: Duration.Input | undefined
  /**
   * How long a job waits after a failed attempt; when the schedule ends, the job is dead. From one second doubling up to
   * five minutes if absent, without an end. The schedule gets what the handler failed with.
   */
  readonly retry?: Schedule.Schedule<unknown, unknown> | undefined
  /** After so many attempts a job that fails, or whose holder went silent, is dead: `Infinity` if absent. */
  readonly maxAttempts?: number | undefined
  /**
   * How long a job stays that has ended: a duration for finished jobs, or one for each kind. 7 days for finished ones and
   * 90 days for dead ones if absent; `Infinity` keeps them until they are removed. A finished job with 0 is removed when it
   * finishes. Jobs are removed as long as some process works on, accepts from or watches the type.
   */
  readonly retention?:
    | Duration.Input
    | { readonly finished?: Duration.Input | undefined; readonly dead?: Duration.Input | undefined }
    | undefined
  /**
   * How long a job whose data does not fit the schema waits, from when a worker first met it, for a version of the program
   * that can read it: 10 minutes if absent. Then it is dead, with the reason in its `error`.
   */
  readonly unreadableGrace?: Duration.Input | undefined
  /** So many jobs of this type run together, in all processes: `Infinity` if absent. */
  readonly maxRunning?: number | undefined
  /** So many jobs that were added with one `key` run together, in all processes: `Infinity` if absent. */
  readonly maxRunningPerKey?: number | undefined
  /**
   * A due job counts as one priority higher each time it has waited for so long, so that low priorities get their turn
   * while there are always higher ones: at least 1 ms; never, if absent. Processes with another one order the same jobs
   * their way.
   */
  readonly aging?: Duration.Input | undefined
  /** So many runs of this type begin in any window of that length, in all processes: no limit if absent. */
  readonly rateLimit?: RateLimit | undefined
  /**
   * The same for the jobs that were added with one `key`. A job that has to wait for its key is due again when its turn
   * comes, after those of the key that were due before it.
   */
  readonly rateLimitPerKey?: RateLimit | undefined
}

/**
 * The jobs of one type: what `make` gives. Operations that require `Transaction` commit with whatever else their
 * transaction writes; those that fail have written nothing.
 *
 * @since 0.1.0
 * @category models
 */
export interface JobType<in out A> {
  readonly type: Tuple.Element

  // --- creation (transaction effects) ---

  /**
   * Adds a job, pending until its time, and until the jobs of `after` have ended. Succeeds with what was done; fails with
   * `JobExists` when the id is there and `ifExists` is not `"resubmit"` or `"ignore"`, with `ParentNotFound` when a job of
   * `after` is not there. A resubmitted job keeps its priority and key.
   *
   * **Example** (A job that waits for others)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Option, Schema } from "effect"
   * import { Jobs, MemoryBackend, Tenant } from "effect-dgen"
   *
   * const Pages = Jobs.make("pages", { data: Schema.Struct({ words: Schema.Number }) })
   * const Books = Jobs.make("books", { data: Schema.Struct({ title: Schema.String }) })
   *
   * const program = Effect.gen(function*() {
   *   yield* Tenant.transact(Effect.gen(function*() {
   *     yield* Pages.add(1, { words: 0 })
   *     yield* Pages.add(2, { words: 0 })
   *     yield* Books.add("b", { title: "Notes" }, { after: [{ job: Pages, id: 1 }, { job: Pages, id: 2 }] })
   *   }))
   *   for (const words of [300, 120]) {
   *     const page = Option.getOrThrow(yield* Pages.accept())
   *     yield* Tenant.transact(Pages.finish(page, { words }))
   *   }
   *   const book = Option.getOrThrow(yield* Books.accept())
   *   const pages = yield* Tenant.transact(Books.results(book.id, Pages))
   *   return pages.map((page) => page.state === "finished" ? page.data.words : 0)
   * }).pipe(Effect.provide(Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))))
   *
   * await Effect.runPromise(program)
   * // => [300, 120]
   * ```
   */
  add(
    id: Tuple.Element,
    data: A,
    options?: Operations.AddOptions
  ): Effect.Effect<
    Operations.Added,
    JobExists | ParentNotFound | InvalidData | InvalidId | InvalidOption | JobTooLarge,
    Transaction
  >

  /**
   * Removes a job in any state. Its holder, if it has one, gets `Halt`, a handler is interrupted. A job whose row is
   * damaged is removed too: what lies in the indexes for it is cleared by whoever meets it, and it is counted until then.
   * One that a newer version of the library wrote is whole: removing it dies.
   */
  remove(id: Tuple.Element): Effect.Effect<void, JobNotFound | InvalidId | InvalidOption, Transaction>

  /**
   * Asks for another run: a pending job gets the new time and data, if some are given; a finished or dead one is pending
   * again, at once or at its time; a running one is pending again once it is finished, with the new data. Succeeds with
   * the state that the job is in now.
   */
  resubmit(
    id: Tuple.Element,
    options?: { readonly scheduledAt?: DateTime.DateTime.Input | undefined; readonly data?: A | undefined }
  ): Effect.Effect<JobState, JobNotFound | InvalidData | InvalidId | InvalidOption | JobTooLarge, Transaction>

  /**
   * Gives a waiting job another priority, or another key (`undefined` takes it away), or both; what is left out stays.
   * Succeeds with whether the job was waiting: one that runs or has ended stays as it is.
   */
  move(
    id: Tuple.Element,
    to: { readonly priority?: number | undefined; readonly key?: Tuple.Element | undefined }
  ): Effect.Effect<boolean, JobNotFound | InvalidId | InvalidOption, Transaction>

  /** The data of a job, as its holder last wrote it. */
  getData(id: Tuple.Element): Effect.Effect<A, JobNotFound | UnreadableData | InvalidId | InvalidOption, Transaction>

  /** The state of a job. */
  getState(id: Tuple.Element): Effect.Effect<JobState, JobNotFound | InvalidId | InvalidOption, Transaction>

  /** Stores the type's activity timeout, for all processes: at least 100 ms. */
  setTimeout(timeout: Duration.Input): Effect.Effect<void, InvalidOption, Transaction>

  /** The type's activity timeout: the stored one, or the definition's. */
  readonly getTimeout: Effect.Effect<Duration.Duration, InvalidOption, Transaction>

  /** Nothing of this type is taken any more, in any process, until `resume`. Running jobs go on. */
  readonly pause: Effect.Effect<void, InvalidOption, Transaction>

  /** Ends a pause. */
  readonly resume: Effect.Effect<void, InvalidOption, Transaction>

  /** Whether the type is paused. */
  readonly isPaused: Effect.Effect<boolean, InvalidOption, Transaction>

  // --- processing (transaction effects of a holder) ---

  /**
   * A sign of life, with new data if some is given. Owed at least once per timeout; workers do it by themselves.
   * Succeeds with the job as it is now.
   */
  update(job: Job<A>, data?: A): Effect.Effect<Job<A>, HolderError, Transaction>

  /** An `update` whose data is computed from the stored data. */
  updateProgress(
    job: Job<A>,
    change: (data: A) => A
  ): Effect.Effect<Job<A>, HolderError | UnreadableData, Transaction>

  /** Ends the run well, with final data if some is given. */
  finish(job: Job<A>, data?: A): Effect.Effect<void, HolderError, Transaction>

  /** Asks for another run after this one. */
  resubmitJob(
    job: Job<A>,
    options?: { readonly scheduledAt?: DateTime.DateTime.Input | undefined }
  ): Effect.Effect<Job<A>, Halt | InvalidOption, Transaction>

  /** Whether another run was asked for; `false` for a job that is lost. */
  isResubmitted(job: Job<A>): Effect.Effect<boolean, InvalidOption, Transaction>

  /**
   * Ends the run badly: the job is pending again after the delay that `retry` says, or dead. Succeeds with which of them.
   */
  fail(job: Job<A>, error: unknown): Effect.Effect<JobState, Halt | InvalidOption, Transaction>

  /** Hands the job back: pending at once, the attempt not counted. */
  release(job: Job<A>): Effect.Effect<void, Halt | InvalidOption, Transaction>

  // --- looking (transaction effects) ---

  /** How many jobs there are in each state. */
  readonly counts: Effect.Effect<Listing.Counts, InvalidOption, Transaction>

  /**
   * A page of jobs: pending ones that were due at once in the order they are taken, then those that are due at a time
   * in theirs (those that wait for a place of their key come last),
   * finished and dead ones by the time they ended, others by id.
   */
  list(options?: Listing.ListOptions): Effect.Effect<Listing.Page<A>, InvalidOption, Transaction>

  /** The jobs that a job waits for, or waited for, in the order in which they were named first. */
  parents(
    id: Tuple.Element
  ): Effect.Effect<ReadonlyArray<Dependencies.Parent>, JobNotFound | InvalidId | InvalidOption, Transaction>

  /** Those of them that are of another definition's type, with what they left when they finished. */
  results<B>(
    id: Tuple.Element,
    of: JobType<B>
  ): Effect.Effect<
    ReadonlyArray<Dependencies.ParentResult<B>>,
    JobNotFound | UnreadableData | InvalidId | InvalidOption,
    Transaction
  >

  /** A dead job is pending at once, its attempts back to 0. Succeeds with whether it was dead. */
  requeueDead(id: Tuple.Element): Effect.Effect<boolean, JobNotFound | InvalidId | InvalidOption, Transaction>

  /** Removes the jobs that died first, 1,000 at the most; succeeds with how many. Repeat it until that is 0. */
  purgeDead(options?: { readonly limit?: number | undefined }): Effect.Effect<number, InvalidOption, Transaction>

  // --- schedules (transaction effects) ---

  /** The schedules that `cronLayer` has begun, by name, with their last and their next tick. */
  readonly schedules: Effect.Effect<ReadonlyArray<Control.Scheduled>, InvalidOption, Transaction>

  /** Ticks of the schedule pass without a job until it is resumed, in all processes and over restarts. */
  pauseSchedule(name: string): Effect.Effect<void, ScheduleNotFound | InvalidOption, Transaction>

  /** Ends a pause: the schedule begins now, ticks of the pause are not missed. */
  resumeSchedule(name: string): Effect.Effect<void, ScheduleNotFound | InvalidOption, Transaction>

  /** The schedule begins now: nothing before is made up for, and runs that were asked for are forgotten. */
  resetSchedule(name: string): Effect.Effect<void, ScheduleNotFound | InvalidOption, Transaction>

  /**
   * Asks for a job of the schedule now, paused or not. A process that runs the schedule adds it, at once or when there is
   * one. Succeeds with the id that the job will have: the name, and the time of asking in place of a tick.
   */
  runSchedule(
    name: string
  ): Effect.Effect<readonly [name: string, millis: number], ScheduleNotFound | InvalidOption, Transaction>

  /**
   * Removes the schedule; its jobs stay. Processes that run it add nothing any more, until a layer of its name is
   * started, in any process: then it begins anew.
   */
  removeSchedule(name: string): Effect.Effect<void, ScheduleNotFound | InvalidOption, Transaction>

  // --- ordinary effects ---

  /**
   * Removes all jobs of the type, or those of a `state`, or those that `where` says yes to, in bounded transactions one
   * after the other; succeeds with how many they were. Jobs that come meanwhile can be met or not.
   */
  removeAll(options?: Many.ManyOptions<A>): Effect.Effect<number, InvalidOption | BackendError, Tenant>

  /**
   * The same to run jobs again, their attempts back to 0: dead ones, or with `state: "finished"` finished ones, that
   * `where` says yes to.
   */
  retryAll(options?: Many.ManyOptions<A>): Effect.Effect<number, InvalidOption | BackendError, Tenant>

  /**
   * Takes a job, and waits for one if none is due: for good, or until `timeout` has passed, then with `Option.none()`.
   * With `maxScheduledTime`, jobs due up to then are taken, instead of those due now. The caller holds the job: it owes
   * an `update` per timeout, and `finish`, `fail` or `release`.
   */
  accept(options?: {
    readonly maxScheduledTime?: DateTime.DateTime.Input | undefined
    readonly timeout?: Duration.Input | undefined
  }): Effect.Effect<Option.Option<Job<A>>, InvalidOption | BackendError, Tenant>

  /**
   * Subscribes to a job's changes, with its state and data as they are now: await them with `Jobs.wait`. States in
   * between can be missed, the latest one and the removal cannot.
   */
  subscribe(
    id: Tuple.Element
  ): Effect.Effect<
    Subscriptions.Subscription<A>,
    JobNotFound | UnreadableData | InvalidId | InvalidOption | BackendError,
    Scope.Scope | Tenant
  >

  /** The job as it is now and each of its changes, as `subscribe` sees them; ends after the removal. */
  changes(
    id: Tuple.Element
  ): Stream.Stream<
    Change<A>,
    JobNotFound | UnreadableData | InvalidId | InvalidOption | BackendError,
    Tenant
  >

  /**
   * A worker: takes jobs, runs the handler for each, renews their leases, and finishes them with what the handler
   * returns (nothing: the data stays). A failed handler is a failed attempt. A handler whose lease is lost is
   * interrupted. The end of the layer's scope lets handlers end within `grace`, then hands their jobs back.
   */
  workerLayer<E, R>(
    handler: (job: Job<A>, context: HandlerContext<A>) => Effect.Effect<A | void, E, R>,
    options?: Working.WorkerOptions
  ): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>>

  /**
   * A worker whose handler gets several jobs at once: up to `maxJobs`, or what came within `maxWait`. It answers with a
   * `Result` for each of them, in their order: success with final data or nothing, or a failure, which is a failed
   * attempt of that job alone. With nothing instead, all of them are finished. What it fails with or dies of is a failed
   * attempt of each. Leases, retries, limits and the end of the scope are those of `workerLayer`, job by job.
   *
   * **Example** (One request for many jobs)
   *
   * ```ts import.meta.vitest
   * import { Effect, Layer, Result, Schema } from "effect"
   * import { Jobs, MemoryBackend, Tenant } from "effect-dgen"
   *
   * const Mails = Jobs.make("mails", { data: Schema.Struct({ to: Schema.String }), maxAttempts: 1 })
   *
   * const sizes: Array<number> = []
   * const Worker = Mails.batchWorkerLayer((jobs) =>
   *   Effect.sync(() => {
   *     sizes.push(jobs.length)
   *     return jobs.map(({ data }) => data.to === "" ? Result.fail("nobody") : Result.succeed(undefined))
   *   }), { maxJobs: 3 })
   *
   * const program = Effect.gen(function*() {
   *   yield* Tenant.transact(Effect.forEach(["ada", "", "grace"], (to, i) => Mails.add(i, { to })))
   *   yield* Layer.build(Worker)
   *   const counts = yield* Effect.repeat(Tenant.transact(Mails.counts), {
   *     until: ({ dead, finished }) => dead + finished === 3
   *   })
   *   return { sizes, dead: counts.dead }
   * }).pipe(Effect.scoped, Effect.provide(Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))))
   *
   * await Effect.runPromise(program)
   * // => { sizes: [3], dead: 1 }
   * ```
   */
  batchWorkerLayer<E, R>(
    handler: (
      jobs: ReadonlyArray<Job<A>>,
      context: Working.BatchContext
    ) => Effect.Effect<ReadonlyArray<BatchResult<A>> | void, E, R>,
    options?: Working.BatchWorkerOptions
  ): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>>

  /**
   * Somebody who is told of each job of this type that dies: after the commit, one after the other, in the process whose
   * transaction ended the job, which is the one that ran it, or noticed that its holder went silent. So have it wherever
   * jobs of the type are taken or watched. What a process knows of dead jobs and has not told when it dies itself is not
   * told, nor what dies while 32 MB wait to be told, which is logged: `list({ state: "dead" })` has them all.
   */
  deadJobLayer<R>(
    handler: (dead: Reports.DeadJob<A>) => Effect.Effect<unknown, never, R>
  ): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>>

  /**
   * Adds a job at each tick of a cron expression, with the id `[name, tick in milliseconds]`. Any number of processes
   * can run it: a tick is handled at most once. The schedule begins with the first start of a layer of its name, and
   * anew when its expression or zone is another one, and when no process ran it for its `restLimit`.
   */
  cronLayer(name: string, options: CronOptions<A>): Layer.Layer<never, InvalidOption, Tenant>
}

/**
 * Defines the jobs of a type: a string, a number or any other element of a tuple, or a tuple. Nothing is written, and
 * nothing runs: a definition is a value that creators, workers and onlookers share. One that cannot be used makes every
 * operation fail with `InvalidOption`.
 *
 * **Example** (A job from its creation to its end)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Option, Schema } from "effect"
 * import { Jobs, MemoryBackend, Tenant } from "effect-dgen"
 *
 * const Greetings = Jobs.make("greetings", { data: Schema.Struct({ name: Schema.String }) })
 *
 * const program = Effect.gen(function*() {
 *   yield* Tenant.transact(Greetings.add("first", { name: "Ada" }))
 *   const job = Option.getOrThrow(yield* Greetings.accept())
 *   yield* Tenant.transact(Greetings.finish(job, { name: `${job.data.name} Lovelace` }))
 *   return yield* Tenant.transact(Greetings.getData("first"))
 * }).pipe(Effect.provide(Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))))
 *
 * await Effect.runPromise(program)
 * // => { name: "Ada Lovelace" }
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <S extends Schema.Codec<any, any, never, never>>(
  type: Tuple.Element,
  options: Options<S>
): JobType<S["Type"]> => {
  const model = Model.make(type, options)
  return Model.defines<JobType<S["Type"]>>({
    type,
    add: (id, data, options) => Operations.add(model, id, data, options),
    remove: (id) => Operations.remove(model, id),
    resubmit: (id, options) => Operations.resubmit(model, id, options),
    move: (id, to) => Operations.move(model, id, to),
    getData: (id) => Operations.getData(model, id),
    getState: (id) => Operations.getState(model, id),
    setTimeout: (timeout) => Settings.setTimeout(model, timeout),
    getTimeout: Settings.getTimeout(model),
    pause: Settings.pause(model),
    resume: Settings.resume(model),
    isPaused: Settings.isPaused(model),
    update: (job, data) => Operations.update(model, job, data),
    updateProgress: (job, change) => Operations.updateProgress(model, job, change),
    finish: (job, data) => Operations.finish(model, job, data),
    resubmitJob: (job, options) => Operations.resubmitJob(model, job, options),
    isResubmitted: (job) => Operations.isResubmitted(model, job),
    fail: (job, error) => Operations.fail(model, job, error),
    release: (job) => Operations.release(model, job),
    counts: Listing.counts(model),
    list: (options) => Listing.list(model, options),
    parents: (id) => Dependencies.parents(model, id),
    results: (id, of) => Dependencies.results(model, id, of),
    requeueDead: (id) => Operations.requeueDead(model, id),
    purgeDead: (options) => Listing.purgeDead(model, options),
    removeAll: (options) => Many.removeAll(model, options),
    retryAll: (options) => Many.retryAll(model, options),
    accept: (options) => Accept.accept(model, options),
    subscribe: (id) => Subscriptions.subscribe(model, id),
    changes: (id) => Subscriptions.changes(model, id),
    workerLayer: (handler, options) => Working.workerLayer(model, handler, options),
    batchWorkerLayer: (handler, options) => Working.batchWorkerLayer(model, handler, options),
    deadJobLayer: (handler) => DeadJobs.deadJobLayer(model, handler),
    cronLayer: (name, options) => Cron.cronLayer(model, name, options),
    schedules: Control.list(model),
    pauseSchedule: (name) => Control.pause(model, name),
    resumeSchedule: (name) => Control.resume(model, name),
    resetSchedule: (name) => Control.reset(model, name),
    runSchedule: (name) => Control.run(model, name),
    removeSchedule: (name) => Control.remove(model, name)
  }, model)
}

/**
 * Waits for the next change of a subscribed job, or of the first of several that has one: what came since the
 * subscription, or since the last wait. With `state`, for a change to that state; a job that is in it already, and was
 * not given by a wait before, is given at once. A job that has finished or died comes to no other state but `"removed"`
 * until somebody asks for another run: that ends a wait for such a state, too, so look at the `state` of what is given. A removal is always
 * given, and nothing follows it. Succeeds with `Option.none()` when the timeout has passed, or when nothing can follow.
 *
 * Fails with `BackendError` when the tenant's layer has ended, with `UnreadableData` when the job's data does not fit its
 * schema, with `InvalidOption` for what is no subscription, and for options that are none.
 *
 * @since 0.1.0
 * @category subscriptions
 */
export const wait = <A>(
  subscriptions: Subscriptions.Subscription<A> | ReadonlyArray<Subscriptions.Subscription<A>>,
  options: {
    readonly state?: JobState | "removed" | undefined
    readonly timeout?: Duration.Input | undefined
  } = {}
): Effect.Effect<Option.Option<Change<A>>, UnreadableData | InvalidOption | BackendError> =>
  Subscriptions.wait(subscriptions, options)

/**
 * Ends a subscription before its scope does; waits for it end. What is no subscription is a mistake of the program: it
 * dies with `InvalidOption`.
 *
 * @since 0.1.0
 * @category subscriptions
 */
export const unsubscribe = (subscription: Subscriptions.Subscription<any>): Effect.Effect<void> =>
  Subscriptions.end(subscription)

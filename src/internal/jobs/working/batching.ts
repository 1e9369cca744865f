/**
 * Handlers of several jobs at once, on top of a worker that runs one at a time: each job's run waits for the batch that it
 * is in, and ends with its own result. So leases, attempts, retries, deaths and stops are those of each job.
 *
 * Owner: one a layer. A batch runs in a fiber of its own until it ends, or all have left it; so it does when the layer's scope
 * closes, and its worker does not wait for ever for a handler that goes on all the same.
 *
 * 1. A batch begins when it has `maxJobs`, or `maxWait` after its first job came. No more than `batches` run together:
 *    the worker takes jobs for batches that can begin, and none that would have to wait for the end of another one.
 * 2. A job whose run is interrupted leaves its batch: its result is not looked at. A batch that all have left is
 *    interrupted.
 * 3. A job that should run alone (solitude.ts) is a batch of its own: its worker takes nothing beside it.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import { reading } from "../../data/show.ts"
import { apart } from "../../observing/unforeseen.ts"
import type { Job } from "../kept/job.ts"

/**
 * What the handler of a batch says of one job: success with final data or nothing, or the error of a failed attempt.
 *
 * @since 0.1.0
 * @category models
 */
export type BatchResult<A> = Result.Result<A | void, unknown>

/** Runs the handler of a batch; nothing instead of results means that all of them ended well. */
export type RunBatch<A, E> = (
  jobs: ReadonlyArray<Job<A>>
) => Effect.Effect<ReadonlyArray<BatchResult<A>> | void, E>

interface Member<A, E> {
  readonly job: Job<A>
  readonly end: Deferred.Deferred<A | void, E>
  hasLeft: boolean
}

interface Batch<A, E> {
  readonly members: Array<Member<A, E>>
  readonly full: Latch.Latch
  isRunning: boolean
  fiber: Fiber.Fiber<unknown> | undefined
}

export interface BatchLimits {
  readonly maxJobs: number
  readonly maxWaitMillis: number
  readonly batches: number
}

export class Batches<A, E> {
  readonly #run: RunBatch<A, E>
  readonly #limits: BatchLimits
  #open: Batch<A, E> | undefined
  #running = 0
  #runningJobs = 0

  constructor(run: RunBatch<A, E>, limits: BatchLimits) {
    this.#run = run
    this.#limits = limits
  }

  /** So many jobs can run now, those included that do (1). */
  get capacity(): number {
    return this.#runningJobs + (this.#limits.batches - this.#running) * this.#limits.maxJobs
  }

  /** The run of one job: ends when its batch does, with its own result. */
  run(job: Job<A>): Effect.Effect<A | void, E> {
    return Effect.suspend(() => {
      const member: Member<A, E> = { job, end: Deferred.makeUnsafe(), hasLeft: false }
      const batch = this.#open ?? { members: [], full: Latch.makeUnsafe(false), isRunning: false, fiber: undefined }
      batch.members.push(member)
      this.#open = batch
      if (batch.members.length >= this.#limits.maxJobs) {
        this.#open = undefined
        batch.full.openUnsafe()
      }
      const begin = batch.members.length === 1 ? this.#begin(batch) : Effect.void
      return Effect.onInterrupt(Effect.andThen(begin, Deferred.await(member.end)), () => this.#leave(batch, member))
    })
  }

  #begin(batch: Batch<A, E>): Effect.Effect<void> {
    const isReady = Effect.raceFirst(batch.full.await, Effect.sleep(this.#limits.maxWaitMillis))
    const work = Effect.andThen(isReady, Effect.suspend(() => this.#work(batch)))
    return Effect.map(Effect.forkDetach(Effect.interruptible(work)), (fiber) => {
      batch.fiber = fiber
    })
  }

  #work(batch: Batch<A, E>): Effect.Effect<void> {
    if (this.#open === batch) this.#open = undefined
    const members = batch.members.filter(({ hasLeft }) => !hasLeft)
    if (members.length === 0) return Effect.void
    batch.isRunning = true
    this.#running++
    this.#runningJobs += members.length
    const run = apart(Effect.suspend(() => this.#run(members.map(({ job }) => job))))
    return Effect.onExit(run, (exit) =>
      Effect.sync(() => {
        batch.isRunning = false
        this.#running--
        this.#runningJobs -= members.filter(({ hasLeft }) => !hasLeft).length
        for (const [index, { end }] of members.entries()) {
          const read = () => resultOf(exit, index, members.length)
          Deferred.doneUnsafe(end, reading(read, UNREADABLE))
        }
      })).pipe(Effect.exit, Effect.asVoid)
  }

  /** (2) */
  #leave(batch: Batch<A, E>, member: Member<A, E>): Effect.Effect<void> {
    return Effect.suspend(() => {
      member.hasLeft = true
      if (batch.isRunning) this.#runningJobs--
      if (batch.members.some(({ hasLeft }) => !hasLeft)) return Effect.void
      if (this.#open === batch) this.#open = undefined
      return batch.fiber === undefined ? Effect.void : Fiber.interrupt(batch.fiber)
    })
  }
}

const UNREADABLE = Exit.die(new Error("a batch handler gave results that throw when they are read"))

/** The end of one job's run. */
const resultOf = <A, E>(
  exit: Exit.Exit<ReadonlyArray<BatchResult<A>> | void, E>,
  index: number,
  count: number
): Exit.Exit<A | void, E> => {
  if (Exit.isFailure(exit)) {
    // an interruption that came from within is a failure like any other
    return Exit.failCause(
      Cause.hasInterruptsOnly(exit.cause) ? Cause.die(new Error("the batch was interrupted")) : exit.cause
    )
  }
  const results: unknown = exit.value
  if (results === undefined) return Exit.void
  const result: unknown = Array.isArray(results) && results.length === count ? results[index] : undefined
  if (!Result.isResult(result)) {
    return Exit.die(
      new Error(`a batch handler must return nothing, or a Result for each of its ${count} jobs, in their order`)
    )
  }
  return Result.isSuccess(result) ? Exit.succeed(result.success as A | void) : Exit.fail(result.failure as E)
}

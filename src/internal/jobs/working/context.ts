/**
 * What a handler gets besides its job.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import { transact } from "../../transactions/loop.ts"
import type { Hub } from "../background/hub.ts"
import type { Halt, InvalidData, InvalidOption, JobTooLarge, UnreadableData } from "../definition/errors.ts"
import type { Model } from "../definition/model.ts"
import type { Job } from "../kept/job.ts"
import { update, updateProgress } from "../operations/operations.ts"
import type { Signals } from "./worker.ts"

/**
 * What a handler gets besides its job.
 *
 * @since 0.1.0
 * @category models
 */
export interface HandlerContext<in out A> {
  /** Aborted when the handler is interrupted, because the lease is lost or the worker stops: for foreign code. */
  readonly signal: AbortSignal
  /**
   * Aborted when the worker is told to stop: the handler has `grace` left before it is interrupted. For foreign code, as
   * a place to save progress or to end early; `stopping` says the same.
   */
  readonly stopSignal: AbortSignal
  /** Ends when the worker is told to stop. */
  readonly stopping: Effect.Effect<void>
  /** Writes new data in a transaction of its own; subscribers see it. */
  readonly update: (data: A) => Effect.Effect<void, Halt | InvalidOption | InvalidData | JobTooLarge | BackendError>
  /** The same with data that is computed from the stored data. */
  readonly updateProgress: (
    change: (data: A) => A
  ) => Effect.Effect<void, Halt | InvalidOption | InvalidData | JobTooLarge | UnreadableData | BackendError>
}

const Inside = Symbol("effect-dgen/jobs/signals")

interface HasSignals {
  readonly [Inside]: Signals
}

/** One for all runs: a getter in an object's literal would cost each a hidden class of its own, collected late. */
const SIGNALS: PropertyDescriptorMap & ThisType<HasSignals> = {
  signal: {
    configurable: true,
    enumerable: true,
    get() {
      return this[Inside].interrupted()
    }
  },
  stopSignal: {
    configurable: true,
    enumerable: true,
    get() {
      return this[Inside].stopping()
    }
  }
}

/** What a handler gets; its signals are made when it asks for them. */
export const makeContext = <A>(
  { tenant }: Hub,
  model: Model,
  job: Job<A>,
  signals: Signals,
  stopping: Effect.Effect<void>
): HandlerContext<A> => {
  const context: Omit<HandlerContext<A>, "signal" | "stopSignal"> & HasSignals = {
    [Inside]: signals,
    stopping,
    update: (data) => Effect.asVoid(transact(tenant, update(model, job, data))),
    updateProgress: (change) => Effect.asVoid(transact(tenant, updateProgress(model, job, change)))
  }
  return Object.defineProperties(context, SIGNALS) as unknown as HandlerContext<A>
}

/**
 * What a handler gets besides its job.
 */
import * as Effect from "effect/Effect"
import type { BackendError } from "../../../BackendError.ts"
import type * as Tuple from "../../../Tuple.ts"
import { transact } from "../../transactions/loop.ts"
import type { Hub } from "../background/hub.ts"
import type {
  Halt,
  InvalidData,
  InvalidId,
  InvalidOption,
  JobNotFound,
  JobTooLarge,
  UnreadableData
} from "../definition/errors.ts"
import type { Model } from "../definition/model.ts"
import type { Job } from "../kept/job.ts"
import * as Dependencies from "../operations/dependencies.ts"
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
  /** The jobs that this one waited for, and how they ended. */
  readonly parents: Effect.Effect<
    ReadonlyArray<Dependencies.Parent>,
    JobNotFound | InvalidId | InvalidOption | BackendError
  >
  /** Those of a definition, with what they left when they finished. */
  readonly results: <B>(
    of: Dependencies.DefinitionOf<B>
  ) => Effect.Effect<
    ReadonlyArray<Dependencies.ParentResult<B>>,
    JobNotFound | UnreadableData | InvalidId | InvalidOption | BackendError
  >
}

const Inside = Symbol("effect-dgen/jobs/signals")

interface HasSignals {
  readonly [Inside]: {
    readonly signals: Signals
    readonly tenant: Hub["tenant"]
    readonly model: Model
    readonly id: Tuple.Element
  }
}

/** One for all runs: a getter in an object's literal would cost each a hidden class of its own, collected late. */
const SIGNALS: PropertyDescriptorMap & ThisType<HasSignals> = {
  signal: {
    configurable: true,
    enumerable: true,
    get() {
      return this[Inside].signals.interrupted()
    }
  },
  stopSignal: {
    configurable: true,
    enumerable: true,
    get() {
      return this[Inside].signals.stopping()
    }
  },
  parents: {
    configurable: true,
    enumerable: true,
    get() {
      const { id, model, tenant } = this[Inside]
      return transact(tenant, Dependencies.parents(model, id))
    }
  },
  results: {
    configurable: true,
    enumerable: true,
    get() {
      const { id, model, tenant } = this[Inside]
      return (of: Dependencies.DefinitionOf<unknown>) => transact(tenant, Dependencies.results(model, id, of))
    }
  }
}

/** What a handler gets; most of it is made when it asks for it. */
export const makeContext = <A>(
  { tenant }: Hub,
  model: Model,
  job: Job<A>,
  signals: Signals,
  stopping: Effect.Effect<void>
): HandlerContext<A> => {
  const context: Omit<HandlerContext<A>, "signal" | "stopSignal" | "parents" | "results"> & HasSignals = {
    [Inside]: { signals, tenant, model, id: job.id },
    stopping,
    update: (data) => Effect.asVoid(transact(tenant, update(model, job, data))),
    updateProgress: (change) => Effect.asVoid(transact(tenant, updateProgress(model, job, change)))
  }
  return Object.defineProperties(context, SIGNALS) as unknown as HandlerContext<A>
}

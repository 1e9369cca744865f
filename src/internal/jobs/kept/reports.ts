/**
 * Telling of runs that failed: log lines, counters, and who asked to be told of dead jobs, once the commit is durable.
 *
 * Owner: the layer that listens owns its listener; a transaction carries only what its commit will tell.
 *
 * 1. Nothing is told of a try that did not commit, and nothing twice of one that did.
 * 2. Listeners are told in the process whose transaction ended the job, if they listen when the transaction runs.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Tuple from "../../../Tuple.ts"
import { logError, logWarning } from "../../observing/logging.ts"
import { record } from "../../observing/measuring.ts"
import { render } from "../definition/errors.ts"
import { elementText, type Place } from "../definition/model.ts"
import { metricsOf } from "./metrics.ts"
import { readData, type Row } from "./row.ts"

/**
 * A job that has died: what `deadJobLayer` is told.
 *
 * @since 0.1.0
 * @category models
 */
export interface DeadJob<out A> {
  readonly type: Tuple.Element
  readonly id: Tuple.Element
  /** `undefined` when the stored data cannot be read with the schema. */
  readonly data: A | undefined
  /** Runs that began since the job was added, resubmitted or requeued. */
  readonly attempts: number
  /** What the last run failed with. */
  readonly error: string
  /** When the job died, in milliseconds since 1970. */
  readonly diedAt: number
}

/** A job that has died, as it is stored. */
export type Died = Omit<DeadJob<unknown>, "data"> & { readonly packed: Uint8Array }

interface Listener {
  readonly tell: (died: Died) => void
}

/** By tenant layer and type. */
const listeners = new WeakMap<object, Map<string, Set<Listener>>>()

const listenersOf = (target: object, type: Tuple.Element): Set<Listener> | undefined =>
  listeners.get(target)?.get(elementText(type))

/** Tells of the jobs of a type that die from here to the end of the scope. */
export const listen = (
  target: object,
  type: Tuple.Element,
  tell: Listener["tell"]
): Effect.Effect<void, never, Scope.Scope> => {
  const listener: Listener = { tell }
  const text = elementText(type)
  return Effect.acquireRelease(
    Effect.sync(() => {
      const byType = listeners.get(target) ?? new Map<string, Set<Listener>>()
      listeners.set(target, byType)
      byType.set(text, (byType.get(text) ?? new Set()).add(listener))
    }),
    () =>
      Effect.sync(() => {
        const byType = listeners.get(target)
        const all = byType?.get(text)
        all?.delete(listener)
        if (all?.size === 0) byType!.delete(text)
      })
  )
}

/** What is said of a run that failed. */
const sentence = ({ model, state }: Place, id: Tuple.Element, row: Row, after: Row): string => {
  const which = `jobs of type ${render(model.type)}: job ${render(id)}`
  if (after.state === "dead") {
    // one that never began is dead for what it is
    return row.state === "running" ? `${which} is dead, attempt ${row.attempts} was its last` : `${which} is dead`
  }
  const millis = Math.max(0, after.scheduledAt - state.timeMillis)
  return `${which} failed in attempt ${row.attempts}, and runs again ${millis === 0 ? "at once" : `in ${millis} ms`}`
}

/** A run has failed, and the job is what `after` says: told when that is durable (1). */
export const reportFailure = (
  place: Place,
  id: Tuple.Element,
  row: Row,
  after: Row,
  error: string
): Effect.Effect<void> => {
  const { keys, model, state } = place
  const isDead = after.state === "dead"
  const told = isDead ? listenersOf(state.target, model.type) : undefined
  const data = told === undefined ? Effect.undefined : readData(state, keys, id, after)
  return Effect.flatMap(data, (stored) =>
    Effect.withFiber(({ context }) => {
      const metrics = metricsOf(model.type)
      const line = (isDead ? logError : logWarning)(sentence(place, id, row, after), error)
      const annotated = Effect.annotateLogs(line, {
        job: render(id),
        jobType: render(model.type),
        attempt: row.attempts
      })
      state.onCommit.push(() => {
        record(metrics.failed, 1, context)
        if (isDead) record(metrics.dead, 1, context)
        Effect.runForkWith(context)(annotated)
      })
      state.onCommit.push(() => {
        if (stored === undefined) return
        // a copy: what was read can be a part of something longer
        const packed = stored.data.slice()
        const died = { type: model.type, id, attempts: row.attempts, error, diedAt: after.endedAt, packed }
        for (const { tell } of told!) tell(died)
      })
      return Effect.void
    }))
}

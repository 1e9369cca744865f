/**
 * The metrics of jobs, by type; docs/JOBS.md lists them with their units.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type * as Tuple from "../../../Tuple.ts"
import { record } from "../../observing/measuring.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { render } from "../definition/errors.ts"
import { elementText } from "../definition/model.ts"

/** So many types have metrics of their own in a process; the others share one, since who collects them pays for each. */
const TYPES_LIMIT = 100

/** Enough of a type to know it by. */
const TYPE_CHARACTERS = 100

const counter = (name: string, description: string) =>
  Metric.counter(`effect_dgen_jobs_${name}`, { description, incremental: true })

const MILLIS = Metric.boundariesFromIterable([1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 600_000])

const taken = counter("taken", "Runs of jobs that began")
const finished = counter("finished", "Runs that ended well")
const failed = counter("failed", "Runs that failed, or whose holder went silent")
const dead = counter("dead", "Jobs that died")
const waitingMillis = Metric.histogram("effect_dgen_jobs_waiting_millis", {
  description: "Milliseconds from when a job was due until its handler began",
  boundaries: MILLIS
})
const runMillis = Metric.histogram("effect_dgen_jobs_run_millis", {
  description: "Milliseconds that one run of a handler took",
  boundaries: MILLIS
})
const pending = Metric.gauge("effect_dgen_jobs_pending", {
  description: "Jobs that are pending, those of later included, as a worker saw it last"
})
const oldestMillis = Metric.gauge("effect_dgen_jobs_oldest_age_millis", {
  description: "Milliseconds that the job which is due the longest has been due, as a worker saw it last"
})

/** The metrics of one type. */
export interface JobMetrics {
  readonly taken: Metric.Counter<number>
  readonly finished: Metric.Counter<number>
  readonly failed: Metric.Counter<number>
  readonly dead: Metric.Counter<number>
  readonly waitingMillis: Metric.Histogram<number>
  readonly runMillis: Metric.Histogram<number>
  readonly pending: Metric.Gauge<number>
  readonly oldestMillis: Metric.Gauge<number>
}

const make = (type: string): JobMetrics => {
  const of = <Input, State>(metric: Metric.Metric<Input, State>) => Metric.withAttributes(metric, { type })
  return {
    taken: of(taken),
    finished: of(finished),
    failed: of(failed),
    dead: of(dead),
    waitingMillis: of(waitingMillis),
    runMillis: of(runMillis),
    pending: of(pending),
    oldestMillis: of(oldestMillis)
  }
}

const known = new Map<string, JobMetrics>()
const others = make("other types")

export const metricsOf = (type: Tuple.Element): JobMetrics => {
  const text = elementText(type)
  const metrics = known.get(text)
  if (metrics !== undefined) return metrics
  if (known.size >= TYPES_LIMIT) return others
  const made = make(render(type).slice(0, TYPE_CHARACTERS).toWellFormed())
  known.set(text, made)
  return made
}

/** Counts one when the transaction is known to be durable. */
export const countOnCommit = (
  state: TransactionState,
  type: Tuple.Element,
  metric: "taken" | "finished"
): Effect.Effect<void> =>
  Effect.withFiber(({ context }) => {
    state.onCommit.push(() => record(metricsOf(type)[metric], 1, context))
    return Effect.void
  })

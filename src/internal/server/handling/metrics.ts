/**
 * The metrics of servers, by server name; docs/GUIDE.md lists them with their units.
 */
import type * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import type { BackendError } from "../../../BackendError.ts"
import * as measuring from "../../observing/measuring.ts"

/** What is measured: a server, with the context that it was started in. */
interface Measured {
  readonly context: Context.Context<never>
  readonly metrics: ServerMetrics
}

/** Adds a measurement of a server. */
export const record = (server: Measured, metric: Metric.Metric<number, unknown>, value: number): void =>
  measuring.record(metric, value, server.context)

/** Counts a transaction that runs again. */
export const retried = (server: Measured, error: BackendError): void => {
  record(server, server.metrics.retries, 1)
  if (error.reason._tag === "Conflict") record(server, server.metrics.conflicts, 1)
}

const messages = Metric.counter("effect_dgen_messages", {
  description:
    "Messages that were handled, by outcome: reply, noReply, error, stop, lock, crash; void and repeated: dropped for their timer or key",
  incremental: true
})

const retries = Metric.counter("effect_dgen_retries", {
  description: "Transactions that ran again, for any reason",
  incremental: true
})

const conflicts = Metric.counter("effect_dgen_conflicts", {
  description: "Transactions that ran again because of a conflict",
  incremental: true
})

const deadLetters = Metric.counter("effect_dgen_dead_letters", {
  description: "Messages that became dead letters",
  incremental: true
})

const ended = Metric.counter("effect_dgen_consumers_ended", {
  description: "Consumers whose restart schedule ended",
  incremental: true
})

const batchSize = Metric.histogram("effect_dgen_batch_size", {
  description: "Messages a committed batch",
  boundaries: Metric.boundariesFromIterable([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
})

const callbackMillis = Metric.histogram("effect_dgen_callback_millis", {
  description: "Milliseconds that one run of a handler took",
  boundaries: Metric.boundariesFromIterable([0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000])
})

/** The metrics of one server. */
export interface ServerMetrics {
  readonly outcome: (outcome: string) => Metric.Counter<number>
  readonly retries: Metric.Counter<number>
  readonly conflicts: Metric.Counter<number>
  readonly deadLetters: Metric.Counter<number>
  readonly ended: Metric.Counter<number>
  readonly batchSize: Metric.Histogram<number>
  readonly callbackMillis: Metric.Histogram<number>
}

const known = new Map<string, ServerMetrics>()

/** The metrics of a server's name: made once, since names are few and servers many. */
export const metricsOf = (server: string): ServerMetrics => {
  let metrics = known.get(server)
  if (metrics === undefined) {
    const attributes = { server }
    const outcomes = new Map<string, Metric.Counter<number>>()
    metrics = {
      outcome: (outcome) => {
        let counter = outcomes.get(outcome)
        if (counter === undefined) {
          counter = Metric.withAttributes(messages, { server, outcome })
          outcomes.set(outcome, counter)
        }
        return counter
      },
      retries: Metric.withAttributes(retries, attributes),
      conflicts: Metric.withAttributes(conflicts, attributes),
      deadLetters: Metric.withAttributes(deadLetters, attributes),
      ended: Metric.withAttributes(ended, attributes),
      batchSize: Metric.withAttributes(batchSize, attributes),
      callbackMillis: Metric.withAttributes(callbackMillis, attributes)
    }
    known.set(server, metrics)
  }
  return metrics
}

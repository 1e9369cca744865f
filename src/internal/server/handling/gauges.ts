/**
 * Gauges of all servers of a name that this process runs, taken together: a gauge of one server would be overwritten by
 * the next. They are computed when somebody collects metrics, so that a measurement costs a map's entry.
 *
 * Owner: one a registry and name, as long as the registry. A handle's measurements go when it ends.
 */
import * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import { reading } from "../../data/show.ts"

/** What is measured of a server. */
export interface Measures {
  readonly queueLength: number
  readonly oldestMillis: number
}

/** Whose measurements: handles of one server in one store show the same queue. */
interface Measured {
  readonly context: Context.Context<never>
  readonly definition: { readonly name: string }
  readonly keys: { readonly text: string }
  readonly tenant: { readonly backend: object }
}

const queueLength = Metric.gauge("effect_dgen_queue_length", {
  description: "Messages that wait for the servers of a name that this process runs, in sum, as of their last looks"
})

const oldestMillis = Metric.gauge("effect_dgen_oldest_message_age_millis", {
  description: "Milliseconds that the oldest of the messages had waited which servers of a name last took; 0 when idle"
})

class Together {
  readonly #measures = new Map<Measured, Measures>()

  set(server: Measured, measures: Partial<Measures>): void {
    const next = { queueLength: 0, oldestMillis: 0, ...this.#measures.get(server), ...measures }
    // idle servers are many, and add nothing
    if (next.queueLength === 0 && next.oldestMillis === 0) this.#measures.delete(server)
    else this.#measures.set(server, next)
  }

  get queueLength(): number {
    const lengths = new Map<object, Map<string, number>>()
    for (const [{ keys, tenant }, { queueLength }] of this.#measures) {
      const ofStore = lengths.get(tenant.backend) ?? new Map<string, number>()
      lengths.set(tenant.backend, ofStore.set(keys.text, queueLength))
    }
    let sum = 0
    for (const ofStore of lengths.values()) for (const length of ofStore.values()) sum += length
    return sum
  }

  get oldestMillis(): number {
    let oldest = 0
    for (const measures of this.#measures.values()) oldest = Math.max(oldest, measures.oldestMillis)
    return oldest
  }
}

const registries = new WeakMap<object, Map<string, Together>>()

/** The gauges that a server belongs to, registered at their first use. */
const togetherOf = ({ context, definition: { name } }: Measured): Together => {
  const registry = Context.get(context, Metric.MetricRegistry)
  let byName = registries.get(registry)
  if (byName === undefined) registries.set(registry, byName = new Map())
  let together = byName.get(name)
  if (together === undefined) {
    const made = together = new Together()
    byName.set(name, made)
    register(queueLength, name, context, () => made.queueLength)
    register(oldestMillis, name, context, () => made.oldestMillis)
  }
  return together
}

const register = (
  gauge: Metric.Gauge<number>,
  server: string,
  context: Context.Context<never>,
  value: () => number
): void => {
  Metric.registerUnsafe(Metric.withAttributes(gauge, { server }), context, {
    get: () => ({ value: value() }),
    update: () => {},
    modify: () => {}
  })
}

/** Notes what was seen of a server; whatever a registry throws is its own. */
export const measured = (server: Measured, measures: Partial<Measures>): void =>
  reading(() => togetherOf(server).set(server, measures), undefined)

/** A server has nothing to do, or its handle has ended. */
export const atRest = (server: Measured): void => measured(server, { queueLength: 0, oldestMillis: 0 })

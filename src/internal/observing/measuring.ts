/**
 * How all measurements are added.
 */
import type * as Context from "effect/Context"
import type * as Metric from "effect/Metric"
import { reading } from "../data/show.ts"

/** Adds a measurement; whatever a registry throws is its own. */
export const record = <A>(metric: Metric.Metric<A, unknown>, value: A, context: Context.Context<never>): void =>
  reading(() => metric.updateUnsafe(value, context), undefined)

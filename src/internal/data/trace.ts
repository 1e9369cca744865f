/**
 * The span that something was sent in, kept with it: so that a tracer can show what happens to it later, in whatever
 * process, beside where it came from.
 */
import * as Context from "effect/Context"
import * as Tracer from "effect/Tracer"
import { reading } from "./show.ts"

/** A span as the store holds it. */
export interface Trace {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/** Twice as long as the names of any tracer in use. */
const NAME_LIMIT_CHARS = 64

/** A span of a tracer whose names cannot be kept is none. */
const keptOf = ({ sampled, spanId, traceId }: Tracer.AnySpan): Trace | undefined =>
  [traceId, spanId].every((id) => typeof id === "string" && id.length <= NAME_LIMIT_CHARS && id.isWellFormed())
    ? { traceId, spanId, sampled: sampled === true }
    : undefined

/** A span as it is kept. */
export const traceOfSpan = (span: Tracer.AnySpan): Trace | undefined => reading(() => keptOf(span), undefined)

/** The span that a fiber with this context is in. */
export const traceOf = (context: Context.Context<never>): Trace | undefined => {
  const span = Context.getOrUndefined(context as Context.Context<Tracer.ParentSpan>, Tracer.ParentSpan)
  return span && traceOfSpan(span)
}

/** A trace as plain data. */
export const plainTrace = ({ sampled, spanId, traceId }: Trace): ReadonlyArray<unknown> => [traceId, spanId, sampled]

/** A trace is for looking: one that cannot be read is none. */
export const readTrace = (trace: unknown): Trace | undefined => {
  if (!Array.isArray(trace)) return undefined
  const [traceId, spanId, sampled] = trace as Array<unknown>
  return typeof traceId === "string" && typeof spanId === "string"
    ? { traceId, spanId, sampled: sampled === true }
    : undefined
}

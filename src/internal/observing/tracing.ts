/**
 * Spans where somebody looks: the tracer that Effect has of its own shows its spans to nobody, and a span costs as much as
 * a small transaction, so without another tracer there are none.
 *
 * Tracers are code of their users: one that throws loses its span, and nothing else.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"
import { reading } from "../data/show.ts"

const own = Context.get(Context.empty(), Tracer.Tracer)

/**
 * Wraps an effect in a span, if there is a tracer that takes it, and tells `began` of the span. What runs in it has the
 * tracer under the same guard.
 */
export const traced = <A, E>(
  effect: Effect.Effect<A, E>,
  name: string,
  options: () => Omit<Tracer.SpanOptions, "captureStackTrace">,
  began?: (span: Tracer.Span) => void
): Effect.Effect<A, E> =>
  Effect.withFiber((fiber) => {
    const tracer = fiber.getRef(Tracer.Tracer)
    return tracer === own ? effect : Effect.provideService(
      Effect.useSpan(name, options(), (span) => {
        began?.(span)
        return Effect.withParentSpan(effect, span, { captureStackTrace: false })
      }),
      Tracer.Tracer,
      guardedTracer(tracer)
    )
  })

/** A span under another one, where that is known: its place says more than that of the fiber that runs it. */
export const under = (span: Tracer.AnySpan | undefined): Pick<Tracer.SpanOptions, "parent"> =>
  span === undefined ? {} : { parent: span }

const guards = new WeakMap<Tracer.Tracer, Tracer.Tracer>()

/** The same tracer, whose spans cannot fail what runs in them. */
export const guardedTracer = (tracer: Tracer.Tracer): Tracer.Tracer => {
  if (tracer === own) return tracer
  let guarded = guards.get(tracer)
  if (guarded === undefined) {
    guarded = Tracer.make({
      span: (options) => reading(() => guardedSpan(tracer.span(options)), undefined) ?? new Tracer.NativeSpan(options),
      context: tracer.context
    })
    guards.set(tracer, guarded)
    guards.set(guarded, guarded)
  }
  return guarded
}

const METHODS: ReadonlySet<PropertyKey> = new Set(["end", "attribute", "event", "addLinks"])

/** The span itself for whoever knows its class; what it throws when it is read, or when Effect calls it, is guarded. */
const guardedSpan = (span: Tracer.Span): Tracer.Span =>
  new Proxy(span, {
    get: (target, key) => {
      const value: unknown = reading(() => Reflect.get(target, key, target), undefined)
      if (typeof value !== "function" || !METHODS.has(key)) return value
      return (...args: ReadonlyArray<unknown>) => reading(() => Reflect.apply(value, target, args), undefined)
    }
  })

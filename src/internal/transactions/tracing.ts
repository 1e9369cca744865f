/**
 * Spans where somebody looks: the tracer that Effect has of its own shows its spans to nobody, and a span costs as much as
 * a small transaction, so without another tracer there are none.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"

const own = Context.get(Context.empty(), Tracer.Tracer)

/** Wraps an effect in a span, if there is a tracer that takes it. */
export const traced = <A, E>(
  effect: Effect.Effect<A, E>,
  name: string,
  options: () => Omit<Tracer.SpanOptions, "captureStackTrace">
): Effect.Effect<A, E> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(Tracer.Tracer) === own
      ? effect
      : Effect.withSpan(effect, name, { ...options(), captureStackTrace: false })
  )

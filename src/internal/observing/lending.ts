/**
 * What code of users is run with: their loggers and their tracer under guard, so that one that throws fails nothing of
 * what it looks at.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Tracer from "effect/Tracer"
import { guardedLoggers } from "./logging.ts"
import { guardedTracer } from "./tracing.ts"

/** The context of a fiber that runs code of users, with more in it if `more` adds it. */
export const guarded = <R>(context: Context.Context<R>, more?: (services: Map<string, unknown>) => void) => {
  const services = new Map<string, unknown>(context.mapUnsafe)
  services.set(Logger.CurrentLoggers.key, guardedLoggers(Context.get(context, Logger.CurrentLoggers)))
  services.set(Tracer.Tracer.key, guardedTracer(Context.get(context, Tracer.Tracer)))
  more?.(services)
  return Context.makeUnsafe<R>(services)
}

/** Runs code of users in such a context. */
export const guarding = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.updateContext(effect, (context: Context.Context<R>) => guarded(context))

/** The context that a layer was built in, for handlers that run later: under guard, and without the span of the building. */
export const captured = <R>(context: Context.Context<R>): Context.Context<R> => {
  const services = new Map<string, unknown>(context.mapUnsafe)
  services.delete(Tracer.ParentSpan.key)
  const loggers = services.get(Logger.CurrentLoggers.key)
  if (loggers !== undefined) services.set(Logger.CurrentLoggers.key, guardedLoggers(loggers as never))
  const tracer = services.get(Tracer.Tracer.key)
  if (tracer !== undefined) services.set(Tracer.Tracer.key, guardedTracer(tracer as never))
  return Context.makeUnsafe<R>(services)
}

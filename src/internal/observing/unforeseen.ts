/**
 * What must not end in silence: background work that fails in a way that nobody foresaw, and hooks of commits that throw,
 * are logged and counted, and the work goes on.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import { reading } from "../data/show.ts"
import { logError } from "./logging.ts"
import { record } from "./measuring.ts"

/** Work that fails at once every time must not keep a core busy. */
const PAUSE_MILLIS = 500

const counter = Metric.counter("effect_dgen_unforeseen", {
  description: "Background work that ended as nobody foresaw and began again, and hooks of commits that threw",
  incremental: true
})

/** Where something unforeseen happened: few words, since they name a series of the metric. */
export type Where = "answers" | "consumer" | "dashboard" | "hook" | "hosts" | "jobs" | "message" | "pushes" | "sweep"

/** Adds to a metric; whatever a registry or its attributes throw is theirs alone. */
export const count = <A>(metric: Metric.Metric<A, unknown>, value: A): Effect.Effect<void> =>
  Effect.withFiber((fiber) => Effect.sync(() => record(metric, value, fiber.context)))

/** Logs and counts what nobody foresaw. */
export const report = (where: Where, text: string, about: unknown): Effect.Effect<void> =>
  Effect.andThen(count(Metric.withAttributes(counter, { where }), 1), logError(text, about))

/**
 * Runs a user's effect in a fiber of its own. What is no effect, where a program without types gives one, ends its whole
 * fiber, past all that would handle it: so it ends that one alone, and whoever waits for it sees a failure.
 */
export const apart = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(
    Effect.forkChild(effect),
    (fiber) => Effect.flatten(Effect.onInterrupt(Fiber.await(fiber), () => Fiber.interrupt(fiber)))
  )

/**
 * What a user's function gives, if it is an effect. Programs without types give other things, promises above all, and some of
 * these throw as soon as they are looked at: past all handlers, if a fiber does it.
 */
export const effectOf = <A, E, R>(run: () => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const effect = run()
    return reading(() => Effect.isEffect(effect), false)
      ? effect
      : Effect.die(new TypeError("a handler must return an Effect: wrap a promise with Effect.promise"))
  })

/** Runs a loop again whenever it fails: what ends it is its success, or its own fiber's interruption, which runs no handler. */
export const keepRunning = <A, E, R>(
  where: Where,
  what: string,
  loop: Effect.Effect<A, E, R>
): Effect.Effect<A, never, R> =>
  Effect.catchCause(loop, (cause) =>
    Effect.andThen(
      report(where, `${what} ended unexpectedly, and begins again`, cause),
      Effect.andThen(Effect.sleep(PAUSE_MILLIS), keepRunning(where, what, loop))
    ))

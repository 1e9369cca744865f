/**
 * What the library logs, and the loggers that it lends to what it runs. Loggers are code of their users: one that
 * throws costs its own line and nothing else.
 *
 * 1. Every line of the library is written here. What it tells of errors is rendered before a logger sees it.
 * 2. A line that its logger cannot take, because of what is in it, is offered to it once more as text.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Predicate from "effect/Predicate"
import { reading, show } from "../data/show.ts"
import { printable } from "../data/text.ts"
import { tameCause } from "../data/thrown.ts"

type Loggers = ReadonlySet<Logger.Logger<unknown, unknown>>

type Line = Logger.Options<unknown>

/** The lines of the library: a text, and what it is about. */
export const logError = (text: string, about?: unknown): Effect.Effect<void> => line(Effect.logError, text, about)
export const logWarning = (text: string, about?: unknown): Effect.Effect<void> => line(Effect.logWarning, text, about)
export const logDebug = (text: string, about?: unknown): Effect.Effect<void> => line(Effect.logDebug, text, about)

const line = (
  log: (...message: ReadonlyArray<unknown>) => Effect.Effect<void>,
  text: string,
  about: unknown
): Effect.Effect<void> =>
  Effect.suspend(() => {
    const message: Array<unknown> = [printable(text)]
    if (typeof about === "string") message.push(printable(about))
    else if (about !== undefined) message.push(tameCause(Cause.isCause(about) ? about : Cause.fail(about)))
    return Effect.ignoreCause(withGuardedLoggers(log(...message)))
  })

const withGuardedLoggers = (effect: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.withFiber((fiber) =>
    Effect.provideService(effect, Logger.CurrentLoggers, guardedLoggers(fiber.getRef(Logger.CurrentLoggers)))
  )

const guards = new WeakMap<Loggers, Loggers>()

/** The same loggers, and whatever they throw is theirs alone. */
export const guardedLoggers = (loggers: Loggers): Loggers => {
  let guarded = guards.get(loggers)
  if (guarded === undefined) {
    guarded = new Set(Array.from(loggers, (logger) => Logger.make<unknown, void>((line) => writeLine(logger, line))))
    guards.set(loggers, guarded)
    // what is guarded already is lent on as it is
    guards.set(guarded, guarded)
  }
  return guarded
}

/** Gives a line to a logger (2). */
export const writeLine = (logger: Logger.Logger<unknown, unknown>, line: Line): void => {
  if (takes(logger, line)) return
  const parts = Array.isArray(line.message) ? line.message : [line.message]
  if (parts.every((part) => typeof part === "string") && line.cause.reasons.length === 0) return
  takes(logger, { ...line, message: parts.map(show), cause: tameCause(line.cause) })
}

const takes = (logger: Logger.Logger<unknown, unknown>, line: Line): boolean =>
  reading(() => {
    const written = logger.log(line)
    // a rejection that nobody sees ends the process
    if (Predicate.isPromiseLike(written)) Promise.resolve(written).catch(() => {})
    return true
  }, false)

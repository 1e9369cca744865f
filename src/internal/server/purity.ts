/**
 * Where a pure callback runs (rule R23): it sees the transaction, a clock that stands at the transaction's start, a
 * random generator that gives every try the same numbers, and loggers whose lines are held back until the transaction
 * has ended. A callback that waits for anything but a read of its transaction is ended with `ImpureCallback`.
 *
 * Owner: the transaction's try; the callback's fiber and its children end before the try goes on.
 *
 * 1. A callback waits for a reason if a read has not answered or the scheduler holds a task of it; else it is impure.
 * 2. That is looked at after the start, after each read and after each task, so nothing polls. It is looked at before
 *    a promise that is already there could answer.
 * 3. Lines are written once: those of a try that did not count vanish with it.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import * as Tracer from "effect/Tracer"
import { Transaction } from "../../Transaction.ts"
import type { TransactionState } from "../transactionState.ts"
import { ImpureCallback } from "./errors.ts"

/** Log lines of callbacks, kept until their fate is known (3). */
export class HeldLogs {
  readonly #lines: Array<Logger.Options<unknown>> = []
  readonly #loggers: ReadonlySet<Logger.Logger<unknown, unknown>>
  readonly logger: Logger.Logger<unknown, void>

  static readonly none = new HeldLogs(new Set())

  constructor(loggers: ReadonlySet<Logger.Logger<unknown, unknown>>) {
    this.#loggers = loggers
    this.logger = Logger.make((line) => void this.#lines.push(line))
  }

  /** Writes the lines, once. */
  release(): void {
    for (const line of this.#lines.splice(0)) {
      for (const logger of this.#loggers) logger.log(line)
    }
  }
}

/** The lines of the try that runs, for whoever hears of its failure from the store. */
export interface Held {
  logs: HeldLogs
}

/** Holds the log lines of callbacks that the current fiber runs. */
export const holdLogs: Effect.Effect<HeldLogs> = Effect.withFiber((fiber) =>
  Effect.succeed(new HeldLogs(fiber.getRef(Logger.CurrentLoggers)))
)

const frozenClock = (timeMillis: number, impure: () => ImpureCallback): Clock.Clock => {
  const nanos = BigInt(timeMillis) * 1_000_000n
  return {
    currentTimeMillisUnsafe: () => timeMillis,
    currentTimeMillis: Effect.succeed(timeMillis),
    currentTimeNanosUnsafe: () => nanos,
    currentTimeNanos: Effect.succeed(nanos),
    monotonicTimeNanosUnsafe: () => nanos,
    monotonicTimeNanos: Effect.succeed(nanos),
    // schedules without a pause sleep for no time: that is a yield
    sleep: (duration) =>
      Duration.toMillis(duration) === 0 ? Effect.yieldNow : Effect.suspend(() => Effect.die(impure()))
  }
}

/** The mulberry32 generator: small, and good enough for what is not secret. */
const seededRandom = (seed: Uint8Array): (typeof Random.Random)["Service"] => {
  let state = 0x9e3779b9
  for (const byte of seed) state = Math.imul(state ^ byte, 0x01000193)
  const nextDoubleUnsafe = () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
  const span = Number.MAX_SAFE_INTEGER - Number.MIN_SAFE_INTEGER + 1
  return {
    nextDoubleUnsafe,
    nextIntUnsafe: () => Math.floor(nextDoubleUnsafe() * span) + Number.MIN_SAFE_INTEGER
  }
}

/** A scheduler that knows whether it holds tasks (1). */
class CountingScheduler implements Scheduler.Scheduler {
  pending = 0
  onTask: (() => void) | undefined
  readonly #inner: Scheduler.Scheduler
  readonly executionMode = "async"

  constructor(inner: Scheduler.Scheduler) {
    this.#inner = inner
  }

  shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
    return this.#inner.shouldYield(fiber)
  }

  makeDispatcher(): Scheduler.SchedulerDispatcher {
    const inner = this.#inner.makeDispatcher()
    return {
      flush: () => inner.flush(),
      scheduleTask: (task, priority) => {
        this.pending++
        inner.scheduleTask(() => {
          this.pending--
          task()
          this.onTask?.()
        }, priority)
      }
    }
  }
}

/** Runs the callbacks of one try. */
export class PureRunner {
  readonly #state: TransactionState
  readonly #context: Context.Context<never>
  readonly #scheduler: CountingScheduler
  readonly #server: string
  #tag = ""

  private constructor(
    server: string,
    state: TransactionState,
    logs: HeldLogs,
    fiber: Fiber.Fiber<unknown, unknown>
  ) {
    this.#server = server
    this.#state = state
    this.#scheduler = new CountingScheduler(fiber.getRef(Scheduler.Scheduler))
    const seed = state.operationId.subarray(0, 20)
    let context = Context.make(Transaction, state).pipe(
      Context.add(Clock.Clock, frozenClock(state.timeMillis, () => this.#impure())),
      Context.add(Random.Random, seededRandom(seed)),
      Context.add(Scheduler.Scheduler, this.#scheduler),
      Context.add(Logger.CurrentLoggers, new Set([logs.logger])),
      Context.add(References.MinimumLogLevel, fiber.getRef(References.MinimumLogLevel)),
      Context.add(References.CurrentLogAnnotations, fiber.getRef(References.CurrentLogAnnotations)),
      Context.add(Tracer.Tracer, fiber.getRef(Tracer.Tracer))
    ) as Context.Context<never>
    const span = Context.getOption(fiber.context as Context.Context<Tracer.ParentSpan>, Tracer.ParentSpan)
    if (span._tag === "Some") context = Context.add(context, Tracer.ParentSpan, span.value) as Context.Context<never>
    this.#context = context
  }

  /** A runner for the current try. */
  static make(server: string, state: TransactionState, logs: HeldLogs): Effect.Effect<PureRunner> {
    return Effect.withFiber((fiber) => Effect.succeed(new PureRunner(server, state, logs, fiber as any)))
  }

  /** Runs one callback to its end. One that fails leaves nothing that it wrote. */
  run<A, E>(tag: string, callback: Effect.Effect<A, E, Transaction>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      this.#tag = tag
      this.#state.begin()
      const fiber = Effect.runForkWith(this.#context as Context.Context<Transaction>)(callback)
      const exit = fiber.pollUnsafe()
      return exit === undefined ? this.#await(fiber) : this.#ended(exit)
    })
  }

  #ended<A, E>(exit: Exit.Exit<A, E>): Exit.Exit<A, E> {
    if (Exit.isSuccess(exit)) this.#state.keep()
    else this.#state.undo()
    return exit
  }

  #impure(): ImpureCallback {
    return new ImpureCallback({ server: this.#server, tag: this.#tag })
  }

  #await<A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E> {
    return Effect.callback<A, E>((resume) => {
      const look = () => {
        if (fiber.pollUnsafe() !== undefined || this.#state.pendingReads > 0 || this.#scheduler.pending > 0) return
        end(Exit.die(this.#impure()))
        fiber.interruptUnsafe()
      }
      const end = (exit: Exit.Exit<A, E>) => {
        this.#state.onReadSettled = undefined
        this.#scheduler.onTask = undefined
        resume(this.#ended(exit))
      }
      // a read that has answered goes on first
      this.#state.onReadSettled = () => queueMicrotask(look)
      this.#scheduler.onTask = look
      fiber.addObserver(end)
      look()
      return Effect.sync(() => fiber.interruptUnsafe())
    })
  }
}

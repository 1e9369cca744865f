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
 * 4. A callback that goes on in steps when its transaction's time is nearly over is ended with `CallbackTooLong`: it could never
 *    commit. It is interrupted, has `LAST_STEPS` for its finalizers, and is never resumed after that.
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
import { TRANSACTION_LIMIT_MILLIS } from "../../../Backend.ts"
import { Transaction } from "../../../Transaction.ts"
import { writeLine } from "../../observing/logging.ts"
import { guardedTracer } from "../../observing/tracing.ts"
import { Callback } from "../../transactions/callback.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { StrictMode } from "../../transactions/strictMode.ts"
import { CallbackTooLong, ImpureCallback } from "../definition/errors.ts"
import { type Addressed, identityOf } from "../kept/layout.ts"

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

  /** Remembers this moment: the function that it returns forgets the lines since then. */
  mark(): () => void {
    const { length } = this.#lines
    return () => {
      this.#lines.length = length
    }
  }

  /** Writes the lines, once. */
  release(): void {
    for (const line of this.#lines.splice(0)) {
      for (const logger of this.#loggers) writeLine(logger, line)
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

/** A clock that stands; who sleeps by it is impure. */
class FrozenClock implements Clock.Clock {
  readonly #millis: number
  readonly #impure: () => ImpureCallback

  constructor(millis: number, impure: () => ImpureCallback) {
    this.#millis = millis
    this.#impure = impure
  }

  currentTimeMillisUnsafe(): number {
    return this.#millis
  }

  currentTimeNanosUnsafe(): bigint {
    return BigInt(this.#millis) * 1_000_000n
  }

  monotonicTimeNanosUnsafe(): bigint {
    return this.currentTimeNanosUnsafe()
  }

  get currentTimeMillis(): Effect.Effect<number> {
    return Effect.succeed(this.#millis)
  }

  get currentTimeNanos(): Effect.Effect<bigint> {
    return Effect.succeed(this.currentTimeNanosUnsafe())
  }

  get monotonicTimeNanos(): Effect.Effect<bigint> {
    return this.currentTimeNanos
  }

  /** Schedules without a pause sleep for no time: that is a yield. */
  sleep(duration: Duration.Duration): Effect.Effect<void> {
    return Duration.toMillis(duration) === 0 ? Effect.yieldNow : Effect.suspend(() => Effect.die(this.#impure()))
  }
}

/** The mulberry32 generator: small, and good enough for what is not secret. */
class SeededRandom {
  readonly #seed: Uint8Array
  /** `undefined` until the first number is asked for. */
  #state: number | undefined

  constructor(seed: Uint8Array) {
    this.#seed = seed
  }

  nextDoubleUnsafe(): number {
    const state = ((this.#state ?? this.#start()) + 0x6d2b79f5) | 0
    this.#state = state
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  nextIntUnsafe(): number {
    return Math.floor(this.nextDoubleUnsafe() * INTEGERS) + Number.MIN_SAFE_INTEGER
  }

  #start(): number {
    let state = 0x9e3779b9
    for (const byte of this.#seed) state = Math.imul(state ^ byte, 0x01000193)
    return state
  }
}

/** The last two bytes of an operation's id tell its tries apart. */
const SEED_BYTES = 20

const INTEGERS = Number.MAX_SAFE_INTEGER - Number.MIN_SAFE_INTEGER + 1

/** A callback's time ends before its transaction's, so that the end of the one is told before that of the other. */
const CALLBACK_LIMIT_MILLIS = TRANSACTION_LIMIT_MILLIS - 500

/** Enough steps for the finalizers of a pure callback; one that takes more can only be stopped by force (4). */
const LAST_STEPS = 1_000

/** A scheduler that knows whether it holds tasks (1), and whose tasks can be numbered (4). */
class CountingScheduler implements Scheduler.Scheduler {
  pending = 0
  left = Infinity
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
          if (this.left-- <= 0) return
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
  readonly #scheduler: CountingScheduler
  readonly #server: Addressed
  readonly #logs: HeldLogs
  readonly #outer: Context.Context<never>
  readonly #seed: Uint8Array
  readonly #clock: Clock.Clock
  /** When the first callback that waits began to, and when the one that runs did: before that, no step was taken. */
  #begunMillis: number | undefined
  #callbackMillis = 0
  /** What ended the last callback, if its time was over. */
  #ended: CallbackTooLong | undefined
  #context: Context.Context<Transaction> | undefined
  #tag = ""

  private constructor(
    server: Addressed,
    state: TransactionState,
    logs: HeldLogs,
    outer: Context.Context<never>,
    seed: Uint8Array
  ) {
    this.#server = server
    this.#state = state
    this.#logs = logs
    this.#outer = outer
    this.#seed = seed
    this.#clock = Context.get(outer, Clock.Clock)
    this.#scheduler = new CountingScheduler(Context.get(outer, Scheduler.Scheduler))
  }

  /** A runner for the current try; where a try has several, each needs a seed of its own. */
  static make(
    server: Addressed,
    state: TransactionState,
    logs: HeldLogs,
    seed = state.operationId.subarray(0, SEED_BYTES)
  ): Effect.Effect<PureRunner> {
    return Effect.withFiber((fiber) => Effect.succeed(new PureRunner(server, state, logs, fiber.context, seed)))
  }

  /** Remembers this moment of the transaction: the function that it returns takes back what was written since. */
  mark(): () => void {
    return this.#state.mark()
  }

  /** Runs one callback to its end. */
  run<A, E>(tag: string, callback: Effect.Effect<A, E, Transaction>): Effect.Effect<A, E> {
    return Effect.withFiber((outer) => {
      this.#tag = tag
      this.#context ??= this.#makeContext()
      const span = Context.getOption(outer.context as Context.Context<Tracer.ParentSpan>, Tracer.ParentSpan)
      const context = span._tag === "Some"
        ? Context.add(this.#context, Tracer.ParentSpan, span.value) as Context.Context<Transaction>
        : this.#context
      const fiber = Effect.runForkWith(context)(callback)
      const exit = fiber.pollUnsafe()
      return exit === undefined ? this.#await(fiber) : exit
    })
  }

  /** All that a callback sees, in one map: additions one by one would copy it. */
  #makeContext(): Context.Context<Transaction> {
    const outer = this.#outer
    const services = new Map<string, unknown>([
      [Transaction.key, this.#state],
      [StrictMode.key, Context.get(outer, StrictMode)],
      [Callback.key, (operation: string) => this.#impure(operation)],
      [Clock.Clock.key, new FrozenClock(this.#state.timeMillis, () => this.#impure())],
      [Random.Random.key, new SeededRandom(this.#seed)],
      [Scheduler.Scheduler.key, this.#scheduler],
      [Logger.CurrentLoggers.key, new Set([this.#logs.logger])],
      [References.MinimumLogLevel.key, Context.get(outer, References.MinimumLogLevel)],
      [References.CurrentLogAnnotations.key, Context.get(outer, References.CurrentLogAnnotations)],
      [Tracer.Tracer.key, guardedTracer(Context.get(outer, Tracer.Tracer))]
    ])
    return Context.makeUnsafe(services)
  }

  #nowMillis(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe() / 1_000_000n)
  }

  /** Whether the callback that ran last spent the time that it ended with: else others of its batch had (4). */
  get hasSpentTime(): boolean {
    return this.#ended === undefined || this.#ended.ranMillis >= this.#ended.limitMillis / 2
  }

  /** Why the callback must end, if its transaction's time is over (4). */
  #tooLong(): CallbackTooLong | undefined {
    const now = this.#nowMillis()
    return now - (this.#begunMillis ??= now) < CALLBACK_LIMIT_MILLIS ? undefined : new CallbackTooLong({
      ...identityOf(this.#server),
      tag: this.#tag,
      ranMillis: now - this.#callbackMillis,
      limitMillis: TRANSACTION_LIMIT_MILLIS
    })
  }

  #impure(operation?: string): ImpureCallback {
    return new ImpureCallback({
      ...identityOf(this.#server),
      tag: this.#tag,
      ...(operation === undefined ? {} : { operation })
    })
  }

  #await<A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E> {
    this.#callbackMillis = this.#nowMillis()
    return Effect.callback<A, E>((resume) => {
      const look = () => {
        if (fiber.pollUnsafe() !== undefined || this.#state.pendingReads > 0) return
        const tooLong = this.#tooLong()
        if (tooLong === undefined && this.#scheduler.pending > 0) return
        this.#scheduler.left = LAST_STEPS
        this.#ended = tooLong
        end(Exit.die(tooLong ?? this.#impure()))
        fiber.interruptUnsafe()
      }
      const end = (exit: Exit.Exit<A, E>) => {
        this.#state.onReadSettled = undefined
        this.#scheduler.onTask = undefined
        resume(exit)
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

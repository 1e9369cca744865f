/**
 * Time and turns of a simulation: fibers run one after another, in an order that does not depend on the machine, and when
 * all of them wait the clock moves on to the next moment at which one of them has something to do.
 *
 * Owner: one simulation. It runs within one fiber of the real world, which drives it.
 *
 * 1. A task runs when all that was scheduled before it has run. Nothing of the simulation uses the machine's clock,
 *    timers, or scheduler.
 * 2. A process that is dead runs nothing any more: its tasks and timers are dropped. One that stands still has them kept,
 *    and gets them all when it goes on.
 * 3. The clock of a process differs from the simulation's by its skew, which never changes.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Scheduler from "effect/Scheduler"

/** When simulations begin: any time will do, and the same for all. */
const EPOCH_MILLIS = 1_700_000_000_000

/** A body that computes for so long without waiting gives way to others. */
const OPERATIONS_LIMIT = 2048

interface Timer {
  readonly atMillis: number
  readonly order: number
  readonly owner: Turns | undefined
  readonly run: () => void
  cancelled: boolean
}

/** The turns of one process: what it may still run. */
export class Turns {
  state: "running" | "paused" | "dead" = "running"
  readonly skewMillis: number
  readonly #kept: Array<() => void> = []
  readonly #time: VirtualTime

  constructor(time: VirtualTime, skewMillis: number) {
    this.#time = time
    this.skewMillis = skewMillis
  }

  /** Runs now or later, or never (2). */
  call(run: () => void): void {
    if (this.state === "running") run()
    else if (this.state === "paused") this.#kept.push(run)
  }

  die(): void {
    this.state = "dead"
    this.#kept.length = 0
  }

  pause(): void {
    if (this.state === "running") this.state = "paused"
  }

  goOn(): void {
    if (this.state !== "paused") return
    this.state = "running"
    for (const run of this.#kept.splice(0)) this.#time.schedule(() => this.call(run))
  }

  get scheduler(): Scheduler.Scheduler {
    return {
      executionMode: "async",
      shouldYield: (fiber: Fiber.Fiber<unknown, unknown>) => fiber.currentOpCount >= OPERATIONS_LIMIT,
      makeDispatcher: () => ({
        scheduleTask: (task) => this.#time.schedule(() => this.call(task)),
        flush: () => {}
      })
    }
  }

  get clock(): Clock.Clock {
    // a clock shows whole milliseconds, whatever was slept
    const millis = () => Math.floor(this.#time.nowMillis + this.skewMillis)
    const nanos = () => BigInt(Math.round((this.#time.nowMillis + this.skewMillis) * 1_000)) * 1_000n
    const monotonic = () => BigInt(Math.round((this.#time.nowMillis - EPOCH_MILLIS) * 1_000)) * 1_000n
    return {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: monotonic,
      monotonicTimeNanos: Effect.sync(monotonic),
      sleep: (duration) => this.#time.sleep(Duration.toMillis(duration), this)
    }
  }
}

export class VirtualTime {
  nowMillis = EPOCH_MILLIS
  #order = 0
  #tasks: Array<() => void> = []
  #timers: Array<Timer> = []

  schedule(task: () => void): void {
    this.#tasks.push(task)
  }

  /** Runs at a later time, whatever becomes of any process. */
  later(millis: number, run: () => void, owner?: Turns): () => void {
    const timer: Timer = {
      atMillis: this.nowMillis + Math.max(0, millis),
      order: this.#order++,
      owner,
      run,
      cancelled: false
    }
    this.#insert(timer)
    return () => {
      timer.cancelled = true
    }
  }

  sleep(millis: number, owner: Turns): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      if (!Number.isFinite(millis)) return
      const cancel = this.later(millis, () => owner.call(() => resume(Effect.void)), owner)
      return Effect.sync(cancel)
    })
  }

  /**
   * One round: all tasks that are there, or else the next timers. Whether there was anything. What tasks leave to
   * microtasks must have run before the next round.
   */
  round(): boolean {
    if (this.#tasks.length > 0) {
      for (const task of this.#tasks.splice(0)) task()
      return true
    }
    for (;;) {
      const timer = this.#timers.shift()
      if (timer === undefined) return false
      if (timer.cancelled || timer.owner?.state === "dead") continue
      this.nowMillis = Math.max(this.nowMillis, timer.atMillis)
      timer.run()
      return true
    }
  }

  /** Timers are in order of their time, and those of one time in the order in which they were set. */
  #insert(timer: Timer): void {
    let low = 0
    let high = this.#timers.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#timers[middle]!.atMillis <= timer.atMillis) low = middle + 1
      else high = middle
    }
    this.#timers.splice(low, 0, timer)
  }
}

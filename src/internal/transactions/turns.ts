/**
 * Turns of the event loop. A transaction on a store of this process waits for nothing outside, so fibers that run one after
 * the other would keep timers and sockets waiting for as long as there is work.
 *
 * Owner: one a process, like the event loop. A turn begins with the first transaction that asks after the loop went round.
 *
 * 1. When a turn has lasted `TURN_MILLIS`, whoever begins a transaction, or the next message of a batch, waits until the
 *    loop has gone round. So timers and sockets are late by a turn and one handler at the most.
 * 2. Who waits goes on in the order in which he came, as many as one turn has room for, and one at least. Whoever comes
 *    while others wait stands behind them.
 * 3. Under a clock that is not the machine's (a test's, a simulation's) nobody waits: what a run does must not depend on
 *    the machine.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** With a handler of some milliseconds behind it, well below the 50 that nobody notices. */
const TURN_MILLIS = 20

const machineClock = Context.get(Context.empty(), Clock.Clock)

class Turns {
  #beganMillis: number | undefined
  readonly #waiting = new Set<() => void>()
  #isScheduled = false

  /** Ends when the loop has gone round, and those who came earlier have had their turn. */
  readonly next: Effect.Effect<void> = Effect.callback((resume) => {
    const goOn = () => resume(Effect.void)
    this.#waiting.add(goOn)
    this.#schedule()
    return Effect.sync(() => this.#waiting.delete(goOn))
  })

  /** Whether the turn has lasted too long, or others wait (1, 2). */
  isOver(): boolean {
    const now = performance.now()
    if (this.#beganMillis === undefined) {
      this.#beganMillis = now
      this.#schedule()
    }
    return this.#waiting.size > 0 || now - this.#beganMillis > TURN_MILLIS
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => this.#round())
  }

  #round(): void {
    this.#isScheduled = false
    if (this.#waiting.size === 0) {
      this.#beganMillis = undefined
      return
    }
    this.#beganMillis = performance.now()
    this.#schedule()
    for (const goOn of this.#waiting) {
      this.#waiting.delete(goOn)
      goOn()
      if (performance.now() - this.#beganMillis > TURN_MILLIS) return
    }
  }
}

const turns = new Turns()

/** Whether whoever has more to do should wait for `nextTurn` first. */
export const isTurnOver = (clock: Clock.Clock): boolean => clock === machineClock && turns.isOver()

/** Ends when the event loop has gone round, and those who came earlier have had their turn. */
export const nextTurn: Effect.Effect<void> = turns.next

/** Lets the event loop go round, if this turn has lasted long enough. */
export const yieldTurn: Effect.Effect<void> = Clock.clockWith((clock) => isTurnOver(clock) ? turns.next : Effect.void)

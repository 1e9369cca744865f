/**
 * How many jobs a worker takes before it has a free handler for them, and how long they may wait in its hand: where
 * handlers end faster than a transaction commits, nobody should wait for the next commit; everywhere else a job in hand
 * is one that no other process can have.
 *
 * Owner: one a worker.
 *
 * 1. Nothing is taken ahead before handlers were seen to end faster than a commit, and nothing more once one did not.
 * 2. What waits in hand longer than a commit takes goes back: a long handler before it was not foreseen.
 */
import type { Held } from "./leases.ts"

/** Jobs that are taken ahead of a free handler at the most. */
const AHEAD_LIMIT = 64

/** What waits in hand is not handed back before so long, however fast commits are: timers are no more exact. */
const PATIENCE_LEAST_MILLIS = 5

export class Ahead {
  /** So many jobs may be taken beyond the free handlers. */
  jobs = 0
  readonly #limit: number
  #commitMillis = 0
  /** The longest run that ended since the last turn. */
  #longestRunMillis = 0

  constructor(limit: number) {
    this.#limit = Math.min(limit, AHEAD_LIMIT)
  }

  /** A handler has ended. */
  ran(millis: number): void {
    this.#longestRunMillis = Math.max(this.#longestRunMillis, millis)
  }

  /** A turn has committed. `isShort`: handlers had to wait for it, though there was enough to take. */
  committed(millis: number, turn: { readonly isShort: boolean; readonly areWaiting: boolean }): void {
    this.#commitMillis = millis
    if (this.#longestRunMillis > millis) this.jobs = 0
    else if (turn.areWaiting) this.jobs = Math.floor(this.jobs / 2)
    else if (turn.isShort) this.jobs = Math.min(this.#limit, Math.max(1, this.jobs * 2))
    this.#longestRunMillis = 0
  }

  /** Takes those out of the waiting ones that have waited for too long (2). */
  late(waiting: Array<Held>, nowMillis: number): ReadonlyArray<Held> {
    const late = waiting.filter(({ takenMillis }) => takenMillis + this.#patienceMillis <= nowMillis)
    if (late.length === 0) return late
    this.jobs = 0
    const rest = waiting.filter((held) => !late.includes(held))
    waiting.splice(0, waiting.length, ...rest)
    return late
  }

  /** How long the first of the waiting ones may still wait; `Infinity` when none waits. */
  patienceLeft(waiting: ReadonlyArray<Held>, nowMillis: number): number {
    let first = Infinity
    for (const { takenMillis } of waiting) first = Math.min(first, takenMillis + this.#patienceMillis)
    return Math.max(0, first - nowMillis)
  }

  get #patienceMillis(): number {
    return Math.max(PATIENCE_LEAST_MILLIS, this.#commitMillis)
  }
}

/**
 * Jobs that run alone. A job that kills its process takes along what runs beside it there, and all of them look alike:
 * their holder went silent. So a job that is suspected of that runs alone in its process, and shows what it is.
 *
 * Owner: one a tenant's layer, for the workers of all its types.
 *
 * 1. A job is a suspect when the runs before ended in silence, and either that happened twice in a row, or the next run
 *    is its last one: one silence is more often a deployment than a poison, and need not make jobs wait for each other.
 * 2. One worker at a time waits for its suspect. Meanwhile no worker here takes anything; when all have ended what they
 *    hold, the suspect is taken, and others when it has ended.
 * 3. Nobody waits for ever: handlers can take long, or wait for a job that is not taken because of that. The wait ends
 *    after a timeout of the type, workers go on for some of these, and the next wait is twice as long.
 */
import * as Effect from "effect/Effect"
import type * as Tuple from "../../../Tuple.ts"
import type { Hub } from "../background/hub.ts"
import { type Model, retryDelay } from "../definition/model.ts"
import type { Row } from "../kept/row.ts"

/** After so many silent ends in a row a job is a suspect, whatever attempts it has left. */
const SUSPICIOUS_ENDS = 2

/** After a wait in vain workers go on for so many times as long. */
const REST_FACTOR = 4

/** A pending job that should run alone. */
export interface Suspect {
  readonly pendingKey: Uint8Array
  readonly id: Tuple.Element
}

/** Whether a pending job should run alone (1). */
export const isSuspect = (model: Model, row: Row, nowMillis: number): Effect.Effect<boolean> =>
  row.silentEnds === 0 || row.silentEnds >= SUSPICIOUS_ENDS
    ? Effect.succeed(row.silentEnds > 0)
    : Effect.map(
      retryDelay(model, row.attempts + 1, nowMillis, new Error("the holder gave no sign of life")),
      (delay) => delay === undefined
    )

/** A worker, as others of its process see it. */
export interface Taker {
  /** So many jobs it holds. */
  readonly held: number
  /** It looks again whether it may take something. */
  readonly stir: () => void
}

/** What a worker may take now. */
export type Permit =
  | { readonly _tag: "All" }
  | { readonly _tag: "Alone"; readonly suspect: Suspect }
  | { readonly _tag: "Nothing"; readonly untilMillis: number }

const ALL: Permit = { _tag: "All" }

interface Waiting {
  readonly taker: Taker
  /** What is waited for; once it runs there is nothing, until its taker holds no job any more. */
  readonly suspect?: Suspect
  readonly untilMillis: number
}

export class Solitude {
  readonly #takers = new Set<Taker>()
  #waiting: Waiting | undefined
  #patienceMillis = 0
  #restUntilMillis = -Infinity

  add(taker: Taker): void {
    this.#takers.add(taker)
  }

  delete(taker: Taker): void {
    this.#takers.delete(taker)
    if (this.#waiting?.taker === taker) this.#release()
    else this.#waiting?.taker.stir()
  }

  /** A worker has met a suspect beside other jobs. */
  met(taker: Taker, suspect: Suspect, nowMillis: number, timeoutMillis: number): void {
    if (this.#waiting !== undefined || nowMillis < this.#restUntilMillis) return
    this.#patienceMillis = Math.max(timeoutMillis, this.#patienceMillis)
    this.#waiting = { taker, suspect, untilMillis: nowMillis + this.#patienceMillis }
  }

  /** What a worker may take; `ending` of its jobs end with what it is about to do. */
  permit(taker: Taker, ending: number, nowMillis: number): Permit {
    const waiting = this.#waiting
    if (waiting === undefined) return ALL
    if (waiting.suspect === undefined) {
      if (waiting.taker.held > (waiting.taker === taker ? ending : 0)) return { _tag: "Nothing", untilMillis: Infinity }
      this.#release()
      return ALL
    }
    if (nowMillis >= waiting.untilMillis) {
      this.#restUntilMillis = nowMillis + REST_FACTOR * this.#patienceMillis
      this.#patienceMillis *= 2
      this.#release()
      return ALL
    }
    return waiting.taker === taker && !this.isBusy(ending)
      ? { _tag: "Alone", suspect: waiting.suspect }
      : { _tag: "Nothing", untilMillis: waiting.untilMillis }
  }

  /** Whether any worker here holds a job, but for so many that are about to end. */
  isBusy(ending: number): boolean {
    let held = -ending
    for (const each of this.#takers) held += each.held
    return held > 0
  }

  /** A worker has taken a suspect. */
  began(taker: Taker): void {
    this.#patienceMillis = 0
    this.#waiting = { taker, untilMillis: Infinity }
  }

  /** The suspect that was waited for is not there any more. */
  missed(): void {
    this.#release()
  }

  /** A worker holds less than before. */
  ended(taker: Taker): void {
    const waiting = this.#waiting
    if (waiting === undefined) return
    if (waiting.suspect !== undefined) waiting.taker.stir()
    else if (waiting.taker === taker && taker.held === 0) this.#release()
  }

  #release(): void {
    this.#waiting = undefined
    for (const taker of this.#takers) taker.stir()
  }
}

const solitudes = new WeakMap<Hub["tenant"], Solitude>()

/** The one of a tenant's layer. */
export const solitudeOf = ({ tenant }: Hub): Solitude => {
  let solitude = solitudes.get(tenant)
  if (solitude === undefined) solitudes.set(tenant, solitude = new Solitude())
  return solitude
}

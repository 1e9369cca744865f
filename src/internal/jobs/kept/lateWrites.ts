/**
 * What a transaction does to running jobs and to those who wait, kept until the transaction's end: what carries a
 * versionstamp cannot be read again in the same transaction (rule R4), and a bell is rung once however much happened.
 *
 * Owner: one a try of a transaction, dropped with it.
 *
 * 1. A running job has exactly one activity entry, and `seq` names it; nobody else has one.
 * 2. A job that was only read is left as it is: looking at it is no sign of life of its holder.
 * 3. `stored` is what the store held before this transaction, whatever the transaction does.
 */
import * as Effect from "effect/Effect"
import type * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import { type JobKeys, STAMP_BYTES } from "../definition/layout.ts"

interface Seq {
  readonly keys: JobKeys
  readonly id: Tuple.Element
  readonly stored: Uint8Array | undefined
  isRunning: boolean
  isMarked: boolean
}

/** Versionstamps have ten bytes; the last two of an entry are the place within the commit. */
const USER_VERSION_POSITION = 10

export class Touched {
  readonly #state: TransactionState
  #seqs = new Map<string, Seq>()
  #bells = new Set<Uint8Array>()

  constructor(state: TransactionState) {
    this.#state = state
    state.beforeCommit.push(() => this.#write())
    state.participate(() => {
      // most try no more than once, and touch nothing before
      const seqs = this.#seqs.size === 0 ? undefined : new Map(this.#seqs)
      const bells = this.#bells.size === 0 ? undefined : new Set(this.#bells)
      return () => {
        this.#seqs = new Map(seqs)
        this.#bells = new Set(bells)
      }
    })
  }

  /** Reads which activity entry a running job has, before anything is done to the job. */
  prepare(keys: JobKeys, id: Tuple.Element): Effect.Effect<void> {
    const key = keys.seq(id)
    const text = Keys.toText(key)
    if (this.#seqs.has(text)) return Effect.void
    return Effect.map(this.#state.get(key), (stored) => {
      // another fiber may have read and marked it meanwhile
      if (!this.#seqs.has(text)) this.#seqs.set(text, { keys, id, stored, isRunning: true, isMarked: false })
    })
  }

  /** The activity entry that a prepared job had before this transaction. */
  storedEntry(keys: JobKeys, id: Tuple.Element): Uint8Array | undefined {
    return this.#seqs.get(Keys.toText(keys.seq(id)))?.stored
  }

  /** A job begins to run, shows a sign of life, or ends to run. One that runs already was prepared. */
  mark(keys: JobKeys, id: Tuple.Element, isRunning: boolean): void {
    const text = Keys.toText(keys.seq(id))
    const seq = this.#seqs.get(text)
    this.#seqs.set(text, { keys, id, stored: seq?.stored, isRunning, isMarked: true })
  }

  ring(bell: Uint8Array): void {
    this.#bells.add(bell)
  }

  #write(): void {
    const state = this.#state
    // in an order of their own: a transaction that reads many jobs at once meets them in another one each time
    for (const [, seq] of Array.from(this.#seqs).sort(([a], [b]) => a < b ? -1 : 1)) {
      if (!seq.isMarked) continue
      if (seq.stored !== undefined) state.clear(seq.keys.activityEntry(seq.stored))
      if (!seq.isRunning) {
        if (seq.stored !== undefined) state.clear(seq.keys.seq(seq.id))
        continue
      }
      const stamp = new Uint8Array(STAMP_BYTES).fill(0xff, 0, USER_VERSION_POSITION)
      Keys.writeUint16(stamp, USER_VERSION_POSITION, state.nextUserVersion())
      const entry = seq.keys.activityEntry(stamp)
      state.setVersionstampedKey(entry, seq.keys.activity.length, seq.keys.packId(seq.id))
      state.setVersionstampedValue(seq.keys.seq(seq.id), stamp, 0)
    }
    for (const bell of this.#bells) {
      state.add(bell, Counters.PLUS_ONE)
      signalKey(state.target, state, bell)
    }
  }
}

const TOUCHED = Symbol("effect-dgen/jobs/touched")

/** The one of a transaction. */
export const touchedOf = (state: TransactionState): Touched => {
  let touched = state.kept<Touched>(TOUCHED)
  if (touched === undefined) {
    touched = new Touched(state)
    state.keep(TOUCHED, touched)
  }
  return touched
}

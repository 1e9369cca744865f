/**
 * Pushes of one tenant layer that come at the same time share a transaction (rule R10).
 *
 * Owner: the tenant's layer. A push that finds none under way runs in its caller's fiber; those that come while it runs
 * wait, and go together after it.
 *
 * 1. A push ends when its commit is durable, or with the reason why there is none.
 * 2. Pushes go in the order in which they came.
 * 3. A push that the store refuses for itself fails alone: the others of its transaction run again, one by one.
 * 4. An interrupted push that was not taken yet is never made; one that was is waited for, as any commit.
 * 5. When the layer's scope closes, pushes that wait fail, and later ones too.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import { BackendError, Closed } from "../../BackendError.ts"
import { Transaction } from "../../Transaction.ts"
import { report } from "../observing/unforeseen.ts"
import { type Target, transact } from "../transactions/loop.ts"
import type { TransactionState } from "../transactions/state.ts"

/** Pushes that share a transaction: below what a transaction's two bytes for order, and a batch's patience, allow. */
const BATCH_LIMIT = 1_000

const BATCH_LIMIT_BYTES = 1_000_000

/** What a push writes. */
type Write = (state: TransactionState) => void

interface Waiting {
  readonly write: Write
  readonly bytes: number
  readonly done: (exit: Exit.Exit<void, BackendError>) => void
}

export class Pushes {
  #waiting: Array<Waiting> = []
  #busy = false
  #closed = false
  readonly #target: Target
  readonly #run: (effect: Effect.Effect<void>) => void

  private constructor(target: Target, run: (effect: Effect.Effect<void>) => void) {
    this.#target = target
    this.#run = run
  }

  static make(target: Target): Effect.Effect<Pushes, never, Scope.Scope> {
    return Effect.contextWith((context) => {
      const run = Effect.runForkWith(context)
      const pushes = new Pushes(target, (effect) => void run(effect))
      return Effect.as(Effect.addFinalizer(() => Effect.sync(() => pushes.#close())), pushes)
    })
  }

  /** Makes a push of about so many bytes. */
  push(bytes: number, write: Write): Effect.Effect<void, BackendError> {
    return Effect.suspend(() => {
      if (this.#closed) return Effect.fail(closed())
      if (!this.#busy) {
        this.#busy = true
        return Effect.ensuring(this.#commit([write]), Effect.sync(() => this.#next()))
      }
      return this.#wait(bytes, write)
    })
  }

  #wait(bytes: number, write: Write): Effect.Effect<void, BackendError> {
    return Effect.callback((resume) => {
      let ended: Exit.Exit<void, BackendError> | undefined
      let told: (() => void) | undefined
      const waiting: Waiting = {
        write,
        bytes,
        done: (exit) => {
          ended = exit
          resume(exit)
          told?.()
        }
      }
      this.#waiting.push(waiting)
      return Effect.suspend(() => {
        const at = this.#waiting.indexOf(waiting)
        if (at >= 0) this.#waiting.splice(at, 1)
        if (at >= 0 || ended !== undefined) return Effect.void
        return Effect.callback<void>((resumed) => {
          told = () => resumed(Effect.void)
        })
      })
    })
  }

  #commit(writes: ReadonlyArray<Write>): Effect.Effect<void, BackendError> {
    return transact(
      this.#target,
      Effect.flatMap(Transaction, (state) => {
        for (const write of writes) write(state)
        return state.failure === undefined ? Effect.void : Effect.die(state.failure)
      })
    )
  }

  /** The pushes that waited go together. */
  #next(): void {
    if (this.#waiting.length === 0) {
      this.#busy = false
      return
    }
    const batch = this.#take()
    this.#run(Effect.flatMap(Effect.exit(this.#together(batch)), (exit) => {
      // whoever still waits then must hear of it; those who were told are told nothing more
      if (Exit.isFailure(exit)) { for (const waiting of batch) waiting.done(exit) }
      this.#next()
      return Exit.isSuccess(exit) ? Effect.void : report("pushes", "messages could not be pushed", exit.cause)
    }))
  }

  #take(): ReadonlyArray<Waiting> {
    let bytes = 0
    let count = 0
    while (count < this.#waiting.length && count < BATCH_LIMIT) {
      bytes += this.#waiting[count]!.bytes
      if (bytes > BATCH_LIMIT_BYTES && count > 0) break
      count++
    }
    return this.#waiting.splice(0, count)
  }

  #together(batch: ReadonlyArray<Waiting>): Effect.Effect<void> {
    return Effect.flatMap(Effect.exit(this.#commit(batch.map((waiting) => waiting.write))), (exit) => {
      if (Exit.isSuccess(exit) || batch.length === 1 || isForAll(exit)) {
        for (const waiting of batch) waiting.done(exit)
        return Effect.void
      }
      return Effect.forEach(batch, (waiting) => this.#together([waiting]), { discard: true })
    })
  }

  #close(): void {
    this.#closed = true
    for (const waiting of this.#waiting.splice(0)) waiting.done(Exit.fail(closed()))
  }
}

const closed = (): BackendError =>
  new BackendError({ reason: new Closed({ message: "the scope of the tenant's layer is closed" }) })

/** Whether a failure is the store's, and no push's own (3). */
const isForAll = (exit: Exit.Failure<void, BackendError>): boolean =>
  exit.cause.reasons.some((reason) =>
    reason._tag === "Fail" && (reason.error.isRetryable || reason.error.isMaybeCommitted)
  )

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
 * 5. A push that looks before it is made is refused alone; one after another they see what those before them push.
 * 6. When the layer's scope closes, pushes that wait fail, and later ones too.
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

/** Why a push was refused: an error of who looked. */
interface Refusal {
  readonly _tag: string
}

/** A push: what it writes, and what it looks at before, if it looks (5). */
interface Push {
  readonly write: (state: TransactionState) => void
  readonly look: ((state: TransactionState) => Effect.Effect<void, Refusal>) | undefined
}

interface Waiting extends Push {
  readonly bytes: number
  readonly done: (exit: Exit.Exit<void, BackendError | Refusal>) => void
}

/** Why each push of a transaction was refused, at the place of those that were. */
type Refusals = ReadonlyMap<Push, Refusal>

const NONE: Refusals = new Map()

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

  /** Makes a push of about so many bytes, unless it is refused when it looks. */
  push<E extends Refusal = never>(
    bytes: number,
    write: Push["write"],
    look?: (state: TransactionState) => Effect.Effect<void, E>
  ): Effect.Effect<void, BackendError | E> {
    return Effect.suspend((): Effect.Effect<void, BackendError | E> => {
      if (this.#closed) return Effect.fail(closed())
      if (!this.#busy) {
        this.#busy = true
        const push: Push = { write, look }
        const made = Effect.flatMap(this.#commit([push]), (refusals) => refusalOf(refusals, push))
        return Effect.ensuring(made as Effect.Effect<void, BackendError | E>, Effect.sync(() => this.#next()))
      }
      return this.#wait({ write, look }, bytes) as Effect.Effect<void, BackendError | E>
    })
  }

  #wait(push: Push, bytes: number): Effect.Effect<void, BackendError | Refusal> {
    return Effect.callback((resume) => {
      let ended: Exit.Exit<void, BackendError | Refusal> | undefined
      let told: (() => void) | undefined
      const waiting: Waiting = {
        ...push,
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

  #commit(pushes: ReadonlyArray<Push>): Effect.Effect<Refusals, BackendError> {
    return transact(
      this.#target,
      Effect.flatMap(Transaction, (state) =>
        Effect.flatMap(
          writeAll(state, pushes),
          (refusals) => state.failure === undefined ? Effect.succeed(refusals) : Effect.die(state.failure)
        ))
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
    return Effect.flatMap(Effect.exit(this.#commit(batch)), (exit) => {
      if (Exit.isSuccess(exit)) {
        for (const waiting of batch) waiting.done(refusalOf(exit.value, waiting))
        return Effect.void
      }
      if (batch.length === 1 || isForAll(exit)) {
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

/** Writes pushes in their order; those that look are written when they were not refused (5). */
const writeAll = (state: TransactionState, pushes: ReadonlyArray<Push>): Effect.Effect<Refusals> => {
  if (pushes.every(({ look }) => look === undefined)) {
    for (const { write } of pushes) write(state)
    return Effect.succeed(NONE)
  }
  const refusals = new Map<Push, Refusal>()
  return Effect.as(
    Effect.forEach(pushes, (push) =>
      push.look === undefined
        ? Effect.sync(() => push.write(state))
        : Effect.match(push.look(state), {
          onFailure: (refusal) => void refusals.set(push, refusal),
          onSuccess: () => push.write(state)
        }), { discard: true }),
    refusals
  )
}

/** What a push ended with in a transaction that committed. */
const refusalOf = (refusals: Refusals, push: Push): Exit.Exit<void, Refusal> => {
  const refusal = refusals.get(push)
  return refusal === undefined ? Exit.void : Exit.fail(refusal)
}

const closed = (): BackendError =>
  new BackendError({ reason: new Closed({ message: "the scope of the tenant's layer is closed" }) })

/** Whether a failure is the store's, and no push's own (3). */
const isForAll = (exit: Exit.Failure<unknown, BackendError>): boolean =>
  exit.cause.reasons.some((reason) =>
    reason._tag === "Fail" && (reason.error.isRetryable || reason.error.isMaybeCommitted)
  )

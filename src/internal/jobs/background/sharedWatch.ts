/**
 * Waiting for a key that many fibers of a process wait for: one watch of the store for all of them (rule R8).
 *
 * Owner: one a key and tenant layer, kept by the hub; its fiber lives in the tenant's scope and looks only while
 * somebody listens.
 *
 * 1. Who listens says what it has seen of the key. It is woken when the key holds something else, by a commit of this
 *    process at once, by the store's watch otherwise: a change between its look and its listening is not missed.
 * 2. Who has seen something else than the look that armed the watch has seen it earlier or later: the fiber looks again.
 *    To wake them at once would let them look without a pause for as long as a lost watch is waited for.
 * 3. A wake-up is a hint. When the store fails all are woken: each meets the failure itself.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { BackendError } from "../../../BackendError.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Keys from "../../data/keys.ts"
import { report } from "../../observing/unforeseen.ts"
import { type Target, transact } from "../../transactions/loop.ts"
import { awaitWatch, watchKey } from "../../transactions/watching.ts"

/** After a failure of the store the fiber pauses for so long. */
const PAUSE_MILLIS = 500

interface Listener {
  readonly seen: Seen
  readonly wake: () => void
}

/** What a look saw of a bell. */
export interface Seen {
  readonly value: string
  /** How often all were woken before. */
  readonly epoch: number
}

const textOf = (value: Uint8Array | undefined): string => value === undefined ? "" : Keys.toText(value)

export class Bell {
  readonly #target: Target
  readonly #scope: Scope.Scope
  readonly #key: Uint8Array
  readonly #listeners = new Set<Listener>()
  readonly #needed = Latch.makeUnsafe(false)
  /** What the key held when the watch was armed that the fiber waits for now. */
  #armed: { readonly value: string; readonly lookAgain: () => void } | undefined
  #stopSignals: (() => void) | undefined
  #fiber: Fiber.Fiber<never> | undefined
  #epoch = 0

  constructor(target: Target, scope: Scope.Scope, key: Uint8Array) {
    this.#target = target
    this.#scope = scope
    this.#key = key
  }

  /** Begins a look; what it gives takes the key's value in the look's snapshot. */
  see(): (value: Uint8Array | undefined) => Seen {
    const epoch = this.#epoch
    return (value) => ({ value: textOf(value), epoch })
  }

  /** Ends when there may be something else than what was seen. */
  changed(seen: Seen): Effect.Effect<void> {
    return Effect.andThen(
      this.#start,
      Effect.callback<void>((resume) => {
        // whoever looked before others were woken has missed that (1)
        if (this.#epoch !== seen.epoch) return resume(Effect.void)
        const listener: Listener = { seen, wake: () => resume(Effect.void) }
        this.#listeners.add(listener)
        this.#stopSignals ??= this.#target.backend.signals.listen(Keys.toText(this.#key), () => this.wakeAll())
        this.#needed.openUnsafe()
        if (this.#armed !== undefined && this.#armed.value !== seen.value) this.#armed.lookAgain()
        return Effect.sync(() => this.#drop(listener))
      })
    )
  }

  /** Wakes all who listen: something that no key shows has changed. */
  wakeAll(): void {
    this.#epoch++
    for (const listener of Array.from(this.#listeners)) this.#wake(listener)
  }

  /** Nobody listens any more, for as long as anybody knows: the fiber ends, and a later listener starts another one. */
  rest(): void {
    this.#fiber?.interruptUnsafe()
    this.#fiber = undefined
  }

  // --- internal ---

  #wake(listener: Listener): void {
    this.#drop(listener)
    listener.wake()
  }

  #drop(listener: Listener): void {
    this.#listeners.delete(listener)
    if (this.#listeners.size > 0) return
    this.#needed.closeUnsafe()
    this.#stopSignals?.()
    this.#stopSignals = undefined
  }

  get #start(): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#fiber !== undefined) return Effect.void
      return Effect.map(Effect.forkIn(Effect.interruptible(this.#run), this.#scope), (fiber) => {
        this.#fiber = fiber
      })
    })
  }

  get #run(): Effect.Effect<never> {
    const step = Effect.flatMap(this.#needed.await, () => this.#look)
    return Effect.forever(
      Effect.catchCause(step, (cause) =>
        Effect.andThen(
          Cause.hasDies(cause) ? report("jobs", "a watch for jobs failed, looking again", cause) : Effect.void,
          Effect.andThen(Effect.sync(() => this.wakeAll()), Effect.sleep(PAUSE_MILLIS))
        ))
    )
  }

  get #look(): Effect.Effect<void, BackendError> {
    const read = Effect.flatMap(
      Transaction,
      (state) => Effect.map(state.get(this.#key, true), (value) => ({ value, watch: watchKey(state, this.#key) }))
    )
    return Effect.flatMap(transact(this.#target, read), ({ value, watch }) => {
      const text = textOf(value)
      for (const listener of Array.from(this.#listeners)) {
        if (listener.seen.value !== text) this.#wake(listener)
      }
      if (this.#listeners.size === 0) {
        watch.cancel()
        return Effect.void
      }
      this.#armed = { value: text, lookAgain: watch.wake }
      return Effect.ensuring(
        awaitWatch(this.#target, watch),
        Effect.sync(() => {
          this.#armed = undefined
        })
      )
    })
  }
}

/**
 * Waiting for a key to change: a watch of the store, raced with this process's own signals and with a timer, because a
 * watch can be lost with its connection.
 *
 * Owner: the fiber that waits; the watch is cancelled when the wait ends.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import type { Place, TransactionState } from "./state.ts"
import { count } from "./unforeseen.ts"

/** A lost watch costs this much waiting at the most. */
const WATCH_LIMIT_MILLIS = 30_000

const fallbacks = Metric.counter("effect_dgen_watch_fallbacks", {
  description: "Waits that the timer ended because no watch and no signal came",
  incremental: true
})

/**
 * A watch on a key, armed by the commit of the transaction that made it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Watch {
  /**
   * Succeeds when the key's value has changed since the transaction; fails with `BackendError` when the store can
   * watch no longer. It can succeed without a change: look again. Never await it inside the transaction.
   */
  readonly changed: Effect.Effect<void, BackendError>
}

/** A watch that a commit arms. */
export interface Armed {
  readonly key: Uint8Array
  readonly deferred: Deferred.Deferred<void, BackendError>
  readonly cancel: () => void
}

/** Asks the commit of a try to arm a watch. */
export const watchKey = (state: TransactionState, key: Uint8Array): Armed => {
  const deferred = Deferred.makeUnsafe<void, BackendError>()
  const request = {
    key,
    fire: () => void Deferred.doneUnsafe(deferred, Exit.void),
    fail: (error: BackendError) => void Deferred.doneUnsafe(deferred, Exit.fail(error)),
    onCancel: undefined as (() => void) | undefined
  }
  state.watch(request)
  return { key, deferred, cancel: () => request.onCancel?.() }
}

/** A watch as users await it. */
export const changesOf = (armed: Armed): Watch => ({
  changed: Effect.onInterrupt(Deferred.await(armed.deferred), () => Effect.sync(armed.cancel))
})

/** Tells this process, once others can read it, that a key has changed. */
export const signalKey = (target: Pick<Place, "backend">, state: TransactionState, key: Uint8Array): void => {
  const text = Keys.toText(key)
  state.onAccepted.push(() => target.backend.signals.notify(text))
}

/** Ends when the watch fires, when one of `others` succeeds, or when the time limit is over. */
export const raceWatch = (
  target: Place,
  watch: Armed,
  others: ReadonlyArray<Effect.Effect<void>>
): Effect.Effect<void, BackendError> => {
  const timer = Effect.andThen(Effect.sleep(WATCH_LIMIT_MILLIS), count(fallbacks, 1))
  const signalled = Effect.callback<void>((resume) => {
    // what follows is run by an interruption alone: a listener that was called removes itself
    const stop = target.backend.signals.listen(Keys.toText(watch.key), () => {
      stop()
      resume(Effect.void)
    })
    return Effect.sync(stop)
  })
  return Effect.ensuring(
    Effect.raceAllFirst([Deferred.await(watch.deferred), signalled, timer, ...others]),
    Effect.sync(watch.cancel)
  )
}

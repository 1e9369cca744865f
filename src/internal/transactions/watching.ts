/**
 * Waiting for a key to change: a watch of the store, raced with this process's own signals and with a timer, because a
 * watch can be lost with its connection.
 *
 * Owner: the fiber that waits; the watch is cancelled when the wait ends.
 *
 * 1. A wait is one deferred that the watch, a signal, the timer or its owner completes: idle servers are many, and a fiber
 *    for each of these would cost more than the server.
 * 2. The times at which waits look again are spread, and those that are close share a timer (`alarms.ts`).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import type { WatchRequest } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import { record } from "../observing/measuring.ts"
import { setAlarm } from "./alarms.ts"
import type { Place, TransactionState } from "./state.ts"

/** A lost watch costs this much waiting at the most. */
const WATCH_LIMIT_MILLIS = 30_000

/** Where a watch cannot be lost, looking again is for what nobody tells of: what dead callers left, and the unforeseen. */
const KEPT_WATCH_LIMIT_MILLIS = 30 * 60_000

/** Waits of about the same time share a timer. */
const SPREAD_MILLIS = 1_000
const EXACT = 1

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
  /** The key as text. */
  readonly text: string
  readonly deferred: Deferred.Deferred<void, BackendError>
  /** Ends the wait, as if the key had changed. */
  readonly wake: () => void
  readonly cancel: () => void
  /** Whether the store cannot lose it; known when the commit is. */
  readonly isKept: () => boolean
}

/** Asks the commit of a try to arm a watch. */
export const watchKey = (state: TransactionState, key: Uint8Array): Armed => {
  const deferred = Deferred.makeUnsafe<void, BackendError>()
  const wake = () => void Deferred.doneUnsafe(deferred, Exit.void)
  const request: WatchRequest = {
    key,
    fire: wake,
    fail: (error: BackendError) => void Deferred.doneUnsafe(deferred, Exit.fail(error)),
    onCancel: undefined,
    isKept: false
  }
  state.watch(request)
  const cancel = () => {
    const { onCancel } = request
    request.onCancel = undefined
    onCancel?.()
  }
  return { text: Keys.toText(key), deferred, wake, cancel, isKept: () => request.isKept === true }
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

/** When a wait looks again though nothing woke it: the later half of the limit, by the key, so that not all look at once. */
const limitMillisOf = (watch: Armed): number => {
  const limit = watch.isKept() ? KEPT_WATCH_LIMIT_MILLIS : WATCH_LIMIT_MILLIS
  const half = limit / 2
  return limit - (Keys.hash(watch.text) % half)
}

/** Ends when the watch fires, when it is woken, when this process signals its key, or when the time is over. */
export const awaitWatch = (
  target: Pick<Place, "backend">,
  watch: Armed,
  dueMillis = Infinity
): Effect.Effect<void, BackendError> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const clock = Context.get(context, Clock.Clock)
    const limitMillis = limitMillisOf(watch)
    const stopListening = target.backend.signals.listen(watch.text, watch.wake)
    const isDue = dueMillis < limitMillis
    const cancelAlarm = isDue
      ? setAlarm(clock, context, Math.max(1, dueMillis), EXACT, watch.wake)
      : setAlarm(clock, context, limitMillis, SPREAD_MILLIS, () => {
        record(fallbacks, 1, context)
        watch.wake()
      })
    return Effect.ensuring(
      Deferred.await(watch.deferred),
      Effect.sync(() => {
        stopListening()
        cancelAlarm()
        watch.cancel()
      })
    )
  })

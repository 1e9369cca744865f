/**
 * How long the queue is and how old, as a worker sees it: for the gauges of its type. It looks after turns and beats, so
 * a worker that rests costs nothing, and one whose handlers all take long still shows what piles up.
 *
 * Owner: one a worker.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import { record } from "../../observing/measuring.ts"
import { transact } from "../../transactions/loop.ts"
import type { Hub } from "../background/hub.ts"
import type { Model, Place } from "../definition/model.ts"
import { metricsOf } from "../kept/metrics.ts"
import { counts } from "../operations/listing.ts"

/** Looks are apart by so much at the least. */
const REST_MILLIS = 1_000

/** When the job that is due the longest was due: one read a priority in use. */
const oldestOf = Effect.fnUntraced(function*({ keys, state }: Place, prefix: Uint8Array) {
  const { begin, end } = Tuple.range([], prefix)
  let oldest = Infinity
  let from = begin
  for (;;) {
    const [first] = yield* state.getRange(from, end, { limit: 1, snapshot: true })
    const position = first === undefined
      ? undefined
      : prefix === keys.now
      ? keys.nowPlaceOf(first.key)
      : keys.placeOf(first.key)
    if (position === undefined) return oldest
    oldest = Math.min(oldest, position.scheduledAt)
    from = keys.below(prefix, position.priority)
  }
})

const oldestDue = (place: Place) =>
  Effect.zipWith(oldestOf(place, place.keys.now), oldestOf(place, place.keys.pending), Math.min)

export class Depth {
  readonly #stirred = Latch.makeUnsafe(false)
  readonly #look: Effect.Effect<void>

  constructor(hub: Hub, model: Model) {
    const metrics = metricsOf(model.type)
    const read = Effect.flatMap(
      Transaction,
      (state) => Effect.zip(counts(model), oldestDue({ model, state, keys: hub.keys }))
    )
    const look = Effect.flatMap(
      Effect.zip(transact(hub.tenant, read), Clock.currentTimeMillis),
      ([[{ pending }, oldest], now]) =>
        Effect.withFiber(({ context }) => {
          record(metrics.pending, pending, context)
          record(metrics.oldestMillis, Math.max(0, oldest === Infinity ? 0 : now - oldest), context)
          return Effect.void
        })
    )
    // what the store fails with, the worker tells itself
    this.#look = Effect.ignore(look)
  }

  /** There may be something else to see. */
  stir(): void {
    this.#stirred.openUnsafe()
  }

  /** Looks, for ever. */
  get looks(): Effect.Effect<never> {
    const step = Effect.andThen(
      Effect.andThen(this.#stirred.await, Effect.sync(() => this.#stirred.closeUnsafe())),
      Effect.andThen(this.#look, Effect.sleep(REST_MILLIS))
    )
    return Effect.forever(step)
  }
}

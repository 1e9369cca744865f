/**
 * Somebody who is told of dead jobs, as a layer: for what an application wants to do about them.
 *
 * Owner: the layer; its queue and its fiber live in the layer's scope.
 *
 * 1. One is told after the other. A handler that fails is logged, and the next one is told all the same.
 * 2. At the end of the scope those that are known are still told, within the grace period.
 */
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { Tenant } from "../../../Tenant.ts"
import { guarding } from "../../observing/lending.ts"
import { logError } from "../../observing/logging.ts"
import { apart, keepRunning } from "../../observing/unforeseen.ts"
import { InvalidOption, render } from "../definition/errors.ts"
import type { Model } from "../definition/model.ts"
import { type DeadJob, listen } from "../kept/reports.ts"

/** What is known at the end of the scope is told for so long: as long as workers let handlers end. */
const GRACE_MILLIS = 10_000

export const deadJobLayer = <A, R>(
  model: Model,
  handler: (dead: DeadJob<A>) => Effect.Effect<unknown, never, R>
): Layer.Layer<never, InvalidOption, Tenant | Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    if (typeof handler !== "function") {
      return yield* new InvalidOption({ type: model.type, option: "handler", problem: "must be a function" })
    }
    if (model.problem !== undefined) return yield* model.problem
    const tenant = yield* Tenant
    const known: Array<DeadJob<A>> = []
    const some = Latch.makeUnsafe(false)
    const none = Latch.makeUnsafe(true)
    const tell = (dead: DeadJob<A>) =>
      Effect.catchCause(
        apart(Effect.scoped(Effect.suspend(() => handler(dead)))),
        (cause) =>
          logError(
            `jobs of type ${render(model.type)}: the handler of dead jobs failed on job ${render(dead.id)}`,
            cause
          )
      )
    const step = Effect.gen(function*() {
      yield* some.await
      yield* tell(known[0]!)
      known.shift()
      if (known.length > 0) return
      some.closeUnsafe()
      none.openUnsafe()
    })
    const what = `jobs of type ${render(model.type)}: telling of dead jobs`
    const loop = guarding(Effect.forever(step))
    yield* Effect.forkScoped(Effect.interruptible(keepRunning("jobs", what, loop)))
    yield* Effect.addFinalizer(() => Effect.timeoutOption(none.await, GRACE_MILLIS))
    yield* listen(tenant, model, (dead) => {
      known.push(dead)
      none.closeUnsafe()
      some.openUnsafe()
    })
  }))

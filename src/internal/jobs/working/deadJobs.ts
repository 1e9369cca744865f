/**
 * Somebody who is told of dead jobs, as a layer: for what an application wants to do about them.
 *
 * Owner: the layer; its queue and its fiber live in the layer's scope.
 *
 * 1. One is told after the other. A handler that fails is logged, and the next one is told all the same.
 * 2. At the end of the scope those that are known are still told, within the grace period. A handler that cannot be
 *    interrupted then is left behind.
 * 3. What waits to be told is bounded in bytes: jobs that die while there is no room are not told, and the log says so.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Tenant } from "../../../Tenant.ts"
import { guarding } from "../../observing/lending.ts"
import { logError } from "../../observing/logging.ts"
import { effectOf, keepRunning } from "../../observing/unforeseen.ts"
import { InvalidOption, render } from "../definition/errors.ts"
import { decodeData, type Model } from "../definition/model.ts"
import { type DeadJob, type Died, listen } from "../kept/reports.ts"
import { INTERRUPT_LIMIT_MILLIS } from "./worker.ts"

/** What is known at the end of the scope is told for so long: as long as workers let handlers end. */
const GRACE_MILLIS = 10_000

/** So much waits to be told: tens of thousands of small jobs, or a few of the longest (3). */
const KNOWN_LIMIT_BYTES = 32_000_000

/** What a job takes besides its data and its error. */
const OVERHEAD_BYTES = 500

const bytesOf = ({ error, packed }: Died): number => packed.length + 2 * error.length + OVERHEAD_BYTES

/** Runs an effect of a user's in a fiber that is nobody's: who is interrupted waits for it for a while, and leaves it (2). */
const leaving = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.forkDetach(effect), (fiber) =>
    Effect.flatten(Effect.onInterrupt(Fiber.await(fiber), () => {
      fiber.interruptUnsafe()
      return Effect.timeoutOption(Effect.interruptible(Fiber.await(fiber)), INTERRUPT_LIMIT_MILLIS)
    })))

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
    const known: Array<Died> = []
    let bytes = 0
    let untold = 0
    const named = `jobs of type ${render(model.type)}: the handler of dead jobs`
    const some = Latch.makeUnsafe(false)
    const none = Latch.makeUnsafe(true)
    const tell = ({ packed, ...dead }: Died) =>
      Effect.catchCause(
        leaving(
          Effect.scoped(
            effectOf(() => handler({ ...dead, data: Result.getOrUndefined(decodeData(model, dead.id, packed)) }))
          )
        ),
        (cause) => logError(`${named} failed on job ${render(dead.id)}`, cause)
      )
    const step = Effect.gen(function*() {
      yield* some.await
      yield* tell(known[0]!)
      bytes -= bytesOf(known.shift()!)
      if (known.length > 0) return
      some.closeUnsafe()
      none.openUnsafe()
      if (untold === 0) return
      const text = `${named} is slower than jobs die, and was not told of ${untold}: list them by state "dead"`
      untold = 0
      yield* logError(text)
    })
    const what = `jobs of type ${render(model.type)}: telling of dead jobs`
    const loop = guarding(Effect.forever(step))
    yield* Effect.forkScoped(Effect.interruptible(keepRunning("jobs", what, loop)))
    yield* Effect.addFinalizer(() => Effect.timeoutOption(none.await, GRACE_MILLIS))
    yield* listen(tenant, model.type, (died) => {
      if (known.length > 0 && bytes + bytesOf(died) > KNOWN_LIMIT_BYTES) {
        untold++
        return
      }
      known.push(died)
      bytes += bytesOf(died)
      none.closeUnsafe()
      some.openUnsafe()
    })
  }))

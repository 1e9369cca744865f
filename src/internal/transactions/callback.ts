/**
 * Whether what runs is a pure callback of a transaction: a handler, an `init`, the function of an `update`. What takes
 * effect outside of its transaction is refused there, on every store and before it begins, whether the callback would
 * wait for it or not: it would happen again with each run.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** Within a callback: what makes the defect of an operation that it must not use. */
export const Callback = Context.Reference<((operation: string) => unknown) | undefined>(
  "effect-dgen/transactions/Callback",
  { defaultValue: () => undefined }
)

/** An operation that is not for callbacks. */
export const outside = <A, E, R>(operation: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const refuse = fiber.getRef(Callback)
    return refuse === undefined ? effect : Effect.die(refuse(operation))
  })

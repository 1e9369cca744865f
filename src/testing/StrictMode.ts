/**
 * Finds transaction bodies that are not pure: under `layer` every body runs twice on one snapshot, and one that writes
 * something else the second time dies with `ImpureTransaction`, which says what. It covers `Tenant.transact` and the
 * handlers of servers, whose outcomes are writes of their transactions.
 *
 * It freezes the states that handlers, actions and locked handlers get, too: one that is changed in place dies with
 * `StateChanged`, since the change would be lost. Maps, bytes and instances of classes cannot be frozen; they are compared
 * with what they said before.
 *
 * It is for tests, since it doubles their work, and finds what a test makes happen: a body that looks at the world and
 * sees the same twice is not found.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import { StrictMode } from "../internal/transactions/strictMode.ts"

export { ImpureTransaction, StateChanged } from "../internal/transactions/strictMode.ts"

/**
 * Turns strict mode on for what is built or run with it.
 *
 * **Example** (A body that counts its own runs)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 * import { StrictMode } from "effect-dgen/testing"
 *
 * let runs = 0
 * const impure = Effect.suspend(() => Transaction.set(["runs"], Uint8Array.of(++runs)))
 *
 * const program = Effect.exit(Tenant.transact(impure)).pipe(
 *   Effect.map((exit) => exit._tag),
 *   Effect.provide(Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer))),
 *   Effect.provide(StrictMode.layer)
 * )
 *
 * await Effect.runPromise(program)
 * // => "Failure"
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<never> = Layer.succeed(StrictMode, true)

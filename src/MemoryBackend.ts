/**
 * A backend in memory, for tests: the same optimistic transactions, limits, watches and errors as the durable ones,
 * and gone with its scope. Two transactions that conflict on FoundationDB conflict here, and two that do not, do not.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { type Faults, withFaults } from "./internal/simulation/faults.ts"
import { SeededRandom } from "./internal/simulation/random.ts"
import { make, makeStore } from "./internal/stores/memory.ts"

/**
 * An empty store. Each time the layer is built it is a store of its own, which is gone when the layer's scope closes.
 * Building it requires nothing and cannot fail.
 *
 * **Example** (A server in a test)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer, Schema } from "effect"
 * import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
 *
 * class Names extends DgenServer.Service<Names>()("Names", {
 *   state: Schema.Array(Schema.String),
 *   messages: { Add: DgenServer.call({ payload: { name: Schema.String }, success: Schema.Int }) }
 * }) {}
 *
 * const NamesLive = Names.layer(Names.behaviour({
 *   init: Effect.succeed([]),
 *   handlers: {
 *     Add: ({ name }, names) => DgenServer.reply(names.length + 1, [...names, name])
 *   }
 * }))
 *
 * const program = Effect.gen(function*() {
 *   const names = yield* Names
 *   return [yield* names.call("Add", { name: "Ada" }), yield* names.call("Add", { name: "Joe" }), yield* names.state]
 * })
 *
 * const TestStore = Tenant.layer(["test"]).pipe(Layer.provide(MemoryBackend.layer))
 * await Effect.runPromise(program.pipe(Effect.provide(NamesLive.pipe(Layer.provide(TestStore)))))
 * // => [1, 2, ["Ada", "Joe"]]
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Backend> = Layer.effect(Backend, Effect.suspend(() => make(makeStore())))

/**
 * A store of its own that fails where the seed says, for tests of one process: commits conflict or lose their answers,
 * snapshots are too old, watches are lost, the store is slow or away for a while. One seed gives one history under a
 * `TestClock`. Several processes, and their deaths, are what `Simulation` of `effect-dgen/testing` simulates.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerSimulation = (
  options: { readonly seed: number; readonly faults: Faults }
): Layer.Layer<Backend> =>
  Layer.effect(
    Backend,
    Effect.gen(function*() {
      const clock = yield* Clock.Clock
      const context = yield* Effect.context<never>()
      const random = new SeededRandom(options.seed)
      return withFaults(yield* make(makeStore()), {
        random,
        faults: options.faults,
        nowMillis: () => clock.currentTimeMillisUnsafe(),
        step: () => Effect.void,
        detach: (effect) => void Effect.runForkWith(context)(effect),
        callback: (run) => run()
      }, random.bytes(16))
    })
  )

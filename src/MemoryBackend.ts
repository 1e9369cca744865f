/**
 * A backend in memory, for tests: the same optimistic transactions, limits, watches and errors as the durable ones,
 * and gone with its scope. Two transactions that conflict on FoundationDB conflict here, and two that do not, do not.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { make, makeStore } from "./internal/memoryStore.ts"

/**
 * A store of its own for each time the layer is built.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Backend> = Layer.effect(Backend, Effect.suspend(() => make(makeStore())))

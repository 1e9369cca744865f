/**
 * A tenant: a backend and a directory path, whose keys no other tenant sees. All transactions run in one.
 *
 * `Tenant.transact` runs a transaction effect atomically: its reads see one snapshot, its writes appear at once and
 * are durable when it succeeds, and when it fails nothing of it was written. It runs the effect again when the store
 * says so (a conflict, a snapshot that is too old), for at most 30 seconds. It is applied once, also on stores whose
 * commit can end without an answer.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { Backend } from "./Backend.ts"
import { BackendError, InvalidArgument } from "./BackendError.ts"
import { Calls } from "./internal/calls.ts"
import { processPrefix } from "./internal/layout.ts"
import { Slots } from "./internal/slots.ts"
import { transact as run } from "./internal/transact.ts"
import type { Transaction } from "./Transaction.ts"
import * as Tuple from "./Tuple.ts"

/**
 * Where transactions run.
 *
 * @since 0.1.0
 * @category services
 */
export class Tenant extends Context.Service<Tenant, {
  readonly path: ReadonlyArray<string>
  readonly backend: Backend["Service"]
  readonly prefix: Uint8Array
  readonly slots: Slots | undefined
  /** Tells this layer from every other one on the same store, in any process. */
  readonly instance: Uint8Array
  /** The definitions that run here, by name: two with one name are refused. */
  readonly definitions: Map<string, object>
  /** The calls of this layer that wait for an answer. */
  readonly calls: Calls
  /** Closes with the layer: what runs in the background for the tenant ends then. */
  readonly scope: Scope.Scope
}>()("effect-dgen/Tenant") {}

const instances = { next: 0 }

/** One process can build several layers on one store: each has calls and slots of its own. */
const makeInstance = (processId: Uint8Array): Uint8Array => {
  const instance = new Uint8Array(20)
  instance.set(processId.subarray(0, 16))
  new DataView(instance.buffer).setUint32(16, instances.next++)
  return instance
}

const checkPath = (operation: string, path: ReadonlyArray<string>): Effect.Effect<void, BackendError> => {
  const ok = Array.isArray(path) && path.length > 0 &&
    path.every((name) => typeof name === "string" && name.length > 0 && name.isWellFormed())
  if (ok) return Effect.void
  return Effect.fail(
    new BackendError({
      reason: new InvalidArgument({
        message: `${operation}: the path must be one or more non-empty strings, such as ["my-app", "counters"]`
      })
    })
  )
}

/**
 * The tenant of a directory path, made when it does not exist. Fails with `BackendError` when the path is empty or
 * the store fails.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (path: ReadonlyArray<string>): Layer.Layer<Tenant, BackendError, Backend> =>
  Layer.effect(
    Tenant,
    Effect.gen(function*() {
      yield* checkPath("Tenant.layer", path)
      const backend = yield* Backend
      const prefix = yield* backend.directory.open(path)
      const instance = makeInstance(backend.processId)
      const slots = backend.commitCanBeUnknown
        ? new Slots(Tuple.pack(["slot"], processPrefix(prefix, instance)))
        : undefined
      const calls = yield* Calls.make({ backend, prefix, slots }, instance)
      const scope = yield* Scope.Scope
      return Tenant.of({ path: [...path], backend, prefix, slots, instance, definitions: new Map(), calls, scope })
    })
  )

/**
 * Runs a transaction effect as one atomic, durable commit. Fails with what the effect fails with, and then nothing was
 * written, or with `BackendError`. An interruption before the commit leaves nothing; a commit that began is waited for.
 *
 * **Example** (Counting)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const bump = Effect.gen(function*() {
 *   const value = (yield* Transaction.get(["hits"]))?.[0] ?? 0
 *   yield* Transaction.set(["hits"], Uint8Array.of(value + 1))
 *   return value + 1
 * })
 *
 * const program = Tenant.transact(bump).pipe(
 *   Effect.provide(Tenant.layer(["docs"]).pipe(Layer.provide(MemoryBackend.layer)))
 * )
 *
 * await Effect.runPromise(program)
 * // => 1
 * ```
 *
 * @since 0.1.0
 * @category running
 */
export const transact = <A, E>(
  effect: Effect.Effect<A, E, Transaction>
): Effect.Effect<A, E | BackendError, Tenant> => Effect.flatMap(Tenant, (tenant) => run(tenant, effect))

/**
 * Removes a path with everything under it: keys, servers, jobs and paths below. Succeeds with whether there was one.
 * Stop what runs there first: what still runs loses its state.
 *
 * @since 0.1.0
 * @category running
 */
export const remove = (path: ReadonlyArray<string>): Effect.Effect<boolean, BackendError, Backend> =>
  Effect.flatMap(
    checkPath("Tenant.remove", path),
    () => Effect.flatMap(Backend, (backend) => backend.directory.remove(path))
  )

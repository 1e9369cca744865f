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
import { Backend, KEY_LIMIT_BYTES, KEY_PREFIX_ALLOWANCE_BYTES } from "./Backend.ts"
import { BackendError, InvalidArgument } from "./BackendError.ts"
import { show } from "./internal/data/show.ts"
import { Calls, CallsOf } from "./internal/tenant/calls.ts"
import { open } from "./internal/tenant/format.ts"
import { LocalHostsOf } from "./internal/tenant/hosts.ts"
import { processPrefix, userPrefix } from "./internal/tenant/layout.ts"
import { INSTANCE_BYTES } from "./internal/tenant/limits.ts"
import { ListedOf } from "./internal/tenant/listed.ts"
import { Presence, PresenceOf } from "./internal/tenant/presence.ts"
import { Pushes } from "./internal/tenant/pushes.ts"
import { outside } from "./internal/transactions/callback.ts"
import { transact as run } from "./internal/transactions/loop.ts"
import { Slots } from "./internal/transactions/slots.ts"
import type { Transaction } from "./Transaction.ts"
import * as Tuple from "./Tuple.ts"

/**
 * Where transactions run: a directory path of a backend. Programs get it from `Tenant.layer` and name it in their
 * requirements; its fields are for the library.
 *
 * @since 0.1.0
 * @category services
 */
export class Tenant extends Context.Service<Tenant, {
  readonly path: ReadonlyArray<string>
  readonly backend: Backend["Service"]
  readonly prefix: Uint8Array
  readonly userPrefix: Uint8Array
  readonly services: Context.Context<never>
  readonly slots: Slots | undefined
  /** Tells this layer from every other one on the same store, in any process. */
  readonly instance: Uint8Array
  /** The definitions that run here, by name: two with one name are refused. */
  readonly definitions: Map<string, object>
  /** The calls of this layer that wait for an answer. */
  readonly calls: Calls
  /** The pushes of this layer: those that come at the same time share a transaction. */
  readonly pushes: Pushes
  /** Closes with the layer: what runs in the background for the tenant ends then. */
  readonly scope: Scope.Scope
}>()("effect-dgen/Tenant") {}

/** A path is part of a key of the store; the rest is room for what the store puts before it. */
const PATH_LIMIT_BYTES = KEY_LIMIT_BYTES - 2 * KEY_PREFIX_ALLOWANCE_BYTES

/** Layers are numbered for each process id, which no other backend has. */
const instances = new WeakMap<object, { next: number }>()

/** One process can build several layers on one store: each has calls and slots of its own. */
const makeInstance = (backend: Backend["Service"]): Uint8Array => {
  let counter = instances.get(backend.processId)
  if (counter === undefined) instances.set(backend.processId, counter = { next: 0 })
  const instance = new Uint8Array(INSTANCE_BYTES)
  instance.set(backend.processId.subarray(0, 16))
  new DataView(instance.buffer).setUint32(16, counter.next++)
  return instance
}

const refuse = (message: string): Effect.Effect<never, BackendError> =>
  Effect.fail(new BackendError({ reason: new InvalidArgument({ message }) }))

const checkPath = (operation: string, path: ReadonlyArray<string>): Effect.Effect<void, BackendError> => {
  // `every` would pass over the holes of an array
  const ok = Array.isArray(path) && path.length > 0 &&
    Array.from(path).every((name) => typeof name === "string" && name.length > 0 && name.isWellFormed())
  if (!ok) {
    return refuse(`${operation}: the path must be one or more non-empty strings, such as ["my-app", "counters"]`)
  }
  const bytes = Tuple.pack(path).length
  return bytes <= PATH_LIMIT_BYTES
    ? Effect.void
    : refuse(`${operation}: the path has ${bytes} bytes, and at most ${PATH_LIMIT_BYTES} fit: shorten its names`)
}

/**
 * The tenant of a directory path, made when it does not exist: one or more non-empty strings. Requires a `Backend`.
 * Fails with `BackendError`: `InvalidArgument` when the path cannot be used, `NewerFormat` when a later version of this
 * library wrote what this one cannot read, or what the store fails with.
 *
 * Layers of one path on one store share its keys; two paths share none, also where one begins with the other. When the
 * layer's scope closes, its calls that wait fail with `ServerStopped`.
 *
 * **Example** (Two tenants on one store)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const write = Tenant.transact(Transaction.set(["k"], Uint8Array.of(1)))
 * const read = Tenant.transact(Transaction.get(["k"]))
 *
 * const program = Effect.gen(function*() {
 *   yield* Effect.provide(write, Tenant.layer(["docs", "a"]))
 *   const a = yield* Effect.provide(read, Tenant.layer(["docs", "a"]))
 *   const b = yield* Effect.provide(read, Tenant.layer(["docs", "b"]))
 *   return [a, b]
 * })
 *
 * await Effect.runPromise(Effect.provide(program, MemoryBackend.layer))
 * // => [Uint8Array.of(1), undefined]
 * ```
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
      const instance = makeInstance(backend)
      const place = { backend, prefix, userPrefix: userPrefix(prefix), services: Context.empty() }
      const listed = yield* open(place, path)
      const presence = yield* Presence.make(place, instance)
      const slots = backend.commitCanBeUnknown
        ? new Slots(Tuple.pack(["slot"], processPrefix(prefix, instance)), presence)
        : undefined
      const calls = yield* Calls.make({ ...place, slots }, instance)
      const services = Context.empty().pipe(
        Context.add(LocalHostsOf, new Map()),
        Context.add(ListedOf, listed),
        Context.add(PresenceOf, presence),
        Context.add(CallsOf, calls)
      )
      const target = { ...place, services, slots }
      const pushes = yield* Pushes.make(target)
      return Tenant.of({
        ...target,
        path: [...path],
        instance,
        definitions: new Map(),
        calls,
        pushes,
        scope: yield* Scope.Scope
      })
    })
  )

/**
 * Runs a transaction effect as one atomic, durable commit. Requires a `Tenant`. Fails with what the effect fails with,
 * and then nothing was written, or with `BackendError`. An interruption before the commit leaves nothing; a commit that
 * began is waited for.
 *
 * The effect runs again when it conflicts, so it may run many times; only the last run counts. One run may take 5
 * seconds, and no new one begins 30 seconds after the first: it then fails with the error of the last run.
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
): Effect.Effect<A, E | BackendError, Tenant> =>
  Effect.flatMap(Tenant, (tenant) =>
    Effect.isEffect(effect)
      ? outside("Tenant.transact", run(tenant, effect))
      : refuse(`Tenant.transact: a transaction must be an Effect, not ${show(effect)}`))

/**
 * Removes a path with everything under it: keys, servers, and paths below. Requires a `Backend`. Succeeds with whether
 * there was one; fails with `BackendError`. Stop what runs there first: what still runs loses its state.
 *
 * **Example** (Removing what lies below a path)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { MemoryBackend, Tenant, Transaction } from "effect-dgen"
 *
 * const program = Effect.gen(function*() {
 *   yield* Effect.provide(Tenant.transact(Transaction.set(["k"], Uint8Array.of(1))), Tenant.layer(["docs", "a"]))
 *   return [yield* Tenant.remove(["docs"]), yield* Tenant.remove(["docs"])]
 * })
 *
 * await Effect.runPromise(Effect.provide(program, MemoryBackend.layer))
 * // => [true, false]
 * ```
 *
 * @since 0.1.0
 * @category running
 */
export const remove = (path: ReadonlyArray<string>): Effect.Effect<boolean, BackendError, Backend> =>
  Effect.flatMap(
    checkPath("Tenant.remove", path),
    () => Effect.flatMap(Backend, (backend) => backend.directory.remove(path))
  )

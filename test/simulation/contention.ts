/**
 * Who need not conflict does not (rule R8): senders that only push, while a consumer takes. Nothing fails here but that
 * reads and commits are slow, so that they overlap.
 */
import { Effect, Random } from "effect"
import { Backend, type BackendError, Tenant } from "effect-dgen"
import { Journal, serve, type Told } from "./journal.ts"

/** Conflicts that each process met. */
export type Conflicts = Map<string, number>

/** The same program on a backend that counts its conflicts. */
export const counted = <A, E, R>(conflicts: Conflicts, name: string, program: Effect.Effect<A, E, R>) =>
  Effect.updateService(program, Backend.Backend, (backend) => ({
    ...backend,
    begin: Effect.map(backend.begin, (driver) => ({
      readVersion: driver.readVersion,
      get: (key: Uint8Array) => driver.get(key),
      getRange: (...args: Parameters<Backend.DriverTransaction["getRange"]>) => driver.getRange(...args),
      close: () => driver.close(),
      commit: (...args: Parameters<Backend.DriverTransaction["commit"]>) =>
        Effect.tapError(driver.commit(...args), (error: BackendError.BackendError) =>
          Effect.sync(() => {
            if (error.reason._tag === "Conflict") conflicts.set(name, (conflicts.get(name) ?? 0) + 1)
          }))
    }))
  }))

/** A server that takes what is pushed, and sends itself nothing. */
export const consume = (told: Told) => serve(told, { consumeK: 7 }, { urges: 0 })

/** Pushes, one after another. */
export const push = (name: string, count: number) =>
  Effect.gen(function*() {
    const journal = yield* Journal.client()
    for (let i = 0; i < count; i++) {
      yield* Effect.sleep((yield* Random.next) * 500)
      yield* journal.cast("Record", `${name}-${i}`)
    }
  }).pipe(Effect.provide(Tenant.layer(["journal"])))

/** What does not hold, in words. */
export const check = (conflicts: Conflicts): ReadonlyArray<string> =>
  [...conflicts].map(([name, count]) => `${name} met ${count} conflicts, with nobody to conflict with`)

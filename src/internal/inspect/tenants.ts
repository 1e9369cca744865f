/**
 * The tenants of a store, by the directories that it has. A path that only stands before others is none, where the store
 * tells them apart.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Backend } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"

/** Whether there is a tenant; `undefined` where the store does not say. */
export const exists = (path: ReadonlyArray<string>): Effect.Effect<boolean | undefined, BackendError, Backend> =>
  Effect.flatMap(Backend, ({ directory }) => directory.exists?.(path) ?? Effect.undefined)

const below = (
  directory: Backend["Service"]["directory"],
  path: ReadonlyArray<string>
): Stream.Stream<ReadonlyArray<string>, BackendError> =>
  Stream.flatMap(
    Stream.fromIterableEffect(directory.list?.(path) ?? Effect.succeed([])),
    (name) => {
      const own = [...path, name]
      const found = Effect.map(directory.exists?.(own) ?? Effect.succeed(true), (is) => is ? [own] : [])
      return Stream.concat(Stream.fromIterableEffect(found), Stream.suspend(() => below(directory, own)))
    }
  )

/** The paths of all tenants, or of those below a path, in the order of their names. */
export const tenants = (
  under: ReadonlyArray<string> = []
): Stream.Stream<ReadonlyArray<string>, BackendError, Backend> =>
  Stream.unwrap(Effect.map(Backend, ({ directory }) => below(directory, under)))

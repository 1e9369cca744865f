/** Transactions on the seam of a backend, without what the library puts above it. */
import { Effect, Layer } from "effect"
import { Backend, type BackendError, MemoryBackend } from "effect-dgen"

type Driver = Backend.DriverTransaction

export const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "latin1"))
export const text = (value: Uint8Array | undefined): string | undefined =>
  value === undefined ? undefined : Buffer.from(value).toString("latin1")
export const point = (key: string): Backend.KeyRange => ({ begin: bytes(key), end: bytes(`${key}\0`) })
export const between = (begin: string, end: string): Backend.KeyRange => ({ begin: bytes(begin), end: bytes(end) })
export const put = (key: string, value: string): Backend.Mutation => ({
  op: "set",
  key: bytes(key),
  value: bytes(value)
})
export const clear = (key: string): Backend.Mutation => ({ op: "clear", key: bytes(key) })

const writeConflict = (mutation: Backend.Mutation): ReadonlyArray<Backend.KeyRange> =>
  mutation.op === "clearRange"
    ? [{ begin: mutation.begin, end: mutation.end }]
    : mutation.op === "versionstampedKey"
    ? []
    : [point(text(mutation.key)!)]

export const get = (driver: Driver, key: string) => Effect.map(driver.get(bytes(key)), text)

export const range = (driver: Driver, begin: string, end: string, limit = Infinity, reverse = false) =>
  Effect.map(
    driver.getRange(bytes(begin), bytes(end), { limit, reverse }),
    (rows) => rows.map(({ key, value }) => [text(key)!, text(value)!] as const)
  )

export const commit = (
  driver: Driver,
  mutations: ReadonlyArray<Backend.Mutation>,
  options: {
    readonly reads?: ReadonlyArray<Backend.KeyRange>
    readonly watches?: ReadonlyArray<Backend.WatchRequest>
    readonly accepted?: () => void
  } = {}
) =>
  driver.commit(
    {
      mutations,
      readConflicts: options.reads ?? [],
      writeConflicts: mutations.flatMap(writeConflict),
      watches: options.watches ?? []
    },
    options.accepted ?? (() => {})
  )

/** A transaction for the length of a function. */
export const within = <A, E>(
  backend: Backend.Backend["Service"],
  use: (driver: Driver) => Effect.Effect<A, E>
) => Effect.acquireUseRelease(backend.begin, use, (driver) => Effect.sync(() => driver.close()))

/** Writes without reading. */
export const write = (backend: Backend.Backend["Service"], ...mutations: ReadonlyArray<Backend.Mutation>) =>
  within(backend, (driver) => commit(driver, mutations))

/** The tag of what an effect fails with, or `"success"`. */
export const outcome = <A>(effect: Effect.Effect<A, { readonly reason: { readonly _tag: string } }>) =>
  Effect.match(effect, { onFailure: (error) => error.reason._tag, onSuccess: () => "success" })

/** The store in memory, with what a test puts around each commit that writes. */
export const committing = (
  around: (
    request: Backend.CommitRequest,
    commit: Effect.Effect<Uint8Array, BackendError.BackendError>
  ) => Effect.Effect<Uint8Array, BackendError.BackendError>
) =>
  Layer.effect(
    Backend.Backend,
    Effect.map(Backend.Backend, (backend) =>
      Backend.Backend.of({
        ...backend,
        begin: Effect.map(backend.begin, (driver) => ({
          ...driver,
          commit: (request, accepted) =>
            request.mutations.length === 0
              ? driver.commit(request, accepted)
              : around(request, Effect.suspend(() => driver.commit(request, accepted)))
        }))
      }))
  ).pipe(Layer.provide(MemoryBackend.layer))

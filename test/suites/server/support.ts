/** What the suites of servers share: a tenant of its own for each test, other tenant layers, and looks into the store. */
import { it } from "@effect/vitest"
import { Cause, type Context, Effect, Exit, Fiber, Layer, Logger, Schedule, type Scope } from "effect"
import { Backend, BackendError, Tenant, Tuple } from "effect-dgen"
import { ServerKeys } from "../../../src/internal/server/kept/layout.ts"

/** A store that the suites run on. */
export type Store = Layer.Layer<Backend.Backend, BackendError.BackendError>

/** What every test has. */
export type Needs = Tenant.Tenant | Backend.Backend | Scope.Scope

/** A consumer that comes back at once. */
export const fast = { restart: Schedule.forever }

/** Makes tests, each in a tenant of its own under `area`. */
export const testsOf = (backend: Store, area: string) => {
  let paths = 0
  return (title: string, test: Effect.Effect<void, unknown, Needs>) =>
    it.live(title, () =>
      test.pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer([area, String(++paths)]).pipe(Layer.provideMerge(backend))),
        Effect.provide(Logger.layer([]))
      ))
}

/** Another tenant layer on the tenant of the test, as another process has one. It lives as long as the test. */
export const elsewhere = Effect.gen(function*() {
  const { path } = yield* Tenant.Tenant
  return yield* Layer.build(Layer.fresh(Tenant.layer(path)))
})

/** What is done around the commits of a tenant layer. */
export interface Hooks {
  /** Before a commit that writes; a failure is the commit's. */
  readonly before?: (request: Backend.CommitRequest) => Effect.Effect<void, BackendError.BackendError>
  /** Before a read of a key. */
  readonly gets?: (key: Uint8Array) => void
  /** Before a read of a range. */
  readonly reads?: (begin: Uint8Array) => void
  /** After a commit that wrote. */
  readonly after?: (request: Backend.CommitRequest) => Effect.Effect<void>
  /** After a commit that wrote nothing and armed watches. */
  readonly watched?: (watches: ReadonlyArray<Backend.WatchRequest>) => Effect.Effect<void>
}

/** Another tenant layer, whose commits can be watched, held up and refused. */
export const tapped = (hooks: Hooks) =>
  Effect.gen(function*() {
    const { path } = yield* Tenant.Tenant
    const backend = yield* Backend.Backend
    const begin = Effect.map(backend.begin, (driver): Backend.DriverTransaction => ({
      readVersion: driver.readVersion,
      get: (key) => {
        hooks.gets?.(key)
        return driver.get(key)
      },
      getRange: (begin, end, options) => {
        hooks.reads?.(begin)
        return driver.getRange(begin, end, options)
      },
      commit: (request, accepted) =>
        request.mutations.length === 0
          ? Effect.tap(
            driver.commit(request, accepted),
            () => request.watches.length === 0 ? Effect.void : hooks.watched?.(request.watches) ?? Effect.void
          )
          : Effect.andThen(
            hooks.before?.(request) ?? Effect.void,
            Effect.tap(driver.commit(request, accepted), () => hooks.after?.(request) ?? Effect.void)
          ),
      close: () => driver.close()
    }))
    const layer = Layer.succeed(Backend.Backend, Backend.Backend.of({ ...backend, begin }))
    return yield* Layer.build(Layer.fresh(Tenant.layer(path)).pipe(Layer.provide(layer)))
  })

/** What a store says to a commit that conflicts. */
export const conflict = new BackendError.BackendError({
  reason: new BackendError.Conflict({ message: "refused by a test" })
})

/** Writes as the store's neighbour: past all that the library knows of its keys. */
export const overwrite = (mutations: ReadonlyArray<Backend.Mutation>) =>
  Effect.flatMap(Backend.Backend, (backend) =>
    Effect.acquireUseRelease(
      backend.begin,
      (driver) =>
        driver.commit({
          mutations,
          readConflicts: [],
          writeConflicts: mutations.map((mutation) =>
            mutation.op === "clearRange" ? mutation : { begin: mutation.key, end: Tuple.strinc(mutation.key) }
          ),
          watches: []
        }, () => {}),
      (driver) => Effect.sync(() => driver.close())
    ))

/** Runs with what another tenant layer gives. */
export const inside = (context: Context.Context<Tenant.Tenant>) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provideContext(effect, context)

/** The keys of a server. */
export const keysOf = (tuid: Tuple.Tuple) =>
  Effect.map(Tenant.Tenant, (tenant) => new ServerKeys(tenant.prefix, tuid, { name: "", hosted: false }))

/** The rows of the store under a prefix. */
export const rowsUnder = (prefix: Uint8Array) =>
  Effect.flatMap(Backend.Backend, (backend) =>
    Effect.acquireUseRelease(
      backend.begin,
      (driver) => driver.getRange(prefix, Tuple.strinc(prefix), { limit: Infinity, reverse: false }),
      (driver) => Effect.sync(() => driver.close())
    ))

/** Everything that the store has of a server, as tuples after its prefix. */
export const scan = (tuid: Tuple.Tuple) =>
  Effect.gen(function*() {
    const { prefix } = yield* keysOf(tuid)
    const rows = yield* rowsUnder(prefix)
    return rows.map((row) => Tuple.unpack(row.key, prefix.length))
  })

/** The calls that the store has as waiting for a server. */
export const waitingCalls = (tuid: Tuple.Tuple) => Effect.flatMap(keysOf(tuid), ({ waiting }) => rowsUnder(waiting))

/** Whether a commit takes messages off the queue of a server, or puts some there. */
export const touches = (prefix: Uint8Array) => (mutation: Backend.Mutation) =>
  mutation.op !== "clearRange" && Buffer.from(mutation.key).subarray(0, prefix.length).equals(Buffer.from(prefix))

/** Looks again and again, as other fibers go on, until it is so. */
export const until = <A, E, R>(look: Effect.Effect<A, E, R>, is: (value: A) => boolean) =>
  Effect.repeat(look, { until: is })

/** The only failure of a fiber that was forked with an effect that fails. */
export const failureOf = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<E> => Effect.flip(Fiber.join(fiber)) as any

/** The text of a defect, or `undefined` when the exit has none. */
export const defectOf = (exit: Exit.Exit<unknown, unknown>): string | undefined =>
  Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : undefined

/** A log that keeps its lines for tests. */
export const keptLogs = () => {
  const lines: Array<string> = []
  const layer = Logger.layer([
    Logger.make(({ cause, logLevel, message }) =>
      void lines.push(`${logLevel} ${[message].flat().map(String).join(" ")} ${Cause.pretty(cause)}`)
    )
  ])
  return { lines, layer, count: (part: string) => lines.filter((line) => line.includes(part)).length }
}

/** What the suites of jobs share. */
import { it } from "@effect/vitest"
import { Clock, type Duration, Effect, Exit, Layer, Logger, Option, Schema, Scope } from "effect"
import { type Backend, type BackendError, type Jobs, Tenant, Transaction, Tuple } from "effect-dgen"
import { TestClock } from "effect/testing"
import { processesPrefix } from "../../../src/internal/tenant/layout.ts"

export type BackendLayer = Layer.Layer<Backend.Backend, BackendError.BackendError>
type Services = Tenant.Tenant | Backend.Backend | Scope.Scope

export const Data = Schema.Struct({ url: Schema.String, done: Schema.Number })
export const data = (done: number) => ({ url: "a.png", done })

/** Short enough to wait for, long enough for heartbeats on a busy machine. */
export const SHORT = "300 millis"

/** The test's clock, whose date is set without that time passes: as by a person, or by the sleep of a machine. */
export const setClock = (clock: Clock.Clock) => {
  const set = { aheadMillis: 0 }
  const millis = () => clock.currentTimeMillisUnsafe() + set.aheadMillis
  const nanos = () => clock.currentTimeNanosUnsafe() + BigInt(set.aheadMillis) * 1_000_000n
  const shown: Clock.Clock = {
    ...clock,
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos)
  }
  return { set, shown }
}

let paths = 0
const quiet = Logger.layer([])

/**
 * Beside a test on a store that is far away: a transaction that meets others there waits a moment before it tries again, and
 * would wait for ever by a clock that stands. Slow enough for a test that goes on not to notice.
 */
const creeping = Effect.forever(Effect.andThen(TestClock.withLive(Effect.sleep("100 millis")), TestClock.adjust(5)))

/** Tests in a tenant of their own. */
export const harness = (backend: BackendLayer, isNear = true) => {
  const run = (test: Effect.Effect<void, unknown, Services>) =>
    test.pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["jobs", String(++paths)]).pipe(Layer.provideMerge(backend))),
      Effect.provide(quiet)
    )
  // around the end of the scope, too: a worker that is closed has time
  const inTime = (test: Effect.Effect<void, unknown, Services>) =>
    isNear ? run(test) : Effect.raceFirst(run(test), creeping)
  return {
    live: (title: string, test: Effect.Effect<void, unknown, Services>, timeoutMillis?: number) =>
      it.live(title, () => run(test), timeoutMillis),
    /** With a clock that the test sets; it is at `startMillis` before anything is built that could wake up until then. */
    timed: (title: string, startMillis: number, test: Effect.Effect<void, unknown, Services>) =>
      it.effect(title, () => Effect.andThen(TestClock.setTime(startMillis), inTime(test))),
    /** The same with a clock whose date can be set besides, without that time passes. */
    dated: (
      title: string,
      startMillis: number,
      test: (clock: { aheadMillis: number }) => Effect.Effect<void, unknown, Services>
    ) =>
      it.effect(title, () =>
        Effect.flatMap(Clock.Clock, (clock) => {
          const { set, shown } = setClock(clock)
          return Effect.andThen(
            TestClock.setTime(startMillis),
            Effect.provideService(inTime(test(set)), Clock.Clock, shown)
          )
        }))
  }
}

export type Harness = ReturnType<typeof harness>

/** Lets all fibers go on until they wait for the clock of the test. */
export const settle = Effect.repeat(Effect.yieldNow, { times: 50 })

export const pass = (duration: Duration.Input) => Effect.andThen(TestClock.adjust(duration), settle)

/** Runs an effect as another process would: in a tenant layer of its own on the same path. */
export const elsewhere = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Tenant.Tenant, ({ path }) => Effect.provide(effect, Layer.fresh(Tenant.layer(path))))

/** Builds a layer in a scope of its own: succeeds with what closes it. */
export const opened = <E, R>(layer: Layer.Layer<never, E, R>) =>
  Effect.gen(function*() {
    const scope = yield* Effect.scope
    const own = yield* Scope.fork(scope)
    yield* Layer.buildWithScope(layer, own)
    return Scope.close(own, Exit.void)
  })

/** Every row of the tenant but what processes keep for themselves, such as the slots of their transactions. */
export const allKeys = Tenant.transact(
  Effect.flatMap(Transaction.Transaction, (state) => {
    const processes = Buffer.from(processesPrefix(state.prefix))
    return Effect.map(
      state.getRange(state.prefix, Tuple.strinc(state.prefix)),
      (rows) => rows.filter((row) => !processes.equals(row.key.subarray(0, processes.length)))
    )
  })
)

/** A job that somebody else would have to add first. */
export const acceptNow = <A>(type: Jobs.JobType<A>) => Effect.map(type.accept({ timeout: 0 }), Option.getOrUndefined)

/** A program without types. */
export const untyped = (
  value: object
): Record<string, (...args: ReadonlyArray<unknown>) => Effect.Effect<any, any, any>> => value as any

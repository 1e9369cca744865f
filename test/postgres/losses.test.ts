/** Connections that are terminated, and a server that is killed, under load: nothing is lost, doubled, or hangs. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schedule } from "effect"
import { PostgresBackend, Tenant, Transaction } from "effect-dgen"
import { lockOf } from "../../src/internal/postgres/lanes.ts"
import { freshSchema, server } from "./support.ts"
import { survives } from "./survives.ts"

const run = (text: string) => Effect.promise(() => server.run(text))

/** Waits until a statement selects something. */
const until = (text: string) =>
  Effect.repeat(Effect.andThen(Effect.sleep(5), run(text)), { until: (rows) => rows.length > 0 })

const OURS = "application_name = 'effect-dgen'"

const terminate = (which: string) =>
  run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${OURS} AND ${which}`)

describe("PostgresBackend", () => {
  it.live("survives sessions that are terminated again and again", () =>
    survives(
      { url: server.url, schema: freshSchema() },
      400,
      Effect.repeat(terminate("true"), { schedule: Schedule.spaced("60 millis"), times: 15 })
    ), 120_000)

  it.live("survives a server that is killed and started again", () =>
    survives(
      { url: server.url, schema: freshSchema() },
      400,
      Effect.gen(function*() {
        for (let round = 0; round < 2; round++) {
          yield* Effect.sleep("150 millis")
          yield* Effect.promise(server.kill)
          yield* Effect.promise(server.start)
        }
      })
    ), 120_000)
})

describe("a layer whose sessions the server ends when they rest", () => {
  it.live("opens others, to commit, to read and to hear", () =>
    Effect.gen(function*() {
      yield* run("CREATE ROLE resting SUPERUSER LOGIN; ALTER ROLE resting SET idle_session_timeout = '100ms'")
      const url = server.url.replace("postgres@", "resting@")
      const store = Layer.provide(Tenant.layer(["resting"]), PostgresBackend.layer({ url, schema: freshSchema() }))
      const [here, there] = [yield* Layer.build(Layer.fresh(store)), yield* Layer.build(Layer.fresh(store))]
      for (let round = 1; round <= 3; round++) {
        const { changed } = yield* Tenant.transact(Transaction.watch(["n"])).pipe(Effect.provide(here))
        const rested =
          "SELECT WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'resting' AND query NOT LIKE 'LISTEN%')"
        yield* until(rested)
        yield* Tenant.transact(Transaction.set(["n"], Uint8Array.of(round))).pipe(Effect.provide(there))
        yield* Effect.timeout(changed, "10 seconds")
      }
    }).pipe(Effect.scoped), 60_000)
})

/** Where a session is terminated: what holds it up there, and lets it go on. */
const GATE = 4_711

const blocking = (schema: string, trigger: string) =>
  `CREATE FUNCTION ${schema}.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(${GATE}); ` +
  `RETURN NULL; END $$; ${trigger}`

const steps: ReadonlyArray<readonly [title: string, prepare: (schema: string, lane: bigint) => string]> = [
  ["waits for its turn", (_, lane) => `SELECT ${lane} AS gate`],
  [
    "has checked and is writing",
    (schema) =>
      blocking(schema, `CREATE TRIGGER gate AFTER INSERT OR UPDATE ON ${schema}.data EXECUTE FUNCTION ${schema}.gate()`)
  ],
  ["has written and is committing", (schema) =>
    blocking(
      schema,
      `CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON ${schema}.log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW ` +
        `EXECUTE FUNCTION ${schema}.gate()`
    )]
]

describe("a transaction whose session is terminated is applied once", () => {
  const bump = (between: Effect.Effect<unknown, never, Transaction.Transaction> = Effect.void) =>
    Tenant.transact(Effect.gen(function*() {
      const n = (yield* Transaction.get(["n"]))?.[0] ?? 0
      yield* between
      yield* Transaction.get(["other"])
      yield* Transaction.set(["n"], Uint8Array.of(n + 1))
      yield* Transaction.add(["sum"], 1)
    }))
  const values = Tenant.transact(
    Effect.map(
      Effect.all([Transaction.get(["n"]), Transaction.get(["sum"])]),
      (found) => found.map((value) => value?.[0])
    )
  )
  const live = (
    title: string,
    test: (schema: string) => Effect.Effect<unknown, unknown, Tenant.Tenant>
  ) =>
    it.live(title, () => {
      const schema = freshSchema()
      return Effect.gen(function*() {
        yield* bump()
        yield* test(schema)
        assert.deepStrictEqual(yield* values, [2, 2])
      }).pipe(
        Effect.provide(Layer.provide(Tenant.layer(["terminated"]), PostgresBackend.layer({ url: server.url, schema })))
      )
    }, 60_000)

  live("before it begins", () => Effect.andThen(terminate("true"), bump()))

  live("between its reads", () => {
    let tries = 0
    return Effect.andThen(
      bump(Effect.suspend(() => ++tries === 1 ? terminate("state = 'idle in transaction'") : Effect.void)),
      Effect.sync(() => assert.isAbove(tries, 1))
    )
  })

  for (const [title, prepare] of steps) {
    live(`while its commit ${title}`, (schema) =>
      Effect.gen(function*() {
        const [{ store }] = yield* run(`SELECT store::text FROM ${schema}.meta`)
        const [{ lane }] = yield* run(`SELECT lane FROM ${schema}.log ORDER BY version DESC LIMIT 1`)
        const lock = lockOf(store, (lane as Buffer).toString("latin1"))
        const [asked] = yield* run(prepare(schema, lock))
        const gate: bigint | string | number = asked?.gate ?? GATE
        const stopper = yield* Effect.forkChild(
          run(`BEGIN; SELECT pg_advisory_xact_lock(${gate}); SELECT pg_sleep(60); COMMIT`).pipe(Effect.ignoreCause)
        )
        yield* until("SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND wait_event = 'PgSleep'")
        const bumping = yield* Effect.forkChild(bump())
        yield* until(`SELECT 1 FROM pg_stat_activity WHERE ${OURS} AND wait_event = 'advisory'`)
        yield* terminate("wait_event = 'advisory'")
        yield* run(`DROP TRIGGER IF EXISTS gate ON ${schema}.data; DROP TRIGGER IF EXISTS gate ON ${schema}.log`).pipe(
          Effect.forkChild
        )
        yield* run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        yield* Fiber.join(bumping)
        yield* Fiber.interrupt(stopper)
      }))
  }
})

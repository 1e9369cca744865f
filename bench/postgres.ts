/**
 * Durable calls on a PostgreSQL server against a bare `UPDATE` in its own transaction on it and against persisted entities of
 * Effect Cluster, jobs against pg-boss and graphile-worker, all on one server and as ratios within one run; and what the
 * store's tables take, also beside a transaction of somebody else's that stays open.
 *
 *   npm run bench:postgres
 */
import { Effect, Layer, Schema } from "effect"
import { DgenServer, PostgresBackend, Tenant } from "effect-dgen"
import * as os from "node:os"
import { Client } from "pg"
import { startServer } from "../test/postgres/throwawayServer.ts"
import { effectDgen, graphileWorker, pgBoss } from "./jobsContenders.ts"
import { compare } from "./jobsMeasures.ts"
import { connectionOf } from "./jobsServers.ts"
import { clusterAdd, clusterLayer } from "./postgresCluster.ts"

const ROUNDS = 3
const CALLS = 300
const CALLERS = 64
const CASTS = 10_000

class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
    Bump: DgenServer.cast()
  }
}) {}

const behaviour = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: {
    Add: ({ by }, state) => DgenServer.reply(state.count + by, { count: state.count + by }),
    Bump: (_, state) => DgenServer.noReply({ count: state.count + 1 })
  }
})

/** Milliseconds for each of so many. */
const each = <A, E, R>(count: number, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const start = performance.now()
    yield* effect
    return (performance.now() - start) / count
  })

const row = (name: string, millis: number, ratio: string) =>
  console.log(name.padEnd(56) + `${millis.toFixed(2)} ms`.padStart(12) + ratio.padStart(24))

// on a disk: in memory a sync costs nothing, and what is compared is the processor alone
const server = await startServer(["max_connections=200"], os.tmpdir())
const client = new Client({ connectionString: server.url })
await client.connect()
await client.query("CREATE TABLE bare (id int PRIMARY KEY, count int); INSERT INTO bare VALUES (1, 0)")

const bare = Effect.promise(async () => {
  for (let i = 0; i < CALLS; i++) await client.query("UPDATE bare SET count = count + 1 WHERE id = 1 RETURNING count")
})

/** Calls one after another, and of many callers: milliseconds for each. */
const calls = <E, R>(add: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function*() {
    const sequential = yield* each(CALLS, Effect.forEach(Array.from({ length: CALLS }), () => add, { discard: true }))
    const total = CALLERS * 20
    const together = yield* each(
      total,
      Effect.forEach(Array.from({ length: total }), () => add, { concurrency: CALLERS, discard: true })
    )
    return { sequential, together }
  })

const size = (table: string): Promise<string> =>
  server.run(
    `SELECT pg_size_pretty(pg_total_relation_size('effect_dgen.${table}')) AS size, ` +
      `(SELECT count(*) FROM effect_dgen.${table})::int AS rows, n_dead_tup AS dead FROM pg_stat_user_tables ` +
      `WHERE schemaname = 'effect_dgen' AND relname = '${table}'`
  ).then(([row]) => `${table} ${row.size} (${row.rows} rows, ${row.dead} dead)`)

const sizes = (when: string) =>
  Effect.promise(async () => console.log(`${when}: ${(await Promise.all(["log", "data"].map(size))).join(", ")}`))

const bench = Effect.gen(function*() {
  const counter = yield* Counter.start(behaviour, { tuid: ["Counter"] })
  const add = counter.call("Add", { by: 1 }, { timeout: "60 seconds" })
  const clustered = yield* clusterAdd
  yield* Effect.all([add, clustered])
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`round ${round}`)
    const alone = yield* each(CALLS, bare)
    row("a bare UPDATE after another", alone, "1")
    const own = yield* calls(add)
    row("a call after another", own.sequential, `${(own.sequential / alone).toFixed(2)} times a bare one`)
    row(`a call of ${CALLERS} callers`, own.together, `${(own.sequential / own.together).toFixed(1)} times as many`)
    const theirs = yield* calls(clustered)
    row(
      "a call of Effect Cluster after another",
      theirs.sequential,
      `${(theirs.sequential / own.sequential).toFixed(1)} times ours`
    )
    row(
      `a call of Effect Cluster of ${CALLERS} callers`,
      theirs.together,
      `${(theirs.together / own.together).toFixed(1)} times ours`
    )
  }
  const cast = (count: number) =>
    Effect.andThen(
      Effect.forEach(Array.from({ length: count }), () => counter.cast("Bump"), { concurrency: 256, discard: true }),
      Effect.repeat(Effect.andThen(Effect.sleep(20), counter.queueLength), { until: (length) => length === 0 })
    )
  row(`a cast, of ${CASTS}, pushed and handled`, yield* each(CASTS, cast(CASTS)), "")
  yield* sizes("after them")
  yield* Effect.promise(() => client.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM bare"))
  row("the same beside a transaction that stays open", yield* each(CASTS, cast(CASTS)), "")
  yield* sizes("after these")
  yield* Effect.promise(() => client.query("COMMIT"))
  yield* cast(CASTS)
  yield* sizes("and when it has ended, after as many")
})

await Effect.runPromise(
  bench.pipe(
    Effect.scoped,
    Effect.provide(Layer.provide(Tenant.layer(["bench"]), PostgresBackend.layer({ url: server.url }))),
    Effect.provide(clusterLayer(server.url))
  )
)
let queues = 0
const place = { ...connectionOf(server.port), stop: () => Promise.resolve() }
await compare([
  effectDgen("PostgreSQL", () => ({
    backend: PostgresBackend.layer({ url: server.url, schema: `jobs_${++queues}` }),
    remove: () => {}
  })),
  await pgBoss(place),
  await graphileWorker(place)
])
await client.end()
server.stop()

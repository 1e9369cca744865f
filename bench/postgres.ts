/**
 * Durable calls on a PostgreSQL server against a bare `UPDATE` in its own transaction on it, as ratios within one run, and what
 * the store's tables take.
 *
 *   npm run bench:postgres
 */
import { Effect, Layer, Schema } from "effect"
import { DgenServer, PostgresBackend, Tenant } from "effect-dgen"
import * as os from "node:os"
import { Client } from "pg"
import { startServer } from "../test/postgres/throwawayServer.ts"

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
const server = await startServer([], os.tmpdir())
const client = new Client({ connectionString: server.url })
await client.connect()
await client.query("CREATE TABLE bare (id int PRIMARY KEY, count int); INSERT INTO bare VALUES (1, 0)")

const bare = Effect.promise(async () => {
  for (let i = 0; i < CALLS; i++) await client.query("UPDATE bare SET count = count + 1 WHERE id = 1 RETURNING count")
})

const bench = Effect.gen(function*() {
  const counter = yield* Counter.start(behaviour, { tuid: ["Counter"] })
  const add = counter.call("Add", { by: 1 }, { timeout: "60 seconds" })
  yield* add
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`round ${round}`)
    const alone = yield* each(CALLS, bare)
    row("a bare UPDATE after another", alone, "1")
    const sequential = yield* each(CALLS, Effect.forEach(Array.from({ length: CALLS }), () => add, { discard: true }))
    row("a call after another", sequential, `${(sequential / alone).toFixed(2)} times a bare one`)
    const total = CALLERS * 20
    const together = yield* each(
      total,
      Effect.forEach(Array.from({ length: total }), () => add, { concurrency: CALLERS, discard: true })
    )
    row(`a call of ${CALLERS} callers`, together, `${(sequential / together).toFixed(1)} times as many`)
  }
  const casts = yield* each(
    CASTS,
    Effect.andThen(
      Effect.forEach(Array.from({ length: CASTS }), () => counter.cast("Bump"), { concurrency: 256, discard: true }),
      Effect.repeat(Effect.andThen(Effect.sleep(20), counter.queueLength), { until: (length) => length === 0 })
    )
  )
  row(`a cast, of ${CASTS}, pushed and handled`, casts, "")
})

await Effect.runPromise(
  bench.pipe(
    Effect.scoped,
    Effect.provide(Layer.provide(Tenant.layer(["bench"]), PostgresBackend.layer({ url: server.url })))
  )
)
const [sizes] = await server.run(
  "SELECT (SELECT count(*) FROM effect_dgen.log)::int AS log, (SELECT count(*) FROM effect_dgen.data)::int AS data, " +
    "pg_size_pretty(pg_total_relation_size('effect_dgen.log')) AS log_size, " +
    "pg_size_pretty(pg_total_relation_size('effect_dgen.data')) AS data_size"
)
console.log(`log: ${sizes.log} rows, ${sizes.log_size}; data: ${sizes.data} rows, ${sizes.data_size}`)
await client.end()
server.stop()

/** Transaction effects within transactions of the user's own: they commit with the user's tables, or not at all. */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Redacted, Schema, type Scope } from "effect"
import { DgenServer, Jobs, MemoryBackend, PostgresBackend, Tenant, Transaction, Tuple } from "effect-dgen"
import { Client, Pool } from "pg"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"
import { freshSchema, server } from "./support.ts"

const { transactWith } = PostgresBackend
type Services = Tenant.Tenant | Scope.Scope

let tables = 0

/** A client of the user's, with a table of its own; `code` is what a statement fails with. */
const client = Effect.map(
  Effect.acquireRelease(
    Effect.promise(async () => {
      const pg = new Client({ connectionString: server.url })
      pg.on("error", () => {})
      await pg.connect()
      return pg
    }),
    (pg) => Effect.promise(() => pg.end())
  ),
  (pg) => {
    const table = `orders_${++tables}`
    const run = (text: string) => Effect.promise(async () => (await pg.query(text)).rows as Array<any>)
    const code = (text: string) =>
      Effect.promise(() => pg.query(text).then(() => "none", (error: { code: string }) => error.code))
    return {
      pg,
      run,
      code,
      create: run(`CREATE TABLE ${table} (id text PRIMARY KEY)`),
      insert: (id: string) => run(`INSERT INTO ${table} VALUES ('${id}')`),
      orders: Effect.map(run(`SELECT id FROM ${table} ORDER BY id`), (rows) => rows.map(({ id }) => id as string))
    }
  }
)

const on = (schema: string, path = "app") =>
  Layer.provide(Tenant.layer([path]), Layer.fresh(PostgresBackend.layer({ url: server.url, schema })))

const live = (title: string, test: (schema: string) => Effect.Effect<void, unknown, Services>) =>
  it.live(title, () => {
    const schema = freshSchema()
    return test(schema).pipe(Effect.scoped, Effect.provide(on(schema)))
  }, 60_000)

const set = (name: string, byte: number) => Transaction.set([name], Uint8Array.of(byte))
const get = (name: string) => Effect.map(Transaction.get([name]), (value) => value?.[0])
const stored = (name: string) => Tenant.transact(get(name))
const start = Ledger.start(ledger(), { tuid: ["Ledger"] }).pipe(Effect.provide(ledgerActions()))
const record = (item: string) => Ledger.castTx("Record", { item }, { tuid: ["Ledger"] })
/** Waits for what wakes the server, and for nothing else: its items come in as a call finds them. */
const until = (running: Effect.Success<typeof start>, count: number) =>
  Effect.repeat(running.call("Items"), { until: (items) => items.length >= count })

describe("PostgresBackend.transactWith", () => {
  live("commits with the user's tables, and is rolled back with them", () =>
    Effect.gen(function*() {
      const { create, insert, orders, pg, run } = yield* client
      yield* create
      const running = yield* start
      for (const [id, end] of [["a", "COMMIT"], ["b", "ROLLBACK"], ["c", "COMMIT"]] as const) {
        yield* run("BEGIN")
        yield* insert(id)
        yield* transactWith(pg, record(id))
        assert.strictEqual(yield* stored(id), undefined)
        yield* transactWith(pg, set(id, 1))
        yield* run(end)
      }
      assert.deepStrictEqual(yield* until(running, 2), ["a", "c"])
      assert.deepStrictEqual(yield* orders, ["a", "c"])
      assert.deepStrictEqual(yield* Effect.all([stored("a"), stored("b"), stored("c")]), [1, undefined, 1])
    }))

  live("wakes a server of this process and of another one that wait", (schema) =>
    Effect.gen(function*() {
      const { pg, run } = yield* client
      const done = yield* Deferred.make<void>()
      class Waiter extends DgenServer.Service<Waiter>()("Waiter", {
        state: Schema.Struct({ count: Schema.Int }),
        messages: { Come: DgenServer.cast() },
        actions: { Done: Schema.Struct({}) }
      }) {}
      const behaviour = Waiter.behaviour({
        init: Effect.succeed({ count: 0 }),
        handlers: {
          Come: (_, { count }) => DgenServer.noReply({ count: count + 1 }, [Waiter.action("Done", {})])
        }
      })
      const actions = Waiter.actionsLayer({ Done: () => Effect.asVoid(Deferred.succeed(done, undefined)) })
      const there = yield* Layer.build(on(schema))
      yield* Waiter.start(behaviour, { tuid: ["there"] }).pipe(Effect.provide(actions), Effect.provide(there))
      yield* run("BEGIN")
      yield* transactWith(pg, Waiter.castTx("Come", undefined, { tuid: ["there"] }))
      assert.isFalse(yield* Deferred.isDone(done))
      yield* run("COMMIT")
      // far below the timer behind
      yield* Effect.timeout(Deferred.await(done), "5 seconds")
    }))

  live(
    "fails the user's commit with a serialization failure when others wrote what it read, and works again",
    () =>
      Effect.gen(function*() {
        const { code, create, insert, orders, pg, run } = yield* client
        yield* create
        yield* Tenant.transact(set("n", 1))
        const attempt = (between: Effect.Effect<unknown, unknown, Tenant.Tenant>) =>
          Effect.gen(function*() {
            yield* run("BEGIN")
            yield* insert("a")
            const n = yield* transactWith(pg, get("n"))
            yield* transactWith(pg, set("copy", n!))
            yield* between
            return yield* code("COMMIT")
          })
        assert.strictEqual(yield* attempt(Tenant.transact(set("n", 2))), "40001")
        assert.deepStrictEqual(yield* orders, [])
        assert.strictEqual(yield* stored("copy"), undefined)
        assert.strictEqual(yield* attempt(Tenant.transact(set("other", 2))), "none")
        assert.deepStrictEqual([yield* stored("copy"), yield* orders], [2, ["a"]])
      })
  )

  live("two such transactions that read what the other writes do not both commit", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* client, yield* client]
      for (const { run } of [one, two]) yield* run("BEGIN")
      const either = Effect.zipWith(get("x"), get("y"), (x, y) => x ?? y)
      assert.isUndefined(yield* transactWith(one.pg, Effect.tap(either, () => set("x", 1))))
      assert.isUndefined(yield* transactWith(two.pg, Effect.tap(either, () => set("y", 1))))
      const codes = [yield* one.code("COMMIT"), yield* two.code("COMMIT")]
      assert.deepStrictEqual(codes, ["none", "40001"])
    }))

  live(
    "calls of one transaction see what those before wrote, in their order, and not what a savepoint took back",
    () =>
      Effect.gen(function*() {
        const { pg, run } = yield* client
        yield* Tenant.transact(Effect.andThen(set("old", 1), Transaction.add(["sum"], 5)))
        yield* run("BEGIN")
        yield* transactWith(pg, Effect.all([set("a", 1), Transaction.clear(["old"]), Transaction.add(["sum"], 1)]))
        yield* transactWith(pg, record("1"))
        yield* run("SAVEPOINT here")
        yield* transactWith(pg, Effect.all([set("a", 2), set("b", 2), record("gone")]))
        assert.deepStrictEqual(yield* transactWith(pg, Effect.all([get("a"), get("b")])), [2, 2])
        yield* run("ROLLBACK TO SAVEPOINT here")
        yield* transactWith(pg, record("2"))
        const seen = yield* transactWith(
          pg,
          Effect.all([
            get("a"),
            get("b"),
            get("old"),
            get("sum"),
            Effect.map(Transaction.getRange([]), (rows) => rows.length)
          ])
        )
        assert.deepStrictEqual(seen, [1, undefined, undefined, 6, 2])
        yield* run("RELEASE SAVEPOINT here")
        yield* transactWith(pg, record("3"))
        yield* run("COMMIT")
        assert.deepStrictEqual(yield* Effect.all([stored("a"), stored("b"), stored("old"), stored("sum")]), [
          1,
          undefined,
          undefined,
          6
        ])
        assert.deepStrictEqual(yield* until(yield* start, 3), ["1", "2", "3"])
      })
  )

  live("an effect that fails leaves the user's transaction as it was", () =>
    Effect.gen(function*() {
      const { create, insert, orders, pg, run } = yield* client
      yield* create
      yield* run("BEGIN")
      yield* transactWith(pg, set("kept", 1))
      yield* insert("a")
      const failing = Effect.andThen(set("kept", 2), Effect.fail("no" as const))
      assert.strictEqual(yield* Effect.flip(transactWith(pg, failing)), "no")
      assert.isTrue(
        Exit.hasDies(yield* Effect.exit(transactWith(pg, Effect.andThen(set("kept", 3), Effect.die("bug")))))
      )
      yield* run("COMMIT")
      assert.deepStrictEqual([yield* stored("kept"), yield* orders], [1, ["a"]])
    }))

  live("jobs are added, changed and taken back with it, and run after the commit", () =>
    Effect.gen(function*() {
      const { pg, run } = yield* client
      const Mails = Jobs.make("mails", { data: Schema.Struct({ to: Schema.String }) })
      const ran: Array<string> = []
      const all = yield* Deferred.make<void>()
      yield* Layer.build(Mails.workerLayer((job) =>
        Effect.andThen(
          Effect.sync(() => ran.push(job.data.to)),
          job.id === 2 ? Effect.asVoid(Deferred.succeed(all, undefined)) : Effect.void
        ), { concurrency: 1 }))
      yield* run("BEGIN")
      yield* transactWith(pg, Mails.add(1, { to: "a" }))
      assert.deepStrictEqual(yield* transactWith(pg, Mails.getData(1)), { to: "a" })
      yield* transactWith(pg, Mails.resubmit(1, { data: { to: "b" } }))
      yield* run("SAVEPOINT here")
      yield* transactWith(pg, Mails.add(3, { to: "nobody" }))
      yield* run("ROLLBACK TO SAVEPOINT here")
      yield* transactWith(pg, Mails.add(2, { to: "c" }))
      assert.strictEqual(yield* Tenant.transact(Effect.map(Mails.counts, ({ pending }) => pending)), 0)
      yield* run("COMMIT")
      yield* Effect.timeout(Deferred.await(all), "10 seconds")
      assert.deepStrictEqual(ran, ["b", "c"])
    }))

  live("answers a call that waits, with the commit and not before", () =>
    Effect.gen(function*() {
      const { pg, run } = yield* client
      class Desk extends DgenServer.Service<Desk>()("Desk", {
        state: Schema.Struct({ from: Schema.NullOr(DgenServer.From) }),
        messages: { Wait: DgenServer.call({ success: Schema.Int }), Who: DgenServer.call({ success: DgenServer.From }) }
      }) {}
      const desk = yield* Desk.start(
        Desk.behaviour({
          init: Effect.succeed({ from: null }),
          handlers: {
            Wait: (_, _state, { from }) => DgenServer.noReply({ from: from! }),
            Who: (_, state) => DgenServer.reply(state.from!, state)
          }
        }),
        { tuid: ["Desk"] }
      )
      const waiting = yield* Effect.forkChild(desk.call("Wait", undefined, { timeout: "20 seconds" }))
      yield* Effect.repeat(desk.state, { until: (state) => state?.from !== null })
      const from = yield* desk.call("Who")
      yield* run("BEGIN")
      yield* transactWith(pg, Desk.replyTo(from, Exit.succeed(7)))
      assert.isUndefined(waiting.pollUnsafe())
      yield* run("COMMIT")
      assert.strictEqual(yield* Fiber.join(waiting), 7)
    }))

  live(
    "one transaction has parts in several tenants, and two that have them crosswise both end",
    (schema) =>
      Effect.gen(function*() {
        const [one, two] = [yield* client, yield* client]
        const second = yield* Layer.build(on(schema, "second"))
        const here = (pg: Client) => transactWith(pg, Transaction.add(["n"], 1))
        const there = (pg: Client) => Effect.provide(here(pg), second)
        for (let round = 0; round < 20; round++) {
          for (const { run } of [one, two]) yield* run("BEGIN")
          yield* here(one.pg)
          yield* there(two.pg)
          yield* there(one.pg)
          yield* here(two.pg)
          const codes = yield* Effect.all([one.code("COMMIT"), two.code("COMMIT")], { concurrency: "unbounded" })
          assert.deepStrictEqual(codes, ["none", "none"])
        }
        assert.deepStrictEqual([yield* stored("n"), yield* Effect.provide(stored("n"), second)], [40, 40])
      })
  )

  live("its versions grow in the order of commits, among those of the library", (schema) =>
    Effect.gen(function*() {
      const elsewhere = yield* Layer.build(on(schema))
      const push = Transaction.setVersionstampedKey(["q", Tuple.Versionstamp.incomplete()], Uint8Array.of(1))
      const keys = Tenant.transact(
        Effect.map(
          Transaction.getRange(["q"], { snapshot: true }),
          (rows) => rows.map(({ key }) => JSON.stringify(key))
        )
      )
      const own = Effect.scoped(Effect.flatMap(client, ({ pg, run }) =>
        Effect.repeat(
          Effect.andThen(run("BEGIN"), Effect.andThen(transactWith(pg, push), run("COMMIT"))),
          { times: 29 }
        )))
      const end = { isThere: false }
      const reader = yield* Effect.forkChild(Effect.gen(function*() {
        let seen: ReadonlyArray<string> = []
        while (!end.isThere) {
          const now = yield* keys
          assert.deepStrictEqual(now.slice(0, seen.length), seen)
          seen = now
        }
      }))
      const others = Effect.provide(Effect.repeat(Tenant.transact(push), { times: 29 }), elsewhere)
      yield* Effect.all([own, own, others, Effect.repeat(Tenant.transact(push), { times: 29 })], {
        concurrency: "unbounded"
      })
      end.isThere = true
      yield* Fiber.join(reader)
      assert.strictEqual((yield* keys).length, 120)
    }))

  live(
    "stays open for long: what reads nothing commits, what has read is to be run again",
    (schema) =>
      Effect.gen(function*() {
        const { code, pg, run } = yield* client
        for (const [effect, expected] of [[record("late"), "none"], [Effect.asVoid(get("n")), "40001"]] as const) {
          yield* run("BEGIN")
          yield* transactWith<void, unknown>(pg, effect)
          // what the log loses in minutes
          yield* Tenant.transact(set("other", 1))
          yield* Tenant.transact(set("other", 2))
          yield* Effect.promise(() =>
            server.run(
              `DELETE FROM ${schema}.log l WHERE version < (SELECT max(version) FROM ${schema}.log WHERE lane = l.lane)`
            )
          )
          assert.strictEqual(yield* code("COMMIT"), expected)
        }
        assert.deepStrictEqual(yield* until(yield* start, 1), ["late"])
      })
  )

  describe("refuses", () => {
    const refused = (
      title: string,
      says: string,
      begin: string,
      use: (pg: Client) => Effect.Effect<unknown, unknown, Tenant.Tenant>
    ) =>
      live(title, () =>
        Effect.gen(function*() {
          const { pg, run } = yield* client
          yield* run(begin)
          const error = yield* Effect.flip(use(pg)) as Effect.Effect<any, unknown, Tenant.Tenant>
          assert.strictEqual(error.reason?._tag, "InvalidArgument", String(error))
          assert.include(error.message, says)
          yield* run("ROLLBACK")
          assert.isUndefined(yield* stored("n"))
        }))
    const write = (pg: Client) => transactWith(pg, set("n", 1))
    refused("without a transaction", "begin a transaction", "SELECT 1", write)
    refused("under REPEATABLE READ", "READ COMMITTED", "BEGIN ISOLATION LEVEL REPEATABLE READ", write)
    refused("under SERIALIZABLE", "READ COMMITTED", "BEGIN ISOLATION LEVEL SERIALIZABLE", write)
    refused("where nothing can be written", "READ ONLY", "BEGIN READ ONLY", write)
    refused("a watch", "watched", "BEGIN", (pg) => transactWith(pg, Transaction.watch(["n"])))
    refused("what is no client", "a client of pg", "BEGIN", () => transactWith({} as any, set("n", 1)))
    refused("what is no effect", "must be an Effect", "BEGIN", (pg) => transactWith(pg, 1 as any))
    refused(
      "two calls at a time",
      "one after the other",
      "BEGIN",
      (pg) => Effect.all([write(pg), write(pg)], { concurrency: "unbounded" })
    )
    refused("a call after its part is final", "SET CONSTRAINTS", "BEGIN", (pg) =>
      write(pg).pipe(
        Effect.andThen(Effect.promise(() => pg.query("SET CONSTRAINTS ALL IMMEDIATE"))),
        Effect.andThen(write(pg))
      ))
    refused(
      "a transaction that has failed",
      "roll it back",
      "BEGIN",
      (pg) => Effect.andThen(Effect.promise(() => pg.query("SELECT 1 / 0").catch(() => {})), write(pg))
    )
    refused(
      "a tenant of another store",
      "not PostgreSQL",
      "BEGIN",
      (pg) => Effect.provide(write(pg), Layer.provide(Tenant.layer(["app"]), MemoryBackend.layer))
    )
    live("a pool, whose statements go to any client", () =>
      Effect.gen(function*() {
        const pool = yield* Effect.acquireRelease(
          Effect.sync(() => new Pool({ connectionString: server.url })),
          (it) => Effect.promise(() => it.end())
        )
        yield* Effect.promise(() => pool.query("BEGIN"))
        const other = pool.query("SELECT pg_sleep(0.1)")
        const error = yield* Effect.flip(transactWith(pool as unknown as Client, set("n", 1)))
        yield* Effect.promise(() => other)
        assert.include(error.message, "not a pool")
      }))
    live("to be prepared for two-phase commit, and nothing is left", () =>
      Effect.gen(function*() {
        const { code, pg, run } = yield* client
        yield* run("BEGIN")
        yield* transactWith(pg, set("n", 1))
        assert.notStrictEqual(yield* code("PREPARE TRANSACTION 'two'"), "none")
        yield* run("ROLLBACK")
        assert.isUndefined(yield* stored("n"))
      }))
  })

  live("works where constraints are immediate", () =>
    Effect.gen(function*() {
      const { pg, run } = yield* client
      yield* run("BEGIN")
      yield* run("SET CONSTRAINTS ALL IMMEDIATE")
      yield* transactWith(pg, set("a", 1))
      assert.strictEqual(yield* transactWith(pg, get("a")), 1)
      yield* run("COMMIT")
      assert.strictEqual(yield* stored("a"), 1)
    }))

  live("commits and rolls back with Effect's SqlClient", () =>
    Effect.gen(function*() {
      const sql = yield* PgClient.PgClient
      yield* sql`CREATE TABLE effect_orders (id text PRIMARY KEY)`
      const order = (id: string, after: Effect.Effect<unknown, unknown, Tenant.Tenant>) =>
        sql.withTransaction(Effect.gen(function*() {
          yield* sql`INSERT INTO effect_orders ${sql.insert({ id })}`
          const n = (yield* transactWith(sql, get("n"))) ?? 0
          yield* transactWith(sql, Effect.andThen(set("n", n + 1), record(id)))
          yield* after
        }))
      yield* order("a", Effect.void)
      assert.strictEqual(yield* Effect.flip(order("b", Effect.fail("no"))), "no")
      const error: any = yield* Effect.flip(order("c", Tenant.transact(set("n", 9))))
      assert.strictEqual(error._tag, "SqlError")
      assert.strictEqual(error.reason._tag, "SerializationError")
      yield* order("d", Effect.void)
      assert.deepStrictEqual(yield* sql`SELECT id FROM effect_orders ORDER BY id`, [{ id: "a" }, { id: "d" }])
      assert.strictEqual(yield* stored("n"), 10)
      assert.deepStrictEqual(yield* until(yield* start, 2), ["a", "d"])
      const outside: any = yield* Effect.flip(transactWith(sql, set("n", 1)))
      assert.include(outside.message, "begin a transaction")
    }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(server.url) }))))

  live("a store of the format before it is brought to this one", () =>
    Effect.gen(function*() {
      const schema = freshSchema()
      const run = (text: string) => Effect.promise(() => server.run(text))
      yield* Effect.provide(Tenant.transact(set("a", 1)), on(schema))
      yield* run(
        `DROP TABLE ${schema}.held CASCADE; DROP FUNCTION ${schema}.joined(); UPDATE ${schema}.meta SET format = 1`
      )
      const { pg, run: mine } = yield* client
      const refusedError: any = yield* Effect.flip(
        Effect.scoped(Layer.build(Layer.fresh(PostgresBackend.layer({ url: server.url, schema, migrate: false }))))
      )
      assert.include(refusedError.message, "earlier format 1")
      yield* mine("BEGIN")
      yield* Effect.gen(function*() {
        assert.strictEqual(yield* transactWith(pg, get("a")), 1)
        yield* transactWith(pg, set("a", 2))
        yield* mine("COMMIT")
        assert.strictEqual(yield* stored("a"), 2)
      }).pipe(Effect.provide(on(schema)))
    }))
})

/** The protocol of the driver, on the seam: what transactions of several layers see of each other. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, type Scope } from "effect"
import { Backend, PostgresBackend } from "effect-dgen"
import { lockOf } from "../../src/internal/postgres/lanes.ts"
import { channelOf } from "../../src/internal/postgres/listening.ts"
import { between, bytes, clear, commit, get, outcome, point, put, range, within, write } from "../support/driver.ts"
import { freshSchema, server } from "./support.ts"

type Service = Backend.Backend["Service"]

/** Backends of as many layers on one store of their own. */
const backends = (count: number, schema = freshSchema()): Effect.Effect<ReadonlyArray<Service>, unknown, Scope.Scope> =>
  Effect.forEach(Array.from({ length: count }), () =>
    Effect.map(
      Layer.build(Layer.fresh(PostgresBackend.layer({ url: server.url, schema }))),
      (context) => Context.get(context, Backend.Backend)
    ))

const run = (text: string) => Effect.promise(() => server.run(text))

const live = (title: string, test: Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(title, () => Effect.scoped(test), 60_000)

/** Waits until a statement selects something. */
const until = (text: string) =>
  Effect.repeat(Effect.andThen(Effect.sleep(5), run(text)), { until: (rows) => rows.length > 0 })

describe("PostgresBackend's driver", () => {
  live(
    "a reader sees one state, and a commit that relies on what others changed meanwhile is refused",
    Effect.gen(function*() {
      const [one, two] = yield* backends(2)
      yield* write(one!, put("a", "1"), put("b", "1"))
      yield* within(one!, (reader) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* get(reader, "a"), "1")
          yield* write(two!, put("a", "2"), put("b", "2"))
          assert.strictEqual(yield* get(reader, "b"), "1")
          assert.strictEqual(yield* outcome(commit(reader, [put("c", "1")], { reads: [point("a")] })), "Conflict")
        }))
      yield* within(one!, (reader) => Effect.map(get(reader, "c"), (found) => assert.isUndefined(found)))
    })
  )

  live(
    "write skew and phantoms are refused across layers",
    Effect.gen(function*() {
      const [one, two] = yield* backends(2)
      for (const reads of [[point("x"), point("y")], [between("w", "z")]]) {
        const skew = (mine: Service, key: string, other: Effect.Effect<unknown, unknown>) =>
          within(mine, (driver) =>
            Effect.gen(function*() {
              yield* range(driver, "w", "z")
              yield* other
              return yield* outcome(commit(driver, [put(key, "1")], { reads }))
            }))
        let second = ""
        const first = yield* skew(
          one!,
          "x",
          Effect.map(skew(two!, "y", Effect.void), (found) => {
            second = found
          })
        )
        assert.deepStrictEqual([second, first], ["success", "Conflict"])
        yield* write(one!, clear("x"), clear("y"))
      }
    })
  )

  live(
    "of requests that go together each one sees those before it",
    Effect.gen(function*() {
      const [one] = yield* backends(1)
      yield* write(one!, put("n", "0"))
      const ready = yield* Deferred.make<void>()
      let read = 0
      const tries = yield* Effect.forEach(Array.from({ length: 6 }, (_, i) => i), (i) =>
        Effect.forkChild(
          within(one!, (driver) =>
            Effect.gen(function*() {
              yield* get(driver, "n")
              read++
              yield* Deferred.await(ready)
              return yield* outcome(commit(driver, [put("n", String(i))], { reads: [point("n")] }))
            })),
          { startImmediately: true }
        ))
      yield* Effect.repeat(Effect.sleep(1), { until: () => read === 6 })
      yield* Deferred.succeed(ready, undefined)
      const outcomes = yield* Effect.forEach(tries, Fiber.join)
      assert.strictEqual(outcomes.filter((tag) => tag === "success").length, 1)
    })
  )

  live(
    "additions of many at once add up, and conflict with nobody",
    Effect.gen(function*() {
      const [one, two] = yield* backends(2)
      const add: Backend.Mutation = { op: "add", key: bytes("n"), operand: Uint8Array.of(1, 0) }
      yield* Effect.forEach(Array.from({ length: 300 }, (_, i) => i), (i) => write(i % 2 === 0 ? one! : two!, add), {
        concurrency: "unbounded"
      })
      const value = yield* within(one!, (driver) => driver.get(bytes("n")))
      assert.deepStrictEqual([...value!], [300 & 0xff, 300 >> 8])
    })
  )

  live(
    "versions are seen in their order: a later look never finds one below what an earlier look saw",
    Effect.gen(function*() {
      const all = yield* backends(4)
      const push: Backend.Mutation = {
        op: "versionstampedKey",
        key: bytes(`q/${"\0".repeat(10)}`),
        position: 2,
        value: bytes("m")
      }
      const end = { isThere: false }
      const readers = yield* Effect.forEach(all, (backend) =>
        Effect.forkChild(
          Effect.gen(function*() {
            let seen: ReadonlyArray<string> = []
            while (!end.isThere) {
              const rows = yield* within(backend, (driver) => range(driver, "q/", "q0"))
              const now = rows.map(([key]) => key)
              assert.deepStrictEqual(now.slice(0, seen.length), seen)
              seen = now
            }
          })
        ))
      const stamps: Array<string> = []
      yield* Effect.forEach(
        Array.from({ length: 400 }, (_, i) => i),
        (i) =>
          Effect.map(write(all[i % all.length]!, push), (stamp) => {
            stamps.push(Buffer.from(stamp).toString("hex"))
          }),
        { concurrency: 16, discard: true }
      )
      end.isThere = true
      yield* Effect.forEach(readers, Fiber.join)
      const rows = yield* within(all[0]!, (driver) => range(driver, "q/", "q0"))
      assert.strictEqual(rows.length, 400)
      assert.deepStrictEqual(
        rows.map(([key]) => Buffer.from(key.slice(2), "latin1").toString("hex")),
        [...stamps].sort()
      )
    })
  )

  live(
    "keys that no index takes are read, ranged, added to and cleared like others",
    Effect.gen(function*() {
      const [one] = yield* backends(1)
      const noise = (seed: number, length: number) =>
        String.fromCharCode(...Array.from({ length }, (_, i) => (Math.imul(seed + i, 2_654_435_761) >>> 13) & 0xff))
      const keys = ["k", `k${noise(1, 2_500)}`, `k${noise(1, 2_500)}a`, `k${noise(1, 1_999)}`, `k${noise(2, 9_000)}`]
        .sort()
      yield* write(one!, ...keys.map((key) => put(key, key.slice(0, 5))))
      yield* write(one!, { op: "add", key: bytes(`k${noise(1, 2_500)}b`), operand: Uint8Array.of(7) })
      const found = (limit = Infinity, reverse = false) =>
        within(
          one!,
          (driver) => Effect.map(range(driver, "k", "l", limit, reverse), (rows) => rows.map(([key]) => key))
        )
      const all = [...keys, `k${noise(1, 2_500)}b`].sort()
      assert.deepStrictEqual(yield* found(), all)
      assert.deepStrictEqual(yield* found(3, true), [...all].reverse().slice(0, 3))
      for (const key of keys) {
        assert.strictEqual(yield* within(one!, (driver) => get(driver, key)), key.slice(0, 5))
      }
      yield* write(one!, { op: "clearRange", begin: bytes(keys[1]!), end: bytes(`${keys[3]!}\0`) })
      assert.deepStrictEqual(yield* found(), all.filter((key) => key < keys[1]! || key > keys[3]!))
    })
  )

  live(
    "a snapshot that the log no longer reaches back to is too old",
    Effect.gen(function*() {
      const schema = freshSchema()
      const [one] = yield* backends(1, schema)
      yield* write(one!, put("a", "1"))
      yield* within(one!, (driver) =>
        Effect.gen(function*() {
          yield* get(driver, "a")
          yield* write(one!, put("b", "1"))
          yield* run(`DELETE FROM ${schema}.log WHERE version < (SELECT max(version) FROM ${schema}.log)`)
          assert.strictEqual(
            yield* outcome(commit(driver, [put("c", "1")], { reads: [point("a")] })),
            "TransactionTooOld"
          )
        }))
    })
  )

  live(
    "a commit whose connection is terminated is unknown, and does nothing when it had not its turn",
    Effect.gen(function*() {
      const schema = freshSchema()
      const [one] = yield* backends(1, schema)
      const [{ store }] = yield* run(`SELECT store::text FROM ${schema}.meta`)
      const holder = yield* Effect.forkChild(
        run(`BEGIN; SELECT pg_advisory_xact_lock(${lockOf(store, "")}); SELECT pg_sleep(1); COMMIT`)
      )
      yield* until("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted")
      const lost = yield* Effect.forkChild(outcome(write(one!, put("a", "1"))))
      yield* until("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
      yield* run("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
      assert.strictEqual(yield* Fiber.join(lost), "CommitUnknown")
      yield* Fiber.join(holder)
      yield* write(one!, put("b", "1"))
      yield* within(one!, (driver) => Effect.map(get(driver, "a"), (found) => assert.isUndefined(found)))
    })
  )

  live(
    "an error of one request is not another's",
    Effect.gen(function*() {
      const schema = freshSchema()
      const [one] = yield* backends(1, schema)
      yield* run(
        `ALTER TABLE ${schema}.data ADD CONSTRAINT no_bad CHECK (value <> '\\x626164')`
      )
      const outcomes = yield* Effect.forEach(
        ["good", "bad", "fine"],
        (value) => outcome(write(one!, put(`k ${value}`, value))),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(outcomes, ["success", "Unavailable", "success"])
    })
  )

  describe("watches", () => {
    const watching = (backend: Service, key: string) =>
      Effect.gen(function*() {
        const fired = yield* Deferred.make<void>()
        const request: Backend.WatchRequest = {
          key: bytes(key),
          fire: () => void Effect.runSync(Deferred.succeed(fired, undefined)),
          fail: () => {},
          onCancel: undefined
        }
        yield* within(backend, (driver) => Effect.andThen(get(driver, key), commit(driver, [], { watches: [request] })))
        return fired
      })
    live(
      "hear of another layer's commit, also after their connection was lost",
      Effect.gen(function*() {
        const schema = freshSchema()
        const [one, two] = yield* backends(2, schema)
        for (const round of [1, 2, 3]) {
          const fired = yield* watching(one!, "w")
          yield* write(two!, put("other", String(round)))
          assert.isFalse(yield* Deferred.isDone(fired))
          yield* write(two!, put("w", String(round)))
          yield* Deferred.await(fired)
          const [{ store }] = yield* run(`SELECT store::text FROM ${schema}.meta`)
          yield* run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE " +
              `'LISTEN ${channelOf(lockOf(store, ""))}'`
          )
        }
      })
    )
    live(
      "hear of all commits of a layer that closes right after them",
      Effect.gen(function*() {
        const schema = freshSchema()
        const [one] = yield* backends(1, schema)
        for (let round = 0; round < 5; round++) {
          const fired = yield* watching(one!, "w")
          yield* Effect.scoped(Effect.gen(function*() {
            const [two] = yield* backends(1, schema)
            // the first is told of at once, the others are not
            for (const key of ["a", "b", "w"]) yield* write(two!, put(key, String(round)))
          }))
          // far below the timer behind
          yield* Effect.timeout(Deferred.await(fired), "5 seconds")
        }
      })
    )
    live(
      "fire for a range that is cleared over them, and for a commit that came before they were armed",
      Effect.gen(function*() {
        const [one, two] = yield* backends(2)
        yield* write(one!, put("w1", "1"))
        const fired = yield* watching(one!, "w1")
        yield* write(two!, { op: "clearRange", begin: bytes("w"), end: bytes("x") })
        yield* Deferred.await(fired)
        for (const writer of [one!, two!]) {
          const late = yield* Deferred.make<void>()
          yield* within(one!, (driver) =>
            Effect.gen(function*() {
              yield* get(driver, "late")
              yield* write(writer, put("late", "1"))
              yield* commit(driver, [], {
                watches: [{
                  key: bytes("late"),
                  fire: () => void Effect.runSync(Deferred.succeed(late, undefined)),
                  fail: () => {},
                  onCancel: undefined
                }]
              })
            }))
          yield* Deferred.await(late)
        }
      })
    )
  })
})

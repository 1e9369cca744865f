/** What every backend must do: run for each of them. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { type Backend, type BackendError, Tenant, Transaction, Tuple } from "effect-dgen"

const bytes = (...values: ReadonlyArray<number>) => Uint8Array.from(values)
const num = (value: Uint8Array | undefined) =>
  value === undefined ? undefined : Number(new DataView(value.buffer, value.byteOffset).getBigInt64(0, true))

/** Read, write one more. */
const bump = (key: Tuple.Tuple) =>
  Effect.gen(function*() {
    const value = (yield* Transaction.get(key))?.[0] ?? 0
    yield* Transaction.set(key, bytes(value + 1))
    return value + 1
  })

const reasonOf = <A, E, R>(effect: Effect.Effect<A, E | BackendError.BackendError, R>) =>
  Effect.map(Effect.flip(effect), (error) => (error as BackendError.BackendError).reason._tag)

const keysOf = (rows: ReadonlyArray<Transaction.KeyValue>) => rows.map((row) => row.key)

export const suite = (name: string, backend: Layer.Layer<Backend.Backend, BackendError.BackendError>) => {
  let paths = 0
  // each test has a tenant, so keys, of its own
  const live = <E>(title: string, test: Effect.Effect<void, E, Tenant.Tenant | Backend.Backend>) =>
    it.live(title, () =>
      test.pipe(
        Effect.provide(Tenant.layer(["suite", String(++paths)]).pipe(Layer.provideMerge(backend)))
      ))

  describe(name, () => {
    describe("reads and writes", () => {
      live(
        "a value is there after the commit, and gone after a clear",
        Effect.gen(function*() {
          yield* Tenant.transact(Transaction.set(["a", 1], bytes(7)))
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["a", 1])), bytes(7))
          yield* Tenant.transact(Transaction.clear(["a", 1]))
          assert.strictEqual(yield* Tenant.transact(Transaction.get(["a", 1])), undefined)
        })
      )
      live(
        "who changes a value that was read, or written, changes nothing of the store",
        Effect.gen(function*() {
          const written = bytes(7)
          yield* Tenant.transact(Effect.gen(function*() {
            yield* Transaction.set(["a"], written)
            written[0] = 0
            const own = yield* Transaction.get(["a"])
            own![0] = 1
          }))
          for (let i = 0; i < 3; i++) {
            const value = yield* Tenant.transact(Transaction.get(["a"]))
            const rows = yield* Tenant.transact(Transaction.getRange([]))
            assert.deepStrictEqual([value, rows[0]?.value], [bytes(7), bytes(7)])
            value![0] = 2
            rows[0]!.value[0] = 3
          }
        })
      )
      live(
        "a transaction reads its own writes over the store's",
        Effect.gen(function*() {
          yield* Tenant.transact(Effect.forEach([1, 2, 3, 4, 5], (n) => Transaction.set([n], bytes(n))))
          const rows = yield* Tenant.transact(Effect.gen(function*() {
            yield* Transaction.clearRange({ begin: [2], end: [4] })
            yield* Transaction.set([3], bytes(33))
            yield* Transaction.set([6], bytes(66))
            yield* Transaction.clear([5])
            return {
              all: yield* Transaction.getRange([]),
              two: yield* Transaction.getRange([], { limit: 2 }),
              last: yield* Transaction.getRange([], { limit: 2, reverse: true }),
              middle: yield* Transaction.getRange({ begin: [2], end: [6] }),
              cleared: yield* Transaction.get([2]),
              written: yield* Transaction.get([3])
            }
          }))
          assert.deepStrictEqual(keysOf(rows.all), [[1], [3], [4], [6]])
          assert.deepStrictEqual(keysOf(rows.two), [[1], [3]])
          assert.deepStrictEqual(keysOf(rows.last), [[6], [4]])
          assert.deepStrictEqual(keysOf(rows.middle), [[3], [4]])
          assert.strictEqual(rows.cleared, undefined)
          assert.deepStrictEqual(rows.written, bytes(33))
          assert.deepStrictEqual(keysOf(yield* Tenant.transact(Transaction.getRange([]))), [[1], [3], [4], [6]])
        })
      )
      live(
        "random writes of several transactions read like a sorted map",
        Effect.gen(function*() {
          const seed = Math.floor(Math.random() * 2 ** 31)
          let state = seed
          const random = (below: number) => {
            state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
            return (state >> 8) % below
          }
          const model = new Map<number, number>()
          for (let round = 0; round < 40; round++) {
            const steps = Array.from(
              { length: 12 },
              () => ({ op: random(5), a: random(20), b: random(20), v: random(250) })
            )
            yield* Tenant.transact(Effect.forEach(steps, ({ a, b, op, v }) =>
              Effect.gen(function*() {
                const [low, high] = [Math.min(a, b), Math.max(a, b)]
                if (op === 0) {
                  yield* Transaction.set([a], bytes(v))
                  model.set(a, v)
                } else if (op === 1) {
                  yield* Transaction.clear([a])
                  model.delete(a)
                } else if (op === 2) {
                  yield* Transaction.clearRange({ begin: [low], end: [high] })
                  for (const key of Array.from(model.keys())) if (low <= key && key < high) model.delete(key)
                } else {
                  const limit = 1 + (v % 6)
                  const reverse = op === 3
                  const rows = yield* Transaction.getRange({ begin: [low], end: [high] }, { limit, reverse })
                  const expected = [...model].filter(([key]) => low <= key && key < high).sort((x, y) => x[0] - y[0])
                  if (reverse) expected.reverse()
                  assert.deepStrictEqual(
                    rows.map((row) => [row.key[0], row.value[0]]),
                    expected.slice(0, limit).map(([key, value]) => [key, value]),
                    `seed ${seed}, round ${round}`
                  )
                }
              })))
          }
        })
      )
      live(
        "additions count from zero, add up, and read as one's own",
        Effect.gen(function*() {
          const inside = yield* Tenant.transact(Effect.gen(function*() {
            yield* Transaction.add(["n"], 5)
            yield* Transaction.add(["n"], -2)
            return num(yield* Transaction.get(["n"]))
          }))
          assert.strictEqual(inside, 3)
          yield* Tenant.transact(Transaction.add(["n"], 10))
          assert.strictEqual(num(yield* Tenant.transact(Transaction.get(["n"]))), 13)
        })
      )
    })

    describe("all or nothing", () => {
      for (
        const [how, end] of [
          ["fails", Effect.fail("no")],
          ["dies", Effect.die(new Error("no"))],
          ["is interrupted", Effect.interrupt]
        ] as const
      ) {
        live(
          `a body that writes and then ${how} leaves nothing`,
          Effect.gen(function*() {
            const exit = yield* Effect.exit(Tenant.transact(Effect.andThen(Transaction.set(["x"], bytes(1)), end)))
            assert.isTrue(Exit.isFailure(exit))
            assert.deepStrictEqual(yield* Tenant.transact(Transaction.getRange([])), [])
          })
        )
      }
      live(
        "a body that swallows a failure of the store commits nothing",
        Effect.gen(function*() {
          const swallow = Effect.gen(function*() {
            yield* Transaction.set(["before"], bytes(1))
            yield* Effect.exit(Transaction.set(["big"], new Uint8Array(100_001)))
            return "went on"
          })
          assert.strictEqual(yield* reasonOf(Tenant.transact(swallow)), "ValueTooLarge")
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.getRange([])), [])
        })
      )
      live(
        "two bodies that read, wait for each other, and write one key lose no update",
        Effect.gen(function*() {
          const both = yield* Deferred.make<void>()
          let arrived = 0
          const body = Effect.gen(function*() {
            const value = (yield* Transaction.get(["n"]))?.[0] ?? 0
            if (++arrived === 2) yield* Deferred.succeed(both, undefined)
            yield* Deferred.await(both)
            yield* Transaction.set(["n"], bytes(value + 1))
          })
          yield* Effect.all([Tenant.transact(body), Tenant.transact(body)], { concurrency: "unbounded" })
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["n"])), bytes(2))
          assert.isAtLeast(arrived, 3)
        })
      )
      live(
        "fifty bodies that yield between their read and their write end at fifty",
        Effect.gen(function*() {
          const body = Effect.gen(function*() {
            const value = (yield* Transaction.get(["n"]))?.[0] ?? 0
            yield* Effect.yieldNow
            yield* Transaction.set(["n"], bytes(value + 1))
          })
          yield* Effect.all(Array.from({ length: 50 }, () => Tenant.transact(body)), { concurrency: "unbounded" })
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.get(["n"])), bytes(50))
        })
      )
    })

    describe("conflicts", () => {
      /** How often a body runs that reads, is overtaken by another commit, and then writes elsewhere. */
      const tries = (
        read: Effect.Effect<unknown, never, Transaction.Transaction>,
        other: Effect.Effect<unknown, never, Transaction.Transaction>
      ) =>
        Effect.gen(function*() {
          let count = 0
          const hasRead = yield* Deferred.make<void>()
          const overtaken = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(Tenant.transact(Effect.gen(function*() {
            count++
            yield* read
            yield* Deferred.succeed(hasRead, undefined)
            yield* Deferred.await(overtaken)
            yield* Transaction.set(["elsewhere"], bytes(1))
          })))
          yield* Deferred.await(hasRead)
          yield* Tenant.transact(other)
          yield* Deferred.succeed(overtaken, undefined)
          yield* Fiber.join(fiber)
          return count
        })
      const cases: ReadonlyArray<
        readonly [
          string,
          number,
          Effect.Effect<unknown, never, Transaction.Transaction>,
          Effect.Effect<unknown, never, Transaction.Transaction>
        ]
      > = [
        ["a read and a write of one key", 2, Transaction.get(["k"]), Transaction.set(["k"], bytes(9))],
        [
          "a snapshot read and a write",
          1,
          Transaction.get(["k"], { snapshot: true }),
          Transaction.set(["k"], bytes(9))
        ],
        ["a read and a write of another key", 1, Transaction.get(["k"]), Transaction.set(["l"], bytes(9))],
        ["no read at all", 1, Effect.void, Transaction.set(["elsewhere"], bytes(9))],
        ["a range and a key that appears in it", 2, Transaction.getRange(["r"]), Transaction.set(["r", 5], bytes(9))],
        [
          "a range and a key behind what its limit reached",
          1,
          Transaction.getRange(["k"], { limit: 1 }),
          Transaction.set(["k", 9], bytes(9))
        ],
        [
          "a range by snapshot",
          1,
          Transaction.getRange(["r"], { snapshot: true }),
          Transaction.set(["r", 5], bytes(9))
        ],
        ["a read and a cleared range over it", 2, Transaction.get(["k", 1]), Transaction.clearRange(["k"])],
        ["an addition and an addition", 1, Transaction.add(["c"], 1), Transaction.add(["c"], 1)],
        ["a read and an addition", 2, Transaction.get(["c"]), Transaction.add(["c"], 1)]
      ]
      for (const [title, expected, read, other] of cases) {
        live(
          `${title}: ${expected === 1 ? "no conflict" : "conflict"}`,
          Effect.gen(function*() {
            yield* Tenant.transact(Effect.forEach([1, 2], (n) => Transaction.set(["k", n], bytes(n))))
            assert.strictEqual(yield* tries(read, other), expected)
          })
        )
      }
      live(
        "a body sees one state, whatever is committed while it waits",
        Effect.gen(function*() {
          yield* Tenant.transact(Effect.all([Transaction.set(["a"], bytes(1)), Transaction.set(["b"], bytes(1))]))
          const hasRead = yield* Deferred.make<void>()
          const changed = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(Tenant.transact(Effect.gen(function*() {
            const a = yield* Transaction.get(["a"])
            yield* Deferred.succeed(hasRead, undefined)
            yield* Deferred.await(changed)
            return [a, yield* Transaction.get(["b"]), (yield* Transaction.getRange([])).length]
          })))
          yield* Deferred.await(hasRead)
          yield* Tenant.transact(Effect.all([
            Transaction.set(["a"], bytes(2)),
            Transaction.set(["b"], bytes(2)),
            Transaction.set(["c"], bytes(2))
          ]))
          yield* Deferred.succeed(changed, undefined)
          assert.deepStrictEqual(yield* Fiber.join(fiber), [bytes(1), bytes(1), 2])
        })
      )
      live(
        "write skew is refused",
        Effect.gen(function*() {
          const both = yield* Deferred.make<void>()
          let arrived = 0
          const body = (mine: string, theirs: string) =>
            Effect.gen(function*() {
              const other = yield* Transaction.get([theirs])
              if (++arrived === 2) yield* Deferred.succeed(both, undefined)
              yield* Deferred.await(both)
              if (other === undefined) yield* Transaction.set([mine], bytes(1))
            })
          yield* Effect.all([Tenant.transact(body("x", "y")), Tenant.transact(body("y", "x"))], {
            concurrency: "unbounded"
          })
          assert.strictEqual((yield* Tenant.transact(Transaction.getRange([]))).length, 1)
        })
      )
    })

    describe("versionstamps", () => {
      const stamped = (n: number) =>
        Transaction.setVersionstampedKey(["log", Tuple.Versionstamp.incomplete(n)], bytes(n))
      live(
        "keys of later commits are greater, and those of one commit keep their order",
        Effect.gen(function*() {
          yield* Tenant.transact(Effect.all([stamped(0), stamped(1)]))
          yield* Effect.all([Tenant.transact(stamped(2)), Tenant.transact(stamped(3))])
          const rows = yield* Tenant.transact(Transaction.getRange(["log"]))
          assert.deepStrictEqual(rows.map((row) => row.value[0]), [0, 1, 2, 3])
        })
      )
      live(
        "what a transaction stamps it cannot read",
        Effect.gen(function*() {
          assert.strictEqual(
            yield* reasonOf(Tenant.transact(Effect.andThen(stamped(0), Transaction.getRange(["log"])))),
            "AccessedUnreadable"
          )
          const value = Transaction.setVersionstampedValue(["v"], [Tuple.Versionstamp.incomplete(0)])
          assert.strictEqual(
            yield* reasonOf(Tenant.transact(Effect.andThen(value, Transaction.get(["v"])))),
            "AccessedUnreadable"
          )
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.getRange([])), [])
        })
      )
      live(
        "what was there before a stamped key can be read beside it",
        Effect.gen(function*() {
          yield* Tenant.transact(stamped(4))
          const rows = yield* Tenant.transact(Effect.andThen(stamped(5), Transaction.getRange(["log"], { limit: 1 })))
          assert.deepStrictEqual(rows.map((row) => row.value[0]), [4])
        })
      )
      live(
        "a stamped value holds the stamp of its commit",
        Effect.gen(function*() {
          yield* Tenant.transact(Effect.all([
            stamped(0),
            Transaction.setVersionstampedValue(["v"], [Tuple.Versionstamp.incomplete(0)])
          ]))
          const value = yield* Tenant.transact(Transaction.get(["v"]))
          const [row] = yield* Tenant.transact(Transaction.getRange(["log"]))
          assert.deepStrictEqual(Tuple.unpack(value!)[0], row!.key[1])
        })
      )
    })

    describe("watches", () => {
      live(
        "fires when the key changes, and not before",
        Effect.gen(function*() {
          yield* Tenant.transact(Transaction.set(["w"], bytes(1)))
          const watch = yield* Tenant.transact(Transaction.watch(["w"]))
          const fiber = yield* Effect.forkChild(watch.changed, { startImmediately: true })
          yield* Tenant.transact(Transaction.set(["other"], bytes(1)))
          assert.strictEqual(fiber.pollUnsafe(), undefined)
          yield* Tenant.transact(Transaction.set(["w"], bytes(2)))
          yield* Fiber.join(fiber)
        })
      )
      live(
        "fires for a change that came between the read and the watch",
        Effect.gen(function*() {
          const reading = yield* Deferred.make<void>()
          const changed = yield* Deferred.make<void>()
          const fiber = yield* Effect.forkChild(Tenant.transact(Effect.gen(function*() {
            yield* Transaction.get(["w"])
            yield* Deferred.succeed(reading, undefined)
            yield* Deferred.await(changed)
            return yield* Transaction.watch(["w"])
          })))
          yield* Deferred.await(reading)
          yield* Tenant.transact(Transaction.set(["w"], bytes(2)))
          yield* Deferred.succeed(changed, undefined)
          yield* (yield* Fiber.join(fiber)).changed
        })
      )
    })

    describe("limits and bad input", () => {
      live(
        "a key of 9,936 bytes fits, one more does not",
        Effect.gen(function*() {
          // the user's part of a tenant takes one byte, a string two more
          const key = (length: number) => ["k".repeat(length - 3)]
          yield* Tenant.transact(Transaction.set(key(9_936), bytes(1)))
          assert.strictEqual(yield* reasonOf(Tenant.transact(Transaction.set(key(9_937), bytes(1)))), "KeyTooLarge")
        })
      )
      live(
        "a value of 100,000 bytes fits, one more does not",
        Effect.gen(function*() {
          yield* Tenant.transact(Transaction.set(["v"], new Uint8Array(100_000)))
          assert.strictEqual(
            yield* reasonOf(Tenant.transact(Transaction.set(["v"], new Uint8Array(100_001)))),
            "ValueTooLarge"
          )
          assert.strictEqual((yield* Tenant.transact(Transaction.get(["v"])))?.length, 100_000)
        })
      )
      live(
        "a transaction over 10,000,000 bytes is refused and writes nothing",
        Effect.gen(function*() {
          const value = new Uint8Array(100_000)
          const many = Effect.forEach(Array.from({ length: 100 }, (_, i) => i), (i) => Transaction.set([i], value))
          assert.strictEqual(yield* reasonOf(Tenant.transact(many)), "TransactionTooLarge")
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.getRange([])), [])
        })
      )
      for (
        const [what, key] of [
          ["a lone surrogate", ["\ud800"]],
          ["an object", [{}]],
          ["no array", "key"]
        ] as const
      ) {
        live(
          `a key with ${what} is refused`,
          Effect.gen(function*() {
            assert.strictEqual(
              yield* reasonOf(Tenant.transact(Transaction.set(key as any, bytes(1)))),
              "InvalidArgument"
            )
          })
        )
      }
      live(
        "a value that is not bytes is refused",
        Effect.gen(function*() {
          assert.strictEqual(yield* reasonOf(Tenant.transact(Transaction.set(["k"], "text" as any))), "InvalidArgument")
        })
      )
      live(
        "a fiber that outlives its transaction can do nothing",
        Effect.gen(function*() {
          const late = yield* Deferred.make<void>()
          const fiber = yield* Tenant.transact(
            Effect.forkDetach(Effect.andThen(Deferred.await(late), Transaction.set(["late"], bytes(1))))
          )
          yield* Deferred.succeed(late, undefined)
          assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
          assert.deepStrictEqual(yield* Tenant.transact(Transaction.getRange([])), [])
        })
      )
    })

    describe("tenants", () => {
      const inTenant = <A, E>(path: ReadonlyArray<string>, effect: Effect.Effect<A, E, Tenant.Tenant>) =>
        Effect.provide(effect, Layer.fresh(Tenant.layer(path)))
      live(
        "keep their keys apart, also under each other, and a removal takes what is below",
        Effect.gen(function*() {
          const root = `t${paths}`
          for (const path of [[root], [root, "a"], [root, "b"]]) {
            yield* inTenant(path, Tenant.transact(bump(["n"])))
          }
          assert.deepStrictEqual(yield* inTenant([root, "a"], Tenant.transact(Transaction.get(["n"]))), bytes(1))
          assert.isTrue(yield* Tenant.remove([root, "a"]))
          assert.isFalse(yield* Tenant.remove([root, "a"]))
          assert.strictEqual(yield* inTenant([root, "a"], Tenant.transact(Transaction.get(["n"]))), undefined)
          assert.deepStrictEqual(yield* inTenant([root, "b"], Tenant.transact(Transaction.get(["n"]))), bytes(1))
          assert.isTrue(yield* Tenant.remove([root]))
          assert.strictEqual(yield* inTenant([root, "b"], Tenant.transact(Transaction.get(["n"]))), undefined)
        })
      )
      live(
        "an empty path, or an empty name, is refused",
        Effect.gen(function*() {
          for (const path of [[], [""], ["a", ""]]) {
            assert.strictEqual(yield* reasonOf(inTenant(path, Effect.void)), "InvalidArgument")
          }
        })
      )
    })

    it.live("what was committed under one build of the layer is one store for all tenants of it", () =>
      Effect.gen(function*() {
        const one = Tenant.transact(bump(["shared"])).pipe(Effect.provide(Layer.fresh(Tenant.layer(["shared", name]))))
        assert.strictEqual(yield* one, 1)
        assert.strictEqual(yield* one, 2)
      }).pipe(Effect.provide(backend)))
  })
}

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Schedule, Scope } from "effect"
import { Backend, type BackendError, Tenant, Transaction } from "effect-dgen"
import { make } from "../../src/internal/foundationdb/layer.ts"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"
import { bytes, commit, get, outcome, point, put, range, within, write } from "../support/driver.ts"
import { type Fake, fdbError, makeFake } from "./fake.ts"

const settings = {
  clusterFile: undefined,
  connectLimitMillis: 1_000,
  transactionLimitMillis: 1_000,
  maxWatches: 100
}

const layerOf = (fake: Fake) => Layer.effect(Backend.Backend, make(settings, () => Promise.resolve(fake.fdb)))

const withFake = <A, E>(use: (backend: Backend.Backend["Service"], fake: Fake) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.suspend(() => {
    const fake = makeFake()
    return Effect.scoped(
      Effect.flatMap(make(settings, () => Promise.resolve(fake.fdb)), (backend) => {
        fake.calls.length = 0
        return use(backend, fake)
      })
    )
  })

/** A promise that a test settles. */
const gate = () => {
  let open: () => void = () => {}
  const promise = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, promise }
}

describe("FoundationDbBackend's driver", () => {
  it.live("adds the read conflicts before the mutations, which would hide them", () =>
    withFake((backend, fake) =>
      Effect.gen(function*() {
        const reader = yield* backend.begin
        yield* get(reader, "k")
        yield* write(backend, put("k", "theirs"))
        fake.calls.length = 0
        assert.strictEqual(yield* outcome(commit(reader, [put("k", "mine")], { reads: [point("k")] })), "Conflict")
        assert.deepStrictEqual(fake.calls, ["readConflict", "set", "commit"])
      })
    ))

  it.live("stops the client when the process exits, but not while more operations are under way than it could end", () =>
    Effect.gen(function*() {
      const fake = makeFake()
      const before = process.listeners("exit")
      let stops = 0
      const { open } = fake.fdb
      const fdb = {
        ...fake.fdb,
        open: (...args: Parameters<typeof open>) => {
          process.on("exit", () => void stops++)
          return open(...args)
        }
      }
      const backend = yield* make(settings, () => Promise.resolve(fdb))
      const added = process.listeners("exit").filter((listener) => !before.includes(listener))
      const exit = () => {
        for (const listener of added) listener(0)
        return stops
      }
      const reads = gate()
      fake.onRead = (read) => reads.promise.then(read)
      const under = (count: number) =>
        Effect.forEach(
          Array.from({ length: count }),
          () => Effect.forkChild(within(backend, (driver) => get(driver, "k")), { startImmediately: true })
        )
      const few = yield* under(7)
      assert.strictEqual(exit(), 1)
      const many = yield* under(1)
      assert.strictEqual(exit(), 1)
      reads.open()
      yield* Effect.forEach([...few, ...many], Fiber.join)
      assert.strictEqual(exit(), 2)
      const watches = Array.from({ length: 8 }, (_, i): Backend.WatchRequest => ({
        key: bytes(`w${i}`),
        fire: () => {},
        fail: () => {},
        onCancel: undefined
      }))
      yield* within(backend, (driver) => commit(driver, [], { watches }))
      assert.strictEqual(exit(), 2)
      const opening = gate()
      fake.onRead = (read) => opening.promise.then(read)
      for (const watch of watches) watch.onCancel?.()
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      assert.strictEqual(exit(), 3)
      const connects = yield* Effect.forEach(
        watches,
        () =>
          Effect.forkChild(Effect.scoped(make(settings, () => Promise.resolve(fake.fdb))), { startImmediately: true })
      )
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      assert.strictEqual(exit(), 3)
      opening.open()
      yield* Effect.forEach(connects, Fiber.join)
      assert.strictEqual(exit(), 4)
      for (const listener of added) process.off("exit", listener)
    }).pipe(Effect.scoped))

  it.live("asks nothing of the cluster to end a transaction that only read", () =>
    withFake((backend, fake) =>
      within(backend, (driver) =>
        Effect.gen(function*() {
          yield* get(driver, "k")
          yield* commit(driver, [], { reads: [point("k")] })
          assert.deepStrictEqual(fake.calls, ["get"])
        }))
    ))

  it.live("reads a range in parts, in both directions, up to its limit", () =>
    withFake((backend, fake) =>
      Effect.gen(function*() {
        const keys = Array.from({ length: 10 }, (_, i) => `k${i}`)
        yield* write(backend, ...keys.map((key) => put(key, "v")))
        const read = (limit: number, reverse: boolean) =>
          within(
            backend,
            (driver) => Effect.map(range(driver, "k", "l", limit, reverse), (rows) => rows.map(([k]) => k))
          )
        for (const part of [1, 3, 100]) {
          fake.partRows = part
          assert.deepStrictEqual(yield* read(Infinity, false), keys)
          assert.deepStrictEqual(yield* read(Infinity, true), [...keys].reverse())
          assert.deepStrictEqual(yield* read(7, false), keys.slice(0, 7))
          assert.deepStrictEqual(yield* read(7, true), [...keys].reverse().slice(0, 7))
        }
      })
    ))

  describe("watches", () => {
    const watchOf = (told: Array<string>, key = "w"): Backend.WatchRequest => ({
      key: bytes(key),
      fire: () => void told.push("fired"),
      fail: (error) => void told.push(error.reason._tag),
      onCancel: undefined
    })
    const settle = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

    it.live("fire after their commit, once", () =>
      withFake((backend) =>
        Effect.gen(function*() {
          const told: Array<string> = []
          yield* within(backend, (driver) => commit(driver, [], { watches: [watchOf(told)] }))
          yield* settle
          assert.deepStrictEqual(told, [])
          yield* write(backend, put("w", "1"))
          yield* write(backend, put("w", "2"))
          yield* settle
          assert.deepStrictEqual(told, ["fired"])
        })
      ))

    it.live("of a commit that fails are told nothing, and are cancelled", () =>
      withFake((backend, fake) =>
        Effect.gen(function*() {
          const told: Array<string> = []
          fake.onCommit = () => Promise.reject(fdbError(1020))
          const run = within(backend, (driver) => commit(driver, [put("a", "1")], { watches: [watchOf(told)] }))
          assert.strictEqual(yield* outcome(run), "Conflict")
          yield* settle
          assert.deepStrictEqual(told, [])
          assert.include(fake.calls, "cancelWatch")
        })
      ))

    it.live("that change before their commit is answered are told after it", () =>
      withFake((backend, fake) =>
        Effect.gen(function*() {
          const told: Array<string> = []
          const answer = gate()
          fake.onCommit = (run) => run().then(() => answer.promise)
          const fiber = yield* Effect.forkChild(
            within(backend, (driver) => commit(driver, [put("a", "1")], { watches: [watchOf(told)] })),
            { startImmediately: true }
          )
          yield* settle
          fake.onCommit = (run) => run()
          yield* write(backend, put("w", "1"))
          yield* settle
          assert.deepStrictEqual(told, [])
          answer.open()
          yield* Fiber.join(fiber)
          assert.deepStrictEqual(told, ["fired"])
        })
      ))

    it.live("are freed when nobody waits any more", () =>
      withFake((backend, fake) =>
        Effect.gen(function*() {
          const told: Array<string> = []
          const watch = watchOf(told)
          yield* within(backend, (driver) => commit(driver, [], { watches: [watch] }))
          watch.onCancel?.()
          assert.include(fake.calls, "cancelWatch")
          yield* write(backend, put("w", "1"))
          yield* settle
          assert.deepStrictEqual(told, [])
        })
      ))
  })

  describe("ends", () => {
    it.live("an interrupted transaction: it is cancelled", () =>
      withFake((backend, fake) =>
        Effect.gen(function*() {
          const reading = yield* Deferred.make<void>()
          fake.onRead = () => {
            Effect.runSync(Deferred.succeed(reading, undefined))
            return new Promise(() => {})
          }
          const fiber = yield* Effect.forkChild(within(backend, (driver) => get(driver, "k")))
          yield* Deferred.await(reading)
          yield* Fiber.interrupt(fiber)
          assert.deepStrictEqual(fake.calls, ["get", "cancel"])
        })
      ))

    it.live("with its scope: reads fail as closed, watches too, a commit is waited for, then the connection closes", () =>
      Effect.gen(function*() {
        const fake = makeFake()
        const scope = yield* Scope.fork(yield* Effect.scope)
        const backend = yield* Effect.provideService(
          make(settings, () => Promise.resolve(fake.fdb)),
          Scope.Scope,
          scope
        )
        const told: Array<string> = []
        const watch: Backend.WatchRequest = {
          key: bytes("w"),
          fire: () => void told.push("fired"),
          fail: (error) => void told.push(error.reason._tag),
          onCancel: undefined
        }
        yield* within(backend, (driver) => commit(driver, [], { watches: [watch] }))
        const answer = gate()
        fake.onCommit = (run) => answer.promise.then(run)
        fake.onRead = () => new Promise(() => {})
        const writing = yield* Effect.forkChild(write(backend, put("a", "1")), { startImmediately: true })
        const reading = yield* Effect.forkChild(outcome(within(backend, (driver) => get(driver, "a"))), {
          startImmediately: true
        })
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
        assert.strictEqual(yield* Fiber.join(reading), "Closed")
        assert.deepStrictEqual(told, ["Closed"])
        assert.strictEqual(fake.closed, 0)
        answer.open()
        yield* Fiber.join(writing)
        yield* Fiber.join(closing)
        assert.strictEqual(fake.closed, 1)
        assert.strictEqual(yield* outcome(backend.begin), "Closed")
      }))
  })

  describe("a commit without an answer", () => {
    const add = Tenant.transact(Transaction.add(["n"], 1))
    const value = Effect.map(
      Tenant.transact(Transaction.get(["n"])),
      (found) => found === undefined ? 0 : Number(new DataView(found.buffer, found.byteOffset).getBigInt64(0, true))
    )
    /** Runs the addition with commits and reads that go as a script says. */
    const scripted = (
      script: ReadonlyArray<"lost" | "applied" | number>,
      test: (
        added: Effect.Effect<void, BackendError.BackendError>,
        value: Effect.Effect<number, unknown>
      ) => Effect.Effect<void, unknown>,
      readError?: Error
    ) =>
      Effect.suspend(() => {
        const fake = makeFake()
        return Effect.gen(function*() {
          const tenant = yield* Tenant.Tenant
          const provide = Effect.provideService(Tenant.Tenant, tenant)
          // the slot exists from now on
          yield* Tenant.transact(Transaction.set(["other"], bytes("1")))
          const steps = [...script]
          const scriptedCommit: Fake["onCommit"] = (run) => {
            const step = steps.shift()
            if (step === "applied") return run().then(() => Promise.reject(fdbError(1021)))
            if (step === "lost") return Promise.reject(fdbError(1021))
            return step === undefined ? run() : Promise.reject(fdbError(step))
          }
          fake.onCommit = scriptedCommit
          if (readError !== undefined) fake.onRead = () => Promise.reject(readError)
          yield* test(provide(add), provide(value))
        }).pipe(
          Effect.provide(Tenant.layer(["unknown"]).pipe(Layer.provide(layerOf(fake))))
        )
      })

    it.live("that can never be found out is not reported as one that failed", () =>
      scripted(["applied"], (added) =>
        Effect.gen(function*() {
          const error = yield* Effect.flip(added)
          assert.strictEqual(error.reason._tag, "CommitUnknown")
        }), fdbError(2004)))

    for (
      const script of [
        ["applied"],
        ["lost"],
        ["lost", "applied"],
        ["lost", "lost", "applied"],
        [1020, "applied"],
        ["lost", 1009, 1037, "applied"],
        [1039],
        [1031, "applied"]
      ] as const
    ) {
      it.live(`is applied once: ${script.join(", ")}`, () =>
        scripted(script, (added, found) =>
          Effect.gen(function*() {
            yield* added
            assert.strictEqual(yield* found, 1)
          })))
    }

    for (const fate of ["applied", "lost"] as const) {
      it.live(`of an inline call (${fate}) is answered once, and not queued too`, () =>
        Effect.gen(function*() {
          const fake = makeFake()
          yield* Effect.gen(function*() {
            const server = yield* Ledger.start(ledger(), { tuid: ["Ledger"] }).pipe(Effect.provide(ledgerActions()))
            assert.strictEqual(yield* server.call("Append", { item: "a" }), 1)
            let left = 1
            fake.onCommit = (run) =>
              left-- === 1
                ? (fate === "applied" ? run() : Promise.resolve()).then(() => Promise.reject(fdbError(1021)))
                : run()
            assert.strictEqual(yield* server.call("Append", { item: "b" }), 2)
            assert.deepStrictEqual(yield* server.call("Items"), ["a", "b"])
            assert.strictEqual(yield* server.queueLength, 0)
          }).pipe(Effect.scoped, Effect.provide(Tenant.layer(["inline"]).pipe(Layer.provide(layerOf(fake)))))
        }))
    }

    it.live("at random, between conflicts and other faults, loses and doubles nothing", () =>
      Effect.gen(function*() {
        const seed = Math.floor(Math.random() * 2 ** 31)
        let at = seed
        const random = (below: number) => {
          at = (Math.imul(at, 1_103_515_245) + 12_345) & 0x7fffffff
          return (at >> 8) % below
        }
        const fake = makeFake()
        const faults = [1020, 1021, 1009, 1031, 1037, 1039]
        yield* Effect.gen(function*() {
          const server = yield* Ledger.start(ledger(), { tuid: ["Ledger"], restart: Schedule.forever }).pipe(
            Effect.provide(ledgerActions())
          )
          fake.onRead = (run) => random(20) === 0 ? Promise.reject(fdbError([1007, 1009, 1037][random(3)]!)) : run()
          fake.onCommit = (run) => {
            if (random(4) > 0) return run()
            const code = faults[random(faults.length)]!
            const isApplied = [1021, 1031, 1039].includes(code) && random(2) === 0
            return (isApplied ? run() : Promise.resolve()).then(() => Promise.reject(fdbError(code)))
          }
          const items = Array.from({ length: 120 }, (_, i) => `item ${i}`)
          yield* Effect.forEach(items, (item, i) =>
            i % 3 === 0
              ? server.cast("Record", { item })
              : server.call("Append", { item }, { timeout: "60 seconds" }), { concurrency: 8, discard: true })
          const kept = yield* server.call("Items", undefined, { timeout: "60 seconds" })
          assert.deepStrictEqual([...kept].sort(), [...items].sort(), `seed ${seed}`)
        }).pipe(Effect.scoped, Effect.provide(Tenant.layer(["random"]).pipe(Layer.provide(layerOf(fake)))))
      }).pipe(Effect.provide(Logger.layer([]))), 120_000)
  })
})

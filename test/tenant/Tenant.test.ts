/** What a tenant's layer does beside transactions: shared pushes, and its own keys in the store. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Schema, Scope } from "effect"
import { Backend, BackendError, DgenServer, MemoryBackend, Tenant, Transaction } from "effect-dgen"
import { TestClock } from "effect/testing"
import { libraryPrefix, processPrefix } from "../../src/internal/tenant/layout.ts"
import { beatKey } from "../../src/internal/tenant/presence.ts"
import { Pushes } from "../../src/internal/tenant/pushes.ts"
import * as Tuple from "../../src/Tuple.ts"

class Log extends DgenServer.Service<Log>()("Log", {
  state: Schema.Array(Schema.String),
  messages: { Add: DgenServer.cast({ payload: Schema.String }), Ask: DgenServer.call({ success: Schema.Int }) }
}) {}

const log = Log.behaviour({
  init: Effect.succeed([]),
  handlers: {
    Add: (item, state) => DgenServer.noReply([...state, item]),
    Ask: (_, state) => DgenServer.reply(state.length, state)
  }
})

/** A backend that counts its commits with writes, and answers them a turn later, as one with a disk does. */
const counted = (commits: { count: number }) =>
  Layer.effect(
    Backend.Backend,
    Effect.map(Backend.Backend, (backend) => ({
      ...backend,
      begin: Effect.map(backend.begin, (driver) => ({
        ...driver,
        commit: (request: Backend.CommitRequest, accepted: () => void) =>
          Effect.suspend(() => {
            if (request.mutations.length > 0) commits.count++
            return Effect.andThen(Effect.yieldNow, driver.commit(request, accepted))
          })
      }))
    }))
  ).pipe(Layer.provide(MemoryBackend.layer))

const inTenant = (backend: Layer.Layer<Backend.Backend>) =>
  Effect.provide(Tenant.layer(["tenant"]).pipe(Layer.provideMerge(backend)))

describe("pushes", () => {
  it.live("that come together share transactions, in their order", () => {
    const commits = { count: 0 }
    return Effect.gen(function*() {
      const client = yield* Log.client()
      const items = Array.from({ length: 200 }, (_, i) => `item ${i}`)
      commits.count = 0
      yield* Effect.forEach(items, (item) => client.cast("Add", item), { concurrency: "unbounded", discard: true })
      assert.isBelow(commits.count, 10)
      const server = yield* Log.start(log, { tuid: ["Log"] })
      assert.strictEqual(yield* server.call("Ask"), 200)
      assert.deepStrictEqual(yield* server.state, items)
    }).pipe(Effect.scoped, inTenant(counted(commits)))
  })

  it.live("that the store refuses fail alone", () =>
    Effect.gen(function*() {
      const { backend, prefix } = yield* Tenant.Tenant
      const pushes = yield* Pushes.make({
        backend,
        prefix,
        userPrefix: prefix,
        services: Context.empty(),
        slots: undefined
      })
      const key = (name: string) => Tuple.pack(["pushed", name], prefix)
      const write = (name: string) =>
        pushes.push(1, (state) => state.set(key(name), new Uint8Array(name === "long" ? 100_001 : 1)))
      const exits = yield* Effect.forEach(
        ["first", "second", "long", "third"],
        (name) => Effect.exit(write(name)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, false, true])
      const error = yield* Effect.flip(exits[2]!)
      assert.isTrue(BackendError.isBackendError(error) && error.reason._tag === "ValueTooLarge")
      const driver = yield* backend.begin
      for (const name of ["first", "second", "third"]) assert.isDefined(yield* driver.get(key(name)))
      driver.close()
    }).pipe(Effect.scoped, inTenant(counted({ count: 0 }))))

  it.live("that wait fail when the layer's scope closes, and leave nothing", () =>
    Effect.gen(function*() {
      const { backend, prefix } = yield* Tenant.Tenant
      const scope = yield* Scope.fork(yield* Effect.scope)
      const pushes = yield* Pushes.make({
        backend,
        prefix,
        userPrefix: prefix,
        services: Context.empty(),
        slots: undefined
      }).pipe(Scope.provide(scope))
      const key = Tuple.pack(["late"], prefix)
      const first = yield* Effect.forkChild(pushes.push(1, () => {}), { startImmediately: true })
      const late = yield* Effect.forkChild(Effect.flip(pushes.push(1, (state) => state.set(key, new Uint8Array(1)))), {
        startImmediately: true
      })
      yield* Scope.close(scope, Exit.void)
      yield* Fiber.join(first)
      assert.strictEqual((yield* Fiber.join(late)).reason._tag, "Closed")
      assert.strictEqual((yield* Effect.flip(pushes.push(1, () => {}))).reason._tag, "Closed")
      const driver = yield* backend.begin
      assert.isUndefined(yield* driver.get(key))
      driver.close()
    }).pipe(Effect.scoped, inTenant(counted({ count: 0 }))))
})

const DAY_MILLIS = 24 * 60 * 60_000

/** The keys of the library's rows that belong to processes. */
const processRows = Effect.gen(function*() {
  const { backend, prefix } = yield* Tenant.Tenant
  const driver = yield* backend.begin
  const { begin, end } = Tuple.range(["p"], libraryPrefix(prefix))
  const rows = yield* driver.getRange(begin, end, { limit: Infinity, reverse: false })
  driver.close()
  return rows.map((row) => Tuple.unpack(row.key, libraryPrefix(prefix).length).slice(1))
})

/** The name of a layer of another process. */
const instanceOf = (...bytes: ReadonlyArray<number>) => Uint8Array.from({ length: 20 }, (_, i) => bytes[i] ?? 0)

/** What a process that died left: its sign of life, and answers that nobody took. */
const leave = (instance: Uint8Array, beatMillis: number) =>
  Effect.gen(function*() {
    const { backend, prefix } = yield* Tenant.Tenant
    const driver = yield* backend.begin
    const beat = new Uint8Array(8)
    new DataView(beat.buffer).setFloat64(0, beatMillis)
    const rows = [
      { key: beatKey(prefix, instance), value: beat },
      ...[1, 2, 3].map((n) => ({
        key: Tuple.pack(["answer", n, 0, 1], processPrefix(prefix, instance)),
        value: new Uint8Array(1)
      }))
    ]
    yield* driver.commit({
      mutations: rows.map((row) => ({ op: "set" as const, ...row })),
      readConflicts: [],
      writeConflicts: [],
      watches: []
    }, () => {})
    driver.close()
  })

describe("a tenant's layer", () => {
  it.effect("takes away what processes left that have been silent for longer than any call may wait", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(100 * DAY_MILLIS)
      for (let i = 0; i < 250; i++) yield* leave(instanceOf(1, i), 98 * DAY_MILLIS)
      yield* leave(instanceOf(2), 100 * DAY_MILLIS - 60_000)
      assert.lengthOf(yield* processRows, 251 * 4)
      // each sign of life of a living layer is followed by a look at a hundred others
      const live = Effect.gen(function*() {
        yield* TestClock.adjust("11 minutes")
        const client = yield* Log.client()
        yield* Effect.exit(
          client.call("Ask", undefined, { timeout: 1 }).pipe(Effect.raceFirst(TestClock.adjust("1 second")))
        )
      })
      yield* Effect.repeat(live, { times: 5 })
      const { instance } = yield* Tenant.Tenant
      const left = (yield* processRows).map((row) => Buffer.from(row[0] as Uint8Array).toString("hex"))
      assert.deepStrictEqual(
        [...new Set(left)].sort(),
        [instanceOf(2), instance].map((bytes) => Buffer.from(bytes).toString("hex")).sort()
      )
      yield* TestClock.adjust("26 hours")
      yield* live
      const later = (yield* processRows).map((row) => Buffer.from(row[0] as Uint8Array).toString("hex"))
      assert.deepStrictEqual([...new Set(later)], [Buffer.from(instance).toString("hex")])
    }).pipe(Effect.scoped, inTenant(MemoryBackend.layer)))

  it.live("keeps its own keys while it lives, and takes them with it", () =>
    Effect.gen(function*() {
      const client = yield* Log.client()
      const inner = yield* Scope.fork(yield* Effect.scope)
      const { path } = yield* Tenant.Tenant
      const layer = yield* Layer.build(Layer.fresh(Tenant.layer(path))).pipe(Scope.provide(inner))
      const other = yield* Effect.provideContext(Log.client(), layer)
      const waiting = yield* Effect.forkChild(Effect.exit(other.call("Ask")))
      yield* Effect.repeat(client.queueLength, { until: (length) => length === 1 })
      assert.lengthOf(yield* processRows, 1)
      yield* Scope.close(inner, Exit.void)
      assert.isTrue(Exit.isFailure(yield* Fiber.join(waiting)))
      assert.lengthOf(yield* processRows, 0)
    }).pipe(Effect.scoped, inTenant(MemoryBackend.layer)))
})

describe("transact", () => {
  it.live("refuses a path of no elements, and names what it wants", () =>
    Effect.gen(function*() {
      for (const path of [[], [""], "text", [7], ["\ud800"]]) {
        const error = yield* Effect.flip(
          Tenant.transact(Transaction.get(["a"])).pipe(
            Effect.provide(Tenant.layer(path as any).pipe(Layer.provide(MemoryBackend.layer)))
          )
        )
        assert.strictEqual(error.reason._tag, "InvalidArgument")
        assert.include(error.message, "Tenant.layer")
      }
    }))
})

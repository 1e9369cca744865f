/** The payment of examples/paymentServer.ts charges once, whatever happens while it runs. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { MemoryBackend, SqliteBackend, Tenant } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { behaviour, Order, OrderLocked, Payments } from "../../examples/paymentServer.ts"
import { temporaryFolder } from "../support/temporary.ts"

/** A service that charges once for each key. It does not answer its first request, and says when that has come. */
const bank = Effect.gen(function*() {
  const charged = new Map<string, number>()
  const asked = yield* Deferred.make<void>()
  let requests = 0
  const layer = Layer.succeed(Payments, {
    charge: (key, cents) =>
      Effect.suspend(() => {
        if (!charged.has(key)) charged.set(key, cents)
        return requests++ === 0
          ? Effect.andThen(Deferred.succeed(asked, undefined), Effect.never)
          : Effect.succeed(`receipt for ${charged.get(key)}`)
      })
  })
  return { charged, asked: Deferred.await(asked), layer, requests: () => requests }
})

/** A service that charges once for each key, and answers when it is told to. */
const patientBank = Effect.gen(function*() {
  const charged = new Map<string, number>()
  const asked = yield* Deferred.make<void>()
  const answer = yield* Deferred.make<void>()
  let requests = 0
  const layer = Layer.succeed(Payments, {
    charge: (key, cents) =>
      Effect.gen(function*() {
        requests++
        if (!charged.has(key)) charged.set(key, cents)
        yield* Deferred.succeed(asked, undefined)
        yield* Deferred.await(answer)
        return `receipt for ${charged.get(key)}`
      })
  })
  return {
    charged,
    asked: Deferred.await(asked),
    answer: Deferred.succeed(answer, undefined),
    layer,
    requests: () => requests
  }
})

/** A process that runs the order; it ends with the test. */
const started = (filename: string, folder: string, stops: "before" | "after" | "never") =>
  Effect.acquireRelease(
    Effect.sync(() =>
      fork(path.join(import.meta.dirname, "paymentChild.ts"), [filename, folder, stops], {
        execArgv: ["--conditions=effect-dgen-source", "--disable-warning=ExperimentalWarning"]
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

const ended = (child: ChildProcess) =>
  Effect.callback<void>((resume) => void child.once("exit", () => resume(Effect.void)))

/** Waits until a process says so; one that ends instead is an error. */
const said = (child: ChildProcess, what: string) =>
  Effect.raceFirst(
    Effect.callback<void>((resume) => {
      const hear = (message: unknown) => message === what && resume(Effect.void)
      child.on("message", hear)
      return Effect.sync(() => child.off("message", hear))
    }),
    Effect.andThen(ended(child), Effect.die(new Error(`the process ended before it was ${what}`)))
  )

const startOrder = (layer: Layer.Layer<Payments>) =>
  Order.start(behaviour, { tuid: ["order", 1], lockTimeout: "1 minute", grace: "20 millis" }).pipe(
    Effect.provide(OrderLocked.pipe(Layer.provide(layer)))
  )

describe("examples/paymentServer.ts", () => {
  it.live("charges once when its scope closes during the payment, and the caller asks again", () =>
    Effect.gen(function*() {
      const { asked, charged, layer, requests } = yield* bank
      const scope = yield* Scope.fork(yield* Effect.scope)
      const order = yield* startOrder(layer).pipe(Effect.provideService(Scope.Scope, scope))
      yield* order.cast("Add", { cents: 1_750 })
      const paying = yield* Effect.forkChild(order.call("Pay"))
      yield* asked
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Effect.flip(Fiber.join(paying)))._tag, "ServerStopped")

      const again = yield* startOrder(layer)
      assert.strictEqual(yield* again.call("Pay"), "receipt for 1750")
      assert.strictEqual(yield* again.call("Pay"), "receipt for 1750")
      assert.strictEqual(yield* again.call("Status"), "paid, 1750 cents")
      assert.deepStrictEqual([...charged], [["order-1", 1_750]])
      assert.strictEqual(requests(), 2)
      assert.strictEqual(yield* again.queueLength, 0)
    }).pipe(
      Effect.scoped,
      Effect.provide([Tenant.layer(["payment"]).pipe(Layer.provide(MemoryBackend.layer)), Logger.layer([])])
    ))

  const key = "checkout 4711"
  const receipt = "receipt for 1750"

  /** Pays an order of which one message is sent with the key as often as `pay` says: it is charged once, under that key. */
  const paysOnce = (
    title: string,
    pay: (bank: Effect.Success<typeof patientBank>) => Effect.Effect<void, unknown, Tenant.Tenant | Scope.Scope>
  ) =>
    it.live(`pays once: ${title}`, () =>
      Effect.gen(function*() {
        const made = yield* patientBank
        yield* Effect.flatMap(Order.client({ tuid: ["order", 1] }), (order) => order.cast("Add", { cents: 1_750 }))
        yield* pay(made)
        const order = yield* Order.client({ tuid: ["order", 1] })
        assert.deepStrictEqual([...made.charged], [[key, 1_750]])
        assert.strictEqual((yield* order.state)?.status, "paid")
        assert.deepStrictEqual(yield* order.result(key), { _tag: "Done", exit: Exit.succeed(receipt) })
        assert.strictEqual(yield* order.queueLength, 0)
      }).pipe(
        Effect.scoped,
        Effect.provide([Tenant.layer(["payment", title]).pipe(Layer.provide(MemoryBackend.layer)), Logger.layer([])])
      ))

  paysOnce("a person who clicks twice", ({ answer, layer, requests }) =>
    Effect.gen(function*() {
      const order = yield* startOrder(layer)
      const clicks = yield* Effect.forEach([1, 2], () => Effect.forkChild(order.call("Pay", { key })))
      yield* answer
      for (const click of clicks) assert.strictEqual(yield* Fiber.join(click), receipt)
      assert.strictEqual(requests(), 1)
    }))

  paysOnce("a caller whose call timed out", ({ answer, layer, requests }) =>
    Effect.gen(function*() {
      const order = yield* startOrder(layer)
      assert.strictEqual((yield* Effect.flip(order.call("Pay", { key, timeout: "20 millis" })))._tag, "CallTimeout")
      const again = yield* Effect.forkChild(order.call("Pay", { key }))
      yield* answer
      assert.strictEqual(yield* Fiber.join(again), receipt)
      assert.strictEqual(requests(), 1)
    }))

  paysOnce("a process that stands still", ({ answer, asked, layer, requests }) =>
    Effect.gen(function*() {
      // this one never comes back from its first request
      const dead = yield* startOrder(layer)
      const paying = yield* Effect.forkChild(Effect.exit(dead.call("Pay", { key })))
      yield* asked
      yield* Order.start(behaviour, { tuid: ["order", 1], lockTimeout: "50 millis", grace: "20 millis" }).pipe(
        Effect.provide(OrderLocked.pipe(Layer.provide(layer)))
      )
      yield* Effect.repeat(Effect.sync(requests), { until: (count) => count >= 2 })
      yield* answer
      yield* Fiber.join(paying)
      const client = yield* Order.client({ tuid: ["order", 1] })
      assert.strictEqual(yield* client.call("Pay", { key }), receipt)
    }))

  paysOnce("a deploy", ({ answer, asked, layer, requests }) =>
    Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope)
      const order = yield* startOrder(layer).pipe(Effect.provideService(Scope.Scope, scope))
      const paying = yield* Effect.forkChild(order.call("Pay", { key }))
      yield* asked
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual((yield* Effect.flip(Fiber.join(paying)))._tag, "ServerStopped")
      yield* answer
      const next = yield* startOrder(layer)
      assert.strictEqual(yield* next.call("Pay", { key }), receipt)
      assert.strictEqual(requests(), 2)
    }))

  for (const dies of ["before", "after"] as const) {
    it.live(`pays once: a process that is killed ${dies} the bank has charged`, () =>
      Effect.gen(function*() {
        const folder = temporaryFolder()
        const filename = path.join(folder, "orders.db")
        const store = Tenant.layer(["payment"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))
        yield* Effect.gen(function*() {
          const first = yield* started(filename, folder, dies)
          yield* said(first, "ready")
          const order = yield* Order.client({ tuid: ["order", 1] })
          yield* order.cast("Add", { cents: 1_750 })
          const hangs = yield* Effect.forkChild(said(first, "hangs"), { startImmediately: true })
          const paying = yield* Effect.forkChild(order.call("Pay", { key, timeout: "1 minute" }))
          yield* Fiber.join(hangs)
          const end = yield* Effect.forkChild(ended(first), { startImmediately: true })
          first.kill("SIGKILL")
          yield* Fiber.join(end)
          yield* started(filename, folder, "never")
          // who waited is answered, and so is who asks again
          assert.strictEqual(yield* Fiber.join(paying), receipt)
          assert.strictEqual(yield* order.call("Pay", { key }), receipt)
          assert.strictEqual((yield* order.state)?.status, "paid")
          assert.strictEqual(yield* order.queueLength, 0)
        }).pipe(Effect.provide(store))
        assert.deepStrictEqual(fs.readdirSync(folder).filter((name) => name.startsWith("charged")), [`charged ${key}`])
        assert.strictEqual(fs.readFileSync(path.join(folder, "requests"), "utf8"), `${key}\n${key}\n`)
      }).pipe(Effect.scoped), 60_000)
  }
})

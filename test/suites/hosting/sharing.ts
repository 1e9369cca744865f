/** Hosted servers: what wakes them, what is left of them at rest, and how hosts share them. Run on every backend. */
import { assert, describe } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Schema, Scope } from "effect"
import { DgenServer, Tenant, Tuple } from "effect-dgen"
import { IndexKeys } from "../../../src/internal/server/kept/indexes.ts"
import {
  elsewhere,
  failureOf,
  inside,
  keysOf,
  overwrite,
  rowsUnder,
  scan,
  type Store,
  tapped,
  testsOf,
  until
} from "../server/support.ts"

class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

class Cart extends DgenServer.Service<Cart>()("Cart", {
  state: Schema.Struct({ items: Schema.Array(Schema.String) }),
  hosted: true,
  messages: {
    Add: DgenServer.cast({ payload: { sku: Schema.String } }),
    Later: DgenServer.cast({ payload: { sku: Schema.String } }),
    Items: DgenServer.call({ success: Schema.Array(Schema.String) }),
    Put: DgenServer.call({ payload: { sku: Schema.String }, success: Schema.Int }),
    Pay: DgenServer.call({ success: Schema.String, locks: true }),
    Give: DgenServer.cast({ payload: { sku: Schema.String, to: Schema.Int } }),
    /** Fails after it has given: what it gave is taken back. */
    Regret: DgenServer.call({ payload: { sku: Schema.String, to: Schema.Int }, error: Refused }),
    Look: DgenServer.info()
  }
}) {}

const behaviour = Cart.behaviour({
  init: ({ tuid }) => Effect.succeed({ items: [`of ${tuid[1]}`] }),
  handlers: {
    Add: ({ sku }, state) => DgenServer.noReply({ items: [...state.items, sku] }),
    Later: ({ sku }, state) => Effect.as(Effect.orDie(Cart.castSelfTx("Add", { sku })), DgenServer.noReply(state)),
    Put: ({ sku }, state) => DgenServer.reply(state.items.length + 1, { items: [...state.items, sku] }),
    Items: (_, state) => DgenServer.reply(state.items, state),
    Pay: (_, state) => DgenServer.lock(state),
    Give: ({ sku, to }, state) =>
      Effect.as(Effect.orDie(Cart.castTx("Add", { sku }, { tuid: ["cart", to] })), DgenServer.noReply(state)),
    Regret: ({ sku, to }) =>
      Effect.andThen(Effect.orDie(Cart.castTx("Add", { sku }, { tuid: ["cart", to] })), Effect.fail(new Refused())),
    Look: (_, state) => DgenServer.noReply(state)
  }
})

/** What the locked handler of a test does. */
class Till extends Context.Service<Till, { readonly pay: Effect.Effect<void> }>()("test/Till") {}

const locked = Cart.lockedLayer({
  Pay: (_, state) => Effect.flatMap(Till, ({ pay }) => Effect.as(pay, DgenServer.reply("paid", state)))
})

const hosting = (options: DgenServer.HostOptions = {}, pay: Effect.Effect<void> = Effect.void) =>
  Cart.hostLayer(behaviour, { lockTimeout: "1 minute", ...options }).pipe(
    Layer.provide(locked),
    Layer.provide(Layer.succeed(Till, { pay }))
  )

/** A host for as long as the test, or until its scope is closed. */
const host = (options?: DgenServer.HostOptions, pay?: Effect.Effect<void>) =>
  Effect.gen(function*() {
    const scope = yield* Scope.fork(yield* Effect.scope)
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const context = yield* Layer.buildWithScope(Layer.fresh(hosting(options, pay)), scope)
    return { context, close: Scope.close(scope, Exit.void) }
  })

const entries = Effect.flatMap(Tenant.Tenant, ({ prefix }) => rowsUnder(new IndexKeys(prefix, "Cart").work))

const atRest = until(entries, (rows) => rows.length === 0)

const names = (rows: ReadonlyArray<Tuple.Tuple>) => [...new Set(rows.map((row) => row[0]))]

export const sharingSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "hosting")
  const seven = { tuid: ["cart", 7] }

  describe(`${name}: hosted servers`, () => {
    test(
      "are made and run by any message, from a process that does not host them",
      Effect.gen(function*() {
        yield* host()
        const items = yield* inside(yield* elsewhere)(Effect.gen(function*() {
          const cart = yield* Cart.client(seven)
          yield* cart.cast("Add", { sku: "ink" })
          return yield* cart.call("Items")
        }))
        assert.deepStrictEqual(items, ["of 7", "ink"])
      })
    )

    test(
      "handle what was sent before there was a host",
      Effect.gen(function*() {
        const cart = yield* Cart.client(seven)
        yield* cart.castAll([["Add", { sku: "ink" }], ["Add", { sku: "pen" }]])
        yield* host()
        assert.deepStrictEqual(yield* cart.call("Items"), ["of 7", "ink", "pen"])
      })
    )

    test(
      "send to themselves: what a message of their own leaves to do is done",
      Effect.gen(function*() {
        yield* host()
        const cart = yield* Cart.client(seven)
        yield* cart.cast("Later", { sku: "ink" })
        yield* until(cart.state, (state) => state?.items.includes("ink") === true)
        yield* atRest
      })
    )

    test(
      "at rest are their state and their place in the list, and nothing else",
      Effect.gen(function*() {
        yield* host()
        const cart = yield* Cart.client(seven)
        yield* inside(yield* elsewhere)(
          Effect.flatMap(Cart.client(seven), (other) => other.call("Put", { sku: "ink" }))
        )
        yield* atRest
        assert.deepStrictEqual(names(yield* scan(seven.tuid)), ["head", "name", "state"])
        assert.strictEqual(yield* cart.queueLength, 0)
        assert.deepStrictEqual(yield* Tenant.transact(Cart.list()), [seven.tuid])
      })
    )

    test(
      "are not made by who only looks",
      Effect.gen(function*() {
        yield* host()
        const cart = yield* Cart.client(seven)
        assert.deepStrictEqual(yield* cart.call("Items"), ["of 7"])
        const fromElsewhere = inside(yield* elsewhere)(
          Effect.flatMap(Cart.client(seven), (other) => other.call("Items"))
        )
        assert.deepStrictEqual(yield* fromElsewhere, ["of 7"])
        yield* atRest
        assert.deepStrictEqual(yield* scan(seven.tuid), [])
        assert.deepStrictEqual(yield* Tenant.transact(Cart.list()), [])
      })
    )

    test(
      "are listed by tuid, by prefix, page by page",
      Effect.gen(function*() {
        yield* host()
        for (const tuid of [["b"], ["b", 1], ["b", 2], ["ba"], ["a", 9]]) {
          const cart = yield* Cart.client({ tuid })
          yield* cart.call("Put", { sku: "ink" })
        }
        const list = (options: Parameters<typeof Cart.list>[0]) => Tenant.transact(Cart.list(options))
        assert.deepStrictEqual(yield* list({}), [["a", 9], ["b"], ["b", 1], ["b", 2], ["ba"]])
        assert.deepStrictEqual(yield* list({ prefix: ["b"] }), [["b"], ["b", 1], ["b", 2]])
        assert.deepStrictEqual(yield* list({ after: ["b"], limit: 2 }), [["b", 1], ["b", 2]])
        assert.deepStrictEqual(yield* list({ prefix: ["b"], after: ["b", 2] }), [])
        for (const options of [{ limit: 0 }, { limit: 1.5 }, { prefix: "b" as never }, { after: [{}] as never }]) {
          const error = yield* Effect.flip(list(options))
          assert.strictEqual(error._tag, "InvalidOption")
        }
      })
    )

    test(
      "that are killed leave nothing, and the next message makes them anew",
      Effect.gen(function*() {
        yield* host()
        const cart = yield* Cart.client(seven)
        yield* cart.call("Put", { sku: "ink" })
        yield* cart.kill
        assert.deepStrictEqual(yield* scan(seven.tuid), [])
        assert.deepStrictEqual(yield* Tenant.transact(Cart.list()), [])
        assert.deepStrictEqual(yield* cart.call("Items"), ["of 7"])
      })
    )

    test(
      "keep their entry while they are locked, and go on after it",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        yield* host({}, Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)))
        const cart = yield* Cart.client(seven)
        const pays = yield* Effect.forkChild(cart.call("Pay"))
        yield* Deferred.await(begun)
        yield* cart.cast("Add", { sku: "ink" })
        assert.lengthOf(yield* entries, 1)
        assert.isTrue(yield* cart.locked)
        yield* Deferred.succeed(go, undefined)
        assert.strictEqual(yield* Fiber.join(pays), "paid")
        yield* until(cart.state, (state) => state?.items.length === 2)
        yield* atRest
      })
    )

    test(
      "wait for a place for their lock, and others go on",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        yield* host({ maxLocked: 1 }, Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)))
        const others = yield* elsewhere
        const pay = (id: number) =>
          inside(others)(Effect.flatMap(Cart.client({ tuid: ["cart", id] }), (cart) => cart.call("Pay")))
        const first = yield* Effect.forkChild(pay(1))
        yield* Deferred.await(begun)
        const second = yield* Effect.forkChild(pay(2))
        const cart = yield* Cart.client({ tuid: ["cart", 2] })
        yield* until(cart.queueLength, (length) => length === 1)
        const third = yield* Cart.client({ tuid: ["cart", 3] })
        yield* third.cast("Add", { sku: "ink" })
        yield* until(third.state, (state) => state !== undefined)
        assert.isFalse(yield* cart.locked)
        yield* Deferred.succeed(go, undefined)
        assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], ["paid", "paid"])
      })
    )

    test(
      "lose nothing that is sent while their entry is taken away",
      Effect.gen(function*() {
        const { prefix } = yield* Tenant.Tenant
        const work = Buffer.from(new IndexKeys(prefix, "Cart").work)
        const cart = yield* Cart.client(seven)
        let sent = 0
        const hooked = yield* tapped({
          // a message comes in between the batch's reads and its commit, each time it would take the entry away
          before: (request) =>
            Effect.suspend(() => {
              const takes = request.mutations.some((mutation) =>
                mutation.op === "clear" && work.equals(Buffer.from(mutation.key).subarray(0, work.length))
              )
              if (!takes || sent >= 20) return Effect.void
              return Effect.orDie(cart.cast("Add", { sku: `${++sent}` }))
            })
        })
        yield* inside(hooked)(host())
        yield* cart.cast("Add", { sku: "first" })
        yield* until(cart.state, (state) => state?.items.length === 22)
        yield* atRest
      })
    )

    test(
      "are woken by the message of a batch in which an earlier one was taken back",
      Effect.gen(function*() {
        const go = yield* Deferred.make<void>()
        yield* host({ consumeK: 10 }, Deferred.await(go))
        const cart = yield* Cart.client(seven)
        const caller = yield* inside(yield* elsewhere)(Cart.client(seven))
        yield* Effect.forkChild(caller.call("Pay"))
        yield* until(cart.locked, (isLocked) => isLocked)
        const regrets = yield* Effect.forkChild(caller.call("Regret", { sku: "pen", to: 8 }))
        yield* until(cart.queueLength, (length) => length === 2)
        yield* cart.cast("Give", { sku: "ink", to: 8 })
        yield* Deferred.succeed(go, undefined)
        assert.strictEqual((yield* failureOf(regrets))._tag, "Refused")
        const other = yield* Cart.client({ tuid: ["cart", 8] })
        yield* until(other.state, (state) => state !== undefined)
        assert.deepStrictEqual((yield* other.state)!.items, ["of 8", "ink"])
        yield* atRest
      })
    )

    test(
      "are shared by hosts, run once each, and taken over from one that leaves",
      Effect.gen(function*() {
        const one = yield* host()
        const other = yield* elsewhere
        const two = yield* inside(other)(host())
        const carts = yield* Effect.forEach(
          Array.from({ length: 50 }, (_, i) => i),
          (i) => Cart.client({ tuid: ["cart", i] })
        )
        yield* Effect.forEach(carts, (cart) => cart.cast("Add", { sku: "ink" }), { concurrency: "unbounded" })
        for (const cart of carts) yield* until(cart.state, (state) => state?.items.length === 2)
        yield* one.close
        yield* Effect.forEach(carts, (cart) => cart.cast("Add", { sku: "pen" }), { concurrency: "unbounded" })
        for (const cart of carts) yield* until(cart.state, (state) => state?.items.length === 3)
        yield* two.close
        yield* Effect.forEach(carts, (cart) => cart.cast("Add", { sku: "nib" }), { concurrency: "unbounded" })
        assert.lengthOf(yield* entries, 50)
        yield* host()
        for (const cart of carts) yield* until(cart.state, (state) => state?.items.length === 4)
        yield* atRest
      })
    )

    test(
      "of a host that died under their lock are taken up by the next one, which breaks the lock",
      Effect.gen(function*() {
        const { prefix } = yield* Tenant.Tenant
        const keys = yield* keysOf(seven.tuid)
        const { work } = new IndexKeys(prefix, "Cart")
        const locked = yield* Deferred.make<void>()
        const dying = yield* host({ grace: 1 }, Effect.andThen(Deferred.succeed(locked, undefined), Effect.never))
        const caller = yield* inside(yield* elsewhere)(Cart.client(seven))
        const pays = yield* Effect.forkChild(caller.call("Pay", undefined, { timeout: "1 minute" }))
        yield* Deferred.await(locked)
        const left = [...(yield* rowsUnder(keys.prefix)), ...(yield* rowsUnder(work))]
        yield* dying.close
        // the store as it was when the lock was held
        yield* overwrite([
          { op: "clearRange", begin: keys.prefix, end: Tuple.strinc(keys.prefix) },
          { op: "clearRange", begin: work, end: Tuple.strinc(work) },
          ...left.map(({ key, value }) => ({ op: "set" as const, key, value }))
        ])
        yield* host({ lockTimeout: "50 millis" })
        assert.strictEqual(yield* Fiber.join(pays), "paid")
        yield* atRest
      })
    )

    test(
      "go on at once when an operator breaks the lock of a message that came past their queue",
      Effect.gen(function*() {
        const { context } = yield* host({ grace: 1 }, Effect.never)
        const cart = yield* Effect.provideContext(Cart.hosted(seven), context)
        const pays = yield* Effect.forkChild(cart.priorityCall("Pay"))
        yield* until(cart.locked, (isLocked) => isLocked)
        yield* cart.cast("Add", { sku: "ink" })
        assert.isTrue(yield* inside(yield* elsewhere)(Tenant.transact(Cart.unlock(seven))))
        yield* until(cart.state, (state) => state?.items.includes("ink") === true)
        assert.strictEqual((yield* failureOf(pays))._tag, "LockFenced")
        yield* atRest
      })
    )

    test(
      "have clients past the queue in the process that hosts them, until the host's scope closes",
      Effect.gen(function*() {
        const { close, context } = yield* host()
        const cart = yield* Effect.provideContext(Cart.hosted(seven), context)
        yield* cart.priorityCast("Add", { sku: "ink" })
        yield* cart.info("Look")
        assert.strictEqual(yield* cart.priorityCall("Put", { sku: "pen" }), 3)
        assert.strictEqual(yield* cart.call("Put", { sku: "nib" }), 4)
        yield* close
        const error = yield* Effect.flip(cart.info("Look"))
        assert.strictEqual(error._tag, "ServerStopped")
      })
    )

    test(
      "refuse what cannot be hosted",
      Effect.gen(function*() {
        const build = (options: object) =>
          Effect.flip(Effect.scoped(Layer.build(Layer.fresh(hosting(options as never)))))
        for (
          const options of [
            { lockTimeout: Duration.infinity },
            { lockTimeout: undefined },
            { concurrency: 0 },
            { concurrency: 1.5 },
            { maxLocked: -1 },
            { maxResident: Number.NaN },
            { idleTimeToLive: "soon" },
            { consume: false },
            { reset: true }
          ]
        ) {
          const error = yield* build(options)
          assert.strictEqual(error._tag, "InvalidOption", JSON.stringify(options))
        }
        const long = yield* Effect.flip(Cart.client({ tuid: ["cart", "x".repeat(2_000)] }))
        assert.strictEqual(long._tag, "InvalidTuid")
        yield* host()
        assert.strictEqual((yield* build({}))._tag, "InvalidOption")
      })
    )
  })
}

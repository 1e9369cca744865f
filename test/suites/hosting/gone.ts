/** The end of a server by its own will: what goes, what stays, and who is told. Run on every backend. */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, Result, Schema } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import * as Envelopes from "../../../src/internal/queue/envelope.ts"
import * as Heads from "../../../src/internal/server/kept/head.ts"
import { IndexKeys } from "../../../src/internal/server/kept/indexes.ts"
import { ServerKeys } from "../../../src/internal/server/kept/layout.ts"
import { keep } from "../../../src/internal/server/mending/requeue.ts"
import {
  elsewhere,
  failureOf,
  inside,
  rowsUnder,
  scan,
  type Store,
  testsOf,
  until,
  waitingCalls
} from "../server/support.ts"

const messages = {
  Add: DgenServer.cast({ payload: { item: Schema.String } }),
  Send: DgenServer.call({ success: Schema.Array(Schema.String) }),
  Drop: DgenServer.cast(),
  Wait: DgenServer.call({ success: Schema.String }),
  Pay: DgenServer.call({ success: Schema.String, locks: true }),
  Quit: DgenServer.info(),
  Items: DgenServer.call({ success: Schema.Array(Schema.String) })
}
const state = Schema.Struct({ items: Schema.Array(Schema.String) })

class Order extends DgenServer.Service<Order>()("Order", {
  state,
  messages,
  actions: { Print: { items: Schema.Array(Schema.String) } },
  hosted: true
}) {}

class Lone
  extends DgenServer.Service<Lone>()("Lone", { state, messages: { Send: messages.Send, Add: messages.Add } })
{}

const printed: Array<unknown> = []

const behaviour = Order.behaviour({
  init: Effect.succeed({ items: [] }),
  handlers: {
    Add: ({ item }, order) => DgenServer.noReply({ items: [...order.items, item] }),
    Send: (_, order) =>
      Effect.as(
        Effect.orDie(Order.castLaterSelfTx("Drop", { after: "1 hour" })),
        DgenServer.reply(order.items, DgenServer.gone, [Order.action("Print", { items: order.items })])
      ),
    Drop: () => DgenServer.noReply(DgenServer.gone),
    Wait: (_, order) => DgenServer.noReply({ items: [...order.items, "waits"] }),
    Pay: (_, order) => DgenServer.lock(order),
    Quit: () => DgenServer.noReply(DgenServer.gone),
    Items: (_, order) => DgenServer.reply(order.items, order)
  }
})

const tuid = ["order", 7]

const host = (pay: Effect.Effect<void> = Effect.void) =>
  Layer.build(Layer.fresh(
    Order.hostLayer(behaviour, { lockTimeout: "1 minute" }).pipe(
      Layer.provide(Order.lockedLayer({ Pay: () => Effect.as(pay, DgenServer.reply("paid", DgenServer.gone)) })),
      Layer.provide(
        Order.actionsLayer({ Print: (payload, order) => Effect.sync(() => void printed.push([payload, order])) })
      )
    )
  ))

const indexes = Effect.flatMap(Tenant.Tenant, ({ prefix }) => {
  const { list, wakes, work } = new IndexKeys(prefix, "Order")
  return Effect.map(Effect.all([list, wakes, work].map(rowsUnder)), (rows) => rows.map((of) => of.length))
})

export const goneSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "gone")

  describe(`${name}: servers that are gone`, () => {
    test(
      "are answered for, have run their actions on the last state, and leave nothing in any index",
      Effect.gen(function*() {
        yield* host()
        printed.length = 0
        const order = yield* Order.client({ tuid })
        yield* order.cast("Add", { item: "ink" })
        assert.deepStrictEqual(yield* order.call("Send"), ["ink"])
        yield* until(indexes, (rows) => rows.every((count) => count === 0))
        assert.isUndefined(yield* order.state)
        assert.deepStrictEqual((yield* scan(tuid)).map((key) => key[0]), ["name"])
        yield* until(Effect.sync(() => printed.length), (count) => count === 1)
        assert.deepStrictEqual(printed, [[{ items: ["ink"] }, { items: ["ink"] }]])
      })
    )

    test(
      "begin a new life with the next message, in the same batch or a later one",
      Effect.gen(function*() {
        const order = yield* Order.client({ tuid })
        yield* order.castAll([["Add", { item: "old" }], ["Drop"], ["Add", { item: "new" }]])
        yield* host()
        yield* until(order.state, (current) => current?.items.includes("new") === true)
        assert.deepStrictEqual(yield* order.call("Items"), ["new"])
        yield* order.call("Send")
        assert.deepStrictEqual(yield* order.call("Items"), [])
      })
    )

    test(
      "tell the calls that they had handled and left open, and no others",
      Effect.gen(function*() {
        yield* host()
        const order = yield* Order.client({ tuid })
        const others = yield* elsewhere
        const wait = inside(others)(Effect.flatMap(Order.client({ tuid }), (client) => client.call("Wait")))
        const here = yield* Effect.forkChild(order.call("Wait"))
        const there = yield* Effect.forkChild(wait)
        yield* until(order.state, (current) => current?.items.length === 2)
        yield* order.cast("Drop")
        assert.strictEqual((yield* failureOf(here))._tag, "ServerKilled")
        assert.strictEqual((yield* failureOf(there))._tag, "ServerKilled")
        assert.deepStrictEqual(yield* waitingCalls(tuid), [])
      })
    )

    test(
      "end under their lock by its outcome",
      Effect.gen(function*() {
        yield* host()
        const order = yield* Order.client({ tuid })
        yield* order.cast("Add", { item: "ink" })
        assert.strictEqual(yield* order.call("Pay"), "paid")
        yield* until(indexes, (rows) => rows.every((count) => count === 0))
        assert.isUndefined(yield* order.state)
      })
    )

    test(
      "do not end past a lock that is held",
      Effect.gen(function*() {
        const go = yield* Latch.make(false)
        const context = yield* host(go.await)
        const order = yield* Order.client({ tuid })
        const pays = yield* Effect.forkChild(order.call("Pay"))
        yield* until(order.locked, (isLocked) => isLocked)
        const past = yield* Effect.provideContext(Order.hosted({ tuid }), context)
        assert.strictEqual((yield* Effect.flip(past.info("Quit")))._tag, "Locked")
        yield* go.open
        assert.strictEqual(yield* Fiber.join(pays), "paid")
        yield* past.priorityCast("Add", { item: "ink" })
        yield* past.info("Quit")
        assert.isUndefined(yield* order.state)
      })
    )

    test(
      "leave what an earlier release kept beside the queue to their next life",
      Effect.gen(function*() {
        const context = yield* host()
        const order = yield* Order.client({ tuid })
        yield* order.cast("Add", { item: "old" })
        yield* until(indexes, ([list, , work]) => list === 1 && work === 0)
        const { prefix } = yield* Tenant.Tenant
        const keys = new ServerKeys(prefix, tuid, { name: "Order", hosted: true })
        const token = new Uint8Array(20)
        const add = { tag: "Add", payload: { item: "kept" }, caller: undefined, trace: undefined, millis: 0 }
        yield* Tenant.transact(
          Effect.flatMap(Transaction.Transaction, (state) =>
            Effect.map(state.get(keys.head), (bytes) => {
              const head = Result.getOrThrow(Heads.decode(bytes!))
              state.set(keys.head, Heads.encode({ ...head, fenced: [{ token, millis: 0, attempts: 0 }] }))
              keep(state, keys, token, Envelopes.encode(add))
            }))
        )
        const past = yield* Effect.provideContext(Order.hosted({ tuid }), context)
        yield* past.info("Quit")
        yield* until(order.state, (current) => current?.items.includes("kept") === true)
        assert.deepStrictEqual(yield* order.call("Items"), ["kept"])
      })
    )

    test(
      "that were started end their handle, and are made by the next start",
      Effect.gen(function*() {
        const lone = Lone.behaviour({
          init: Effect.succeed({ items: ["first"] }),
          handlers: {
            Add: ({ item }, current) => DgenServer.noReply({ items: [...current.items, item] }),
            Send: (_, current) => DgenServer.reply(current.items, DgenServer.gone)
          }
        })
        const one = yield* Lone.start(lone, { tuid: ["lone"] })
        assert.deepStrictEqual(yield* one.call("Send"), ["first"])
        assert.strictEqual((yield* Effect.flip(one.call("Send")))._tag, "ServerKilled")
        const two = yield* Lone.start(lone, { tuid: ["lone"] })
        assert.deepStrictEqual(yield* two.call("Send"), ["first"])
      })
    )
  })
}

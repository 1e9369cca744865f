/** Orders that are paid through a service of somebody else, once each: their server is in paymentServer.ts. */
import { Console, Effect, Layer } from "effect"
import { behaviour, Declined, Order, OrderLocked, Payments } from "./paymentServer.ts"
import { temporaryTenant } from "./temporaryStore.ts"

const PaymentsTest = Layer.sync(Payments, () => {
  const receipts = new Map<string, string>()
  return {
    charge: (key, cents) =>
      Effect.gen(function*() {
        if (cents > 10_000) return yield* new Declined({ reason: "over the card's limit" })
        const receipt = receipts.get(key) ?? `receipt ${receipts.size + 1} over ${cents} cents`
        receipts.set(key, receipt)
        return receipt
      })
  }
})

const shop = Effect.gen(function*() {
  const order = yield* Order.start(behaviour, { tuid: ["order", 1], lockTimeout: "30 seconds" })
  yield* order.castAll([["Add", { cents: 1_500 }], ["Add", { cents: 250 }]])
  yield* Console.log(`before: ${yield* order.call("Status")}`)
  // a person who clicks twice: both clicks have the key that the page was made with
  const click = order.call("Pay", { key: "checkout 4711" })
  const [receipt] = yield* Effect.all([click, click], { concurrency: "unbounded" })
  yield* Console.log(`paid: ${receipt}`)
  yield* Console.log(`after: ${yield* order.call("Status")}`)

  const large = yield* Order.start(behaviour, { tuid: ["order", 2], lockTimeout: "30 seconds" })
  yield* large.cast("Add", { cents: 1_000_000 })
  const declined = yield* Effect.flip(large.call("Pay"))
  yield* Console.log(`the large order is declined: ${declined._tag === "Declined" ? declined.reason : declined._tag}`)
})

await Effect.runPromise(shop.pipe(
  Effect.scoped,
  Effect.provide(OrderLocked.pipe(Layer.provide(PaymentsTest))),
  Effect.provide(temporaryTenant("payment"))
))

/**
 * An order that is paid through a service of somebody else. The call to the service cannot be part of a transaction, so it
 * happens under the order's lock: between the commit that says "paying" and the one that says how it ended. The service
 * is told the message's id, so that it charges once even if the locked handler runs twice.
 */
import { Console, Context, Effect, Layer, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { temporaryTenant } from "./temporaryStore.ts"

/** The payment service: charges once for each key, however often it is asked. */
class Payments extends Context.Service<Payments, {
  readonly charge: (key: string, cents: number) => Effect.Effect<string, Declined>
}>()("examples/Payments") {}

class Declined extends Schema.TaggedError<Declined>()("Declined", { reason: Schema.String }) {}

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

class Order extends DgenServer.Service<Order>()("Order", {
  state: Schema.Struct({ status: Schema.Literals(["open", "paying", "paid"]), cents: Schema.Int }),
  messages: {
    Add: DgenServer.cast({ payload: { cents: Schema.Int } }),
    Pay: DgenServer.call({ success: Schema.String, error: Declined, locks: true }),
    Status: DgenServer.call({ success: Schema.String })
  }
}) {}

const behaviour = Order.behaviour({
  init: Effect.succeed({ status: "open", cents: 0 }),
  handlers: {
    Add: ({ cents }, state) => DgenServer.noReply({ ...state, cents: state.cents + cents }),
    // the first commit: the order is locked, and says so
    Pay: (_, state) => DgenServer.lock({ ...state, status: "paying" as const }),
    Status: (_, state) => DgenServer.reply(`${state.status}, ${state.cents} cents`, state)
  }
})

// between the commits: any service may be used here, and the message may come twice
const OrderLocked = Order.lockedLayer({
  Pay: Effect.fnUntraced(function*(_, state, { id }) {
    const payments = yield* Payments
    const receipt = yield* payments.charge(id, state.cents)
    // the second commit: state, answer and the end of the lock
    return DgenServer.reply(receipt, { ...state, status: "paid" as const })
  })
})

const shop = Effect.gen(function*() {
  const order = yield* Order.start(behaviour, { tuid: ["order", 1], lockTimeout: "30 seconds" })
  yield* order.castAll([["Add", { cents: 1_500 }], ["Add", { cents: 250 }]])
  yield* Console.log(`before: ${yield* order.call("Status")}`)
  yield* Console.log(`paid: ${yield* order.call("Pay")}`)
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

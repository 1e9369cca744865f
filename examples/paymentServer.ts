/**
 * An order that is paid through a service of somebody else. The call to the service cannot be part of a transaction, so it
 * happens under the order's lock: between the commit that says "paying" and the one that says how it ended. The payment
 * is charged once, whatever happens between the two. Whoever pays sends a key with the message: two messages with one key
 * are one payment, with one answer, though a person clicks twice, a call times out, a process dies or is deployed anew. The
 * service is told the same key, so that it knows a second request for what it is.
 */
import { Context, Effect, Exit, Schema } from "effect"
import { DgenServer } from "effect-dgen"

/** The payment service: charges once for each key, however often it is asked. */
export class Payments extends Context.Service<Payments, {
  readonly charge: (key: string, cents: number) => Effect.Effect<string, Declined>
}>()("examples/Payments") {}

export class Declined extends Schema.TaggedError<Declined>()("Declined", { reason: Schema.String }) {}

const OrderState = Schema.Struct({
  number: Schema.String,
  status: Schema.Literals(["open", "paying", "paid"]),
  cents: Schema.Int,
  receipt: Schema.optionalKey(Schema.String)
})
type OrderState = typeof OrderState.Type

export class Order extends DgenServer.Service<Order>()("Order", {
  state: OrderState,
  messages: {
    Add: DgenServer.cast({ payload: { cents: Schema.Int } }),
    Pay: DgenServer.call({ success: Schema.String, error: Declined, locks: true }),
    Status: DgenServer.call({ success: Schema.String })
  }
}) {}

export const behaviour = Order.behaviour({
  init: ({ tuid }) => Effect.succeed({ number: tuid.join("-"), status: "open", cents: 0 }),
  handlers: {
    // what is being paid does not change
    Add: ({ cents }, state) =>
      DgenServer.noReply(state.status === "open" ? { ...state, cents: state.cents + cents } : state),
    // the first commit: the order is locked, and says so; one that is paid is not paid again
    Pay: (_, state) =>
      state.receipt === undefined
        ? DgenServer.lock({ ...state, status: "paying" as const })
        : DgenServer.reply(state.receipt, state),
    Status: (_, state) => DgenServer.reply(`${state.status}, ${state.cents} cents`, state)
  }
})

// between the commits: any service may be used here, and the handler may run twice. The key is the caller's own, from the
// first click on; an order that is paid without one has its number
export const OrderLocked = Order.lockedLayer({
  Pay: Effect.fnUntraced(function*(_, state, { from }) {
    const payments = yield* Payments
    // the second commit: state, answer and the end of the lock
    return yield* Effect.match(payments.charge(from?.key ?? state.number, state.cents), {
      onSuccess: (receipt) => DgenServer.reply(receipt, { ...state, status: "paid" as const, receipt }),
      // a locked handler that fails leaves the state as the lock's commit left it: this one has to change it
      onFailure: (declined) =>
        DgenServer.update((now: OrderState) =>
          Effect.as(
            Order.replyTo(from, Exit.fail(declined)),
            DgenServer.noReply({ ...now, status: "open" as const })
          )
        )
    })
  })
})

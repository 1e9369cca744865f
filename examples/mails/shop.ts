/**
 * A shop that confirms each order by mail. The mail is a durable action: the commit that places the order writes it down, and
 * it stays until it has been sent, whatever becomes of the process. It is sent at least once, always with the same id, and
 * the mail service sends what has one id once.
 */
import { Context, Effect, Layer, Schema } from "effect"
import { DgenServer, SqliteBackend, Tenant } from "effect-dgen"

/** Whoever sends mails: once for each id. */
export class Mails extends Context.Service<Mails, {
  readonly send: (mail: { readonly id: string; readonly to: string; readonly text: string }) => Effect.Effect<void>
}>()("examples/Mails") {}

export class Customer extends DgenServer.Service<Customer>()("Customer", {
  hosted: true,
  state: Schema.Struct({ orders: Schema.Int }),
  messages: { Order: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int }) },
  actions: {
    Confirm: DgenServer.durable({
      payload: { order: Schema.Int, item: Schema.String },
      // a process that gives no sign of life for so long is taken for dead
      timeout: "500 millis"
    })
  }
}) {}

const behaviour = Customer.behaviour({
  init: Effect.succeed({ orders: 0 }),
  handlers: {
    Order: ({ item }, { orders }) => {
      const order = orders + 1
      return DgenServer.reply(order, { orders: order }, [Customer.action("Confirm", { order, item })])
    }
  }
})

const CustomerActions = Customer.actionsLayer({
  Confirm: Effect.fnUntraced(function*({ item, order }, { id, tuid }) {
    const mails = yield* Mails
    yield* mails.send({ id, to: String(tuid[1]), text: `order ${order}: ${item}` })
  })
})

/** Runs whatever customer has something to do, and sends the mails of all of them. */
export const CustomerHost = Customer.hostLayer(behaviour).pipe(Layer.provide(CustomerActions))

export const tenantIn = (filename: string) =>
  Tenant.layer(["demo", "mails"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))

/**
 * What the shop is made of: a server for each article, a server for each order, and mails. Nobody starts these servers: a
 * message wakes the one that it is for, in whichever worker works on it.
 */
import { Schema } from "effect"
import { DgenServer, Jobs } from "effect-dgen"
import { OrderProtocol, Place, PRICES, Status, StockProtocol } from "./protocols.ts"

/** How long an order waits to be paid before its buyer is reminded, and before it is cancelled: short, for an example. */
export const REMIND_AFTER = "500 millis"
export const CANCEL_AFTER = "1500 millis"

/** An article: what is left of it, and what is kept for which order. */
export class Stock extends DgenServer.Service<Stock>()(StockProtocol, {
  hosted: true,
  state: Schema.Struct({ left: Schema.Int, kept: Schema.Record(Schema.String, Schema.Int) })
}) {}

/** An order: what is wanted, where it stands, and who waits to hear whether there is enough. */
export class Order extends DgenServer.Service<Order>()(OrderProtocol, {
  hosted: true,
  state: Schema.Struct({
    number: Schema.String,
    status: Status,
    article: Schema.String,
    pieces: Schema.Int,
    mail: Schema.String,
    receipt: Schema.optionalKey(Schema.String),
    waiting: Schema.Array(DgenServer.fromOf(Place))
  })
}) {}
export type OrderState = DgenServer.State<typeof Order>

/** What an order costs, in cents. */
export const costOf = ({ article, pieces }: Pick<OrderState, "article" | "pieces">): number =>
  (PRICES[article] ?? 0) * pieces

/** A mail: its id is its order and its kind, so that no mail is written twice. */
export const Mails = Jobs.make("mails", {
  data: Schema.Struct({ to: Schema.String, text: Schema.String }),
  timeout: "2 seconds"
})

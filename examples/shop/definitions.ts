/**
 * What the shop is made of: a server for each article, a server for each order, and mails. Nobody starts these servers: a
 * message wakes the one that it is for, in whichever worker works on it.
 */
import { Schema } from "effect"
import { DgenServer, Jobs } from "effect-dgen"

/** What the shop sells, and for how many cents a piece. */
export const PRICES: Readonly<Record<string, number>> = { ink: 350, paper: 120, pen: 900 }

/** How long an order waits to be paid before its buyer is reminded, and before it is cancelled: short, for an example. */
export const REMIND_AFTER = "500 millis"
export const CANCEL_AFTER = "1500 millis"

/** An article: what is left of it, and what is kept for which order. */
export class Stock extends DgenServer.Service<Stock>()("Stock", {
  hosted: true,
  state: Schema.Struct({ left: Schema.Int, kept: Schema.Record(Schema.String, Schema.Int) }),
  messages: {
    Deliver: DgenServer.cast({ payload: { pieces: Schema.Int } }),
    Keep: DgenServer.cast({ payload: { order: Schema.String, pieces: Schema.Int } }),
    GiveBack: DgenServer.cast({ payload: { order: Schema.String } })
  }
}) {}

/** Where an order can stand. The last three are the end of it. */
export const Status = Schema.Literals(["new", "asking", "kept", "paying", "paid", "cancelled", "soldOut"])
export type Status = typeof Status.Type

/** The bank says no. */
export class Declined extends Schema.TaggedError<Declined>()("Declined", { reason: Schema.String }) {}

/** Only what is kept for an order can be paid. */
export class NotPayable extends Schema.TaggedError<NotPayable>()("NotPayable", { status: Status }) {}

const Place = DgenServer.call({
  payload: { article: Schema.String, pieces: Schema.Int, mail: Schema.String },
  success: Status
})

/** An order: what is wanted, where it stands, and who waits to hear whether there is enough. */
export class Order extends DgenServer.Service<Order>()("Order", {
  hosted: true,
  state: Schema.Struct({
    number: Schema.String,
    status: Status,
    article: Schema.String,
    pieces: Schema.Int,
    mail: Schema.String,
    receipt: Schema.optionalKey(Schema.String),
    waiting: Schema.Array(DgenServer.fromOf(Place))
  }),
  messages: {
    Place,
    Answer: DgenServer.cast({ payload: { enough: Schema.Boolean } }),
    Pay: DgenServer.call({
      payload: { card: Schema.String },
      success: Schema.String,
      error: Schema.Union([Declined, NotPayable]),
      locks: true
    }),
    Remind: DgenServer.cast(),
    Cancel: DgenServer.cast()
  }
}) {}
export type OrderState = DgenServer.State<typeof Order>

/** The keys of the servers. */
export const stockOf = (article: string) => ({ tuid: ["stock", article] })
export const orderOf = (number: string) => ({ tuid: ["order", number] })

/** What an order costs, in cents. */
export const costOf = ({ article, pieces }: Pick<OrderState, "article" | "pieces">): number =>
  (PRICES[article] ?? 0) * pieces

/** A mail: its id is its order and its kind, so that no mail is written twice. */
export const Mails = Jobs.make("mails", {
  data: Schema.Struct({ to: Schema.String, text: Schema.String }),
  timeout: "2 seconds"
})

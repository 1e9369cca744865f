/**
 * What may be known of the shop outside: what its servers can be told, which of it anybody may say, and where. A browser can
 * import this file.
 */
import { Effect, Redacted, Schema } from "effect"
import * as DgenProxy from "effect-dgen/DgenProxy"
import * as Protocol from "effect-dgen/Protocol"
import { HttpApi, HttpApiError, HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"

/** What the shop sells, and for how many cents a piece. */
export const PRICES: Readonly<Record<string, number>> = { ink: 350, paper: 120, pen: 900 }

const Pieces = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000 }))
const Article = Schema.Literals(Object.keys(PRICES))

export const StockProtocol = Protocol.make("Stock", {
  messages: {
    Deliver: Protocol.cast({ payload: { pieces: Pieces } }),
    Keep: Protocol.cast({ payload: { order: Schema.String, pieces: Schema.Int } }),
    GiveBack: Protocol.cast({ payload: { order: Schema.String } })
  }
})

/** Where an order can stand. The last three are the end of it. */
export const Status = Schema.Literals(["new", "asking", "kept", "paying", "paid", "cancelled", "soldOut"])

/** The bank says no. */
export class Declined extends Schema.TaggedError<Declined>()(
  "Declined",
  { reason: Schema.String },
  { httpApiStatus: 402 }
) {}

/** Only what is kept for an order can be paid. */
export class NotPayable extends Schema.TaggedError<NotPayable>()("NotPayable", { status: Status }) {}

/** Succeeds when it is known whether there is enough. */
export const Place = Protocol.call({
  payload: { article: Article, pieces: Pieces, mail: Schema.String },
  success: Status
})

export const OrderProtocol = Protocol.make("Order", {
  messages: {
    Place,
    Look: Protocol.call({ success: Status }),
    Pay: Protocol.call({
      payload: { card: Schema.String },
      success: Schema.String,
      error: Schema.Union([Declined, NotPayable]),
      locks: true
    }),
    Answer: Protocol.cast({ payload: { enough: Schema.Boolean } }),
    Remind: Protocol.cast(),
    Cancel: Protocol.cast()
  }
})

/** The keys of the servers. */
export const stockOf = (article: string) => ({ tuid: ["stock", article] })
export const orderOf = (number: string) => ({ tuid: ["order", number] })

/** Lets suppliers in. */
export class Supplier extends HttpApiMiddleware.Service<Supplier>()("examples/shop/Supplier", {
  security: { bearer: HttpApiSecurity.bearer },
  error: HttpApiError.UnauthorizedNoContent
}) {}

/** Whether a token is the supplier's; a shop keeps it to itself. */
export const SUPPLIERS_TOKEN = "supplier"
export const isSuppliers = (token: Redacted.Redacted) => Redacted.value(token) === SUPPLIERS_TOKEN

/** The front: nobody outside can answer for the stock, or cancel somebody's order. */
export class Shop extends HttpApi.make("shop").add(
  DgenProxy.toHttpApiGroup("stock", StockProtocol, {
    messages: ["Deliver"],
    tuid: { schema: Article, toTuid: (article) => stockOf(article).tuid },
    authorization: Supplier,
    // a delivery that is reported twice, because no answer came, is one
    keyOf: DgenProxy.idempotencyKey(Effect.succeed("supplier"))
  }).prefix("/stock"),
  DgenProxy.toHttpApiGroup("orders", OrderProtocol, {
    messages: ["Place", "Look", "Pay"],
    tuid: {
      schema: Schema.String.check(Schema.isPattern(/^[\w-]{1,40}$/)),
      toTuid: (number) => orderOf(number).tuid
    },
    authorization: "public"
  }).prefix("/orders")
) {}

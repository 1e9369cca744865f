/** The customers of the shop: they come through HTTP, want what the shop has, and ask again until they know. */
import { Effect, Option, Schedule } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { Shop, SUPPLIERS_TOKEN } from "./protocols.ts"

/** One who orders, and pays with a card, or not at all. */
export interface Customer {
  readonly number: string
  readonly article: string
  readonly pieces: number
  readonly card: string | undefined
}

/** Errors that are answers: the others say that nobody knows yet. */
const ANSWERS: ReadonlySet<string> = new Set(["Declined", "NotPayable"])

/** Asks until there is an answer: the shop does nothing twice. None is a refusal. */
const asked = <A, E extends { readonly _tag: string }, R>(request: Effect.Effect<A, E, R>) =>
  request.pipe(
    Effect.retry({ schedule: Schedule.spaced("100 millis"), while: ({ _tag }) => !ANSWERS.has(_tag) }),
    Effect.option
  )

/** The shop, as a supplier comes to it. */
const asSupplier = (url: string) =>
  HttpApiClient.make(Shop, {
    baseUrl: url,
    transformClient: HttpClient.mapRequest(HttpClientRequest.bearerToken(SUPPLIERS_TOKEN))
  })

/** Delivers pieces, once, however often it is reported. */
export const deliver = Effect.fnUntraced(function*(url: string, article: string, pieces: number) {
  const shop = yield* asSupplier(url)
  const headers = { "idempotency-key": `delivery-${article}` }
  yield* asked(shop.stock.Deliver({ params: { tuid: article }, headers, payload: { pieces } }))
})

/** Whether an order will stay as it is. */
const isOver = (status: string) => ["paid", "cancelled", "soldOut"].includes(status)

/** Buys, with a card or without one that is good; succeeds with how the order ended. */
export const buy = Effect.fnUntraced(function*(url: string, { article, card, number, pieces }: Customer) {
  const { orders } = yield* HttpApiClient.make(Shop, { baseUrl: url })
  const params = { tuid: number }
  yield* asked(orders.Place({ params, payload: { article, pieces, mail: `${number}@example.org` } }))
  if (card !== undefined) yield* asked(orders.Pay({ params, payload: { card } }))
  const status = Effect.map(asked(orders.Look({ params })), Option.getOrThrow)
  return yield* Effect.repeat(status, { schedule: Schedule.spaced("50 millis"), until: isOver })
})

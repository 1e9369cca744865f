/**
 * The front of the shop: HTTP outside, messages inside. It runs no server: it sends, and looks. An answer in the 500s means
 * that nobody knows yet: ask again, nothing happens twice.
 */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, Schema } from "effect"
import { Tenant, Transaction } from "effect-dgen"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { PrometheusMetrics } from "effect/observability"
import { createServer } from "node:http"
import { Order, orderOf, PRICES, Stock, stockOf } from "./definitions.ts"
import { folder, storeIn } from "./store.ts"

const Pieces = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000 }))
const Article = Schema.Literals(Object.keys(PRICES))
const Name = Schema.String.check(Schema.isPattern(/^[\w-]{1,40}$/))

/** The status of an answer, by what went wrong. */
const STATUS: Readonly<Record<string, number>> = {
  SchemaError: 400,
  HttpServerError: 400,
  Declined: 402,
  NotPayable: 409,
  CallTimeout: 504
}

/** A route whose errors are answers. */
const route = <E extends { readonly _tag: string }, R>(
  method: "GET" | "POST",
  path: `/${string}`,
  handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) =>
  HttpRouter.add(
    method,
    path,
    Effect.catch(handler, (error) =>
      Effect.succeed(HttpServerResponse.jsonUnsafe(error, { status: STATUS[error._tag] ?? 500 })))
  )

const orderNumber = Effect.map(HttpRouter.schemaPathParams(Schema.Struct({ number: Name })), ({ number }) => number)

const Deliver = route(
  "POST",
  "/stock/:article",
  Effect.gen(function*() {
    const { article } = yield* HttpRouter.schemaPathParams(Schema.Struct({ article: Article }))
    const { pieces } = yield* HttpServerRequest.schemaBodyJson(Schema.Struct({ pieces: Pieces }))
    const stock = yield* Stock.client(stockOf(article))
    yield* stock.cast("Deliver", { pieces })
    return HttpServerResponse.empty({ status: 202 })
  })
)

const Place = route(
  "POST",
  "/orders/:number",
  Effect.gen(function*() {
    const wanted = yield* HttpServerRequest.schemaBodyJson(
      Schema.Struct({ article: Article, pieces: Pieces, mail: Schema.String })
    )
    const order = yield* Order.client(orderOf(yield* orderNumber))
    return HttpServerResponse.jsonUnsafe({ status: yield* order.call("Place", wanted) })
  })
)

const Pay = route(
  "POST",
  "/orders/:number/payment",
  Effect.gen(function*() {
    const card = yield* HttpServerRequest.schemaBodyJson(Schema.Struct({ card: Schema.String }))
    const order = yield* Order.client(orderOf(yield* orderNumber))
    return HttpServerResponse.jsonUnsafe({ receipt: yield* order.call("Pay", card) })
  })
)

const Look = route(
  "GET",
  "/orders/:number",
  Effect.gen(function*() {
    const order = yield* Order.client(orderOf(yield* orderNumber))
    const state = yield* order.state
    if (state === undefined) return HttpServerResponse.empty({ status: 404 })
    const { waiting: _, ...shown } = state
    return HttpServerResponse.jsonUnsafe(shown)
  })
)

// whether this process can work: whether the store answers
const Health = route(
  "GET",
  "/health",
  Effect.as(Tenant.transact(Transaction.get(["health"])), HttpServerResponse.text("ok"))
)

const Routes = Layer.mergeAll(Deliver, Place, Pay, Look, Health, PrometheusMetrics.layerHttp())

// the process that started this one, if any, is told where it listens
const tellParent = Layer.effectDiscard(
  HttpServer.addressFormattedWith((address) => Effect.sync(() => process.send?.(address)))
)
process.once("disconnect", () => process.exit(1))

const Front = Layer.merge(HttpRouter.serve(Routes, { disableLogger: true, disableListenLog: true }), tellParent).pipe(
  Layer.provide(NodeHttpServer.layer(createServer, { port: Number(process.env["PORT"] ?? 0) })),
  Layer.provide(storeIn(folder))
)

NodeRuntime.runMain(Layer.launch(Front))

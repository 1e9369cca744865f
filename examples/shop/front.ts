/**
 * The front of the shop: HTTP outside, messages inside. It runs no server: it sends, and waits for answers. A status above 500
 * means that nobody knows yet: ask again, nothing happens twice.
 */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { DgenProxyServer, Tenant, Transaction } from "effect-dgen"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { HttpApiBuilder, HttpApiError } from "effect/http-api"
import { PrometheusMetrics } from "effect/observability"
import { createServer } from "node:http"
import { Order, Stock } from "./definitions.ts"
import { isSuppliers, Shop, Supplier } from "./protocols.ts"
import { folder, storeIn } from "./store.ts"

const SupplierLive = Layer.succeed(Supplier, {
  bearer: (handler, { credential }) => isSuppliers(credential) ? handler : Effect.fail(new HttpApiError.Unauthorized())
})

const ShopLive = HttpApiBuilder.layer(Shop, { openapiPath: "/openapi.json" }).pipe(
  Layer.provide(DgenProxyServer.layerHttpApi(Shop, "stock", Stock)),
  Layer.provide(DgenProxyServer.layerHttpApi(Shop, "orders", Order)),
  Layer.provide(SupplierLive)
)

// whether this process can work: whether the store answers
const Health = HttpRouter.add(
  "GET",
  "/health",
  Effect.match(Tenant.transact(Transaction.get(["health"])), {
    onSuccess: () => HttpServerResponse.text("ok"),
    onFailure: ({ message }) => HttpServerResponse.text(message, { status: 503 })
  })
)

const Routes = Layer.mergeAll(ShopLive, Health, PrometheusMetrics.layerHttp())

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

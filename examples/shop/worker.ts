/**
 * A process that works: it hosts articles and orders and sends mails, beside as many others as there are. Together they
 * share what there is to do; whoever dies, the others take over. SIGTERM ends it: it takes nothing more, ends what it has
 * begun, and leaves the rest to the others.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import * as behaviours from "./behaviours.ts"
import { Mails, Order, Stock } from "./definitions.ts"
import { bankIn, Post, postIn } from "./outside.ts"
import { folder, storeIn } from "./store.ts"

const StockHost = Stock.hostLayer(behaviours.stock, { deadLetterThreshold: 10 })

// a worker that died with a payment under way is given up after so long, and the payment is begun again
const OrderHost = Order.hostLayer(behaviours.order, { deadLetterThreshold: 10, lockTimeout: "2 seconds" }).pipe(
  Layer.provide(behaviours.orderLocked),
  Layer.provide(bankIn(folder))
)

const MailWorker = Mails.workerLayer(
  Effect.fnUntraced(function*({ data, id }) {
    const post = yield* Post
    yield* post.send((id as ReadonlyArray<string>).join("-"), data.to, data.text)
  }),
  { concurrency: 4 }
).pipe(Layer.provide(postIn(folder)))

const Worker = Layer.mergeAll(StockHost, OrderHost, MailWorker).pipe(Layer.provide(storeIn(folder)))

NodeRuntime.runMain(Layer.launch(Worker))

// the process that started this one, if any, is told that it is there; this one does not outlive it
process.once("disconnect", () => process.exit(1))
process.send?.("there")

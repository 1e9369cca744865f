/**
 * A day in the shop: a front and two workers, each a process of its own, and customers who come to the front. In the evening
 * all processes are told to end, and the books are checked.
 *
 *   npm run example:shop               a quiet day
 *   npm run example:shop -- 4          a worker is killed four times (kill -9), and another one is started in its place
 *
 * The front is made of `protocols.ts`, and so are the clients of its customers.
 *
 * It runs on a SQLite file; with SHOP_STORE=postgres://USER:PASSWORD@HOST/DATABASE on a PostgreSQL server, and with
 * SHOP_STORE=foundationdb:/etc/foundationdb/fdb.cluster on a FoundationDB cluster.
 */
import { Console, Effect, Layer, Schedule } from "effect"
import { Tenant } from "effect-dgen"
import { FetchHttpClient } from "effect/http"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import { join } from "node:path"
import { check } from "./check.ts"
import { buy, type Customer, deliver } from "./customers.ts"
import { Mails, Stock } from "./definitions.ts"
import { mailsIn, takenIn } from "./outside.ts"
import { stockOf } from "./protocols.ts"
import { backendIn, storeIn, tenantPath } from "./store.ts"

const KILLS = Number(process.argv[2] ?? 0)
const CUSTOMERS = 60
const AT_A_TIME = 6
const DELIVERIES = new Map([["ink", 40], ["paper", 60], ["pen", 5]])

const folder = fs.mkdtempSync(join(os.tmpdir(), "shop-"))

/** Every third pays with a stolen card or not at all; there are too few pens. */
const customers: ReadonlyArray<Customer> = Array.from({ length: CUSTOMERS }, (_, i) => ({
  number: `${i + 1}`,
  article: [...DELIVERIES.keys()][i % 3]!,
  pieces: 1 + i % 2,
  card: [undefined, "stolen", "good", "good", "good"][i % 5]
}))

/** A process of the shop, and what it says when it is there. */
interface Started {
  readonly child: ChildProcess
  readonly there: Promise<string>
}

const start = (file: string): Started => {
  const child = fork(join(import.meta.dirname, file), {
    env: { ...process.env, SHOP_FOLDER: folder },
    execArgv: ["--conditions=effect-dgen-source", "--disable-warning=ExperimentalWarning"]
  })
  return { child, there: new Promise((resolve) => child.once("message", (said) => resolve(String(said)))) }
}

const workers = [start("worker.ts"), start("worker.ts")]

/** Ends a process; succeeds with its exit code, or the signal that ended it. */
const end = ({ child }: Started, signal: "SIGTERM" | "SIGKILL"): Promise<number | string> =>
  new Promise((resolve) => {
    child.once("exit", (code, killedBy) => resolve(code ?? killedBy!))
    child.kill(signal)
  })

/** Tells a process to end, which it hears from when it is there. */
const finish = (started: Started): Promise<number | string> => started.there.then(() => end(started, "SIGTERM"))

/** A worker dies, without any warning, and another one is started in its place. */
const kill = Effect.fnUntraced(function*(which: number, served: number) {
  yield* Effect.promise(() => end(workers[which]!, "SIGKILL"))
  workers[which] = start("worker.ts")
  yield* Console.log(`  worker ${which + 1} is killed, ${served} of ${CUSTOMERS} customers have been served`)
})

/** How many mails are still to be sent, and how many messages the stock has not handled: orders that end write both. */
const underWay = Effect.gen(function*() {
  const { pending, running } = yield* Tenant.transact(Mails.counts)
  const waiting = yield* Effect.forEach(
    DELIVERIES.keys(),
    (article) => Effect.flatMap(Stock.client(stockOf(article)), ({ queueLength }) => queueLength)
  )
  return waiting.reduce((sum, length) => sum + length, pending + running)
})

const day = Effect.gen(function*() {
  const front = start("front.ts")
  const shop = yield* Effect.promise(() => front.there)
  yield* Console.log("the shop is open")
  yield* Effect.forEach(DELIVERIES, ([article, pieces]) => deliver(shop, article, pieces))
  const ended: Record<string, number> = { paid: 0, cancelled: 0, soldOut: 0 }
  let served = 0
  let kills = 0
  yield* Effect.forEach(customers, (customer) =>
    Effect.gen(function*() {
      const status = yield* buy(shop, customer)
      ended[status] = (ended[status] ?? 0) + 1
      served++
      // the moments are numbers of customers, not times: fast and slow machines kill as often
      if (kills < KILLS && served >= ((kills + 1) * CUSTOMERS) / (KILLS + 1)) yield* kill(kills++ % 2, served)
    }), { concurrency: AT_A_TIME, discard: true })
  yield* Console.log(`orders: ${ended.paid} paid, ${ended.cancelled} cancelled, ${ended.soldOut} sold out`)
  yield* Effect.repeat(underWay, { schedule: Schedule.spaced("50 millis"), until: (count) => count === 0 })
  const codes = yield* Effect.promise(() => Promise.all([front, ...workers].map(finish)))
  yield* Console.log(`front and workers have ended: ${codes.join(", ")}`)
})

const evening = Effect.gen(function*() {
  const faults = yield* check({ delivered: DELIVERIES, taken: takenIn(folder), mails: mailsIn(folder) })
  yield* Console.log(faults.length === 0 ? "stock, payments, orders and mails agree" : faults.join("\n"))
  return faults.length === 0
})

const program = Effect.andThen(day, evening).pipe(
  Effect.provide(Layer.merge(storeIn(folder), FetchHttpClient.layer)),
  Effect.ensuring(Effect.ignore(Effect.provide(Tenant.remove(tenantPath), Layer.fresh(backendIn(folder)))))
)

process.exitCode = await Effect.runPromise(program) ? 0 : 1
fs.rmSync(folder, { recursive: true })

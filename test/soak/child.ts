/**
 * One life of a process of the soak. It loads, says that it is ready, and waits to be told what to be; then it serves the
 * journal, sends to it, or both, until it is killed. What its senders learn, and which actions ran, it tells at once.
 */
import { Effect, Layer, Logger } from "effect"
import { Tenant } from "effect-dgen"
import { flushCompileCache } from "node:module"
import { type BankTold, operate, sendBank } from "./bank.ts"
import { count } from "./foreign.ts"
import { send, serve, type Told } from "./journal.ts"
import { LOCK_TIMEOUT, type News, type Order, serverOptions } from "./protocol.ts"
import { backendOf } from "./store.ts"

/** More than any life is long enough for. */
const MESSAGES = 1_000_000

const tell = (news: News): void => void process.send?.(news)

class Acknowledged extends Map<string, number | undefined> {
  override set(id: string, answer: number | undefined): this {
    tell({ _tag: "Acknowledged", id, answer })
    return this
  }
}

class Refused extends Set<string> {
  override add(id: string): this {
    tell({ _tag: "Refused", id })
    return this
  }
}

class Actions extends Array<string> {
  override push(id: string): number {
    tell({ _tag: "Acted", id })
    return 0
  }
}

/** The parent knows the order from the order of the acknowledgements. */
class NoOrder extends Map<string, Array<string>> {
  override set(): this {
    return this
  }
}

const told: Told = {
  acknowledged: new Acknowledged(),
  refused: new Refused(),
  order: new NoOrder(),
  actions: new Actions(),
  inside: new Set()
}

// a child without a parent has nobody to kill it
process.on("disconnect", () => process.exit(1))

const bankTold: BankTold = {
  taken: new (class extends Set<string> {
    override add(id: string): this {
      tell({ _tag: "Taken", id })
      return this
    }
  })(),
  tickets: new (class extends Array<string> {
    override push(ticket: string): number {
      tell({ _tag: "Ticket", ticket })
      return 0
    }
  })()
}

/** What a store that is busy, or a server that is killed meanwhile, ends is begun again. */
const again = <A, E, R>(run: Effect.Effect<A, E, R>) =>
  Effect.forever(Effect.andThen(Effect.exit(Effect.scoped(run)), Effect.sleep("10 millis"))).pipe(
    Effect.provide(Tenant.layer(["journal"]))
  )

/** What processes of the other roles do with the store. */
const others = ({ name, role, store }: Order) => {
  const options = { lockTimeout: LOCK_TIMEOUT } as const
  const backend = backendOf(store)
  switch (role) {
    case "bank":
      return Effect.provide(
        again(sendBank(bankTold, name, { ...options, consumeK: name.length % 2 === 0 ? 1 : 7 })),
        backend
      )
    case "operator":
      return Effect.provide(again(operate(options)), backend)
    case "foreign":
      // it opens and closes the store again and again
      return Effect.forever(
        Effect.provide(count(name, (count) => tell({ _tag: "Counted", count })), Layer.fresh(backend))
      )
    default:
      return undefined
  }
}

const work = (order: Order) => {
  const { name, role, store } = order
  const other = others(order)
  if (other !== undefined) return Effect.provide(other, Logger.layer([]))
  const consumeK = serverOptions[role]
  const server = consumeK === undefined ? Effect.never : serve(told, { lockTimeout: LOCK_TIMEOUT, consumeK })
  const sender = role === "server" || role === "batches" ? Effect.never : send(told, name, MESSAGES)
  return Effect.all([server, sender], { concurrency: "unbounded", discard: true }).pipe(
    Effect.scoped,
    Effect.provide(backendOf(store)),
    Effect.provide(Logger.layer([]))
  )
}

process.once("message", (order: Order) => {
  // a failure ends the process, and the parent sees it
  void Effect.runPromise(work(order))
})
// who is killed has no time for it later, and the next life is ready sooner
flushCompileCache()
tell({ _tag: "Ready" })

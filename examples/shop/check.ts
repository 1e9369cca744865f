/** Whether the books agree: what was delivered, what is left, kept and paid, what the bank took, and what was mailed. */
import { Effect } from "effect"
import { Tenant, type Tuple } from "effect-dgen"
import { costOf, Mails, Order, type OrderState, Stock } from "./definitions.ts"

/** What the world outside knows: pieces by article, cents by order, texts by order and kind. */
export interface Outside {
  readonly delivered: ReadonlyMap<string, number>
  readonly taken: ReadonlyMap<string, number>
  readonly mails: ReadonlyMap<string, string>
}

/** The keys of all servers of a definition, page by page. */
const tuidsOf = Effect.fnUntraced(function*({ list }: Pick<typeof Order, "list">) {
  const tuids: Array<Tuple.Tuple> = []
  for (;;) {
    const after = tuids.at(-1)
    const page = yield* Tenant.transact(list({ after }))
    if (page.length === 0) return tuids
    tuids.push(...page)
  }
})

/** What is wrong with an order, if anything is. */
const faultsOfOrder = (order: OrderState, { mails, taken }: Outside): ReadonlyArray<string> => {
  const { number, status } = order
  const isOver = ["paid", "cancelled", "soldOut"].includes(status)
  const charged = taken.get(number)
  const owed = status === "paid" ? costOf(order) : undefined
  const isTold = status === "soldOut" || mails.has(`${number}-end`)
  return [
    ...isOver ? [] : [`order ${number} is not over, but ${status}`],
    ...charged === owed ? [] : [`order ${number} is ${status}, and the bank took ${charged} cents, not ${owed}`],
    ...isTold ? [] : [`order ${number} is ${status}, and nobody was told`]
  ]
}

/** All that does not agree; nothing, if the shop is as good as its word. */
export const check = Effect.fnUntraced(function*(outside: Outside) {
  const faults: Array<string> = []
  const paid = new Map<string, OrderState>()
  for (const tuid of yield* tuidsOf(Order)) {
    const client = yield* Order.client({ tuid })
    const order = (yield* client.state)!
    if (order.status === "paid") paid.set(order.number, order)
    faults.push(...faultsOfOrder(order, outside))
    if ((yield* client.queueLength) > 0) faults.push(`order ${order.number} has messages that nobody handled`)
  }
  for (const number of outside.taken.keys()) {
    if (!paid.has(number)) faults.push(`the bank took money for order ${number}, which is not paid`)
  }
  for (const tuid of yield* tuidsOf(Stock)) {
    const [, article] = tuid as [string, string]
    const client = yield* Stock.client({ tuid })
    const { kept, left } = (yield* client.state)!
    if ((yield* client.queueLength) > 0) faults.push(`the stock of ${article} has messages that nobody handled`)
    const delivered = outside.delivered.get(article) ?? 0
    const sold = [...paid.values()].filter((order) => order.article === article)
    if (left + sold.reduce((sum, { pieces }) => sum + pieces, 0) !== delivered) {
      faults.push(
        `of ${article} ${delivered} pieces were delivered, but ${left} are left and ${sold.length} orders paid`
      )
    }
    const wanted = Object.fromEntries(sold.map(({ number, pieces }) => [number, pieces]))
    if (!isSame(kept, wanted)) faults.push(`of ${article} pieces are kept for other orders than those that are paid`)
  }
  const mails = yield* Tenant.transact(Mails.counts)
  if (mails.pending + mails.running + mails.dead > 0) faults.push("mails were written and not sent")
  return faults
})

const isSame = (a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.keys(a).every((name) => a[name] === b[name])

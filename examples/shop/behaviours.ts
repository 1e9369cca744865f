/**
 * What the servers of the shop do. Order and stock talk to each other by casts, which are sent by the commit that asks for
 * them: an order never waits for stock that was not asked, and stock is never kept for an order that does not know of it.
 */
import { Effect, Exit } from "effect"
import { DgenServer } from "effect-dgen"
import { CANCEL_AFTER, costOf, Mails, Order, type OrderState, REMIND_AFTER, Stock } from "./definitions.ts"
import { Bank } from "./outside.ts"
import { NotPayable, orderOf, stockOf } from "./protocols.ts"

export const stock = Stock.behaviour({
  init: Effect.succeed({ left: 0, kept: {} }),
  handlers: {
    Deliver: ({ pieces }, state) => DgenServer.noReply({ ...state, left: state.left + pieces }),
    Keep: Effect.fnUntraced(function*({ order, pieces }, state) {
      const enough = pieces <= state.left
      yield* Effect.orDie(Order.castTx("Answer", { enough }, orderOf(order)))
      return DgenServer.noReply(
        enough ? { left: state.left - pieces, kept: { ...state.kept, [order]: pieces } } : state
      )
    }),
    GiveBack: ({ order }, state) => {
      const { [order]: pieces = 0, ...kept } = state.kept
      return DgenServer.noReply({ left: state.left + pieces, kept })
    }
  }
})

/** Writes a mail, in the transaction that runs. */
const mail = ({ mail, number }: OrderState, kind: string, text: string) =>
  Effect.orDie(Mails.add([number, kind], { to: mail, text: `Order ${number}: ${text}` }, { ifExists: "ignore" }))

/** Keeps the state, and sets the timer that cancels the order: one that is set already is replaced. */
const cancelLater = (state: OrderState) =>
  Effect.as(
    Effect.orDie(Order.castLaterSelfTx("Cancel", { after: CANCEL_AFTER, id: "cancel" })),
    DgenServer.noReply(state)
  )

export const order = Order.behaviour({
  init: ({ tuid }) =>
    Effect.succeed({ number: String(tuid[1]), status: "new", article: "", pieces: 0, mail: "", waiting: [] }),
  handlers: {
    // whoever asks again, because no answer came, hears how it stands and orders nothing more
    Place: Effect.fnUntraced(function*(wanted, state, { from }) {
      if (state.status !== "new" && state.status !== "asking") return DgenServer.reply(state.status, state)
      if (state.status === "new") {
        const { article, pieces } = wanted
        yield* Effect.orDie(Stock.castTx("Keep", { order: state.number, pieces }, stockOf(article)))
      }
      const placed = state.status === "new" ? { ...state, ...wanted, status: "asking" as const } : state
      return DgenServer.noReply({ ...placed, waiting: [...state.waiting, from] })
    }),
    Look: (_, state) => DgenServer.reply(state.status, state),
    Answer: Effect.fnUntraced(function*({ enough }, state) {
      const status = enough ? "kept" : "soldOut"
      for (const from of state.waiting) yield* Order.replyTo(from, Exit.succeed(status))
      const answered = { ...state, status, waiting: [] } as const
      if (!enough) return DgenServer.noReply(answered)
      yield* Effect.orDie(Order.castLaterSelfTx("Remind", { after: REMIND_AFTER, id: "remind" }))
      return yield* cancelLater(answered)
    }),
    // the first of two commits: the order says that the bank is asked. While it is, the order is locked; but if the worker
    // dies, the payment begins again behind the messages that came meanwhile, and they have to know
    Pay: Effect.fnUntraced(function*(_, state) {
      if (state.receipt !== undefined) return DgenServer.reply(state.receipt, state)
      if (state.status !== "kept" && state.status !== "paying") return yield* new NotPayable({ status: state.status })
      return DgenServer.lock({ ...state, status: "paying" as const })
    }),
    Remind: (_, state) => Effect.as(mail(state, "reminder", "please pay it"), DgenServer.noReply(state)),
    Cancel: Effect.fnUntraced(function*(_, state) {
      // the bank may have the money already
      if (state.status === "paying") return yield* cancelLater(state)
      yield* Effect.orDie(Stock.castTx("GiveBack", { order: state.number }, stockOf(state.article)))
      yield* mail(state, "end", "it was not paid, and is cancelled")
      return DgenServer.noReply({ ...state, status: "cancelled" as const })
    })
  }
})

// between the two commits: the bank may be asked twice, and knows by the order's number that it was asked before
export const orderLocked = Order.lockedLayer({
  Pay: Effect.fnUntraced(function*({ card }, state, { from }) {
    const bank = yield* Bank
    return yield* Effect.match(bank.charge(state.number, costOf(state), card), {
      onSuccess: (receipt) => DgenServer.update((now: OrderState) => paid(now, receipt)),
      // the error is answered here, since a locked handler that fails leaves the state as the first commit left it
      onFailure: (declined) =>
        DgenServer.update((now: OrderState) =>
          Effect.as(
            Order.replyTo(from, Exit.fail(declined)),
            DgenServer.noReply({ ...now, status: "kept" as const })
          )
        )
    })
  })
})

const paid = Effect.fnUntraced(function*(order: OrderState, receipt: string) {
  yield* Effect.orDie(Order.cancelTimerSelfTx("remind"))
  yield* Effect.orDie(Order.cancelTimerSelfTx("cancel"))
  yield* mail(order, "end", `it is paid, ${receipt}`)
  return DgenServer.reply(receipt, { ...order, status: "paid" as const, receipt })
})

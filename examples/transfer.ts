/**
 * Two servers and one transaction: an account sends money to another one by casting to it within its own handler. The
 * cast is committed with the account's new state, or not at all, so no money is lost and none is made.
 */
import { Console, Effect, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import { temporaryTenant } from "./temporaryStore.ts"

class Insufficient extends Schema.TaggedError<Insufficient>()("Insufficient", { missing: Schema.Int }) {}

class Account extends DgenServer.Service<Account>()("Account", {
  state: Schema.Struct({ balance: Schema.Int }),
  messages: {
    Deposit: DgenServer.cast({ payload: { amount: Schema.Int } }),
    Send: DgenServer.call({ payload: { to: Schema.String, amount: Schema.Int }, error: Insufficient }),
    Balance: DgenServer.call({ success: Schema.Int })
  }
}) {}

const behaviour = Account.behaviour({
  init: Effect.succeed({ balance: 0 }),
  handlers: {
    Deposit: ({ amount }, state) => DgenServer.noReply({ balance: state.balance + amount }),
    Send: Effect.fnUntraced(function*({ amount, to }, state) {
      if (amount > state.balance) return yield* new Insufficient({ missing: amount - state.balance })
      yield* Effect.orDie(Account.castTx("Deposit", { amount }, { tuid: ["account", to] }))
      return DgenServer.reply(undefined, { balance: state.balance - amount })
    }),
    Balance: (_, state) => DgenServer.reply(state.balance, state)
  }
})

const bank = Effect.gen(function*() {
  const ada = yield* Account.start(behaviour, { tuid: ["account", "ada"] })
  const bob = yield* Account.start(behaviour, { tuid: ["account", "bob"] })
  const balances = Effect.gen(function*() {
    return `ada ${yield* ada.call("Balance")}, bob ${yield* bob.call("Balance")}`
  })
  yield* ada.cast("Deposit", { amount: 100 })
  yield* Console.log(`before: ${yield* balances}`)
  yield* ada.call("Send", { to: "bob", amount: 30 })
  yield* Console.log(`ada sends 30: ${yield* balances}`)
  const refused = yield* Effect.flip(ada.call("Send", { to: "bob", amount: 1_000 }))
  yield* Console.log(`ada sends 1000: ${refused._tag}, ${yield* balances}`)

  // a transaction of one's own can cast to several servers at once
  yield* Tenant.transact(Effect.gen(function*() {
    yield* Account.castTx("Deposit", { amount: 1 }, { tuid: ["account", "ada"] })
    yield* Account.castTx("Deposit", { amount: 1 }, { tuid: ["account", "bob"] })
  }))
  yield* Console.log(`a gift of 1 to each: ${yield* balances}`)
})

await Effect.runPromise(bank.pipe(Effect.scoped, Effect.provide(temporaryTenant("transfer"))))

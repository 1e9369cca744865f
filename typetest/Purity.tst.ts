/** What runs in a transaction may require `Transaction` and nothing else, and the error says so. */
import { Effect, Scope } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { Counter, download, handle, handlers, HttpClient, init, Other, type State } from "./counter.ts"

const scoped = Effect.addFinalizer(() => Effect.void)

describe("a handler of a call", () => {
  it("has no HTTP client", () => {
    Counter.behaviour({
      init,
      handlers: {
        ...handlers,
        // @ts-expect-error a transaction body may require only Transaction: it can run many times
        Value: Effect.fnUntraced(function*(_, state) {
          const http = yield* HttpClient
          return DgenServer.reply(yield* http.get("https://example.org"), state)
        })
      }
    })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.map(download, (n) => DgenServer.reply(n, state)) })
    handle({
      // @ts-expect-error a transaction body may require only Transaction: it can run many times
      Value: (_, state) =>
        Effect.gen(function*() {
          return DgenServer.reply(yield* download, state)
        })
    })
  })

  it("has no scope", () => {
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.as(scoped, DgenServer.reply(1, state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.as(Scope.Scope, DgenServer.reply(1, state)) })
    handle({ Value: (_, state) => Effect.scoped(Effect.as(scoped, DgenServer.reply(1, state))) })
  })

  it("has no server, neither another nor its own", () => {
    // @ts-expect-error is missing in type 'Other' but required in type 'Transaction<
    handle({ Value: (_, state) => Effect.as(Other, DgenServer.reply(1, state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.as(Other, DgenServer.reply(1, state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.map(Counter, () => DgenServer.reply(1, state)) })
  })

  it("has no tenant, so no transaction of its own", () => {
    const own = Effect.orDie(Tenant.transact(Effect.void))
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.as(own, DgenServer.reply(1, state)) })
  })

  it("has no other service beside the transaction", () => {
    const both = Effect.andThen(Transaction.get(["key"]), download)
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Value: (_, state) => Effect.as(both, DgenServer.reply(1, state)) })
  })

  it("has the transaction", () => {
    handle({ Value: (_, state) => Effect.as(Transaction.get(["key"]), DgenServer.reply(1, state)) })
    handle({
      Value: Effect.fnUntraced(function*(_, state) {
        yield* Transaction.set(["key"], new Uint8Array(1))
        yield* Effect.orDie(Counter.castTx("Add", { by: 1 }))
        return DgenServer.reply(1, state)
      })
    })
  })

  it("is no promise", () => {
    // @ts-expect-error Type 'Promise<
    handle({ Value: async (_, state) => DgenServer.reply(1, state) })
  })
})

describe("a handler of a cast", () => {
  it("has no service", () => {
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Add: (_, state) => Effect.as(download, DgenServer.noReply(state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Add: (_, state) => Effect.as(scoped, DgenServer.noReply(state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Add: (_, state) => Effect.as(Other, DgenServer.noReply(state)) })
  })
})

describe("a handler of an info message", () => {
  it("has no service", () => {
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Tick: (_, state) => Effect.as(download, DgenServer.noReply(state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Tick: (_, state) => Effect.as(scoped, DgenServer.noReply(state)) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Tick: (_, state) => Effect.as(Other, DgenServer.noReply(state)) })
  })
})

describe("a handler that asks for the lock", () => {
  it("has no service either: its locked handler has", () => {
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    handle({ Import: (_, state) => Effect.as(download, DgenServer.lock(state)) })
  })
})

describe("init", () => {
  it("has no service", () => {
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Counter.behaviour({ handlers, init: Effect.map(download, (count) => ({ count })) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Counter.behaviour({ handlers, init: () => Effect.map(download, (count) => ({ count })) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Counter.behaviour({ handlers, init: Effect.as(scoped, { count: 0 }) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Counter.behaviour({ handlers, init: Effect.as(Other, { count: 0 }) })
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Counter.behaviour({ handlers, init: ({ tuid }) => Effect.as(download, DgenServer.at(tuid, { count: 0 })) })
  })

  it("has the transaction", () => {
    Counter.behaviour({ handlers, init: Effect.as(Transaction.get(["key"]), { count: 0 }) })
  })
})

describe("Tenant.transact", () => {
  it("runs no effect that needs a service", () => {
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Tenant.transact(download)
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Tenant.transact(scoped)
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Tenant.transact(Other)
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Tenant.transact(Effect.andThen(Transaction.get(["key"]), download))
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    Tenant.transact(Tenant.transact(Transaction.get(["key"])))
  })

  it("gives back what the effect gives, with the errors of the store and the tenant", () => {
    const run = Tenant.transact(Counter.castTx("Clear"))
    expect<Effect.Success<typeof run>>().type.toBe<void>()
    expect<Effect.Services<typeof run>>().type.toBe<Tenant.Tenant>()
    expect<DgenServer.CastTxError>().type.toBeAssignableTo<Effect.Error<typeof run>>()
  })

  it("is the only way to run a transaction effect", () => {
    // @ts-expect-error Type 'Transaction<"run it with Tenant.transact, or in a handler">' is not assignable to type 'never'
    void Effect.runPromise(Transaction.get(["key"]))
    // @ts-expect-error Type 'Transaction<"run it with Tenant.transact, or in a handler">' is not assignable to type 'never'
    void Effect.runPromise(Counter.castTx("Clear"))
    // @ts-expect-error Type 'Transaction<"run it with Tenant.transact, or in a handler">' is not assignable to type 'never'
    void Effect.runPromise(Effect.andThen(Counter.castTx("Add", { by: 1 }), Effect.void))
  })
})

describe("the function of DgenServer.update", () => {
  it("has no service", () => {
    const fresh = (state: State) => Effect.map(download, (count) => DgenServer.noReply({ count: state.count + count }))
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    DgenServer.update(fresh)
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    DgenServer.update((state: State) => Effect.as(scoped, DgenServer.noReply(state)))
    // @ts-expect-error a transaction body may require only Transaction: it can run many times
    DgenServer.update((state: State) => Effect.as(Other, DgenServer.noReply(state)))
  })

  it("has no service in a locked handler, which has any itself", () => {
    Counter.lockedLayer({
      // @ts-expect-error a transaction body may require only Transaction: it can run many times
      Import: () => DgenServer.update((fresh) => Effect.as(download, DgenServer.reply(1, fresh))),
      Sync: () => Effect.as(download, DgenServer.update((fresh) => DgenServer.noReply(fresh)))
    })
  })

  it("has the transaction", () => {
    Counter.lockedLayer({
      Import: () => DgenServer.update((fresh) => Effect.as(Transaction.get(["key"]), DgenServer.reply(1, fresh))),
      Sync: () => DgenServer.update((fresh) => DgenServer.noReply(fresh))
    })
  })
})

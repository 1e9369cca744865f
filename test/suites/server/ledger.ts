/** The server that the suites run: it keeps a list of what it applied, so that a loss, a double or a swap shows. */
import { Effect, Schema } from "effect"
import { DgenServer, Transaction } from "effect-dgen"

export class Refused extends Schema.TaggedError<Refused>()("Refused", { item: Schema.String }) {}

export class Ledger extends DgenServer.Service<Ledger>()("Ledger", {
  state: Schema.Struct({ items: Schema.Array(Schema.String) }),
  messages: {
    Append: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int, error: Refused }),
    Items: DgenServer.call({ success: Schema.Array(Schema.String) }),
    Record: DgenServer.cast({ payload: { item: Schema.String } }),
    Poison: DgenServer.call({ payload: { until: Schema.Int }, success: Schema.Int }),
    Impure: DgenServer.call(),
    WrongReply: DgenServer.call({ success: Schema.Int }),
    Silent: DgenServer.call({ success: Schema.Int }),
    Leave: DgenServer.call(),
    Forward: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Void }),
    Note: DgenServer.info({ payload: { item: Schema.String } })
  },
  actions: { Told: { item: Schema.String }, Crash: Schema.Struct({}), Halt: Schema.Struct({}) }
}) {}

/** Handlers; `runs` is called at every run of `Append` and `Poison`, also of those that do not count. */
export const ledger = (runs: (item: string) => void = () => {}) =>
  Ledger.behaviour({
    init: Effect.succeed({ items: [] }),
    handlers: {
      Append: Effect.fnUntraced(function*({ item }, state) {
        runs(item)
        if (item === "refused") return yield* new Refused({ item })
        const items = [...state.items, item]
        if (item === "crash action") {
          return DgenServer.reply(items.length, { items }, [
            Ledger.action("Crash", {}),
            Ledger.action("Told", { item })
          ])
        }
        if (item === "halt") {
          return DgenServer.reply(items.length, { items }, [Ledger.action("Halt", {}), Ledger.action("Told", { item })])
        }
        return DgenServer.reply(items.length, { items }, [Ledger.action("Told", { item })])
      }),
      Items: (_, state) => DgenServer.reply(state.items, state),
      Record: ({ item }, state) => DgenServer.noReply({ items: [...state.items, item] }),
      Poison: ({ until }, state, { attempt }) =>
        Effect.sync(() => {
          runs(`poison ${attempt}`)
          if (attempt < until) throw new Error("poison")
          return DgenServer.reply(attempt, { items: [...state.items, `poison ${attempt}`] })
        }),
      Impure: (_, state) => Effect.as(Effect.promise(() => new Promise(() => {})), DgenServer.reply(undefined, state)),
      WrongReply: (_, state) => DgenServer.reply("text" as unknown as number, { items: [...state.items, "wrong"] }),
      Silent: (_, state) => DgenServer.noReply(state),
      Leave: (_, state) => DgenServer.stop("it was time", { items: [...state.items, "left"] }),
      Forward: Effect.fnUntraced(function*({ item }, state) {
        yield* Effect.orDie(Ledger.castTx("Record", { item }))
        yield* Transaction.set(["forwarded"], new Uint8Array(1))
        return DgenServer.reply(undefined, state)
      }),
      Note: ({ item }, state) => DgenServer.noReply({ items: [...state.items, item] })
    }
  })

export const ledgerActions = (
  told: (item: string, state: { readonly items: ReadonlyArray<string> }) => void = () => {}
) =>
  Ledger.actionsLayer({
    Told: ({ item }, state) => Effect.sync(() => told(item, state)),
    Crash: () => Effect.die(new Error("the action crashed")),
    Halt: () => Effect.succeed(DgenServer.halt)
  })

/** Durable actions: what a definition declares, what its handlers get, and what a program can ask of them. */
import { Effect, type Layer, type Result, Schedule, Schema } from "effect"
import { DgenServer, type Tenant, type Transaction } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { mail, Other } from "./counter.ts"

class Shop extends DgenServer.Service<Shop>()("Shop", {
  state: Schema.Int,
  hosted: true,
  messages: { Buy: DgenServer.call({ success: Schema.Int }) },
  actions: {
    Charge: DgenServer.durable({ payload: { cents: Schema.Int }, retry: Schedule.recurs(3), maxAttempts: 4 }),
    Wake: DgenServer.durable({ timeout: "1 minute" }),
    Note: DgenServer.durable({ payload: Schema.NumberFromString }),
    Tell: { text: Schema.String }
  }
}) {}

const handlers = {
  Charge: () => Effect.void,
  Wake: () => Effect.void,
  Note: () => Effect.void,
  Tell: () => Effect.void
}

describe("durable", () => {
  it("takes a payload as every action does, and options", () => {
    expect(DgenServer.durable()).type.toBe<DgenServer.Durable<undefined>>()
    expect(DgenServer.durable({ payload: Schema.Int })).type.toBe<DgenServer.Durable<Schema.Int>>()
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    DgenServer.durable({ maxAttempts: "3" })
    // @ts-expect-error 'retries' does not exist in type
    DgenServer.durable({ retries: 3 })
    // @ts-expect-error Type 'number' is not assignable to type
    DgenServer.durable({ payload: 1 })
  })

  it("is asked for like every action", () => {
    expect(Shop.action("Charge", { cents: 1 })).type.toBe<DgenServer.ActionRequest<"Shop">>()
    expect(Shop.action("Wake")).type.toBe<DgenServer.ActionRequest<"Shop">>()
    expect(Shop.action("Note", 1)).type.toBe<DgenServer.ActionRequest<"Shop">>()
    expect<DgenServer.ActionPayload<typeof Shop, "Charge">>().type.toBe<{ readonly cents: number }>()
    expect<DgenServer.ActionPayload<typeof Shop, "Wake">>().type.toBe<void>()
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Shop.action("Charge", { cents: "1" })
    // @ts-expect-error Expected 2 arguments, but got 1
    Shop.action("Charge")
  })
})

describe("actionsLayer", () => {
  it("gives handlers of durable actions their payload and context, and no state", () => {
    Shop.actionsLayer({
      ...handlers,
      Charge: ({ cents }, context) => {
        expect(cents).type.toBe<number>()
        expect(context).type.toBe<DgenServer.DurableContext>()
        return Effect.void
      },
      Tell: ({ text }, state, context) => {
        expect(text).type.toBe<string>()
        expect(state).type.toBe<number>()
        expect(context).type.toBe<DgenServer.ActionContext>()
        return Effect.void
      }
    })
  })

  it("has durable ones that may fail, and others that may not", () => {
    const layer = Shop.actionsLayer({ ...handlers, Charge: () => Effect.fail("declined"), Wake: () => mail })
    expect<Layer.Services<typeof layer>>().type.toBe<Effect.Services<typeof mail>>()
    expect<Layer.Error<typeof layer>>().type.toBe<never>()
    // @ts-expect-error Type 'string' is not assignable to type 'never'
    Shop.actionsLayer({ ...handlers, Tell: () => Effect.fail("declined") })
    // @ts-expect-error Property 'Wake' is missing in type
    Shop.actionsLayer({ Charge: handlers.Charge, Note: handlers.Note, Tell: handlers.Tell })
  })
})

describe("what runs them, and what is asked of them", () => {
  it("is there where an action is durable", () => {
    expect(Shop.durableLayer()).type.toBe<
      Layer.Layer<never, DgenServer.InvalidOption, Tenant.Tenant | DgenServer.ActionsOf<"Shop">>
    >()
    expect(Shop.durable.counts).type.toBe<
      Effect.Effect<DgenServer.DurableCounts, never, Transaction.Transaction>
    >()
    expect(Shop.durable.requeueDead("id")).type.toBe<
      Effect.Effect<boolean, DgenServer.InvalidOption, Transaction.Transaction>
    >()
    expect(Shop.durable.purgeDead({ limit: 7 })).type.toBe<
      Effect.Effect<number, DgenServer.InvalidOption, Transaction.Transaction>
    >()
    expect(Other.durable).type.toBe<"declare an action of Other with DgenServer.durable">()
    expect(Other.durableLayer).type.toBe<"declare an action of Other with DgenServer.durable">()
  })

  it("lists actions with the payload of their tag", () => {
    Effect.map(Shop.durable.list({ state: "dead", limit: 10 }), ({ actions: [action], next }) => {
      expect(next).type.toBe<string | undefined>()
      if (action?.tag === "Charge") {
        expect(action.payload).type.toBe<Result.Result<{ readonly cents: number }, DgenServer.InvalidPayload>>()
      }
      expect(action!.tag).type.toBe<"Charge" | "Wake" | "Note">()
    })
    // @ts-expect-error Type '"lost"' is not assignable to type
    Shop.durable.list({ state: "lost" })
  })
})

/** What a definition may consist of, and that its schemas need no service. */
import { Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { type HttpClient, Overflow } from "./counter.ts"

declare const decodes: Schema.Codec<string, string, HttpClient, never>
declare const encodes: Schema.Codec<string, string, never, HttpClient>

describe("a message", () => {
  it("has the types of what it declares, and nothing where it declares nothing", () => {
    expect(DgenServer.call()).type.toBe<DgenServer.Call<undefined, Schema.Void, Schema.Never, false>>()
    expect(DgenServer.call({ success: Schema.Int, error: Overflow, locks: true })).type.toBe<
      DgenServer.Call<undefined, typeof Schema.Int, typeof Overflow, true>
    >()
    expect(DgenServer.call({ payload: { by: Schema.Int } })).type.toBe<
      DgenServer.Call<Schema.Struct<{ readonly by: typeof Schema.Int }>, Schema.Void, Schema.Never, false>
    >()
    expect(DgenServer.cast()).type.toBe<DgenServer.Cast<undefined, false>>()
    expect(DgenServer.cast({ payload: Schema.String, locks: true })).type.toBe<
      DgenServer.Cast<typeof Schema.String, true>
    >()
    expect(DgenServer.info()).type.toBe<DgenServer.Info<undefined, false>>()
    expect(DgenServer.info({ payload: Schema.String, locks: true })).type.toBe<
      DgenServer.Info<typeof Schema.String, true>
    >()
  })

  it("has no option that its kind does not have", () => {
    // @ts-expect-error 'success' does not exist in type
    DgenServer.cast({ success: Schema.Int })
    // @ts-expect-error 'error' does not exist in type
    DgenServer.cast({ error: Overflow })
    // @ts-expect-error 'success' does not exist in type
    DgenServer.info({ success: Schema.Int })
    // @ts-expect-error 'reply' does not exist in type
    DgenServer.call({ reply: Schema.Int })
    // @ts-expect-error Type 'string' is not assignable to type 'boolean | undefined'
    DgenServer.call({ locks: "yes" })
    // @ts-expect-error is not assignable to type
    DgenServer.call({ payload: { by: "number" } })
    // @ts-expect-error 'by' does not exist in type 'Codec<
    DgenServer.call({ success: { by: Schema.Int } })
  })

  it("has schemas that need no service", () => {
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ payload: decodes })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ payload: { name: decodes } })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ payload: { name: encodes } })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ payload: Schema.Struct({ names: Schema.Array(decodes) }) })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ success: decodes })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ success: encodes })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.call({ error: decodes })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.cast({ payload: decodes })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.cast({ payload: { name: encodes } })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.info({ payload: decodes })
  })
})

describe("a server", () => {
  it("has a state whose schema needs no service", () => {
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.Service<object>()("Bad", { state: decodes, messages: {} })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.Service<object>()("Bad", { state: Schema.Struct({ name: encodes }), messages: {} })
  })

  it("has actions whose schemas need no service", () => {
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.Service<object>()("Bad", { state: Schema.Int, messages: {}, actions: { Tell: decodes } })
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'never'
    DgenServer.Service<object>()("Bad", { state: Schema.Int, messages: {}, actions: { Tell: { name: encodes } } })
  })

  it("has messages that the constructors made", () => {
    // @ts-expect-error is missing in type '{}' but required in type 'AnyMessage'
    DgenServer.Service<object>()("Bad", { state: Schema.Int, messages: { Value: {} } })
    // @ts-expect-error is missing in type 'Int' but required in type 'AnyMessage'
    DgenServer.Service<object>()("Bad", { state: Schema.Int, messages: { Value: Schema.Int } })
  })

  it("has a name, a state and messages", () => {
    // @ts-expect-error Property 'state' is missing in type
    DgenServer.Service<object>()("Bad", { messages: {} })
    // @ts-expect-error Property 'messages' is missing in type
    DgenServer.Service<object>()("Bad", { state: Schema.Int })
    // @ts-expect-error 'action' does not exist in type
    DgenServer.Service<object>()("Bad", { state: Schema.Int, messages: {}, action: {} })
    // @ts-expect-error Argument of type 'number' is not assignable to parameter of type 'string'
    DgenServer.Service<object>()(1, { state: Schema.Int, messages: {} })
  })
})

describe("schemas of all shapes", () => {
  class Item extends Schema.Class<Item>("Item")({ id: Schema.String, at: Schema.DateTimeUtc }) {}

  class Shapes extends DgenServer.Service<Shapes>()("Shapes", {
    state: Schema.Array(Item),
    messages: {
      Put: DgenServer.call({ payload: Item, success: Schema.Option(Item) }),
      Find: DgenServer.call({ payload: { id: Schema.String, limit: Schema.optionalKey(Schema.Int) } }),
      Nothing: DgenServer.call({ payload: Schema.Void }),
      Maybe: DgenServer.call({ payload: Schema.UndefinedOr(Schema.Int) }),
      Anything: DgenServer.call({ payload: Schema.Any }),
      Whatever: DgenServer.call({ payload: Schema.Unknown }),
      Waiting: DgenServer.cast({ payload: { from: DgenServer.From } })
    }
  }) {}

  const shapes = {} as Shapes["Service"]

  it("are the types of handlers", () => {
    const handlers = {} as Parameters<typeof Shapes.behaviour>[0]["handlers"]
    Shapes.behaviour({
      init: Effect.succeed([]),
      handlers: {
        ...handlers,
        Put: (item, state, { from }) => {
          expect(item).type.toBe<Item>()
          expect(state).type.toBe<ReadonlyArray<Item>>()
          expect(from).type.toBeAssignableTo<DgenServer.From>()
          return DgenServer.noReply([...state, item])
        },
        Find: ({ id, limit }, state) => {
          expect(id).type.toBe<string>()
          expect(limit).type.toBe<number | undefined>()
          return DgenServer.reply(undefined, state)
        },
        Waiting: ({ from }, state) => {
          expect(from).type.toBe<DgenServer.From>()
          return DgenServer.noReply(state)
        }
      }
    })
  })

  it("are the types of payloads", () => {
    shapes.call("Find", { id: "a" })
    shapes.call("Find", { id: "a", limit: 1 })
    shapes.call("Nothing")
    shapes.call("Maybe", undefined)
    shapes.call("Anything", 1)
    shapes.call("Whatever", 1)
    // @ts-expect-error Expected 2-3 arguments, but got 1
    shapes.call("Maybe")
    // @ts-expect-error Expected 2-3 arguments, but got 1
    shapes.call("Anything")
    // @ts-expect-error Expected 2-3 arguments, but got 1
    shapes.call("Whatever")
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    shapes.call("Find", { id: "a", limit: "1" })
  })
})

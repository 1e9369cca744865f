/** The types of a definition by its class, and callers that are typed by their call. */
import { Effect, Exit, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import type { Counter, Overflow, State } from "./counter.ts"

describe("a class tells the types of its definition:", () => {
  it("the state", () => {
    expect<DgenServer.State<typeof Counter>>().type.toBe<State>()
  })

  it("the payload of a message, nothing where there is none", () => {
    expect<DgenServer.Payload<typeof Counter, "Increment">>().type.toBe<{ readonly by: number }>()
    expect<DgenServer.Payload<typeof Counter, "Sync">>().type.toBe<string>()
    expect<DgenServer.Payload<typeof Counter, "Note">>().type.toBe<{ readonly text: string }>()
    expect<DgenServer.Payload<typeof Counter, "Value">>().type.toBe<void>()
  })

  it("what a call succeeds and fails with", () => {
    expect<DgenServer.Success<typeof Counter, "Increment">>().type.toBe<number>()
    expect<DgenServer.Success<typeof Counter, "Reset">>().type.toBe<void>()
    expect<DgenServer.Error<typeof Counter, "Increment">>().type.toBe<Overflow>()
    expect<DgenServer.Error<typeof Counter, "Value">>().type.toBe<never>()
  })

  it("the payload of an action", () => {
    expect<DgenServer.ActionPayload<typeof Counter, "Announce">>().type.toBe<{ readonly total: number }>()
    expect<DgenServer.ActionPayload<typeof Counter, "Beep">>().type.toBe<void>()
  })

  it("and of nothing else", () => {
    // @ts-expect-error Type '"Nothing"' does not satisfy the constraint
    expect<DgenServer.Payload<typeof Counter, "Nothing">>().type.toBe<never>()
    // @ts-expect-error Type '"Add"' does not satisfy the constraint
    expect<DgenServer.Success<typeof Counter, "Add">>().type.toBe<never>()
  })
})

const Wait = DgenServer.call({ success: Schema.String })
const Take = DgenServer.call({ success: Schema.Int, error: Schema.Boolean })

class Bell extends DgenServer.Service<Bell>()("Bell", {
  state: Schema.Struct({ waiting: Schema.Array(DgenServer.fromOf(Wait)), any: Schema.optionalKey(DgenServer.From) }),
  messages: { Wait, Take, Ring: DgenServer.cast() }
}) {}

describe("a caller", () => {
  it("of one call is kept where the state has that call's callers, and nowhere else", () => {
    Bell.behaviour({
      init: Effect.succeed({ waiting: [] }),
      handlers: {
        Wait: (_, state, { from }) => {
          expect(from).type.toBe<DgenServer.From<typeof Wait>>()
          return DgenServer.noReply({ ...state, waiting: [...state.waiting, from] })
        },
        // @ts-expect-error is not assignable to type
        Take: (_, state, { from }) => DgenServer.noReply({ ...state, waiting: [...state.waiting, from] }),
        Ring: (_, state, { from }) => {
          expect(from).type.toBe<undefined>()
          return DgenServer.noReply(state)
        }
      }
    })
  })

  it("of any call takes every call's", () => {
    const take = (
      _: void,
      state: DgenServer.State<typeof Bell>,
      { from }: DgenServer.HandlerContext<DgenServer.From>
    ) => DgenServer.noReply({ ...state, any: from })
    Bell.behaviour({
      init: Effect.succeed({ waiting: [] }),
      handlers: { Wait: take, Take: take, Ring: (_, state) => DgenServer.noReply(state) }
    })
  })

  it("gets the answers of its call alone", () => {
    const waits = {} as DgenServer.From<typeof Wait>
    Bell.replyTo(waits, Exit.succeed("it rang"))
    Bell.replyTo(waits, Exit.die("broken"))
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    Bell.replyTo(waits, Exit.succeed(1))
    // @ts-expect-error Type 'boolean' is not assignable to type 'never'
    Bell.replyTo(waits, Exit.fail(true))
    const takes = {} as DgenServer.From<typeof Take>
    Bell.replyTo(takes, Exit.succeed(1))
    Bell.replyTo(takes, Exit.fail(true))
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Bell.replyTo(takes, Exit.succeed("it rang"))
  })

  it("of some call gets the answer of any", () => {
    const some = {} as DgenServer.From
    Bell.replyTo(some, Exit.succeed("it rang"))
    Bell.replyTo(some, Exit.succeed(1))
    Bell.replyTo(some, Exit.fail(false))
    // @ts-expect-error Type 'null' is not assignable to type
    Bell.replyTo(some, Exit.succeed(null))
  })

  it("is one of a call", () => {
    // @ts-expect-error is not assignable to parameter of type 'Call<
    DgenServer.fromOf(DgenServer.cast())
  })
})

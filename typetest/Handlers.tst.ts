/** What handlers get without annotations, and what they may return. */
import { Effect } from "effect"
import { DgenServer, type Tuple } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { Counter, handle, handlers, init, Other, Overflow, type State } from "./counter.ts"

describe("a handler knows, without annotations", () => {
  it("its payload, state and context as an arrow function", () => {
    Counter.behaviour({
      init,
      handlers: {
        ...handlers,
        Increment: ({ by }, state, context) => {
          expect(by).type.toBe<number>()
          expect(state).type.toBe<State>()
          expect(context).type.toBeAssignableTo<DgenServer.HandlerContext>()
          expect(context.from.tag).type.toBe<string>()
          expect(context.from).type.toBeAssignableTo<DgenServer.From>()
          expect(context.attempt).type.toBe<number>()
          expect(context.id).type.toBe<string>()
          expect(context.tuid).type.toBe<Tuple.Tuple>()
          return DgenServer.reply(by, { count: state.count + by }, [Counter.action("Announce", { total: by })])
        },
        Tick: (payload, state, { from }) => {
          expect(payload).type.toBe<void>()
          expect(from).type.toBe<undefined>()
          return DgenServer.noReply(state)
        }
      }
    })
  })

  it("its payload, state and context as a generator", () => {
    Counter.behaviour({
      init,
      handlers: {
        ...handlers,
        Increment: Effect.fnUntraced(function*({ by }, state, context) {
          expect(by).type.toBe<number>()
          expect(state).type.toBe<State>()
          expect(context).type.toBeAssignableTo<DgenServer.HandlerContext>()
          expect(context.from).type.toBeAssignableTo<DgenServer.From>()
          if (by > 1000) return yield* new Overflow({ max: 1000 })
          return DgenServer.reply(by, { count: state.count + by }, [Counter.action("Announce", { total: by })])
        }),
        Sync: Effect.fnUntraced(function*(payload, state) {
          expect(payload).type.toBe<string>()
          expect(state).type.toBe<State>()
          return yield* Effect.succeed(DgenServer.lock(state))
        }),
        Note: Effect.fnUntraced(function*({ text }, state) {
          expect(text).type.toBe<string>()
          return yield* Effect.succeed(DgenServer.noReply(state))
        })
      }
    })
  })
})

describe("a handler may return", () => {
  it("reply, noReply or stop in a call", () => {
    handle({ Value: (_, state) => DgenServer.reply(state.count, state) })
    handle({ Value: (_, state) => DgenServer.noReply(state) })
    handle({ Value: (_, state) => DgenServer.stop("done", state) })
    handle({ Value: (_, state) => state.count > 1 ? DgenServer.noReply(state) : DgenServer.reply(1, state) })
    handle({
      Value: (_, state) => state.count > 1 ? Effect.succeed(DgenServer.noReply(state)) : DgenServer.stop(1, state)
    })
    handle({ Reset: () => DgenServer.reply(undefined, { count: 0 }) })
  })

  it("noReply or stop in a cast or an info message", () => {
    handle({ Add: (_, state) => DgenServer.noReply(state, [Counter.action("Beep")]) })
    handle({ Add: (_, state) => DgenServer.stop("done", state) })
    handle({ Tick: (_, state) => DgenServer.noReply(state) })
    handle({ Tick: (_, state) => DgenServer.stop("done", state) })
  })

  it("lock where the message locks", () => {
    handle({ Import: (_, state) => DgenServer.lock(state) })
    handle({ Import: (_, state) => Effect.succeed(DgenServer.lock(state)) })
    handle({ Sync: (_, state) => state.count > 1 ? DgenServer.lock(state) : DgenServer.noReply(state) })
  })

  it("the failure that the message declares", () => {
    handle({ Increment: () => Effect.fail(new Overflow({ max: 1 })) })
  })
})

describe("a handler may not return", () => {
  it("a reply of another type", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    handle({ Value: (_, state) => DgenServer.reply("1", state) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    handle({ Value: (_, state) => Effect.succeed(DgenServer.reply("1", state)) })
    // @ts-expect-error Type 'number' is not assignable to type 'void'
    handle({ Reset: (_, state) => DgenServer.reply(1, state) })
    // @ts-expect-error Type 'undefined' is not assignable to type 'number'
    handle({ Value: (_, state) => DgenServer.reply(undefined, state) })
  })

  it("a state of another type", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    handle({ Value: () => DgenServer.reply(1, { count: "1" }) })
    // @ts-expect-error Type '{}' is not assignable to type '{ readonly count: number; } | Gone'
    handle({ Value: () => DgenServer.reply(1, {}) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    handle({ Add: () => DgenServer.noReply({ count: "1" }) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    handle({ Add: () => DgenServer.stop("done", { count: "1" }) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    handle({ Import: () => DgenServer.lock({ count: "1" }) })
  })

  it("a state alone, or nothing", () => {
    // @ts-expect-error a handler returns an outcome, as DgenServer.noReply(state) makes one, and not the state
    handle({ Add: (_, state) => state })
    // @ts-expect-error a handler returns an outcome, as DgenServer.noReply(state) makes one, and not the state
    handle({ Value: (_, state) => ({ ...state, count: 1 }) })
    // @ts-expect-error a handler returns an outcome, as DgenServer.noReply(state) makes one, and not the state
    handle({ Add: (_, state) => Effect.succeed(state) })
    // @ts-expect-error Type 'undefined' is not assignable to type
    handle({ Add: () => undefined })
    // @ts-expect-error Type 'void' is not assignable to type
    handle({ Add: () => Effect.void })
  })

  it("a reply in a cast or an info message", () => {
    // @ts-expect-error Property '"only a call is answered: return noReply"' is missing in type 'Reply<
    handle({ Add: (_, state) => DgenServer.reply(1, state) })
    // @ts-expect-error only a call is answered: return noReply
    handle({ Add: (_, state) => Effect.succeed(DgenServer.reply(1, state)) })
    // @ts-expect-error Property '"only a call is answered: return noReply"' is missing in type 'Reply<
    handle({ Tick: (_, state) => DgenServer.reply(undefined, state) })
  })

  it("lock where the message does not lock", () => {
    // @ts-expect-error only a message that is defined with locks: true may lock
    handle({ Value: (_, state) => DgenServer.lock(state) })
    // @ts-expect-error only a message that is defined with locks: true may lock
    handle({ Value: (_, state) => Effect.succeed(DgenServer.lock(state)) })
    // @ts-expect-error only a message that is defined with locks: true may lock
    handle({ Add: (_, state) => DgenServer.lock(state) })
    // @ts-expect-error only a message that is defined with locks: true may lock
    handle({ Tick: (_, state) => DgenServer.lock(state) })
  })

  it("update, which is for locked handlers", () => {
    // @ts-expect-error only a locked handler may return update
    handle({ Add: () => DgenServer.update((fresh: State) => DgenServer.noReply(fresh)) })
  })

  it("a failure that the message does not declare", () => {
    // @ts-expect-error Type 'Overflow' is not assignable to type 'never'
    handle({ Value: () => Effect.fail(new Overflow({ max: 1 })) })
    // @ts-expect-error Type 'string' is not assignable to type 'Overflow'
    handle({ Increment: () => Effect.fail("overflow") })
    // @ts-expect-error Type 'Overflow' is not assignable to type 'never'
    handle({ Add: () => Effect.fail(new Overflow({ max: 1 })) })
    // @ts-expect-error is not assignable to type 'never'
    handle({ Value: (_, state) => Effect.as(Counter.castTx("Clear"), DgenServer.reply(1, state)) })
  })

  it("another server's action", () => {
    // @ts-expect-error Type '"Other"' is not assignable to type '"Counter"'
    handle({ Value: (_, state) => DgenServer.reply(1, state, [Other.action("Shout", { text: "hello" })]) })
    // @ts-expect-error Type '"Other"' is not assignable to type '"Counter"'
    handle({ Add: (_, state) => DgenServer.noReply(state, [Other.action("Shout", { text: "hello" })]) })
    // @ts-expect-error Type '"Other"' is not assignable to type '"Counter"'
    handle({ Add: (_, state) => DgenServer.stop("done", state, [Other.action("Shout", { text: "hello" })]) })
    const both = [Counter.action("Beep"), Other.action("Shout", { text: "hello" })]
    // @ts-expect-error Type '"Other"' is not assignable to type '"Counter"'
    handle({ Add: (_, state) => DgenServer.noReply(state, both) })
  })
})

describe("an action", () => {
  it("has the payload that is declared", () => {
    expect(Counter.action("Announce", { total: 1 })).type.toBe<DgenServer.ActionRequest<"Counter">>()
    expect(Counter.action("Beep")).type.toBe<DgenServer.ActionRequest<"Counter">>()
    expect(Counter.action("Beep").server).type.toBe<"Counter">()
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.action("Announce", { total: "1" })
    // @ts-expect-error 'more' does not exist in type
    Counter.action("Announce", { total: 1, more: 2 })
    // @ts-expect-error Expected 2 arguments, but got 1
    Counter.action("Announce")
    // @ts-expect-error Argument of type '{}' is not assignable to parameter of type 'undefined'
    Counter.action("Beep", {})
  })

  it("is declared", () => {
    // @ts-expect-error Argument of type '"Shout"' is not assignable to parameter of type '"Announce" | "Beep"'
    Counter.action("Shout", { text: "hello" })
  })
})

describe("the handlers are those of the messages", () => {
  it("all of them", () => {
    const { Tick: _, ...others } = handlers
    // @ts-expect-error Property 'Tick' is missing in type
    Counter.behaviour({ init, handlers: others })
    // @ts-expect-error Property 'handlers' is missing in type
    Counter.behaviour({ init })
    // @ts-expect-error Property 'init' is missing in type
    Counter.behaviour({ handlers })
  })

  it("and no others", () => {
    const unknown = () => DgenServer.noReply({ count: 0 })
    // @ts-expect-error 'Unknown' does not exist in type
    Counter.behaviour({ init, handlers: { ...handlers, Unknown: unknown } })
  })

  it("with the declared payload", () => {
    // @ts-expect-error Property 'amount' does not exist on type '{ readonly by: number; }'
    handle({ Add: ({ amount }, state) => DgenServer.noReply({ count: state.count + amount }) })
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    handle({ Add: ({ by }: { readonly by: string }, state) => DgenServer.noReply({ count: state.count + by.length }) })
  })
})

describe("init", () => {
  it("is an effect, or a function of the tuid to one", () => {
    expect(Counter.behaviour({ init: Effect.succeed({ count: 0 }), handlers })).type.toBe<
      DgenServer.Behaviour<Counter, never>
    >()
    expect(Counter.behaviour({ init: () => Effect.succeed({ count: 0 }), handlers })).type.toBe<
      DgenServer.Behaviour<Counter, never>
    >()
    Counter.behaviour({
      handlers,
      init: Effect.fnUntraced(function*({ tuid }) {
        expect(tuid).type.toBe<Tuple.Tuple>()
        return yield* Effect.succeed({ count: tuid.length })
      })
    })
  })

  it("may choose the tuid", () => {
    expect(DgenServer.at(["cart", 1], { count: 0 })).type.toBeAssignableTo<DgenServer.At<State>>()
    Counter.behaviour({ handlers, init: Effect.succeed(DgenServer.at(["cart", 1], { count: 0 })) })
    Counter.behaviour({ handlers, init: ({ tuid }) => Effect.succeed(DgenServer.at([...tuid, 1], { count: 0 })) })
    // @ts-expect-error Argument of type 'string' is not assignable to parameter of type 'Tuple'
    Counter.behaviour({ handlers, init: Effect.succeed(DgenServer.at("cart", { count: 0 })) })
  })

  it("may fail, and the behaviour says with what", () => {
    expect(Counter.behaviour({ init: Effect.fail(new Overflow({ max: 1 })), handlers })).type.toBe<
      DgenServer.Behaviour<Counter, Overflow>
    >()
  })

  it("makes the declared state", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.behaviour({ handlers, init: Effect.succeed({ count: "0" }) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.behaviour({ handlers, init: () => Effect.succeed({ count: "0" }) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.behaviour({ handlers, init: Effect.succeed(DgenServer.at(["cart"], { count: "0" })) })
    // @ts-expect-error 'count' does not exist in type 'Init<
    Counter.behaviour({ handlers, init: { count: 0 } })
  })
})

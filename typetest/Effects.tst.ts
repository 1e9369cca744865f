/** The handlers with side effects: what they get, what they return, and that their layers require their services. */
import { Effect, type Layer } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { Counter, download, mail, Other, Overflow, type State } from "./counter.ts"

declare const Sync: () => DgenServer.NoReply<State>

describe("actionsLayer", () => {
  it("gives the handlers their types", () => {
    Counter.actionsLayer({
      Announce: ({ total }, state) => {
        expect(total).type.toBe<number>()
        expect(state).type.toBe<State>()
        return Effect.void
      },
      Beep: Effect.fnUntraced(function*(payload, state) {
        expect(payload).type.toBe<void>()
        expect(state).type.toBe<State>()
        yield* mail
      })
    })
  })

  it("requires what all handlers require", () => {
    const none = Counter.actionsLayer({ Announce: () => Effect.void, Beep: () => Effect.void })
    expect<Layer.Services<typeof none>>().type.toBe<never>()
    expect<Layer.Success<typeof none>>().type.toBe<DgenServer.ActionsOf<"Counter">>()
    expect<Layer.Error<typeof none>>().type.toBe<never>()

    const one = Counter.actionsLayer({ Announce: () => Effect.asVoid(download), Beep: () => Effect.void })
    expect<Layer.Services<typeof one>>().type.toBe<Effect.Services<typeof download>>()

    const two = Counter.actionsLayer({ Announce: () => Effect.asVoid(download), Beep: () => mail })
    expect<Layer.Services<typeof two>>().type.toBe<
      Effect.Services<typeof download> | Effect.Services<typeof mail>
    >()

    const generators = Counter.actionsLayer({
      Announce: Effect.fnUntraced(function*({ total }) {
        if (total > 1) yield* download
      }),
      Beep: () =>
        Effect.gen(function*() {
          yield* mail
        })
    })
    expect<Layer.Services<typeof generators>>().type.toBe<
      Effect.Services<typeof download> | Effect.Services<typeof mail>
    >()

    const branches = Counter.actionsLayer({
      Announce: ({ total }) => total > 1 ? Effect.asVoid(download) : mail,
      Beep: () => Effect.void
    })
    expect<Layer.Services<typeof branches>>().type.toBe<
      Effect.Services<typeof download> | Effect.Services<typeof mail>
    >()
  })

  it("has handlers that succeed with nothing or halt, and do not fail", () => {
    Counter.actionsLayer({
      Announce: ({ total }) => total > 1 ? Effect.succeed(DgenServer.halt) : Effect.void,
      Beep: () => Effect.succeed(DgenServer.halt)
    })
    // @ts-expect-error Type 'Overflow' is not assignable to type 'never'
    Counter.actionsLayer({ Announce: () => Effect.fail(new Overflow({ max: 1 })), Beep: () => Effect.void })
    // @ts-expect-error Type 'number' is not assignable to type 'void | Halt'
    Counter.actionsLayer({ Announce: () => Effect.succeed(1), Beep: () => Effect.void })
    // @ts-expect-error Type 'undefined' is not assignable to type 'Effect<
    Counter.actionsLayer({ Announce: () => undefined, Beep: () => Effect.void })
    // @ts-expect-error Type 'NoReply<
    Counter.actionsLayer({ Announce: (_, state) => DgenServer.noReply(state), Beep: () => Effect.void })
  })

  it("has the handlers of the declared actions, and no others", () => {
    // @ts-expect-error Property 'Beep' is missing in type
    Counter.actionsLayer({ Announce: () => Effect.void })
    // @ts-expect-error is not assignable to type '"the server declares no such handler"'
    Counter.actionsLayer({ Announce: () => Effect.void, Beep: () => Effect.void, Shout: () => Effect.void })
    // @ts-expect-error Property 'text' does not exist on type '{ readonly total: number; }'
    Counter.actionsLayer({ Announce: ({ text }) => Effect.log(text), Beep: () => Effect.void })
  })
})

describe("lockedLayer", () => {
  it("gives the handlers their types", () => {
    Counter.lockedLayer({
      Import: ({ url }, state, context) => {
        expect(url).type.toBe<string>()
        expect(state).type.toBe<State>()
        expect(context).type.toBeAssignableTo<DgenServer.LockedContext>()
        expect(context.kind).type.toBe<"call" | "cast" | "info">()
        expect(context.from).type.toBeAssignableTo<DgenServer.From>()
        return DgenServer.reply(1, state)
      },
      Sync: Effect.fnUntraced(function*(payload, state, context) {
        expect(payload).type.toBe<string>()
        expect(state).type.toBe<State>()
        expect(context).type.toBe<DgenServer.LockedContext<undefined>>()
        return yield* Effect.as(mail, DgenServer.noReply(state))
      })
    })
  })

  it("requires what all handlers require", () => {
    const none = Counter.lockedLayer({ Import: (_, state) => DgenServer.reply(1, state), Sync })
    expect<Layer.Services<typeof none>>().type.toBe<never>()
    expect<Layer.Success<typeof none>>().type.toBe<DgenServer.LockedOf<"Counter">>()
    expect<Layer.Error<typeof none>>().type.toBe<never>()

    const two = Counter.lockedLayer({
      Import: Effect.fnUntraced(function*({ url }, state) {
        return DgenServer.reply((yield* download) + url.length, state)
      }),
      Sync: (_, state) => state.count > 1 ? DgenServer.noReply(state) : Effect.as(mail, DgenServer.noReply(state))
    })
    expect<Layer.Services<typeof two>>().type.toBe<
      Effect.Services<typeof download> | Effect.Services<typeof mail>
    >()

    const transacting = Counter.lockedLayer({
      Import: (_, state) =>
        Effect.as(Effect.orDie(Tenant.transact(Counter.castTx("Clear"))), DgenServer.reply(1, state)),
      Sync
    })
    expect<Layer.Services<typeof transacting>>().type.toBe<Tenant.Tenant>()
  })

  it("has handlers that reply, do not, stop or update, plainly or as an effect", () => {
    Counter.lockedLayer({ Sync, Import: (_, state) => DgenServer.reply(1, state, [Counter.action("Beep")]) })
    Counter.lockedLayer({ Sync, Import: (_, state) => DgenServer.noReply(state) })
    Counter.lockedLayer({ Sync, Import: (_, state) => DgenServer.stop("done", state) })
    Counter.lockedLayer({ Sync, Import: () => DgenServer.update((fresh) => DgenServer.reply(1, fresh)) })
    Counter.lockedLayer({ Sync, Import: (_, state) => Effect.as(download, DgenServer.reply(1, state)) })
    Counter.lockedLayer({ Sync, Import: (_, state) => Effect.as(download, DgenServer.noReply(state)) })
    Counter.lockedLayer({ Sync, Import: (_, state) => Effect.as(download, DgenServer.stop("done", state)) })
    Counter.lockedLayer({ Sync, Import: () => Effect.fail(new Overflow({ max: 1 })) })
  })

  it("has an update whose function knows the state, also within an effect", () => {
    Counter.lockedLayer({
      Import: ({ url }) =>
        DgenServer.update((fresh) => {
          expect(fresh).type.toBe<State>()
          return DgenServer.reply(url.length, { count: fresh.count + 1 }, [Counter.action("Beep")])
        }),
      Sync: Effect.fnUntraced(function*() {
        yield* mail
        return DgenServer.update((fresh) => {
          expect(fresh).type.toBe<State>()
          return DgenServer.noReply({ count: fresh.count + 1 })
        })
      })
    })
  })

  it("has no handler that locks again", () => {
    // @ts-expect-error Type 'Lock<{ readonly count: number; }>' is
    Counter.lockedLayer({ Sync, Import: (_, state) => DgenServer.lock(state) })
    // @ts-expect-error Type 'Lock<{ readonly count: number; }>' is
    Counter.lockedLayer({ Sync, Import: (_, state) => Effect.as(download, DgenServer.lock(state)) })
    // @ts-expect-error Type 'Lock<{ readonly count: number; }>' is
    Counter.lockedLayer({ Sync, Import: () => DgenServer.update((fresh) => DgenServer.lock(fresh)) })
  })

  it("has no handler that returns what its message does not declare", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.lockedLayer({ Sync, Import: (_, state) => DgenServer.reply("1", state) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.lockedLayer({ Sync, Import: () => DgenServer.reply(1, { count: "1" }) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.lockedLayer({ Sync, Import: () => DgenServer.update((fresh) => DgenServer.reply("1", fresh)) })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.lockedLayer({ Sync, Import: () => DgenServer.update(() => DgenServer.reply(1, { count: "1" })) })
    // @ts-expect-error Type 'string' is not assignable to type 'Overflow'
    Counter.lockedLayer({ Sync, Import: () => Effect.fail("overflow") })
    // @ts-expect-error Type 'string' is not assignable to type 'Overflow'
    Counter.lockedLayer({ Sync, Import: () => DgenServer.update(() => Effect.fail("overflow")) })
    const shout = Other.action("Shout", { text: "hello" })
    // @ts-expect-error Type '"Other"' is not assignable to type '"Counter"'
    Counter.lockedLayer({ Sync, Import: (_, state) => DgenServer.noReply(state, [shout]) })
    // @ts-expect-error Type '"Other"' is not assignable to type '"Counter"'
    Counter.lockedLayer({ Sync, Import: () => DgenServer.update((fresh) => DgenServer.noReply(fresh, [shout])) })
  })

  it("requires the transaction that a handler uses, which nobody can provide", () => {
    const needs = Counter.lockedLayer({
      Sync,
      Import: (_, state) => Effect.as(Transaction.get(["key"]), DgenServer.reply(1, state))
    })
    expect<Layer.Services<typeof needs>>().type.toBe<Transaction.Transaction>()
  })

  it("has no reply of a cast", () => {
    // @ts-expect-error 'Reply<
    Counter.lockedLayer({ Import: (_, state) => DgenServer.noReply(state), Sync: (_, s) => DgenServer.reply(1, s) })
  })

  it("has the handlers of the messages that lock, and no others", () => {
    // @ts-expect-error Property 'Sync' is missing in type
    Counter.lockedLayer({ Import: (_, state) => DgenServer.noReply(state) })
    // @ts-expect-error is not assignable to type '"the server declares no such handler"'
    Counter.lockedLayer({ Import: () => DgenServer.noReply({ count: 1 }), Sync, Value: () => Effect.void })
  })
})

describe("deadLetterLayer", () => {
  it("gives the handler a letter with a payload of unknown type", () => {
    Counter.deadLetterLayer((letter) => {
      expect(letter.payload).type.toBe<unknown>()
      expect(letter.tag).type.toBe<string>()
      expect(letter.attempts).type.toBe<number>()
      expect(letter.cause).type.toBe<string>()
      expect(letter.kind).type.toBe<"call" | "cast" | "info">()
      expect(letter).type.toBeAssignableTo<DgenServer.DeadLetter>()
      return Effect.void
    })
  })

  it("requires what the handler requires", () => {
    expect(Counter.deadLetterLayer(() => Effect.void)).type.toBe<
      Layer.Layer<DgenServer.DeadLettersOf<"Counter">, never, never>
    >()
    const layer = Counter.deadLetterLayer(() => Effect.andThen(download, mail))
    expect<Layer.Services<typeof layer>>().type.toBe<
      Effect.Services<typeof download> | Effect.Services<typeof mail>
    >()
  })

  it("has a handler that does not fail", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'never'
    Counter.deadLetterLayer(() => Effect.fail("lost"))
  })
})

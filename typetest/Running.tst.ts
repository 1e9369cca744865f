/** What running a server requires, its options, its clients, and its operations within transactions. */
import { Effect, Exit, Layer, type Option, Schedule, Schema, type Scope } from "effect"
import { type BackendError, DgenServer, DurableQueue, Tenant, type Transaction } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { behaviour, Counter, handlers, init, Other, Overflow, type State } from "./counter.ts"

const messages = { Value: DgenServer.call(), Add: DgenServer.cast() }

class Plain extends DgenServer.Service<Plain>()("Plain", { state: Schema.Int, messages }) {}

class Empty extends DgenServer.Service<Empty>()("Empty", { state: Schema.Int, messages, actions: {} }) {}

class Acting extends DgenServer.Service<Acting>()("Acting", {
  state: Schema.Int,
  messages,
  actions: { Beep: Schema.Void }
}) {}

class Locking extends DgenServer.Service<Locking>()("Locking", {
  state: Schema.Int,
  messages: { ...messages, Import: DgenServer.info({ locks: true }) }
}) {}

declare const tenant: Layer.Layer<Tenant.Tenant>
declare const plain: DgenServer.Behaviour<Plain, never>
declare const empty: DgenServer.Behaviour<Empty, never>
declare const acting: DgenServer.Behaviour<Acting, never>
declare const locking: DgenServer.Behaviour<Locking, never>
declare const other: DgenServer.Behaviour<Other, never>

describe("layer requires", () => {
  it("the tenant alone without actions and locks", () => {
    expect(Plain.layer(plain)).type.toBe<Layer.Layer<Plain, DgenServer.StartError, Tenant.Tenant>>()
    expect(Empty.layer(empty)).type.toBe<Layer.Layer<Empty, DgenServer.StartError, Tenant.Tenant>>()
  })

  it("the action handlers where there are actions", () => {
    expect(Acting.layer(acting)).type.toBe<
      Layer.Layer<Acting, DgenServer.StartError, Tenant.Tenant | DgenServer.ActionsOf<"Acting">>
    >()
  })

  it("the locked handlers where a message locks", () => {
    expect(Locking.layer(locking)).type.toBe<
      Layer.Layer<Locking, DgenServer.StartError, Tenant.Tenant | DgenServer.LockedOf<"Locking">>
    >()
  })

  it("both where there are both", () => {
    expect(Counter.layer(behaviour)).type.toBe<
      Layer.Layer<
        Counter,
        DgenServer.StartError,
        Tenant.Tenant | DgenServer.ActionsOf<"Counter"> | DgenServer.LockedOf<"Counter">
      >
    >()
  })

  it("nothing more when they are provided", () => {
    const live = Counter.layer(behaviour).pipe(
      Layer.provide([
        Counter.actionsLayer({ Announce: () => Effect.void, Beep: () => Effect.void }),
        Counter.lockedLayer({
          Import: (_, state) => DgenServer.reply(1, state),
          Sync: (_, state) => DgenServer.noReply(state)
        })
      ]),
      Layer.provide(tenant)
    )
    expect(live).type.toBe<Layer.Layer<Counter, DgenServer.StartError>>()
  })
})

describe("where a layer is missing", () => {
  const run = <A, E>(program: Layer.Layer<A, E>) => Effect.runPromise(Layer.launch(program))

  it("the error says which, and of what server", () => {
    // @ts-expect-error 'ActionsOf<"Acting", "provide the actionsLayer of Acting">' is not assignable to type 'never'
    void run(Layer.provide(Acting.layer(acting), tenant))
    // @ts-expect-error 'LockedOf<"Locking", "provide the lockedLayer of Locking">' is not assignable to type 'never'
    void run(Layer.provide(Locking.layer(locking), tenant))
    // @ts-expect-error Type 'Tenant' is not assignable to type 'never'
    void run(Plain.layer(plain))
    // @ts-expect-error "provide the actionsLayer of Acting"> | LockedOf<"Locking", "provide the lockedLayer of Locking">
    void run(Layer.provide(Layer.merge(Acting.layer(acting), Locking.layer(locking)), tenant))
  })

  it("another server's layer does not do", () => {
    const others = Other.actionsLayer({ Shout: () => Effect.void })
    // @ts-expect-error 'ActionsOf<"Acting", "provide the actionsLayer of Acting">' is not assignable to type 'never'
    void run(Acting.layer(acting).pipe(Layer.provide(others), Layer.provide(tenant)))
  })
})

describe("a behaviour", () => {
  it("is of the server that it is for", () => {
    // @ts-expect-error Argument of type 'Behaviour<Other, never>' is not assignable to parameter of type
    Counter.layer(other)
    // @ts-expect-error Argument of type 'Behaviour<Other, never>' is not assignable to parameter of type
    Counter.start(other, { tuid: ["counter"] })
    // @ts-expect-error 'init' does not exist in type 'Behaviour<Counter, unknown>'
    Counter.layer({ init, handlers })
  })

  it("adds the error of its init to that of the start", () => {
    const failing = Counter.behaviour({ init: Effect.fail(new Overflow({ max: 1 })), handlers })
    const layer = Counter.layer(failing)
    const start = Counter.start(failing, { tuid: ["counter"] })
    expect<Layer.Error<typeof layer>>().type.toBe<Overflow | DgenServer.StartError>()
    expect<Effect.Error<typeof start>>().type.toBe<Overflow | DgenServer.StartError>()
  })
})

describe("start", () => {
  it("requires what the layer requires, and a scope", () => {
    expect(Plain.start(plain, { tuid: ["plain", 1] })).type.toBe<
      Effect.Effect<Plain["Service"], DgenServer.StartError, Scope.Scope | Tenant.Tenant>
    >()
    const acts = Acting.start(acting, { tuid: ["acting", 1] })
    expect<Effect.Services<typeof acts>>().type.toBe<Scope.Scope | Tenant.Tenant | DgenServer.ActionsOf<"Acting">>()
    const locks = Locking.start(locking, { tuid: ["locking", 1] })
    expect<Effect.Services<typeof locks>>().type.toBe<Scope.Scope | Tenant.Tenant | DgenServer.LockedOf<"Locking">>()
    const both = Counter.start(behaviour, { tuid: ["counter", 1] })
    expect<Effect.Services<typeof both>>().type.toBe<
      Scope.Scope | Tenant.Tenant | DgenServer.ActionsOf<"Counter"> | DgenServer.LockedOf<"Counter">
    >()
  })

  it("gives what the service is", () => {
    const start = Counter.start(behaviour, { tuid: ["counter"] })
    expect<Effect.Success<typeof start>>().type.toBe<Counter["Service"]>()
    expect<Effect.Success<typeof Counter>>().type.toBe<Counter["Service"]>()
    expect<Effect.Services<typeof Counter>>().type.toBe<Counter>()
  })

  it("needs a tuid", () => {
    // @ts-expect-error Expected 2 arguments, but got 1
    Counter.start(behaviour)
    // @ts-expect-error Property 'tuid' is missing in type '{}'
    Counter.start(behaviour, {})
    // @ts-expect-error Type 'string' is not assignable to type 'Tuple'
    Counter.start(behaviour, { tuid: "counter" })
    // @ts-expect-error Type '{}' is not assignable to type
    Counter.start(behaviour, { tuid: [{}] })
    // @ts-expect-error 'tuid' does not exist in type 'Options'
    Counter.layer(behaviour, { tuid: ["counter"] })
  })
})

describe("options", () => {
  it("are these", () => {
    Counter.layer(behaviour, {
      consume: true,
      reset: false,
      deadLetterThreshold: 3,
      consumeK: 10,
      lockTimeout: "30 seconds",
      grace: { seconds: 5 },
      actionTimeout: "2 minutes",
      cache: true,
      restart: Schedule.exponential("1 second")
    })
    Counter.layer(behaviour, { lockTimeout: Infinity, restart: Schedule.recurs(3), consumeK: undefined })
  })

  it("have their types", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'boolean | undefined'
    Counter.layer(behaviour, { consume: "no" })
    // @ts-expect-error Type 'number' is not assignable to type 'boolean | undefined'
    Counter.layer(behaviour, { reset: 1 })
    // @ts-expect-error Type 'number' is not assignable to type 'boolean | undefined'
    Counter.layer(behaviour, { cache: 1 })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.layer(behaviour, { consumeK: "10" })
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.layer(behaviour, { deadLetterThreshold: "never" })
    // @ts-expect-error Type '"a while"' is not assignable to type
    Counter.layer(behaviour, { lockTimeout: "a while" })
    // @ts-expect-error Type '"a while"' is not assignable to type
    Counter.layer(behaviour, { grace: "a while" })
    // @ts-expect-error Type 'true' is not assignable to type 'Input | undefined'
    Counter.layer(behaviour, { actionTimeout: true })
    // @ts-expect-error Type 'string' is not assignable to type 'Schedule<unknown, unknown
    Counter.start(behaviour, { tuid: ["counter"], restart: "1 second" })
    // @ts-expect-error 'consumeN' does not exist in type
    Counter.layer(behaviour, { consumeN: 1 })
  })

  it("have a schedule that needs no service", () => {
    const needy = null! as Schedule.Schedule<unknown, unknown, never, Other>
    // @ts-expect-error Type 'Other' is not assignable to type 'never'
    Counter.layer(behaviour, { restart: needy })
  })
})

describe("client", () => {
  it("needs a tenant and no behaviour", () => {
    const client = Counter.client()
    expect<Effect.Services<typeof client>>().type.toBe<Tenant.Tenant>()
    expect<Effect.Error<typeof client>>().type.toBe<DgenServer.InvalidTuid>()
    expect(Counter.client({ tuid: ["counter", 1] })).type.toBe<typeof client>()
    // @ts-expect-error Type 'string' is not assignable to type 'readonly Element[]'
    Counter.client({ tuid: "counter" })
  })

  it("calls, casts, sets timers and looks, and no more", () => {
    const client = {} as Effect.Success<ReturnType<typeof Counter.client>>
    const service = {} as Counter["Service"]
    expect<typeof client.call>().type.toBe<typeof service.call>()
    expect<typeof client.cast>().type.toBe<typeof service.cast>()
    expect<typeof client.castAll>().type.toBe<typeof service.castAll>()
    expect<typeof client.state>().type.toBe<typeof service.state>()
    expect<keyof typeof client>().type.toBe<
      | "call"
      | "cast"
      | "castAll"
      | "castLater"
      | "cancelTimer"
      | "timers"
      | "queueLength"
      | "result"
      | "locked"
      | "state"
    >()
    expect(service).type.toBeAssignableTo<typeof client>()
  })
})

describe("castTx and castAllTx", () => {
  it("are transaction effects", () => {
    expect(Counter.castTx("Add", { by: 1 })).type.toBe<
      Effect.Effect<void, DgenServer.CastTxError, Transaction.Transaction>
    >()
    expect(Counter.castTx("Clear")).type.toBe<
      Effect.Effect<void, DgenServer.CastTxError, Transaction.Transaction>
    >()
    expect(Counter.castAllTx([["Add", { by: 1 }], ["Clear"]], { tuid: ["counter", 1] })).type.toBe<
      Effect.Effect<void, DgenServer.CastTxError, Transaction.Transaction>
    >()
    expect<DgenServer.CastTxError>().type.toBe<
      | DgenServer.InvalidPayload
      | DgenServer.UnknownMessage
      | DgenServer.PayloadTooLarge
      | DgenServer.InvalidTuid
      | DgenServer.InvalidOption
      | DgenServer.QueueFull
    >()
  })

  it("name the server after the payload", () => {
    Counter.castTx("Add", { by: 1 }, { tuid: ["counter", 1] })
    Counter.castTx("Clear", undefined, { tuid: ["counter", 1] })
    // @ts-expect-error Argument of type '{ tuid: (string | number)[]; }' is not assignable to parameter of type 'undefined'
    Counter.castTx("Clear", { tuid: ["counter", 1] })
    // @ts-expect-error Type 'string' is not assignable to type 'readonly Element[]'
    Counter.castAllTx([["Clear"]], { tuid: "counter" })
  })

  it("take the payloads that are declared", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.castTx("Add", { by: "1" })
    // @ts-expect-error 'more' does not exist in type
    Counter.castTx("Add", { by: 1, more: 2 })
    // @ts-expect-error Expected 2-3 arguments, but got 1
    Counter.castTx("Add")
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type '"Add" | "Clear" | "Sync"'
    Counter.castTx("Value")
    // @ts-expect-error Argument of type '"Tick"' is not assignable to parameter of type '"Add" | "Clear" | "Sync"'
    Counter.castTx("Tick")
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Counter.castAllTx([["Add", { by: "1" }]])
    // @ts-expect-error Type '"Value"' is not assignable to type '"Add" | "Clear" | "Sync"'
    Counter.castAllTx([["Value"]])
  })
})

describe("replyTo", () => {
  const from = {} as DgenServer.From

  it("is a transaction effect that does not fail", () => {
    expect(Counter.replyTo(from, Exit.succeed(1))).type.toBe<Effect.Effect<void, never, Transaction.Transaction>>()
  })

  it("takes an exit of the types of the server's calls", () => {
    Counter.replyTo(from, Exit.succeed(1))
    Counter.replyTo(from, Exit.void)
    Counter.replyTo(from, Exit.fail(new Overflow({ max: 1 })))
    Counter.replyTo(from, Exit.die("broken"))
    // @ts-expect-error is not assignable to type
    Counter.replyTo(from, Exit.succeed("1"))
    // @ts-expect-error Type 'string' is not assignable to type 'Overflow'
    Counter.replyTo(from, Exit.fail("overflow"))
    // @ts-expect-error Argument of type '{}' is not assignable to parameter of type 'From<any>'
    Counter.replyTo({}, Exit.succeed(1))
    // @ts-expect-error Argument of type 'number' is not assignable to parameter of type
    Counter.replyTo(from, 1)
  })
})

describe("for operators", () => {
  it("queue is a queue", () => {
    expect(Counter.queue()).type.toBe<DurableQueue.DurableQueue>()
    expect(Counter.queue({ tuid: ["counter", 1] })).type.toBe<DurableQueue.DurableQueue>()
    expect(DurableQueue.length(Counter.queue())).type.toBe<Effect.Effect<number, never, Transaction.Transaction>>()
  })

  it("lock and unlock are transaction effects", () => {
    expect(Counter.lock()).type.toBe<
      Effect.Effect<Option.Option<DgenServer.LockInfo>, DgenServer.InvalidTuid, Transaction.Transaction>
    >()
    expect(Counter.unlock({ tuid: ["counter", 1] })).type.toBe<
      Effect.Effect<boolean, DgenServer.InvalidTuid, Transaction.Transaction>
    >()
    const run = Tenant.transact(Counter.unlock())
    expect<typeof run>().type.toBe<
      Effect.Effect<boolean, DgenServer.InvalidTuid | BackendError.BackendError, Tenant.Tenant>
    >()
  })
})

describe("the outcomes", () => {
  const state = {} as State

  it("have the types of their parts", () => {
    expect(DgenServer.reply(1, state)).type.toBe<DgenServer.Reply<1, State, never>>()
    expect(DgenServer.noReply(state)).type.toBe<DgenServer.NoReply<State, never>>()
    expect(DgenServer.noReply(state, [Counter.action("Beep")])).type.toBe<DgenServer.NoReply<State, "Counter">>()
    expect(DgenServer.stop("done", state)).type.toBe<DgenServer.Stop<State, never>>()
    expect(DgenServer.lock(state)).type.toBe<DgenServer.Lock<State>>()
    expect(DgenServer.at(["a"], state)).type.toBe<DgenServer.At<State>>()
    expect(DgenServer.halt).type.toBe<DgenServer.Halt>()
    expect(DgenServer.update((fresh: State) => DgenServer.noReply(fresh))).type.toBe<
      DgenServer.Update<State, DgenServer.NoReply<State, never>, never>
    >()
    expect<DgenServer.Update<State, 1, Overflow>["apply"]>().type.toBe<
      (state: State) => 1 | Effect.Effect<1, Overflow, Transaction.Transaction>
    >()
  })

  it("have their arguments", () => {
    // @ts-expect-error Expected 2-3 arguments, but got 1
    DgenServer.reply(1)
    // @ts-expect-error Expected 2-3 arguments, but got 1
    DgenServer.stop("done")
    // @ts-expect-error Argument of type '{}' is not assignable to parameter of type
    DgenServer.noReply(state, {})
    // @ts-expect-error is not assignable to type 'ActionRequest<
    DgenServer.noReply(state, ["Beep"])
  })
})

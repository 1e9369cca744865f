/** What can be sent to a server, and what `call` gives back: exactly what the message declares, and never `any`. */
import { type Effect, Schema } from "effect"
import { type BackendError, DgenServer, type StateCodec, type Tuple } from "effect-dgen"
import { describe, expect, it } from "tstyche"
import { Counter, type Overflow, type State } from "./counter.ts"

declare const counter: Counter["Service"]

const value = counter.call("Value")
const reset = counter.call("Reset")
const increment = counter.call("Increment", { by: 1 })

describe("call", () => {
  it("succeeds with what the message declares", () => {
    expect<Effect.Success<typeof value>>().type.toBe<number>()
    expect<Effect.Success<typeof increment>>().type.toBe<number>()
  })

  it("succeeds with void where no success is declared", () => {
    expect<Effect.Success<typeof reset>>().type.toBe<void>()
  })

  it("fails with the errors of calls alone where no error is declared", () => {
    expect<Effect.Error<typeof value>>().type.toBe<DgenServer.CallError>()
    expect<Effect.Error<typeof reset>>().type.toBe<DgenServer.CallError>()
    expect<Effect.Error<typeof value>>().type.not.toBe<any>()
  })

  it("fails with the declared error besides", () => {
    expect<Effect.Error<typeof increment>>().type.toBe<Overflow | DgenServer.CallError>()
  })

  it("requires nothing", () => {
    expect<Effect.Services<typeof value>>().type.toBe<never>()
    expect<Effect.Services<typeof reset>>().type.toBe<never>()
    expect<Effect.Services<typeof increment>>().type.toBe<never>()
  })

  it("takes a time limit after the payload", () => {
    counter.call("Increment", { by: 1 }, { timeout: "1 minute" })
    counter.call("Value", undefined, { timeout: 100 })
  })

  it("takes a time limit in the payload's place where there is no payload", () => {
    expect(counter.call("Value", { timeout: "1 minute" })).type.toBe<typeof value>()
    counter.call("Reset", {})
    expect<typeof counter.priorityCall>().type.toBe<typeof counter.call>()
    // @ts-expect-error 'timeuot' does not exist in type
    counter.call("Value", { timeuot: "1 minute" })
    // @ts-expect-error 'timeout' does not exist in type '{ readonly by: number; }'
    counter.call("Increment", { timeout: "1 minute" })
  })

  it("refuses other options", () => {
    // @ts-expect-error Type '"a while"' is not assignable to type
    counter.call("Value", undefined, { timeout: "a while" })
    // @ts-expect-error 'timeuot' does not exist in type
    counter.call("Value", undefined, { timeuot: "1 minute" })
  })

  it("is for calls", () => {
    // @ts-expect-error Argument of type '"Add"' is not assignable to parameter of type '"Increment" | "Value" | "Reset" | "Import"'
    counter.call("Add", { by: 1 })
    // @ts-expect-error Argument of type '"Tick"' is not assignable to parameter of type '"Increment" | "Value" | "Reset" | "Import"'
    counter.call("Tick")
    // @ts-expect-error Argument of type '"Nothing"' is not assignable to parameter of type '"Increment" | "Value" | "Reset" | "Import"'
    counter.call("Nothing")
  })

  it("takes the payload that is declared", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    counter.call("Increment", { by: "1" })
    // @ts-expect-error 'more' does not exist in type
    counter.call("Increment", { by: 1, more: 2 })
    // @ts-expect-error Property 'by' is missing in type '{}'
    counter.call("Increment", {})
    // @ts-expect-error Expected 2-3 arguments, but got 1
    counter.call("Increment")
    // @ts-expect-error 'by' does not exist in type 'CallOptions'
    counter.call("Value", { by: 1 })
  })

  it("succeeds and fails with unions for a tag that is not known", () => {
    const some = counter.call(null! as "Value" | "Reset")
    expect<Effect.Success<typeof some>>().type.toBe<number | void>()
    expect<Effect.Error<typeof some>>().type.toBe<DgenServer.CallError>()
  })
})

describe("an error of a call", () => {
  it("is one of those that are named", () => {
    expect<Exclude<DgenServer.CallError, BackendError.BackendError>>().type.toBe<
      | DgenServer.CallTimeout
      | DgenServer.DeadLettered
      | DgenServer.DefinitionMismatch
      | DgenServer.HandlerCrashed
      | DgenServer.InvalidOption
      | DgenServer.InvalidPayload
      | DgenServer.KeyReused
      | DgenServer.Locked
      | DgenServer.LockFenced
      | DgenServer.PayloadTooLarge
      | DgenServer.QueueFull
      | DgenServer.ServerKilled
      | DgenServer.ServerStopped
      | DgenServer.TooManyKeys
      | DgenServer.UnknownMessage
      | DgenServer.WouldDeadlock
    >()
    expect<BackendError.BackendError>().type.toBeAssignableTo<DgenServer.CallError>()
  })

  it("has a tag", () => {
    expect<DgenServer.CallError["_tag"]>().type.not.toBeAssignableFrom<string>()
    expect<Extract<DgenServer.CallError, { readonly _tag: "DeadLettered" }>["attempts"]>().type.toBe<number>()
    expect<Extract<DgenServer.CallError, { readonly _tag: "LockFenced" }>["requeued"]>().type.toBe<boolean>()
  })
})

describe("cast", () => {
  it("succeeds with nothing and fails with what can go wrong before it is durable", () => {
    expect(counter.cast("Add", { by: 1 })).type.toBe<Effect.Effect<void, DgenServer.CastError>>()
    expect(counter.cast("Clear")).type.toBe<Effect.Effect<void, DgenServer.CastError>>()
  })

  it("is for casts", () => {
    // @ts-expect-error Argument of type '"Increment"' is not assignable to parameter of type '"Add" | "Clear" | "Sync"'
    counter.cast("Increment", { by: 1 })
    // @ts-expect-error Argument of type '"Tick"' is not assignable to parameter of type '"Add" | "Clear" | "Sync"'
    counter.cast("Tick")
    // @ts-expect-error Argument of type '"Nothing"' is not assignable to parameter of type '"Add" | "Clear" | "Sync"'
    counter.cast("Nothing")
  })

  it("takes the payload that is declared", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    counter.cast("Add", { by: "1" })
    // @ts-expect-error 'more' does not exist in type
    counter.cast("Add", { by: 1, more: 2 })
    // @ts-expect-error Expected 2-3 arguments, but got 1
    counter.cast("Add")
    // @ts-expect-error Argument of type '{}' is not assignable to parameter of type 'undefined'
    counter.cast("Clear", {})
    // @ts-expect-error Argument of type 'number' is not assignable to parameter of type 'string'
    counter.cast("Sync", 1)
  })
})

describe("castAll", () => {
  it("takes tags with their payloads", () => {
    expect(counter.castAll([["Add", { by: 1 }], ["Clear"], ["Sync", "now"]])).type.toBe<
      Effect.Effect<void, DgenServer.CastError>
    >()
    expect<Parameters<typeof counter.castAll>[0][number]>().type.toBe<
      | readonly [tag: "Add", payload: { readonly by: number }, options?: { readonly key?: string | undefined }]
      | readonly [tag: "Clear", payload?: undefined, options?: { readonly key?: string | undefined }]
      | readonly [tag: "Sync", payload: string, options?: { readonly key?: string | undefined }]
    >()
  })

  it("refuses others", () => {
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    counter.castAll([["Add", { by: "1" }]])
    // @ts-expect-error is not assignable to type
    counter.castAll([["Add"]])
    // @ts-expect-error is not assignable to type
    counter.castAll([["Clear", {}]])
    // @ts-expect-error Type '"Value"' is not assignable to type '"Add" | "Clear" | "Sync"'
    counter.castAll([["Value"]])
    // @ts-expect-error Type '"Tick"' is not assignable to type '"Add" | "Clear" | "Sync"'
    counter.castAll([["Tick"]])
  })
})

describe("past the queue", () => {
  it("priorityCall is call, and priorityCast is cast with more that can go wrong", () => {
    expect<typeof counter.priorityCall>().type.toBe<typeof counter.call>()
    expect(counter.priorityCast("Add", { by: 1 })).type.toBe<Effect.Effect<void, DgenServer.PriorityError>>()
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type '"Add" | "Clear" | "Sync"'
    counter.priorityCast("Value")
    // @ts-expect-error Argument of type '"Add"' is not assignable to parameter of type '"Increment" | "Value" | "Reset" | "Import"'
    counter.priorityCall("Add", { by: 1 })
  })

  it("info is for info messages", () => {
    expect(counter.info("Tick")).type.toBe<Effect.Effect<void, DgenServer.PriorityError>>()
    expect(counter.info("Note", { text: "hello" })).type.toBe<Effect.Effect<void, DgenServer.PriorityError>>()
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type '"Tick" | "Note"'
    counter.info("Value")
    // @ts-expect-error Argument of type '"Add"' is not assignable to parameter of type '"Tick" | "Note"'
    counter.info("Add", { by: 1 })
    // @ts-expect-error Argument of type '{}' is not assignable to parameter of type 'undefined'
    counter.info("Tick", {})
    // @ts-expect-error Expected 2 arguments, but got 1
    counter.info("Note")
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    counter.info("Note", { text: 1 })
    // @ts-expect-error 'more' does not exist in type
    counter.info("Note", { text: "hello", more: 1 })
  })
})

describe("what a server lets one look at", () => {
  it("is typed", () => {
    expect(counter.tuid).type.toBe<Tuple.Tuple>()
    expect(counter.queueLength).type.toBe<Effect.Effect<number, BackendError.BackendError>>()
    expect(counter.locked).type.toBe<Effect.Effect<boolean, StateCodec.StateError | BackendError.BackendError>>()
    expect(counter.state).type.toBe<
      Effect.Effect<State | undefined, StateCodec.StateError | BackendError.BackendError>
    >()
    expect(counter.stop()).type.toBe<Effect.Effect<void>>()
    expect(counter.kill("done")).type.toBe<Effect.Effect<void, BackendError.BackendError>>()
  })
})

describe("a server without messages of a kind", () => {
  class Silent extends DgenServer.Service<Silent>()("Silent", { state: Schema.Int, messages: {} }) {}
  const silent = {} as Silent["Service"]

  it("takes none", () => {
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type 'never'
    silent.call("Value")
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type 'never'
    silent.cast("Value")
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type 'never'
    silent.info("Value")
    // @ts-expect-error Argument of type '"Value"' is not assignable to parameter of type 'never'
    Silent.action("Value")
  })
})

describe("a key", () => {
  it("goes with calls and casts", () => {
    counter.call("Increment", { by: 1 }, { key: "order-17", timeout: "1 second" })
    counter.call("Value", { key: "order-17" })
    counter.cast("Add", { by: 1 }, { key: "order-17" })
    counter.cast("Clear", undefined, { key: "order-17" })
    counter.castAll([["Add", { by: 1 }, { key: "order-17" }], ["Clear", undefined, { key: "order-18" }], ["Clear"]])
    counter.castLater("Add", { by: 1 }, { after: "1 minute", key: "order-17" })
    Counter.castTx("Add", { by: 1 }, { tuid: ["counter", 1], key: "order-17" })
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    counter.call("Increment", { by: 1 }, { key: 17 })
    // @ts-expect-error 'id' does not exist in type 'KeyOptions'
    counter.cast("Add", { by: 1 }, { id: "order-17" })
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    counter.castAll([["Add", { by: 1 }, { key: 17 }]])
  })

  it("does not go past the queue, nor with a timer that comes again", () => {
    // @ts-expect-error 'key' does not exist in type 'PriorityOptions'
    counter.priorityCall("Increment", { by: 1 }, { key: "order-17" })
    // @ts-expect-error Expected 2 arguments, but got 3
    counter.priorityCast("Add", { by: 1 }, { key: "order-17" })
    // @ts-expect-error 'every' does not exist in type
    counter.castLater("Add", { by: 1 }, { every: "1 minute", key: "order-17" })
  })

  it("is looked up with what its message came to", () => {
    expect(counter.result("order-17")).type.toBe<
      Effect.Effect<
        DgenServer.KeyResult<number | void, Overflow>,
        DgenServer.InvalidOption | BackendError.BackendError
      >
    >()
  })
})

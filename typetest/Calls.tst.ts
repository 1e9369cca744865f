/** What `call` gives back: exactly what the message declares, and never `any`. */
import { type Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { describe, expect, it } from "tstyche"

class Overflow extends Schema.TaggedError<Overflow>()("Overflow", { max: Schema.Int }) {}

class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Increment: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int, error: Overflow }),
    Value: DgenServer.call({ success: Schema.Int })
  }
}) {}

declare const counter: Counter["Service"]

const value = counter.call("Value")
const increment = counter.call("Increment", { by: 1 })

describe("call", () => {
  it("succeeds with what the message declares", () => {
    expect<Effect.Success<typeof value>>().type.toBe<number>()
    expect<Effect.Success<typeof increment>>().type.toBe<number>()
  })

  it("fails with the errors of calls alone where no error is declared", () => {
    expect<Effect.Error<typeof value>>().type.toBe<DgenServer.CallError>()
  })

  it("fails with the declared error besides", () => {
    expect<Effect.Error<typeof increment>>().type.toBe<Overflow | DgenServer.CallError>()
  })

  it("requires nothing", () => {
    expect<Effect.Services<typeof value>>().type.toBe<never>()
  })

  it("does not take what the message does not declare", () => {
    expect(counter.call).type.not.toBeCallableWith("Increment")
    expect(counter.call).type.not.toBeCallableWith("Increment", { by: "1" })
    expect(counter.call).type.not.toBeCallableWith("Nothing")
  })
})

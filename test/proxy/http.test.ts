/** Servers behind HTTP endpoints, asked with `fetch`. */
import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import { post } from "./asking.ts"
import { Lines, served } from "./support.ts"

layer(served(), { excludeTestServices: true, timeout: 60_000 })("servers behind HTTP", (it) => {
  describe("what happened is told by the status", () => {
    it.effect("a cast is accepted, and is handled", () =>
      Effect.gen(function*() {
        const put = yield* post("/desks/put/one", { json: { note: "a" } })
        assert.deepStrictEqual([put.status, put.text], [202, ""])
        const notes = yield* post("/desks/notes/one")
        assert.deepStrictEqual([notes.status, notes.body], [200, ["a"]])
      }))
    it.effect("a call without a value has none", () =>
      Effect.gen(function*() {
        const { status, text } = yield* post("/desks/freeze/two")
        assert.deepStrictEqual([status, text], [204, ""])
      }))
    it.effect("a declared error has the status that it says, or 409", () =>
      Effect.gen(function*() {
        const overdrawn = yield* post("/desks/draw/three", { json: { amount: 1_000 } })
        assert.deepStrictEqual([overdrawn.status, overdrawn.body], [402, { _tag: "Overdrawn", balance: 100 }])
        yield* post("/desks/freeze/three")
        const frozen = yield* post("/desks/draw/three", { json: { amount: 1 } })
        assert.deepStrictEqual([frozen.status, frozen.body], [409, {
          _tag: "Frozen",
          since: "2026-01-01T00:00:00.000Z"
        }])
      }))
    it.effect("a payload that does not fit is refused with its field", () =>
      Effect.gen(function*() {
        const { body, status } = yield* post("/desks/draw/four", { json: { amount: "much" } })
        assert.strictEqual(status, 400, JSON.stringify(body))
        assert.include(body, { _tag: "InvalidPayload", server: "Desk", tag: "Draw", field: "amount" })
      }))
    it.effect("a full queue", () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* post("/full/push/one")).status, 202)
        const { body, headers, status } = yield* post("/full/push/one")
        assert.strictEqual(status, 429)
        assert.strictEqual(headers.get("retry-after"), "1")
        assert.deepStrictEqual(body, { _tag: "QueueFull", server: "Full", tuid: "one", length: 1, limit: 1 })
      }))
    it.effect("no answer in time", () =>
      Effect.gen(function*() {
        const { body, status } = yield* post("/quick/wait/1")
        assert.deepStrictEqual([status, body], [504, {
          _tag: "CallTimeout",
          server: "Desk",
          tuid: "1",
          tag: "Wait",
          timeoutMillis: 100
        }])
      }))
    it.effect("a handler that crashes", () =>
      Effect.gen(function*() {
        const { body, status, text } = yield* post("/desks/crash/five")
        console.log(status, text, yield* Lines)
        assert.strictEqual(status, 500)
        assert.strictEqual(body._tag, "DeadLettered")
        assert.notInclude(text, "secret")
      }))
  })
})

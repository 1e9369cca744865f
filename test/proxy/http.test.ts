/** Servers behind HTTP endpoints, asked with `fetch`: what happened is told by the status. */
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { BackendError } from "effect-dgen"
import { committing } from "../support/driver.ts"
import { post } from "./asking.ts"
import { Desk, Lines, Seen, served, untilWaiting } from "./support.ts"

const failing = { is: false }

/** A store that is away when the test says so. */
const store = committing((_, commit) =>
  failing.is
    ? Effect.fail(
      new BackendError.BackendError({ reason: new BackendError.CommitUnknown({ message: "a secret of the store" }) })
    )
    : commit
)

/** The line of the log that has an id. */
const lineWith = (id: string) => Effect.map(Lines, (lines) => lines.find((line) => line.includes(id)))

layer(served(store), { excludeTestServices: true, timeout: 60_000 })("servers behind HTTP", (it) => {
  describe("what a message comes to", () => {
    it.effect("a cast is accepted with 202, and is handled", () =>
      Effect.gen(function*() {
        const put = yield* post("/desks/put/casts", { json: { note: "a" } })
        assert.deepStrictEqual([put.status, put.text], [202, ""])
        const notes = yield* post("/desks/notes/casts")
        assert.deepStrictEqual([notes.status, notes.body], [200, ["a"]])
      }))
    it.effect("a call is answered with 200, and with 204 where its answer is nothing", () =>
      Effect.gen(function*() {
        const drawn = yield* post("/desks/draw/calls", { json: { amount: 1 } })
        assert.deepStrictEqual([drawn.status, drawn.body], [200, { balance: 99, by: "desk" }])
        const frozen = yield* post("/desks/freeze/calls")
        assert.deepStrictEqual([frozen.status, frozen.text], [204, ""])
      }))
    it.effect("a declared error has the status of its annotation, and 409 without one", () =>
      Effect.gen(function*() {
        const overdrawn = yield* post("/desks/draw/errors", { json: { amount: 1_000 } })
        assert.deepStrictEqual([overdrawn.status, overdrawn.body], [402, { _tag: "Overdrawn", balance: 100 }])
        yield* post("/desks/freeze/errors")
        const frozen = yield* post("/desks/draw/errors", { json: { amount: 1 } })
        assert.deepStrictEqual([frozen.status, frozen.body], [409, {
          _tag: "Frozen",
          since: "2026-01-01T00:00:00.000Z"
        }])
      }))
  })

  describe("what was wrong with the request", () => {
    it.effect("a payload that does not fit is refused with 400 and its field", () =>
      Effect.gen(function*() {
        const { body, status } = yield* post("/desks/draw/wrong", { json: { amount: "much" } })
        assert.strictEqual(status, 400)
        assert.include(body, { _tag: "InvalidPayload", server: "Desk", tuid: "wrong", tag: "Draw", field: "amount" })
        assert.strictEqual((yield* post("/desks/draw/wrong", { json: {} })).body.field, "amount")
        assert.strictEqual((yield* post("/desks/draw/wrong", { json: { amount: 1, at: "then" } })).body.field, "at")
        assert.deepStrictEqual(
          yield* Effect.flatMap(Desk.client({ tuid: ["desk", "wrong"] }), (it) => it.state),
          undefined
        )
      }))
    it.effect("an address that does not fit, or that no server can have, is refused with 400", () =>
      Effect.gen(function*() {
        const letters = yield* post("/quick/wait/abc")
        assert.deepStrictEqual([letters.status, letters.body._tag, letters.body.server], [400, "InvalidTuid", "Desk"])
        const long = yield* post(`/desks/notes/${"a".repeat(2_100)}`)
        assert.deepStrictEqual([long.status, long.body._tag], [400, "InvalidTuid"])
      }))
    it.effect("who does not say who he is gets 401, whatever he asks", () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* post("/desks/notes/alien", { user: "" })).status, 401)
        assert.strictEqual((yield* post("/desks/draw/alien", { user: "", json: { amount: "much" } })).status, 401)
        assert.strictEqual((yield* post("/desks/notes/alien", { headers: { authorization: "Bearer x" } })).status, 401)
      }))
    it.effect("what is not shown is not there", () =>
      Effect.gen(function*() {
        for (
          const path of ["/desks/secret/one", "/desks/tick/one", "/quick/notes/1", "/desks/notes", "/desks/notes/a/b"]
        ) {
          assert.strictEqual((yield* post(path)).status, 404, path)
        }
      }))
    it.effect("another kind of body is refused with 415", () =>
      Effect.gen(function*() {
        const { status } = yield* post("/desks/put/kinds", {
          body: "note=a",
          headers: { "content-type": "text/plain" }
        })
        assert.strictEqual(status, 415)
      }))
    it.effect("a message that is too large for the store is refused with 413", () =>
      Effect.gen(function*() {
        const { body, status } = yield* post("/desks/put/large", { json: { note: "a".repeat(6_000_000) } })
        assert.deepStrictEqual([status, body._tag, body.tuid], [413, "PayloadTooLarge", "large"])
      }))
  })

  describe("what was wrong with the server", () => {
    it.effect("a full queue is 429, and says when to ask again", () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* post("/full/push/one")).status, 202)
        const { body, headers, status } = yield* post("/full/push/one")
        assert.deepStrictEqual([status, headers.get("retry-after")], [429, "1"])
        assert.deepStrictEqual(body, { _tag: "QueueFull", server: "Full", tuid: "one", length: 1, limit: 1 })
        const call = yield* post("/full/ask/one", { json: { n: 1 } })
        assert.deepStrictEqual([call.status, call.headers.get("retry-after")], [429, "1"])
      }))
    it.effect("no answer in time is 504", () =>
      Effect.gen(function*() {
        const { body, status } = yield* post("/quick/wait/1")
        const expected = { _tag: "CallTimeout", server: "Desk", tuid: "1", tag: "Wait", timeoutMillis: 100 }
        assert.deepStrictEqual([status, body], [504, expected])
      }))
    it.effect("a server that ends while a call waits is 410", () =>
      Effect.gen(function*() {
        const call = yield* Effect.forkChild(post("/desks/wait/ended"))
        yield* untilWaiting(["desk", "ended"], 1)
        yield* post("/desks/wipe/ended")
        const { body, status } = yield* Fiber.join(call)
        assert.deepStrictEqual([status, body], [410, { _tag: "ServerKilled", server: "Desk", tuid: "ended" }])
      }))
    it.effect("a server that stops is 503, and its reason stays inside", () =>
      Effect.gen(function*() {
        const { body, headers, status, text } = yield* post("/desks/stop/stopped")
        assert.deepStrictEqual([status, body._tag, headers.get("retry-after")], [503, "ServerStopped", "1"])
        assert.notInclude(text, "secret")
        assert.include(yield* lineWith(/for (\w+)$/.exec(body.reason)![1]!), "a secret of the inside")
      }))
  })

  describe("what went wrong inside leaves as an id, and lies with it in the log", () => {
    const causes = [
      ["a handler that crashes", "/desks/crash/one", "DeadLettered", "a secret of the inside"],
      ["an answer that does not fit", "/desks/lie/one", "HandlerCrashed", "Expected number"]
    ] as const
    for (const [title, path, tag, secret] of causes) {
      it.effect(title, () =>
        Effect.gen(function*() {
          const { body, status, text } = yield* post(path)
          assert.deepStrictEqual([status, body._tag, body.tuid], [500, tag, "one"])
          assert.notInclude(text, secret)
          assert.include(yield* lineWith(/^see the log for (\w+)$/.exec(body.cause)![1]!), secret)
        }))
    }
    it.effect("an address whose function throws", () =>
      Effect.gen(function*() {
        const { body, status, text } = yield* post("/full/push/throws")
        assert.deepStrictEqual([status, body._tag, body.server, body.tag], [500, "Unforeseen", "Full", "Push"])
        assert.notInclude(text, "secret")
        assert.include(yield* lineWith(body.id), "a secret of the inside")
      }))
    it.effect("a tuid that belongs to another definition", () =>
      Effect.gen(function*() {
        yield* post("/desks/freeze/other")
        const { body, status, text } = yield* post("/wrong/ask/other")
        assert.deepStrictEqual([status, body._tag], [500, "Unforeseen"])
        assert.notInclude(text, "Desk")
        assert.include(yield* lineWith(body.id), "belongs to Desk")
      }))
    it.effect("a store that is away", () =>
      Effect.gen(function*() {
        failing.is = true
        const { body, headers, status, text } = yield* Effect.ensuring(
          post("/desks/put/away", { json: { note: "a" } }),
          Effect.sync(() => failing.is = false)
        )
        assert.deepStrictEqual([status, body._tag, headers.get("retry-after")], [503, "StoreUnavailable", "1"])
        assert.notInclude(text, "secret")
        assert.include(yield* lineWith(body.id), "a secret of the store")
      }))
    it.effect("each has an id of its own", () =>
      Effect.gen(function*() {
        const ids = yield* Effect.replicateEffect(Effect.map(post("/full/push/throws"), ({ body }) => body.id), 20)
        assert.strictEqual(new Set(ids).size, 20)
      }))
  })

  describe("the header Idempotency-Key", () => {
    const draws = Effect.map(Seen, ({ draws }) => draws)

    it.effect("gets one answer however often it is sent, and the message is handled once", () =>
      Effect.gen(function*() {
        const draw = post("/desks/draw/keys", { json: { amount: 10 }, key: "order-1" })
        const before = yield* draws
        const answers = yield* Effect.replicateEffect(draw, 8, { concurrency: "unbounded" })
        for (const { body, status } of answers) {
          assert.deepStrictEqual([status, body], [200, { balance: 90, by: "desk" }])
        }
        assert.deepStrictEqual((yield* draw).body, { balance: 90, by: "desk" })
        assert.strictEqual(yield* draws, before + 1)
        const without = yield* post("/desks/draw/keys", { json: { amount: 10 } })
        assert.strictEqual(without.body.balance, 80)
      }))
    it.effect("gets the same declared error, too", () =>
      Effect.gen(function*() {
        const draw = post("/desks/draw/keyedErrors", { json: { amount: 200 }, key: "order-1" })
        assert.deepStrictEqual((yield* draw).body, { _tag: "Overdrawn", balance: 100 })
        yield* post("/desks/draw/keyedErrors", { json: { amount: 50 } })
        assert.deepStrictEqual((yield* draw).body, { _tag: "Overdrawn", balance: 100 })
      }))
    it.effect("of another user is another key", () =>
      Effect.gen(function*() {
        const draw = (user: string) => post("/desks/draw/users", { json: { amount: 10 }, key: "order-1", user })
        assert.strictEqual((yield* draw("ada")).body.balance, 90)
        assert.strictEqual((yield* draw("bob")).body.balance, 80)
        assert.strictEqual((yield* draw("ada")).body.balance, 90)
      }))
    it.effect("makes a cast take effect once", () =>
      Effect.gen(function*() {
        const put = post("/desks/put/keyedCasts", { json: { note: "a" }, key: "note-1" })
        for (const { status } of [yield* put, yield* put]) assert.strictEqual(status, 202)
        assert.deepStrictEqual((yield* post("/desks/notes/keyedCasts")).body, ["a"])
      }))
    it.effect("with another payload is refused with 422, and shows the key as it was sent", () =>
      Effect.gen(function*() {
        yield* post("/desks/draw/reused", { json: { amount: 10 }, key: "order-1" })
        const { body, status } = yield* post("/desks/draw/reused", { json: { amount: 20 }, key: "order-1" })
        const expected = { _tag: "KeyReused", server: "Desk", tuid: "reused", tag: "Draw", key: "order-1" }
        assert.deepStrictEqual([status, body], [422, expected])
      }))
    it.effect("that is empty or too long is refused with 400, and nothing is handled", () =>
      Effect.gen(function*() {
        const before = yield* draws
        for (const key of ["", "k".repeat(300)]) {
          const { body, status } = yield* post("/desks/draw/badKeys", { json: { amount: 10 }, key })
          assert.deepStrictEqual([status, body._tag, body.option], [400, "InvalidOption", "key"])
        }
        assert.strictEqual(yield* draws, before)
      }))
    it.effect("beyond what a server keeps is 503", () =>
      Effect.gen(function*() {
        const draw = (key: string) => post("/desks/draw/many", { json: { amount: 1 }, key })
        for (const key of ["1", "2", "3"]) assert.strictEqual((yield* draw(key)).status, 200)
        const { body, headers, status } = yield* draw("4")
        assert.deepStrictEqual([status, body._tag, headers.get("retry-after")], [503, "TooManyKeys", "60"])
        assert.strictEqual((yield* draw("1")).status, 200)
      }))
  })
})

/** What strangers send to servers behind HTTP: nothing of it is handled, nothing goes on waiting, and the server lives. */
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { post, raw, writtenAndGone } from "./asking.ts"
import { Desk, Lines, Seen, served, untilWaiting, waiting } from "./support.ts"

const bearer = "Authorization: Bearer token-of-ada\r\n"

/** The head of a request for a desk. */
const head = (path: string, ...lines: ReadonlyArray<string>) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${bearer}${lines.map((line) => `${line}\r\n`).join("")}\r\n`

const JSON_TYPE = "Content-Type: application/json"

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])

const jsonOf = (answer: string) =>
  JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4).replace(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, ""))

layer(served(), { excludeTestServices: true, timeout: 60_000 })("strangers", (it) => {
  const stateOf = (name: string) => Effect.flatMap(Desk.client({ tuid: ["desk", name] }), (desk) => desk.state)

  describe("bodies", () => {
    it.effect("that are too large are refused with 413, with or without a length", () =>
      Effect.gen(function*() {
        const long = "a".repeat(200)
        const known = yield* post("/quick/say/1", { json: long })
        assert.deepStrictEqual([known.status, known.body], [
          413,
          { _tag: "BodyTooLarge", server: "Desk", tag: "Say", limitBytes: 100 }
        ])
        const chunk = `c8\r\n${long}\r\n`
        const unknown = yield* raw(head("/quick/say/1", JSON_TYPE, "Transfer-Encoding: chunked"), chunk.repeat(50))
        assert.strictEqual(statusOf(unknown), 413)
        assert.strictEqual((yield* post("/quick/say/1", { json: "a".repeat(98) })).status, 200)
      }))
    it.effect("that are slow are refused with 408, and the answer has its own time", () =>
      Effect.gen(function*() {
        const slow = yield* raw(head("/quick/say/1", JSON_TYPE, "Content-Length: 10"), "\"abc")
        assert.strictEqual(statusOf(slow), 408)
        assert.include(slow, "BodyTimeout")
        const endless = yield* raw(head("/quick/say/1", JSON_TYPE, "Transfer-Encoding: chunked"), "1\r\n\"\r\n")
        assert.strictEqual(statusOf(endless), 408)
      }))
    it.effect("for a message that takes none are not read", () =>
      Effect.gen(function*() {
        // a body of a gigabyte is announced, and does not come
        const answer = yield* raw(head("/desks/notes/unread", JSON_TYPE, "Content-Length: 1000000000"), "[")
        assert.strictEqual(statusOf(answer), 200)
      }))
    it.effect("that are no JSON, or another one, are refused with 400", () =>
      Effect.gen(function*() {
        const bodies = [
          "",
          "{",
          "null",
          "[]",
          "1",
          "\"a\"",
          "{\"note\":1}",
          "{\"note\":null}",
          "{\"Note\":\"a\"}",
          "NaN",
          "\u0000",
          "{\"note\":\"a\"}}",
          "'a'"
        ]
        for (const body of bodies) {
          const answer = yield* post("/desks/put/bodies", { body, headers: { "content-type": "application/json" } })
          assert.deepStrictEqual([answer.status, answer.body?._tag], [400, "InvalidPayload"], body)
        }
        assert.isUndefined(yield* stateOf("bodies"))
      }))
    it.effect("with properties that nobody knows are taken without them, and __proto__ is one of those", () =>
      Effect.gen(function*() {
        const body =
          "{\"note\":\"a\",\"__proto__\":{\"note\":\"b\",\"admin\":true},\"constructor\":{\"prototype\":{}},\"more\":1}"
        const { status } = yield* post("/desks/put/excess", { body, headers: { "content-type": "application/json" } })
        assert.strictEqual(status, 202)
        assert.deepStrictEqual((yield* post("/desks/notes/excess")).body, ["a"])
        assert.isUndefined(({} as Record<string, unknown>)["admin"])
        const only = "{\"__proto__\":{\"note\":\"b\"}}"
        const inherited = yield* post("/desks/put/excess", {
          body: only,
          headers: { "content-type": "application/json" }
        })
        assert.strictEqual(inherited.status, 400)
      }))
    it.effect("with numbers that are none for a program are refused", () =>
      Effect.gen(function*() {
        for (const number of ["1e400", "-1e400", "1e308", "9007199254740993", "1.5", "-0.1", "\"1\"", "1e999999"]) {
          const answer = yield* post("/desks/draw/numbers", {
            body: `{"amount":${number}}`,
            headers: { "content-type": "application/json" }
          })
          assert.deepStrictEqual([answer.status, answer.body?._tag], [400, "InvalidPayload"], number)
        }
        assert.isUndefined(yield* stateOf("numbers"))
      }))
    it.effect("keep their text, whatever it is of", () =>
      Effect.gen(function*() {
        for (const text of ["\u0000", "é\u0301", "\u{1f600}", "\u202etxt", "</script>", "a".repeat(10_000), "\ufeff"]) {
          const answer = yield* post("/desks/say/texts", { json: text })
          assert.deepStrictEqual([answer.status, answer.body], [200, text])
        }
        // half of a pair is no text
        const half = yield* post("/desks/say/texts", {
          body: "\"\\ud800\"",
          headers: { "content-type": "application/json" }
        })
        assert.deepStrictEqual([half.status, half.body._tag], [400, "InvalidPayload"])
      }))
    it.effect("as deep as a stack are refused, and the server lives", () =>
      Effect.gen(function*() {
        const depth = 200_000
        const body = "[".repeat(depth) + "]".repeat(depth)
        const answer = yield* post("/desks/put/deep", { body, headers: { "content-type": "application/json" } })
        assert.strictEqual(answer.status, 400)
        assert.strictEqual((yield* post("/desks/notes/deep")).status, 200)
      }))
  })

  describe("paths", () => {
    it.effect("say an address as it was encoded, and no other one", () =>
      Effect.gen(function*() {
        for (
          const name of ["a/b", "..", "a b", "ü", "\u{1f600}", "%2F", "a?b=c#d", "a;b", "*", ":tuid", "a\u0000b", "-"]
        ) {
          const path = encodeURIComponent(name).replace(/^\.\.$/, "%2E%2E")
          const { status } = yield* post(`/desks/put/${path}`, { json: { note: name } })
          // a client takes .. out of a path by itself, however it is written
          if (name === "..") continue
          assert.strictEqual(status, 202, name)
          yield* Effect.repeat(stateOf(name), { until: (state) => state !== undefined })
          assert.deepStrictEqual((yield* stateOf(name))!.notes, [name])
        }
      }))
    it.effect("that are no text are refused, and with nothing where an address would be, too", () =>
      Effect.gen(function*() {
        for (const path of ["%", "%ZZ", "%C0%AF", "%ff", "%ED%A0%80"]) {
          const answer = yield* raw(head(`/desks/notes/${path}`, "Content-Length: 0"))
          assert.oneOf(statusOf(answer), [400, 404], path)
        }
        for (const path of ["/desks/notes/", "/desks/notes//", "//desks//notes//", "/desks/notes/../secret/a"]) {
          const answer = yield* raw(head(path, "Content-Length: 0"))
          assert.oneOf(statusOf(answer), [400, 404], path)
        }
      }))
    it.effect("are for POST alone", () =>
      Effect.gen(function*() {
        for (const method of ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"]) {
          const answer = yield* raw(head("/desks/notes/methods", "Content-Length: 0").replace("POST", method))
          assert.oneOf(statusOf(answer), [404, 405], method)
        }
        assert.isUndefined(yield* stateOf("methods"))
      }))
  })

  describe("headers", () => {
    it.effect("that say a key twice, or one that is no text, make no key of another one", () =>
      Effect.gen(function*() {
        const seen = yield* Seen
        const draw = (...lines: ReadonlyArray<string>) =>
          Effect.map(
            raw(
              head("/desks/draw/headers", JSON_TYPE, "Content-Length: 12", "Connection: close", ...lines),
              "{\"amount\":1}"
            ),
            (answer) => [statusOf(answer), jsonOf(answer).balance]
          )
        const before = seen.draws
        assert.deepStrictEqual(yield* draw("Idempotency-Key: a", "Idempotency-Key: b"), [200, 99])
        assert.deepStrictEqual(yield* draw("Idempotency-Key: a"), [200, 98])
        assert.deepStrictEqual(yield* draw("Idempotency-Key: a, b"), [200, 99])
        assert.deepStrictEqual(yield* draw("idempotency-KEY: a"), [200, 98])
        assert.deepStrictEqual(yield* draw("Idempotency-Key: \u00fc\u00df"), [200, 97])
        assert.strictEqual(seen.draws, before + 3)
      }))
    it.effect("that say two things of a body, or of who asks, hide no request in another one, and are nobody else", () =>
      Effect.gen(function*() {
        const inner = head("/desks/put/smuggled", JSON_TYPE, "Content-Length: 12") + "{\"note\":\"a\"}"
        const bodies = [
          ["Content-Length: 3", `Content-Length: ${inner.length}`],
          ["Content-Length: 0", "Transfer-Encoding: chunked"],
          ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
          ["Transfer-Encoding: xchunked"],
          ["Content-Length: -1"],
          ["Content-Length: 1e9"]
        ]
        for (const lines of bodies) {
          const answer = yield* raw(head("/desks/put/outer", JSON_TYPE, ...lines), `0\r\n\r\n${inner}`)
          assert.oneOf(statusOf(answer), [400, 501], lines.join())
        }
        assert.isUndefined(yield* stateOf("smuggled"))
        const twice = head(
          "/desks/draw/two",
          JSON_TYPE,
          "Content-Length: 12",
          "Idempotency-Key: k",
          bearer.trim().replace("ada", "bob")
        )
        assert.strictEqual(jsonOf(yield* raw(twice, "{\"amount\":1}")).balance, 99)
        // it was ada's key, whom the first one names
        const again = yield* post("/desks/draw/two", { json: { amount: 1 }, key: "k", user: "ada" })
        assert.strictEqual(again.body.balance, 99)
        const other = yield* post("/desks/draw/two", { json: { amount: 1 }, key: "k", user: "bob" })
        assert.strictEqual(other.body.balance, 98)
      }))
    it.effect("that are of another language are read as what they are", () =>
      Effect.gen(function*() {
        const types = [
          ["application/json; charset=utf-8", 202],
          ["APPLICATION/JSON", 202],
          ["text/html", 415],
          ["multipart/form-data", 415],
          ["application/x-www-form-urlencoded", 415],
          ["x", 415]
        ] as const
        for (const [type, status] of types) {
          const answer = yield* post("/desks/put/types", {
            body: "{\"note\":\"a\"}",
            headers: { "content-type": type }
          })
          assert.strictEqual(answer.status, status, type)
        }
      }))
    it.effect("of somebody else's user name no keys of that user", () =>
      Effect.gen(function*() {
        // together the texts are the same, if one only writes them one behind the other
        const draw = (user: string, key: string) => post("/desks/draw/scopes", { json: { amount: 1 }, user, key })
        assert.strictEqual((yield* draw("ada", "\",\"1")).body.balance, 99)
        assert.strictEqual((yield* draw("ada", "1")).body.balance, 98)
        assert.strictEqual((yield* draw("adax", "1")).body.balance, 97)
      }))
  })

  describe("who goes away", () => {
    const tuid = ["desk", "leaving"]

    it.effect("in the middle of a call leaves nothing waiting", () =>
      Effect.gen(function*() {
        const calls = yield* Effect.forkChild(
          Effect.all(Array.from({ length: 20 }, () => post("/desks/wait/leaving")), { concurrency: "unbounded" })
        )
        yield* untilWaiting(tuid, 20)
        yield* Fiber.interrupt(calls)
        yield* untilWaiting(tuid, 0)
        assert.deepStrictEqual(yield* waiting(tuid), { calls: 0, rows: 0 })
      }))
    it.effect("without saying so leaves nothing waiting either", () =>
      Effect.gen(function*() {
        const sockets = yield* Effect.forkChild(
          Effect.all(
            Array.from({ length: 5 }, () => raw(head("/desks/wait/leaving", "Content-Length: 0"))),
            { concurrency: "unbounded" }
          )
        )
        yield* untilWaiting(tuid, 5)
        // the sockets are destroyed
        yield* Fiber.interrupt(sockets)
        yield* untilWaiting(tuid, 0)
      }))
    it.effect("in the middle of a body has sent nothing", () =>
      Effect.gen(function*() {
        yield* writtenAndGone(head("/desks/put/leaving", JSON_TYPE, "Content-Length: 100"), "{\"note\":")
        const notes = yield* post("/desks/notes/leaving")
        assert.deepStrictEqual(notes.body, [])
      }))
  })

  describe("procedures", () => {
    const rpc = (body: string) => post("/rpc", { body, headers: { "content-type": "application/ndjson" } })
    const request = (fields: object) =>
      JSON.stringify({ _tag: "Request", id: "1", tag: "Desk.Notes", payload: { tuid: "rpc" }, headers: [], ...fields })

    it.effect("that are not shown are not there, and names of an object's own are none", () =>
      Effect.gen(function*() {
        for (const tag of ["Desk.Secret", "Desk.Tick", "Secret", "__proto__", "constructor", "toString", ""]) {
          const { text } = yield* rpc(`${request({ tag })}\n`)
          assert.include(text, "Unknown request tag", tag)
        }
      }))
    it.effect("with payloads that do not fit are refused, and handled is nothing", () =>
      Effect.gen(function*() {
        for (
          const payload of [
            null,
            {},
            { tuid: 7 },
            { tuid: "rpc", payload: { note: 1 } },
            { payload: { note: "a" } },
            []
          ]
        ) {
          const { text } = yield* rpc(`${request({ tag: "Desk.Put", payload })}\n`)
          assert.include(text, "\"Failure\"", JSON.stringify(payload))
          assert.notInclude(text, "\"Success\"", JSON.stringify(payload))
        }
        assert.isUndefined(yield* stateOf("rpc"))
      }))
    it.effect("with addresses and headers that are none are refused, and the others go on", () =>
      Effect.gen(function*() {
        const half = yield* rpc(`${request({ payload: { tuid: "\ud800" } })}\n`)
        assert.include(half.text, "\"InvalidTuid\"")
        // headers of procedures are part of the body, and can be anything: none of it is a key
        for (const key of [7, {}, null, ["a"], true, ""]) {
          const { text } = yield* rpc(`${request({ headers: [["idempotency-key", key]] })}\n`)
          assert.include(text, "\"InvalidOption\"", JSON.stringify(key))
        }
        for (
          const headers of [null, 5, "x", [[1]], [["authorization", {}]], JSON.parse("{\"__proto__\":\"x\"}"), [[]], {}]
        ) {
          yield* rpc(`${request({ headers })}\n`)
        }
        const { text } = yield* rpc(`${request({})}\n`)
        assert.include(text, "\"Success\"")
      }))
    it.effect("in what is no request at all end nothing but themselves", () =>
      Effect.gen(function*() {
        const bodies = [
          "",
          "{",
          "null\n",
          "[]\n",
          "1\n",
          "{}\n",
          request({ id: {} }),
          "{\"_tag\":\"Ack\",\"requestId\":\"9\"}\n",
          "\u0000\n"
        ]
        for (const body of bodies) yield* rpc(body)
        const { text } = yield* rpc(`${request({})}\n`)
        assert.include(text, "\"Success\"")
      }))
  })

  it.effect("have seen nothing of the inside, and broken nothing", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* Lines).filter((line) => line.includes("went wrong")), [])
    }))
})

/** The document that describes the endpoints is one, and says what they answer. */
import { assert, describe, layer } from "@effect/vitest"
import { Validator } from "@seriousme/openapi-schema-validator"
import { Effect } from "effect"
import { post } from "./asking.ts"
import { served } from "./support.ts"

layer(served(), { excludeTestServices: true, timeout: 60_000 })("the OpenAPI document", (it) => {
  describe("of servers behind HTTP", () => {
    it.effect("is valid", () =>
      Effect.gen(function*() {
        const { body } = yield* post("/openapi.json", { method: "GET" })
        const { errors, valid } = yield* Effect.promise(() => new Validator().validate(body))
        assert.isTrue(valid, JSON.stringify(errors))
      }))
    it.effect("has the messages that are shown, with their statuses, and no other", () =>
      Effect.gen(function*() {
        const { body } = yield* post("/openapi.json", { method: "GET" })
        const desks = Object.keys(body.paths).filter((path) => path.startsWith("/desks/"))
        const shown = ["put", "notes", "draw", "freeze", "say", "crash", "lie", "stop", "wait", "wipe"]
        assert.deepStrictEqual(desks, shown.map((tag) => `/desks/${tag}/{tuid}`))
        const statuses = (path: string) => Object.keys(body.paths[path].post.responses)
        assert.deepStrictEqual(statuses("/desks/put/{tuid}"), ["202", "400", "401", "408", "413", "429", "500", "503"])
        assert.deepStrictEqual(statuses("/desks/freeze/{tuid}").slice(0, 2), ["204", "400"])
        const { post: draw } = body.paths["/desks/draw/{tuid}"]
        const all = ["200", "400", "401", "402", "408", "409", "410", "413", "422", "423", "429", "500", "503", "504"]
        assert.deepStrictEqual(Object.keys(draw.responses), all)
        assert.property(draw.responses["429"].headers, "Retry-After")
        assert.include(draw.responses["400"].description, "The payload does not fit its schema.")
        assert.deepStrictEqual(draw.security, [{ bearer: [] }])
        assert.deepStrictEqual(draw.parameters.map((each: { readonly name: string }) => each.name), [
          "tuid",
          "idempotency-key"
        ])
        assert.deepStrictEqual(draw.requestBody.content["application/json"].schema.required, ["amount"])
      }))
    it.effect("asks for no key where none is read", () =>
      Effect.gen(function*() {
        const { body } = yield* post("/openapi.json", { method: "GET" })
        const { parameters, security } = body.paths["/quick/say/{tuid}"].post
        assert.deepStrictEqual([parameters.map((each: { readonly name: string }) => each.name), security], [
          ["tuid"],
          []
        ])
      }))
  })
})

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
        const paths = Object.keys(body.paths)
        console.log(
          paths,
          JSON.stringify(body.paths["/desks/draw/{tuid}"], null, 1),
          Object.keys(body.components.schemas),
          body.components.securitySchemes
        )
      }))
  })
})

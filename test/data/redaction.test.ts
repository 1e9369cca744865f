/** What a schema redacts is hidden wherever plain data of it is shown, and in what is said of it. */
import { assert, describe, it } from "@effect/vitest"
import { Redacted, Result, Schema, SchemaGetter } from "effect"
import * as util from "node:util"
import { checkerOf, codecOf } from "../../src/internal/data/codec.ts"
import { hiderOf } from "../../src/internal/data/redaction.ts"

const SECRET = "4111-1111"

class Card extends Schema.Class<Card>("Card")({ number: Schema.Redacted(Schema.String), name: Schema.String }) {}

interface Tree {
  readonly key: Redacted.Redacted<string>
  readonly within: ReadonlyArray<Tree>
}
const Tree: Schema.Codec<Tree, any> = Schema.Struct({
  key: Schema.Redacted(Schema.String),
  within: Schema.Array(Schema.suspend((): Schema.Codec<Tree, any> => Tree))
})

const secret = Redacted.make(SECRET)

/** Schemas, with a value that holds the secret, and what stays to be seen. */
const schemas: Readonly<Record<string, readonly [Schema.Codec<any, any>, unknown, string]>> = {
  "the whole": [Schema.Redacted(Schema.String), secret, "redacted"],
  "from a value": [Schema.RedactedFromValue(Schema.String), secret, "redacted"],
  "a field": [Schema.Struct({ card: Schema.Redacted(Schema.String), name: Schema.String }), {
    card: secret,
    name: "Ada"
  }, "Ada"],
  "an item of a list": [Schema.Array(Schema.Redacted(Schema.String)), [secret, secret], "redacted"],
  "a part of a tuple": [Schema.Tuple([Schema.String, Schema.Redacted(Schema.String)]), ["Ada", secret], "Ada"],
  "a value of a record": [Schema.Record(Schema.String, Schema.Redacted(Schema.String)), { Ada: secret }, "Ada"],
  "a member of a union": [Schema.Union([Schema.Int, Schema.Redacted(Schema.String)]), secret, "redacted"],
  "an optional field": [Schema.Struct({ card: Schema.optionalKey(Schema.Redacted(Schema.String)) }), {
    card: secret
  }, "card"],
  "a field of a class": [Card, new Card({ number: secret, name: "Ada" }), "Ada"],
  "within a tree": [Tree, { key: secret, within: [{ key: secret, within: [] }] }, "within"]
}

const printed = (value: unknown) => util.inspect(value, { depth: 20 }) + JSON.stringify(value) + String(value)

describe("what a schema redacts", () => {
  for (const [where, [schema, value, seen]] of Object.entries(schemas)) {
    it(`is hidden in plain data, and everything else is seen: ${where}`, () => {
      const data = Result.getOrThrow(codecOf(schema).encode(value))
      assert.include(printed(data), SECRET)
      const shown = printed(hiderOf(schema)!(data))
      assert.notInclude(shown, SECRET)
      assert.include(shown, seen)
    })
    it(`is hidden in data that does not fit: ${where}`, () => {
      for (const data of [SECRET, [SECRET], { card: { deep: SECRET } }, { number: [SECRET] }, { Ada: [SECRET] }]) {
        assert.notInclude(JSON.stringify(codecOf(schema).decode(data)), SECRET)
      }
    })
  }
  it("is nothing where nothing is redacted", () => {
    assert.isUndefined(hiderOf(Schema.Struct({ a: Schema.String, b: Schema.Array(Schema.Date) })))
  })

  const telling = Schema.String.check(
    Schema.makeFilter((text: string) => text.length > 100 || `too short: ${text}`)
  )
  const throwing = Schema.String.pipe(Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform((text: string) => {
      throw new Error(`cannot read ${text}`)
    }),
    encode: SchemaGetter.transform((text: string) => {
      throw new Error(`cannot write ${text}`)
    })
  }))
  for (
    const [what, inner] of [["a check that tells the value", telling], ["a step that throws it", throwing]] as const
  ) {
    it(`is hidden in what is said of it: ${what}`, () => {
      const schema = Schema.Struct({ card: Schema.Redacted(inner), n: Schema.Int })
      for (
        const result of [
          codecOf(schema).decode({ card: SECRET, n: 1 }),
          codecOf(schema).encode({ card: secret, n: 1 }),
          checkerOf(schema)({ card: secret, n: 1 })
        ]
      ) {
        assert.notInclude(JSON.stringify(result), SECRET)
      }
      const other = codecOf(schema).decode({ card: "x".repeat(200), n: "none" })
      if (what.includes("check")) assert.include(JSON.stringify(other), "Expected number")
    })
  }
})

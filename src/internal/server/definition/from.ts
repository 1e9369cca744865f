/** Who waits for an answer, as a value that a state can keep. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Tuple from "../../../Tuple.ts"
import type * as Model from "./model.ts"

const unpack = (bytes: Uint8Array) => {
  try {
    return Effect.succeed(Tuple.unpack(bytes))
  } catch {
    return Effect.fail(new SchemaIssue.InvalidValue({ message: "must be a packed tuple" }))
  }
}

const Tuid = Schema.Uint8Array.pipe(
  Schema.decodeTo(Schema.declare((value): value is Tuple.Tuple => Array.isArray(value)), {
    decode: SchemaGetter.transformEffect(unpack),
    encode: SchemaGetter.transform((tuple: Tuple.Tuple) => Tuple.pack(tuple))
  })
)

/** The schema of a caller: kept whole, wherever in a state it is. */
export const From: Schema.Codec<Model.From, unknown, never, never> = Schema.Struct({
  server: Schema.String,
  tag: Schema.String,
  tuid: Tuid,
  process: Schema.Uint8Array,
  id: Schema.Int,
  millis: Schema.Int,
  key: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String)
})

/** Annotated schemas keep their types. */
import { type Effect, Schema } from "effect"
import { StateCodec, type Transaction } from "effect-dgen"
import { expect, it } from "tstyche"

class Point extends Schema.Class<Point>("Point")({ x: Schema.Finite }) {}
const Item = Schema.Struct({ id: Schema.String, point: Point })

it("an annotated schema has the type that it had", () => {
  const State = Schema.Struct({
    point: StateCodec.term(Point),
    optional: Schema.optionalKey(StateCodec.term(Item)),
    items: StateCodec.components(Schema.Array(StateCodec.assigns(Item)))
  })
  expect<typeof State.Type>().type.toBe<{
    readonly point: Point
    readonly optional?: { readonly id: string; readonly point: Point }
    readonly items: ReadonlyArray<{ readonly id: string; readonly point: Point }>
  }>()
  expect(StateCodec.term(Item).fields).type.toBe<typeof Item.fields>()
})

it("a codec reads and writes what its schema decodes to", () => {
  const codec = StateCodec.make(Item)
  expect(codec).type.toBe<StateCodec.StateCodec<{ readonly id: string; readonly point: Point }>>()
  expect(codec.read(new Uint8Array())).type.toBe<
    Effect.Effect<StateCodec.Stored<typeof Item.Type> | undefined, StateCodec.StateError, Transaction.Transaction>
  >()
})

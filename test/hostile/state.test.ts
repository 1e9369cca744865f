/** States whose rows were changed, taken away or multiplied: refused, or a value that is written and read again as it is. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { StateCodec, Transaction, Tuple } from "effect-dgen"
import { packValue } from "../../src/internal/data/codec.ts"
import type { SeededRandom } from "../../src/internal/simulation/random.ts"
import { testLayer, within } from "../state/support.ts"
import { changed, plain, randomOf, seed } from "./bytes.ts"

const RUNS = 3_000
const LIMIT_MILLIS = 60_000

const Entry = Schema.Union([
  Schema.Struct({ id: Schema.String, _tag: Schema.Literal("a"), n: Schema.Int }),
  Schema.Struct({ id: Schema.String, _tag: Schema.Literal("b"), at: Schema.Date })
])

const State = Schema.Struct({
  list: Schema.Array(Entry),
  byName: Schema.Record(
    Schema.String,
    StateCodec.assigns(Schema.Struct({ text: Schema.String, data: Schema.Uint8Array }))
  ),
  nested: Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String })), json: Schema.Json }),
  note: Schema.optionalKey(Schema.String)
})

const codec = StateCodec.make(State)

const good: (typeof State)["Type"] = {
  list: [{ id: "1", _tag: "a", n: 1 }, { id: "2", _tag: "b", at: new Date(0) }],
  byName: { x: { text: "long", data: Uint8Array.of(1, 2) }, toString: { text: "", data: new Uint8Array(0) } },
  nested: { items: [{ id: "a" }, { id: "b" }], json: { a: [1, null] } },
  note: "n"
}

interface Row {
  readonly key: Uint8Array
  readonly value: Uint8Array
}

const rowsBelow = (prefix: Uint8Array) =>
  Effect.flatMap(Transaction.Transaction, (state) => {
    const { begin, end } = Tuple.range([], prefix)
    return Effect.map(
      state.getRange(begin, end),
      (rows) => rows.map(({ key, value }): Row => ({ key: key.subarray(prefix.length), value }))
    )
  })

const replace = (prefix: Uint8Array, rows: ReadonlyArray<Row>) =>
  Effect.map(Transaction.Transaction, (state) => {
    const { begin, end } = Tuple.range([], prefix)
    state.clearRange(begin, end)
    for (const { key, value } of rows) state.set(new Uint8Array(Buffer.concat([prefix, key])), value)
  })

const hostile = (random: SeededRandom, rows: ReadonlyArray<Row>): ReadonlyArray<Row> => {
  const out = [...rows]
  for (let left = random.between(1, 3); left > 0; left--) {
    const at = random.between(0, out.length - 1)
    const row = out[at]
    if (row === undefined) break
    switch (random.between(0, 4)) {
      case 0:
        out.splice(at, 1)
        break
      case 1:
        out[at] = { key: row.key, value: changed(random, row.value) }
        break
      case 2:
        out[at] = { key: row.key, value: packValue(plain(random)) }
        break
      case 3:
        out[at] = { key: changed(random, row.key), value: row.value }
        break
      case 4:
        out.push({ key: changed(random, row.key), value: out[random.between(0, out.length - 1)]!.value })
    }
  }
  return out
}

describe("hostile rows of a state", () => {
  it.effect(`are a state or none (seed ${seed})`, () =>
    Effect.gen(function*() {
      const random = randomOf(8)
      yield* within((prefix) => codec.write(prefix, undefined, good))
      const rows = yield* within(rowsBelow)
      let accepted = 0
      for (let run = 0; run < RUNS; run++) {
        const changedRows = hostile(random, rows)
        const shown = () =>
          `run ${run}: ${
            changedRows.map(({ key, value }) =>
              `${Buffer.from(key).toString("hex")}=${Buffer.from(value).toString("hex")}`
            ).join(" ")
          }`
        const read = yield* Effect.result(
          within((prefix) => Effect.andThen(replace(prefix, changedRows), codec.read(prefix)))
        )
        if (Result.isFailure(read)) {
          assert.strictEqual(read.failure._tag, "StateError", shown())
          continue
        }
        if (read.success === undefined) continue
        accepted++
        const { value } = read.success
        const again = yield* within((prefix) =>
          Effect.andThen(codec.write(prefix, undefined, value), codec.read(prefix))
        )
        assert.deepStrictEqual(again!.value, value, shown())
      }
      assert.isAbove(accepted, 0)
    }).pipe(Effect.provide(testLayer)), LIMIT_MILLIS)
})

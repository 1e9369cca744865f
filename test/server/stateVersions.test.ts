import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { DgenServer, MemoryBackend, SqliteBackend } from "effect-dgen"
import { StateSamples } from "effect-dgen/testing"
import * as fs from "node:fs"
import * as path from "node:path"
import { stateVersionsSuite, toV2, toV3, V1, V2, V3 } from "../suites/server/stateVersions.ts"
import { temporaryFolder } from "../support/temporary.ts"

stateVersionsSuite("MemoryBackend", MemoryBackend.layer)
stateVersionsSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "versions.db") }))

const folder = path.join(import.meta.dirname, "../fixtures/cart")
const messages = { Look: DgenServer.cast() }

class One extends DgenServer.Service<One>()("Cart", { state: V1, messages }) {}
class Three extends DgenServer.Service<Three>()("Cart", {
  state: DgenServer.versions(V1).to(V2, toV2).to(V3, toV3),
  messages
}) {}

describe("samples of states", () => {
  it.effect("of three versions are read by today's definition", () =>
    Effect.gen(function*() {
      const samples = yield* StateSamples.check(Three, { folder })
      assert.deepStrictEqual(samples.map(({ state, version }) => [version, state]), [
        [1, { items: { ink: 1, pen: 1 }, total: 2, owner: null }],
        [2, { items: { ink: 1, pen: 2 }, total: 3, owner: null }],
        [3, { items: { ink: 1, pen: 2 }, total: 3, owner: "ada" }]
      ])
    }))

  it.effect("are written by the newest version, and read back", () =>
    Effect.gen(function*() {
      const own = temporaryFolder()
      const state = { items: { "é/\u0000": 1 }, total: 1, owner: null }
      const file = yield* StateSamples.write(Three, { folder: own, state })
      assert.strictEqual(path.basename(file), "version-3.json")
      const missing = yield* Effect.flip(StateSamples.check(Three, { folder: own }))
      assert.include(missing.message, "no sample of version 1")
      yield* StateSamples.write(One, { folder: own, state: { lines: [] } })
      fs.copyFileSync(path.join(folder, "version-2.json"), path.join(own, "version-2.json"))
      const samples = yield* StateSamples.check(Three, { folder: own })
      assert.deepStrictEqual(samples.at(-1)?.state, state)
    }))

  it.effect("that cannot be read are named", () =>
    Effect.gen(function*() {
      const own = temporaryFolder()
      class Narrow extends DgenServer.Service<Narrow>()("Cart", {
        state: Schema.Struct({ lines: Schema.Array(Schema.Int) }),
        messages
      }) {}
      fs.copyFileSync(path.join(folder, "version-1.json"), path.join(own, "version-1.json"))
      const error = yield* Effect.flip(StateSamples.check(Narrow, { folder: own }))
      assert.strictEqual(error._tag, "SampleError")
      assert.include(error.message, "version-1.json")
      fs.writeFileSync(path.join(own, "version-1.json"), "{")
      assert.include((yield* Effect.flip(StateSamples.check(Narrow, { folder: own }))).message, "version-1.json")
      yield* Effect.flip(StateSamples.write(Narrow, { folder: own, state: { lines: ["ink"] } }))
    }))
})

/** The page's files, as they are built and sent. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Assets from "../../src/internal/dashboard/assets.ts"

const LIMIT_BYTES = 200_000

describe("the page of the dashboard", () => {
  it.effect("is under 200 kB compressed, with all that it needs", () =>
    Effect.gen(function*() {
      const assets = Object.entries(yield* Assets.load)
      const bytes = assets.reduce((sum, [, { compressed }]) => sum + compressed.length, 0)
      assert.isAbove(bytes, 10_000)
      assert.isBelow(bytes, LIMIT_BYTES)
    }))

  it.effect("names nothing that is elsewhere", () =>
    Effect.gen(function*() {
      for (const [name, { bytes }] of Object.entries(yield* Assets.load)) {
        const text = Buffer.from(bytes).toString()
        // names of formats of XML, which nobody fetches, and licences
        const addresses = text.match(/(?:https?:)?\/\/[\w-]+\.[\w.]+\S{0,40}/g) ?? []
        const foreign = addresses.filter((address) => !/\/\/(www\.w3\.org|github\.com\/leeoniya)/.test(address))
        assert.deepStrictEqual(foreign, [], name)
        assert.notMatch(text, /@import|url\((?!["']?data:)/, name)
      }
    }))
})

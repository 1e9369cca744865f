import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Backend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { vi } from "vitest"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { ReadCache } from "../../src/internal/sqlite/readCache.ts"
import { bytes, clear, get, outcome, put, range, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"

const folder = temporaryFolder()

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)

const withFile = <A, E>(
  name: string,
  use: (backend: Backend.Backend["Service"], other: DatabaseSync) => Effect.Effect<A, E>
) =>
  Effect.scoped(Effect.gen(function*() {
    const filename = path.join(folder, name)
    const context = yield* Layer.build(SqliteBackend.layer({ filename }))
    const other = new DatabaseSync(filename, { timeout: 1_000 })
    other.exec("PRAGMA synchronous = OFF")
    yield* Effect.addFinalizer(() => Effect.sync(() => other.close()))
    return yield* use(Context.get(context, Backend.Backend), other)
  }))

/** A commit of another process, by SQL. */
const foreign = (other: DatabaseSync, key: string, value: string | undefined): void => {
  other.exec("BEGIN IMMEDIATE")
  if (value === undefined) other.prepare("DELETE FROM kv WHERE k = ?").run(bytes(key))
  else other.prepare("REPLACE INTO kv VALUES (?, ?)").run(bytes(key), bytes(value))
  other.exec("UPDATE meta SET value = value + 1 WHERE name = 'version'")
  other.exec("COMMIT")
}

const value = (text: string): Uint8Array => bytes(text)

describe("ReadCache", () => {
  it("knows what was read once a look has confirmed it", () => {
    const cache = new ReadCache()
    cache.read("a", value("1"))
    cache.read("b", undefined)
    cache.readRange("m", "p", 0)
    cache.readRange("q", "s", 2)
    assert.isTrue(cache.unconfirmed)
    assert.isFalse(cache.has("a") || cache.has("b") || cache.isEmpty("m", "p"))
    cache.confirm()
    assert.isFalse(cache.unconfirmed)
    assert.deepStrictEqual([cache.has("a"), cache.get("a")], [true, value("1")])
    assert.deepStrictEqual([cache.has("b"), cache.get("b")], [true, undefined])
    assert.isFalse(cache.has("c"))
    assert.isTrue(cache.isEmpty("m", "p") && cache.isEmpty("n", "o"))
    assert.isFalse(cache.isEmpty("l", "n") || cache.isEmpty("o", "p\0") || cache.isEmpty("q", "s"))
  })

  it("takes over what this process writes, and drops older reads that are not confirmed", () => {
    const cache = new ReadCache()
    cache.read("a", value("1"))
    cache.readRange("m", "p", 0)
    cache.confirm()
    cache.read("b", value("old"))
    cache.readRange("r", "t", 0)
    cache.wrote({
      writes: new Map([["a", value("2")], ["b", value("new")], ["n", undefined], ["s", value("1")]]),
      clears: []
    })
    cache.confirm()
    assert.deepStrictEqual(cache.get("a"), value("2"))
    assert.deepStrictEqual(cache.get("b"), value("new"))
    assert.isFalse(cache.has("n") || cache.isEmpty("r", "t"))
    assert.isTrue(cache.isEmpty("m", "p"))
    cache.wrote({ writes: new Map([["p", value("1")]]), clears: [] })
    assert.isTrue(cache.isEmpty("m", "p"))
    cache.wrote({ writes: new Map([["a", undefined], ["m", value("1")]]), clears: [] })
    assert.deepStrictEqual([cache.has("a"), cache.get("a")], [true, undefined])
    assert.isFalse(cache.isEmpty("m", "p") || cache.isEmpty("n", "o"))
    cache.wrote({ writes: new Map([["a", new Uint8Array(100_000)]]), clears: [] })
    assert.isFalse(cache.has("a"))
  })

  it("keeps a bounded number of short values, those in use before all others", () => {
    const cache = new ReadCache()
    cache.read("hot", value("1"))
    cache.confirm()
    for (let i = 0; i < 10_000; i++) {
      cache.read(`k${i}`, value("x"))
      cache.readRange(`r${i}`, `r${i}\0`, 0)
      cache.confirm()
      assert.isTrue(cache.has("hot"))
      cache.get("hot")
    }
    let kept = 0
    for (let i = 0; i < 10_000; i++) kept += Number(cache.has(`k${i}`)) + Number(cache.isEmpty(`r${i}`, `r${i}\0`))
    assert.isBelow(kept, 4_000)
    cache.read("piece", new Uint8Array(100_000).subarray(10, 200))
    cache.confirm()
    assert.strictEqual(cache.get("piece")!.buffer.byteLength, 190)
    cache.read("long", new Uint8Array(100_000))
    assert.isTrue(cache.unconfirmed)
    cache.confirm()
    assert.isFalse(cache.has("long"))
  })
})

describe("SqliteBackend's reads", () => {
  it.live("ask the file again only for what may have changed", () =>
    withFile("again.db", (backend, other) =>
      Effect.gen(function*() {
        yield* write(backend, put("a", "1"))
        const reads = vi.spyOn(SqliteFile.prototype, "get")
        const ranges = vi.spyOn(SqliteFile.prototype, "range")
        const look = within(backend, (driver) => Effect.all([get(driver, "a"), range(driver, "m", "p", 1)]))
        const queries = () => {
          const counts = [reads.mock.calls.length, ranges.mock.calls.length]
          reads.mockClear()
          ranges.mockClear()
          return counts
        }
        assert.deepStrictEqual(yield* look, ["1", []])
        // what this process wrote it knows
        assert.deepStrictEqual(queries(), [0, 1])
        assert.deepStrictEqual(yield* look, ["1", []])
        assert.deepStrictEqual(queries(), [0, 0])
        yield* write(backend, put("a", "2"))
        assert.deepStrictEqual(yield* look, ["2", []])
        assert.deepStrictEqual(queries(), [0, 0])
        foreign(other, "n", "1")
        assert.deepStrictEqual(yield* look, ["2", [["n", "1"]]])
        assert.deepStrictEqual(queries().map((count) => count > 0), [true, true])
        vi.restoreAllMocks()
      })))

  it.live(`agree with the file, whoever writes it (seed ${seed})`, () =>
    withFile("random.db", (backend, other) =>
      Effect.gen(function*() {
        let state = seed
        const random = (limit: number): number => {
          state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
          return (state >>> 8) % limit
        }
        const key = () => String.fromCharCode(97 + random(8))
        const now = new Map<string, string>()
        for (let step = 0; step < 600; step++) {
          const one = key()
          const what = random(8)
          if (what < 2) {
            const text = random(2) === 0 ? undefined : String(step)
            if (what === 0) yield* write(backend, text === undefined ? clear(one) : put(one, text))
            else foreign(other, one, text)
            if (text === undefined) now.delete(one)
            else now.set(one, text)
            continue
          }
          const end = key()
          const expected = [...now].filter(([k]) => one <= k && k < end).sort(([a], [b]) => a < b ? -1 : 1)
          const limit = 1 + random(3)
          const seen = yield* within(backend, (driver) =>
            Effect.gen(function*() {
              return [yield* range(driver, one, end, limit), yield* get(driver, one), yield* get(driver, end)]
            }))
          assert.deepStrictEqual(seen, [expected.slice(0, limit), now.get(one), now.get(end)])
        }
      })))

  it.live("a flush that failed leaves nothing behind", () =>
    withFile("failed.db", (backend) =>
      Effect.gen(function*() {
        yield* write(backend, put("a", "1"))
        const look = within(backend, (driver) => Effect.all([get(driver, "a"), range(driver, "m", "p")]))
        yield* look
        vi.spyOn(SqliteFile.prototype, "setVersion").mockImplementationOnce(() => {
          throw Object.assign(new Error("full"), { code: "ERR_SQLITE_ERROR", errcode: 13 })
        })
        assert.strictEqual(yield* outcome(write(backend, put("a", "2"), put("n", "1"))), "DiskFull")
        vi.restoreAllMocks()
        assert.deepStrictEqual(yield* look, ["1", []])
      })))
})

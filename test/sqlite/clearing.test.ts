/** Ranges that are cleared in a file at once and deleted later, and what a process learns of the commits of others. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import type { Backend } from "effect-dgen"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { vi } from "vitest"
import { SeededRandom } from "../../src/internal/simulation/random.ts"
import * as ChangeLog from "../../src/internal/sqlite/changeLog.ts"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { changesOf } from "../../src/internal/stores/changes.ts"
import { bytes, commit, put, range, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { nameOf, withBackend } from "./support.ts"

const folder = temporaryFolder()

/** More than are deleted with the commit that clears them. */
const ROWS = 800

const inTransaction = (file: SqliteFile, run: () => void) => {
  file.execute("BEGIN IMMEDIATE")
  const version = file.version()
  run()
  file.setVersion(version + 1)
  file.execute("COMMIT")
}

const fill = (file: SqliteFile) =>
  inTransaction(file, () => {
    for (let i = 0; i < ROWS; i++) file.write(nameOf(i), bytes("old"))
  })

const all = (file: SqliteFile) =>
  file.range("", "z", Infinity, false).map(([key, value]) => [key, Buffer.from(value).toString()])

describe("cleared ranges of a file", () => {
  it("reads are those of a map, whatever was cleared, written and swept in between", () => {
    for (let seed = 1; seed <= 6; seed++) {
      const random = new SeededRandom(seed)
      const file = SqliteFile.open(path.join(folder, `model${seed}.db`))
      const model = new Map<string, string>()
      const some = () => nameOf(random.between(0, ROWS - 1))
      for (let step = 0; step < 60; step++) {
        inTransaction(file, () => {
          const what = random.between(0, 5)
          if (what === 0) {
            for (let i = 0; i < ROWS; i++) {
              file.write(nameOf(i), bytes(`${step}`))
              model.set(nameOf(i), `${step}`)
            }
          } else if (what <= 2) {
            const [begin, end] = [some(), some()].sort() as [string, string]
            file.clear({ begin, end })
            for (const key of model.keys()) if (begin <= key && key < end) model.delete(key)
          } else if (what === 3) file.sweep(random.between(1, 100))
          else {
            for (let i = 0; i < 20; i++) {
              const key = some()
              if (random.happens(0.5)) {
                file.write(key, bytes(`${step}`))
                model.set(key, `${step}`)
              } else {
                file.write(key, undefined)
                model.delete(key)
              }
            }
          }
        })
        const expected = [...model].sort(([a], [b]) => (a < b ? -1 : 1))
        assert.deepStrictEqual(all(file), expected)
        const [begin, end] = [some(), some()].sort() as [string, string]
        const part = expected.filter(([key]) => begin <= key! && key! < end).reverse().slice(0, 7)
        assert.deepStrictEqual(file.range(begin, end, 7, true).map(([key]) => key), part.map(([key]) => key))
        const key = some()
        assert.strictEqual(file.get(key) === undefined, !model.has(key))
      }
      while (file.hasCleared) inTransaction(file, () => file.sweep(50))
      assert.deepStrictEqual(all(file), [...model].sort(([a], [b]) => (a < b ? -1 : 1)))
      file.close()
    }
  })

  it("a clear that is taken back cleared nothing", () => {
    const file = SqliteFile.open(path.join(folder, "back.db"))
    fill(file)
    file.execute("BEGIN IMMEDIATE")
    file.clear({ begin: "k", end: "l" })
    assert.deepStrictEqual(all(file), [])
    file.execute("ROLLBACK")
    assert.strictEqual(all(file).length, ROWS)
    file.close()
  })

  it.live("what one process cleared, another one deletes, and nobody sees it meanwhile", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "left.db")
      const first = SqliteFile.open(filename)
      fill(first)
      inTransaction(first, () => first.clear({ begin: "k", end: "l" }))
      inTransaction(first, () => first.write(nameOf(3), bytes("new")))
      first.close()
      const look = new DatabaseSync(filename, { readOnly: true })
      const count = () => Number(look.prepare("SELECT count(*) AS n FROM kv").get()!.n)
      assert.strictEqual(count(), ROWS)
      // a version of the library that reads dead rows must not: it finds neither its format nor a version
      assert.isAbove(Number(look.prepare("PRAGMA user_version").get()!.user_version), 1)
      assert.isBelow(Number(look.prepare("SELECT value FROM meta WHERE name = 'version'").get()!.value), 0)
      yield* withBackend(filename, (backend) =>
        Effect.gen(function*() {
          const rows = within(backend, (driver) => range(driver, "k", "l"))
          assert.deepStrictEqual(yield* rows, [[nameOf(3), "new"]])
          yield* Effect.repeat(Effect.sleep(10), { until: () => count() === 1 })
          yield* write(backend, put(nameOf(4), "newer"))
          assert.deepStrictEqual(yield* rows, [[nameOf(3), "new"], [nameOf(4), "newer"]])
        }))
      assert.strictEqual(look.prepare("PRAGMA user_version").get()!.user_version, 1)
      look.close()
    }))
})

describe("commits of others", () => {
  const WATCHES = 500

  /** Arms watches on many keys; each tells its number. */
  const watching = (backend: Backend.Backend["Service"], fired: (i: number) => void) =>
    within(backend, (driver) =>
      commit(driver, [], {
        watches: Array.from({ length: WATCHES }, (_, i) => ({
          key: bytes(nameOf(i)),
          fire: () => fired(i),
          fail: () => {},
          onCancel: undefined
        }))
      }))

  /** A commit as another process makes it; without a log as one that knows none. */
  const foreign = (file: SqliteFile, writes: ReadonlyMap<string, Uint8Array>, isLogged: boolean) => {
    file.execute("BEGIN IMMEDIATE")
    const version = file.version()
    for (const [key, value] of writes) file.write(key, value)
    if (isLogged) file.setChanges(ChangeLog.append(file.changes(), version, version + 1, changesOf(writes, [])))
    file.setVersion(version + 1)
    file.execute("COMMIT")
  }

  const cases = [
    ["of one key", new Map([[nameOf(7), bytes("x")]]), true, 30],
    [
      "of very many other keys",
      new Map([
        ...Array.from({ length: 2_000 }, (_, i) => [`other${nameOf(i)}`, bytes("x")] as const),
        [nameOf(7), bytes("x")] as const
      ]),
      true,
      30
    ],
    ["that nobody noted", new Map([[nameOf(7), bytes("x")]]), false, 2 * WATCHES]
  ] as const
  for (const [what, writes, isLogged, most] of cases) {
    it.live(`a commit ${what} wakes who watches, and ${WATCHES} watches cost at most ${most} reads`, () =>
      Effect.gen(function*() {
        const filename = path.join(folder, `foreign ${what}.db`)
        yield* withBackend(filename, (backend) =>
          Effect.gen(function*() {
            yield* write(backend, put("first", "1"))
            const other = SqliteFile.open(filename)
            const woken: Array<number> = []
            const done = Deferred.makeUnsafe<void>()
            yield* watching(backend, (i) => {
              woken.push(i)
              Deferred.doneUnsafe(done, Effect.void)
            })
            const spy = vi.spyOn(SqliteFile.prototype, "get")
            foreign(other, writes, isLogged)
            yield* Deferred.await(done)
            const reads = spy.mock.calls.length
            spy.mockRestore()
            assert.deepStrictEqual(woken, [7])
            assert.isAtMost(reads, most)
            other.close()
          }))
      }))
  }

  it("a log leads from every version in it to the last one, and from no other", () => {
    let log: Buffer = Buffer.alloc(0)
    const entries = 400
    for (let version = 1; version <= entries; version++) {
      log = ChangeLog.append(log, version, version + 1, changesOf(new Map([[nameOf(version), undefined]]), []))
    }
    const changes = ChangeLog.changesBetween(log, entries - 2, entries + 1)
    assert.strictEqual(changes?.hashes.length, 3)
    assert.isUndefined(ChangeLog.changesBetween(log, 1, entries + 1))
    assert.isUndefined(ChangeLog.changesBetween(log, entries, entries + 2))
    const gap = ChangeLog.append(log, entries + 2, entries + 3, changesOf(new Map(), []))
    assert.isUndefined(ChangeLog.changesBetween(gap, entries + 1, entries + 3))
    assert.isDefined(ChangeLog.changesBetween(gap, entries + 2, entries + 3))
    for (let cut = 0; cut < log.length; cut += 7) ChangeLog.changesBetween(log.subarray(cut), 1, entries + 1)
  })
})

/** A file that is just being made, as other processes find it, and as one finds it after its maker died. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { get, put, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { withBackend } from "./support.ts"

/** Copies a file and what lies beside it after each statement of those who use it. */
const copiesWhile = async (filename: string, use: () => Promise<unknown>): Promise<ReadonlyArray<string>> => {
  const copies: Array<string> = []
  const { exec } = DatabaseSync.prototype
  DatabaseSync.prototype.exec = function(sql) {
    exec.call(this, sql)
    const folder = temporaryFolder()
    for (const name of fs.readdirSync(path.dirname(filename))) {
      // what processes share dies with them
      if (!name.endsWith("-shm")) fs.copyFileSync(path.join(path.dirname(filename), name), path.join(folder, name))
    }
    copies.push(path.join(folder, path.basename(filename)))
  }
  try {
    await use()
  } finally {
    DatabaseSync.prototype.exec = exec
  }
  return copies
}

describe("SqliteBackend, a file that is being made", () => {
  it("is a new one or ours after each statement of its maker, who may die there", async () => {
    const filename = path.join(temporaryFolder(), "made.db")
    const open = (name: string) =>
      Effect.runPromise(withBackend(name, (backend) =>
        Effect.andThen(
          write(backend, put("a", "1")),
          within(backend, (driver) => get(driver, "a"))
        )))
    const copies = await copiesWhile(filename, () => open(filename))
    assert.isAtLeast(copies.length, 5)
    for (const copy of copies) assert.strictEqual(await open(copy), "1")
  })
})

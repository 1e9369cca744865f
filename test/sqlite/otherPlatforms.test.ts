/** Where a log may not be synced beside SQLite, it syncs each commit itself: all else is the same. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { vi } from "vitest"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"
import { allBackend } from "../suites/backend/all.ts"
import { put, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { withBackend } from "./support.ts"

const folder = temporaryFolder()

Object.defineProperty(process, "platform", { value: "darwin" })

allBackend(
  "SqliteBackend where SQLite syncs",
  SqliteBackend.layer({ filename: path.join(folder, "suite.db") })
)

describe("SqliteBackend where SQLite syncs", () => {
  it.live("needs no sync of its own", () => {
    const spies = [vi.spyOn(SqliteFile.prototype, "sync"), vi.spyOn(SqliteFile.prototype, "syncNow")]
    return Effect.map(
      withBackend(path.join(folder, "own.db"), (backend) => write(backend, put("a", "1"))),
      () => {
        for (const spy of spies) assert.strictEqual(spy.mock.calls.length, 0)
        vi.restoreAllMocks()
      }
    )
  })
})

/**
 * SQLite whose commits are durable within the turn of the event loop that writes them: for tests whose clock is set by hand,
 * and stands while anything else runs.
 */
import { vi } from "vitest"
import { Checkpointer } from "../../src/internal/sqlite/checkpointer.ts"
import { SqliteFile } from "../../src/internal/sqlite/file.ts"

/** From now on, in this file of tests, the log is synced on the thread of the commit, and copied there. */
export const syncAtOnce = (): void => {
  vi.spyOn(SqliteFile.prototype, "sync").mockImplementation(function(this: SqliteFile, done) {
    this.syncNow()
    done(null)
  })
  vi.spyOn(Checkpointer.prototype, "run").mockImplementation((_, told) => told(undefined))
}

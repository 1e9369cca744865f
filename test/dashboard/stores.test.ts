import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { dashboardSuite } from "../suites/inspect/dashboard.ts"
import { temporaryFolder } from "../support/temporary.ts"

dashboardSuite("MemoryBackend", MemoryBackend.layer)
dashboardSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "dashboard.db") }))

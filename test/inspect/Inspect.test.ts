import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { inspectSuite } from "../suites/inspect/inspect.ts"
import { temporaryFolder } from "../support/temporary.ts"

inspectSuite("MemoryBackend", MemoryBackend.layer)
inspectSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "inspect.db") }))

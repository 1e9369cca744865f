import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { checkSuite } from "../suites/inspect/check.ts"
import { temporaryFolder } from "../support/temporary.ts"

checkSuite("MemoryBackend", MemoryBackend.layer)
checkSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "check.db") }))

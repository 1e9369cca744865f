import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { durableSuite } from "../suites/durable/durable.ts"
import { temporaryFolder } from "../support/temporary.ts"

durableSuite("MemoryBackend", MemoryBackend.layer)
durableSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "durable.db") }))

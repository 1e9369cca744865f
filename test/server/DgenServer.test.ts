import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { suite } from "../suites/server/basics.ts"
import { temporaryFolder } from "../support/temporary.ts"

suite("servers on MemoryBackend", MemoryBackend.layer)
suite("servers on SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "servers.db") }))

import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { hostileSuite } from "./suites/serverHostile.ts"
import { temporaryFolder } from "./temporary.ts"

hostileSuite("servers on MemoryBackend", MemoryBackend.layer)
hostileSuite(
  "servers on SqliteBackend",
  SqliteBackend.layer({ filename: path.join(temporaryFolder(), "servers.db") })
)

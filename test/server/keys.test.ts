import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { keysSuite } from "../suites/keys/keys.ts"
import { temporaryFolder } from "../support/temporary.ts"

keysSuite("MemoryBackend", MemoryBackend.layer)
keysSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "keys.db") }))

import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { hostileBytesSuite } from "./suites/hostileBytes.ts"
import { temporaryFolder } from "./temporary.ts"

const sqlite = SqliteBackend.layer({ filename: path.join(temporaryFolder(), "bad-input.db") })

hostileBytesSuite("servers on MemoryBackend", MemoryBackend.layer)
hostileBytesSuite("servers on SqliteBackend", sqlite)

import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { timersSuite } from "../suites/timers/timers.ts"
import { temporaryFolder } from "../support/temporary.ts"

timersSuite("MemoryBackend", MemoryBackend.layer)
timersSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "timers.db") }))

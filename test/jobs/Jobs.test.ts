import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { suite } from "../suites/jobs/all.ts"
import { syncAtOnce } from "../support/near.ts"
import { temporaryFolder } from "../support/temporary.ts"

syncAtOnce()
suite("jobs on MemoryBackend", MemoryBackend.layer)
suite("jobs on SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "jobs.db") }))

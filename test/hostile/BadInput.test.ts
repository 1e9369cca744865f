import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { badArgumentsSuite, badDefinitionsSuite } from "../suites/server/badArguments.ts"
import { hostileBytesSuite } from "../suites/server/hostileBytes.ts"
import { wrongOutcomesSuite } from "../suites/server/wrongOutcomes.ts"
import { temporaryFolder } from "../support/temporary.ts"

const sqlite = SqliteBackend.layer({ filename: path.join(temporaryFolder(), "bad-input.db") })

for (const [name, backend] of [["MemoryBackend", MemoryBackend.layer], ["SqliteBackend", sqlite]] as const) {
  badArgumentsSuite(`servers on ${name}`, backend)
  hostileBytesSuite(`servers on ${name}`, backend)
  wrongOutcomesSuite(`servers on ${name}`, backend)
}

badDefinitionsSuite()

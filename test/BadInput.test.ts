import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { badArgumentsSuite, badDefinitionsSuite } from "./suites/badArguments.ts"
import { hostileBytesSuite } from "./suites/hostileBytes.ts"
import { wrongOutcomesSuite } from "./suites/wrongOutcomes.ts"
import { temporaryFolder } from "./temporary.ts"

const sqlite = SqliteBackend.layer({ filename: path.join(temporaryFolder(), "bad-input.db") })

for (const [name, backend] of [["MemoryBackend", MemoryBackend.layer], ["SqliteBackend", sqlite]] as const) {
  badArgumentsSuite(`servers on ${name}`, backend)
  hostileBytesSuite(`servers on ${name}`, backend)
  wrongOutcomesSuite(`servers on ${name}`, backend)
}

badDefinitionsSuite()

import { MemoryBackend, SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { hostedDeploysSuite } from "../suites/hosting/deploys.ts"
import { goneSuite } from "../suites/hosting/gone.ts"
import { hostedLocksSuite } from "../suites/hosting/locks.ts"
import { sharingSuite } from "../suites/hosting/sharing.ts"
import { temporaryFolder } from "../support/temporary.ts"

sharingSuite("MemoryBackend", MemoryBackend.layer)
sharingSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "hosting.db") }))
hostedLocksSuite("MemoryBackend", MemoryBackend.layer)
hostedLocksSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "locks.db") }))
goneSuite("MemoryBackend", MemoryBackend.layer)
goneSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "gone.db") }))
hostedDeploysSuite("MemoryBackend", MemoryBackend.layer)
hostedDeploysSuite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "deploys.db") }))

import { SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { suite } from "./suites/backend.ts"
import { refusalsSuite } from "./suites/backendRefusals.ts"
import { temporaryFolder } from "./temporary.ts"

const backend = SqliteBackend.layer({ filename: path.join(temporaryFolder(), "suite.db") })

suite("SqliteBackend", backend)
refusalsSuite("SqliteBackend", backend)

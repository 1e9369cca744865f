import { SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { suite } from "../suites/backend/backend.ts"
import { clearingSuite } from "../suites/backend/clearing.ts"
import { refusalsSuite } from "../suites/backend/refusals.ts"
import { temporaryFolder } from "../support/temporary.ts"

const backend = SqliteBackend.layer({ filename: path.join(temporaryFolder(), "suite.db") })

suite("SqliteBackend", backend)
refusalsSuite("SqliteBackend", backend)
clearingSuite("SqliteBackend", backend)

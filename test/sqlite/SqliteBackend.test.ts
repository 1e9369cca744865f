import { SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { allBackend } from "../suites/backend/all.ts"
import { temporaryFolder } from "../support/temporary.ts"

const backend = SqliteBackend.layer({ filename: path.join(temporaryFolder(), "suite.db") })

allBackend("SqliteBackend", backend)

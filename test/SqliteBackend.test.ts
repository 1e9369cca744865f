import { SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { suite } from "./suites/backend.ts"
import { temporaryFolder } from "./temporary.ts"

suite("SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "suite.db") }))

import { SqliteBackend } from "effect-dgen"
import * as path from "node:path"
import { allServer } from "../suites/server/all.ts"
import { temporaryFolder } from "../support/temporary.ts"

allServer("servers on SqliteBackend", SqliteBackend.layer({ filename: path.join(temporaryFolder(), "servers.db") }))

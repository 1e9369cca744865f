import { checkSuite } from "../suites/inspect/check.ts"
import { inspectSuite } from "../suites/inspect/inspect.ts"
import { layer } from "./support.ts"

inspectSuite("PostgresBackend", layer)
checkSuite("PostgresBackend", layer)

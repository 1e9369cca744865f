import { checkSuite } from "../suites/inspect/check.ts"
import { dashboardSuite } from "../suites/inspect/dashboard.ts"
import { inspectSuite } from "../suites/inspect/inspect.ts"
import { layer } from "./support.ts"

inspectSuite("PostgresBackend", layer)
checkSuite("PostgresBackend", layer)
dashboardSuite("PostgresBackend", layer)

import { inspectSuite } from "../suites/inspect/inspect.ts"
import { layer } from "./support.ts"

inspectSuite("PostgresBackend", layer)

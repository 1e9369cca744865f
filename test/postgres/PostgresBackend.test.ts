import { suite as backendSuite } from "../suites/backend/backend.ts"
import { clearingSuite } from "../suites/backend/clearing.ts"
import { layer } from "./support.ts"

backendSuite("PostgresBackend", layer)
clearingSuite("PostgresBackend", layer)

import { suite } from "../suites/jobs/all.ts"
import { layer } from "./support.ts"

suite("jobs on PostgresBackend", layer, false)

import { allBackend } from "../suites/backend/all.ts"
import { layer } from "./support.ts"

allBackend("PostgresBackend", layer)

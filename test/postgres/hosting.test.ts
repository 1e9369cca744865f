import { allHosting } from "../suites/hosting/all.ts"
import { layer } from "./support.ts"

allHosting("PostgresBackend", layer)

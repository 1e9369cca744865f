import { durableSuite } from "../suites/durable/durable.ts"
import { keysSuite } from "../suites/keys/keys.ts"
import { layer } from "./support.ts"

durableSuite("PostgresBackend", layer)
keysSuite("PostgresBackend", layer)

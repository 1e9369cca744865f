import { allServer } from "../suites/server/all.ts"
import { badArgumentsSuite } from "../suites/server/badArguments.ts"
import { suite as serverSuite } from "../suites/server/basics.ts"
import { hostileBytesSuite } from "../suites/server/hostileBytes.ts"
import { wrongOutcomesSuite } from "../suites/server/wrongOutcomes.ts"
import { layer } from "./support.ts"

const name = "servers on PostgresBackend"

serverSuite(name, layer)
allServer(name, layer)
badArgumentsSuite(name, layer)
hostileBytesSuite(name, layer)
wrongOutcomesSuite(name, layer)

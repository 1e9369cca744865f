import { allServer } from "../suites/server/all.ts"
import { badArgumentsSuite } from "../suites/server/badArguments.ts"
import { suite as serverSuite } from "../suites/server/basics.ts"
import { hostileBytesSuite } from "../suites/server/hostileBytes.ts"
import { suite as openCallsSuite } from "../suites/server/openCalls.ts"
import { wrongOutcomesSuite } from "../suites/server/wrongOutcomes.ts"
import { layer } from "./support.ts"

const name = "servers on PostgresBackend"

/** So many calls of one process wait at a time. */
const OPEN_CALLS = 20_000

serverSuite(name, layer)
allServer(name, layer)
badArgumentsSuite(name, layer)
hostileBytesSuite(name, layer)
wrongOutcomesSuite(name, layer)
openCallsSuite("open calls on PostgresBackend", layer, OPEN_CALLS)

import { onFoundationDb } from "./foundationDbSupport.ts"
import { allServer } from "./suites/allServer.ts"
import { suite as backendSuite } from "./suites/backend.ts"
import { badArgumentsSuite } from "./suites/badArguments.ts"
import { hostileBytesSuite } from "./suites/hostileBytes.ts"
import { suite as jobsSuite } from "./suites/jobs.ts"
import { suite as openCallsSuite } from "./suites/openCalls.ts"
import { suite as serverSuite } from "./suites/server.ts"
import { wrongOutcomesSuite } from "./suites/wrongOutcomes.ts"

onFoundationDb("FoundationDbBackend", (layer) => backendSuite("FoundationDbBackend", layer))
onFoundationDb(
  "open calls on FoundationDbBackend",
  (layer) => openCallsSuite("open calls on FoundationDbBackend", layer, 20_000)
)
onFoundationDb("servers on FoundationDbBackend", (layer) => {
  serverSuite("servers on FoundationDbBackend", layer)
  allServer("servers on FoundationDbBackend", layer)
  badArgumentsSuite("servers on FoundationDbBackend", layer)
  hostileBytesSuite("servers on FoundationDbBackend", layer)
  wrongOutcomesSuite("servers on FoundationDbBackend", layer)
})
onFoundationDb("jobs on FoundationDbBackend", (layer) => jobsSuite("jobs on FoundationDbBackend", layer))

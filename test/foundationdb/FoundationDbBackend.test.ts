import { allBackend } from "../suites/backend/all.ts"
import { durableSuite } from "../suites/durable/durable.ts"
import { allHosting } from "../suites/hosting/all.ts"
import { checkSuite } from "../suites/inspect/check.ts"
import { dashboardSuite } from "../suites/inspect/dashboard.ts"
import { inspectSuite } from "../suites/inspect/inspect.ts"
import { suite as jobsSuite } from "../suites/jobs/all.ts"
import { keysSuite } from "../suites/keys/keys.ts"
import { allServer } from "../suites/server/all.ts"
import { badArgumentsSuite } from "../suites/server/badArguments.ts"
import { suite as serverSuite } from "../suites/server/basics.ts"
import { hostileBytesSuite } from "../suites/server/hostileBytes.ts"
import { suite as openCallsSuite } from "../suites/server/openCalls.ts"
import { wrongOutcomesSuite } from "../suites/server/wrongOutcomes.ts"
import { onFoundationDb } from "./support.ts"

onFoundationDb("FoundationDbBackend", (layer) => allBackend("FoundationDbBackend", layer))
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
onFoundationDb("jobs on FoundationDbBackend", (layer) => jobsSuite("jobs on FoundationDbBackend", layer, false))
onFoundationDb("hosted servers on FoundationDbBackend", (layer) => allHosting("FoundationDbBackend", layer))
onFoundationDb("durable actions on FoundationDbBackend", (layer) => durableSuite("FoundationDbBackend", layer))
onFoundationDb("messages with a key on FoundationDbBackend", (layer) => keysSuite("FoundationDbBackend", layer))
onFoundationDb("looking and mending on FoundationDbBackend", (layer) => {
  inspectSuite("FoundationDbBackend", layer)
  checkSuite("FoundationDbBackend", layer)
  dashboardSuite("FoundationDbBackend", layer)
})

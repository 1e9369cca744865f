/** All suites on the driver with a client in memory, where there is no cluster. */
import { Effect, Layer } from "effect"
import { Backend } from "effect-dgen"
import { make } from "../../src/internal/foundationdb/layer.ts"
import { allBackend } from "../suites/backend/all.ts"
import { durableSuite } from "../suites/durable/durable.ts"
import { allHosting } from "../suites/hosting/all.ts"
import { suite as jobsSuite } from "../suites/jobs/all.ts"
import { keysSuite } from "../suites/keys/keys.ts"
import { allServer } from "../suites/server/all.ts"
import { badArgumentsSuite } from "../suites/server/badArguments.ts"
import { suite as serverSuite } from "../suites/server/basics.ts"
import { hostileBytesSuite } from "../suites/server/hostileBytes.ts"
import { suite as openCallsSuite } from "../suites/server/openCalls.ts"
import { wrongOutcomesSuite } from "../suites/server/wrongOutcomes.ts"
import { makeFake } from "./fake.ts"

const settings = {
  clusterFile: undefined,
  connectLimitMillis: 1_000,
  transactionLimitMillis: 1_000,
  maxWatches: 100
}

const fake = makeFake()
const layer = Layer.effect(Backend.Backend, Effect.suspend(() => make(settings, () => Promise.resolve(fake.fdb))))

allBackend("FoundationDbBackend on a client in memory", layer)
openCallsSuite("open calls on FoundationDbBackend and a client in memory", layer, 2_000)
serverSuite("servers on FoundationDbBackend and a client in memory", layer)
allServer("servers on FoundationDbBackend and a client in memory", layer)
badArgumentsSuite("servers on FoundationDbBackend and a client in memory", layer)
hostileBytesSuite("servers on FoundationDbBackend and a client in memory", layer)
wrongOutcomesSuite("servers on FoundationDbBackend and a client in memory", layer)
// a store that takes its turns: time goes on while it is asked
jobsSuite("jobs on FoundationDbBackend and a client in memory", layer, false)
keysSuite("FoundationDbBackend on a client in memory", layer)
durableSuite("FoundationDbBackend on a client in memory", layer)
allHosting("FoundationDbBackend on a client in memory", layer)

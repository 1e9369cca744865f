import { goneSuite } from "../suites/hosting/gone.ts"
import { hostedLocksSuite } from "../suites/hosting/locks.ts"
import { sharingSuite } from "../suites/hosting/sharing.ts"
import { timersSuite } from "../suites/timers/timers.ts"
import { layer } from "./support.ts"

const name = "PostgresBackend"

sharingSuite(name, layer)
hostedLocksSuite(name, layer)
goneSuite(name, layer)
timersSuite(name, layer)

/** All that hosted servers and timers must do on every backend: another backend's tests run this one function. */
import type { Store } from "../server/support.ts"
import { timersSuite } from "../timers/timers.ts"
import { hostedDeploysSuite } from "./deploys.ts"
import { goneSuite } from "./gone.ts"
import { hostedLocksSuite } from "./locks.ts"
import { sharingSuite } from "./sharing.ts"

export const allHosting = (name: string, backend: Store): void => {
  sharingSuite(name, backend)
  hostedLocksSuite(name, backend)
  goneSuite(name, backend)
  hostedDeploysSuite(name, backend)
  timersSuite(name, backend)
}

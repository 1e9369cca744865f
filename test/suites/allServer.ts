/** All that servers must do on every backend: another backend's tests run this one function. */
import { actionsSuite } from "./serverActions.ts"
import { callsSuite } from "./serverCalls.ts"
import { failuresSuite } from "./serverFailures.ts"
import { lockBoundsSuite } from "./serverLockBounds.ts"
import { lockLossesSuite } from "./serverLockLosses.ts"
import { locksSuite } from "./serverLocks.ts"
import type { Store } from "./serverSupport.ts"

export const allServer = (name: string, backend: Store): void => {
  actionsSuite(name, backend)
  callsSuite(name, backend)
  locksSuite(name, backend)
  lockBoundsSuite(name, backend)
  lockLossesSuite(name, backend)
  failuresSuite(name, backend)
}

/** All that servers must do on every backend: another backend's tests run this one function. */
import { queueSuite } from "./durableQueue.ts"
import { actionsSuite } from "./serverActions.ts"
import { callsSuite } from "./serverCalls.ts"
import { changesSuite } from "./serverChanges.ts"
import { deadLettersSuite } from "./serverDeadLetters.ts"
import { failuresSuite } from "./serverFailures.ts"
import { hostileSuite } from "./serverHostile.ts"
import { lifeSuite } from "./serverLife.ts"
import { lockBoundsSuite } from "./serverLockBounds.ts"
import { lockLossesSuite } from "./serverLockLosses.ts"
import { locksSuite } from "./serverLocks.ts"
import { optionsSuite } from "./serverOptions.ts"
import { orderSuite } from "./serverOrder.ts"
import { puritySuite } from "./serverPurity.ts"
import { stateSuite } from "./serverState.ts"
import { storesSuite } from "./serverStores.ts"
import type { Store } from "./serverSupport.ts"
import { takeBackSuite } from "./serverTakeBack.ts"

export const allServer = (name: string, backend: Store): void => {
  actionsSuite(name, backend)
  callsSuite(name, backend)
  locksSuite(name, backend)
  lockBoundsSuite(name, backend)
  lockLossesSuite(name, backend)
  failuresSuite(name, backend)
  deadLettersSuite(name, backend)
  puritySuite(name, backend)
  optionsSuite(name, backend)
  lifeSuite(name, backend)
  stateSuite(name, backend)
  orderSuite(name, backend)
  takeBackSuite(name, backend)
  changesSuite(name, backend)
  hostileSuite(name, backend)
  storesSuite(name, backend)
  queueSuite(name, backend)
}

/** All that servers must do on every backend: another backend's tests run this one function. */
import { actionsSuite } from "./actions.ts"
import { callsSuite } from "./calls.ts"
import { changesSuite } from "./changes.ts"
import { closingSuite } from "./closing.ts"
import { deadLettersSuite } from "./deadLetters.ts"
import { excessSuite } from "./excess.ts"
import { failuresSuite } from "./failures.ts"
import { fullQueuesSuite } from "./fullQueues.ts"
import { hostileSuite } from "./hostile.ts"
import { hostileErrorsSuite } from "./hostileErrors.ts"
import { lifeSuite } from "./life.ts"
import { lockBoundsSuite } from "./lockBounds.ts"
import { lockCrashesSuite } from "./lockCrashes.ts"
import { lockLossesSuite } from "./lockLosses.ts"
import { locksSuite } from "./locks.ts"
import { optionsSuite } from "./options.ts"
import { orderSuite } from "./order.ts"
import { ownCallsSuite } from "./ownCalls.ts"
import { puritySuite } from "./purity.ts"
import { queueSuite } from "./queue.ts"
import { secretsSuite } from "./secrets.ts"
import { stateSuite } from "./state.ts"
import { storesSuite } from "./stores.ts"
import type { Store } from "./support.ts"
import { takeBackSuite } from "./takeBack.ts"
import { throwingObserversSuite } from "./throwingObservers.ts"
import { turnsSuite } from "./turns.ts"
import { versionsSuite } from "./versions.ts"

export const allServer = (name: string, backend: Store): void => {
  actionsSuite(name, backend)
  callsSuite(name, backend)
  locksSuite(name, backend)
  lockBoundsSuite(name, backend)
  lockLossesSuite(name, backend)
  lockCrashesSuite(name, backend)
  closingSuite(name, backend)
  fullQueuesSuite(name, backend)
  ownCallsSuite(name, backend)
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
  hostileErrorsSuite(name, backend)
  throwingObserversSuite(name, backend)
  secretsSuite(name, backend)
  storesSuite(name, backend)
  queueSuite(name, backend)
  turnsSuite(name, backend)
  excessSuite(name, backend)
  versionsSuite(name, backend)
}

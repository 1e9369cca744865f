/**
 * The suites of servers, on hosted ones: each definition is made a hosted one, and each start hosts it and gives a client
 * that goes past the queue. What `start` promises and a host does not is left out by title.
 */
import { Effect, Exit, Layer, Scope } from "effect"
import { MemoryBackend } from "effect-dgen"
import { vi } from "vitest"
import { actionsSuite } from "../suites/server/actions.ts"
import { callsSuite } from "../suites/server/calls.ts"
import { changesSuite } from "../suites/server/changes.ts"
import { closingSuite } from "../suites/server/closing.ts"
import { deadLettersSuite } from "../suites/server/deadLetters.ts"
import { failuresSuite } from "../suites/server/failures.ts"
import { hostileErrorsSuite } from "../suites/server/hostileErrors.ts"
import { lockBoundsSuite } from "../suites/server/lockBounds.ts"
import { lockCrashesSuite } from "../suites/server/lockCrashes.ts"
import { lockLossesSuite } from "../suites/server/lockLosses.ts"
import { locksSuite } from "../suites/server/locks.ts"
import { orderSuite } from "../suites/server/order.ts"
import { ownCallsSuite } from "../suites/server/ownCalls.ts"
import { puritySuite } from "../suites/server/purity.ts"
import { takeBackSuite } from "../suites/server/takeBack.ts"
import { throwingObserversSuite } from "../suites/server/throwingObservers.ts"
import { turnsSuite } from "../suites/server/turns.ts"

/** What is promised of `start` alone, and why a host does otherwise, by a part of the title. */
const LEFT_OUT = [
  // a handle ends; a hosted server is evicted, and the next message loads it
  "stop their own server",
  "kill their own server",
  "all share one grace period",
  "its end stops the handle",
  "an unforeseen end of a consumer ends",
  "stop the handle when their handler does",
  // calls of clients in the process that hosts are inline, and end with the host
  "has been started again meanwhile",
  "a locked handler of a queued call",
  "by the scope that closes",
  "by stop",
  // a second consumer, or a second behaviour, of one definition in one process
  "another start sees them",
  "that are counted late",
  "may not use what is not part of their transaction",
  // a batch takes the entry away, and meets who writes it
  "shows the same order (consumeK 5",
  "pushes while a batch commits do not make it run again",
  // a host does not start without a lockTimeout
  "says so when it starts"
]

vi.mock("@effect/vitest", async (original) => {
  const vitest = await original<any>()
  const live = (title: string, ...args: ReadonlyArray<unknown>) =>
    LEFT_OUT.some((part) => title.includes(part)) ? undefined : vitest.it.live(title, ...args)
  return { ...vitest, it: Object.assign((...args: ReadonlyArray<unknown>) => vitest.it(...args), vitest.it, { live }) }
})

vi.mock("effect-dgen", async (original) => {
  const library = await original<any>()
  const Service = () => (name: string, definition: object) => {
    const Base = library.DgenServer.Service()(name, { ...definition, hosted: true })
    const { client, start } = Base
    Base.client = (which: object = { tuid: [name] }) => client(which)
    Base.start = (behaviour: unknown, options: any = {}) =>
      Effect.gen(function*() {
        const { consume, reset, tuid = [name], ...rest } = options
        if (consume === false || reset === true) return yield* start(behaviour, options)
        // the first state, which a host writes with the first message
        yield* Effect.scoped(start(behaviour, { tuid, consume: false }))
        const scope = yield* Scope.fork(yield* Scope.Scope)
        const layer = Base.hostLayer(behaviour, { ...rest, lockTimeout: rest.lockTimeout ?? "1 hour" })
        const built = yield* Effect.exit(Layer.buildWithScope(Layer.fresh(layer), scope))
        // a second consumer of one layer
        if (Exit.isFailure(built)) return yield* start(behaviour, options)
        const one: any = yield* Effect.provideContext(Base.hosted({ tuid }), built.value as any)
        return { ...one, kill: () => one.kill, stop: () => Scope.close(scope, Exit.void) }
      })
    return Base
  }
  return { ...library, DgenServer: { ...library.DgenServer, Service } }
})

for (
  const suite of [
    actionsSuite,
    callsSuite,
    changesSuite,
    closingSuite,
    deadLettersSuite,
    failuresSuite,
    hostileErrorsSuite,
    lockBoundsSuite,
    lockCrashesSuite,
    lockLossesSuite,
    locksSuite,
    orderSuite,
    ownCallsSuite,
    puritySuite,
    takeBackSuite,
    throwingObserversSuite,
    turnsSuite
  ]
) suite("hosted on MemoryBackend", MemoryBackend.layer)

/**
 * A backend in memory, for tests: the same optimistic transactions, limits, watches and errors as the durable ones,
 * and gone with its scope. Two transactions that conflict on FoundationDB conflict here, and two that do not, do not.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Backend } from "./Backend.ts"
import { BackendError, Closed } from "./BackendError.ts"
import * as Directory from "./internal/directory.ts"
import { OptimisticStore } from "./internal/optimisticStore.ts"
import { Signals } from "./internal/signals.ts"
import { SortedMap } from "./internal/sortedMap.ts"

const makeStore = (): OptimisticStore => {
  const rows = new SortedMap<Uint8Array>()
  const store: OptimisticStore = new OptimisticStore({
    base: {
      get: (key) => rows.get(key),
      range: (begin, end, limit, reverse) => rows.range(begin, end, limit, reverse),
      look: () => false
    },
    version: 0,
    shared: false,
    accepted: (commit) => {
      store.keepOlder(commit.writes.keys())
      for (const [key, value] of commit.writes) {
        if (value === undefined) rows.delete(key)
        else rows.set(key, value)
      }
      store.applied()
      commit.done(undefined)
    }
  })
  return store
}

/**
 * A store of its own for each time the layer is built.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Backend> = Layer.effect(
  Backend,
  Effect.gen(function*() {
    const store = makeStore()
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        store.closed = true
        store.failWatches(new BackendError({ reason: new Closed({ message: "the store's scope is closed" }) }))
      })
    )
    const begin = store.begin()
    return Backend.of({
      name: "memory",
      processId: globalThis.crypto.getRandomValues(new Uint8Array(16)),
      commitCanBeUnknown: false,
      begin,
      directory: Directory.make(begin),
      signals: new Signals()
    })
  })
)

/**
 * A store in memory, and backends on it. Several backends on one store are like several processes on one database:
 * each has its own process id, watches and signals are the store's and the backend's.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Backend } from "../../Backend.ts"
import * as Keys from "../data/keys.ts"
import * as Directory from "./directory.ts"
import { OptimisticStore } from "./optimisticStore.ts"
import { Signals } from "./signals.ts"
import { SortedMap } from "./sortedMap.ts"

/** An empty store. What is accepted is as durable as it gets, at once. */
export const makeStore = (): OptimisticStore => {
  const rows = new SortedMap<Uint8Array>()
  const store: OptimisticStore = new OptimisticStore({
    base: {
      get: (key) => rows.get(key),
      range: (begin, end, limit, reverse) => rows.range(begin, end, limit, reverse),
      unconfirmed: () => false,
      look: () => undefined,
      durable: () => undefined
    },
    version: 0,
    shared: false,
    accepted: (commit) => {
      store.keepOlder()
      for (const { begin, end } of commit.clears) rows.deleteRange(begin, end)
      for (const [key, value] of commit.writes) {
        if (value === undefined) rows.delete(key)
        else rows.set(key, Keys.alone(value))
      }
      store.applied()
      commit.done(undefined)
    }
  })
  return store
}

/** A backend on a store, until the scope ends. */
export const make = (store: OptimisticStore): Effect.Effect<Backend["Service"], never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(Effect.sync(() => store.open()), (session) => Effect.sync(() => session.close())),
    (session) =>
      Backend.of({
        name: "memory",
        processId: globalThis.crypto.getRandomValues(new Uint8Array(16)),
        commitCanBeUnknown: false,
        begin: session.begin,
        directory: Directory.make(session.begin),
        signals: new Signals(),
        advance: (version) => Effect.sync(() => store.advance(Number(version)))
      })
  )

/**
 * The backend of a cluster: what a layer holds, and what it shares with the others of this process.
 *
 * 1. A layer has a connection of its own, with its own settings, that is closed with its scope.
 * 2. Wake-ups are shared by all layers of a cluster, whichever file led to it: a commit through one wakes who waits in
 *    another.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Backend } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import { Signals } from "../stores/signals.ts"
import * as Directory from "./directory.ts"
import { type FdbPackage, load } from "./package.ts"
import { connect, type Settings } from "./session.ts"
import { begin } from "./transaction.ts"

/** The wake-ups of this process by the names of clusters (2). */
const clusters = new Map<string, { readonly signals: Signals; layers: number }>()

const signalsOf = (cluster: string): Effect.Effect<Signals, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const shared = clusters.get(cluster) ?? { signals: new Signals(), layers: 0 }
        shared.layers++
        clusters.set(cluster, shared)
        return shared
      }),
      (shared) => Effect.sync(() => --shared.layers === 0 && clusters.delete(cluster))
    ),
    (shared) => shared.signals
  )

/** Loads the package, connects, and gives the backend until the scope ends. */
export const make = (
  settings: Settings,
  from: () => Promise<FdbPackage>
): Effect.Effect<Backend["Service"], BackendError, Scope.Scope> =>
  Effect.gen(function*() {
    const fdb = yield* load(from)
    const { cluster, session } = yield* Effect.acquireRelease(
      connect(fdb, settings),
      (connected) => connected.session.close,
      { interruptible: true }
    )
    return Backend.of({
      name: "foundationdb",
      processId: globalThis.crypto.getRandomValues(new Uint8Array(16)),
      commitCanBeUnknown: true,
      begin: begin(session),
      directory: Directory.make(session),
      signals: yield* signalsOf(cluster)
    })
  })

/**
 * One server as this process runs it: what its parts share.
 *
 * Owner: `runtime.start` makes it and its scope ends it. The consumer fiber, inline calls and priority messages use it.
 *
 * 1. `cache` is the state as a read of the store would give it, under the version that the store had with it. It is
 *    used only where the store still has that version. Versions are unique to the try that wrote them, so an entry
 *    whose commit failed is never met again (rule R17).
 * 2. `inline` has one permit: inline calls of this process go one after another, each from the moment it reads until
 *    later ones read what it wrote.
 * 3. `stopped` is done once; from then on no message is taken and no call of this handle waits.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { DurableQueue } from "../../DurableQueue.ts"
import * as StateCodec from "../../StateCodec.ts"
import type { Tenant } from "../../Tenant.ts"
import type { Transaction } from "../../Transaction.ts"
import type * as Tuple from "../../Tuple.ts"
import * as Keys from "../keys.ts"
import type { TransactionState } from "../transactionState.ts"
import type { ServerKeys } from "./layout.ts"
import type { Behaviour, Definition, Effects, Options } from "./model.ts"

interface Cached {
  readonly version: string
  readonly state: unknown
  /** How the state is stored, see `StateCodec`. */
  readonly stored: StateCodec.Stored<unknown> | undefined
}

/** What the parts of a running server share. */
export interface Server {
  readonly definition: Definition
  readonly behaviour: Behaviour
  readonly effects: Effects
  readonly options: Options
  readonly tenant: Tenant["Service"]
  readonly tuid: Tuple.Tuple
  readonly keys: ServerKeys
  readonly queue: DurableQueue
  readonly codec: StateCodec.StateCodec<unknown>
  readonly scope: Scope.Scope
  readonly inline: Semaphore.Semaphore
  readonly stopped: Deferred.Deferred<string>
  cache: Cached | undefined
}

/** A server from its parts. */
export const make = (parts: Omit<Server, "codec" | "inline" | "stopped" | "cache" | "queue">): Server => ({
  ...parts,
  queue: { keys: parts.keys },
  codec: StateCodec.make(parts.definition.state),
  inline: Semaphore.makeUnsafe(1),
  stopped: Deferred.makeUnsafe<string>(),
  cache: undefined
})

/** Stops a server's handle, once (3). */
export const stop = (server: Server, reason: string): void => {
  Deferred.doneUnsafe(server.stopped, Exit.succeed(reason))
}

/** Whether a server's handle was stopped. */
export const isStopped = (server: Server): boolean => Deferred.isDoneUnsafe(server.stopped)

/** The state of a server within a transaction, and what it writes. */
export type Loaded = Cached

/** The state, from the cache where its version still holds; `undefined` when the server does not exist. */
export const load = (
  server: Server,
  head: Uint8Array | undefined
): Effect.Effect<Loaded | undefined, StateCodec.StateError, Transaction> => {
  if (head === undefined) return Effect.undefined
  const version = Keys.toText(head)
  const cached = server.cache
  if (server.options.cache && cached !== undefined && cached.version === version) return Effect.succeed(cached)
  return Effect.map(server.codec.read(server.keys.state), (stored) => ({ version, state: stored?.value, stored }))
}

/** Writes a changed state with a new version, and caches it when others of this process can read it (1). */
export const save = (
  server: Server,
  transaction: TransactionState,
  loaded: Loaded | undefined,
  state: unknown
): Effect.Effect<void, StateCodec.StateError, Transaction> => {
  if (loaded !== undefined && loaded.state === state) {
    transaction.onAccepted.push(() => {
      server.cache = loaded
    })
    return Effect.void
  }
  return Effect.map(server.codec.write(server.keys.state, loaded?.stored, state), (stored) => {
    transaction.set(server.keys.head, transaction.operationId)
    const version = Keys.toText(transaction.operationId)
    transaction.onAccepted.push(() => {
      server.cache = { version, state: stored.value, stored }
    })
  })
}

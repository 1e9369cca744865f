/**
 * Who of this process works on the servers of a definition first: told directly of what they have to do, with no detour
 * through the store.
 *
 * Owner: the tenant's layer. A host adds itself when it begins and takes itself away before it ends.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Tuple from "../../Tuple.ts"

/** A ring of a bell that a try of a transaction writes. */
export interface Ring {
  /** It can be seen by later transactions of this process. It may be dropped yet: then another process was faster. */
  readonly rang: () => void
  /** It stays. */
  readonly stayed: () => void
  /** The try has ended, and may still turn out to be committed where that is unknown. */
  readonly ended: () => void
}

/** A host, as those see it who give its servers something to do. */
export interface LocalHost {
  /** A try of this process is about to ring a bell: the host tells its own rings from those of other processes. */
  readonly ringing: (bell: number) => Ring
  /** A commit of this process wrote an entry for a server. Whether the host works on that server first. */
  readonly wake: (tuid: Uint8Array, entry: Uint8Array, bell: number) => boolean
  /** A call past the queue of a server; `undefined` where another host works on it first. */
  readonly call: (
    tuid: Tuple.Tuple,
    tag: string,
    payload: unknown,
    timeoutMillis: number,
    key?: string
  ) => Effect.Effect<unknown, unknown> | undefined
}

/** The hosts of one tenant layer, by definition name: there is one a definition. */
export type LocalHosts = Map<string, LocalHost>

/** The hosts of the layer that a transaction runs in. */
export const LocalHostsOf = Context.Reference<LocalHosts | undefined>("effect-dgen/tenant/LocalHosts", {
  defaultValue: () => undefined
})

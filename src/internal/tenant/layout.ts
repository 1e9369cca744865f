/**
 * Where things lie under a tenant's prefix. A user's keys and the library's lie in two subspaces that cannot meet
 * (rule R6): whatever tuple a user packs, its key begins with `USER`.
 *
 * ```
 * USER    <tuple>                            a user's keys
 * LIBRARY "p" <layer> "beat"                 a layer's sign of life, see presence.ts
 * LIBRARY "p" <layer> "slot" <n>             slots of the retry loop
 * LIBRARY "p" <layer> "answer" ... / "bell"  answers on their way to the layer, see calls.ts
 * LIBRARY "format"                           the tenant's format, where it is not 1, see format.ts
 * LIBRARY "copy"                             how far an unfinished copy into the tenant has come, see cli/copy.ts
 * LIBRARY "h" <layer>                        a host's sign of life, see server/hosting/life.ts
 * LIBRARY "d" <name> ...                     indexes of a definition's servers, see server/kept/indexes.ts
 * LIBRARY "listed"                           whether all servers stand in those indexes, see listed.ts
 * LIBRARY "s" (<tuid>) ...                   servers, see server/kept/layout.ts
 * LIBRARY "j" <type> ...                     jobs, see jobs/definition/layout.ts
 * LIBRARY "a" <name> ...                     durable actions of servers, see server/durable/chain.ts
 * ```
 */
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"

const USER = Tuple.pack([0])
const LIBRARY = Tuple.pack([1])

/** The prefix of all of a user's keys. */
export const userPrefix = (tenant: Uint8Array): Uint8Array => Keys.concat(tenant, USER)

/** The prefix of all of the library's keys. */
export const libraryPrefix = (tenant: Uint8Array): Uint8Array => Keys.concat(tenant, LIBRARY)

/** The prefix of what all processes keep in the tenant for themselves. */
export const processesPrefix = (tenant: Uint8Array): Uint8Array => Tuple.pack(["p"], libraryPrefix(tenant))

/** The prefix of what one process keeps in the tenant. */
export const processPrefix = (tenant: Uint8Array, processId: Uint8Array): Uint8Array =>
  Tuple.pack(["p", processId], libraryPrefix(tenant))

/** Where a copy into the tenant keeps how far it has come. */
export const copyKey = (tenant: Uint8Array): Uint8Array => Tuple.pack(["copy"], libraryPrefix(tenant))

/** Where the tenant's format stands. */
export const formatKey = (tenant: Uint8Array): Uint8Array => Tuple.pack(["format"], libraryPrefix(tenant))

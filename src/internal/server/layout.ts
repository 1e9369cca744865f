/**
 * Where a server lies in its tenant. The tuid is packed as one nested tuple, so that no server's prefix contains
 * another's (rule R6).
 *
 * ```
 * <library> "s" (<tuid>) "name"                        the definition's name
 *                        "head"                        version of the state: 22 bytes, unique to the commit that wrote it
 *                        "state" ...                   the state, see StateCodec
 *                        "item" <versionstamp> <chunk> queued messages
 *                        "push" / "pop"                counters of messages pushed and taken
 *                        "wait" <millis> <caller> <id> calls that wait for an answer
 * ```
 */
import * as Tuple from "../../Tuple.ts"
import { libraryPrefix } from "../layout.ts"

/** The keys of one server. */
export class ServerKeys {
  readonly prefix: Uint8Array
  readonly name: Uint8Array
  readonly head: Uint8Array
  readonly state: Uint8Array
  readonly items: Uint8Array
  readonly push: Uint8Array
  readonly pop: Uint8Array
  readonly waiting: Uint8Array

  /** Throws a `TupleError` when the tuid has an element that a key cannot hold. */
  constructor(tenantPrefix: Uint8Array, tuid: Tuple.Tuple) {
    this.prefix = Tuple.pack(["s", tuid], libraryPrefix(tenantPrefix))
    this.name = Tuple.pack(["name"], this.prefix)
    this.head = Tuple.pack(["head"], this.prefix)
    this.state = Tuple.pack(["state"], this.prefix)
    this.items = Tuple.pack(["item"], this.prefix)
    this.push = Tuple.pack(["push"], this.prefix)
    this.pop = Tuple.pack(["pop"], this.prefix)
    this.waiting = Tuple.pack(["wait"], this.prefix)
  }

  waitingKey(millis: number, caller: Uint8Array, id: number): Uint8Array {
    return Tuple.pack([millis, caller, id], this.waiting)
  }
}

/**
 * Whether every server of a tenant stands in the list of its definition: `LIBRARY "listed"` says so, or how far the pass
 * has come that enters those of an earlier version.
 *
 * 1. A layer that finds a tenant without servers and messages is its first: with what it writes first it says that the
 *    list is complete, since whoever makes servers enters them. Another tenant becomes complete when the pass has come to
 *    the end of its servers.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Tuple from "../../Tuple.ts"
import type { TransactionState } from "../transactions/state.ts"
import { libraryPrefix } from "./layout.ts"

/** What a layer knows of it: what is complete stays so. */
export interface Listed {
  /** Whether the layer opened a tenant that had nothing yet, and has written nothing since (1). */
  isFirst: boolean
  isComplete: boolean
}

export const ListedOf = Context.Reference<Listed>("effect-dgen/tenant/Listed", {
  defaultValue: () => ({ isFirst: false, isComplete: false })
})

const listedKey = (tenant: Uint8Array): Uint8Array => Tuple.pack(["listed"], libraryPrefix(tenant))

/** Where all servers lie. */
export const serversPrefix = (tenant: Uint8Array): Uint8Array => Tuple.pack(["s"], libraryPrefix(tenant))

/** How far the list has come: complete, or to a key; `undefined` where nobody has begun. */
export const read = (state: TransactionState): Effect.Effect<true | Uint8Array | undefined> =>
  Effect.map(state.get(listedKey(state.prefix)), (bytes) => {
    const [found] = bytes === undefined ? [] : Result.getOrElse(Tuple.unpackResult(bytes), (): Tuple.Tuple => [])
    return found === true || found instanceof Uint8Array ? found : undefined
  })

/** What a layer that opens a tenant knows of it. */
export const look = (state: TransactionState): Effect.Effect<Listed> =>
  Effect.flatMap(read(state), (found): Effect.Effect<Listed> => {
    if (found !== undefined) return Effect.succeed({ isFirst: false, isComplete: found === true })
    const { begin, end } = Tuple.range([], serversPrefix(state.prefix))
    return Effect.map(
      state.getRange(begin, end, { limit: 1, snapshot: true }),
      (rows) => ({ isFirst: rows.length === 0, isComplete: false })
    )
  })

/** Writes how far it has come. */
export const write = (state: TransactionState, to: true | Uint8Array): void => {
  state.set(listedKey(state.prefix), Tuple.pack([to]))
  if (to !== true) return
  const listed = Context.get(state.target.services, ListedOf)
  state.onCommit.push(() => {
    listed.isFirst = false
    listed.isComplete = true
  })
}

/** Something of a server is written: the first layer of a tenant says that the list is complete (1). */
export const begin = (state: TransactionState): void => {
  if (Context.get(state.target.services, ListedOf).isFirst) write(state, true)
}

/** Whether the list is complete. */
export const isComplete = (state: TransactionState): Effect.Effect<boolean> => {
  const listed = Context.get(state.target.services, ListedOf)
  if (listed.isComplete || listed.isFirst) return Effect.succeed(true)
  return Effect.map(look(state), (found) => {
    listed.isComplete ||= found.isComplete
    return found.isComplete || found.isFirst
  })
}

/**
 * How a state lies in the store, and what of it is read. The tag in a key says how to read what is below it, so a state
 * is read as it was written, whatever the schema says by now.
 *
 * ```
 * <prefix> 0 <n>              a term: piece n of its MessagePack
 * <prefix> 1                  assigns: there are some, perhaps without entries
 * <prefix> 1 <key> ...        an entry: any of these three
 * <prefix> 2                  components: there are some, perhaps without items
 * <prefix> 2 <id>             an item's place among the others: its order key
 * <prefix> 2 <id> ...         an item: any of these three
 * ```
 *
 * An item's place and its value lie together, so that one range holds both. Rows that this layout does not have, and
 * rows that do not fit together, are refused.
 */
import * as Result from "effect/Result"
import type { KeyValue } from "../../Backend.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { assign, unpackPlain } from "../data/plain.ts"
import { type Path, Refused } from "../data/problem.ts"
import { isOrderKey } from "./order.ts"

const TERM = 0
const ASSIGNS = 1
const COMPONENTS = 2

/** Far above what a plan nests; bytes from outside must not choose the depth of the stack. */
const DEPTH_LIMIT = 64

// --- keys ---

export const pieceKey = (prefix: Uint8Array, piece: number): Uint8Array => Tuple.pack([TERM, piece], prefix)
export const assignsKey = (prefix: Uint8Array): Uint8Array => Tuple.pack([ASSIGNS], prefix)
export const componentsKey = (prefix: Uint8Array): Uint8Array => Tuple.pack([COMPONENTS], prefix)

/** Where an entry lies; a name that no key can hold is refused. */
export const entryPrefix = (prefix: Uint8Array, name: string, path: Path): Uint8Array =>
  named(prefix, ASSIGNS, name, path)

/** Where an item lies, and the key of its place. */
export const itemPrefix = (prefix: Uint8Array, id: string, path: Path): Uint8Array =>
  named(prefix, COMPONENTS, id, path)

const named = (prefix: Uint8Array, tag: number, name: string, path: Path): Uint8Array => {
  const packed = Tuple.packResult([tag, name], prefix)
  if (Result.isFailure(packed)) throw new Refused(path, `it cannot be a key: ${packed.failure.message}`)
  return packed.success
}

/** The end of all keys that begin with a prefix that is a packed tuple. */
export const endOf = (prefix: Uint8Array): Uint8Array => Keys.concat(prefix, END)
const END = Uint8Array.of(0xff)

// --- reading ---

/** What lies below a prefix. */
export type Stored = StoredTerm | StoredAssigns | StoredComponents
export interface StoredTerm {
  readonly tag: typeof TERM
  readonly pieces: Array<Uint8Array>
  /** What the pieces say, once that was asked for. */
  plain: unknown
}
export interface StoredAssigns {
  readonly tag: typeof ASSIGNS
  head: boolean
  readonly entries: Map<string, Holder>
}
export interface StoredComponents {
  readonly tag: typeof COMPONENTS
  head: boolean
  readonly items: Map<string, StoredItem>
}

/** A place for something stored. */
export interface Holder {
  stored: Stored | undefined
}
export interface StoredItem extends Holder {
  order: string | undefined
}

/** What rows say, all below one prefix. */
export const parseRows = (rows: ReadonlyArray<KeyValue>, prefix: Uint8Array): Stored => {
  const root: Holder = { stored: undefined }
  for (const row of rows) {
    const elements = Tuple.unpackResult(row.key, prefix.length)
    if (Result.isFailure(elements)) throw new Refused([], "a key that no state has")
    place(root, elements.success, row.value)
  }
  return root.stored!
}

const place = (root: Holder, elements: ReadonlyArray<Tuple.Element>, value: Uint8Array): void => {
  const path: Array<string> = []
  let holder = root
  for (let at = 0; path.length <= DEPTH_LIMIT; at += 2) {
    const tag = elements[at]
    const stored = holder.stored ??= begin(tag, path)
    if (stored.tag !== tag) throw new Refused(path, "it is stored in two ways at once")
    const name = elements[at + 1]
    const isLast = elements.length === at + 2
    if (stored.tag === TERM) {
      if (!isLast || name !== stored.pieces.length) throw new Refused(path, "pieces of a term that do not fit together")
      stored.pieces.push(value)
      return
    }
    if (elements.length === at + 1) {
      if (value.length > 0) throw new Refused(path, "entries as a later version stores them")
      stored.head = true
      return
    }
    if (typeof name !== "string") throw new Refused(path, "a key that no state has")
    path.push(name)
    if (stored.tag === ASSIGNS) holder = inside(stored.entries, name, () => ({ stored: undefined }))
    else {
      const item = inside(stored.items, name, (): StoredItem => ({ stored: undefined, order: undefined }))
      if (isLast) {
        item.order = Keys.toText(value)
        return
      }
      holder = item
    }
    if (isLast) throw new Refused(path, "a key that no state has")
  }
  throw new Refused(path, `over ${DEPTH_LIMIT} entries inside each other`)
}

const inside = <H extends Holder>(holders: Map<string, H>, name: string, make: () => H): H => {
  let holder = holders.get(name)
  if (holder === undefined) holders.set(name, holder = make())
  return holder
}

const begin = (tag: Tuple.Element | undefined, path: Path): Stored => {
  switch (tag) {
    case TERM:
      return { tag, pieces: [], plain: undefined }
    case ASSIGNS:
      return { tag, head: false, entries: new Map() }
    case COMPONENTS:
      return { tag, head: false, items: new Map() }
    default:
      throw new Refused(path, "a key that no state has, or one of a later version")
  }
}

/** The items of stored components in their order, each with its id. */
export const itemsInOrder = (
  stored: StoredComponents,
  path: Path
): ReadonlyArray<{ readonly id: string; readonly order: string; readonly stored: Stored }> => {
  const items = Array.from(stored.items, ([id, item]) => {
    const { order, stored } = item
    if (order === undefined || !isOrderKey(order)) throw new Refused([...path, id], "an item without a place")
    if (stored === undefined) throw new Refused([...path, id], "a place without an item")
    return { id, order, stored }
  })
  items.sort((a, b) => a.order < b.order ? -1 : 1)
  for (let i = 1; i < items.length; i++) {
    if (items[i]!.order === items[i - 1]!.order) throw new Refused([...path, items[i]!.id], "two items in one place")
  }
  return items
}

/** What is stored as the plain data that a term of the whole would hold. */
export const plainOf = (stored: Stored, path: Path): unknown => {
  if (stored.tag === TERM) {
    const { pieces } = stored
    return stored.plain ??= unpackPlain(pieces.length === 1 ? pieces[0]! : Keys.concatAll(pieces), path)
  }
  if (!stored.head) throw new Refused(path, "entries without what they are entries of")
  if (stored.tag === COMPONENTS) {
    return itemsInOrder(stored, path).map((item) => plainOf(item.stored, [...path, item.id]))
  }
  const out: Record<string, unknown> = {}
  for (const [name, entry] of stored.entries) assign(out, name, plainOf(entry.stored!, [...path, name]))
  return out
}

export const isTerm = (stored: Stored): stored is StoredTerm => stored.tag === TERM
export const isAssigns = (stored: Stored): stored is StoredAssigns => stored.tag === ASSIGNS

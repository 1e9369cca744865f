/**
 * Writes a state over what is stored: only what changed, and nothing until all of it is known to fit.
 *
 * 1. A part that is the same object as before (`Object.is`) is neither encoded nor compared. So a write costs what it
 *    changes, and a walk over the references of each changed container.
 * 2. Writes are collected, and given to the transaction when the whole state was encoded: a state that is refused
 *    leaves no trace.
 * 3. A part that is stored in another way than the plan says is cleared, and written whole.
 * 4. What a write gives is what a read of the store would give then, with the same objects where nothing changed.
 * 5. What the schema does not know stays: entries as they lie, and what is inside of other parts with what is written in
 *    their place, however that is split.
 */
import * as Result from "effect/Result"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { assign, packPlain } from "../data/plain.ts"
import { type Path, Refused } from "../data/problem.ts"
import { PIECE_BYTES } from "../tenant/limits.ts"
import {
  type AssignsForm,
  type ComponentsForm,
  type Form,
  type ItemForm,
  LEFT_ALONE,
  LEFT_OUT,
  movedFrom,
  type TermForm,
  unknownIn,
  unknownOf
} from "./form.ts"
import { fillOrders, longestIncreasing } from "./order.ts"
import {
  type AssignsPlan,
  type ComponentsPlan,
  decode,
  encode,
  type Plan,
  planFor,
  refusal,
  type TermPlan
} from "./plan.ts"
import * as Layout from "./stored.ts"
import { carry } from "./unknown.ts"
import { clearBelow, type Writes } from "./writes.ts"

const clearForm = (writes: Writes, prefix: Uint8Array, form: Form): void => {
  if (form.kind === "absent" || form.kind === "moved") return
  if (form.kind === "term" && form.pieces === 1) writes.clear(Layout.pieceKey(prefix, 0))
  else clearBelow(writes, prefix)
}

/** Writes a value below a prefix, over what is stored there. */
export const writeValue = (
  writes: Writes,
  plan: Plan,
  prefix: Uint8Array,
  previous: Form | undefined,
  value: unknown,
  path: Path
): Form => {
  if (previous !== undefined && Object.is(previous.value, value)) return previous
  const target = planFor(plan, value)
  const before = previous !== undefined && previous.kind !== target.kind ? undefined : previous
  if (previous !== undefined && before === undefined) clearForm(writes, prefix, previous)
  const unknown = unknownOf(previous)
  switch (target.kind) {
    case "term":
      return writeTerm(writes, target, prefix, before as TermForm | undefined, unknown, value, path)
    case "assigns":
      return writeAssigns(writes, target, prefix, before as AssignsForm | undefined, unknown, value, path)
    case "components":
      return writeComponents(writes, target, prefix, before as ComponentsForm | undefined, unknown, value, path)
  }
}

// --- terms ---

const writeTerm = (
  writes: Writes,
  plan: TermPlan,
  prefix: Uint8Array,
  previous: TermForm | undefined,
  unknown: unknown,
  value: unknown,
  path: Path
): TermForm => {
  const data = withUnknown(plan, unknown, encode(plan.codec, value, path), path)
  const pieces = writeData(writes, prefix, previous, data, path)
  return { kind: "term", value: decode(plan.codec, data, path), pieces, unknown: unknownIn(plan.shape, data) }
}

/** Data with what was unknown in the part whose place it takes (5), unless that would make it say something else. */
const withUnknown = (plan: TermPlan, unknown: unknown, data: unknown, path: Path): unknown => {
  if (unknown === undefined) return data
  const carried = carry(plan.shape, unknown, data)
  const again = Result.flatMap(plan.codec.decode(carried), plan.codec.encode)
  if (Result.isFailure(again)) return data
  return Keys.toText(packPlain(again.success, path)) === Keys.toText(packPlain(data, path)) ? carried : data
}

const writeData = (
  writes: Writes,
  prefix: Uint8Array,
  previous: TermForm | undefined,
  data: unknown,
  path: Path
): number => {
  const bytes = packPlain(data, path)
  const pieces = Math.ceil(bytes.length / PIECE_BYTES)
  for (let i = 0; i < pieces; i++) {
    const piece = bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES)
    writes.set(Layout.pieceKey(prefix, i), piece, path)
  }
  if (previous !== undefined && previous.pieces > pieces) {
    writes.clearRange(Layout.pieceKey(prefix, pieces), Layout.endOf(Layout.pieceKey(prefix, previous.pieces - 1)))
  }
  return pieces
}

// --- assigns ---

const writeAssigns = (
  writes: Writes,
  plan: AssignsPlan,
  prefix: Uint8Array,
  previous: AssignsForm | undefined,
  unknown: unknown,
  value: unknown,
  path: Path
): AssignsForm => {
  const given = plan.open(value, path)
  if (previous === undefined) writes.set(Layout.assignsKey(prefix), EMPTY, path)
  const written = new Map<string, Form>()
  let changed = previous === undefined
  for (const name of namesOf(plan, given, path)) {
    const before = previous === undefined ? movedFrom(unknown, name) : previous.entries.get(name)
    const isGiven = has(given, name)
    if (!isGiven && before === undefined && previous !== undefined) continue
    const form = isGiven && before !== undefined && Object.is(before.value, given[name])
      ? before
      : writeEntry(writes, plan, prefix, name, before, given, [...path, name])
    if (form !== before) changed = true
    if (form !== undefined) written.set(name, form)
  }
  for (const [name, form] of previous?.entries ?? []) {
    if (plan.fields.has(name) || written.has(name)) continue
    if (form.value === LEFT_OUT) {
      written.set(name, form)
      continue
    }
    clearForm(writes, Layout.entryPrefix(prefix, name, path), form)
    changed = true
  }
  if (previous === undefined && unknown !== undefined) {
    for (const [name, data] of unknownEntries(plan, unknown)) {
      writeData(writes, Layout.entryPrefix(prefix, name, path), undefined, data, [...path, name])
      written.set(name, LEFT_ALONE)
    }
  }
  return changed ? assignsForm(plan, previous, written, path) : previous!
}

const EMPTY = new Uint8Array(0)

/** The entries that a schema does not know, of plain data that is split now (5). */
const unknownEntries = (plan: AssignsPlan, unknown: unknown): ReadonlyArray<readonly [string, unknown]> => {
  const carried = carry(plan.shape, unknown, {})
  return Object.entries(carried as Record<string, unknown>)
}

/** As schemas ask for a key. */
const has = (value: object, name: string): boolean => name === "__proto__" ? Object.hasOwn(value, name) : name in value

/** All fields of the schema, given or not, and the other keys of the value. */
const namesOf = (plan: AssignsPlan, given: object, path: Path): ReadonlyArray<string> => {
  const names = [...plan.fields.keys()]
  const unknown = (name: string | symbol) => new Refused([...path, String(name)], "the schema has no such key")
  for (const name of Object.getOwnPropertySymbols(given)) {
    if (Object.prototype.propertyIsEnumerable.call(given, name)) throw unknown(name)
  }
  for (const name of Object.keys(given)) {
    if (plan.fields.has(name)) continue
    if (plan.rest === undefined) throw unknown(name)
    names.push(name)
  }
  return names
}

/** Writes an entry of a value, or finds that its absence is allowed and what it means. */
const writeEntry = (
  writes: Writes,
  plan: AssignsPlan,
  prefix: Uint8Array,
  name: string,
  previous: Form | undefined,
  given: Record<string, unknown>,
  path: Path
): Form | undefined => {
  const entry = plan.fields.get(name) ?? plan.rest!
  const at = Layout.entryPrefix(prefix, name, path)
  const above = path.slice(0, -1)
  const one: Record<string, unknown> = {}
  if (has(given, name)) {
    if (planFor(entry.plan, given[name]).kind !== "term") {
      if (!plan.fields.has(name)) plan.checkKey?.(name, above)
      return writeValue(writes, entry.plan, at, previous, given[name], path)
    }
    assign(one, name, given[name])
  }
  const data = encode(entry.codec, one, above) as Record<string, unknown>
  const decoded = decode(entry.codec, data, above) as Record<string, unknown>
  const isStored = Object.hasOwn(data, name)
  const before = previous?.kind === "term" && isStored ? previous : undefined
  if (previous !== undefined && before === undefined) clearForm(writes, at, previous)
  const value = Object.hasOwn(decoded, name) ? decoded[name] : LEFT_OUT
  if (!isStored) return value === LEFT_OUT ? undefined : { kind: "absent", value }
  const term = planFor(entry.plan, given[name]) as TermPlan
  const kept = withUnknown(term, unknownOf(previous), data[name], path)
  return {
    kind: "term",
    value,
    pieces: writeData(writes, at, before, kept, path),
    unknown: unknownIn(term.shape, kept)
  }
}

/** The value as a read gives it: named fields as the schema has them, other keys as the store has them (4). */
const assignsForm = (
  plan: AssignsPlan,
  previous: AssignsForm | undefined,
  written: ReadonlyMap<string, Form>,
  path: Path
): AssignsForm => {
  const entries = new Map<string, Form>()
  for (const name of inStoreOrder(previous, written)) entries.set(name, written.get(name)!)
  const out: Record<string, unknown> = {}
  const put = (name: string, form: Form | undefined) => {
    if (form !== undefined && form.value !== LEFT_OUT) assign(out, name, form.value)
  }
  for (const name of plan.fields.keys()) put(name, entries.get(name))
  if (plan.rest !== undefined) { for (const [name, form] of entries) if (!plan.fields.has(name)) put(name, form) }
  return { kind: "assigns", value: plan.close(out, path), entries }
}

/** Names that were there keep their order; new ones are sorted in between. */
const inStoreOrder = (previous: AssignsForm | undefined, written: ReadonlyMap<string, Form>): Iterable<string> => {
  const before: ReadonlyMap<string, Form> = previous?.entries ?? new Map()
  const added = [...written.keys()].filter((name) => !before.has(name)).sort(compareNames)
  const kept = [...before.keys()].filter((name) => written.has(name))
  if (added.length === 0) return kept
  const out: Array<string> = []
  let at = 0
  for (const name of kept) {
    while (at < added.length && compareNames(added[at]!, name) < 0) out.push(added[at++]!)
    out.push(name)
  }
  return out.concat(added.slice(at))
}

const compareNames = (a: string, b: string): number => Tuple.compare([a], [b])

// --- components ---

const writeComponents = (
  writes: Writes,
  plan: ComponentsPlan,
  prefix: Uint8Array,
  previous: ComponentsForm | undefined,
  unknown: unknown,
  value: unknown,
  path: Path
): ComponentsForm => {
  if (!Array.isArray(value) || value.length < plan.least) throw refusal(plan.codec, value, path)
  plan.check(value, path)
  const change = changeOf(plan, previous, value, path)
  if (change === undefined) return previous!
  if (change.removed.length > 0 && change.removed.length === previous!.items.length) {
    // nothing stays: one range costs less than one an item
    clearBelow(writes, prefix)
    return writeComponents(writes, plan, prefix, undefined, undefined, value, path)
  }
  if (previous === undefined) writes.set(Layout.componentsKey(prefix), EMPTY, path)
  for (const item of change.removed) {
    const at = Layout.itemPrefix(prefix, item.id, path)
    writes.clearRange(at, Layout.endOf(at))
  }
  const items = writeItems(writes, plan, prefix, previous?.items ?? [], change, itemsById(unknown), value, path)
  const out = items.map((item) => item.form.value)
  plan.check(out, path)
  return { kind: "components", value: out, items }
}

/** The items of plain data that is split now, by their ids (5). */
const itemsById = (unknown: unknown): Record<string, unknown> => {
  const items: Record<string, unknown> = {}
  if (Array.isArray(unknown)) {
    for (const item of unknown) if (typeof item?.id === "string") assign(items, item.id, item)
  }
  return items
}

/** The part of a list that changed: all before `begin` and from `end` on is as it was. */
interface Change {
  readonly begin: number
  readonly end: number
  /** The ids in this part. */
  readonly ids: ReadonlyArray<string>
  /** Where those items were that were in this part before. */
  readonly was: ReadonlyMap<string, number>
  readonly removed: ReadonlyArray<ItemForm>
}

const changeOf = (
  plan: ComponentsPlan,
  previous: ComponentsForm | undefined,
  value: ReadonlyArray<unknown>,
  path: Path
): Change | undefined => {
  const old = previous?.value ?? []
  const shorter = Math.min(old.length, value.length)
  let begin = 0
  while (begin < shorter && Object.is(old[begin], value[begin])) begin++
  if (previous !== undefined && begin === old.length && begin === value.length) return undefined
  let tail = 0
  while (tail < shorter - begin && Object.is(old[old.length - 1 - tail], value[value.length - 1 - tail])) tail++
  const end = value.length - tail
  const items = previous?.items ?? []
  const ids: Array<string> = []
  const seen = new Set<string>()
  for (let i = begin; i < end; i++) {
    const id = (value[i] as { readonly id?: unknown } | null | undefined)?.id
    if (typeof id !== "string") throw refusal(plan.codec, value, path)
    if (seen.has(id)) throw twice(id, path)
    seen.add(id)
    ids.push(id)
  }
  const was = new Map<string, number>()
  const removed: Array<ItemForm> = []
  for (let i = begin; i < old.length - tail; i++) {
    const item = items[i]!
    if (seen.delete(item.id)) was.set(item.id, i)
    else removed.push(item)
  }
  // ids that are new to this part must not be in the others
  if (seen.size > 0) {
    for (let i = 0; i < begin; i++) if (seen.has(items[i]!.id)) throw twice(items[i]!.id, path)
    for (let i = old.length - tail; i < old.length; i++) if (seen.has(items[i]!.id)) throw twice(items[i]!.id, path)
  }
  return { begin, end, ids, was, removed }
}

const twice = (id: string, path: Path): Refused =>
  new Refused(path, `two items have the id ${JSON.stringify(id)}: ids must differ within a list`)

/** Writes the items of the changed part, and the places of those that are new, moved, or had to make room. */
const writeItems = (
  writes: Writes,
  plan: ComponentsPlan,
  prefix: Uint8Array,
  before: ReadonlyArray<ItemForm>,
  change: Change,
  unknown: Record<string, unknown>,
  value: ReadonlyArray<unknown>,
  path: Path
): ReadonlyArray<ItemForm> => {
  const { begin, end, ids, was } = change
  const stay = longestIncreasing(ids.flatMap((id) => was.get(id) ?? []))
  // what each item of the new list was before
  const old: Array<ItemForm | undefined> = [
    ...before.slice(0, begin),
    ...ids.map((id) => was.has(id) ? before[was.get(id)!] : undefined),
    ...before.slice(before.length - (value.length - end))
  ]
  const orders = old.map((item, i) =>
    item !== undefined && (i < begin || i >= end || stay.has(was.get(item.id)!)) ? item.order : undefined
  )
  const touched = fillOrders(orders, begin, end)
  const items = old as Array<ItemForm>
  for (let i = touched.begin; i < touched.end; i++) {
    const item = old[i]
    const isChanged = i >= begin && i < end
    const id = isChanged ? ids[i - begin]! : item!.id
    const order = orders[i]!
    const here = [...path, id]
    const at = Layout.itemPrefix(prefix, id, here)
    if (item?.order !== order) writes.set(at, Keys.fromText(order), here)
    items[i] = {
      id,
      order,
      form: isChanged
        ? writeValue(writes, plan.item, at, item?.form ?? movedFrom(unknown, id), value[i], here)
        : item!.form
    }
  }
  return items
}

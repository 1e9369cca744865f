/**
 * Writes a state over what is stored: only what changed, and nothing until all of it is known to fit.
 *
 * 1. A part that is the same object as before (`Object.is`) is neither encoded nor compared. So a write costs what it
 *    changes, and a walk over the references of each changed container.
 * 2. Writes are collected, and given to the transaction when the whole state was encoded: a state that is refused
 *    leaves no trace.
 * 3. A part that is stored in another way than the plan says is cleared, and written whole.
 * 4. What a write gives is what a read of the store would give then, with the same objects where nothing changed.
 */
import { KEY_LIMIT_BYTES, KEY_PREFIX_ALLOWANCE_BYTES } from "../../Backend.ts"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { assign, packPlain } from "../data/plain.ts"
import { type Path, Refused } from "../data/problem.ts"
import { PIECE_BYTES } from "../tenant/limits.ts"
import type { TransactionState } from "../transactions/state.ts"
import { type AssignsForm, type ComponentsForm, type Form, type ItemForm, LEFT_OUT, type TermForm } from "./form.ts"
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

/** The writes of one state, in their order (2). */
export class Writes {
  readonly #writes: Array<(state: TransactionState) => void> = []
  readonly #keyLimit: number

  /** Keys count from the tenant's prefix. */
  constructor(tenantPrefix: Uint8Array) {
    this.#keyLimit = KEY_LIMIT_BYTES - KEY_PREFIX_ALLOWANCE_BYTES + tenantPrefix.length
  }

  set(key: Uint8Array, value: Uint8Array, path: Path): void {
    if (key.length > this.#keyLimit) {
      throw new Refused(
        path,
        `its key has ${key.length} bytes, and at most ${this.#keyLimit} fit: shorten the names and ids above it, or ` +
          "keep it whole with StateCodec.term"
      )
    }
    this.#writes.push((state) => state.set(key, value))
  }

  clear(key: Uint8Array): void {
    this.#writes.push((state) => state.clear(key))
  }

  clearRange(begin: Uint8Array, end: Uint8Array): void {
    this.#writes.push((state) => state.clearRange(begin, end))
  }

  apply(state: TransactionState): void {
    for (const write of this.#writes) write(state)
  }
}

/** All keys below a prefix. */
export const clearBelow = (writes: Writes, prefix: Uint8Array): void => {
  const { begin, end } = Tuple.range([], prefix)
  writes.clearRange(begin, end)
}

const clearForm = (writes: Writes, prefix: Uint8Array, form: Form): void => {
  if (form.kind === "absent") return
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
  switch (target.kind) {
    case "term":
      return writeTerm(writes, target, prefix, before as TermForm | undefined, value, path)
    case "assigns":
      return writeAssigns(writes, target, prefix, before as AssignsForm | undefined, value, path)
    case "components":
      return writeComponents(writes, target, prefix, before as ComponentsForm | undefined, value, path)
  }
}

// --- terms ---

const writeTerm = (
  writes: Writes,
  plan: TermPlan,
  prefix: Uint8Array,
  previous: TermForm | undefined,
  value: unknown,
  path: Path
): TermForm => {
  const data = encode(plan.codec, value, path)
  const pieces = writeData(writes, prefix, previous, data, path)
  return { kind: "term", value: decode(plan.codec, data, path), pieces }
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
  value: unknown,
  path: Path
): AssignsForm => {
  const given = plan.open(value, path)
  if (previous === undefined) writes.set(Layout.assignsKey(prefix), EMPTY, path)
  const written = new Map<string, Form>()
  let changed = previous === undefined
  for (const name of namesOf(plan, given, path)) {
    const before = previous?.entries.get(name)
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
    clearForm(writes, Layout.entryPrefix(prefix, name, path), form)
    changed = true
  }
  return changed ? assignsForm(plan, previous, written, path) : previous!
}

const EMPTY = new Uint8Array(0)

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
  if (isStored) return { kind: "term", value, pieces: writeData(writes, at, before, data[name], path) }
  return value === LEFT_OUT ? undefined : { kind: "absent", value }
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
    return writeComponents(writes, plan, prefix, undefined, value, path)
  }
  if (previous === undefined) writes.set(Layout.componentsKey(prefix), EMPTY, path)
  for (const item of change.removed) {
    const at = Layout.itemPrefix(prefix, item.id, path)
    writes.clearRange(at, Layout.endOf(at))
  }
  const items = writeItems(writes, plan, prefix, previous?.items ?? [], change, value, path)
  const out = items.map((item) => item.form.value)
  plan.check(out, path)
  return { kind: "components", value: out, items }
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
      form: isChanged ? writeValue(writes, plan.item, at, item?.form, value[i], here) : item!.form
    }
  }
  return items
}

/**
 * What is known of a state in the store besides its value: how each part of it is stored, and which value a read of
 * that part gives. It is made by a read or by a write, from nothing but what is in the store then, and never changes.
 *
 * 1. `value` is what decoding the stored part gives, the very object that is in the value of the whole. So a part of
 *    a new state that is the same object is stored already.
 */
import { type Path, Refused } from "../data/problem.ts"
import type { AssignsPlan, ComponentsPlan, Plan } from "./plan.ts"
import { planFor } from "./plan.ts"
import { isAssigns, isTerm, itemsInOrder, type Stored, type StoredAssigns, type StoredComponents } from "./stored.ts"

/** How a part is stored, and its value (1). */
export type Form = TermForm | AssignsForm | ComponentsForm | OtherForm | AbsentForm

export interface TermForm {
  readonly kind: "term"
  readonly value: unknown
  readonly pieces: number
}

/** Its entries are in the order of their keys in the store. */
export interface AssignsForm {
  readonly kind: "assigns"
  readonly value: unknown
  readonly entries: ReadonlyMap<string, Form>
}

export interface ComponentsForm {
  readonly kind: "components"
  readonly value: ReadonlyArray<unknown>
  readonly items: ReadonlyArray<ItemForm>
}

export interface ItemForm {
  readonly id: string
  readonly order: string
  readonly form: Form
}

/** Split in another way than the schema says by now: it is replaced as a whole when it changes. */
export interface OtherForm {
  readonly kind: "other"
  readonly value: unknown
}

/** A field whose value is stored as the absence of its key. */
export interface AbsentForm {
  readonly kind: "absent"
  readonly value: unknown
}

/** In place of the value of an entry that decoding leaves out: one that the schema does not know any more. */
export const LEFT_OUT = Symbol("left out")

/** The form of what was read, with its decoded value. */
export const formOf = (plan: Plan, stored: Stored, value: unknown, path: Path): Form => {
  if (isTerm(stored)) return { kind: "term", value, pieces: stored.pieces.length }
  const target = planFor(plan, value)
  if (isAssigns(stored)) return target.kind === "assigns" ? ofEntries(target, stored, value, path) : other(value)
  return target.kind === "components" && Array.isArray(value) && value.length === stored.items.size
    ? ofItems(target, stored, value, path)
    : other(value)
}

const other = (value: unknown): OtherForm => ({ kind: "other", value })

const ofEntries = (plan: AssignsPlan, stored: StoredAssigns, value: unknown, path: Path): AssignsForm => {
  const entries = new Map<string, Form>()
  for (const [name, holder] of stored.entries) {
    const entry = plan.fields.get(name) ?? plan.rest
    const known = entry !== undefined && Object.hasOwn(value as object, name)
    entries.set(
      name,
      known
        ? formOf(entry.plan, holder.stored!, (value as Record<string, unknown>)[name], [...path, name])
        : other(LEFT_OUT)
    )
  }
  return { kind: "assigns", value, entries }
}

const ofItems = (
  plan: ComponentsPlan,
  stored: StoredComponents,
  value: ReadonlyArray<unknown>,
  path: Path
): ComponentsForm => {
  const items = itemsInOrder(stored, path).map(({ id, order, stored }, at): ItemForm => {
    const item = value[at]
    if ((item as { readonly id: unknown }).id !== id) throw new Refused([...path, id], "an item that has another id")
    return { id, order, form: formOf(plan.item, stored, item, [...path, id]) }
  })
  return { kind: "components", value, items }
}

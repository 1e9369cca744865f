/**
 * What is known of a state in the store besides its value: how each part of it is stored, and which value a read of
 * that part gives. It is made by a read or by a write, from nothing but what is in the store then, and never changes.
 *
 * 1. `value` is what decoding the stored part gives, the very object that is in the value of the whole. So a part of
 *    a new state that is the same object is stored already.
 * 2. `unknown` is the stored part as plain data, where the schema does not know all of it: what is written in its place
 *    carries that on. An entry that the schema does not know is kept as it lies.
 */
import { type Path, Refused } from "../data/problem.ts"
import type { AssignsPlan, ComponentsPlan, Plan } from "./plan.ts"
import { planFor } from "./plan.ts"
import {
  isAssigns,
  isTerm,
  itemsInOrder,
  plainOf,
  type Stored,
  type StoredAssigns,
  type StoredComponents
} from "./stored.ts"
import { hasUnknown, type Shape } from "./unknown.ts"

/** How a part is stored, and its value (1). */
export type Form = TermForm | AssignsForm | ComponentsForm | OtherForm | AbsentForm | MovedForm

export interface TermForm {
  readonly kind: "term"
  readonly value: unknown
  readonly pieces: number
  readonly unknown: unknown
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
  readonly unknown: unknown
}

/** A field whose value is stored as the absence of its key. */
export interface AbsentForm {
  readonly kind: "absent"
  readonly value: unknown
}

/** Nothing is stored here, but was as part of a whole that is split now. */
export interface MovedForm {
  readonly kind: "moved"
  readonly value: typeof LEFT_OUT
  readonly unknown: unknown
}

/** In place of the value of an entry that decoding leaves out: one that the schema does not know any more. */
export const LEFT_OUT = Symbol("left out")

/** The form of what was read, with its decoded value. */
export const formOf = (plan: Plan, stored: Stored, value: unknown, path: Path): Form => {
  const target = planFor(plan, value)
  if (isTerm(stored)) {
    return { kind: "term", value, pieces: stored.pieces.length, unknown: unknownIn(target.shape, stored.plain) }
  }
  if (isAssigns(stored) && target.kind === "assigns") return ofEntries(target, stored, value, path)
  if (
    !isAssigns(stored) && target.kind === "components" && Array.isArray(value) && value.length === stored.items.size
  ) {
    return ofItems(target, stored, value, path)
  }
  return { kind: "other", value, unknown: unknownIn(target.shape, plainOf(stored, path)) }
}

/** Plain data whose schema does not know all of it (2). */
export const unknownIn = (shape: Shape, data: unknown): unknown => hasUnknown(shape, data) ? data : undefined

/** What the schema does not know of a form (2). */
export const unknownOf = (form: Form | undefined): unknown =>
  form !== undefined && "unknown" in form ? form.unknown : undefined

/** An entry that the schema does not know (2). */
export const LEFT_ALONE: OtherForm = { kind: "other", value: LEFT_OUT, unknown: undefined }

/** A part of a whole that is split now, if it had such a part. */
export const movedFrom = (whole: unknown, name: string): MovedForm | undefined =>
  typeof whole === "object" && whole !== null && Object.hasOwn(whole, name)
    ? { kind: "moved", value: LEFT_OUT, unknown: (whole as Record<string, unknown>)[name] }
    : undefined

const ofEntries = (plan: AssignsPlan, stored: StoredAssigns, value: unknown, path: Path): AssignsForm => {
  const entries = new Map<string, Form>()
  for (const [name, holder] of stored.entries) {
    const entry = plan.fields.get(name) ?? plan.rest
    const known = entry !== undefined && Object.hasOwn(value as object, name)
    entries.set(
      name,
      known
        ? formOf(entry.plan, holder.stored!, (value as Record<string, unknown>)[name], [...path, name])
        : LEFT_ALONE
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

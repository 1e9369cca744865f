/**
 * What two changes of one state come to together, entry by entry (rule R20): the fields of structs, the items of lists
 * by their ids, and the order of such a list as one entry. Where both changed one entry there is no answer.
 */
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"

const MISSING = Symbol("an entry that is not there")

type Fields = { readonly [field: string]: unknown }

/** Lays the changes from `base` to `mine` over `fresh`. */
export const merge = (base: unknown, mine: unknown, fresh: unknown): Option.Option<unknown> => {
  if (isSame(base, mine)) return Option.some(fresh)
  if (isSame(base, fresh) || isSame(mine, fresh)) return Option.some(mine)
  if (isFields(base) && isFields(mine) && isFields(fresh)) return mergeFields(base, mine, fresh)
  if (isItems(base) && isItems(mine) && isItems(fresh)) return mergeItems(base, mine, fresh)
  return Option.none()
}

const isSame = (a: unknown, b: unknown): boolean => a === b || (a !== MISSING && b !== MISSING && Equal.equals(a, b))

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype

const isItems = (value: unknown): value is ReadonlyArray<Fields & { readonly id: string }> =>
  Array.isArray(value) && value.every((item) => isFields(item) && typeof item.id === "string")

const mergeFields = (base: Fields, mine: Fields, fresh: Fields): Option.Option<unknown> => {
  const at = (fields: Fields, field: string) => Object.hasOwn(fields, field) ? fields[field] : MISSING
  const merged: Array<readonly [string, unknown]> = []
  for (const field of new Set([...Object.keys(fresh), ...Object.keys(mine), ...Object.keys(base)])) {
    const value = merge(at(base, field), at(mine, field), at(fresh, field))
    if (Option.isNone(value)) return value
    if (value.value !== MISSING) merged.push([field, value.value])
  }
  return Option.some(Object.fromEntries(merged))
}

type Items = ReadonlyArray<Fields & { readonly id: string }>

const mergeItems = (base: Items, mine: Items, fresh: Items): Option.Option<unknown> => {
  const ids = (items: Items) => items.map((item) => item.id)
  const order = merge(ids(base), ids(mine), ids(fresh))
  if (Option.isNone(order)) return order
  const byId = (items: Items) => new Map(items.map((item) => [item.id, item]))
  const [olds, mines, freshes] = [byId(base), byId(mine), byId(fresh)]
  const merged: Array<unknown> = []
  for (const id of new Set([...(order.value as ReadonlyArray<string>), ...ids(base)])) {
    const value = merge(olds.get(id) ?? MISSING, mines.get(id) ?? MISSING, freshes.get(id) ?? MISSING)
    if (Option.isNone(value)) return value
    if (value.value !== MISSING) merged.push(value.value)
  }
  return Option.some(merged)
}

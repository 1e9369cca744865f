/**
 * What two changes of one state come to together, entry by entry (rule R20): the entries of assigns, the items of
 * components by their ids, and the order of such a list as one entry. A term is one entry. Where both changed one entry
 * there is no answer, also when both made the same of it: two who count to 6 from 5 have counted to 7.
 */
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import type { Path } from "../data/problem.ts"
import { type AssignsPlan, type ComponentsPlan, type Plan, planFor } from "./plan.ts"

/** In place of an entry that is not there. */
const MISSING = Symbol("missing")

/** Lays the changes from `base` to `mine` over `fresh`. Throws `Refused` when a value is not one of the schema. */
export const merge = (
  plan: Plan | undefined,
  base: unknown,
  mine: unknown,
  fresh: unknown,
  path: Path
): Option.Option<unknown> => {
  if (isSame(base, mine)) return Option.some(fresh)
  if (isSame(base, fresh)) return Option.some(mine)
  if (plan === undefined || [base, mine, fresh].includes(MISSING)) return Option.none()
  const target = planFor(plan, fresh)
  if (planFor(plan, base) !== target || planFor(plan, mine) !== target) return Option.none()
  switch (target.kind) {
    case "term":
      return Option.none()
    case "assigns":
      return mergeEntries(target, base, mine, fresh, path)
    case "components":
      return mergeItems(target, base as Items, mine as Items, fresh as Items, path)
  }
}

const isSame = (a: unknown, b: unknown): boolean => a === b || (a !== MISSING && b !== MISSING && Equal.equals(a, b))

const mergeEntries = (
  plan: AssignsPlan,
  base: unknown,
  mine: unknown,
  fresh: unknown,
  path: Path
): Option.Option<unknown> => {
  const [olds, mines, freshes] = [base, mine, fresh].map((value) => plan.open(value, path))
  const at = (entries: Record<string, unknown>, name: string) => Object.hasOwn(entries, name) ? entries[name] : MISSING
  const merged: Array<readonly [string, unknown]> = []
  for (const name of new Set([...Object.keys(freshes!), ...Object.keys(mines!), ...Object.keys(olds!)])) {
    const entry = plan.fields.get(name) ?? plan.rest
    const value = merge(entry?.plan, at(olds!, name), at(mines!, name), at(freshes!, name), [...path, name])
    if (Option.isNone(value)) return value
    if (value.value !== MISSING) merged.push([name, value.value])
  }
  return Option.some(plan.close(Object.fromEntries(merged), path))
}

type Items = ReadonlyArray<{ readonly id: string }>

const mergeItems = (
  plan: ComponentsPlan,
  base: Items,
  mine: Items,
  fresh: Items,
  path: Path
): Option.Option<unknown> => {
  plan.check(mine, path)
  const ids = (items: Items) => items.map((item) => item.id)
  const order = merge(undefined, ids(base), ids(mine), ids(fresh), path)
  if (Option.isNone(order)) return order
  const byId = (items: Items) => new Map<string, unknown>(items.map((item) => [item.id, item]))
  const [olds, mines, freshes] = [byId(base), byId(mine), byId(fresh)]
  const merged: Array<unknown> = []
  for (const id of new Set([...(order.value as ReadonlyArray<string>), ...ids(base)])) {
    const at = (items: ReadonlyMap<string, unknown>) => items.has(id) ? items.get(id) : MISSING
    const value = merge(plan.item, at(olds), at(mines), at(freshes), [...path, id])
    if (Option.isNone(value)) return value
    if (value.value !== MISSING) merged.push(value.value)
  }
  return Option.some(merged)
}

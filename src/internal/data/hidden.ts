/**
 * Which parts of plain data are redacted, as data: what a record in a store can say of a schema to those who do not have
 * it. It says the same of a value as `redaction.ts`, or hides more: what cannot be told part from part, what lies
 * deeper than is looked, what is not of the form that the schema has.
 */
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import { hasRedacted, isRedacted } from "./redaction.ts"
import { reading } from "./show.ts"

/** All of it, nothing of it, or some of what is in it. */
export type Hidden = boolean | HiddenParts

/** `null` where data of that kind has no such parts: it is hidden as a whole. */
export interface HiddenParts {
  /** Of each item of an array. */
  readonly items: Hidden | null
  /** Of the entries of an object, by name, and of all others. */
  readonly entries: { readonly names: Readonly<Record<string, Hidden>>; readonly others: Hidden } | null
}

/** Deeper than states and payloads that people design; a recursive schema goes on for ever. */
const DEPTH_LIMIT = 12

/** Schemas that refer to each other in all ways have very many paths. */
const NODES_LIMIT = 2_000

/** What of the plain data of a schema is redacted. */
export const hiddenOf = (schema: Schema.Codec<any, any, never, never>): Hidden =>
  reading(() => {
    const budget = { left: NODES_LIMIT }
    return walk(Schema.toCodecJson(schema).ast, 0, budget)
  }, true)

const walk = (ast: SchemaAST.AST, depth: number, budget: { left: number }): Hidden => {
  if (!hasRedacted(ast)) return false
  if (isRedacted(ast) || depth > DEPTH_LIMIT || budget.left-- <= 0) return true
  const encoded = ast.encoding?.at(-1)?.to
  if (encoded !== undefined) return hasRedacted(encoded) ? walk(encoded, depth + 1, budget) : true
  switch (ast._tag) {
    case "Suspend":
      return walk(ast.thunk(), depth + 1, budget)
    case "Union":
      return ast.types.map((type) => walk(type, depth, budget)).reduce(both, false)
    case "Arrays":
      return {
        items: [...ast.elements, ...ast.rest].map((item) => walk(item, depth + 1, budget)).reduce(both, false),
        entries: null
      }
    case "Objects":
      return { items: null, entries: entriesOf(ast, depth, budget) }
    default:
      return true
  }
}

const entriesOf = (ast: SchemaAST.Objects, depth: number, budget: { left: number }): HiddenParts["entries"] => ({
  // symbols have no plain form
  names: Object.fromEntries(
    ast.propertySignatures.flatMap(({ name, type }) =>
      typeof name === "string" ? [[name, walk(type, depth + 1, budget)]] : []
    )
  ),
  others: ast.indexSignatures.map(({ type }) => walk(type, depth + 1, budget)).reduce(both, false)
})

/** What one of two hides. */
export const both = (a: Hidden, b: Hidden): Hidden => {
  if (a === true || b === true) return true
  if (a === false) return b
  if (b === false) return a
  return {
    items: a.items === null ? b.items : b.items === null ? a.items : both(a.items, b.items),
    entries: bothEntries(a.entries, b.entries)
  }
}

const bothEntries = (a: HiddenParts["entries"], b: HiddenParts["entries"]): HiddenParts["entries"] => {
  if (a === null || b === null) return a ?? b
  const names = new Set([...Object.keys(a.names), ...Object.keys(b.names)])
  return {
    names: Object.fromEntries(
      Array.from(names, (name) => [name, both(ofName(a, name), ofName(b, name))])
    ),
    others: both(a.others, b.others)
  }
}

/** What is hidden of an entry. */
export const ofName = ({ names, others }: NonNullable<HiddenParts["entries"]>, name: string): Hidden =>
  Object.hasOwn(names, name) ? names[name]! : others

/** Whether two hide the same. */
export const isSame = (a: Hidden, b: Hidden): boolean => JSON.stringify(dataOf(a)) === JSON.stringify(dataOf(b))

/** As plain data, in an order that does not depend on who made it. */
export const dataOf = (hidden: Hidden): unknown =>
  typeof hidden === "boolean" ? hidden : [
    hidden.items === null ? null : dataOf(hidden.items),
    hidden.entries === null ? null : [
      Object.keys(hidden.entries.names).sort().map((name) => [name, dataOf(hidden.entries!.names[name]!)]),
      dataOf(hidden.entries.others)
    ]
  ]

/** From plain data; what cannot be read hides all. */
export const fromData = (data: unknown, depth = 0): Hidden => {
  if (typeof data === "boolean") return data
  if (!Array.isArray(data) || data.length !== 2 || depth > 2 * DEPTH_LIMIT) return true
  const [items, entries] = data as Array<unknown>
  const names = Array.isArray(entries) && Array.isArray(entries[0]) ? entries[0] as Array<unknown> : undefined
  const pairs = names?.map((pair) =>
    Array.isArray(pair) && typeof pair[0] === "string" ? [pair[0], fromData(pair[1], depth + 1)] as const : undefined
  )
  if ((entries !== null && pairs === undefined) || pairs?.includes(undefined)) return true
  return {
    items: items === null ? null : fromData(items, depth + 1),
    entries: pairs === undefined ? null : {
      names: Object.fromEntries(pairs as ReadonlyArray<readonly [string, Hidden]>),
      others: fromData((entries as Array<unknown>)[1], depth + 1)
    }
  }
}

/**
 * What a schema says is redacted (`Schema.Redacted` and what is made of it), within plain data of it: in a store it lies
 * in clear, and whatever shows it must not. Redacted parts become `Redacted` values, which hide what is in them from
 * every printer and give it to whoever asks.
 */
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import { reading } from "./show.ts"

type AnySchema = Schema.Codec<any, any, never, never>

/** Data as it may be shown. */
type Hide = (data: unknown) => unknown

const REDACTED = "effect/schema/Redacted"

export const isRedacted = (ast: SchemaAST.AST): boolean =>
  ast._tag === "Declaration" &&
  (ast.annotations?.["representation"] as { readonly id?: unknown } | undefined)?.id === REDACTED

/** What a schema is made of. */
const partsOf = (ast: SchemaAST.AST): ReadonlyArray<SchemaAST.AST> => {
  const encoded = ast.encoding?.map((link) => link.to) ?? []
  switch (ast._tag) {
    case "Suspend":
      return [...encoded, ast.thunk()]
    case "Declaration":
      return [...encoded, ...ast.typeParameters]
    case "Objects":
      return [
        ...encoded,
        ...ast.propertySignatures.map(({ type }) => type),
        ...ast.indexSignatures.map(({ type }) => type)
      ]
    case "Arrays":
      return [...encoded, ...ast.elements, ...ast.rest]
    case "Union":
      return [...encoded, ...ast.types]
    default:
      return encoded
  }
}

const known = new WeakMap<SchemaAST.AST, boolean>()

/** Whether anything of a schema is redacted. */
export const hasRedacted = (ast: SchemaAST.AST): boolean => {
  const found = known.get(ast)
  if (found !== undefined) return found
  // while it is looked at, one that contains itself adds nothing
  known.set(ast, false)
  const has = isRedacted(ast) || partsOf(ast).some(hasRedacted)
  known.set(ast, has)
  return has
}

/** Hides redacted parts of plain data; what cannot be told part from part is hidden as a whole. */
const hide = (ast: SchemaAST.AST, data: unknown): unknown => {
  if (data === undefined || Redacted.isRedacted(data) || !hasRedacted(ast)) return data
  if (isRedacted(ast)) return Redacted.make(data)
  const encoded = ast.encoding?.at(-1)?.to
  if (encoded !== undefined) return hasRedacted(encoded) ? hide(encoded, data) : Redacted.make(data)
  switch (ast._tag) {
    case "Suspend":
      return hide(ast.thunk(), data)
    case "Union":
      return ast.types.reduce((shown: unknown, type) => hide(type, shown), data)
    case "Arrays":
      return Array.isArray(data)
        ? data.map((item, index) => hide(ast.elements[index] ?? ast.rest[0] ?? ast, item))
        : Redacted.make(data)
    case "Objects":
      return hideEntries(ast, data)
    default:
      return Redacted.make(data)
  }
}

const hideEntries = (ast: SchemaAST.Objects, data: unknown): unknown => {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return Redacted.make(data)
  const types = new Map(ast.propertySignatures.map(({ name, type }) => [name, type]))
  const others = ast.indexSignatures.map(({ type }) => type)
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => {
      const own = types.get(key)
      return [key, (own === undefined ? others : [own]).reduce((shown: unknown, type) => hide(type, shown), value)]
    })
  )
}

const hiders = new WeakMap<object, Hide | null>()

/** What hides the redacted parts of plain data of a schema; `undefined` where it has none. */
export const hiderOf = (schema: AnySchema): Hide | undefined => {
  let found = hiders.get(schema)
  if (found === undefined) {
    const { ast } = Schema.toCodecJson(schema)
    // data that cannot be walked is not shown
    found = hasRedacted(ast) ? (data) => reading(() => hide(ast, data), Redacted.make(data)) : null
    hiders.set(schema, found)
  }
  return found ?? undefined
}

/** Whether a path leads to, or through, a redacted part; one that cannot be followed may. */
export const leadsToRedacted = (value: unknown, field: string): boolean => {
  let at = value
  for (const name of field === "" ? [] : field.split(".")) {
    if (Redacted.isRedacted(at)) return true
    if (typeof at !== "object" || at === null) return true
    const inside = at
    at = reading(() => Reflect.get(inside, name), undefined)
  }
  return Redacted.isRedacted(at)
}

/**
 * What the schema at hand does not know of stored plain data: fields that a newer version of it has. They are carried
 * from what was stored to what is written in its place, as deep as the schema has structs, so that old and new code can
 * run side by side.
 *
 * 1. A field is unknown where no struct that the data is of has it. One that the schema knows, and that the value has no
 *    more, was taken out on purpose; so was an entry of a record.
 * 2. A struct keeps its unknown fields while it stays where it is: under the same name, in the list's item with the same
 *    `id` (or with the same known content, or at the same place of a list as long as before), as the same member of a
 *    union.
 * 3. What is carried changes nothing that the schema reads.
 */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { assign } from "../data/plain.ts"

/** What a schema knows of plain data; `undefined` where there is no struct in it. */
export type Shape = () => StructShape | ListShape | UnionShape | undefined

interface StructShape {
  readonly kind: "struct"
  readonly fields: ReadonlyMap<string, Shape>
  /** The other keys that it knows: those of a record. */
  readonly rest: { readonly takes: (key: string) => boolean; readonly part: Shape } | undefined
}

interface ListShape {
  readonly kind: "list"
  readonly elements: ReadonlyArray<Shape>
  readonly rest: Shape
}

interface UnionShape {
  readonly kind: "union"
  readonly members: ReadonlyArray<Member>
}

interface Member {
  readonly shape: Shape
  /** What tells most unions apart at a glance: fields that can have one value alone. */
  readonly literals: ReadonlyArray<readonly [field: string, value: unknown]>
  readonly fits: (data: unknown) => boolean
}

type Plain = Record<string, unknown>

const nothing: Shape = () => undefined

const shapes = new WeakMap<SchemaAST.AST, Shape>()

/** The shape of a schema's plain data; it is made when it is first asked for. */
export const shapeOf = (schema: Schema.Codec<any, any, never, never>): Shape => {
  let shape: Shape | undefined
  return () => (shape ??= shapeOfAst(SchemaAST.toEncoded(Schema.toCodecJson(schema).ast)))()
}

const shapeOfAst = (ast: SchemaAST.AST): Shape => {
  let shape = shapes.get(ast)
  if (shape !== undefined) return shape
  let made: ReturnType<Shape>
  let isMade = false
  shape = () => {
    if (!isMade) {
      isMade = true
      made = make(ast)
    }
    return made
  }
  shapes.set(ast, shape)
  return shape
}

const make = (ast: SchemaAST.AST): ReturnType<Shape> => {
  if (SchemaAST.isSuspend(ast)) return shapeOfAst(ast.thunk())()
  if (SchemaAST.isObjects(ast)) return structOf(ast)
  if (SchemaAST.isArrays(ast)) {
    return { kind: "list", elements: ast.elements.map(shapeOfAst), rest: ast.rest.map(shapeOfAst)[0] ?? nothing }
  }
  if (!SchemaAST.isUnion(ast)) return undefined
  const members = ast.types.filter(isContainer).map((type) => ({
    shape: shapeOfAst(type),
    literals: literalsOf(type),
    fits: Schema.is(Schema.make(type))
  }))
  return { kind: "union", members }
}

/** Whether plain data of a schema can be a struct or a list. */
const isContainer = (ast: SchemaAST.AST): boolean =>
  SchemaAST.isObjects(ast) || SchemaAST.isArrays(ast) || SchemaAST.isUnion(ast) || SchemaAST.isSuspend(ast)

const literalsOf = (ast: SchemaAST.AST): Member["literals"] =>
  SchemaAST.isObjects(ast)
    ? ast.propertySignatures.flatMap(({ name, type }) =>
      SchemaAST.isLiteral(type) && !SchemaAST.isOptional(type) ? [[String(name), type.literal] as const] : []
    )
    : []

const structOf = (ast: SchemaAST.Objects): StructShape => {
  const fields = new Map(ast.propertySignatures.map((field) => [String(field.name), shapeOfAst(field.type)]))
  const indexes = ast.indexSignatures
  if (indexes.length === 0) return { kind: "struct", fields, rest: undefined }
  const tests = indexes.map(({ parameter }) => Schema.is(Schema.make(parameter)))
  const part = indexes.length === 1 ? shapeOfAst(indexes[0]!.type) : nothing
  return { kind: "struct", fields, rest: { takes: (key) => tests.some((test) => test(key)), part } }
}

const isPlain = (data: unknown): data is Plain =>
  typeof data === "object" && data !== null && !Array.isArray(data) && !(data instanceof Uint8Array)

/** The struct or list that data is of: of a union, the first member that it fits, as a decoder chooses. */
const shapeFor = (shape: Shape, data: unknown): StructShape | ListShape | undefined => {
  const found = shape()
  switch (found?.kind) {
    case "struct":
      return isPlain(data) ? found : undefined
    case "list":
      return Array.isArray(data) ? found : undefined
    case "union": {
      if (!isPlain(data) && !Array.isArray(data)) return undefined
      const some = found.members.filter(({ literals }) => literals.every(([field, value]) => isAt(data, field, value)))
      const member = some.length === 1 ? some[0] : some.find(({ fits }) => fits(data))
      return member === undefined ? undefined : shapeFor(member.shape, data)
    }
  }
  return undefined
}

const isAt = (data: object, field: string, value: unknown): boolean => (data as Plain)[field] === value

const elementOf = (shape: ListShape, at: number): Shape => shape.elements[at] ?? shape.rest

/** What a struct knows of a key; `undefined` where it knows nothing of it (1). */
const partOf = (shape: StructShape, key: string): Shape | undefined =>
  shape.fields.get(key) ?? (shape.rest?.takes(key) === true ? shape.rest.part : undefined)

/** Whether there is something in plain data that its schema does not know. */
export const hasUnknown = (shape: Shape, data: unknown): boolean => {
  const target = shapeFor(shape, data)
  if (target === undefined) return false
  if (target.kind === "list") {
    return (data as Array<unknown>).some((item, at) => hasUnknown(elementOf(target, at), item))
  }
  return Object.keys(data as Plain).some((key) => {
    const part = partOf(target, key)
    return part === undefined || hasUnknown(part, (data as Plain)[key])
  })
}

/** `next` with what its schema does not know of `old`, in whose place it comes. */
export const carry = (shape: Shape, old: unknown, next: unknown): unknown => {
  const target = shapeFor(shape, old)
  if (target === undefined || shapeFor(shape, next) !== target) return next
  return target.kind === "struct"
    ? carryFields(target, old as Plain, next as Plain)
    : carryItems(target, old as ReadonlyArray<unknown>, next as ReadonlyArray<unknown>)
}

const carryFields = (shape: StructShape, old: Plain, next: Plain): Plain => {
  const out: Plain = {}
  for (const key of Object.keys(next)) {
    const part = Object.hasOwn(old, key) ? partOf(shape, key) : undefined
    assign(out, key, part === undefined ? next[key] : carry(part, old[key], next[key]))
  }
  for (const key of Object.keys(old)) {
    if (!Object.hasOwn(next, key) && partOf(shape, key) === undefined) assign(out, key, old[key])
  }
  return out
}

const carryItems = (
  shape: ListShape,
  old: ReadonlyArray<unknown>,
  next: ReadonlyArray<unknown>
): ReadonlyArray<unknown> => {
  const befores = partners(shape, old, next)
  return next.map((item, at) => {
    const before = at < shape.elements.length ? at : befores[at]
    return before === undefined || before >= old.length ? item : carry(elementOf(shape, at), old[before], item)
  })
}

/** Which item of a list each of the next one was before (2). */
const partners = (
  shape: ListShape,
  old: ReadonlyArray<unknown>,
  next: ReadonlyArray<unknown>
): ReadonlyArray<number | undefined> => {
  const places = new Map<string, Array<number>>()
  old.forEach((item, at) => {
    const name = nameOf(strip(elementOf(shape, at), item))
    const known = places.get(name)
    if (known === undefined) places.set(name, [at])
    else known.push(at)
  })
  const found = next.map((item) => places.get(nameOf(item))?.shift())
  if (old.length !== next.length) return found
  const taken = new Set(found)
  return found.map((before, at) => before ?? (taken.has(at) || isNamed(next[at]) || isNamed(old[at]) ? undefined : at))
}

/** What tells an item of a list: its `id`, the key of an entry, or all of it. */
const nameOf = (item: unknown): string => {
  if (isPlain(item) && typeof item.id === "string") return `id ${item.id}`
  if (Array.isArray(item) && isNamed(item)) return `key ${JSON.stringify(item[0])}`
  return `item ${JSON.stringify(item, inOrder)}`
}

const isNamed = (item: unknown): boolean =>
  isPlain(item) ? typeof item.id === "string" : Array.isArray(item) && ["string", "number"].includes(typeof item[0])

/** Two versions of a struct have the same fields in orders of their own. */
const inOrder = (_: string, value: unknown): unknown =>
  isPlain(value) ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)) : value

/** Plain data without what its schema does not know. */
const strip = (shape: Shape, data: unknown): unknown => {
  const target = shapeFor(shape, data)
  if (target === undefined) return data
  if (target.kind === "list") return (data as Array<unknown>).map((item, at) => strip(elementOf(target, at), item))
  const out: Plain = {}
  for (const [key, value] of Object.entries(data as Plain)) {
    const part = partOf(target, key)
    if (part !== undefined) assign(out, key, strip(part, value))
  }
  return out
}

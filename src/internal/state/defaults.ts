/**
 * Lists and structs with a default for reading (`Schema.withDecodingDefaultKey` and its kin). The default is a
 * transformation, but not of what is written: that passes through. So what is below it can be split as without it;
 * reading decodes the whole, default and all.
 *
 * Such a schema is a chain of lists or structs, each passed through to the next. It writes as one of them alone does
 * if all above are its type, and all below are what it encodes to.
 */
import * as SchemaAST from "effect/SchemaAST"

type Container = SchemaAST.Arrays | SchemaAST.Objects

const isContainer = (ast: SchemaAST.AST): ast is Container => SchemaAST.isArrays(ast) || SchemaAST.isObjects(ast)

/** The list or struct that a schema with a default writes as; the schema itself if it is another. */
export const withoutDefault = (ast: SchemaAST.AST): SchemaAST.AST => {
  if (!isContainer(ast) || ast.encoding === undefined) return ast
  const chain = [bare(ast)]
  for (const { to, transformation } of ast.encoding) {
    const next = required(to)
    if (transformation._tag !== "Transformation" || transformation.encode._tag !== "Passthrough") return ast
    if (!isContainer(next) || next.encoding !== undefined || next.encodingChecks !== undefined) return ast
    if (next.checks?.some((check) => !ast.checks?.includes(check))) return ast
    chain.push(next)
  }
  const found = chain.findIndex((part, at) =>
    chain.every((other, i) => i === at || relates(other, part, i < at ? isTypeOf : isEncodedOf))
  )
  return found <= 0 ? chain[found] ?? ast : bare(chain[found]!, ast.checks)
}

/** A list or struct on its own, without what it is encoded to. */
const bare = (ast: Container, checks = ast.checks): Container =>
  SchemaAST.isArrays(ast)
    ? new SchemaAST.Arrays(ast.isMutable, ast.elements, ast.rest, ast.annotations, checks, undefined, ast.context)
    : new SchemaAST.Objects(
      ast.propertySignatures,
      ast.indexSignatures,
      ast.annotations,
      checks,
      undefined,
      ast.context
    )

/** `Schema.optional` adds `undefined` to what may be read. */
const required = (ast: SchemaAST.AST): SchemaAST.AST =>
  SchemaAST.isUnion(ast) && ast.types.length === 2 && SchemaAST.isUndefined(ast.types[1]!) && ast.encoding === undefined
    ? ast.types[0]!
    : ast

type Parts = ReadonlyArray<readonly [PropertyKey | SchemaAST.AST | undefined, SchemaAST.AST]>

const partsOf = (ast: Container): Parts =>
  SchemaAST.isArrays(ast)
    ? [...ast.elements.map((part, i) => [i, part] as const), ...ast.rest.map((part) => [undefined, part] as const)]
    : [
      ...ast.propertySignatures.map((field) => [field.name, field.type] as const),
      ...ast.indexSignatures.map((index) => [index.parameter, index.type] as const)
    ]

type Relation = (ast: SchemaAST.AST, of: SchemaAST.AST) => boolean

/** A type that encodes to itself can be another node then. */
const isTypeOf: Relation = (ast, of) => {
  const type = SchemaAST.toType(of)
  return ast === type || ast === SchemaAST.toEncoded(type)
}

const isEncodedOf: Relation = (ast, of) => ast === SchemaAST.toEncoded(of)

/** Whether each part of a list or struct has a relation to that of another. */
const relates = (ast: Container, of: Container, relation: Relation): boolean => {
  const parts = partsOf(ast)
  const others = partsOf(of)
  return ast._tag === of._tag && parts.length === others.length &&
    parts.every(([key, part], i) => key === others[i]![0] && relation(part, others[i]![1]))
}

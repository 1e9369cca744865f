/**
 * What becomes of a schema in the store: which parts get keys of their own, and with which codecs they are written.
 * A plan says how to write; how to read says the store (`stored.ts`).
 *
 * 1. A struct or a class whose fields are stored as they are, and a record with string keys, are assigns. An array of
 *    structs with a string `id` is components. `null` or `undefined` beside one of them is allowed. All else is a term.
 * 2. A struct that is one of many, a record's entry or a list's item, is one key, so a term; unless there is a record
 *    or a list somewhere in it, or an annotation asks for it.
 * 3. A schema with a transformation of the whole (a rename, a conversion) is a term: its parts in the store are not the
 *    parts of its value. A default for reading is none (`defaults.ts`). Checks of the whole are kept: they run whenever a part changed, and on reading.
 * 4. Where a recursive schema comes back to itself, it is a term: keys do not grow with the depth of the data. So is
 *    what lies deeper than `NESTING_LIMIT`, or behind more suspended schemas than `SUSPENDED_LIMIT`.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import { type Codec, problemOf, reasonOfThrown, strictCodecOf } from "../data/codec.ts"
import { type Path, Refused } from "../data/problem.ts"
import { isA } from "../data/show.ts"
import { withoutDefault } from "./defaults.ts"
import { type Shape, shapeOf } from "./unknown.ts"

/** The annotation that overrides what becomes of a schema. */
export const ANNOTATION = "effect-dgen/StateCodec"

/** What an annotation can ask for. */
export type Override = "term" | "assigns" | "components"

/** Entries inside entries; each makes keys longer. */
const NESTING_LIMIT = 16

/** Suspended schemas inside each other: types that refer to each other in all ways have too many paths to plan each. */
const SUSPENDED_LIMIT = 2

/** Kept whole. */
export interface TermPlan {
  readonly kind: "term"
  /** What the schema knows of the value as plain data. */
  readonly shape: Shape
  readonly codec: Codec
}

/** How one entry is written: on its own, or, where `plan` is a term, with `codec` as an object of one entry. */
export interface Entry {
  readonly plan: Plan
  readonly codec: Codec
}

/** A key an entry. */
export interface AssignsPlan {
  readonly kind: "assigns"
  readonly shape: Shape
  /** The fields that the schema names, in its order. */
  readonly fields: ReadonlyMap<string, Entry>
  /** How other keys are written, if there may be any. */
  readonly rest: Entry | undefined
  /** Checks a key that `rest` does not. */
  readonly checkKey: ((key: string, path: Path) => void) | undefined
  /** The entries of a value. Throws `Refused` when the value is not one of this schema. */
  readonly open: (value: unknown, path: Path) => Record<string, unknown>
  /** The value of decoded entries. */
  readonly close: (entries: Record<string, unknown>, path: Path) => unknown
  readonly apart: boolean
}

/** A key an item. */
export interface ComponentsPlan {
  readonly kind: "components"
  readonly shape: Shape
  readonly codec: Codec
  readonly item: Plan
  readonly least: number
  readonly check: (value: unknown, path: Path) => void
  readonly apart: true
}

/** Assigns or components, or nothing. */
export interface MaybePlan {
  readonly kind: "maybe"
  readonly some: AssignsPlan | ComponentsPlan
  readonly none: TermPlan
}

export type Plan = TermPlan | AssignsPlan | ComponentsPlan | MaybePlan

/** The plan for a value: `null` and `undefined` are terms. */
export const planFor = (plan: Plan, value: unknown): TermPlan | AssignsPlan | ComponentsPlan =>
  plan.kind !== "maybe" ? plan : value === null || value === undefined ? plan.none : plan.some

type PureSchema = Schema.Codec<any, any, never, never>

/** The plan of a schema. Throws an `Error` when an annotation asks for what its schema cannot be. */
export const planOf = (schema: PureSchema): Plan =>
  planAst(schema.ast, { many: false, above: [], suspended: 0, path: [] })

interface Place {
  /** Whether the value is one of many (2). */
  readonly many: boolean
  readonly above: ReadonlyArray<SchemaAST.AST>
  readonly suspended: number
  readonly path: ReadonlyArray<string>
}

const schemaOf = (ast: SchemaAST.AST): PureSchema => Schema.make(ast)

const below = (place: Place, ast: SchemaAST.AST, name: string, many: boolean): Place => ({
  ...place,
  many,
  above: [...place.above, ast],
  path: [...place.path, name]
})

const overrideOf = (ast: SchemaAST.AST): Override | undefined => {
  // an annotation that comes behind a check lies on the check
  const onChecks = ast.checks?.map((check) => check.annotations?.[ANNOTATION]).findLast(Boolean)
  return (onChecks ?? ast.annotations?.[ANNOTATION]) as Override | undefined
}

const planAst = (ast: SchemaAST.AST, from: Place): Plan => {
  let override = overrideOf(ast)
  let target = ast
  let suspended = from.suspended
  while (SchemaAST.isSuspend(target) && target.encoding === undefined && suspended++ < SUSPENDED_LIMIT) {
    target = target.thunk()
    override ??= overrideOf(target)
  }
  target = withoutDefault(target)
  const place = { ...from, suspended }
  if (override === "term" || SchemaAST.isSuspend(target)) return term(ast)
  if (place.above.includes(target) || place.above.length >= NESTING_LIMIT) return term(ast)
  const plan = assigns(target, place, override === "assigns") ?? components(target, place) ?? maybe(target, place)
  const kind = plan === undefined ? "term" : plan.kind === "maybe" ? plan.some.kind : plan.kind
  if (override !== undefined && kind !== override) {
    const where = place.path.length === 0 ? "the state" : `the state at "${place.path.join(".")}"`
    throw new Error(
      override === "assigns"
        ? `StateCodec.assigns: ${where} is neither a struct nor a record with string keys, or it has a transformation`
        : `StateCodec.components: ${where} is not an array of structs with a string "id", or it has a transformation`
    )
  }
  if (plan === undefined || place.many && plan.kind === "assigns" && !plan.apart) return term(ast)
  return plan
}

const term = (ast: SchemaAST.AST): TermPlan => {
  const schema = schemaOf(ast)
  return {
    kind: "term",
    shape: shapeOf(schema),
    get codec() {
      return strictCodecOf(schema)
    }
  }
}

/** Whether a plan holds a record or a list (2). */
const isApart = (plan: Plan): boolean =>
  plan.kind === "maybe" ? plan.some.apart : plan.kind === "term" ? false : plan.apart

// --- assigns ---

/** The struct of a class: what `Schema.Class` makes, and nothing that converts its fields (3). */
const structOfClass = (ast: SchemaAST.AST): SchemaAST.Objects | undefined => {
  if (!SchemaAST.isDeclaration(ast) || ast.encodingChecks !== undefined || ast.typeParameters.length !== 1) return
  const link = ast.encoding?.length === 1 ? ast.encoding[0]! : undefined
  if (link?.transformation._tag !== "Transformation" || link.transformation.encode._tag !== "Passthrough") return
  return isStruct(link.to) ? link.to : undefined
}

const isStruct = (ast: SchemaAST.AST): ast is SchemaAST.Objects =>
  SchemaAST.isObjects(ast) && ast.encoding === undefined && ast.encodingChecks === undefined &&
  ast.propertySignatures.every((field) => typeof field.name === "string") &&
  ast.indexSignatures.every(({ parameter }) =>
    (SchemaAST.isString(parameter) || SchemaAST.isTemplateLiteral(parameter)) && parameter.encoding === undefined
  )

const assigns = (ast: SchemaAST.AST, place: Place, forced: boolean): AssignsPlan | undefined => {
  const struct = isStruct(ast) ? ast : structOfClass(ast)
  if (struct === undefined) return undefined
  const indexes = struct.indexSignatures
  const fields = new Map(struct.propertySignatures.map((field): [string, Entry] => {
    const name = field.name as string
    return [name, {
      // what an index says of a named field too is checked where the field is a term
      plan: indexes.length > 0 ? term(field.type) : planAst(field.type, below(place, ast, name, false)),
      codec: strictCodecOf(schemaOf(new SchemaAST.Objects([field], indexes)))
    }]
  }))
  const rest = indexes.length === 0 ? undefined : {
    plan: indexes.length > 1 ? term(indexes[0]!.type) : planAst(indexes[0]!.type, below(place, ast, "*", true)),
    codec: strictCodecOf(schemaOf(new SchemaAST.Objects([], indexes)))
  }
  return {
    kind: "assigns",
    shape: shapeOf(schemaOf(ast)),
    fields,
    rest,
    checkKey: rest === undefined ? undefined : keyCheck(indexes),
    ...(struct === ast ? ofStruct(struct) : ofClass(ast as SchemaAST.Declaration, struct)),
    apart: forced || rest !== undefined || [...fields.values()].some((field) => isApart(field.plan))
  }
}

const keyCheck = (indexes: ReadonlyArray<SchemaAST.IndexSignature>): AssignsPlan["checkKey"] => {
  if (indexes.every(({ parameter }) => SchemaAST.isString(parameter) && parameter.checks === undefined)) return
  const keys = new SchemaAST.Objects(
    [],
    indexes.map(({ parameter }) => new SchemaAST.IndexSignature(parameter, SchemaAST.unknown))
  )
  const codec = strictCodecOf(schemaOf(keys))
  return (key, path) => void encode(codec, { [key]: null }, path)
}

const ofStruct = (struct: SchemaAST.Objects): Pick<AssignsPlan, "open" | "close"> => {
  const check = checkOf(struct.checks)
  const whole = schemaOf(struct)
  return {
    open: (value, path) => {
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw refusal(strictCodecOf(whole), value, path)
      }
      check(value, path)
      return value as Record<string, unknown>
    },
    close: (entries, path) => {
      check(entries, path)
      return entries
    }
  }
}

/** A class is opened and closed with its own schema, the types of its fields left out. */
const ofClass = (ast: SchemaAST.Declaration, struct: SchemaAST.Objects): Pick<AssignsPlan, "open" | "close"> => {
  const optional = new SchemaAST.Unknown(undefined, undefined, undefined, new SchemaAST.Context(true, false))
  const fields = new SchemaAST.Objects(
    struct.propertySignatures.map((field) =>
      new SchemaAST.PropertySignature(field.name, SchemaAST.isOptional(field.type) ? optional : SchemaAST.unknown)
    ),
    struct.indexSignatures.map((index) => new SchemaAST.IndexSignature(index.parameter, SchemaAST.unknown)),
    undefined,
    struct.checks
  )
  const schema = schemaOf(
    new SchemaAST.Declaration(
      ast.typeParameters,
      ast.run,
      ast.annotations,
      ast.checks,
      [new SchemaAST.Link(fields, ast.encoding![0].transformation)],
      undefined,
      undefined,
      ast.encodingRun
    )
  )
  const open = Schema.encodeUnknownResult(schema, { onExcessProperty: "error" })
  const close = Schema.decodeUnknownResult(schema)
  return {
    open: (value, path) => settle(() => Result.mapError(open(value), problemOf), path) as Record<string, unknown>,
    close: (entries, path) => settle(() => Result.mapError(close(entries), problemOf), path)
  }
}

/** Runs checks of a whole on a value whose parts are known to be good. */
const checkOf = (checks: SchemaAST.Checks | undefined): (value: unknown, path: Path) => void => {
  if (checks === undefined) return () => {}
  const codec = strictCodecOf(schemaOf(new SchemaAST.Any(undefined, checks)))
  return (value, path) => void decode(codec, value, path)
}

// --- components ---

/** Whether all values of a schema are structs with a string `id` that is stored as it is. */
const hasId = (ast: SchemaAST.AST, above: ReadonlyArray<SchemaAST.AST>): boolean => {
  if (above.includes(ast) || above.length >= NESTING_LIMIT) return false
  if (SchemaAST.isSuspend(ast)) return ast.encoding === undefined && hasId(ast.thunk(), [...above, ast])
  if (SchemaAST.isUnion(ast)) {
    return ast.encoding === undefined && ast.types.length > 0 && ast.types.every((type) => hasId(type, [...above, ast]))
  }
  const id = (isStruct(ast) ? ast : structOfClass(ast))?.propertySignatures.find((field) => field.name === "id")?.type
  return id !== undefined && (SchemaAST.isString(id) || SchemaAST.isTemplateLiteral(id)) && id.encoding === undefined &&
    !SchemaAST.isOptional(id)
}

const components = (ast: SchemaAST.AST, place: Place): ComponentsPlan | undefined => {
  if (!SchemaAST.isArrays(ast) || ast.encoding !== undefined || ast.encodingChecks !== undefined) return undefined
  const item = ast.rest[0]
  if (item === undefined || ast.rest.length > 1 || !ast.elements.every((element) => element === item)) return undefined
  if (!hasId(item, [])) return undefined
  const whole = schemaOf(ast)
  return {
    kind: "components",
    shape: shapeOf(whole),
    get codec() {
      return strictCodecOf(whole)
    },
    item: planAst(item, below(place, ast, "*", true)),
    least: ast.elements.length,
    check: checkOf(ast.checks),
    apart: true
  }
}

const maybe = (ast: SchemaAST.AST, place: Place): MaybePlan | undefined => {
  if (!SchemaAST.isUnion(ast) || ast.encoding !== undefined || ast.encodingChecks !== undefined) return undefined
  const types = ast.types.filter((type) => !SchemaAST.isNull(type) && !SchemaAST.isUndefined(type))
  if (types.length !== 1 || ast.checks !== undefined || ast.types.length === 1) return undefined
  const some = planAst(types[0]!, place)
  return some.kind === "term" || some.kind === "maybe" ? undefined : { kind: "maybe", some, none: term(ast) }
}

// --- codecs ---

/** Encodes, or throws `Refused`. */
export const encode = (codec: Codec, value: unknown, path: Path): unknown => settle(() => codec.encode(value), path)

/** Decodes, or throws `Refused`. */
export const decode = (codec: Codec, data: unknown, path: Path): unknown => settle(() => codec.decode(data), path)

/** A transformation of the user's can throw, and deep data can exhaust the stack: both refuse the value. */
const settle = (
  run: () => Result.Result<unknown, { readonly field: string; readonly problem: string }>,
  path: Path
): unknown => {
  let result: ReturnType<typeof run>
  try {
    result = run()
  } catch (cause) {
    throw new Refused(path, `its schema threw: ${reasonOfThrown(cause)}`)
  }
  if (Result.isSuccess(result)) return result.success
  const { field, problem } = result.failure
  throw new Refused(field === "" ? path : [...path, ...field.split(".")], problem)
}

/** What a schema says of a value that it cannot take. */
export const refusal = (codec: Codec, value: unknown, path: Path): Refused => {
  try {
    encode(codec, value, path)
  } catch (cause) {
    if (isA(cause, Refused)) return cause
  }
  return new Refused(path, "the value does not fit its schema")
}

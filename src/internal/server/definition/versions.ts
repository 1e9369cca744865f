/**
 * States that change their shape: the schemas that a state has had, oldest first, and the pure steps from one to the next.
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { show } from "../../data/show.ts"

/** A schema whose codec needs no service. */
type PureSchema = Schema.Codec<any, any, never, never>

const TypeId = "~effect-dgen/DgenServer/StateVersions"

/**
 * The versions of a state: what `DgenServer.versions` begins, and `to` adds to.
 *
 * @since 0.2.0
 * @category models
 */
export interface StateVersions<out S extends PureSchema> {
  readonly [TypeId]: ReadonlyArray<PureSchema>
  /** The newest one: the state's type is its type. */
  readonly schema: S
  /** What makes each version of the one before it. */
  readonly steps: ReadonlyArray<(state: any) => unknown>
  /**
   * Adds a version: its schema, and a pure function that makes a state of it from one of the version before. Fields that
   * the function leaves over from the older state are dropped.
   */
  readonly to: <N extends PureSchema>(schema: N, step: (state: S["Type"]) => N["Type"]) => StateVersions<N>
}

const make = <S extends PureSchema>(
  schemas: ReadonlyArray<PureSchema>,
  schema: S,
  steps: ReadonlyArray<(state: any) => unknown>
): StateVersions<S> => {
  if (!Schema.isSchema(schema)) {
    throw new TypeError(`DgenServer.versions: version ${schemas.length + 1} must be a schema, not ${show(schema)}`)
  }
  const all = [...schemas, schema]
  return {
    [TypeId]: all,
    schema,
    steps,
    to: (next, step) => {
      if (!Predicate.isFunction(step)) {
        const ends = `from ${all.length} to ${all.length + 1}`
        throw new TypeError(`DgenServer.versions: the step ${ends} must be a function, not ${show(step)}`)
      }
      return make(all, next, [...steps, step])
    }
  }
}

/** The first version of a state. */
export const versions = <S extends PureSchema>(schema: S): StateVersions<S> => make([], schema, [])

export const isVersions = (value: unknown): value is StateVersions<PureSchema> => Predicate.hasProperty(value, TypeId)

/** The schemas, oldest first. */
export const schemasOf = (value: StateVersions<PureSchema>): ReadonlyArray<PureSchema> => value[TypeId]

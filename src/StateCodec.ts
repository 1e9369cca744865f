/**
 * How a server's state lies in the store. A codec reads and writes one value under a prefix, as part of a transaction,
 * and an update writes only what changed.
 *
 * The schema of a state says how it is split:
 *
 * - *assigns*: a `Struct`, a `Class`, or a `Record` with string keys. A key an entry.
 * - *components*: an array of structs (or classes, or unions of them) with a string `id`. A key an item, and one for its
 *   place in the list, so that moving an item writes its place alone.
 * - *term*: all else. The value as a whole, in pieces that fit a value of the store.
 *
 * These nest: a list in a struct has its items in keys of their own. A struct that is one of many, a record's entry or
 * a list's item, is kept whole, unless a record or a list is somewhere in it. A schema with a transformation of the
 * whole, and the inner levels of a recursive schema, are terms. `term`, `assigns` and `components` annotate a schema to
 * choose otherwise.
 *
 * What is guaranteed: how a part is stored is written with it, so a state is read as it was written, also after its
 * schema became another kind; the part takes its new form when it next changes. Checks of a whole struct or list run
 * whenever a part of it changed, and on every read. State that does not fit its schema is refused with its path, and
 * nothing is written.
 *
 * What the schema at hand does not know, a newer version's entry, item field or record entry, stays as it is: entries as
 * they lie, and fields inside of other parts with what is written in their place, as deep as the schema has structs. In a
 * list whose items have no `id`, they go with the item of the same content, or at the same place.
 *
 * What the user owes: a state is never changed in place. Parts that are the same objects as before are taken to be
 * unchanged; so a handler that wants little written changes little, and keeps the other objects.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { strictCodecOf } from "./internal/data/codec.ts"
import { Refused } from "./internal/data/problem.ts"
import { isA } from "./internal/data/show.ts"
import { messageOfThrown } from "./internal/data/thrown.ts"
import { type Form, formOf } from "./internal/state/form.ts"
import { merge } from "./internal/state/merge.ts"
import { ANNOTATION, decode, type Override, type Plan, planOf } from "./internal/state/plan.ts"
import { parseRows, plainOf } from "./internal/state/stored.ts"
import { writeValue } from "./internal/state/write.ts"
import { clearBelow, Writes } from "./internal/state/writes.ts"
import { Transaction } from "./Transaction.ts"
import * as Tuple from "./Tuple.ts"

const TypeId = "~effect-dgen/StateCodec/Stored"

/**
 * The state in the store, or the state to be written, does not fit its schema: `field` is where (names of entries, ids
 * or positions of items, with dots between), `problem` what, `server` whose state it is, where it is a server's.
 *
 * @since 0.1.0
 * @category errors
 */
export class StateError extends Schema.TaggedError<StateError>("effect-dgen/StateError")("StateError", {
  operation: Schema.Literals(["encode", "decode"]),
  field: Schema.String,
  problem: Schema.String,
  server: Schema.optionalKey(Schema.String),
  tuid: Schema.optionalKey(Schema.String)
}) {
  override get message(): string {
    const whose = this.server === undefined ? "the state" : `${[this.server, this.tuid].join(" ").trim()}: the state`
    const where = this.field === "" ? whose : `${whose} at "${this.field}"`
    return this.operation === "decode"
      ? `${where} in the store does not fit its schema: ${this.problem}. Change the schema so that it reads old data`
      : `${where} does not fit its schema: ${this.problem}`
  }
}

/**
 * A value as it is in the store. Besides the value it knows how each part is stored; whoever keeps it can write a new
 * value over it without reading again, as long as the store still has what it had then.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stored<out A> {
  readonly [TypeId]: unknown
  readonly value: A
}

/**
 * Reads and writes one value under a prefix.
 *
 * @since 0.1.0
 * @category models
 */
export interface StateCodec<A> {
  /**
   * What is under a prefix; `undefined` when there is nothing. Fails with `StateError` when it does not fit the schema.
   */
  readonly read: (prefix: Uint8Array) => Effect.Effect<Stored<A> | undefined, StateError, Transaction>
  /**
   * Writes a value under a prefix over what was read or written there last; with `undefined` it replaces whatever is
   * there. Parts of the value that are the same objects as in `previous` are neither looked at nor written. Succeeds
   * with what a `read` gives from then on; fails with `StateError`, and writes nothing, when the value does not fit
   * the schema.
   */
  readonly write: (
    prefix: Uint8Array,
    previous: Stored<A> | undefined,
    value: A
  ) => Effect.Effect<Stored<A>, StateError, Transaction>
  /**
   * Writes a value in place of whatever is under a prefix, comparing with it key by key: for a value that was not read
   * there with this codec. Fails with `StateError`, and writes nothing, when the value does not fit the schema; writes
   * nothing and succeeds with `undefined` when the difference does not fit a transaction.
   */
  readonly replace: (prefix: Uint8Array, value: A) => Effect.Effect<Stored<A> | undefined, StateError, Transaction>
  /**
   * What two changes of `base` come to together: `mine`, and the one that made `fresh` of it. Changes of different
   * entries go together; where both changed one entry, or the order of one list, there is none. Fails with `StateError`
   * when `mine` does not fit the schema.
   */
  readonly merge: (base: A, mine: A, fresh: A) => Effect.Effect<Option.Option<A>, StateError>
}

/** What a replaced state may write: it leaves room in a transaction for what else it does. */
const REPLACED_LIMIT_BYTES = 8_000_000

const compiled = new WeakMap<object, StateCodec<any>>()

/**
 * The codec of a schema. Throws an `Error` when an annotation asks for what its schema cannot be.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <A, I>(schema: Schema.Codec<A, I, never, never>): StateCodec<A> => {
  let codec: StateCodec<A> | undefined = compiled.get(schema)
  if (codec === undefined) compiled.set(schema, codec = compile(schema))
  return codec
}

const compile = <A, I>(schema: Schema.Codec<A, I, never, never>): StateCodec<A> => {
  const plan = planOf(schema)
  const whole = strictCodecOf(schema)
  return {
    read: (prefix) =>
      Effect.flatMap(Transaction, (state) => {
        const { begin, end } = Tuple.range([], prefix)
        return Effect.flatMap(state.getRange(begin, end), (rows) => {
          if (rows.length === 0) return Effect.undefined
          return settle("decode", () => {
            const stored = parseRows(rows, prefix)
            return storedOf<A>(formOf(plan, stored, decode(whole, plainOf(stored, []), []), []))
          })
        })
      }),
    write: (prefix, previous, value) =>
      Effect.flatMap(Transaction, (state) =>
        settle("encode", () => {
          const writes = new Writes(state.prefix)
          const form = written(writes, plan, prefix, previous, value)
          writes.apply(state)
          return previous !== undefined && previous[TypeId] === form ? previous : storedOf<A>(form)
        })),
    replace: (prefix, value) =>
      Effect.flatMap(Transaction, (state) => {
        const { begin, end } = Tuple.range([], prefix)
        return Effect.flatMap(state.getRange(begin, end), (rows) =>
          settle("encode", () => {
            const writes = new Writes(state.prefix)
            const form = writeValue(writes, plan, prefix, undefined, value, [])
            return writes.replace(state, rows, REPLACED_LIMIT_BYTES) ? storedOf<A>(form) : undefined
          }))
      }),
    merge: (base, mine, fresh) => settle("encode", () => merge(plan, base, mine, fresh, []) as Option.Option<A>)
  }
}

const written = (
  writes: Writes,
  plan: Plan,
  prefix: Uint8Array,
  previous: Stored<unknown> | undefined,
  value: unknown
): Form => {
  if (previous === undefined) clearBelow(writes, prefix)
  return writeValue(writes, plan, prefix, previous?.[TypeId] as Form | undefined, value, [])
}

const storedOf = <A>(form: Form): Stored<A> => ({ [TypeId]: form, value: form.value as A })

const settle = <A>(operation: "encode" | "decode", evaluate: () => A): Effect.Effect<A, StateError> =>
  Effect.fromResult(Result.try({
    try: evaluate,
    catch: (cause) => {
      if (isA(cause, Refused)) return new StateError({ operation, field: cause.field, problem: cause.problem })
      // what is read then is ours; what is written is a program's, and can throw when it is looked at
      if (operation === "decode") throw cause
      return new StateError({ operation, field: "", problem: `it threw when it was read: ${messageOfThrown(cause)}` })
    }
  }))

const override = (kind: Override) => <S extends Schema.Top>(schema: S): S["Rebuild"] =>
  schema.annotate({ [ANNOTATION]: kind })

/**
 * Keeps values of a schema whole, whatever it is: for parts that are small, or change as a whole anyway.
 *
 * **Example** (A point in one key)
 *
 * ```ts import.meta.vitest
 * import { Schema } from "effect"
 * import { StateCodec } from "effect-dgen"
 *
 * const State = Schema.Struct({
 *   position: StateCodec.term(Schema.Struct({ x: Schema.Finite, y: Schema.Finite })),
 *   log: Schema.Array(Schema.Struct({ id: Schema.String, line: Schema.String }))
 * })
 *
 * State.make({ position: { x: 1, y: 2 }, log: [] }).position
 * // => { x: 1, y: 2 }
 * ```
 *
 * @since 0.1.0
 * @category annotations
 */
export const term: <S extends Schema.Top>(schema: S) => S["Rebuild"] = override("term")

/**
 * Gives each entry of a struct, a class or a record a key of its own, also where it is one of many and would be kept
 * whole: for entries that are large. `make` throws when the schema has a transformation of the whole, or is something
 * else.
 *
 * **Example** (Documents whose text is not written again with their title)
 *
 * ```ts import.meta.vitest
 * import { Schema } from "effect"
 * import { StateCodec } from "effect-dgen"
 *
 * const Document = Schema.Struct({ id: Schema.String, title: Schema.String, text: Schema.String })
 * const State = Schema.Struct({ documents: Schema.Array(StateCodec.assigns(Document)) })
 *
 * State.make({ documents: [] })
 * // => { documents: [] }
 * ```
 *
 * @since 0.1.0
 * @category annotations
 */
export const assigns: <S extends Schema.Top>(schema: S) => S["Rebuild"] = override("assigns")

/**
 * Says that a list must be kept as components, so that `make` throws when it cannot be: because its items have no
 * string `id` that is stored as it is, or the list has a transformation.
 *
 * **Example** (A list that must stay cheap to change)
 *
 * ```ts import.meta.vitest
 * import { Schema } from "effect"
 * import { StateCodec } from "effect-dgen"
 *
 * const Todo = Schema.Struct({ id: Schema.String, title: Schema.String })
 * const State = Schema.Struct({ todos: StateCodec.components(Schema.Array(Todo)) })
 *
 * State.make({ todos: [{ id: "1", title: "write" }] }).todos.length
 * // => 1
 * ```
 *
 * @since 0.1.0
 * @category annotations
 */
export const components: <S extends Schema.Top>(schema: S) => S["Rebuild"] = override("components")

/**
 * How a server's state lies in the store. A codec reads and writes one value under a prefix, as part of a transaction.
 *
 * `term` keeps the value whole, cut into pieces that fit a value of the store; it is rewritten when it changes.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { codecOf, packValue, unpackValue } from "./internal/codec.ts"
import * as Keys from "./internal/keys.ts"
import { Transaction } from "./Transaction.ts"
import * as Tuple from "./Tuple.ts"

/** A piece of a term: below a value's limit, and a round number (source document, section 4.5). */
const TERM_PIECE_BYTES = 90_000

/**
 * The state in the store, or the state to be written, does not fit its schema: `field` is where, `problem` what.
 *
 * @since 0.1.0
 * @category errors
 */
export class StateError extends Schema.TaggedError<StateError>("effect-dgen/StateError")("StateError", {
  operation: Schema.Literals(["encode", "decode"]),
  field: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    const where = this.field === "" ? "the state" : `the state at "${this.field}"`
    return this.operation === "decode"
      ? `${where} in the store does not fit its schema: ${this.problem}. Change the schema so that it reads old data`
      : `${where} does not fit its schema: ${this.problem}`
  }
}

/**
 * Reads and writes one value under a prefix.
 *
 * @since 0.1.0
 * @category models
 */
export interface StateCodec<A> {
  /** The value under a prefix; `undefined` when there is none. */
  readonly read: (prefix: Uint8Array) => Effect.Effect<A | undefined, StateError, Transaction>
  /**
   * Writes a value under a prefix over the `previous` one (`undefined` when there was none), and succeeds with what
   * a `read` gives from then on.
   */
  readonly write: (prefix: Uint8Array, previous: A | undefined, value: A) => Effect.Effect<A, StateError, Transaction>
}

const fail = (operation: "encode" | "decode") => (error: { readonly field: string; readonly problem: string }) =>
  new StateError({ operation, ...error })

/**
 * A codec that keeps the value whole (source document, section 4.5, "Term").
 *
 * @since 0.1.0
 * @category constructors
 */
export const term = <A, I>(schema: Schema.Codec<A, I, never, never>): StateCodec<A> => {
  const codec = codecOf(schema)
  return {
    read: (prefix) =>
      Effect.flatMap(Transaction, (state) => {
        const { begin, end } = Tuple.range([], prefix)
        return Effect.flatMap(state.getRange(begin, end), (rows) => {
          if (rows.length === 0) return Effect.undefined
          const bytes = Keys.concatAll(rows.map((row) => row.value))
          const decoded = Result.flatMap(
            Result.mapError(unpackValue(bytes), (problem) => ({ field: "", problem })),
            codec.decode
          )
          return Effect.fromResult(Result.mapError(decoded, fail("decode"))) as Effect.Effect<A, StateError>
        })
      }),
    write: (prefix, _previous, value) =>
      Effect.flatMap(Transaction, (state) => {
        const encoded = codec.encode(value)
        if (Result.isFailure(encoded)) return Effect.fail(fail("encode")(encoded.failure))
        const bytes = packValue(encoded.success)
        const { end } = Tuple.range([], prefix)
        const pieces = Math.max(1, Math.ceil(bytes.length / TERM_PIECE_BYTES))
        state.clearRange(Tuple.pack([pieces], prefix), end)
        for (let i = 0; i < pieces; i++) {
          state.set(Tuple.pack([i], prefix), bytes.subarray(i * TERM_PIECE_BYTES, (i + 1) * TERM_PIECE_BYTES))
        }
        return Effect.fromResult(Result.mapError(codec.decode(encoded.success), fail("encode"))) as Effect.Effect<
          A,
          StateError
        >
      })
  }
}

/**
 * Values of a schema as bytes: the schema's JSON form as plain MessagePack. The bytes are read back by other processes
 * and later versions, so nothing of this process gets into them; hostile bytes are refused with a problem, never
 * thrown.
 */
import * as Cause from "effect/Cause"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { packPlain, unpackPlain } from "./plain.ts"
import { Refused } from "./problem.ts"
import { hiderOf, leadsToRedacted } from "./redaction.ts"
import { isA, reading } from "./show.ts"
import { printable } from "./text.ts"
import { messageOfThrown } from "./thrown.ts"

/** Plain data as MessagePack, or what cannot be kept of it. */
export const packData = (value: unknown): Result.Result<Uint8Array, Problem> => refusing(() => packPlain(value, []))

/** What this library itself made as MessagePack: it can always be kept. */
export const packValue = (value: unknown): Uint8Array => packPlain(value, [])

/** MessagePack as plain data, or what is wrong with the bytes. */
export const unpackValue = (bytes: Uint8Array): Result.Result<unknown, string> => unpack(bytes, false)

/** The same for what this library keeps for itself: bytes in it are views, and nobody changes them. */
export const unpackOwn = (bytes: Uint8Array): Result.Result<unknown, string> => unpack(bytes, true)

const unpack = (bytes: Uint8Array, givesViews: boolean): Result.Result<unknown, string> =>
  Result.mapError(refusing(() => unpackPlain(bytes, [], givesViews)), ({ problem }) => problem)

const refusing = <A>(run: () => A): Result.Result<A, Problem> =>
  Result.try({
    try: run,
    catch: (cause) => {
      return isA(cause, Refused)
        ? { field: cause.field, problem: cause.problem }
        : { field: "", problem: `it threw when it was read: ${messageOfThrown(cause)}` }
    }
  })

/** Where in a value something is wrong, and what. */
export interface Problem {
  readonly field: string
  readonly problem: string
  /** Whether the schema's own code threw. */
  readonly threw?: boolean
}

/** A schema's codec, compiled once. */
export interface Codec {
  /** To plain data. Never throws. */
  readonly encode: (value: unknown) => Result.Result<unknown, Problem>
  /** From plain data. Never throws. */
  readonly decode: (data: unknown) => Result.Result<unknown, Problem>
}

type AnySchema = Schema.Codec<any, any, never, never>

const strict = new WeakMap<object, Codec>()
const lenient = new WeakMap<object, Codec>()

/** The codec of a state's schema, compiled once: properties that it does not know are refused, since they would be lost. */
export const strictCodecOf = (schema: AnySchema): Codec => {
  let codec = strict.get(schema)
  if (codec === undefined) {
    const json = Schema.toCodecJson(schema)
    codec = {
      encode: problems(schema, Schema.encodeUnknownResult(json, { onExcessProperty: "error" })),
      decode: problems(schema, Schema.decodeUnknownResult(json), (data) => hiderOf(schema)?.(data))
    }
    strict.set(schema, codec)
  }
  return codec
}

/**
 * The codec of what is sent, compiled once: properties that the schema does not know are left out, as Effect does by
 * default. They count only where they tell the members of a union apart.
 */
export const codecOf = (schema: AnySchema): Codec => {
  let codec = lenient.get(schema)
  if (codec === undefined) {
    const { decode, encode } = strictCodecOf(schema)
    const without = problems(schema, Schema.encodeUnknownResult(Schema.toCodecJson(schema)))
    codec = { encode: (value) => Result.orElse(encode(value), () => without(value)), decode }
    lenient.set(schema, codec)
  }
  return codec
}

/** What was thrown, also where Effect's adapter for schemas has wrapped it. */
export const reasonOfThrown = (thrown: unknown): string =>
  messageOfThrown(
    reading(() => thrown instanceof Error && Cause.isCause(thrown.cause), false)
      ? Cause.squash((thrown as Error).cause as Cause.Cause<unknown>)
      : thrown
  )

const checkers = new WeakMap<object, (value: unknown) => Result.Result<unknown, Problem>>()

/** What tells whether a value is one of a schema, without encoding it. */
export const checkerOf = (
  schema: AnySchema
): (value: unknown) => Result.Result<unknown, Problem> => {
  let check = checkers.get(schema)
  if (check === undefined) {
    check = problems(schema, Schema.decodeUnknownResult(Schema.toType(schema)))
    checkers.set(schema, check)
  }
  return check
}

/**
 * Schemas run code of their users, and values of programs without types can throw when they are looked at. What they say
 * of redacted parts can tell what is in them, and is not passed on; `shown` hides these in plain data.
 */
const problems = (
  schema: AnySchema,
  run: (value: unknown) => Result.Result<unknown, { readonly message: string }>,
  shown: (value: unknown) => unknown = (value) => value
) =>
(value: unknown): Result.Result<unknown, Problem> => {
  const hides = () => reading(() => hiderOf(schema) !== undefined, true)
  try {
    return Result.mapError(run(value), (error) => {
      const found = problemOf(error)
      return hides() && leadsToRedacted(shown(value), found.field)
        ? { field: found.field, problem: "it is redacted, and does not fit its schema" }
        : found
    })
  } catch (cause) {
    const reason = hides() ? "parts of it are redacted, so what was thrown is not shown" : reasonOfThrown(cause)
    return Result.fail({ field: "", problem: `its schema threw: ${reason}`, threw: true })
  }
}

/** Enough of what a schema says, whose checks can have texts of their users. */
const SHOWN_CHARS = 1_000

/** What a schema says is wrong. */
export const problemOf = (error: { readonly message: string }): Problem => {
  const at = /\n\s+at (.*)$/.exec(error.message)
  const path = at?.[1]?.replace(/^\[|\]$/g, "").replaceAll("][", ".").replaceAll("\"", "")
  return { field: printable(path ?? "", SHOWN_CHARS), problem: printable(error.message.split("\n")[0]!, SHOWN_CHARS) }
}

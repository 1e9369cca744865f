/**
 * Values of a schema as bytes: the schema's JSON form as plain MessagePack. The bytes are read back by other processes
 * and later versions, so nothing of this process gets into them; hostile bytes are refused with a problem, never
 * thrown.
 */
import * as Cause from "effect/Cause"
import * as Formatter from "effect/Formatter"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { packPlain, unpackPlain } from "./plain.ts"
import { Refused } from "./problem.ts"

/** Plain data as MessagePack, or what cannot be kept of it. */
export const packData = (value: unknown): Result.Result<Uint8Array, Problem> => refusing(() => packPlain(value, []))

/** What this library itself made as MessagePack: it can always be kept. */
export const packValue = (value: unknown): Uint8Array => packPlain(value, [])

/** MessagePack as plain data, or what is wrong with the bytes. */
export const unpackValue = (bytes: Uint8Array): Result.Result<unknown, string> =>
  Result.mapError(refusing(() => unpackPlain(bytes, [])), ({ problem }) => problem)

const refusing = <A>(run: () => A): Result.Result<A, Problem> =>
  Result.try({
    try: run,
    catch: (cause) => {
      if (cause instanceof Refused) return { field: cause.field, problem: cause.problem }
      throw cause
    }
  })

/** Where in a value something is wrong, and what. */
export interface Problem {
  readonly field: string
  readonly problem: string
}

/** A schema's codec, compiled once. */
export interface Codec {
  /** To plain data. Never throws. */
  readonly encode: (value: unknown) => Result.Result<unknown, Problem>
  /** From plain data. Never throws. */
  readonly decode: (data: unknown) => Result.Result<unknown, Problem>
}

const compiled = new WeakMap<object, Codec>()

/** The codec of a schema; properties that it does not know are refused, not dropped. */
export const codecOf = (schema: Schema.Codec<any, any, never, never>): Codec => {
  let codec = compiled.get(schema)
  if (codec === undefined) {
    const json = Schema.toCodecJson(schema)
    const encode = Schema.encodeUnknownResult(json, { onExcessProperty: "error" })
    const decode = Schema.decodeUnknownResult(json)
    codec = {
      encode: (value) => settle(() => encode(value)),
      decode: (data) => settle(() => decode(data))
    }
    compiled.set(schema, codec)
  }
  return codec
}

/** What a schema says; a transformation of the user's can throw, and deep data can exhaust the stack. */
const settle = (
  run: () => Result.Result<unknown, { readonly message: string }>
): Result.Result<unknown, Problem> => {
  try {
    return Result.mapError(run(), problemOf)
  } catch (thrown) {
    return Result.fail({ field: "", problem: `its schema threw: ${textOfThrown(thrown)}` })
  }
}

/** What was thrown, also where Effect's adapter for schemas has wrapped it. */
export const textOfThrown = (thrown: unknown): string => {
  const inner = thrown instanceof Error && Cause.isCause(thrown.cause) ? Cause.squash(thrown.cause) : thrown
  return textOf(inner)
}

/** Anything as text for people. */
export const textOf = (value: unknown): string => typeof value === "string" ? value : Formatter.format(value)

/** What a schema says is wrong. */
export const problemOf = (error: { readonly message: string }): Problem => {
  const at = /\n\s+at (.*)$/.exec(error.message)
  const path = at?.[1]?.replace(/^\[|\]$/g, "").replaceAll("][", ".").replaceAll("\"", "")
  return { field: path ?? "", problem: error.message.split("\n")[0]! }
}

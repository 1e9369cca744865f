/**
 * Pages: how long they may be, and where the next one begins. A cursor is a text that only a page gives; one of another
 * list, or none, is refused.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Tuple from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import { show } from "../data/show.ts"
import { InvalidOption } from "./errors.ts"

/** The options of an operation: an object, or none. */
export const optionsOf = <O extends object>(options: O | undefined): Effect.Effect<O, InvalidOption> =>
  options === undefined || Predicate.isObject(options)
    ? Effect.succeed(options ?? {} as O)
    : refuse("options", `must be an object, not ${show(options)}`)

export const refuse = (option: string, problem: string): Effect.Effect<never, InvalidOption> =>
  Effect.fail(new InvalidOption({ option, problem }))

/** A checked limit. */
export const limitOf = (
  limit: unknown,
  fallback: number,
  most: number,
  option = "limit"
): Effect.Effect<number, InvalidOption> =>
  limit === undefined
    ? Effect.succeed(fallback)
    : Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= most
    ? Effect.succeed(limit as number)
    : refuse(option, `must be a whole number from 1 to ${most}, not ${show(limit)}`)

/** A checked duration in milliseconds. */
export const millisOf = (
  option: string,
  input: Duration.Input | undefined,
  fallback: number
): Effect.Effect<number, InvalidOption> =>
  Effect.suspend(() => {
    if (input === undefined) return Effect.succeed(fallback)
    const duration = Option.getOrUndefined(Duration.fromInput(input))
    const millis = duration === undefined ? Number.NaN : Duration.toMillis(duration)
    return millis >= 0 ? Effect.succeed(millis) : refuse(option, `must be a duration, not ${show(input)}`)
  })

/** Where a page begins: behind the key that a cursor names, within a range. */
export const beginOf = (
  { begin, end }: Tuple.KeyRange,
  prefix: Uint8Array,
  after: unknown
): Effect.Effect<Uint8Array, InvalidOption> => {
  if (after === undefined) return Effect.succeed(begin)
  if (typeof after !== "string" || !/^([0-9a-f]{2})*$/.test(after) || after.length > 2 * KEY_LIMIT_BYTES) {
    return refuse("after", `must be the "next" of a page, not ${show(after)}`)
  }
  const from = Keys.concat(prefix, new Uint8Array(Buffer.from(after, "hex")))
  if (Tuple.compareBytes(from, begin) < 0) return Effect.succeed(begin)
  return Effect.succeed(Tuple.compareBytes(from, end) < 0 ? from : end)
}

/** Longer than any key. */
const KEY_LIMIT_BYTES = 10_001

/** The cursor of a key: what follows begins there. */
export const cursorAt = (key: Uint8Array, prefix: Uint8Array): string =>
  Buffer.from(key.subarray(prefix.length)).toString("hex")

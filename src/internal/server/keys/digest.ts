/**
 * What a key is compared by: the message's name and its payload in canonical form, as whoever handles it understands them.
 * Defaults are filled in, properties are in the order of their names, and what the schema does not know is left out.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { hash } from "node:crypto"
import { codecOf, packData } from "../../data/codec.ts"
import type { Message } from "../definition/model.ts"

const canonical = (data: unknown): unknown => {
  if (Array.isArray(data)) return data.map(canonical)
  if (data === null || typeof data !== "object" || data instanceof Uint8Array) return data
  return Predicate.isObject(data)
    ? Object.keys(data).sort().map((name) => [name, canonical((data as Record<string, unknown>)[name])])
    : data
}

/** The digest of a message; `sent` is its payload as it came, for schemas that do not encode what they decoded. */
export const digestOf = (message: Message, payload: unknown, sent: unknown): Uint8Array => {
  const data = message.payload === undefined
    ? null
    : Result.getOrElse(codecOf(message.payload).encode(payload), () => sent)
  const packed = Result.getOrElse(packData([message.tag, canonical(data)]), () => new Uint8Array(0))
  return new Uint8Array(hash("sha256", packed, "buffer"))
}

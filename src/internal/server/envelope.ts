/**
 * A message in the queue: `[format, tag, payload, from, trace]` as MessagePack, cut into pieces where it is long.
 * Decoders refuse what they do not know with a problem: bytes in a store can come from any version.
 */
import * as Result from "effect/Result"
import type * as Tuple from "../../Tuple.ts"
import { packValue, unpackValue } from "../codec.ts"
import type { From } from "./model.ts"

const FORMAT = 1

/** Where a call's answer goes: the waiting layer, the call's number there, and when it was made. */
export interface Caller {
  readonly instance: Uint8Array
  readonly id: number
  readonly millis: number
}

/** A message as it is queued; the payload is plain data. */
export interface Envelope {
  readonly tag: string
  readonly payload: unknown
  readonly caller: Caller | undefined
}

/** The bytes of a message. */
export const encode = (envelope: Envelope): Uint8Array =>
  packValue([
    FORMAT,
    envelope.tag,
    envelope.payload ?? null,
    envelope.caller === undefined
      ? null
      : [Buffer.from(envelope.caller.instance), envelope.caller.id, envelope.caller.millis]
  ])

/** The message of bytes, or what is wrong with them. */
export const decode = (bytes: Uint8Array): Result.Result<Envelope, string> =>
  Result.flatMap(unpackValue(bytes), (data): Result.Result<Envelope, string> => {
    if (!Array.isArray(data) || data[0] !== FORMAT) return Result.fail("not a message of this version")
    const [, tag, payload, caller] = data as Array<unknown>
    if (typeof tag !== "string") return Result.fail("a message without a name")
    if (caller === null || caller === undefined) return Result.succeed({ tag, payload, caller: undefined })
    if (!Array.isArray(caller)) return Result.fail("a message with an unknown caller")
    const [instance, id, millis] = caller as Array<unknown>
    if (!(instance instanceof Uint8Array) || !Number.isSafeInteger(id) || !Number.isSafeInteger(millis)) {
      return Result.fail("a message with an unknown caller")
    }
    return Result.succeed({
      tag,
      payload,
      caller: { instance: new Uint8Array(instance), id: id as number, millis: millis as number }
    })
  })

/** What a handler sees of a caller. */
export const fromOf = (server: string, tuid: Tuple.Tuple, tag: string, caller: Caller | undefined): From | undefined =>
  caller === undefined
    ? undefined
    : { server, tag, tuid, process: caller.instance, id: caller.id, millis: caller.millis }

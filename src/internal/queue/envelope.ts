/**
 * A message in the queue: `[format, tag, payload, caller, trace, millis]` as MessagePack. Decoders refuse what they do not know
 * with a problem: bytes in a store can come from any version.
 */
import * as Result from "effect/Result"
import { packValue, unpackValue } from "../codec.ts"

const FORMAT = 1

/** Where a call's answer goes: the waiting layer, the call's number there, and when it was made. */
export interface Caller {
  readonly instance: Uint8Array
  readonly id: number
  readonly millis: number
}

/** The span that a message was sent in. */
export interface Trace {
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

/** A message as it is queued; the payload is plain data. */
export interface Envelope {
  readonly tag: string
  readonly payload: unknown
  readonly caller: Caller | undefined
  readonly trace: Trace | undefined
  /** When it was sent, by its sender's clock; 0 where that cannot be read. */
  readonly millis: number
}

/** The bytes of a message. */
export const encode = ({ caller, millis, payload, tag, trace }: Envelope): Uint8Array =>
  packValue([
    FORMAT,
    tag,
    payload ?? null,
    caller === undefined ? null : [Buffer.from(caller.instance), caller.id, caller.millis],
    trace === undefined ? null : [trace.traceId, trace.spanId, trace.sampled],
    millis
  ])

/** The message of bytes, or what is wrong with them. */
export const decode = (bytes: Uint8Array): Result.Result<Envelope, string> =>
  Result.flatMap(unpackValue(bytes), (data): Result.Result<Envelope, string> => {
    if (!Array.isArray(data) || data[0] !== FORMAT) return Result.fail("not a message of this version")
    const [, tag, payload, caller, trace, sent] = data as Array<unknown>
    const millis = isCount(sent) ? sent : 0
    if (typeof tag !== "string") return Result.fail("a message without a name")
    if (caller === null || caller === undefined) {
      return Result.succeed({ tag, payload, caller: undefined, trace: traceOf(trace), millis })
    }
    if (!Array.isArray(caller)) return Result.fail("a message with an unknown caller")
    const [instance, id, called] = caller as Array<unknown>
    if (!(instance instanceof Uint8Array) || !isCount(id) || !isCount(called)) {
      return Result.fail("a message with an unknown caller")
    }
    return Result.succeed({
      tag,
      payload,
      caller: { instance: new Uint8Array(instance), id, millis: called },
      trace: traceOf(trace),
      millis
    })
  })

const isCount = (value: unknown): value is number => Number.isSafeInteger(value)

/** A trace is for looking: one that cannot be read is none. */
const traceOf = (trace: unknown): Trace | undefined => {
  if (!Array.isArray(trace)) return undefined
  const [traceId, spanId, sampled] = trace as Array<unknown>
  return typeof traceId === "string" && typeof spanId === "string"
    ? { traceId, spanId, sampled: sampled === true }
    : undefined
}

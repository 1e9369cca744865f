/**
 * A message in the queue: `[format, tag, payload, caller, trace, millis, id, server, timer, key]` as MessagePack. Decoders
 * refuse what they do not know with a problem: bytes in a store can come from any version.
 */
import * as Result from "effect/Result"
import { packData, packValue, type Problem, unpackValue } from "../data/codec.ts"
import { plainTrace, readTrace, type Trace } from "../data/trace.ts"
import { INSTANCE_BYTES, isTime } from "../tenant/limits.ts"

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
  /** The span that it was sent in. */
  readonly trace: Trace | undefined
  /** When it was sent, by its sender's clock; 0 where that cannot be read. */
  readonly millis: number
  /** The id that it had when it was first queued, of a message that was put back. */
  readonly id?: string | undefined
  /** The definition that it was sent to; older senders do not say. */
  readonly server?: string | undefined
  /**
   * The timer that sent it, and the time that it was sent for. The mark is that of the timer's setting, as long as nobody
   * has begun to handle the message.
   */
  readonly timer?: { readonly id: string; readonly due: number; readonly mark: Uint8Array | undefined } | undefined
  /** What tells it from every other message of its server that means something else. */
  readonly key?: string | undefined
}

/** A key stands in keys of the store. */
export const KEY_LIMIT_BYTES = 256

/** Whether a value can be the key of a message. */
export const isKey = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.isWellFormed() && Buffer.byteLength(value) <= KEY_LIMIT_BYTES

const dataOf = ({ caller, id, key, millis, payload, server, tag, timer, trace }: Envelope): ReadonlyArray<unknown> => [
  FORMAT,
  tag,
  payload ?? null,
  caller === undefined ? null : [caller.instance, caller.id, caller.millis],
  trace === undefined ? null : plainTrace(trace),
  millis,
  id ?? null,
  server ?? null,
  // old messages end earlier, and so do those that have neither
  ...(timer === undefined && key === undefined
    ? []
    : [timer === undefined ? null : [timer.id, timer.due, timer.mark ?? null]]),
  ...(key === undefined ? [] : [key])
]

/** The bytes of a message, or what cannot be kept of its payload. */
export const tryEncode = (envelope: Envelope): Result.Result<Uint8Array, Problem> =>
  Result.mapError(packData(dataOf(envelope)), ({ field, problem }) => ({ field: field.replace(/^2\.?/, ""), problem }))

/** The bytes of a message whose payload is known to be kept. */
export const encode = (envelope: Envelope): Uint8Array => packValue(dataOf(envelope))

/** A message that leaves its place in the queue takes its id with it. */
export const withId = (bytes: Uint8Array, id: string): Uint8Array =>
  Result.match(decode(bytes), {
    // what cannot be read needs no id: nobody will ever handle it
    onFailure: () => bytes,
    onSuccess: (envelope) => envelope.id === undefined ? encode({ ...envelope, id }) : bytes
  })

/** The message of bytes, or what is wrong with them. */
export const decode = (bytes: Uint8Array): Result.Result<Envelope, string> =>
  Result.flatMap(unpackValue(bytes), (data): Result.Result<Envelope, string> => {
    if (!Array.isArray(data) || data[0] !== FORMAT) return Result.fail("not a message of this version")
    const [, tag, sentPayload, caller, trace, sent, named, sentTo, sentBy, keyed] = data as Array<unknown>
    const payload = sentPayload ?? null
    const id = typeof named === "string" ? named : undefined
    const server = typeof sentTo === "string" ? sentTo : undefined
    const millis = isCount(sent) ? sent : 0
    const timer = timerOf(sentBy)
    const key = isKey(keyed) ? keyed : undefined
    if (typeof tag !== "string") return Result.fail("a message without a name")
    if (caller === null || caller === undefined) {
      return Result.succeed({
        tag,
        payload,
        caller: undefined,
        trace: readTrace(trace),
        millis,
        id,
        server,
        timer,
        key
      })
    }
    if (!Array.isArray(caller)) return Result.fail("a message with an unknown caller")
    const [instance, number, called] = caller as Array<unknown>
    // a longer one has no key under which to answer it
    const isInstance = instance instanceof Uint8Array && instance.length === INSTANCE_BYTES
    if (!isInstance || !isCount(number) || !isCount(called)) {
      return Result.fail("a message with an unknown caller")
    }
    return Result.succeed({
      tag,
      payload,
      caller: { instance, id: number, millis: called },
      trace: readTrace(trace),
      millis,
      id,
      server,
      timer,
      key
    })
  })

const timerOf = (data: unknown): Envelope["timer"] => {
  if (!Array.isArray(data)) return undefined
  const [id, due, mark] = data as Array<unknown>
  if (typeof id !== "string" || !isTime(due)) return undefined
  return { id, due, mark: mark instanceof Uint8Array ? mark : undefined }
}

/** A message whose handling has begun leaves its place in the queue: it counts from now on, whatever becomes of its timer. */
export const begun = (bytes: Uint8Array): Uint8Array => {
  const envelope = Result.getOrUndefined(decode(bytes))
  return envelope?.timer === undefined ? bytes : encode({ ...envelope, timer: { ...envelope.timer, mark: undefined } })
}

/** Whether bytes are a message as a later version writes them. */
export const isNewer = (bytes: Uint8Array): boolean => {
  const data = Result.getOrUndefined(unpackValue(bytes))
  return Array.isArray(data) && isCount(data[0]) && data[0] > FORMAT
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value)

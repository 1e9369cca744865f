/**
 * Answers to calls: `[kind, ...]` as MessagePack, where the kind says whether a handler succeeded, failed with its
 * message's error, or the library answers instead of it. An answer is encoded where the handler ran and decoded where
 * the call was made, also within one process, so that both see the same whatever lies between them.
 */
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { codecOf, packData, packValue, unpackValue } from "../../data/codec.ts"
import { printable } from "../../data/text.ts"
import {
  DeadLettered,
  DefinitionMismatch,
  HandlerCrashed,
  KeyReused,
  ServerKilled,
  ServerStopped,
  TooManyKeys
} from "../definition/errors.ts"
import type { Answer, Message } from "../definition/model.ts"
import { type Addressed, identityOf } from "../kept/layout.ts"

const SUCCESS = 0
const FAILURE = 1
const CRASHED = 2
const STOPPED = 3
const DEAD = 4
const KILLED = 5
const MISMATCH = 6
const KEY_REUSED = 7
const TOO_MANY_KEYS = 8
const WAITS = 9

/** The largest answer: below what fits a transaction beside the rest of its batch. */
const ANSWER_LIMIT_BYTES = 5_000_000

/** The bytes of an answer that says a handler crashed. */
export const crashed = (cause: string): Uint8Array => packValue([CRASHED, printable(cause)])

/** The bytes of an answer that says the server stopped. */
export const stopped = (reason: string): Uint8Array => packValue([STOPPED, printable(reason)])

/** The bytes of an answer that says the message is a dead letter now. */
export const deadLettered = (attempts: number, cause: string): Uint8Array =>
  packValue([DEAD, printable(cause), attempts])

/** The bytes of an answer that says the server was killed. */
export const killed: Uint8Array = packValue([KILLED])

/** The bytes of an answer that says the tuid belongs to another definition. */
export const mismatched = (stored: string, tuid: string): Uint8Array => packValue([MISMATCH, stored, tuid])

/** The bytes of an answer that says the key belongs to another message. */
export const keyReused = (key: string): Uint8Array => packValue([KEY_REUSED, key])

/** The bytes of an answer that says there is no place for another key. */
export const tooManyKeys = (limit: number): Uint8Array => packValue([TOO_MANY_KEYS, limit])

/** The bytes that say to wait with the key: an earlier message with it is under way. */
export const waits: Uint8Array = packValue([WAITS])

/** Whether bytes say to wait with the key. */
export const isWaits = (bytes: Uint8Array): boolean => Buffer.compare(bytes, waits) === 0

/** The bytes of an answer, and what is wrong when they only say that the handler crashed. */
export interface Encoded {
  readonly bytes: Uint8Array
  readonly problem: string | undefined
}

/** The bytes of what a handler answered; one that does not fit its schema becomes an answer that says so (rule R9). */
export const encode = (message: Message, answer: Answer): Uint8Array => encodeChecked(message, answer).bytes

/** Like `encode`, with what is wrong. */
export const encodeChecked = (message: Message, answer: Answer): Encoded => {
  if (Exit.isSuccess(answer)) return encodeWith(SUCCESS, "reply", message, answer.value)
  for (const reason of answer.cause.reasons) {
    if (reason._tag === "Fail") return encodeWith(FAILURE, "error", message, reason.error)
  }
  return failed("the answer holds neither a value nor an error")
}

const failed = (problem: string): Encoded => ({ bytes: crashed(problem), problem })

const encodeWith = (kind: number, what: string, message: Message, value: unknown): Encoded => {
  const encoded = codecOf(kind === SUCCESS ? message.success : message.error).encode(value)
  if (Result.isFailure(encoded)) {
    const { field, problem } = encoded.failure
    return failed(
      `the ${what} of "${message.tag}" does not fit its schema${field === "" ? "" : ` at "${field}"`}: ${problem}`
    )
  }
  const packed = packData([kind, encoded.success ?? null])
  if (Result.isFailure(packed)) {
    return failed(`the ${what} of "${message.tag}" cannot be kept: ${packed.failure.problem}`)
  }
  const bytes = packed.success
  return bytes.length <= ANSWER_LIMIT_BYTES
    ? { bytes, problem: undefined }
    : failed(`the ${what} of "${message.tag}" has ${bytes.length} bytes, and at most ${ANSWER_LIMIT_BYTES} fit`)
}

/** What a call ends with. */
export const decode = (who: Addressed, message: Message, bytes: Uint8Array): Answer => {
  const tag = message.tag
  const unreadable = (problem: string) => Exit.fail(new HandlerCrashed({ ...identityOf(who), tag, cause: problem }))
  const data = unpackValue(bytes)
  if (Result.isFailure(data)) return unreadable(`the answer cannot be read: ${data.failure}`)
  if (!Array.isArray(data.success)) return unreadable("the answer cannot be read")
  const [kind, value, attempts] = data.success as Array<unknown>
  switch (kind) {
    case SUCCESS:
    case FAILURE: {
      const decoded = codecOf(kind === SUCCESS ? message.success : message.error).decode(value)
      if (Result.isFailure(decoded)) return unreadable(`the answer does not fit its schema: ${decoded.failure.problem}`)
      return kind === SUCCESS ? Exit.succeed(decoded.success) : Exit.fail(decoded.success)
    }
    case STOPPED:
      if (typeof value === "string") return Exit.fail(new ServerStopped({ ...identityOf(who), reason: value }))
      break
    case DEAD:
      if (typeof value === "string" && typeof attempts === "number") {
        return Exit.fail(new DeadLettered({ ...identityOf(who), tag, attempts, cause: value }))
      }
      break
    case MISMATCH:
      if (typeof value === "string" && typeof attempts === "string") {
        return Exit.fail(new DefinitionMismatch({ server: who.definition.name, stored: value, tuid: attempts }))
      }
      break
    case KEY_REUSED:
      if (typeof value === "string") return Exit.fail(new KeyReused({ ...identityOf(who), tag, key: value }))
      break
    case TOO_MANY_KEYS:
      if (typeof value === "number") return Exit.fail(new TooManyKeys({ ...identityOf(who), tag, limit: value }))
      break
    case KILLED:
      return Exit.fail(new ServerKilled(identityOf(who)))
    case CRASHED:
      if (typeof value === "string") return unreadable(value)
  }
  return unreadable("the answer cannot be read: it is not of this version")
}

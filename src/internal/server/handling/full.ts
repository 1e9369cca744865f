/**
 * What a handler ended with that met a full queue and did not catch it: the `QueueFull`, wherever it lies in the cause.
 */
import * as Cause from "effect/Cause"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import { checkerOf } from "../../data/codec.ts"
import { isA, reading } from "../../data/show.ts"
import { QueueFull } from "../definition/errors.ts"
import type { Message } from "../definition/model.ts"

/** So deep lies an error in the causes of others; what goes in a circle ends there. */
const DEPTH_LIMIT = 10

/** Of the errors that one error holds, so many are looked at. */
const ERRORS_LIMIT = 10

const look = (value: unknown, depth: number): QueueFull | undefined => {
  if (isA(value, QueueFull)) return value
  if (depth >= DEPTH_LIMIT || !Predicate.isObject(value)) return undefined
  if (Cause.isCause(value)) return among(value, depth + 1)
  const { cause, errors } = value as { readonly cause?: unknown; readonly errors?: unknown }
  const found = look(cause, depth + 1)
  if (found !== undefined || !Array.isArray(errors)) return found
  return errors.slice(0, ERRORS_LIMIT).map((error) => look(error, depth + 1)).find((full) => full !== undefined)
}

const among = (cause: Cause.Cause<unknown>, depth: number): QueueFull | undefined => {
  for (const reason of cause.reasons) {
    const found = reason._tag === "Fail"
      ? look(reason.error, depth)
      : reason._tag === "Die"
      ? look(reason.defect, depth)
      : undefined
    if (found !== undefined) return found
  }
  return undefined
}

/** The full queue in a cause. What is thrown can throw when it is looked at. */
export const fullIn = (cause: Cause.Cause<unknown>): QueueFull | undefined => reading(() => among(cause, 0), undefined)

/** Whether a call's handler waits for room: one that declares what it failed with answers with it. */
export const pauses = (message: Message, cause: Cause.Cause<unknown>): boolean => {
  if (fullIn(cause) === undefined) return false
  const failure = cause.reasons.find((reason) => reason._tag === "Fail")
  return failure === undefined || message.kind !== "call" || Result.isFailure(checkerOf(message.error)(failure.error))
}

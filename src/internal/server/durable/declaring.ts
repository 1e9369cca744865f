/** Durable actions as a user's definition declares them. */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { show } from "../../data/show.ts"
import * as Jobs from "../../jobs/definition/model.ts"
import { type AnyDurable, type DurableOptions, DurableTypeId } from "../definition/durable.ts"
import { payloadSchema } from "../definition/making.ts"
import type { PayloadInput } from "../definition/protocol.ts"

/** A durable action as the user's constructor makes it; throws a `TypeError` for what is none. */
export const durable = (options: DurableOptions & { readonly payload?: PayloadInput | undefined }): AnyDurable => {
  const what = "DgenServer.durable"
  const given: unknown = options
  if (!Predicate.isObject(given)) throw new TypeError(`${what}: the options must be an object, not ${show(given)}`)
  const { maxAttempts, payload, retry, timeout } = options
  // they are those of jobs, which say what is wrong with them
  const { problem } = Jobs.make("", { data: Schema.Unknown, maxAttempts, retry, timeout })
  if (problem !== undefined) throw new TypeError(`${what}: ${problem.option} ${problem.problem}`)
  return {
    [DurableTypeId]: { maxAttempts, retry, timeout },
    payload: payloadSchema(`${what}: the payload`, payload)
  } as AnyDurable
}

/**
 * What a handler's outcome asks for: the durable actions are checked and encoded beside their message, whose crash it is when
 * one cannot be kept, and written with the commit. The others run after it (`handling/actions.ts`).
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { packData } from "../../data/codec.ts"
import { traceOfSpan } from "../../data/trace.ts"
import { DATA_LIMIT_BYTES } from "../../jobs/definition/model.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { InvalidPayload, PayloadTooLarge } from "../definition/errors.ts"
import type { ActionRequest, Definition } from "../definition/model.ts"
import { Crash, type Handled } from "../handling/handlers.ts"
import type { HeldLogs } from "../handling/purity.ts"
import type { Server } from "../handling/server.ts"
import { identityOf } from "../kept/layout.ts"
import { append, type Entry } from "./chain.ts"
import { modelsOf } from "./jobs.ts"

/** A durable action on its way to the store: what the commit gives it is its id. */
export type Prepared = Omit<Entry, "id">

const NONE: ReadonlyArray<Prepared> = []

/** Those of a handler's actions that run after the commit, and are gone with their process. */
export const passing = (
  { actions, hasDurable }: Definition,
  requests: ReadonlyArray<ActionRequest>
): ReadonlyArray<ActionRequest> =>
  hasDurable ? requests.filter(({ tag }) => actions.get(tag)!.durable === undefined) : requests

const encode = (server: Server, { payload, tag }: ActionRequest): Result.Result<Uint8Array, unknown> => {
  const named = { ...identityOf(server), tag }
  const data = modelsOf(server.definition).get(tag)!.codec.encode({ tuid: server.tuid, payload })
  return Result.flatMap(
    Result.mapError(
      Result.flatMap(data, packData),
      ({ field, problem }) => new InvalidPayload({ ...named, field, problem })
    ),
    (bytes) =>
      bytes.length <= DATA_LIMIT_BYTES
        ? Result.succeed(bytes)
        : Result.fail(new PayloadTooLarge({ ...named, bytes: bytes.length, limitBytes: DATA_LIMIT_BYTES }))
  )
}

/** The durable actions that the handling of a message asks for; one that cannot be kept is the message's crash. */
export const prepare = (
  server: Server,
  { actions, span }: Handled,
  message: { readonly tag: string; readonly logs: HeldLogs; readonly index: number | undefined }
): Effect.Effect<ReadonlyArray<Prepared>, Crash> => {
  if (!server.definition.hasDurable || actions.length === 0) return Effect.succeed(NONE)
  const trace = span && traceOfSpan(span)
  const prepared: Array<Prepared> = []
  for (const request of actions) {
    if (server.definition.actions.get(request.tag)!.durable === undefined) continue
    const data = encode(server, request)
    if (Result.isFailure(data)) {
      return Effect.fail(new Crash([message.tag], Cause.die(data.failure), message.logs, message.index))
    }
    prepared.push({ tag: request.tag, data: data.success, trace })
  }
  return Effect.succeed(prepared)
}

/** Writes them, with this commit: their ids are its own, and their number in it. */
export const keep = (
  server: Server,
  state: TransactionState,
  prepared: ReadonlyArray<Prepared>
): Effect.Effect<void> => {
  if (prepared.length === 0) return Effect.void
  const commit = Buffer.from(state.operationId.subarray(0, 20)).toString("hex")
  const entries = prepared.map((action, index) => ({ ...action, id: `${commit}-${index}` }))
  return append(state, server.definition.name, server.tuid, entries)
}

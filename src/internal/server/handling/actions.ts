/**
 * Actions: what a server does to the world, after the commit that asked for it (rule R22). They run in order, each with
 * the state as of the end of its batch. One that crashes, or answers `halt`, ends the other actions of its message and
 * of no other; the crash is logged, nothing is retried.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { logError } from "../../transactions/logging.ts"
import { traced } from "../../transactions/tracing.ts"
import type { ActionRequest } from "../definition/model.ts"
import { isHalt } from "../definition/outcome.ts"
import type { Server } from "./server.ts"

/** Runs the actions of a batch: a list for each message. */
export const runActions = (
  server: Server,
  messages: ReadonlyArray<ReadonlyArray<ActionRequest>>,
  state: unknown
): Effect.Effect<void> => {
  const some = messages.filter((requests) => requests.length > 0)
  if (some.length === 0) return Effect.void
  const run = Effect.forEach(some, (requests) => runMessage(server, requests, state), { discard: true })
  return traced(run, "DgenServer.actions", () => ({ attributes: { server: server.definition.name } }))
}

const runMessage = Effect.fnUntraced(function*(
  server: Server,
  requests: ReadonlyArray<ActionRequest>,
  state: unknown
) {
  for (const request of requests) {
    const handler = server.effects.actions.get(request.tag)!
    const exit = yield* Effect.exit(Effect.suspend(() => handler(request.payload, state)))
    if (Exit.isFailure(exit)) {
      yield* logError(`${server.name}: the action "${request.tag}" crashed`, exit.cause)
      return
    }
    if (isHalt(exit.value)) return
  }
})

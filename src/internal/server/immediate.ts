/**
 * Messages that run at once, in a transaction of their own: inline calls (rule R11), and priority and info messages.
 *
 * Owner: a fiber of the server's scope each; the caller only awaits, so that its timeout or interruption loses no
 * action. Inline calls hold the server's permit from their reads until later transactions read their writes.
 *
 * 1. An inline call runs only while the queue is empty. Its look at the queue is by snapshot: a message that is pushed
 *    meanwhile is ordered after it.
 * 2. An inline call that conflicts, or crashes, is queued: it is never answered and queued.
 * 3. A priority message that crashes is lost, and its call is answered so.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { BackendError } from "../../BackendError.ts"
import * as DurableQueue from "../../DurableQueue.ts"
import type { StateError } from "../../StateCodec.ts"
import { Transaction } from "../../Transaction.ts"
import { transact } from "../transact.ts"
import { runActions } from "./actions.ts"
import { HandlerCrashed, ServerKilled } from "./errors.ts"
import { answerOf, Crash, handle, type Handled, type Incoming } from "./handle.ts"
import { holdLogs, PureRunner } from "./purity.ts"
import { load, save, type Server, stop } from "./server.ts"

interface Ran {
  readonly handled: Handled
  readonly answer: Uint8Array | undefined
}

/** A message without the id that its transaction gives it. */
type Direct = Omit<Incoming, "id">

const body = (server: Server, input: Direct, inline: boolean) =>
  Effect.gen(function*() {
    const state = yield* Transaction
    const logs = yield* holdLogs
    const runner = yield* PureRunner.make(server.definition.name, state, logs)
    const [head, waiting] = yield* Effect.all([
      state.get(server.keys.head),
      inline ? DurableQueue.peek(server.queue, 1) : Effect.succeed([])
    ], { concurrency: "unbounded" })
    if (head === undefined) return yield* new ServerKilled({ server: server.definition.name })
    if (waiting.length > 0) return undefined
    const wrong = (error: StateError) => new Crash(input.message.tag, Cause.die(error), logs, undefined)
    const loaded = yield* Effect.mapError(load(server, head), wrong)
    const id = Buffer.from(state.operationId.subarray(0, 20)).toString("hex")
    const handled = yield* handle(server, runner, logs, { ...input, id }, loaded!.state, undefined)
    const answer = answerOf(input.message, handled)
    if (inline && answer === undefined) return undefined
    yield* Effect.mapError(save(server, state, loaded, handled.state), wrong)
    state.onCommit.push(() => logs.release())
    // before the answer: who has it finds the handle stopped
    if (handled.stopped) state.onCommit.push(() => stop(server, String(handled.stop)))
    return { handled, answer } as Ran
  })

const after = (server: Server, ran: Ran): Effect.Effect<void> =>
  ran.handled.actions.length === 0
    ? Effect.void
    : runActions(server, [ran.handled.actions], ran.handled.state)

/** Runs a call inline. Succeeds with the bytes of its answer, or with `undefined` when it has to be queued (2). */
export const runInline = (
  server: Server,
  input: Direct,
  answered: (answer: Uint8Array | undefined) => void
): Effect.Effect<void, BackendError | ServerKilled> =>
  Effect.suspend(() => {
    let held = true
    const release = () => {
      if (!held) return
      held = false
      Effect.runSync(server.inline.release(1))
    }
    const run = transact(server.tenant, body(server, input, true), { tries: 1, accepted: release })
    const attempt = Effect.matchEffect(run, {
      onSuccess: (ran) => Effect.succeed(ran),
      onFailure: (error) => {
        if (error._tag === "Crash") {
          return Effect.as(
            Effect.logError(
              `${server.definition.name}: handling ${error.messageTag} inline crashed, it is queued`,
              error.cause
            ),
            undefined
          )
        }
        if (error._tag === "BackendError" && error.isRetryable) return Effect.undefined
        return Effect.fail(error)
      }
    })
    return Effect.flatMap(
      Effect.andThen(server.inline.take(1), Effect.ensuring(attempt, Effect.sync(release))),
      (ran) => {
        answered(ran?.answer)
        return ran === undefined ? Effect.void : after(server, ran)
      }
    )
  })

/** Runs a priority or info message. Succeeds with the bytes of its answer, if it is a call. */
export const runPriority = (
  server: Server,
  input: Direct,
  answered: (answer: Uint8Array | undefined) => void
): Effect.Effect<void, BackendError | ServerKilled | HandlerCrashed> => {
  const run = Effect.catchIf(
    transact(server.tenant, body(server, input, false)),
    (error) => error._tag === "Crash",
    (crash) => {
      crash.logs.release()
      return Effect.andThen(
        Effect.logError(`${server.definition.name}: handling ${crash.messageTag} crashed, it is lost`, crash.cause),
        new HandlerCrashed({
          server: server.definition.name,
          tag: crash.messageTag,
          cause: Cause.pretty(crash.cause)
        })
      )
    }
  )
  return Effect.flatMap(run, (ran) => {
    answered(ran?.answer)
    return ran === undefined ? Effect.void : after(server, ran)
  })
}

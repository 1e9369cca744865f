/**
 * Actions: what a server does to the world, after the commit that asked for it (rule R22). They run in order, each with
 * the state as of the end of its batch. One that crashes, takes longer than `actionTimeout`, or answers `halt`, ends the
 * other actions of its message and of no other; the crash is logged, nothing is retried.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Tracer from "effect/Tracer"
import { logError, logWarning } from "../../observing/logging.ts"
import { traced, under } from "../../observing/tracing.ts"
import { ActionTimeout } from "../definition/errors.ts"
import type { ActionRequest } from "../definition/model.ts"
import { isHalt } from "../definition/outcome.ts"
import { identityOf } from "../kept/layout.ts"
import { guarded } from "./frozen.ts"
import { type Ran, runOutside } from "./outside.ts"
import type { Server } from "./server.ts"

/** The first warning of what holds up its server; each one after it comes twice as long after the one before. */
const SLOW_MILLIS = 30_000

const SLOW_PAUSE_LIMIT_MILLIS = 60 * 60_000

/** Warns of what runs for long, again and again. */
const warnings = (server: Server, what: string): Effect.Effect<never> => {
  const after = (pauseMillis: number, ranMillis: number): Effect.Effect<never> =>
    Effect.flatMap(Effect.sleep(pauseMillis), () =>
      Effect.andThen(
        logWarning(
          `${server.name}: ${what} has run for ${Math.round(ranMillis / 1_000)} s, and what comes after it waits`
        ),
        Effect.suspend(() => {
          const next = Math.min(SLOW_PAUSE_LIMIT_MILLIS, pauseMillis * 2)
          return after(next, ranMillis + next)
        })
      ))
  return after(SLOW_MILLIS, SLOW_MILLIS)
}

/** Runs what a server does after a commit: for as long as it may, and with warnings. Succeeds with how it ended. */
export const runAfterCommit = <A>(
  server: Server,
  what: string,
  run: Effect.Effect<A>
): Effect.Effect<Exit.Exit<A>> => {
  const { actionTimeoutMillis } = server.options
  const bounds = { limitMillis: actionTimeoutMillis, beside: warnings(server, what) }
  return Effect.map(runOutside(server, run, bounds), (ran) => endOf(server, what, ran))
}

const endOf = <A>(server: Server, what: string, { cut, exit }: Ran<A, never>): Exit.Exit<A> => {
  if (cut === "limit") {
    const timeoutMillis = server.options.actionTimeoutMillis
    return Exit.die(new ActionTimeout({ ...identityOf(server), what, timeoutMillis }))
  }
  if (exit !== undefined && !(cut !== undefined && Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))) {
    return exit
  }
  const end = exit === undefined ? "could not be interrupted and was left behind" : "was interrupted"
  return Exit.die(new Error(`${what} ${end}: the server has stopped in this process, and the grace period is over`))
}

/** What a message asks for, with its id, and the span that its handler ran in. */
export interface Asked {
  readonly id: string
  readonly span: Tracer.AnySpan | undefined
  readonly requests: ReadonlyArray<ActionRequest>
}

/** Runs the actions of a batch, message after message. */
export const runActions = (server: Server, messages: ReadonlyArray<Asked>, state: unknown): Effect.Effect<void> => {
  const some = messages.filter(({ requests }) => requests.length > 0)
  return some.length === 0
    ? Effect.void
    : Effect.forEach(some, (asked) =>
      traced(runMessage(server, asked, state), "DgenServer.actions", () => ({
        ...under(asked.span),
        attributes: { ...identityOf(server), message: asked.id }
      })), { discard: true })
}

const runMessage = Effect.fnUntraced(function*(server: Server, { id, requests }: Asked, state: unknown) {
  const context = { tuid: server.tuid, id }
  for (const request of requests) {
    const handler = server.effects.actions.get(request.tag)!
    const exit = yield* runAfterCommit(
      server,
      `the action "${request.tag}"`,
      guarded(
        server,
        `the action "${request.tag}"`,
        state,
        Effect.suspend(() => handler(request.payload, state, context))
      )
    )
    if (Exit.isFailure(exit)) {
      yield* logError(`${server.name}: the action "${request.tag}" crashed`, exit.cause)
      return
    }
    if (isHalt(exit.value)) return
  }
})

/**
 * The handle of a server that runs in this process: what a program calls it with.
 *
 * 1. What does not go through the queue runs in the server's scope; the caller only awaits, and hears of each message's
 *    end once.
 * 2. When the handle ends, every call that waits on it ends with an error; an answer that came with the end wins.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { BackendError } from "../../../BackendError.ts"
import { codecOf } from "../../data/codec.ts"
import { show } from "../../data/show.ts"
import { traced } from "../../observing/tracing.ts"
import { report } from "../../observing/unforeseen.ts"
import type { Caller } from "../../queue/envelope.ts"
import { outside } from "../../transactions/callback.ts"
import { CallTimeout, InvalidPayload, ServerKilled, type ServerStopped } from "../definition/errors.ts"
import type { Client, Kind, Running } from "../definition/model.ts"
import { endError, gone, isEnded, type Server } from "../handling/server.ts"
import { identityOf } from "../kept/layout.ts"
import { kill } from "../mending/kill.ts"
import * as Answers from "../sending/answerCodec.ts"
import * as Clients from "../sending/client.ts"
import { check, type Checked, type Sent, toBytes } from "../sending/messages.ts"
import { runningIn, type Within } from "../sending/within.ts"
import { timersOf } from "../timers/client.ts"
import { close } from "./closing.ts"
import type { Direct, Progress } from "./direct.ts"
import { runInline, runPriority } from "./immediate.ts"

/** A handler's input from a message that does not go through the queue, as if it had. */
const direct = (
  server: Server,
  { data, key, message }: Checked,
  caller: Caller | undefined
): Effect.Effect<Direct, InvalidPayload> => {
  const decoded = message.payload === undefined ? Result.succeed(undefined) : codecOf(message.payload).decode(data)
  return Effect.fromResult(Result.mapBoth(decoded, {
    onFailure: ({ field, problem }) => new InvalidPayload({ ...identityOf(server), tag: message.tag, field, problem }),
    onSuccess: (payload) => ({ message, payload, data, caller, attempt: 1, trace: undefined, timer: undefined, key })
  }))
}

/** Runs within the server's scope, which waits for it, and tells the caller how far the message got, as soon as that is known (1). */
const inScope = <E>(
  server: Server,
  run: (progress: (progress: Progress) => void) => Effect.Effect<void, E>
): Effect.Effect<Progress, E> =>
  Effect.suspend(() => {
    const reached = Deferred.makeUnsafe<Progress, E>()
    const work = Effect.onExit(
      run((progress) => void Deferred.doneUnsafe(reached, Exit.succeed(progress))),
      (exit) =>
        Effect.sync(() => {
          server.inFlight.leave()
          return Exit.isSuccess(exit) || Deferred.doneUnsafe(reached, exit as Exit.Exit<never, E>)
            ? undefined
            : exit.cause
        }).pipe(Effect.flatMap((unheard) => unheard === undefined ? Effect.void : tellUnheard(server, unheard)))
    )
    server.inFlight.enter()
    const within: Within = { place: server, holdsQueue: false, isOver: false }
    return Effect.andThen(
      Effect.forkDetach(runningIn(within, Effect.uninterruptible(work)), { startImmediately: true }),
      Deferred.await(reached)
    )
  })

/** What failed after its caller was answered: the end of a lock has been logged, everything else has not. */
const tellUnheard = (server: Server, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  cause.reasons.every((reason) => reason._tag === "Fail" && !(reason.error instanceof BackendError))
    ? Effect.void
    : report("message", `${server.name}: what followed an answered message failed`, cause)

/** What is asked of an ended handle fails at once. */
const unlessEnded = <A, E>(
  server: Server,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E | ServerStopped | ServerKilled> =>
  Effect.suspend((): Effect.Effect<A, E | ServerStopped | ServerKilled> =>
    isEnded(server)
      ? Effect.flatMap(Deferred.await(server.ended), (end) => Effect.fail(endError(server, end)))
      : effect
  )

/** What waits ends when the handle ends (2). */
const untilEnded = <A, E>(server: Server, effect: Effect.Effect<A, E>) =>
  Effect.raceFirst(
    effect,
    Effect.flatMap(
      Deferred.await(server.ended),
      (end) => Effect.andThen(Effect.yieldNow, Effect.fail(endError(server, end)))
    )
  )

/** A call that locks may be answered before its lock ends. That it waits with its key is told to who has queued it alone. */
const orAnswered = <E>(
  server: Server,
  { message }: Checked,
  call: Clients.OpenCall,
  effect: Effect.Effect<Uint8Array, E>
): Effect.Effect<Uint8Array, E | ServerStopped> => {
  if (!message.locks) return effect
  const answered = Effect.flatMap(
    Clients.awaitAnswer(server, call),
    (answer) => Answers.isWaits(answer) ? Effect.never : Effect.succeed(answer)
  )
  return Effect.raceFirst(answered, effect)
}

/** A call's way from the handle to its answer. */
type Way = (server: Server, checked: Checked, call: Clients.OpenCall) => Effect.Effect<Uint8Array, unknown>

const throughQueue: Way = (server, checked, call) => untilEnded(server, Clients.queued(server, checked, call))

const UNSENT: Sent = { trace: undefined, millis: 0 }

const inline: Way = (server, checked, call) => {
  // what the queue would not take is refused here too: whether a call runs inline is nobody's concern
  const fits = toBytes(server, checked, call.caller, UNSENT)
  if (Result.isFailure(fits)) return Effect.fail(fits.failure)
  return Effect.flatMap(direct(server, checked, call.caller), (input) =>
    orAnswered(
      server,
      checked,
      call,
      Effect.flatMap(inScope(server, (progress) => runInline(server, input, progress)), (progress) => {
        switch (progress._tag) {
          case "Handled":
            return Effect.succeed(progress.answer!)
          case "Keyed":
            return untilEnded(server, Clients.withKey(server, checked.key!))
          case "Waits":
            return untilEnded(server, Clients.awaitAnswer(server, call))
          case "Queue":
            return untilEnded(server, Clients.queued(server, checked, call, progress.attempts, progress.isTried))
        }
      })
    ))
}

/** A call without an answer of a handle that does not consume: the server may be gone, and nobody has told the handle. */
const unlessGone = <A, E>(server: Server, effect: Effect.Effect<A, E>): Effect.Effect<A, E | ServerKilled> =>
  Effect.catchIf(
    effect,
    (error) => error instanceof CallTimeout && !server.options.consume,
    (error) =>
      Effect.flatMap(Effect.option(Clients.exists(server)), (exists): Effect.Effect<never, E | ServerKilled> => {
        if (Option.getOrElse(exists, () => true)) return Effect.fail(error)
        gone(server)
        return Effect.fail(new ServerKilled(identityOf(server)))
      })
  )

const pastQueue: Way = (server, checked, call) =>
  orAnswered(
    server,
    checked,
    call,
    Effect.flatMap(
      Effect.flatMap(
        direct(server, checked, call.caller),
        (input) => inScope(server, (progress) => runPriority(server, input, progress))
      ),
      (progress) =>
        progress._tag === "Handled"
          ? Effect.succeed(progress.answer!)
          : untilEnded(server, Clients.awaitAnswer(server, call))
    )
  )

const calling = (server: Server, operation: string, way: Way): Client["call"] => (tag, payload, timeoutMillis, key) => {
  const run = Effect.flatMap(
    Effect.fromResult(check(server, ["call"], operation, tag, payload)),
    (checked) =>
      Effect.flatMap(
        Clients.withCall(server, (call) => way(server, { ...checked, key }, call)),
        (bytes) => Answers.decode(server, checked.message, bytes)
      )
  )
  const call = traced(run, "DgenServer.call", () => ({ attributes: { ...identityOf(server), tag } }))
  return unlessEnded(server, unlessGone(server, Clients.withTimeout(call, server, tag, timeoutMillis)))
}

/** Handles a message that is no call at once. */
const telling = (server: Server, kinds: ReadonlyArray<Kind>, operation: string) => (tag: string, payload: unknown) =>
  outside(
    operation,
    unlessEnded(
      server,
      Effect.flatMap(
        Effect.fromResult(check(server, kinds, operation, tag, payload)),
        (checked) =>
          Effect.flatMap(
            direct(server, checked, undefined),
            (input) => Effect.asVoid(inScope(server, (progress) => runPriority(server, input, progress)))
          )
      )
    )
  )

/** The handle of a server. */
export const make = (server: Server): Running & ReturnType<typeof timersOf> => {
  const { consume, consumeK } = server.options
  return {
    ...Clients.make(server, calling(server, "call", consume && consumeK === 1 ? inline : throughQueue)),
    ...timersOf(server),
    tuid: server.tuid,
    priorityCall: calling(server, "priorityCall", pastQueue),
    priorityCast: telling(server, ["cast"], "priorityCast"),
    info: telling(server, ["info"], "info"),
    stop: (reason) => outside("stop", close(server, reason === undefined ? "stop was called" : show(reason))),
    kill: () => Effect.andThen(kill(server), close(server, "the server was killed"))
  }
}

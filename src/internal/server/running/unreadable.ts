/**
 * Messages that this version of a program cannot handle: those that another version sent, and those that were sent to
 * another definition.
 *
 * 1. A message that another version may be able to read stays first in the queue, uncharged, until its grace is over. It
 *    counts from the first meeting, which is written into the item; by a consumer's own clock it does not last longer.
 * 2. A message for another definition is never handled: it becomes a dead letter at once, and its caller is told.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Envelopes from "../../queue/envelope.ts"
import { nameOf, stampText } from "../../queue/pieces.ts"
import * as Queue from "../../queue/queue.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { type Incoming, incoming, type Unread } from "../handling/handlers.ts"
import type { Server } from "../handling/server.ts"
import { textOfTuid } from "../kept/layout.ts"
import { bury, type Died } from "../mending/requeue.ts"
import * as Answers from "../sending/answerCodec.ts"

/** What a consumer has seen of the message that it steps back from, on its own clock (1). */
export interface Met {
  readonly name: string
  readonly millis: number
  /** Whether the log has it. */
  told: boolean
  pauseMillis: number
}

/** Between two looks at a message that is left alone; its change is seen at once, where the store can tell of it. */
const PAUSE_FIRST_MILLIS = 1_000
const PAUSE_LIMIT_MILLIS = 30_000

/** The message of an item, or why there is none. */
export const read = (
  server: Server,
  item: Queue.Item,
  envelope: Result.Result<Envelopes.Envelope, string>
): Result.Result<Incoming, Unread> =>
  Result.isSuccess(envelope)
    ? incoming(server, envelope.success, item.attempts + 1, envelope.success.id ?? stampText(item.stamp))
    : Result.fail({ tag: undefined, problem: envelope.failure, isForeign: Envelopes.isNewer(item.message) })

/** Whether a message was sent to another definition. */
export const isMisdirected = (server: Server, envelope: Result.Result<Envelopes.Envelope, string>): boolean =>
  Result.isSuccess(envelope) && (envelope.success.server ?? server.definition.name) !== server.definition.name

/** For how long a message is still left alone (1). */
export const graceLeft = (
  server: Server,
  state: TransactionState,
  seen: { met: Met | undefined },
  item: Queue.Item
): Effect.Effect<number> =>
  Effect.flatMap(Clock.monotonicTimeNanos, (nanos) => {
    const { unreadableGraceMillis } = server.options
    const now = Number(nanos / 1_000_000n)
    const name = nameOf(server.keys.items, item)
    if (seen.met?.name !== name) seen.met = { name, millis: now, told: false, pauseMillis: PAUSE_FIRST_MILLIS }
    const since = item.metMillis ?? state.timeMillis
    const left = unreadableGraceMillis - Math.max(0, state.timeMillis - since, now - seen.met.millis)
    return left <= 0 || item.metMillis !== undefined ? Effect.succeed(left) : Effect.as(Queue.meet(state, item), left)
  })

/** How long to wait before the next look: longer each time. */
export const pauseOf = ({ met }: { readonly met: Met | undefined }): number => {
  const { pauseMillis } = met!
  met!.pauseMillis = Math.min(PAUSE_LIMIT_MILLIS, 2 * pauseMillis)
  return pauseMillis
}

/** Makes a dead letter of a message that was sent to another definition (2). */
export const buryMisdirected = (
  server: Server,
  state: TransactionState,
  item: Queue.Item,
  { id = stampText(item.stamp), server: sentTo }: Envelopes.Envelope
): Effect.Effect<Died> => {
  const { name } = server.definition
  const tuid = textOfTuid(server.tuid)
  const died = {
    id,
    message: Envelopes.withId(item.message, id),
    attempts: item.attempts,
    cause: `it was sent to ${sentTo}, and the tuid ${tuid} belongs to ${name}`
  }
  Queue.take(state, server.keys, [item])
  return Effect.as(bury(state, server.keys, died, Answers.mismatched(name, tuid)), died)
}

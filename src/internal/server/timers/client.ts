/**
 * Timers as programs ask for them: from a client, or as part of a transaction. Everything is checked before anything is
 * written.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import { show } from "../../data/show.ts"
import * as Envelopes from "../../queue/envelope.ts"
import { transact } from "../../transactions/loop.ts"
import { InvalidOption } from "../definition/errors.ts"
import type { Definition } from "../definition/model.ts"
import type { ServerKeys } from "../kept/layout.ts"
import { check, checkKey, sentNow, toBytes } from "../sending/messages.ts"
import { timingOf } from "./options.ts"
import type { Row } from "./rows.ts"
import { cancel, page, set } from "./setting.ts"

/** A server whose timers are asked for. */
interface Located {
  readonly definition: Definition
  readonly tenant: Tenant["Service"]
  readonly keys: ServerKeys
}

/** Sets a timer that casts a message; a message without a payload can leave it out. Succeeds with the timer's id. */
export const castLaterTx = (
  definition: Definition,
  keysOf: (prefix: Uint8Array) => ServerKeys,
  operation: string,
  tag: string,
  args: ReadonlyArray<unknown>
): Effect.Effect<string, unknown, Transaction> =>
  Effect.gen(function*() {
    const state = yield* Transaction
    const who = { definition, keys: keysOf(state.prefix) }
    const [payload, options] = argumentsOf(definition, tag, args)
    const checked = yield* Effect.fromResult(check(who, ["cast"], operation, tag, payload))
    const timing = yield* Effect.fromResult(timingOf(definition.name, options))
    const key = yield* Effect.fromResult(checkKey(definition.name, options))
    const message = yield* Effect.fromResult(toBytes(who, { ...checked, key }, undefined, yield* sentNow))
    return yield* set(definition, who.keys, message, timing)
  })

/** The payload and the options of a call: what takes no payload may be followed by its options at once. */
export const argumentsOf = (
  definition: Definition,
  tag: string,
  args: ReadonlyArray<unknown>
): readonly [payload: unknown, options: unknown] => {
  const takesNone = definition.messages.get(tag)?.payload === undefined
  return args.length === 1 && takesNone ? [undefined, args[0]] : [args[0], args[1]]
}

/** Cancels a timer. */
export const cancelTimerTx = (
  definition: Definition,
  keysOf: (prefix: Uint8Array) => ServerKeys,
  id: unknown
): Effect.Effect<boolean, InvalidOption, Transaction> =>
  Effect.flatMap(Transaction, (state) =>
    typeof id === "string" && id !== "" && id.isWellFormed()
      ? cancel(keysOf(state.prefix), id)
      : Effect.fail(
        new InvalidOption({ server: definition.name, option: "id", problem: `must be a timer's id, not ${show(id)}` })
      ))

/** A timer, for looking. */
const infoOf = ({ timer }: Row) => {
  if (timer === undefined) return []
  const { due, id, message, recurrence } = timer
  return [{
    id,
    tag: Result.getOrUndefined(Envelopes.decode(message))?.tag ?? "",
    due: DateTime.makeUnsafe(due),
    period: recurrence === undefined
      ? undefined
      : "every" in recurrence
      ? Duration.millis(recurrence.every)
      : { cron: recurrence.cron, timeZone: recurrence.timeZone }
  }]
}

/** The timers of a server, in the order of their times, page by page. */
const list = ({ keys, tenant }: Located): Effect.Effect<ReadonlyArray<unknown>, BackendError> =>
  Effect.gen(function*() {
    const all: Array<unknown> = []
    let from: Uint8Array | undefined
    do {
      const { next, rows } = yield* transact(tenant, page(keys, from))
      for (const row of rows) all.push(...infoOf(row))
      from = next
    } while (from !== undefined)
    return all
  })

/** What a client does with timers. */
export const timersOf = (located: Located) => {
  const { definition, keys, tenant } = located
  return {
    castLater: (tag: string, ...args: ReadonlyArray<unknown>) =>
      Effect.suspend(() => transact(tenant, castLaterTx(definition, () => keys, "castLater", tag, args))),
    cancelTimer: (id: unknown) => transact(tenant, cancelTimerTx(definition, () => keys, id)),
    timers: list(located)
  }
}

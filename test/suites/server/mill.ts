/** The server that the suites of failures run: what a message does to its handler stands in the message. */
import { Effect, Schema } from "effect"
import { DgenServer, Transaction } from "effect-dgen"
import { fast } from "./support.ts"

export class Refused extends Schema.TaggedError<Refused>()("Refused", { item: Schema.String }) {}

const grain = { item: Schema.String, does: Schema.String }

export class Mill extends DgenServer.Service<Mill>()("Mill", {
  state: Schema.Struct({ log: Schema.Array(Schema.String) }),
  messages: {
    Grind: DgenServer.cast({ payload: grain }),
    Ask: DgenServer.call({ payload: grain, success: Schema.Int, error: Refused }),
    Log: DgenServer.call({ success: Schema.Array(Schema.String) })
  }
}) {}

export interface Run {
  readonly item: string
  readonly attempt: number
}

/** Writes so many pieces of 100 kB. */
const write = (item: string, pieces: number) =>
  Effect.forEach(
    Array.from({ length: pieces }, (_, i) => i),
    (i) => Transaction.set(["flour", item.slice(0, 20), i], new Uint8Array(100_000)),
    { discard: true }
  )

/**
 * Handlers that do what the message says: `crash` always, `crash 2` twice, `large 30` writes 30 pieces, `wide` a value
 * that no store takes, `state` leaves a state that does not fit its schema. `isBroken` makes `broken` crash.
 */
export const mill = (runs: Array<Run> = [], isBroken: () => boolean = () => true) => {
  const grind = Effect.fnUntraced(function*(
    { does, item }: { readonly item: string; readonly does: string },
    state: { readonly log: ReadonlyArray<string> },
    { attempt }: DgenServer.HandlerContext
  ) {
    runs.push({ item: item.slice(0, 20), attempt })
    const [what, number] = does.split(" ")
    const count = Number(number ?? Infinity)
    if (what === "crash" && attempt <= count) throw new Error(`${item.slice(0, 20)} is poison`)
    if (what === "broken" && isBroken()) throw new Error("the mill is broken")
    if (what === "large") yield* write(item, count)
    if (what === "wide") yield* Transaction.set(["wide"], new Uint8Array(100_001))
    if (what === "refused") return yield* new Refused({ item })
    const log = [...state.log, item.slice(0, 20)]
    return what === "state" && attempt <= count ? { log: [7] as unknown as Array<string>, attempt } : { log, attempt }
  })
  return Mill.behaviour({
    init: Effect.succeed({ log: [] }),
    handlers: {
      Grind: (grain, state, context) =>
        Effect.map(Effect.orDie(grind(grain, state, context)), ({ log }) => DgenServer.noReply({ log })),
      Ask: (grain, state, context) =>
        Effect.map(grind(grain, state, context), ({ attempt, log }) => DgenServer.reply(attempt, { log })),
      Log: (_, state) => DgenServer.reply(state.log, state)
    }
  })
}

/** Starts a mill. */
export const startMill = (
  options: DgenServer.Options = {},
  runs: Array<Run> = [],
  isBroken?: () => boolean
) => Mill.start(mill(runs, isBroken), { ...fast, tuid: ["Mill"], ...options })

/** A message. */
export const grains = (...items: ReadonlyArray<string | readonly [item: string, does: string]>) =>
  items.map((one) => {
    const [item, does] = typeof one === "string" ? [one, ""] : one
    return ["Grind", { item, does }] as const
  })

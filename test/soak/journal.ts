/**
 * The workload of real processes: senders that number their messages, a server that writes down what it applied, and
 * what must hold between the two whatever went wrong.
 */
import { Effect, Exit, Option, Schema } from "effect"
import { BackendError, DgenServer, Tenant, Transaction } from "effect-dgen"
import * as Check from "../../src/testing/Check.ts"
import type { World } from "../../src/testing/Simulation.ts"

const Entry = Schema.Struct({ id: Schema.String, locked: Schema.Boolean })

export class Journal extends DgenServer.Service<Journal>()("Journal", {
  state: Schema.Struct({ entries: Schema.Array(Entry), notes: Schema.Int, urgent: Schema.Array(Schema.String) }),
  messages: {
    Append: DgenServer.call({ payload: Schema.String, success: Schema.Int }),
    Record: DgenServer.cast({ payload: Schema.String }),
    Slow: DgenServer.call({ payload: Schema.String, success: Schema.Int, locks: true }),
    Urgent: DgenServer.cast({ payload: Schema.String })
  },
  actions: { Did: Schema.String }
}) {}

/** What one run of the workload is told, outside of the store. */
export interface Told {
  /** Messages that their senders know to be sent, with the answers of calls. */
  readonly acknowledged: Map<string, number | undefined>
  /** Messages of which their senders know that nothing was written. */
  readonly refused: Set<string>
  /** Messages that each sender got through, in its order. */
  readonly order: Map<string, Array<string>>
  /** Actions that ran. */
  readonly actions: Array<string>
  /** Who is in a locked section. */
  readonly inside: Set<string>
}

export const makeTold = (): Told => ({
  acknowledged: new Map(),
  refused: new Set(),
  order: new Map(),
  actions: [],
  inside: new Set()
})

type State = (typeof Journal)["Service"] extends { readonly state: Effect.Effect<infer S | undefined, any> }
  ? Exclude<S, undefined>
  : never

const append = (state: State, id: string, locked: boolean): State => ({
  ...state,
  entries: [...state.entries, { id, locked }]
})

const did = (id: string) => [Journal.action("Did", id)]

const behaviour = Journal.behaviour({
  init: Effect.succeed({ entries: [], notes: 0, urgent: [] }),
  handlers: {
    Append: Effect.fnUntraced(function*(id, state) {
      yield* Transaction.add(["applied"], 1)
      return DgenServer.reply(state.entries.length + 1, append(state, id, false), did(id))
    }),
    Record: Effect.fnUntraced(function*(id, state) {
      yield* Transaction.add(["applied"], 1)
      return DgenServer.noReply(append(state, id, false), did(id))
    }),
    Slow: (_, state) => DgenServer.lock(state),
    Urgent: (id, state) => DgenServer.noReply({ ...state, urgent: [...state.urgent, id] })
  }
})

/** One life of a server: it consumes until its process ends. */
export const serve = (told: Told, options: DgenServer.Options) =>
  Effect.gen(function*() {
    yield* Journal.start(behaviour, { tuid: ["Journal"], ...options })
    return yield* Effect.never
  }).pipe(
    Effect.retry({ while: (error) => BackendError.isBackendError(error) }),
    Effect.provide(Journal.actionsLayer({ Did: (id) => Effect.sync(() => void told.actions.push(id)) })),
    Effect.provide(Journal.lockedLayer({
      Slow: (id) =>
        Effect.as(
          Effect.acquireUseRelease(
            Effect.sync(() => void told.inside.add(id)),
            () => Effect.sleep(id.length * 10),
            () => Effect.sync(() => void told.inside.delete(id))
          ),
          DgenServer.update((fresh: State) =>
            DgenServer.reply(fresh.entries.length + 1, append(fresh, id, true), did(id))
          )
        )
    })),
    Effect.provide(Tenant.layer(["journal"]))
  )

/** One life of a sender: so many messages, one after another, of kinds that the id chooses. */
export const send = (told: Told, sender: string, count: number) =>
  Effect.gen(function*() {
    const journal = yield* Journal.client()
    for (let i = 0; i < count; i++) {
      const id = `${sender}-${i}`
      const kind = i % 5
      const run: Effect.Effect<number | void, DgenServer.CallError> = kind === 4
        ? journal.call("Slow", id, { timeout: "2 minutes" })
        : kind % 2 === 0
        ? journal.call("Append", id, { timeout: "2 minutes" })
        : journal.cast("Record", id)
      const exit = yield* Effect.exit(run)
      if (Exit.isSuccess(exit)) {
        told.acknowledged.set(id, exit.value ?? undefined)
        told.order.set(sender, [...(told.order.get(sender) ?? []), id])
      } else {
        const error = Exit.findErrorOption(exit)
        const isRefused = Option.isSome(error) && BackendError.isBackendError(error.value) &&
          !error.value.isMaybeCommitted && kind % 2 === 1
        if (isRefused) told.refused.add(id)
      }
    }
  }).pipe(Effect.provide(Tenant.layer(["journal"])))

/** The final state, once everything that was sent is handled. */
export const settle = (world: World, told: Told) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* world.spawn("last server", serve(told, { lockTimeout: "5 seconds", consumeK: 10 }))
    return yield* Effect.gen(function*() {
      const journal = yield* Journal.client()
      const isDone = Effect.zipWith(journal.queueLength, journal.locked, (length, locked) => length === 0 && !locked)
      // a lock that was broken leaves its message for a while
      for (let quiet = 0; quiet < 5;) {
        yield* Effect.sleep("10 seconds")
        quiet = (yield* isDone) ? quiet + 1 : 0
      }
      const applied = yield* Tenant.transact(Transaction.get(["applied"]))
      return {
        state: (yield* journal.state)!,
        applied: applied === undefined ? 0 : new DataView(applied.buffer).getInt32(0, true)
      }
    }).pipe(Effect.provide(Tenant.layer(["journal"])))
  })

/** What does not hold, in words; nothing when all does. */
export const check = (
  told: Told,
  { applied, state }: { readonly applied: number; readonly state: State },
  died: boolean
): ReadonlyArray<string> => {
  const ids = state.entries.map((entry) => entry.id)
  const place = new Map(ids.map((id, index) => [id, index]))
  const problems = [
    ...Check.exactlyOnce({ acknowledged: told.order, refused: told.refused }, ids),
    ...Check.actions(told.actions, ids, { all: !died })
  ]
  for (const [id, answer] of told.acknowledged) {
    const at = place.get(id)
    if (at !== undefined && answer !== undefined && answer !== at + 1) {
      problems.push(`${id} was answered ${answer}, and lies at ${at + 1}`)
    }
  }
  const counted = state.entries.filter((entry) => !entry.locked).length
  if (applied !== counted) problems.push(`${applied} applications were counted beside ${counted} entries`)
  return problems
}

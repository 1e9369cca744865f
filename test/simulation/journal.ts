/**
 * The main workload of the simulations: senders that number their messages, a server that writes down what it applied,
 * and what must hold between the two whatever went wrong.
 *
 * Handlers also tell the test, past the store, what they saw: only while they run on a snapshot that the store gave
 * them, so that what they saw is so even if their try is not the one that counts.
 */
import { Effect, Exit, Option, Random, Schema } from "effect"
import { BackendError, DgenServer, Tenant, Transaction } from "effect-dgen"
import * as Check from "../../src/testing/Check.ts"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"

const Entry = Schema.Struct({
  id: Schema.String,
  how: Schema.Literals(["queued", "update", "plain"]),
  /** Tells the tries of batches apart; 0 for entries of locked handlers. */
  batch: Schema.Int
})

export class Journal extends DgenServer.Service<Journal>()("Journal", {
  state: Schema.Struct({ entries: Schema.Array(Entry), notes: Schema.Int, urgent: Schema.Array(Schema.String) }),
  messages: {
    Append: DgenServer.call({ payload: Schema.String, success: Schema.Int }),
    Record: DgenServer.cast({ payload: Schema.String }),
    /** Leaves the state as it is: nothing but its place in the queue can conflict. */
    Tally: DgenServer.cast({ payload: Schema.String }),
    Slow: DgenServer.call({ payload: Schema.String, success: Schema.Int, locks: true }),
    Work: DgenServer.cast({ payload: Schema.String, locks: true }),
    Urgent: DgenServer.cast({ payload: Schema.String }),
    Note: DgenServer.cast({ payload: Schema.String })
  },
  actions: { Did: Schema.String }
}) {}

type State = {
  readonly entries: ReadonlyArray<typeof Entry.Type>
  readonly notes: number
  readonly urgent: ReadonlyArray<string>
}

/** An action that ran: in which life of a server, and what it saw of its batch. */
interface Ran {
  readonly life: number
  readonly id: string
  readonly state: State
}

/** What one run of the workload is told, outside of the store. */
export interface Told {
  /** Answers of calls. */
  readonly answers: Map<string, number>
  /** Messages that are sent for sure, by sender and in its order; those that a lock may move are each on their own. */
  readonly acknowledged: Map<string, Array<string>>
  readonly tallies: Set<string>
  readonly urgent: Set<string>
  /** Messages of which their senders know that nothing was written. */
  readonly refused: Set<string>
  /** When the sending of a queued message began and ended, counted in such events. */
  readonly spans: Map<string, { readonly begin: number; end: number }>
  readonly actions: Array<Ran>
  /** What locked handlers were given at first, by message and attempt. */
  readonly given: Map<string, number>
  readonly problems: Array<string>
  readonly batches: WeakMap<object, number>
  lives: number
  clock: number
  lastBatch: number
}

export const makeTold = (): Told => ({
  answers: new Map(),
  acknowledged: new Map(),
  tallies: new Set(),
  urgent: new Set(),
  refused: new Set(),
  spans: new Map(),
  actions: [],
  given: new Map(),
  problems: [],
  batches: new WeakMap(),
  lives: 0,
  clock: 0,
  lastBatch: 0
})

const append = (state: State, id: string, how: typeof Entry.Type["how"], batch: number): State => ({
  ...state,
  entries: [...state.entries, { id, how, batch }]
})

const did = (id: string) => [Journal.action("Did", id)]

const behaviourOf = (told: Told) => {
  const batch = Effect.map(Transaction.Transaction, (state) => {
    if (!told.batches.has(state)) told.batches.set(state, ++told.lastBatch)
    return told.batches.get(state)!
  })
  return Journal.behaviour({
    init: Effect.succeed({ entries: [], notes: 0, urgent: [] }),
    handlers: {
      Append: Effect.fnUntraced(function*(id, state) {
        yield* Transaction.add(["applied"], 1)
        return DgenServer.reply(state.entries.length + 1, append(state, id, "queued", yield* batch), did(id))
      }),
      Record: Effect.fnUntraced(function*(id, state) {
        yield* Transaction.add(["applied"], 1)
        return DgenServer.noReply(append(state, id, "queued", yield* batch), did(id))
      }),
      Tally: (id, state) => Effect.as(Transaction.add(["tally", id], 1), DgenServer.noReply(state)),
      Slow: (_, state) => DgenServer.lock(state),
      Work: (_, state) => DgenServer.lock(state),
      Urgent: (id, state) => DgenServer.noReply({ ...state, urgent: [...state.urgent, id] }),
      Note: (_, state) =>
        Effect.as(Transaction.add(["notes"], 1), DgenServer.noReply({ ...state, notes: state.notes + 1 }))
    }
  })
}

/** Locked sections exclude each other, and queued messages: nothing but urgent messages changes the state meanwhile. */
const lockedOf = (told: Told) => {
  const given = (id: string, attempt: number, state: State) => {
    const key = `${id} attempt ${attempt}`
    const first = told.given.get(key) ?? state.entries.length
    told.given.set(key, first)
    if (first !== state.entries.length) told.problems.push(`a queued message was handled during the lock of ${key}`)
  }
  return Journal.lockedLayer({
    Slow: (id, state, { attempt }) =>
      Effect.andThen(
        Effect.sync(() => given(id, attempt, state)),
        Effect.as(
          Effect.sleep(id.length * 10),
          DgenServer.update((fresh: State) => {
            given(id, attempt, fresh)
            return DgenServer.reply(fresh.entries.length + 1, append(fresh, id, "update", 0), did(id))
          })
        )
      ),
    Work: Effect.fnUntraced(function*(id, state, { attempt }) {
      given(id, attempt, state)
      yield* Effect.sleep((yield* Random.next) * 1_000)
      return DgenServer.noReply({ ...append(state, id, "plain", 0), notes: state.notes + 1 }, did(id))
    })
  })
}

/** Messages past the queue, from the process of a server: some change what locked handlers change, too. */
const urge = (
  told: Told,
  journal: { readonly priorityCast: (tag: "Note" | "Urgent", id: string) => Effect.Effect<void, unknown> },
  life: number,
  count: number
) =>
  Effect.gen(function*() {
    for (let i = 0; i < count; i++) {
      yield* Effect.sleep((yield* Random.next) * 2_000)
      const id = `urgent-${life}-${i}`
      const exit = yield* Effect.exit(journal.priorityCast(i % 3 === 2 ? "Note" : "Urgent", id))
      if (Exit.isSuccess(exit) && i % 3 !== 2) told.urgent.add(id)
    }
  })

/** One life of a server: it consumes until its process ends. */
export const serve = (told: Told, options: DgenServer.Options, { urges } = { urges: 6 }) =>
  Effect.suspend(() => {
    const life = ++told.lives
    return Effect.gen(function*() {
      const journal = yield* Journal.start(behaviourOf(told), { tuid: ["Journal"], ...options })
      yield* urge(told, journal, life, urges)
      return yield* Effect.never
    }).pipe(
      Effect.scoped,
      Effect.retry(again),
      Effect.provide(Journal.actionsLayer({
        Did: (id, state) => Effect.sync(() => void told.actions.push({ life, id, state }))
      })),
      Effect.provide(lockedOf(told)),
      Effect.provide(Tenant.layer(["journal"]))
    )
  })

/** The ways in which senders send, in turn. */
const kinds = ["append", "record", "pair", "work", "tally", "slow"] as const

/** One life of a sender: so many messages, one after another, of all kinds or of one. */
export const send = (told: Told, sender: string, count: number, only?: typeof kinds[number]) =>
  Effect.gen(function*() {
    const journal = yield* Journal.client()
    const ordered = told.acknowledged.get(sender) ?? []
    told.acknowledged.set(sender, ordered)
    const timeout = "2 minutes"
    for (let i = 0; i < count; i++) {
      const kind = only ?? kinds[(i + sender.charCodeAt(0)) % kinds.length]!
      const id = `${sender}-${i}`
      const ids = kind === "pair" ? [id, `${id}+`] : [id]
      const run: Effect.Effect<number | void, DgenServer.CallError> = kind === "append"
        ? journal.call("Append", id, { timeout })
        : kind === "slow"
        ? journal.call("Slow", id, { timeout })
        : kind === "work"
        ? journal.cast("Work", id)
        : kind === "tally"
        ? journal.cast("Tally", id)
        : journal.castAll(ids.map((each) => ["Record", each]))
      const span = { begin: ++told.clock, end: Infinity }
      if (kind === "append" || kind === "record" || kind === "pair") {
        for (const each of ids) told.spans.set(each, span)
      }
      const exit = yield* Effect.exit(run)
      span.end = ++told.clock
      if (Exit.isFailure(exit)) {
        const error = Exit.findErrorOption(exit)
        const isRefused = Option.isSome(error) && BackendError.isBackendError(error.value) &&
          !error.value.isMaybeCommitted && kind !== "append" && kind !== "slow"
        if (isRefused) { for (const each of ids) told.refused.add(each) }
        span.end = Infinity
        continue
      }
      if (typeof exit.value === "number") told.answers.set(id, exit.value)
      if (kind === "tally") told.tallies.add(id)
      else if (kind === "work") told.acknowledged.set(id, [id])
      else ordered.push(...ids)
    }
  }).pipe(Effect.provide(Tenant.layer(["journal"])))

/** Longer than any run takes: what is not handled by then never will be. */
const PATIENCE_MILLIS = 60 * 60_000

/** Waits until a server has handled what was sent, and tells whether it did. */
export const drained = <E>(
  client: { readonly queueLength: Effect.Effect<number, E>; readonly locked: Effect.Effect<boolean, E> }
) =>
  Effect.gen(function*() {
    // a lock that was broken leaves its message for a while
    let quiet = 0
    for (let waited = 0; quiet < 3 && waited < PATIENCE_MILLIS; waited += 10_000) {
      yield* Effect.sleep("10 seconds")
      const [length, locked] = yield* Effect.all([client.queueLength, client.locked])
      quiet = length === 0 && !locked ? quiet + 1 : 0
    }
    return quiet === 3
  })

const numberOf = (bytes: Uint8Array | undefined): number =>
  bytes === undefined ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, true)

/** The final state, once everything that was sent is handled. */
export const settle = (world: World, told: Told) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* world.spawn("last server", serve(told, { lockTimeout: "5 seconds", consumeK: 10 }))
    return yield* Effect.gen(function*() {
      const journal = yield* Journal.client()
      const isDone = yield* drained(journal)
      const tallies = yield* Tenant.transact(Transaction.getRange(["tally"]))
      return {
        isDone,
        state: (yield* journal.state)! as State,
        applied: numberOf(yield* Tenant.transact(Transaction.get(["applied"]))),
        notes: numberOf(yield* Tenant.transact(Transaction.get(["notes"]))),
        tallies: new Map(tallies.map(({ key, value }) => [key[1] as string, numberOf(value)]))
      }
    }).pipe(Effect.provide(Tenant.layer(["journal"])))
  })

/** What does not hold, in words; nothing when all does. */
export const check = (
  told: Told,
  found: Effect.Success<ReturnType<typeof settle>>,
  died: boolean
): ReadonlyArray<string> => {
  const { state } = found
  const ids = state.entries.map((entry) => entry.id)
  const place = new Map(ids.map((id, index) => [id, index]))
  const counted = state.entries.filter((entry) => entry.how === "queued").length
  const noted = found.notes + state.entries.filter((entry) => entry.how === "plain").length
  const problems = [
    ...told.problems,
    ...Check.exactlyOnce({ acknowledged: told.acknowledged, refused: told.refused }, ids),
    ...Check.exactlyOnce({ acknowledged: new Map([...told.urgent].map((id) => [id, [id]])) }, state.urgent),
    ...Check.actions(told.actions.map((action) => action.id), ids, { all: !died }),
    ...overtaken(told, ids),
    ...actionsOf(told, state, place)
  ]
  if (!found.isDone) problems.push("what was sent is not handled after an hour")
  for (const [id, answer] of told.answers) {
    const at = place.get(id)
    if (at !== undefined && answer !== at + 1) problems.push(`${id} was answered ${answer}, and lies at ${at + 1}`)
  }
  for (const id of told.tallies) {
    if (!found.tallies.has(id)) problems.push(`${id} was acknowledged, and is not counted`)
  }
  for (const [id, times] of found.tallies) if (times !== 1) problems.push(`${id} was counted ${times} times`)
  if (found.applied !== counted) problems.push(`${found.applied} applications were counted beside ${counted} entries`)
  if (state.notes !== noted) problems.push(`there are ${state.notes} notes, and ${noted} were made`)
  return problems
}

/** Messages whose sending began after that of another had ended, and which were handled before it (rule R7). */
const overtaken = (told: Told, ids: ReadonlyArray<string>): ReadonlyArray<string> => {
  let latest = { id: "", begin: -1 }
  return ids.flatMap((id) => {
    const span = told.spans.get(id)
    if (span === undefined) return []
    const problem = span.end < latest.begin ? [`${latest.id} was sent after ${id}, and handled before it`] : []
    if (span.begin > latest.begin) latest = { id, begin: span.begin }
    return problem
  })
}

/** Actions run in order, each with the state as of the end of its batch (rule R22). */
const actionsOf = (told: Told, state: State, place: ReadonlyMap<string, number>): ReadonlyArray<string> => {
  const last = new Map<number, number>()
  const sizeOf = (entries: State["entries"], batch: number) => entries.filter((entry) => entry.batch === batch).length
  return told.actions.flatMap((action) => {
    const at = place.get(action.id)
    if (at === undefined) return []
    const problems: Array<string> = []
    if (at < (last.get(action.life) ?? -1)) {
      problems.push(`the action of ${action.id} ran after that of a later message`)
    }
    last.set(action.life, at)
    const { batch } = state.entries[at]!
    const seen = batch === 0
      ? action.state.entries.at(-1)?.id === action.id
      : sizeOf(action.state.entries, batch) === sizeOf(state.entries, batch)
    if (!seen) problems.push(`the action of ${action.id} did not see the state as of the end of its batch`)
    return problems
  })
}

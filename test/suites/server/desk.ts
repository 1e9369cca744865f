/**
 * The server that the suites of locks run: it writes down what it handled, and its locked handlers are the test's.
 * `log` and `count` are two entries of its state, so that changes of one and of both can be told apart.
 */
import { Deferred, Effect, Exit, Layer, Schema } from "effect"
import { DgenServer, Transaction } from "effect-dgen"
import { fast } from "./support.ts"

export class Refused extends Schema.TaggedError<Refused>()("Refused", { item: Schema.String }) {}

const work = { item: Schema.String }

export class Desk extends DgenServer.Service<Desk>()("Desk", {
  state: Schema.Struct({ log: Schema.Array(Schema.String), count: Schema.Int }),
  messages: {
    /** Locks. */
    Work: DgenServer.call({ payload: work, success: Schema.String, error: Refused, locks: true }),
    WorkCast: DgenServer.cast({ payload: work, locks: true }),
    WorkInfo: DgenServer.info({ payload: work, locks: true }),
    /** Adds to the log. */
    Note: DgenServer.cast({ payload: { item: Schema.String } }),
    NoteInfo: DgenServer.info({ payload: { item: Schema.String } }),
    /** Adds to the count. */
    Count: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }),
    Log: DgenServer.call({ success: Schema.Array(Schema.String) })
  },
  actions: { Told: { item: Schema.String } }
}) {}

export type State = { readonly log: ReadonlyArray<string>; readonly count: number }

/** A state with one more line in its log; of long items it keeps the beginning. */
export const logged = (state: State, ...words: ReadonlyArray<string>): State => ({
  ...state,
  log: [...state.log, words.map((word) => word.slice(0, 9)).join(" ")]
})

const lockedBy = Effect.fnUntraced(function*(
  { item }: { readonly item: string },
  state: State,
  { from }: DgenServer.HandlerContext
) {
  // what a refused lock must not leave behind
  yield* Transaction.set(["locked by", item.slice(0, 9)], new Uint8Array(1))
  if (item === "answered") yield* Desk.replyTo(from!, Exit.succeed("at once"))
  return DgenServer.lock(logged(state, "lock", item))
})

export const desk = Desk.behaviour({
  init: Effect.succeed({ log: [], count: 0 }),
  handlers: {
    Work: lockedBy,
    WorkCast: lockedBy,
    WorkInfo: lockedBy,
    Note: ({ item }, state) => DgenServer.noReply(logged(state, item)),
    NoteInfo: ({ item }, state) => DgenServer.noReply(logged(state, item)),
    Count: ({ by }, state) => DgenServer.reply(state.count + by, { ...state, count: state.count + by }),
    Log: (_, state) => DgenServer.reply(state.log, state)
  }
})

type Context = DgenServer.LockedContext
type Settled =
  | DgenServer.NoReply<State, "Desk">
  | DgenServer.Reply<string, State, "Desk">
  | DgenServer.Stop<State, "Desk">
export type Outcome = Settled | DgenServer.Update<State, Settled, Refused>

/** What a test does under the lock. */
export type Locked = (item: string, state: State, context: Context) => Effect.Effect<Outcome, Refused>

/** What ends a lock: it answers the call with the attempt, and notes that the work is done. */
export const done = (item: string, state: State, { attempt, kind }: Context): Outcome =>
  kind === "call"
    ? DgenServer.reply(`${item} ${attempt}`, logged(state, "done", item))
    : DgenServer.noReply(logged(state, "done", item))

/** The layers of a desk. */
export const deskHandlers = (
  locked: Locked,
  told: (item: string, state: State) => Effect.Effect<void | DgenServer.Halt> = () => Effect.void
) => {
  const run = ({ item }: { readonly item: string }, state: State, context: Context) =>
    locked(item, state, context) as Effect.Effect<any, never>
  return Layer.merge(
    Desk.lockedLayer({ Work: run, WorkCast: run, WorkInfo: run }),
    Desk.actionsLayer({ Told: ({ item }, state) => told(item, state) })
  )
}

/** Starts a desk. */
export const startDesk = (locked: Locked, options: DgenServer.Options = {}) =>
  Desk.start(desk, { ...fast, tuid: ["Desk"], ...options }).pipe(Effect.provide(deskHandlers(locked)))

/** A locked handler that says when it has begun, and waits to be let go. */
export const held = Effect.gen(function*() {
  const begun = yield* Deferred.make<DgenServer.LockedContext>()
  const go = yield* Deferred.make<void>()
  const runs: Array<string> = []
  const locked: Locked = (item, state, context) =>
    Effect.gen(function*() {
      runs.push(`${item} ${context.attempt}`)
      yield* Deferred.succeed(begun, context)
      yield* Deferred.await(go)
      return done(item, state, context)
    })
  return { begun: Deferred.await(begun), go: Deferred.succeed(go, undefined), runs, locked }
})

/**
 * The second workload of the soak: what servers do with each other, and what operators do with them. Money moves between
 * accounts by `castTx`, tickets are answered later by `replyTo`, fragile messages die, also under the lock, become dead
 * letters and are put back, and a server is killed again and again.
 */
import { Cause, Effect, Exit, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"

export const ACCOUNTS = [0, 1, 2]

const FIRST_BALANCE = 1_000

export const tuidOf = (account: number) => ["account", account]

export const VICTIM = ["victim"]

const State = Schema.Struct({
  balance: Schema.Int,
  tickets: Schema.Int,
  waiting: Schema.Array(DgenServer.From),
  isBroken: Schema.Boolean,
  applied: Schema.Array(Schema.String)
})
export type State = typeof State.Type

export class Account extends DgenServer.Service<Account>()("Account", {
  state: State,
  messages: {
    Move: DgenServer.cast({ payload: { to: Schema.Int, amount: Schema.Int } }),
    Receive: DgenServer.cast({ payload: { amount: Schema.Int } }),
    /** Answered by the next `Next`, with a number that nobody else gets. */
    Ticket: DgenServer.call({ success: Schema.Int }),
    Next: DgenServer.cast(),
    /** Dies while the account is broken. */
    Fragile: DgenServer.cast({ payload: Schema.String }),
    /** The same, under the lock; calls come inline, too. */
    FragileLocked: DgenServer.call({ payload: Schema.String, locks: true }),
    Break: DgenServer.cast(),
    Mend: DgenServer.cast()
  }
}) {}

const behaviour = Account.behaviour({
  init: Effect.succeed({ balance: FIRST_BALANCE, tickets: 0, waiting: [], isBroken: false, applied: [] }),
  handlers: {
    Move: ({ amount, to }, state) =>
      Effect.as(
        Effect.orDie(Account.castTx("Receive", { amount }, { tuid: tuidOf(to) })),
        DgenServer.noReply({ ...state, balance: state.balance - amount })
      ),
    Receive: ({ amount }, state) => DgenServer.noReply({ ...state, balance: state.balance + amount }),
    Ticket: (_, state, { from }) => DgenServer.noReply({ ...state, waiting: [...state.waiting, from!] }),
    Next: Effect.fnUntraced(function*(_, state) {
      let tickets = state.tickets
      for (const from of state.waiting) yield* Account.replyTo(from, Exit.succeed(tickets++))
      return DgenServer.noReply({ ...state, waiting: [], tickets })
    }),
    Fragile: (id, state) =>
      state.isBroken
        ? Effect.die(new Error("the account is broken"))
        : DgenServer.noReply({ ...state, applied: [...state.applied, id] }),
    FragileLocked: (_, state) => DgenServer.lock(state),
    Break: (_, state) => DgenServer.noReply({ ...state, isBroken: true }),
    Mend: (_, state) => DgenServer.noReply({ ...state, isBroken: false })
  }
})

const locked = Account.lockedLayer({
  FragileLocked: (id, state: State) =>
    Effect.andThen(
      Effect.sleep("20 millis"),
      state.isBroken
        ? Effect.die(new Error("the account is broken, under the lock"))
        : Effect.succeed(
          DgenServer.update((fresh: State) =>
            DgenServer.reply(undefined, { ...fresh, applied: [...fresh.applied, id] })
          )
        )
    )
})

/** What the processes are told of the accounts. */
export interface BankTold {
  /** Fragile messages of which their senders know that they are taken. */
  readonly taken: Set<string>
  /** The tickets that callers got. */
  readonly tickets: Array<string>
}

const start = (account: number, options: DgenServer.Options) =>
  Account.start(behaviour, { tuid: tuidOf(account), deadLetterThreshold: 2, grace: 0, ...options })

/** One life of a process that runs all accounts. */
export const serveBank = (options: DgenServer.Options) =>
  Effect.andThen(Effect.forEach(ACCOUNTS, (account) => start(account, options)), Effect.never).pipe(
    Effect.provide(locked)
  )

/** One life of a sender: messages of all kinds to all accounts. */
export const sendBank = (told: BankTold, sender: string, options: DgenServer.Options) =>
  Effect.gen(function*() {
    const accounts = yield* Effect.forEach(ACCOUNTS, (account) => start(account, options))
    for (let i = 0;; i++) {
      const at = i % accounts.length
      const account = accounts[at]!
      const id = `${at} ${sender}-${i}`
      yield* account.castAll([
        ["Move", { to: (at + 1) % accounts.length, amount: 1 + i % 7 }],
        ["Fragile", `${id} cast`],
        ["Next"]
      ])
      told.taken.add(`${id} cast`)
      const ticket = yield* Effect.forkChild(Effect.exit(account.call("Ticket", undefined, { timeout: "1 minute" })))
      yield* Effect.yieldNow
      yield* account.cast("Next")
      // one that is answered, or known to have become a dead letter, is not lost
      const exit = yield* Effect.exit(account.call("FragileLocked", `${id} call`, { timeout: "20 seconds" }))
      const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) as { readonly _tag?: string } : undefined
      if (error === undefined || error._tag === "DeadLettered") told.taken.add(`${id} call`)
      yield* account.cast("Next")
      const answer = ticket.pollUnsafe()
      if (answer !== undefined && Exit.isSuccess(answer) && Exit.isSuccess(answer.value)) {
        told.tickets.push(`${at} ${answer.value.value}`)
      }
    }
  }).pipe(Effect.provide(locked))

/** Puts all dead letters of the accounts back. Succeeds with how many there were. */
export const redrive = Effect.forEach(ACCOUNTS, (account) => {
  const queue = Account.queue({ tuid: tuidOf(account) })
  return Effect.flatMap(
    Tenant.transact(DurableQueue.peekDeadLetters(queue, { limit: 20 })),
    (letters) =>
      Effect.as(
        Effect.forEach(letters, ({ id }) => Tenant.transact(DurableQueue.requeueDeadLetter(queue, id)), {
          discard: true
        }),
        letters.length
      )
  )
}).pipe(Effect.map((counts) => counts.reduce((sum, count) => sum + count, 0)))

/** One life of an operator: breaks and mends accounts, puts dead letters back, breaks locks, kills a server. */
export const operate = (options: DgenServer.Options) =>
  Effect.gen(function*() {
    for (let round = 0;; round++) {
      const account = yield* Account.client({ tuid: tuidOf(round % ACCOUNTS.length) })
      yield* account.cast("Break")
      yield* Effect.sleep("30 millis")
      yield* account.cast("Mend")
      yield* redrive
      if (round % 5 === 0) yield* Tenant.transact(Account.unlock({ tuid: tuidOf(round % ACCOUNTS.length) }))
      yield* Effect.scoped(Effect.gen(function*() {
        const victim = yield* Account.start(behaviour, { ...options, tuid: VICTIM, grace: 0 })
        yield* victim.castAll([["Receive", { amount: 1 }], ["Fragile", "of a victim"]])
        yield* Effect.forkChild(Effect.exit(victim.call("Ticket")))
        yield* Effect.yieldNow
        yield* victim.kill()
      }))
    }
  }).pipe(Effect.provide(locked))

/** Brings all accounts to rest: mended, and without dead letters. Servers run beside it. */
export const settleBank = Effect.gen(function*() {
  const accounts = yield* Effect.forEach(ACCOUNTS, (account) => Account.client({ tuid: tuidOf(account) }))
  yield* Effect.forEach(accounts, (account) => account.castAll([["Mend"], ["Next"]]))
  for (let isAtRest = false; !isAtRest;) {
    yield* Effect.sleep("50 millis")
    const lengths = yield* Effect.forEach(accounts, (account) => account.queueLength)
    const put = yield* redrive
    isAtRest = put === 0 && lengths.every((length) => length === 0)
  }
  yield* Effect.scoped(Effect.flatMap(
    Account.start(behaviour, { tuid: VICTIM, lockTimeout: "1 second" }),
    (victim) => victim.kill()
  ))
  return yield* Effect.forEach(accounts, (account) => Effect.map(account.state, (state) => state!))
}).pipe(Effect.provide(locked))

/** Makes the consumers of the accounts look again. */
export const nudge = Effect.forEach(
  ACCOUNTS,
  (account) => Effect.flatMap(Account.client({ tuid: tuidOf(account) }), (client) => client.cast("Next")),
  { discard: true }
)

/** What does not hold, in words; nothing when all does. */
export const checkBank = (told: BankTold, states: ReadonlyArray<State>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const total = states.reduce((sum, { balance }) => sum + balance, 0)
  const expected = ACCOUNTS.length * FIRST_BALANCE
  if (total !== expected) problems.push(`the accounts hold ${total} together, and ${expected} were put in`)
  const applied = states.flatMap((state) => state.applied)
  const once = new Set(applied)
  if (once.size !== applied.length) problems.push(`${applied.length - once.size} fragile messages were applied twice`)
  for (const id of told.taken) if (!once.has(id)) problems.push(`${id} was taken, and is lost`)
  if (new Set(told.tickets).size !== told.tickets.length) problems.push("two callers have one ticket")
  return problems
}

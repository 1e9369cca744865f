/**
 * Messages that cannot be handled, among others (rule R12): what became of each, and how often it was tried.
 */
import { Effect, Exit, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant, Transaction } from "effect-dgen"
import * as Check from "../../src/testing/Check.ts"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"
import { drained } from "./journal.ts"

const THRESHOLD = 3

export class Sieve extends DgenServer.Service<Sieve>()("Sieve", {
  state: Schema.Array(Schema.String),
  messages: {
    Sift: DgenServer.cast({ payload: Schema.String }),
    Ask: DgenServer.call({ payload: Schema.String })
  }
}) {}

export interface Told {
  readonly acknowledged: Map<string, Array<string>>
  readonly poison: Set<string>
  /** Which attempts of each poison message were seen. */
  readonly attempts: Map<string, Set<number>>
  /** Poison messages that the dead-letter handler saw. */
  readonly letters: Array<string>
  readonly handled: WeakMap<object, number>
  readonly problems: Array<string>
}

export const makeTold = (): Told => ({
  acknowledged: new Map(),
  poison: new Set(),
  attempts: new Map(),
  letters: [],
  handled: new WeakMap(),
  problems: []
})

const isPoison = (id: string): boolean => id.startsWith("poison")

const sift = (told: Told) =>
  Effect.fnUntraced(function*(id: string, attempt: number) {
    const transaction = yield* Transaction.Transaction
    const before = told.handled.get(transaction) ?? 0
    told.handled.set(transaction, before + 1)
    if (attempt > 1 && before > 0) told.problems.push(`attempt ${attempt} of ${id} ran in a batch behind others`)
    if (!isPoison(id)) return
    told.attempts.set(id, (told.attempts.get(id) ?? new Set()).add(attempt))
    return yield* Effect.die(new Error(`${id} cannot be handled`))
  })

const behaviourOf = (told: Told) =>
  Sieve.behaviour({
    init: Effect.succeed([]),
    handlers: {
      Sift: (id, state, { attempt }) => Effect.as(sift(told)(id, attempt), DgenServer.noReply([...state, id])),
      Ask: (id, state, { attempt }) => Effect.as(sift(told)(id, attempt), DgenServer.reply(undefined, [...state, id]))
    }
  })

/** One life of a server. */
export const serve = (told: Told, consumeK: number) =>
  Effect.gen(function*() {
    yield* Sieve.start(behaviourOf(told), { tuid: ["Sieve"], consumeK, deadLetterThreshold: THRESHOLD })
    return yield* Effect.never
  }).pipe(
    Effect.scoped,
    Effect.retry(again),
    Effect.provide(Sieve.deadLetterLayer(({ attempts, payload }) =>
      Effect.sync(() => {
        told.letters.push(payload as string)
        if (attempts !== THRESHOLD) told.problems.push(`${payload} is a dead letter after ${attempts} attempts`)
      })
    )),
    Effect.provide(Tenant.layer(["sieve"]))
  )

/** One life of a sender: every fourth message is poison. */
export const send = (told: Told, sender: string, count: number) =>
  Effect.gen(function*() {
    const sieve = yield* Sieve.client()
    const ordered: Array<string> = []
    told.acknowledged.set(sender, ordered)
    for (let i = 0; i < count; i++) {
      const id = i % 4 === 1 ? `poison-${sender}-${i}` : `${sender}-${i}`
      const exit = yield* Effect.exit(
        i % 3 === 1 ? sieve.call("Ask", id, { timeout: "3 minutes" }) : sieve.cast("Sift", id)
      )
      if (Exit.isSuccess(exit)) {
        if (!isPoison(id)) ordered.push(id)
        else if (i % 3 === 1) told.problems.push(`the call ${id} was answered`)
        else told.poison.add(id)
        continue
      }
      const error: any = exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
      if (error?._tag !== "DeadLettered") continue
      told.poison.add(id)
      if (!isPoison(id)) told.problems.push(`${id} became a dead letter`)
    }
  }).pipe(Effect.provide(Tenant.layer(["sieve"])))

/** What lies where, once everything that was sent is handled. */
export const settle = (world: World, told: Told) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* world.spawn("last server", serve(told, 5))
    return yield* Effect.gen(function*() {
      const sieve = yield* Sieve.client()
      const isDone = yield* drained(sieve)
      const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(Sieve.queue(), { limit: 100 }))
      return {
        isDone,
        state: (yield* sieve.state)!,
        letters: letters.map(({ attempts, payload }) => ({ attempts, id: payload as string })),
        count: yield* Tenant.transact(DurableQueue.deadLetterCount(Sieve.queue()))
      }
    }).pipe(Effect.provide(Tenant.layer(["sieve"])))
  })

/** What does not hold, in words. */
export const check = (
  told: Told,
  found: Effect.Success<ReturnType<typeof settle>>,
  died: boolean
): ReadonlyArray<string> => {
  const problems = [...told.problems, ...Check.exactlyOnce({ acknowledged: told.acknowledged }, found.state)]
  if (!found.isDone) problems.push("what was sent is not handled after an hour")
  const dead = found.letters.map((letter) => letter.id)
  for (const problem of Check.exactlyOnce({ acknowledged: new Map([...told.poison].map((id) => [id, [id]])) }, dead)) {
    problems.push(`dead letters: ${problem}`)
  }
  for (const problem of Check.actions(told.letters, dead, { all: !died })) problems.push(`dead letters: ${problem}`)
  if (found.count !== dead.length) problems.push(`${dead.length} dead letters are counted as ${found.count}`)
  for (const { attempts, id } of found.letters) {
    if (!isPoison(id)) problems.push(`${id} is a dead letter`)
    const seen = [...told.attempts.get(id) ?? []].sort((a, b) => a - b)
    if (attempts !== THRESHOLD || seen.join() !== "1,2,3") {
      problems.push(`${id} is a dead letter after ${attempts} attempts, and these were made: ${seen.join()}`)
    }
  }
  return problems
}

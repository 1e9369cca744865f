/**
 * Callers that give up, and callers that die (rule R9): a call ends in time, and what waits for nobody does not stay.
 */
import { Effect, Random, Schema } from "effect"
import { DgenServer, Tenant, Transaction, Tuple } from "effect-dgen"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import { libraryPrefix, processesPrefix } from "../../src/internal/tenant/layout.ts"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"
import { drained } from "./journal.ts"

export class Desk extends DgenServer.Service<Desk>()("Desk", {
  state: Schema.Int,
  messages: {
    Ask: DgenServer.call({ success: Schema.Int }),
    /** Its answer comes never. */
    Wait: DgenServer.call(),
    Hold: DgenServer.call({ payload: Schema.Number, locks: true }),
    Ping: DgenServer.cast()
  }
}) {}

const behaviour = Desk.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Ask: (_, state) => DgenServer.reply(state + 1, state + 1),
    Wait: (_, state) => DgenServer.noReply(state + 1),
    Hold: (_, state) => DgenServer.lock(state),
    Ping: (_, state) => DgenServer.noReply(state)
  }
})

const tenant = Tenant.layer(["desk"])

export const makeTold = () => ({ problems: [] as Array<string>, calls: 0 })

export type Told = ReturnType<typeof makeTold>

/** One life of a server. */
export const serve = (consumeK: number) =>
  Effect.gen(function*() {
    yield* Desk.start(behaviour, { tuid: ["Desk"], consumeK, lockTimeout: "5 seconds" })
    return yield* Effect.never
  }).pipe(
    Effect.scoped,
    Effect.retry(again),
    Effect.provide(Desk.lockedLayer({
      Hold: (millis, state) => Effect.as(Effect.sleep(millis), DgenServer.reply(undefined, state + 1))
    })),
    Effect.provide(tenant)
  )

/** A commit that is under way, and the one that takes the call's keys away, are waited for; outages end before. */
const LATE_MILLIS = 12_000

const nowMillis = Effect.clockWith((clock) => Effect.sync(() => clock.currentTimeMillisUnsafe()))

/** One life of a caller: calls with short patience, several at a time. */
export const call = (told: Told, name: string, count: number) =>
  Effect.gen(function*() {
    const desk = yield* Desk.client()
    const one = Effect.fnUntraced(function*(i: number) {
      yield* Effect.sleep((yield* Random.next) * 5_000)
      const timeout = Math.ceil((yield* Random.next) * (i % 2 === 0 ? 200 : 4_000))
      const begin = yield* nowMillis
      told.calls++
      yield* Effect.exit(
        i % 3 === 0
          ? desk.call("Wait", undefined, { timeout })
          : i % 3 === 1
          ? desk.call("Ask", undefined, { timeout })
          : desk.call("Hold", (yield* Random.next) * 3_000, { timeout })
      )
      told.calls--
      const took = (yield* nowMillis) - begin
      if (took > timeout + LATE_MILLIS) told.problems.push(`a call of ${name} took ${took} ms, with ${timeout} allowed`)
    })
    yield* Effect.forEach(Array.from({ length: count }, (_, i) => i), one, { concurrency: 4, discard: true })
  }).pipe(Effect.provide(tenant))

/** A slot's key is a tuple with four bytes behind it. */
const SLOT_BYTES = 4

/** The process that has a key. */
const ownerOf = (key: Uint8Array, offset: number): Uint8Array => {
  try {
    return Tuple.unpack(key, offset)[1] as Uint8Array
  } catch {
    return Tuple.unpack(key.subarray(0, -SLOT_BYTES), offset)[1] as Uint8Array
  }
}

/** Keys of calls that wait, and the processes that have something in the store. */
const owned = Effect.gen(function*() {
  const { prefix } = yield* Tenant.Tenant
  const { waiting } = new ServerKeys(prefix, ["Desk"], { name: "", hosted: false })
  const processes = processesPrefix(prefix)
  return yield* Tenant.transact(
    Effect.gen(function*() {
      const state = yield* Transaction.Transaction
      const waits = yield* state.getRange(waiting, Tuple.strinc(waiting))
      const rows = yield* state.getRange(processes, Tuple.strinc(processes))
      const owners = rows.map(({ key }) => ownerOf(key, libraryPrefix(prefix).length))
      return { waits: waits.length, processes: new Set(owners.map((owner) => Buffer.from(owner).toString("hex"))).size }
    })
  )
})

/** Longer than the longest call, and than clocks can differ. */
const DAY = "26 hours"

/** Between two messages: longer than a sign of life counts as new, and than two sweeps are apart. */
const BETWEEN = "11 minutes"

/**
 * What is left: at once, once all is handled, and after a day. Whoever was there before is gone by then; a server and a
 * sender live on.
 */
export const settle = (world: World, ended: ReadonlyArray<{ readonly kill: Effect.Effect<void> }>) =>
  Effect.gen(function*() {
    yield* world.calm
    const desk = yield* Desk.client()
    const isDone = yield* drained(desk)
    const soon = yield* owned
    for (const process of ended) yield* process.kill
    yield* Effect.sleep(DAY)
    yield* world.spawn("last server", serve(10))
    for (let i = 0; i < 4; i++) {
      yield* Effect.retry(desk.cast("Ping"), { times: 10 })
      yield* Effect.sleep(BETWEEN)
    }
    return { isDone, soon, late: yield* owned }
  }).pipe(Effect.provide(tenant))

/** Who lives on: the last server, and the sender. */
const LIVING = 2

/** What does not hold, in words. With `all`, nobody died, and no commit's fate was unknown. */
export const check = (
  told: Told,
  found: Effect.Success<ReturnType<typeof settle>>,
  options: { readonly all: boolean }
): ReadonlyArray<string> => {
  const problems = [...told.problems]
  if (!found.isDone) problems.push("what was sent is not handled after an hour")
  if (options.all && told.calls > 0) problems.push(`${told.calls} calls did not end`)
  if (options.all && found.soon.waits > 0) problems.push(`${found.soon.waits} calls that had given up left their keys`)
  if (found.late.waits > 0) problems.push(`${found.late.waits} keys of calls have no owner, and stay`)
  if (found.late.processes > LIVING) {
    problems.push(`${found.late.processes} processes have keys in the store, and ${LIVING} live`)
  }
  return problems
}

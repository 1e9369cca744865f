/**
 * The end of a server while everybody uses it (rule R26): callers, senders, consumers, and a locked handler.
 */
import { Effect, Exit, Fiber, Random, Schema } from "effect"
import { DgenServer, Tenant, Transaction, Tuple } from "effect-dgen"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"

export class Doomed extends DgenServer.Service<Doomed>()("Doomed", {
  state: Schema.Struct({ count: Schema.Int, text: Schema.String }),
  messages: {
    Count: DgenServer.call({ success: Schema.Int }),
    Add: DgenServer.cast(),
    /** Its answer comes never. */
    Wait: DgenServer.call(),
    Hold: DgenServer.cast({ payload: Schema.Number, locks: true })
  }
}) {}

const behaviour = Doomed.behaviour({
  init: Effect.succeed({ count: 0, text: "" }),
  handlers: {
    Count: (_, state) => DgenServer.reply(state.count + 1, { ...state, count: state.count + 1 }),
    Add: (_, state) => DgenServer.noReply({ ...state, count: state.count + 1 }),
    Wait: (_, state) => DgenServer.noReply({ ...state, text: `${state.text}w` }),
    Hold: (_, state) => DgenServer.lock(state)
  }
})

export interface Told {
  /** How each call that waited for an answer that never comes has ended. */
  readonly waits: Array<{ readonly begin: number; readonly end: number; readonly how: string }>
  started: number
  /** The kill: between these two moments of the store's time. */
  killBegin: number
  killEnd: number
}

export const makeTold = (): Told => ({ waits: [], started: 0, killBegin: Infinity, killEnd: Infinity })

const tenant = Tenant.layer(["doomed"])

const start = (options: DgenServer.Options) =>
  Doomed.start(behaviour, { tuid: ["Doomed"], lockTimeout: "10 seconds", ...options }).pipe(
    Effect.retry(again)
  )

const locked = Doomed.lockedLayer({
  Hold: (millis, state) => Effect.as(Effect.sleep(millis), DgenServer.noReply({ ...state, text: `${state.text}h` }))
})

/** The one life of a server: nobody starts it again after it was killed. */
export const serve = (told: Told, options: DgenServer.Options) =>
  Effect.gen(function*() {
    yield* start(options)
    told.started++
    return yield* Effect.never
  }).pipe(Effect.scoped, Effect.provide(locked), Effect.provide(tenant))

/** Uses the server until it is gone. */
export const use = (told: Told) =>
  Effect.gen(function*() {
    const doomed = yield* Doomed.client()
    const wait = Effect.gen(function*() {
      const begin = yield* storeMillis
      const exit = yield* Effect.exit(doomed.call("Wait", undefined, { timeout: "5 minutes" }))
      const error: any = Exit.isFailure(exit) ? exit.cause.reasons.find(({ _tag }) => _tag === "Fail") : undefined
      told.waits.push({ begin, end: yield* storeMillis, how: error?.error._tag ?? exit._tag })
    })
    const waits: Array<Fiber.Fiber<void>> = []
    for (let i = 0; told.killEnd === Infinity || i < 6; i++) {
      if (i > 60) break
      waits.push(yield* Effect.forkChild(wait))
      if (i % 3 === 0) yield* Effect.exit(doomed.cast("Hold", (yield* Random.next) * 2_000))
      yield* Effect.exit(doomed.cast("Add"))
      yield* Effect.exit(doomed.call("Count", undefined, { timeout: "1 second" }))
      yield* Effect.sleep((yield* Random.next) * 1_000)
    }
    for (const fiber of waits) yield* Fiber.await(fiber)
  }).pipe(Effect.provide(tenant))

/** The time of all processes alike. */
const storeMillis = Effect.clockWith((clock) => Effect.sync(() => Number(clock.monotonicTimeNanosUnsafe()) / 1e6))

/** Kills it, from a process that does not consume. */
export const end = (told: Told) =>
  Effect.gen(function*() {
    const doomed = yield* start({ consume: false })
    told.started++
    yield* Effect.sleep(5_000 + (yield* Random.next) * 10_000)
    told.killBegin = yield* storeMillis
    yield* Effect.retry(doomed.kill(), again)
    told.killEnd = yield* storeMillis
  }).pipe(Effect.scoped, Effect.provide(locked), Effect.provide(tenant))

/** What the store holds when all is over, and after a second life and a second end, with nobody else there. */
export const settle = (world: World) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* Effect.sleep("1 minute")
    const { prefix } = yield* Tenant.Tenant
    const keys = new ServerKeys(prefix, ["Doomed"], { name: "", hosted: false })
    const rows = Tenant.transact(
      Effect.flatMap(
        Transaction.Transaction,
        (state) =>
          Effect.map(state.getRange(keys.prefix, Tuple.strinc(keys.prefix)), (rows) => rows.map(({ key }) => key))
      )
    )
    const nameOf = (key: Uint8Array) => String(Tuple.unpack(key, keys.prefix.length)[0])
    const back = (yield* rows).map(nameOf)
    const second = yield* start({ consume: false })
    yield* second.kill()
    return { back: [...new Set(back)], left: (yield* rows).map(nameOf) }
  }).pipe(Effect.scoped, Effect.provide(locked), Effect.provide(tenant))

/** What may lie under the prefix of a server that is gone: what clients sent later. */
const LATER = new Set(["item", "push", "wait"])

/** A push that began so long before the kill was there when it came. */
const PUSH_MILLIS = 5_000

/** An answer that lies in the store is found after so long, also when its bell is lost. */
const HEARD_MILLIS = 45_000

/** What does not hold, in words. */
export const check = (told: Told, found: Effect.Success<ReturnType<typeof settle>>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  for (const name of found.back) if (!LATER.has(name)) problems.push(`"${name}" came back after the kill`)
  for (const name of found.left) problems.push(`"${name}" stayed under the prefix of a server that was killed`)
  for (const { begin, end, how } of told.waits) {
    if (begin > told.killBegin - PUSH_MILLIS || end < told.killBegin) continue
    if (how !== "ServerKilled") problems.push(`a call that waited when the server was killed ended as ${how}`)
    else if (end > told.killEnd + HEARD_MILLIS) problems.push("a call heard too late that the server was killed")
  }
  return problems
}

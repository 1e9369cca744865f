/**
 * Hosted servers while hosts die, stand still, leave and disagree: messages to them, between them and to themselves, locks,
 * timers that are set again and cancelled, and servers that are gone and begin anew.
 *
 * What a handler did is counted in the store, beside its state: states end with their servers.
 */
import { DateTime, Effect, Exit, Layer, Option, Random, Result, Schema } from "effect"
import { BackendError, DgenServer, Tenant, Transaction, Tuple } from "effect-dgen"
import * as Heads from "../../src/internal/server/kept/head.ts"
import { IndexKeys, readWake } from "../../src/internal/server/kept/indexes.ts"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import { serversPrefix } from "../../src/internal/tenant/listed.ts"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"

const NAME = "Ward"

class Ward extends DgenServer.Service<Ward>()("Ward", {
  state: Schema.Struct({ entries: Schema.Array(Schema.String), ticks: Schema.Int }),
  hosted: true,
  messages: {
    Append: DgenServer.call({ payload: Schema.String, success: Schema.Int }),
    Record: DgenServer.cast({ payload: Schema.String }),
    /** To itself, and to another one. */
    Later: DgenServer.cast({ payload: Schema.String }),
    Pass: DgenServer.cast({ payload: Schema.Struct({ id: Schema.String, to: Schema.Int }) }),
    Work: DgenServer.cast({ payload: Schema.String, locks: true }),
    Leave: DgenServer.cast({ payload: Schema.String }),
    Tick: DgenServer.cast()
  }
}) {}

const WARDS = 5

/** This one is never gone, and has a timer that comes again. */
const STEADY = 0

const TICK_MILLIS = 7_000

const tuidOf = (ward: number) => ["ward", ward]

/** What one run is told, outside of the store. */
export interface Told {
  readonly acknowledged: Set<string>
  readonly refused: Set<string>
  /** Timers: from when on they may be sent, by the slowest clock, and from when on they may not. */
  readonly timers: Map<string, { readonly notBefore: number; notAfter: number }>
  readonly problems: Set<string>
  /** The store's time, which handlers have no other way to know. */
  now: () => number
}

export const makeTold = (): Told => ({
  acknowledged: new Set(),
  refused: new Set(),
  timers: new Map(),
  problems: new Set(),
  now: () => 0
})

/** Counts that a message was handled, and when. */
const did = (told: Told, id: string) =>
  Effect.gen(function*() {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setFloat64(0, told.now())
    yield* Transaction.add(["did", id], 1)
    yield* Transaction.set(["at", id], bytes)
  })

type State = { readonly entries: ReadonlyArray<string>; readonly ticks: number }

const added = (state: State, id: string): State => ({ ...state, entries: [...state.entries, id] })

const behaviourOf = (told: Told) =>
  Ward.behaviour({
    init: Effect.succeed({ entries: [], ticks: 0 }),
    handlers: {
      Append: (id, state) => Effect.as(did(told, id), DgenServer.reply(state.entries.length + 1, added(state, id))),
      Record: (id, state) => Effect.as(did(told, id), DgenServer.noReply(added(state, id))),
      Later: (id, state) => Effect.as(Effect.orDie(Ward.castSelfTx("Record", id)), DgenServer.noReply(state)),
      Pass: ({ id, to }, state) =>
        Effect.as(Effect.orDie(Ward.castTx("Record", id, { tuid: tuidOf(to) })), DgenServer.noReply(state)),
      Work: (_, state) => DgenServer.lock(state),
      Leave: (id) => Effect.as(did(told, id), DgenServer.noReply(DgenServer.gone)),
      Tick: (_, state, { timer }) =>
        Effect.as(
          Transaction.add(["tick", DateTime.toEpochMillis(timer!.due)], 1),
          DgenServer.noReply({ ...state, ticks: state.ticks + 1 })
        )
    }
  })

const lockedOf = (told: Told) =>
  Ward.lockedLayer({
    Work: Effect.fnUntraced(function*(id) {
      yield* Effect.sleep((yield* Random.next) * 3_000)
      return DgenServer.update((fresh: State) => Effect.as(did(told, id), DgenServer.noReply(added(fresh, id))))
    })
  })

const tenant = Tenant.layer(["ward"])

const hosting = (told: Told, options: DgenServer.HostOptions) =>
  Ward.hostLayer(behaviourOf(told), { lockTimeout: "5 seconds", ...options }).pipe(Layer.provide(lockedOf(told)))

/** One life of a host: its own calls are handled inline where it works on the server first. */
export const host = (told: Told, options: DgenServer.HostOptions, calls = 3) =>
  Effect.gen(function*() {
    yield* Layer.build(Layer.fresh(hosting(told, options)))
    for (let i = 0; i < calls; i++) {
      yield* Effect.sleep((yield* Random.next) * 5_000)
      const ward = yield* Ward.client({ tuid: tuidOf(yield* Random.nextIntBetween(0, WARDS)) })
      yield* Effect.exit(ward.call("Append", `inline-${yield* Random.next}`, { timeout: "20 seconds" }))
    }
    return yield* Effect.never
  }).pipe(Effect.scoped, Effect.retry(again), Effect.provide(tenant))

/** Hosts that come and leave in good order, in one process. */
export const guest = (told: Told) =>
  Effect.gen(function*() {
    for (let i = 0; i < 6; i++) {
      const scope = Effect.scoped(
        Effect.andThen(
          Layer.build(Layer.fresh(hosting(told, { grace: "1 second" }))),
          Effect.flatMap(Random.next, (part) => Effect.sleep(part * 20_000))
        )
      )
      yield* Effect.retry(scope, again)
      yield* Effect.sleep((yield* Random.next) * 10_000)
    }
  }).pipe(Effect.provide(tenant))

const SKEW_MILLIS = 2_000

/** One life of a sender. */
export const send = (told: Told, sender: string, count: number) =>
  Effect.gen(function*() {
    const note = (ids: ReadonlyArray<string>, exit: Exit.Exit<unknown, unknown>) => {
      if (Exit.isSuccess(exit)) return ids.forEach((id) => told.acknowledged.add(id))
      const error = Option.getOrUndefined(Exit.findErrorOption(exit))
      if (BackendError.isBackendError(error) && !error.isMaybeCommitted) ids.forEach((id) => told.refused.add(id))
    }
    for (let i = 0; i < count; i++) {
      const to = yield* Random.nextIntBetween(0, WARDS)
      const ward = yield* Ward.client({ tuid: tuidOf(to) })
      const id = `${sender}-${i}`
      const timeout = "2 minutes"
      switch ((i + sender.charCodeAt(0)) % 7) {
        case 0: {
          // a call that may run inline can be lost to its caller and be done
          const exit = yield* Effect.exit(ward.call("Append", id, { timeout }))
          if (Exit.isSuccess(exit)) note([id], exit)
          break
        }
        case 1:
          note([id], yield* Effect.exit(ward.cast("Record", id)))
          break
        case 2:
          note([id], yield* Effect.exit(ward.cast("Later", id)))
          break
        case 3:
          note([id], yield* Effect.exit(ward.cast("Pass", { id, to: (to + 1) % WARDS })))
          break
        case 4:
          note([id], yield* Effect.exit(ward.cast("Work", id)))
          break
        case 5:
          if (to !== STEADY) note([id], yield* Effect.exit(ward.cast("Leave", id)))
          break
        default:
          yield* setTimers(told, id)
      }
      yield* Effect.sleep((yield* Random.next) * 2_000)
    }
  }).pipe(Effect.provide(tenant))

/** A timer of the steady ward, which may be set again, or cancelled. */
const setTimers = (told: Told, id: string) =>
  Effect.gen(function*() {
    const ward = yield* Ward.client({ tuid: tuidOf(STEADY) })
    const part = yield* Random.next
    const set = (payload: string, after: number) =>
      Effect.gen(function*() {
        const notBefore = told.now() + after - 2 * SKEW_MILLIS
        told.timers.set(payload, { notBefore, notAfter: Infinity })
        const exit = yield* Effect.exit(ward.castLater("Record", payload, { after, id }))
        return { exit, payload }
      })
    const first = yield* set(`${id}-first`, part * 10_000)
    if (part < 0.3) return Exit.isSuccess(first.exit) && told.acknowledged.add(first.payload)
    yield* Effect.sleep(part * 8_000)
    if (part < 0.6) {
      const second = yield* set(`${id}-second`, part * 5_000)
      if (Exit.isFailure(second.exit)) return
      told.acknowledged.add(second.payload)
    } else if (Exit.isFailure(yield* Effect.exit(ward.cancelTimer(id)))) return
    told.timers.get(first.payload)!.notAfter = told.now()
  })

/** Sets the timer that comes again. */
export const setTick = Effect.gen(function*() {
  const ward = yield* Ward.client({ tuid: tuidOf(STEADY) })
  yield* Effect.retry(ward.castLater("Tick", { every: TICK_MILLIS, id: "tick" }), again)
}).pipe(Effect.provide(tenant))

/** What the store says of a server that is not at rest. */
interface Seen {
  readonly tuid: Tuple.Tuple
  hasWork: boolean
  firstTimer: number | undefined
  wake: number | undefined
}

/** Reads a tenant at one moment: entries, wake-ups, and what the servers have to do. */
const look = Effect.gen(function*() {
  const state = yield* Transaction.Transaction
  const indexes = new IndexKeys(state.prefix, NAME)
  const under = (prefix: Uint8Array) => state.getRange(prefix, Tuple.strinc(prefix), { snapshot: true })
  const [work, wakes, rows] = yield* Effect.all([
    under(indexes.work),
    under(indexes.wakes),
    under(serversPrefix(state.prefix))
  ])
  const servers = new Map<string, Seen>()
  for (const { key, value } of rows) {
    const [tuid, part, due] = Tuple.unpack(key, serversPrefix(state.prefix).length) as [Tuple.Tuple, string, number]
    const keys = new ServerKeys(state.prefix, tuid, { name: NAME, hosted: true })
    const seen = servers.get(keys.text) ?? { tuid, hasWork: false, firstTimer: undefined, wake: undefined }
    servers.set(keys.text, seen)
    if (part === "item") seen.hasWork = true
    if (part === "head") {
      const head = Result.getOrThrow(Heads.decode(value))
      seen.hasWork ||= head.lock !== undefined || head.fenced.length > 0
    }
    if (part === "timer") seen.firstTimer ??= due
    if (part === "wake") seen.wake = readWake(value)
  }
  const entries = new Set(work.map(({ key }) => Buffer.from(key).toString("hex")))
  const due = new Set(wakes.map(({ key }) => Buffer.from(key).toString("hex")))
  return { servers, entries, due, indexes, prefix: state.prefix }
})

type Looked = Effect.Success<typeof look>

const hasEntry = ({ entries, prefix }: Looked, tuid: Tuple.Tuple): boolean =>
  entries.has(Buffer.from(new ServerKeys(prefix, tuid, { name: NAME, hosted: true }).place.entry).toString("hex"))

const hasWake = ({ due, indexes }: Looked, { tuid, wake }: Seen): boolean =>
  wake !== undefined && due.has(Buffer.from(indexes.wake(wake, tuid)).toString("hex"))

/** What does not hold at any moment: a server that has something to do has an entry, one that has timers is woken in time. */
const missing = (looked: Looked): ReadonlyArray<string> =>
  [...looked.servers.values()].flatMap((seen) => {
    const text = JSON.stringify(seen.tuid)
    if (hasEntry(looked, seen.tuid)) return []
    const problems: Array<string> = []
    if (seen.hasWork) problems.push(`${text} has something to do, and no entry`)
    if (seen.firstTimer === undefined) return problems
    if (!hasWake(looked, seen) || seen.wake! > seen.firstTimer) {
      problems.push(`${text} has a timer, and no wake-up for it`)
    }
    return problems
  })

/** What is too much once everything is at rest. */
const left = (looked: Looked): ReadonlyArray<string> => {
  const wakers = [...looked.servers.values()].filter((seen) => seen.wake !== undefined)
  const problems: Array<string> = []
  // one that was woken just now has an entry instead
  const woken = wakers.filter((seen) => hasWake(looked, seen))
  if (looked.due.size !== woken.length) problems.push(`${looked.due.size - woken.length} wake-ups are left`)
  if (looked.entries.size > 1) problems.push(`${looked.entries.size} entries are left`)
  for (const seen of wakers) if (seen.firstTimer === undefined) problems.push("a wake-up of a server without timers")
  return problems
}

/** Looks at the store again and again. */
export const watch = (told: Told) =>
  Effect.forever(Effect.gen(function*() {
    yield* Effect.sleep("700 millis")
    for (const problem of missing(yield* Tenant.transact(look))) told.problems.add(problem)
  })).pipe(Effect.provide(tenant))

const numberOf = (bytes: Uint8Array): number => new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, true)

const millisOf = (bytes: Uint8Array): number => new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0)

const SETTLING_MILLIS = 5 * 60_000

/** The tick can be on its way at the moment of a look, and is not at the next one. */
const LOOKS = 3

/** What the store holds of what was sent. */
export const found = (told: Told) =>
  Effect.gen(function*() {
    const looked = yield* Tenant.transact(look)
    const read = (kind: string) => Tenant.transact(Transaction.getRange([kind]))
    const [dids, ats, ticks] = yield* Effect.all([read("did"), read("at"), read("tick")])
    return {
      missing: missing(looked),
      left: left(looked),
      isDone: [...looked.servers.values()].every((seen) => !seen.hasWork),
      did: new Map(dids.map(({ key, value }) => [key[1] as string, numberOf(value)])),
      at: new Map(ats.map(({ key, value }) => [key[1] as string, millisOf(value)])),
      ticks: new Map(ticks.map(({ key, value }) => [key[1] as number, numberOf(value)])),
      problems: [...told.problems]
    }
  }).pipe(Effect.provide(tenant))

/** What the store holds when all is over. */
export const settle = (world: World, told: Told) =>
  Effect.gen(function*() {
    yield* world.calm
    const last = yield* world.spawn("last host", host(told, {}, 0))
    yield* Effect.sleep(SETTLING_MILLIS)
    const look = Effect.delay(found(told), "1 second")
    const all = yield* Effect.repeat(look, { until: ({ isDone }) => isDone, times: LOOKS - 1 })
    yield* last.kill
    return all
  })

/** The ticks that there are at least when all is over. */
export const TICKS = SETTLING_MILLIS / TICK_MILLIS - 2

/** What does not hold, in words. */
export const check = (
  told: Told,
  found: Effect.Success<ReturnType<typeof settle>>,
  leastTicks = TICKS
): ReadonlyArray<string> => {
  const problems = [...found.problems, ...found.missing, ...found.left]
  if (!found.isDone) problems.push("what was sent is not handled when all is over")
  for (const id of told.acknowledged) if (!found.did.has(id)) problems.push(`${id} was acknowledged, and is lost`)
  for (const id of told.refused) if (found.did.has(id)) problems.push(`${id} was refused, and was handled`)
  for (const [id, times] of found.did) if (times !== 1) problems.push(`${id} was handled ${times} times`)
  for (const [due, times] of found.ticks) {
    if (times !== 1) problems.push(`the tick of ${due} was handled ${times} times`)
  }
  if (found.ticks.size < leastTicks) problems.push(`there were ${found.ticks.size} ticks`)
  for (const [id, { notAfter, notBefore }] of told.timers) {
    const at = found.at.get(id)
    if (at === undefined) continue
    if (at < notBefore) problems.push(`${id} was sent ${notBefore - at} ms too early`)
    if (at > notAfter) problems.push(`${id} was handled ${at - notAfter} ms after its timer was set again or cancelled`)
  }
  return problems
}

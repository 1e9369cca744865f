/**
 * Messages with keys, and durable actions: two senders send each message at once, with one key, again and again until they
 * are told what became of it. The first can be handled inline or from the queue, under the lock, be answered later, die, or
 * meet the end of its server.
 *
 * What took effect is counted in the store, in the commit of the effect; a receipt names the message that took it.
 */
import { Effect, Exit, Fiber, Layer, Option, Random, Schedule, Schema } from "effect"
import { DgenServer, Tenant, Transaction } from "effect-dgen"
import { ChainKeys } from "../../src/internal/server/durable/chain.ts"
import * as Check from "../../src/testing/Check.ts"
import type { World } from "../../src/testing/Simulation.ts"
import { again } from "./again.ts"

const options = {
  state: Schema.Struct({ paid: Schema.Int, waiting: Schema.Array(DgenServer.From) }),
  messages: {
    Pay: DgenServer.call({ payload: Schema.String, success: Schema.String }),
    Note: DgenServer.cast({ payload: Schema.String }),
    Work: DgenServer.call({ payload: Schema.String, success: Schema.String, locks: true }),
    Later: DgenServer.call({ payload: Schema.String, success: Schema.String }),
    Answer: DgenServer.cast(),
    /** Dies each time. */
    Bad: DgenServer.call({ payload: Schema.String, success: Schema.String }),
    Leave: DgenServer.cast({ payload: Schema.String })
  },
  actions: {
    Did: DgenServer.durable({
      payload: { till: Schema.Int, number: Schema.Int },
      retry: Schedule.spaced("100 millis"),
      timeout: "2 seconds"
    })
  }
} as const

class Till extends DgenServer.Service<Till>()("Till", options) {}
class HostedTill extends DgenServer.Service<HostedTill>()("Till", { ...options, hosted: true }) {}

type State = typeof options.state.Type

const TILLS = 3

/** This one's handle is started, and never gone. */
const STEADY = 0

const tuidOf = (till: number) => ["till", till]

const tenant = Tenant.layer(["tills"])

export interface Told {
  readonly answers: Map<string, Set<string>>
  /** Keys of casts that were acknowledged. */
  readonly acknowledged: Set<string>
  readonly runs: Array<Check.DurableRun>
  /** Durable actions of which a run has ended well. */
  readonly done: Set<string>
  readonly problems: Set<string>
}

export const makeTold = (): Told => ({
  answers: new Map(),
  acknowledged: new Set(),
  runs: [],
  done: new Set(),
  problems: new Set()
})

const numberOf = (bytes: Uint8Array | undefined): number =>
  bytes === undefined ? 0 : new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, true)

const bytesOf = (number: number): Uint8Array => {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setInt32(0, number, true)
  return bytes
}

/** A key took effect: counted, with an action that has its number among those of the server. */
const took = (own: typeof Till, key: string, tuid: ReadonlyArray<unknown>) =>
  Effect.gen(function*() {
    const till = tuid[1] as number
    yield* Transaction.add(["effect", key], 1)
    const number = numberOf(yield* Transaction.get(["asked", till])) + 1
    yield* Transaction.set(["asked", till], bytesOf(number))
    return [own.action("Did", { till, number })]
  })

const paid = (state: State): State => ({ ...state, paid: state.paid + 1 })

const handlersOf = (own: typeof Till): any => ({
  Pay: (key: string, state: State, { id, tuid }: DgenServer.HandlerContext) =>
    Effect.map(took(own, key, tuid), (actions) => DgenServer.reply(`${key} by ${id}`, paid(state), actions)),
  Note: (key: string, state: State, { tuid }: DgenServer.HandlerContext) =>
    Effect.map(took(own, key, tuid), (actions) => DgenServer.noReply(paid(state), actions)),
  Work: (_: string, state: State) => DgenServer.lock(state),
  Later: (_: string, state: State, { from }: DgenServer.HandlerContext) =>
    DgenServer.noReply({ ...state, waiting: [...state.waiting, from!] }),
  Answer: (_: void, state: State, { tuid }: DgenServer.HandlerContext) =>
    Effect.gen(function*() {
      const actions = []
      for (const from of state.waiting) {
        actions.push(...yield* took(own, from.key!, tuid))
        yield* own.replyTo(from, Exit.succeed(`${from.key} by ${from.message}`))
      }
      return DgenServer.noReply({ paid: state.paid + state.waiting.length, waiting: [] }, actions)
    }),
  Bad: (key: string) => Effect.die(new Error(`${key} cannot be handled`)),
  Leave: (key: string, _: State, { tuid }: DgenServer.HandlerContext) =>
    Effect.map(took(own, key, tuid), (actions) => DgenServer.noReply(DgenServer.gone, actions))
})

const effectsOf = (own: typeof Till, told: Told): Layer.Layer<any> =>
  Layer.merge(
    own.actionsLayer({
      Did: Effect.fnUntraced(function*({ number, till }, { id, tuid }) {
        if (tuid[1] !== till) told.problems.add(`an action of ${till} was given as one of ${tuid.join()}`)
        if (number > 1 && !told.done.has(`${till} ${number - 1}`)) {
          told.problems.add(`action ${number} of ${till} began before the one before it had ended`)
        }
        told.runs.push({ server: `till ${till}`, number, id })
        // as long as it takes for others to wait behind it
        yield* Effect.sleep((yield* Random.next) * 5_000)
        if ((yield* Random.next) < 0.2) return yield* Effect.fail("it fails, and is tried again")
        told.done.add(`${till} ${number}`)
      })
    }),
    own.lockedLayer({
      Work: Effect.fnUntraced(function*(key, _state, { id, tuid }) {
        yield* Effect.sleep((yield* Random.next) * 2_000)
        return DgenServer.update((fresh: State) =>
          Effect.map(took(own, key, tuid), (actions) => DgenServer.reply(`${key} by ${id}`, paid(fresh), actions))
        )
      }) as any
    })
  ) as Layer.Layer<any>

const running = { lockTimeout: "5 seconds", deadLetterThreshold: 3, restart: Schedule.spaced("100 millis") } as const
const init = Effect.succeed({ paid: 0, waiting: [] })

/** One life of a host, or of the handles of all servers. */
export const serve = (told: Told, isHosted: boolean, options: { readonly consumeK: number }) =>
  isHosted
    ? Layer.build(Layer.fresh(
      HostedTill.hostLayer(HostedTill.behaviour({ init, handlers: handlersOf(HostedTill as any) }), {
        ...running,
        ...options
      }).pipe(Layer.provide(effectsOf(HostedTill as any, told)))
    )).pipe(Effect.andThen(Effect.never), Effect.scoped, Effect.retry(again), Effect.provide(tenant))
    : Effect.forEach(Array.from({ length: TILLS }, (_, till) => till), (till) =>
      Till.start(Till.behaviour({ init, handlers: handlersOf(Till) }), { ...running, ...options, tuid: tuidOf(till) }))
      .pipe(
        Effect.andThen(Effect.never),
        Effect.scoped,
        Effect.retry(again),
        Effect.provide(effectsOf(Till, told)),
        Effect.provide(tenant)
      )

const clientOf = (isHosted: boolean, till: number) =>
  (isHosted ? HostedTill.client({ tuid: tuidOf(till) }) : Till.client({ tuid: tuidOf(till) })) as ReturnType<
    typeof Till.client
  >

const kinds = ["Pay", "Work", "Note", "Later", "Bad", "Leave"] as const

/** What a call ended with for good: it is not sent again. */
const isFinal = (tag: string): boolean => ["DeadLettered", "KeyReused"].includes(tag)

/** Longer than the world is unwell. */
const TRIES = 40

/** One life of a sender: each message is sent until it is told of. */
export const send = (told: Told, isHosted: boolean, count: number) =>
  Effect.gen(function*() {
    for (let i = 0; i < count; i++) {
      const till = i % TILLS
      const kind = kinds[i % kinds.length]!
      const key = `${kind}-${i}`
      // on its first way a message can be handled by nobody else: the end of the steady one would be the end of its handle
      if (kind === "Leave" && (!isHosted || till === STEADY)) continue
      const client = yield* clientOf(isHosted, till)
      const settled = yield* Effect.repeat(once(told, client, kind, key), { until: (isTold) => isTold, times: TRIES })
      if (!settled) told.problems.add(`${key} was sent ${TRIES} times, and its sender is not told of it`)
      yield* Effect.sleep((yield* Random.next) * 1_000)
    }
  }).pipe(Effect.provide(tenant))

const once = (
  told: Told,
  client: Effect.Success<ReturnType<typeof clientOf>>,
  kind: typeof kinds[number],
  key: string
) =>
  Effect.gen(function*() {
    if (kind === "Note" || kind === "Leave") {
      const exit = yield* Effect.exit(client.cast(kind, key, { key }))
      if (Exit.isSuccess(exit)) told.acknowledged.add(key)
      else yield* Effect.sleep("1 second")
      return Exit.isSuccess(exit)
    }
    // some give up early, and some wait for the whole of a pause
    const timeout = 500 + (yield* Random.next) ** 2 * 90_000
    const calling = yield* Effect.forkChild(Effect.exit(client.call(kind, key, { key, timeout })))
    // who answers later comes from outside
    if (kind === "Later") yield* Effect.ignore(Effect.delay(client.cast("Answer"), "100 millis"))
    const exit = yield* Fiber.join(calling)
    if (Exit.isSuccess(exit)) {
      told.answers.set(key, (told.answers.get(key) ?? new Set()).add(exit.value))
      return true
    }
    const error = Option.getOrUndefined(Exit.findErrorOption(exit))
    if (error !== undefined && error._tag === "KeyReused") told.problems.add(`${key} was refused as another message`)
    yield* Effect.sleep("100 millis")
    return error !== undefined && isFinal(error._tag)
  })

const SETTLING_MILLIS = 5 * 60_000

/** What the store holds when all is over. */
export const settle = (world: World, told: Told, isHosted: boolean) =>
  Effect.gen(function*() {
    yield* world.calm
    yield* world.spawn("last server", serve(told, isHosted, { consumeK: 3 }))
    return yield* Effect.gen(function*() {
      const own = isHosted ? HostedTill as unknown as typeof Till : Till
      // what waits for an answer gets one
      for (let till = 0; till < TILLS; till++) yield* (yield* clientOf(isHosted, till)).cast("Answer")
      const counts = Tenant.transact(own.durable.counts)
      for (let waited = 0; waited < SETTLING_MILLIS; waited += 5_000) {
        yield* Effect.sleep("5 seconds")
        const { pending, running } = yield* counts
        let waits = pending + running
        for (let till = 0; till < TILLS; till++) waits += yield* (yield* clientOf(isHosted, till)).queueLength
        if (waits === 0 && waited > 30_000) break
      }
      const read = (kind: string) => Tenant.transact(Transaction.getRange([kind]))
      const [effects, asked] = yield* Effect.all([read("effect"), read("asked")])
      const kept: Array<readonly [key: string, answer: string]> = []
      for (const key of told.answers.keys()) {
        const i = Number(key.split("-")[1])
        const result = yield* (yield* clientOf(isHosted, i % TILLS)).result(key)
        kept.push([
          key,
          result._tag === "Done" && Exit.isSuccess(result.exit) ? String(result.exit.value) : result._tag
        ])
      }
      const { prefix } = yield* Tenant.Tenant
      const chains = new ChainKeys(prefix, "Till")
      const fronts = yield* Tenant.transact(
        Effect.flatMap(
          Transaction.Transaction,
          (state) => state.getRange(chains.prefix, chains.count, { snapshot: true })
        )
      )
      return {
        counts: yield* counts,
        effects: effects.flatMap(({ key, value }) => Array.from({ length: numberOf(value) }, () => key[1] as string)),
        asked: new Map(asked.map(({ key, value }) => [`till ${key[1]}`, numberOf(value)])),
        kept,
        left: fronts.length
      }
    }).pipe(Effect.provide(tenant))
  })

/** What does not hold, in words. */
export const check = (told: Told, found: Effect.Success<ReturnType<typeof settle>>): ReadonlyArray<string> => {
  const effects = new Set(found.effects)
  const problems = [
    ...told.problems,
    ...Check.keys({ answers: told.answers, effects: found.effects }),
    ...Check.durable(told.runs, found.asked)
  ]
  for (const key of told.acknowledged) {
    if (!effects.has(key)) problems.push(`${key} was acknowledged, and took no effect`)
  }
  for (const key of effects) if (key.startsWith("Bad")) problems.push(`${key} took effect, and cannot`)
  for (const [key, answer] of found.kept) {
    if (!told.answers.get(key)!.has(answer)) problems.push(`${key} was answered otherwise, and is kept as ${answer}`)
  }
  const { dead, pending, running } = found.counts
  if (pending + running + dead > 0) problems.push(`durable actions are left: ${JSON.stringify(found.counts)}`)
  if (found.left > 0) problems.push(`${found.left} rows of durable actions are left`)
  return problems
}

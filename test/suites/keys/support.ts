/** The server that the suites of keys run, started and hosted: it counts what took effect. */
import { Deferred, Effect, Exit, Layer, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import { rowKey } from "../../../src/internal/server/kept/keyed.ts"
import { ServerKeys } from "../../../src/internal/server/kept/layout.ts"
import { fast, rowsUnder, tapped } from "../server/support.ts"

export class Refused extends Schema.TaggedError<Refused>()("Refused", { item: Schema.String }) {}

const payload = { item: Schema.String }
const messages = {
  /** Answered at once, refused for `no`, dies for `die`, answered with a long text for `long`. */
  Pay: DgenServer.call({ payload, success: Schema.String, error: Refused }),
  Note: DgenServer.cast({
    payload: { item: Schema.String, times: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(1))) }
  }),
  Bare: DgenServer.cast(),
  /** Answered by `Answer`, `Leave` ends the server without an answer. */
  Later: DgenServer.call({ payload, success: Schema.String }),
  Answer: DgenServer.call({ payload }),
  /** Locks. */
  Work: DgenServer.call({ payload, success: Schema.String, error: Refused, locks: true }),
  WorkCast: DgenServer.cast({ payload, locks: true }),
  /** Ends the server: with an answer, or without. */
  End: DgenServer.call({ payload, success: Schema.String }),
  Count: DgenServer.call({ success: Schema.Array(Schema.String) })
}
const state = Schema.Struct({ done: Schema.Array(Schema.String), waiting: Schema.Array(DgenServer.From) })
type State = typeof state.Type
const options = { state, messages, keyRetention: "1 hour", maxKeys: 3 } as const

export class Till extends DgenServer.Service<Till>()("Till", options) {}
export class HostedTill extends DgenServer.Service<HostedTill>()("HostedTill", { ...options, hosted: true }) {}

const did = (state: State, item: string): State => ({ ...state, done: [...state.done, item] })

/** Whether `die` dies: mended by a test. */
export const poison = { isMended: false }

const handlers = (own: { readonly replyTo: typeof Till.replyTo }) => ({
  Pay: ({ item }: { readonly item: string }, state: State) => {
    if (item === "die" && !poison.isMended) return Effect.die(new Error("poison"))
    if (item === "no") return Effect.fail(new Refused({ item }))
    const next = did(state, item)
    const text = item === "long" ? "x".repeat(250_000) : `${item} ${next.done.length}`
    return Effect.succeed(
      item === "stop" ? DgenServer.stop("asked to", next) : DgenServer.reply(text, next)
    )
  },
  Note: ({ item, times }: { readonly item: string; readonly times: number }, state: State) =>
    DgenServer.noReply(did(state, `${item} ${times}`)),
  Bare: (_: void, state: State) => DgenServer.noReply(did(state, "bare")),
  Later: (
    { item }: { readonly item: string },
    state: State,
    { from }: { readonly from: DgenServer.From }
  ) =>
    item === "at once"
      ? Effect.as(own.replyTo(from, Exit.succeed("at once")), DgenServer.noReply(did(state, item)))
      : Effect.succeed(DgenServer.noReply({ done: [...state.done, item], waiting: [...state.waiting, from] })),
  Answer: ({ item }: { readonly item: string }, state: State) =>
    Effect.as(
      Effect.forEach(state.waiting, (from) => own.replyTo(from, Exit.succeed(item))),
      DgenServer.reply(undefined, { ...state, waiting: [] })
    ),
  Work: ({ item }: { readonly item: string }, state: State) => DgenServer.lock(did(state, `lock ${item}`)),
  WorkCast: ({ item }: { readonly item: string }, state: State) => DgenServer.lock(did(state, `lock ${item}`)),
  End: ({ item }: { readonly item: string }, _state: State) =>
    item === "silently" ? DgenServer.noReply(DgenServer.gone) : DgenServer.reply(item, DgenServer.gone),
  Count: (_: void, state: State) => DgenServer.reply(state.done, state)
})

const init = Effect.succeed({ done: [], waiting: [] })
const behaviours = {
  started: Till.behaviour({ init, handlers: handlers(Till) as any }),
  hosted: HostedTill.behaviour({ init, handlers: handlers(HostedTill as any) as any })
}

export const tuid = ["till", 1]

/** A gate for locked handlers: `begun` is done when one runs, it goes on with `go`. */
export const gate = Effect.gen(function*() {
  const begun = yield* Deferred.make<void>()
  const go = yield* Deferred.make<Effect.Effect<unknown, Refused>>()
  const runs: Array<string> = []
  const handler = ({ item }: { readonly item: string }, state: State) =>
    Effect.gen(function*() {
      runs.push(item)
      yield* Deferred.succeed(begun, undefined)
      yield* Effect.flatten(Deferred.await(go))
      return did(state, `worked ${item}`)
    })
  const locked = {
    Work: (payload: { readonly item: string }, state: State) =>
      Effect.map(handler(payload, state), (next) => DgenServer.reply(`worked ${payload.item}`, next)),
    WorkCast: (payload: { readonly item: string }, state: State) =>
      Effect.map(handler(payload, state), (next) => DgenServer.noReply(next))
  }
  return {
    locked: locked as any,
    begun: Deferred.await(begun),
    go: (then: Effect.Effect<unknown, Refused> = Effect.void) => Deferred.succeed(go, then),
    runs
  }
})

const open = {
  Work: () => Effect.succeed(DgenServer.reply("", { done: [], waiting: [] })),
  WorkCast: () => Effect.void
}

/** The two ways to run it: each with its client, and what lies in the store. */
export const kinds = {
  started: {
    hosted: false,
    run: (options: DgenServer.Options = {}, locked: any = open) =>
      Effect.asVoid(Till.start(behaviours.started, { ...fast, tuid, ...options })).pipe(
        Effect.provide(Till.lockedLayer(locked))
      ),
    client: Till.client({ tuid }),
    kill: Effect.scoped(Effect.flatMap(Effect.suspend(() => startTill), (running) => running.kill())),
    unlock: Till.unlock({ tuid }),
    castTx: (item: string, key?: string) =>
      Tenant.transact(Till.castTx("Note", { item, times: 1 }, { tuid, ...(key === undefined ? {} : { key }) })),
    queue: Till.queue({ tuid })
  },
  hosted: {
    hosted: true,
    run: (options: DgenServer.Options = {}, locked: any = open) => {
      const { consume: _, reset: __, ...host } = { lockTimeout: "1 minute" as const, ...fast, ...options }
      return Effect.asVoid(Layer.build(Layer.fresh(
        HostedTill.hostLayer(behaviours.hosted, host).pipe(Layer.provide(HostedTill.lockedLayer(locked)))
      )))
    },
    kill: Effect.flatMap(HostedTill.client({ tuid }), (till) => till.kill),
    unlock: HostedTill.unlock({ tuid }),
    client: HostedTill.client({ tuid }) as unknown as typeof Till.client extends (...args: any) => infer R ? R : never,
    castTx: (item: string, key?: string) =>
      Tenant.transact(HostedTill.castTx("Note", { item, times: 1 }, { tuid, ...(key === undefined ? {} : { key }) })),
    queue: HostedTill.queue({ tuid })
  }
}

/** Another process, and what ends when it waits with a key. */
export const waitsWith = (key: string) =>
  Effect.gen(function*() {
    const { prefix } = yield* Tenant.Tenant
    const row = rowKey(new ServerKeys(prefix, tuid, { name: "", hosted: false }), key)
    const waiting = yield* Deferred.make<void>()
    const context = yield* tapped({
      watched: (requests) =>
        requests.some((request) => Buffer.compare(request.key, row) === 0)
          ? Effect.asVoid(Deferred.succeed(waiting, undefined))
          : Effect.void
    })
    return { context, waiting: Deferred.await(waiting) }
  })

/** The rows that the store has of keys. */
export const keyRows = Effect.flatMap(Tenant.Tenant, ({ prefix }) => {
  const { keyed } = new ServerKeys(prefix, tuid, { name: "", hosted: false })
  return Effect.map(
    Effect.all([keyed.rows, keyed.rests, keyed.ends, keyed.open, keyed.count].map(rowsUnder)),
    (found) => found.map((rows) => rows.length)
  )
})

/** Another handle of the started server, that does not consume. */
export const startTill = Effect.provide(
  Till.start(behaviours.started, { tuid, consume: false }),
  Till.lockedLayer(open as any)
)

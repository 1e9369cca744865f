/** The server that the suites of durable actions run, started and hosted, and what its actions did. */
import { Effect, Layer, Redacted, Schedule, Schema, type Scope } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import { keysOf } from "../../../src/internal/jobs/definition/model.ts"
import { typeOf } from "../../../src/internal/server/durable/chain.ts"
import { fast, rowsUnder } from "../server/support.ts"

export class Refused extends Schema.TaggedError<Refused>()("Refused", { item: Schema.String }) {}

const payload = { item: Schema.String }
const actions = {
  Send: DgenServer.durable({ payload, retry: Schedule.forever, maxAttempts: 3, timeout: "1 second" }),
  Bill: DgenServer.durable({ payload: Schema.Struct({ item: Schema.String, secret: Schema.Redacted(Schema.String) }) }),
  Bare: DgenServer.durable(),
  Tell: payload,
  Halt: {}
}
const messages = {
  Do: DgenServer.call({ payload, success: Schema.Int, error: Refused }),
  DoCast: DgenServer.cast({ payload }),
  DoInfo: DgenServer.info({ payload }),
  Work: DgenServer.call({ payload, success: Schema.Int, locks: true }),
  Stop: DgenServer.call({ payload }),
  End: DgenServer.call({ payload }),
  Wrong: DgenServer.call({ payload }),
  Long: DgenServer.call({ payload: { chars: Schema.Int } })
}
const state = Schema.Array(Schema.String)
type State = typeof state.Type

export class Clerk extends DgenServer.Service<Clerk>()("Clerk", { state, messages, actions }) {}
export class HostedClerk
  extends DgenServer.Service<HostedClerk>()("HostedClerk", { state, messages, actions, hosted: true })
{}

/** What a message about an item asks for. */
const asked = (own: typeof Clerk, item: string): Array<any> => {
  if (item === "none") return []
  if (item === "halt") return [own.action("Halt", {}), own.action("Tell", { item }), own.action("Send", { item })]
  if (item.startsWith("bill")) {
    return [own.action("Bill", { item, secret: Redacted.make("hush") })]
  }
  if (item === "bare") return [own.action("Bare")]
  return item.split("+").map((one) => own.action("Send", { item: one }))
}

const handlers = (own: typeof Clerk): any => ({
  Do: Effect.fnUntraced(function*({ item }: { readonly item: string }, state: State) {
    if (item === "no") return yield* new Refused({ item })
    return DgenServer.reply(state.length + 1, [...state, item], asked(own, item))
  }),
  DoCast: ({ item }: { readonly item: string }, state: State, { attempt }: DgenServer.HandlerContext) => {
    if (item === "poison" && attempt < 3) throw new Error("poison")
    return DgenServer.noReply([...state, item], asked(own, item))
  },
  DoInfo: ({ item }: { readonly item: string }, state: State) => DgenServer.noReply([...state, item], asked(own, item)),
  Work: (_: unknown, state: State) => DgenServer.lock(state),
  Stop: ({ item }: { readonly item: string }, state: State) =>
    DgenServer.stop("told to", [...state, item], asked(own, item)),
  End: ({ item }: { readonly item: string }) => DgenServer.reply(undefined, DgenServer.gone, asked(own, item)),
  Wrong: (_: unknown, state: State) => DgenServer.reply(undefined, state, [own.action("Send", { item: 1 } as any)]),
  Long: ({ chars }: { readonly chars: number }, state: State) =>
    DgenServer.reply(undefined, state, [own.action("Send", { item: "x".repeat(chars) })])
})

const init = Effect.succeed([])
const behaviours = {
  started: Clerk.behaviour({ init, handlers: handlers(Clerk) }),
  hosted: HostedClerk.behaviour({ init, handlers: handlers(HostedClerk as any) })
}

export const tuid = ["clerk", 1]

/** One run of a durable action. */
export interface Run {
  readonly item: string
  readonly id: string
  readonly tuid: ReadonlyArray<unknown>
  readonly attempt: number
}

/** What actions do, and what they did. */
export interface Desk {
  readonly runs: Array<Run>
  readonly told: Array<string>
  /** What a run comes to. */
  during: (run: Run) => Effect.Effect<unknown, unknown>
}

export const newDesk = (during: Desk["during"] = () => Effect.void): Desk => ({ runs: [], told: [], during })

/** The layers of handlers that write down what they do. */
const layersOf = (own: typeof Clerk, desk: Desk): any => {
  const run = (item: string, context: DgenServer.DurableContext) =>
    Effect.suspend(() => {
      const run = { item, ...context }
      desk.runs.push(run)
      return Effect.asVoid(desk.during(run))
    })
  return Layer.merge(
    own.actionsLayer({
      Send: ({ item }, context) => run(item, context),
      Bill: ({ item, secret }, context) => run(`${item} ${Redacted.value(secret)}`, context),
      Bare: (_, context) => run("bare", context),
      Tell: ({ item }) => Effect.sync(() => void desk.told.push(item)),
      Halt: () => Effect.succeed(DgenServer.halt)
    }),
    own.lockedLayer({
      Work: ({ item }, state) =>
        Effect.succeed(DgenServer.reply(state.length + 1, [...state, item], asked(own, item))) as any
    })
  )
}

type Options = DgenServer.Options & { readonly tuid?: ReadonlyArray<any> }
type Running = Omit<Clerk["Service"], "kill" | "stop">

/** A way to run it. */
interface Way {
  readonly own: typeof Clerk
  readonly run: (desk: Desk, options?: Options) => Effect.Effect<Running, unknown, Tenant.Tenant | Scope.Scope>
  readonly client: (
    tuid: ReadonlyArray<any>
  ) => Effect.Effect<Pick<Running, "call" | "cast">, DgenServer.InvalidTuid, Tenant.Tenant>
  readonly kill: Effect.Effect<void, unknown, Tenant.Tenant | Scope.Scope>
}

const startClerk = (desk: Desk, options: Options = {}) =>
  Clerk.start(behaviours.started, { ...fast, tuid, ...options }).pipe(Effect.provide(layersOf(Clerk, desk))) as any

/** The two ways to run it. */
export const kinds: { readonly started: Way; readonly hosted: Way } = {
  started: {
    own: Clerk,
    run: startClerk,
    client: (tuid) => Clerk.client({ tuid }),
    kill: Effect.scoped(Effect.flatMap(startClerk(newDesk(), { consume: false }), (clerk: any) => clerk.kill()))
  },
  hosted: {
    own: HostedClerk as any,
    run: (desk, { tuid: where = tuid, ...options } = {}) => {
      const host = { lockTimeout: "1 minute" as const, ...fast, ...options }
      const layer = HostedClerk.hostLayer(behaviours.hosted, host).pipe(
        Layer.provide(layersOf(HostedClerk as any, desk))
      )
      return Effect.flatMap(
        Layer.build(Layer.fresh(layer)),
        (context) => Effect.provideContext(HostedClerk.hosted({ tuid: where }), context as any)
      ) as any
    },
    client: (tuid) => HostedClerk.client({ tuid }) as any,
    kill: Effect.flatMap(HostedClerk.client({ tuid }), (clerk) => clerk.kill)
  }
}

/** A worker alone, in a process that runs no server. */
export const workerOf = (
  own: typeof Clerk,
  desk: Desk,
  options?: DgenServer.DurableWorkerOptions
): Effect.Effect<unknown, DgenServer.InvalidOption, Tenant.Tenant | Scope.Scope> =>
  Layer.build(Layer.fresh(own.durableLayer(options).pipe(Layer.provide(layersOf(own, desk))))) as any

/** The last sign of life of the one action that runs of a tag; empty while none does. */
export const signOf = (own: typeof Clerk, tag: string) =>
  Effect.flatMap(Tenant.Tenant, ({ prefix }) => {
    const { seqs } = keysOf(prefix, typeOf(nameOf(own), tag))
    return Effect.map(rowsUnder(seqs), (rows) => rows.map(({ value }) => Buffer.from(value).toString("hex")).join())
  })

/** The name of a definition. */
export const nameOf = (own: typeof Clerk): string => own.key.slice("effect-dgen/server/".length)

/** How many there are in each state. */
export const countsOf = (own: typeof Clerk) => Tenant.transact(own.durable.counts)

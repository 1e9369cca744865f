/**
 * The cache changes nothing but the time that things take (rule R17): random sequences of messages, by all ways in, between
 * crashes, locks, restarts and the writes of another consumer, are run with the cache and without it. Every handler sees
 * the same state, every sender hears the same, and the store has the same rows.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, DateTime, Effect, Exit, Layer, Logger, Option, Schema, SchemaGetter, Scope } from "effect"
import { DgenServer, MemoryBackend, StateCodec, Tenant } from "effect-dgen"
import { inspect } from "node:util"
import { elsewhere, fast, inside, keysOf, rowsUnder, until } from "../suites/server/support.ts"

const Item = Schema.Struct({ id: Schema.String, n: Schema.Int })

class Point extends Schema.Class<Point>("Point")({ x: Schema.Int, tags: Schema.Array(Item) }) {}

/** What is read is not what was written: a cache that kept the handler's own value would show it. */
const Even = Schema.Int.pipe(
  Schema.decodeTo(Schema.Int, {
    decode: SchemaGetter.passthrough(),
    encode: SchemaGetter.transform((n) => n - n % 2)
  })
)

const State = Schema.Struct({
  count: Schema.Int,
  even: Even,
  name: Schema.optionalKey(Schema.String),
  list: Schema.Array(Item),
  record: Schema.Record(Schema.String, Schema.Array(Item)),
  point: Point,
  whole: StateCodec.term(Schema.Struct({ n: Even })),
  extra: Schema.Struct({
    at: Schema.DateTimeUtc,
    big: Schema.BigInt,
    bytes: Schema.Uint8Array,
    map: Schema.ReadonlyMap(Schema.String, Even),
    maybe: Schema.Option(Schema.Int)
  })
})
type State = typeof State.Type

const first: State = {
  count: 0,
  even: 0,
  list: [],
  record: {},
  point: new Point({ x: 0, tags: [] }),
  whole: { n: 0 },
  extra: {
    at: DateTime.makeUnsafe(0),
    big: 0n,
    bytes: new Uint8Array(0),
    map: new Map(),
    maybe: Option.none()
  }
}

const nameOf = (n: number) => ["b", "a", "10", "9", ""][n % 5]!

const changeList = (list: State["list"], n: number): State["list"] => {
  const id = nameOf(n)
  const at = list.findIndex((item) => item.id === id)
  if (at === -1) return list.toSpliced(n % (list.length + 1), 0, { id, n })
  return n % 3 === 0 ? list.toSpliced(at, 1) : n % 3 === 1 ? list.with(at, { id, n }) : list.toReversed()
}

const change = (state: State, what: number, n: number): State => {
  switch (what % 10) {
    case 0:
      return { ...state, count: state.count + 1 }
    case 1:
      return { ...state, even: n }
    case 2: {
      const { name: _, ...others } = state
      return n % 2 === 0 ? others : { ...others, name: nameOf(n) }
    }
    case 3:
    case 4:
      return { ...state, list: changeList(state.list, n) }
    case 5: {
      const { [nameOf(n)]: old = [], ...others } = state.record
      return { ...state, record: n % 4 === 0 ? others : { [nameOf(n)]: changeList(old, n + 1), ...others } }
    }
    case 6:
      return { ...state, point: new Point({ x: n, tags: changeList(state.point.tags, n) }) }
    case 7:
      return { ...state, whole: { n } }
    case 8:
      return state
    default:
      return {
        ...state,
        extra: {
          at: DateTime.makeUnsafe(n * 1_000),
          big: BigInt(n) ** 9n,
          bytes: Uint8Array.of(n, n),
          map: new Map([[nameOf(n), n], ["k", 1]]),
          maybe: n % 2 === 0 ? Option.none() : Option.some(n)
        }
      }
  }
}

class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

const payload = { what: Schema.Int, n: Schema.Int, ends: Schema.Literals(["well", "refused", "crash", "misfit"]) }
type Payload = { readonly what: number; readonly n: number; readonly ends: "well" | "refused" | "crash" | "misfit" }

class Twin extends DgenServer.Service<Twin>()("Twin", {
  state: State,
  messages: {
    Ask: DgenServer.call({ payload, success: Schema.Int, error: Refused }),
    Put: DgenServer.cast({ payload }),
    Tell: DgenServer.info({ payload }),
    Lock: DgenServer.call({ payload, success: Schema.Int, error: Refused, locks: true })
  },
  actions: { Told: Schema.Int }
}) {}

/** Everything that can be told of a state, the order of its keys and its classes too. */
const show = (state: unknown): string => inspect(state, { depth: Infinity, breakLength: Infinity })

/** Servers that write down what they see. */
const twin = (seen: Array<string>, acted: Array<string>) => {
  const handle = Effect.fnUntraced(function*(
    { ends, n, what }: Payload,
    state: State,
    { attempt }: DgenServer.HandlerContext
  ) {
    seen.push(`${attempt} ${show(state)}`)
    const next = change(state, what, n)
    if (ends === "refused") return yield* new Refused()
    if (ends === "crash" && attempt === 1) throw new Error("crash")
    return ends === "misfit" && attempt === 1 ? { ...next, list: [{ id: "x", n: 1 }, { id: "x", n: 2 }] } : next
  })
  const told = [Twin.action("Told", 1)]
  const behaviour = Twin.behaviour({
    init: Effect.succeed(first),
    handlers: {
      Ask: (payload, state, context) =>
        Effect.map(handle(payload, state, context), (next) => DgenServer.reply(next.list.length, next, told)),
      Put: (payload, state, context) =>
        Effect.map(Effect.orDie(handle(payload, state, context)), (next) => DgenServer.noReply(next, told)),
      Tell: (payload, state, context) =>
        Effect.map(Effect.orDie(handle(payload, state, context)), (next) => DgenServer.noReply(next, told)),
      Lock: (payload, state, context) =>
        Effect.map(handle({ ...payload, ends: "well" }, state, context), (next) => DgenServer.lock(next))
    }
  })
  const layer = Layer.merge(
    Twin.actionsLayer({ Told: (_, state) => Effect.sync(() => void acted.push(show(state))) }),
    Twin.lockedLayer({
      Lock: ({ ends, n, what }, state) =>
        Effect.suspend(() => {
          seen.push(`locked ${show(state)}`)
          if (ends === "refused") return Effect.fail(new Refused())
          if (ends === "crash") return Effect.die(new Error("crash"))
          const result = (state: State) => DgenServer.reply(n, change(state, what + 1, n), told)
          return Effect.succeed(
            ends === "well" ? result(state) : DgenServer.update((fresh: State) => {
              seen.push(`update ${show(fresh)}`)
              return result(fresh)
            })
          )
        })
    })
  )
  return (options: DgenServer.Options) =>
    Twin.start(behaviour, { ...fast, tuid: ["Twin"], deadLetterThreshold: 3, ...options }).pipe(Effect.provide(layer))
}

const steps = Arbitrary.array(
  Arbitrary.schema(Schema.Struct({
    way: Schema.Literals(["Ask", "Ask elsewhere", "Put", "Puts", "priority", "Tell", "Lock", "restart"]),
    what: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 })),
    n: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 })),
    ends: Schema.Literals(["well", "well", "well", "refused", "crash", "misfit"])
  })),
  { minLength: 1, maxLength: 25 }
)

type Steps = ReadonlyArray<Payload & { readonly way: string }>

/** One run: what handlers saw, what senders heard, and the rows in the end. */
const run = (steps: Steps, options: DgenServer.Options) =>
  Effect.gen(function*() {
    const seen: Array<string> = []
    // actions come after the answer: those of a batch, and of a call past the queue that follows it, run beside each other
    const acted: Array<string> = []
    const start = twin(seen, acted)
    const opened: { scope: Scope.Closeable } = { scope: yield* Scope.fork(yield* Effect.scope) }
    const open = Effect.suspend(() => Effect.provideService(start(options), Scope.Scope, opened.scope))
    let server = yield* open
    // it never handles a queued message: it only writes past the queue
    const other = yield* Effect.flatMap(elsewhere, (context) => inside(context)(start({ ...options, consume: false })))
    const heard: Array<string> = []
    const hear = (effect: Effect.Effect<unknown, { readonly _tag: string }>) =>
      Effect.map(Effect.exit(effect), (exit) => {
        const error = Exit.findErrorOption(exit)
        heard.push(Exit.isSuccess(exit) ? String(exit.value) : Option.isSome(error) ? error.value._tag : "defect")
      })
    for (const { way, ...payload } of steps) {
      switch (way) {
        case "Ask":
          yield* hear(server.call("Ask", payload))
          break
        case "Ask elsewhere":
          yield* hear(other.priorityCall("Ask", payload))
          break
        case "Put":
          yield* hear(server.cast("Put", payload))
          break
        case "Puts":
          yield* hear(server.castAll([0, 1, 2, 3].map((i) => ["Put", { ...payload, n: payload.n + i }] as const)))
          break
        case "priority":
          yield* hear(server.priorityCall("Ask", payload))
          break
        case "Tell":
          yield* hear(server.info("Tell", payload))
          break
        case "Lock":
          yield* hear(server.call("Lock", payload))
          break
        default:
          yield* Scope.close(opened.scope, Exit.void)
          opened.scope = yield* Scope.fork(yield* Effect.scope)
          server = yield* open
      }
      // one after another, so that both runs have one order
      yield* until(Effect.zip(server.queueLength, server.locked), ([length, locked]) => length === 0 && !locked)
    }
    yield* Scope.close(opened.scope, Exit.void)
    const { state } = yield* keysOf(["Twin"])
    const rows = (yield* rowsUnder(state)).map(({ key, value }) =>
      `${Buffer.from(key).subarray(state.length).toString("latin1")} = ${Buffer.from(value).toString("latin1")}`
    )
    return { seen, acted: acted.sort(), heard, rows, state: show(yield* other.state) }
  }).pipe(
    Effect.scoped,
    Effect.provide(Tenant.layer(["twin"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
    Effect.provide(Logger.layer([]))
  )

describe("the cache", () => {
  for (const consumeK of [1, 5]) {
    it.effect.prop(
      `is not seen by handlers, senders and the store (consumeK ${consumeK})`,
      { steps },
      ({ steps }) =>
        Effect.gen(function*() {
          const cached = yield* run(steps, { consumeK, cache: true })
          assert.deepStrictEqual(cached, yield* run(steps, { consumeK, cache: false }))
        }),
      { arbitrary: { runs: 60 }, timeout: 120_000 }
    )
  }
})

/** A state in a tenant of its own, with every key that its commits write. */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Backend, MemoryBackend, StateCodec, Tenant, Transaction, Tuple } from "effect-dgen"

/** What the commits since the last `take` asked the store to do. */
export class Recorder extends Context.Service<Recorder, {
  readonly mutations: Array<Backend.Mutation>
}>()("test/Recorder") {}

/** A memory backend that keeps what is committed. */
const recording: Layer.Layer<Backend.Backend | Recorder> = Layer.effectContext(Effect.gen(function*() {
  const backend = yield* Backend.Backend
  const mutations: Array<Backend.Mutation> = []
  const begin = Effect.map(backend.begin, (driver): Backend.DriverTransaction => ({
    ...driver,
    readVersion: driver.readVersion,
    get: (key) => driver.get(key),
    getRange: (begin, end, options) => driver.getRange(begin, end, options),
    close: () => driver.close(),
    commit: (request, accepted) => {
      mutations.push(...request.mutations)
      return driver.commit(request, accepted)
    }
  }))
  return Context.make(Backend.Backend, Backend.Backend.of({ ...backend, begin })).pipe(
    Context.add(Recorder, Recorder.of({ mutations }))
  )
})).pipe(Layer.provide(MemoryBackend.layer))

/** Where a test's state lies. */
export const testLayer: Layer.Layer<Tenant.Tenant | Recorder> = Tenant.layer(["state"]).pipe(
  Layer.provideMerge(recording),
  Layer.orDie
)

export const prefixIn = (state: { readonly prefix: Uint8Array }): Uint8Array => Tuple.pack(["test"], state.prefix)

/** One transaction on the state's prefix. */
export const within = <A, E>(body: (prefix: Uint8Array) => Effect.Effect<A, E, Transaction.Transaction>) =>
  Tenant.transact(Effect.flatMap(Transaction.Transaction, (state) => body(prefixIn(state))))

/** What the transactions since the last call wrote and cleared. */
export const take = Effect.map(Recorder, ({ mutations }) => mutations.splice(0))

/** All rows of the state. */
export const rows = Tenant.transact(Effect.flatMap(Transaction.Transaction, (state) => {
  const prefix = prefixIn(state)
  const { begin, end } = Tuple.range([], prefix)
  return Effect.map(
    state.getRange(begin, end),
    (found) => found.map(({ key, value }) => ({ key: Tuple.unpack(key, prefix.length), value }))
  )
}))

export type Pure<A> = Parameters<typeof StateCodec.make<A, any>>[0]

/** A state that is written over itself, as a server does: from its cache. */
export const cell = <A>(schema: Pure<A>) => {
  const codec = StateCodec.make(schema)
  let stored: StateCodec.Stored<A> | undefined
  const read = within((prefix) => codec.read(prefix))
  const write = (value: A) =>
    Effect.map(within((prefix) => codec.write(prefix, stored, value)), (next) => {
      stored = next
      return next.value
    })
  return {
    read,
    write,
    /** What the store has becomes the cache. */
    load: Effect.map(read, (found) => {
      stored = found
      return found!.value
    }),
    get value() {
      return stored!.value
    },
    /** Writes, and gives the mutations that took, as `[operation, key below the state]`. */
    cost: (value: A) =>
      Effect.gen(function*() {
        yield* take
        yield* write(value)
        return (yield* take).map(shown)
      }),
    /** A cold read gives what the cache has: the value, and the order of its keys. */
    check: Effect.gen(function*() {
      const cold = yield* read
      assert.deepStrictEqual(cold!.value, stored!.value)
      assert.strictEqual(keyOrder(cold!.value), keyOrder(stored!.value))
      return cold!.value
    }),
    /** A cold read knows of the store what the cache knows. */
    checkForms: Effect.map(read, (cold) => assert.deepStrictEqual(cold, stored))
  }
}

const shown = (mutation: Backend.Mutation): string => {
  const key = "key" in mutation ? mutation.key : mutation.begin
  const text = Buffer.from(key).toString("latin1")
  const from = text.indexOf(MARK)
  return `${mutation.op} ${JSON.stringify(text.slice(from + MARK.length))}`
}
const MARK = Buffer.from(Tuple.pack(["test"])).toString("latin1")

/** The order of keys in objects counts too: it is what a handler sees that walks over them. */
const keyOrder = (value: unknown): string =>
  JSON.stringify(value, (_, part) => typeof part === "bigint" ? `${part}n` : part)

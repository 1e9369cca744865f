/** Durable actions that the program at hand does not know, or cannot read: in memory, under a clock that the tests hold. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, type Scope } from "effect"
import { type Backend, DgenServer, MemoryBackend, Tenant, Tuple } from "effect-dgen"
import { packValue } from "../../src/internal/data/codec.ts"
import { keysOf } from "../../src/internal/jobs/definition/model.ts"
import { ChainKeys, typeOf } from "../../src/internal/server/durable/chain.ts"
import { pass, settle } from "../suites/jobs/support.ts"
import { keptLogs, overwrite, rowsUnder } from "../suites/server/support.ts"

const messages = { Do: DgenServer.call({ payload: { does: Schema.Array(Schema.String) } }) }
const state = Schema.Int

/** The version before `Ship`, and after `Send`: each does not know what the other asks for. */
class Old extends DgenServer.Service<Old>()("Post", {
  state,
  messages,
  actions: { Send: DgenServer.durable({ payload: { n: Schema.Int } }) }
}) {}
class New extends DgenServer.Service<New>()("Post", {
  state,
  messages,
  actions: {
    Send: DgenServer.durable({ payload: { n: Schema.Int } }),
    Ship: DgenServer.durable({ payload: { n: Schema.Int } })
  }
}) {}
/** `Send` has another payload here. */
class Other extends DgenServer.Service<Other>()("Post", {
  state,
  messages,
  actions: { Send: DgenServer.durable({ payload: { n: Schema.Int, to: Schema.String } }) }
}) {}

const behaviourOf = (own: any) =>
  own.behaviour({
    init: Effect.succeed(0),
    handlers: {
      Do: ({ does }: { readonly does: ReadonlyArray<string> }, n: number) =>
        DgenServer.reply(undefined, n, does.map((tag, i) => own.action(tag, { n: i, to: "ada" })))
    }
  })

type Services = Tenant.Tenant | Backend.Backend | Scope.Scope

/** A process with a version of the program: what its actions did. */
const deploy = (own: any, done: Array<string>, options: DgenServer.Options = {}): Effect.Effect<any, any, Services> =>
  Effect.gen(function*() {
    const { path } = yield* Tenant.Tenant
    const tenant = yield* Layer.build(Layer.fresh(Tenant.layer(path)))
    const actions: Layer.Layer<unknown> = own.actionsLayer({
      Send: ({ n }: { readonly n: number }) => Effect.sync(() => void done.push(`Send ${n}`)),
      Ship: ({ n }: { readonly n: number }) => Effect.sync(() => void done.push(`Ship ${n}`))
    })
    const started: Effect.Effect<any, any, any> = own.start(behaviourOf(own), { tuid: ["post"], ...options })
    return yield* started.pipe(Effect.provide(actions), Effect.provideContext(tenant)) as Effect.Effect<
      any,
      any,
      Scope.Scope
    >
  })

const counts = Tenant.transact(New.durable.counts)

const timed = (title: string, test: Effect.Effect<void, unknown, Services>) =>
  it.effect(title, () =>
    test.pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["deploys"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
      Effect.provide(keptLogs().layer)
    ))

const chain = Effect.map(Tenant.Tenant, ({ prefix }) => new ChainKeys(prefix, "Post"))

/** Asks for actions where nobody runs them. */
const ask = (own: any, ...does: ReadonlyArray<string>): Effect.Effect<unknown, any, Tenant.Tenant | Backend.Backend> =>
  Effect.scoped(
    Effect.flatMap(
      deploy(own, [], { consume: false }),
      (post) => post.priorityCall("Do", { does }) as Effect.Effect<unknown, any>
    )
  )

describe("durable actions of another version of the program", () => {
  timed(
    "wait for it, with what stands behind them, and a worker that knows them takes them up",
    Effect.gen(function*() {
      yield* ask(New, "Send", "Ship", "Send")
      const old: Array<string> = []
      yield* Effect.scoped(Effect.gen(function*() {
        yield* deploy(Old, old)
        yield* settle
        yield* pass("5 minutes")
        assert.deepStrictEqual(old, ["Send 0"])
        assert.strictEqual((yield* counts).pending, 2)
        const { actions } = yield* Tenant.transact(Old.durable.list())
        assert.deepStrictEqual(actions.map(({ state, tag }) => [tag, state] as any), [
          ["Send", "finished"],
          ["Ship", "pending"],
          ["Send", "pending"]
        ])
      }))
      const done: Array<string> = []
      yield* deploy(New, done)
      yield* settle
      assert.deepStrictEqual(done, ["Ship 1", "Send 2"])
    })
  )
  timed(
    "are dead when nobody has taken one for ten minutes, and what stands behind them goes on",
    Effect.gen(function*() {
      yield* ask(New, "Ship", "Send")
      const old: Array<string> = []
      yield* Effect.scoped(Effect.gen(function*() {
        yield* deploy(Old, old)
        yield* settle
        yield* pass("9 minutes")
        assert.deepStrictEqual(old, [])
        yield* pass("4 minutes")
        assert.deepStrictEqual(old, ["Send 1"])
        assert.strictEqual((yield* counts).dead, 1)
      }))
      const [dead] = (yield* Tenant.transact(Old.durable.list({ state: "dead" }))).actions
      assert.include(dead!.error, "Ship")
      assert.deepStrictEqual(dead!.tuid, ["post"])
      // the version that knows it puts it back
      assert.isTrue(yield* Tenant.transact(Old.durable.requeueDead(dead!.id)))
      const done: Array<string> = []
      yield* deploy(New, done)
      yield* settle
      assert.deepStrictEqual(done, ["Ship 0"])
    })
  )
  timed(
    "are left alone as long as somebody takes them",
    Effect.gen(function*() {
      const done: Array<string> = []
      yield* deploy(Old, [])
      const post = yield* deploy(New, done)
      for (let i = 0; i < 30; i++) {
        yield* (post.call("Do", { does: ["Ship"] }) as Effect.Effect<unknown, any>)
        yield* pass("1 minute")
      }
      assert.strictEqual(done.length, 30)
      assert.strictEqual((yield* counts).dead, 0)
    })
  )
  timed(
    "with payloads that do not fit wait for a version that can read them",
    Effect.gen(function*() {
      yield* ask(Old, "Send")
      const other: Array<string> = []
      yield* Effect.scoped(Effect.gen(function*() {
        yield* deploy(Other, other)
        yield* settle
        yield* pass("5 minutes")
      }))
      assert.strictEqual((yield* counts).pending, 1)
      const old: Array<string> = []
      yield* Effect.scoped(Effect.gen(function*() {
        yield* deploy(Old, old)
        yield* pass("1 minute")
      }))
      assert.deepStrictEqual([other, old], [[], ["Send 0"]])
    })
  )
})

describe("bytes of durable actions that nobody here wrote", () => {
  /** Replaces the row with a number. */
  const spoil = (number: number, value: Uint8Array) =>
    Effect.flatMap(
      chain,
      (keys) => overwrite([{ op: "set", key: Tuple.pack([number, 0, 1], keys.rowsOf(["post"])), value }])
    )

  for (
    const [what, value] of Object.entries({
      "nothing": new Uint8Array(0),
      "garbage": Uint8Array.of(0xff, 0xc1, 1, 2, 3),
      "another format": packValue([9, "id", "Send", new Uint8Array(0), null]),
      "no id": packValue([1, "", "Send", new Uint8Array(0), null]),
      "no data": packValue([1, "id", "Send", 7, null])
    })
  ) {
    timed(
      `as a row, ${what}: it is set aside after ten minutes, and the next one goes on`,
      Effect.gen(function*() {
        yield* ask(Old, "Send", "Send", "Send")
        yield* spoil(0, value)
        const done: Array<string> = []
        yield* deploy(Old, done)
        yield* settle
        assert.deepStrictEqual(done, ["Send 0"])
        const { actions } = yield* Tenant.transact(Old.durable.list({ state: "pending" }))
        assert.strictEqual(actions.length, 2)
        yield* pass("15 minutes")
        assert.deepStrictEqual(done, ["Send 0", "Send 2"])
        assert.strictEqual((yield* counts).dead, 1)
        assert.strictEqual((yield* Tenant.transact(Old.durable.list({ state: "dead" }))).actions[0]!.tag as string, "")
        assert.strictEqual(yield* Tenant.transact(Old.durable.purgeDead()), 1)
      })
    )
  }
  timed(
    "in a row whose job cannot be read: it is dead after a while, and the next one goes on",
    Effect.gen(function*() {
      yield* ask(Old, "Send", "Send", "Send")
      yield* spoil(0, packValue([1, "spoilt", "Send", Uint8Array.of(0xc1), null]))
      const done: Array<string> = []
      yield* deploy(Old, done)
      yield* settle
      yield* pass("15 minutes")
      assert.deepStrictEqual(done, ["Send 0", "Send 2"])
      assert.strictEqual((yield* counts).dead, 1)
      // it does not say whose it is: there is no place to put it back to
      assert.isFalse(yield* Tenant.transact(Old.durable.requeueDead("spoilt")))
    })
  )
  timed(
    "in a job, or its end past the library: the next one goes on",
    Effect.gen(function*() {
      yield* ask(New, "Ship", "Send")
      const { prefix } = yield* Tenant.Tenant
      const jobs = keysOf(prefix, typeOf("Post", "Ship"))
      // the whole type is gone
      yield* overwrite([{ op: "clearRange", begin: jobs.prefix, end: Tuple.strinc(jobs.prefix) }])
      const done: Array<string> = []
      yield* deploy(New, done)
      yield* settle
      yield* pass("2 minutes")
      assert.deepStrictEqual(done, ["Send 1"])
    })
  )
  timed(
    "as a front, or a number: what waits goes on",
    Effect.gen(function*() {
      yield* ask(Old, "Send", "Send")
      const keys = yield* chain
      yield* overwrite([
        { op: "set", key: keys.front(["post"]), value: Uint8Array.of(0xc1) },
        { op: "set", key: keys.next(["post"]), value: Uint8Array.of(0xc1) }
      ])
      yield* ask(Old, "Send")
      const done: Array<string> = []
      yield* deploy(Old, done)
      yield* settle
      yield* pass("2 minutes")
      assert.deepStrictEqual(done.toSorted(), ["Send 0", "Send 0", "Send 1"])
      assert.strictEqual((yield* counts).pending, 0)
    })
  )
  timed(
    "leave nothing of a server whose actions have run but its jobs, for an hour",
    Effect.gen(function*() {
      const done: Array<string> = []
      const post = yield* deploy(Old, done)
      yield* (post.call("Do", { does: ["Send", "Send"] }) as Effect.Effect<unknown, any>)
      yield* settle
      const keys = yield* chain
      const left = (yield* rowsUnder(keys.prefix)).map(({ key }) => Tuple.unpack(key, keys.prefix.length)[0])
      assert.deepStrictEqual(left, ["rows", "tag"])
      assert.strictEqual((yield* counts).finished, 2)
      yield* pass("61 minutes")
      assert.strictEqual((yield* counts).finished, 0)
    })
  )
})

/** Queues that are full: what is refused, what never is, and what waits for room. Run on every backend. */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Latch, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import {
  elsewhere,
  fast,
  inside,
  keptLogs,
  keysOf,
  rowsUnder,
  scan,
  type Store,
  tapped,
  testsOf,
  until
} from "./support.ts"

const messages = {
  Keep: DgenServer.cast({ payload: { item: Schema.String } }),
  Ask: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int }),
  Twice: DgenServer.cast({ payload: { item: Schema.String } }),
  Work: DgenServer.call({ payload: { item: Schema.String }, success: Schema.String, locks: true })
}
const state = Schema.Array(Schema.String)

class Small extends DgenServer.Service<Small>()("Small", { state, messages, maxQueueLength: 2 }) {}
class SmallHosted
  extends DgenServer.Service<SmallHosted>()("SmallHosted", { state, messages, maxQueueLength: 2, hosted: true })
{}
class Wide extends DgenServer.Service<Wide>()("Wide", { state, messages: { Keep: messages.Keep } }) {}

type Own = { readonly castSelfTx: typeof Small.castSelfTx }
const handlers = (own: Own) => ({
  Keep: ({ item }: { readonly item: string }, kept: ReadonlyArray<string>) => DgenServer.noReply([...kept, item]),
  Ask: ({ item }: { readonly item: string }, kept: ReadonlyArray<string>) =>
    DgenServer.reply(kept.length + 1, [...kept, item]),
  Twice: ({ item }: { readonly item: string }, kept: ReadonlyArray<string>) =>
    Effect.as(
      Effect.orDie(Effect.forEach([1, 2, 3, 4], (i) => own.castSelfTx("Keep", { item: `${item} ${i}` }))),
      DgenServer.noReply(kept)
    ),
  Work: (_: unknown, kept: ReadonlyArray<string>) => DgenServer.lock(kept)
})
const small = Small.behaviour({ init: Effect.succeed([]), handlers: handlers(Small) })
const noLocks = { Work: () => Effect.succeed(DgenServer.noReply([])) }

/** Sends to `Small`: what it does when that is full is nobody's business but its own. */
class Sender extends DgenServer.Service<Sender>()("Sender", {
  state,
  messages: {
    Note: DgenServer.cast({ payload: { item: Schema.String } }),
    Send: DgenServer.cast({ payload: { item: Schema.String, how: Schema.String } }),
    SendCall: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int }),
    Declared: DgenServer.call({ error: DgenServer.QueueFull }),
    Locked: DgenServer.call({ success: Schema.String, locks: true })
  }
}) {}

const tuid = ["small"]
const send = (item: string) => Small.castTx("Keep", { item }, { tuid })

const sender = (runs: Array<number>) =>
  Sender.behaviour({
    init: Effect.succeed([]),
    handlers: {
      Note: ({ item }, kept) => DgenServer.noReply([...kept, item]),
      Send: ({ how, item }, kept, { attempt }) => {
        runs.push(attempt)
        const sent = Effect.as(send(item), DgenServer.noReply([...kept, item]))
        return Effect.catch(sent, (error) =>
          how === "die"
            ? Effect.die(error)
            : how === "throw"
            ? Effect.die(new Error("could not send", { cause: new Error("no", { cause: error }) }))
            : how === "fail"
            ? Effect.fail(error) as Effect.Effect<never>
            : Effect.die(new AggregateError([new Error("other"), error], "several")))
      },
      SendCall: ({ item }, kept) =>
        Effect.as(Effect.orDie(send(item)), DgenServer.reply(kept.length + 1, [...kept, item])),
      Declared: (_, kept) =>
        Effect.catch(
          Effect.as(send("declared"), DgenServer.reply(undefined, kept)),
          (error) => error._tag === "QueueFull" ? Effect.fail(error) : Effect.die(error)
        ),
      Locked: (_, kept) => DgenServer.lock(kept)
    }
  })

const noLock = Sender.lockedLayer({ Locked: () => Effect.succeed(DgenServer.reply("none", [])) })

const startSmall = (consume: boolean) =>
  Small.start(small, { ...fast, tuid, consume }).pipe(Effect.provide(Small.lockedLayer(noLocks as any)))

export const fullQueuesSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "full queues")
  const kinds = {
    started: {
      client: Small.client({ tuid }),
      castTx: (item: string) => Small.castTx("Keep", { item }, { tuid }),
      castAllTx: (...items: ReadonlyArray<string>) =>
        Small.castAllTx(items.map((item) => ["Keep", { item }] as const), { tuid })
    },
    hosted: {
      client: SmallHosted.client({ tuid }),
      castTx: (item: string) => SmallHosted.castTx("Keep", { item }, { tuid }),
      castAllTx: (...items: ReadonlyArray<string>) =>
        SmallHosted.castAllTx(items.map((item) => ["Keep", { item }] as const), { tuid })
    }
  }
  for (const [kind, { castAllTx, castTx, client }] of Object.entries(kinds)) {
    describe(`${name}: the full queue of a ${kind} server`, () => {
      test(
        "refuses casts and calls, and nothing of them is written",
        Effect.gen(function*() {
          const commits: Array<number> = []
          const tenant = yield* tapped({
            before: ({ mutations }) => Effect.sync(() => void commits.push(mutations.length))
          })
          const cart = yield* inside(tenant)(client)
          yield* cart.cast("Keep", { item: "a" })
          yield* cart.cast("Keep", { item: "b" })
          const before = yield* scan(tuid)
          commits.length = 0
          const refused = yield* Effect.all([
            Effect.flip(cart.cast("Keep", { item: "c" })),
            Effect.flip(cart.castAll([["Keep", { item: "c" }], ["Keep", { item: "d" }]])),
            Effect.flip(cart.call("Ask", { item: "c" })),
            Effect.flip(inside(tenant)(Tenant.transact(castTx("c")))),
            Effect.flip(inside(tenant)(Tenant.transact(castAllTx("c", "d"))))
          ])
          for (const error of refused) {
            assert.deepInclude(error, { _tag: "QueueFull", tuid: `["small"]`, length: 2, limit: 2 })
          }
          assert.deepStrictEqual(commits, [])
          assert.deepStrictEqual(yield* scan(tuid), before)
          assert.strictEqual(yield* cart.queueLength, 2)
        })
      )
      test(
        "takes what fits exactly, and never more at once than its limit",
        Effect.gen(function*() {
          const cart = yield* client
          const three = yield* Effect.flip(cart.castAll(["a", "b", "c"].map((item) => ["Keep", { item }] as const)))
          assert.deepInclude(three, { _tag: "QueueFull", length: 0, limit: 2 })
          yield* cart.castAll([])
          yield* Tenant.transact(castTx("a"))
          // what the transaction has pushed itself counts
          const both = yield* Effect.flip(Tenant.transact(Effect.andThen(castTx("b"), castTx("c"))))
          assert.deepInclude(both, { _tag: "QueueFull", length: 2 })
          assert.strictEqual(yield* cart.queueLength, 1)
          yield* Tenant.transact(Effect.andThen(castTx("b"), Effect.ignore(castTx("c"))))
          assert.strictEqual(yield* cart.queueLength, 2)
          yield* cart.castAll([])
        })
      )
      test(
        "refuses of pushes that travel together those that do not fit, and no others",
        Effect.gen(function*() {
          const cart = yield* client
          const other = yield* Wide.client({ tuid: ["wide"] })
          const sends = Array.from(
            { length: 20 },
            (_, i) => i % 2 === 0 ? cart.cast("Keep", { item: `${i}` }) : other.cast("Keep", { item: `${i}` })
          )
          const exits = yield* Effect.all(sends.map((send) => Effect.result(send)), { concurrency: "unbounded" })
          const refused = exits.flatMap((exit, i) => exit._tag === "Failure" ? [[i % 2, exit.failure._tag]] : [])
          assert.deepStrictEqual(refused, Array.from({ length: 8 }, () => [0, "QueueFull"]))
          assert.strictEqual(yield* cart.queueLength, 2)
          assert.strictEqual(yield* other.queueLength, 10)
        })
      )
    })
  }

  describe(`${name}: a full queue`, () => {
    test(
      "does not refuse a handler's casts to its own server, timers and requeued dead letters",
      Effect.gen(function*() {
        const cart = yield* Small.client({ tuid })
        yield* cart.castAll([["Twice", { item: "a" }], ["Twice", { item: "b" }]])
        for (const id of ["1", "2", "3"]) yield* cart.castLater("Keep", { item: `timer ${id}` }, { after: 0, id })
        yield* startSmall(true)
        const kept = yield* until(cart.state, (state) => state?.length === 11)
        assert.strictEqual(kept!.filter((item) => item.startsWith("timer")).length, 3)
      })
    )
    test(
      "reads nothing where there is no limit",
      Effect.gen(function*() {
        const read: Array<string> = []
        const { pop, push } = yield* keysOf(["wide"])
        const counters = new Set([pop, push].map((key) => Buffer.from(key).toString("hex")))
        const tenant = yield* tapped({ gets: (key) => read.push(Buffer.from(key).toString("hex")) })
        const wide = yield* inside(tenant)(Wide.client({ tuid: ["wide"] }))
        yield* wide.cast("Keep", { item: "a" })
        yield* inside(tenant)(Tenant.transact(Wide.castTx("Keep", { item: "b" }, { tuid: ["wide"] })))
        assert.deepStrictEqual(read.filter((key) => counters.has(key)), [])
        yield* inside(tenant)(Tenant.transact(send("c")))
        assert.isAbove(read.length, 0)
      })
    )
    for (const consumeK of [1, 10]) {
      test(
        `makes a handler that casts there wait, uncharged, and nobody before it (consumeK ${consumeK})`,
        Effect.gen(function*() {
          const logs = keptLogs()
          const runs: Array<number> = []
          const waiting = yield* Small.client({ tuid })
          yield* waiting.castAll([["Keep", { item: "x" }], ["Keep", { item: "y" }]])
          const client = yield* Sender.client({ tuid: ["sender"] })
          yield* client.cast("Note", { item: "before" })
          for (const how of ["die", "throw", "fail", "several"]) yield* client.cast("Send", { item: how, how })
          yield* client.cast("Note", { item: "after" })
          yield* Sender.start(sender(runs), {
            restart: fast.restart,
            tuid: ["sender"],
            consumeK,
            deadLetterThreshold: 1
          }).pipe(Effect.provide(noLock), Effect.provide(logs.layer))
          yield* until(client.state, (state) => state?.length === 1)
          yield* until(Effect.sync(() => runs.length), (count) => count >= 5)
          assert.deepStrictEqual(yield* client.state, ["before"])
          assert.strictEqual(yield* client.queueLength, 5)
          yield* startSmall(true)
          yield* until(client.queueLength, (length) => length === 0)
          assert.deepStrictEqual(yield* client.state, ["before", "die", "throw", "fail", "several", "after"])
          assert.deepStrictEqual([...new Set(runs)], [1])
          const kept = yield* until(waiting.state, (state) => state?.length === 6)
          assert.deepStrictEqual(kept, ["x", "y", "die", "throw", "fail", "several"])
          assert.strictEqual(logs.count("crashed"), 0)
          assert.isAbove(logs.count("waits for room"), 0)
        })
      )
    }
    test(
      "makes an inline call wait in the queue, however full that is, and answers it when there is room",
      Effect.gen(function*() {
        const waiting = yield* Small.client({ tuid })
        yield* waiting.castAll([["Keep", { item: "x" }], ["Keep", { item: "y" }]])
        const server = yield* Sender.start(sender([]), { ...fast, tuid: ["sender"], deadLetterThreshold: 1 }).pipe(
          Effect.provide(noLock)
        )
        assert.strictEqual((yield* Effect.flip(server.call("Declared")))._tag, "QueueFull")
        const call = yield* Effect.forkChild(server.call("SendCall", { item: "a" }))
        yield* until(server.queueLength, (length) => length === 1)
        yield* startSmall(true)
        assert.strictEqual(yield* Fiber.join(call), 1)
      })
    )
    test(
      "puts the message of a locked handler back that cannot send, uncharged",
      Effect.gen(function*() {
        const attempts: Array<number> = []
        const waiting = yield* Small.client({ tuid })
        yield* waiting.castAll([["Keep", { item: "x" }], ["Keep", { item: "y" }]])
        const locked = Sender.lockedLayer({
          Locked: Effect.fnUntraced(function*(_, kept, { attempt }) {
            attempts.push(attempt)
            yield* Effect.orDie(waiting.cast("Keep", { item: "from the lock" }))
            return DgenServer.reply("sent", [...kept, "locked"])
          })
        })
        const server = yield* Sender.start(sender([]), { ...fast, tuid: ["sender"] }).pipe(Effect.provide(locked))
        const call = yield* Effect.forkChild(server.call("Locked"))
        yield* until(Effect.sync(() => attempts.length), (count) => count >= 3)
        yield* startSmall(true)
        assert.strictEqual(yield* Fiber.join(call), "sent")
        assert.deepStrictEqual([...new Set(attempts)], [1])
        yield* until(waiting.state, (state) => state?.length === 3)
      })
    )
    test(
      "does not refuse a call that was tried inline and lost to others",
      Effect.gen(function*() {
        const gate = yield* Latch.make(false)
        const reached = yield* Latch.make(false)
        const { head } = yield* keysOf(tuid)
        let held = true
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            held && mutations.some((mutation) => "key" in mutation && Buffer.compare(mutation.key, head) === 0)
              ? Effect.andThen(reached.open, gate.await)
              : Effect.void
        })
        held = false
        const server = yield* inside(tenant)(startSmall(true))
        const other = yield* elsewhere
        const elsewhereSmall = yield* inside(other)(startSmall(false))
        held = true
        const call = yield* Effect.forkChild(server.call("Ask", { item: "late" }))
        yield* reached.await
        held = false
        // its commit will conflict with this one, and the queue be full by then
        yield* elsewhereSmall.priorityCast("Keep", { item: "first" })
        const client = yield* inside(other)(Small.client({ tuid }))
        yield* client.castAll([["Keep", { item: "x" }], ["Keep", { item: "y" }]]).pipe(Effect.ignore)
        yield* gate.open
        assert.isAbove(yield* Fiber.join(call), 1)
        assert.isAbove((yield* rowsUnder(head)).length, 0)
      })
    )
    test(
      "is a limit of one or more",
      Effect.sync(() => {
        for (const maxQueueLength of [0, -1, 1.5, NaN, Infinity, "1" as any]) {
          assert.throws(
            () => DgenServer.Service<any>()("Wrong", { state, messages: {}, maxQueueLength }),
            /maxQueueLength must be a whole number/
          )
        }
      })
    )
  })
}

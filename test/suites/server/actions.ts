/** Actions: once a committed batch, after its commit, in order (rule R22). */
import { assert, describe } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Ref, Schema, Scope } from "effect"
import { DgenServer, type Tenant } from "effect-dgen"
import {
  conflict,
  elsewhere,
  failureOf,
  fast,
  inside,
  keptLogs,
  keysOf,
  type Store,
  tapped,
  testsOf,
  touches,
  until
} from "./support.ts"

class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}

class Clerk extends DgenServer.Service<Clerk>()("Clerk", {
  state: Schema.Struct({ items: Schema.Array(Schema.String) }),
  messages: {
    Do: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int, error: Refused }),
    DoCast: DgenServer.cast({ payload: { item: Schema.String } }),
    DoInfo: DgenServer.info({ payload: { item: Schema.String } }),
    Stop: DgenServer.call({ payload: { item: Schema.String } }),
    Work: DgenServer.call({ payload: { item: Schema.String }, success: Schema.Int, locks: true }),
    Foreign: DgenServer.cast()
  },
  actions: {
    Post: { item: Schema.String },
    File: Schema.Struct({ item: Schema.String }),
    Halt: {},
    Crash: {}
  }
}) {}

/** Where posts and files go: services that only the actions have. */
class Post extends Context.Service<Post, { readonly send: (line: string) => Effect.Effect<void> }>()("Post") {}
class File extends Context.Service<File, { readonly add: (line: string) => Effect.Effect<void> }>()("File") {}

const actionsOf = (item: string) => {
  const post = (end: string) => Clerk.action("Post", { item: `${item}${end}` })
  if (item.startsWith("halt")) return [post(" 1"), Clerk.action("Halt", {}), post(" 2")]
  if (item.startsWith("crash")) return [post(" 1"), Clerk.action("Crash", {}), post(" 2")]
  return [post(""), Clerk.action("File", { item })]
}

const clerk = Clerk.behaviour({
  init: Effect.succeed({ items: [] }),
  handlers: {
    Do: Effect.fnUntraced(function*({ item }, { items }) {
      if (item === "refused") return yield* new Refused()
      return DgenServer.reply(items.length + 1, { items: [...items, item] }, actionsOf(item))
    }),
    DoCast: ({ item }, { items }, { attempt }) => {
      if (item === "poison" && attempt < 3) throw new Error("poison")
      return DgenServer.noReply({ items: [...items, item] }, actionsOf(item))
    },
    DoInfo: ({ item }, { items }) => DgenServer.noReply({ items: [...items, item] }, actionsOf(item)),
    Stop: ({ item }, { items }) => DgenServer.stop("told to", { items: [...items, item] }, actionsOf(item)),
    Work: (_, state) => DgenServer.lock(state),
    Foreign: (_, state) => DgenServer.noReply(state, [{ server: "Other", tag: "Post", payload: {} } as any])
  }
})

interface Desk {
  readonly lines: Array<string>
  readonly start: (options?: DgenServer.Options) => Effect.Effect<
    Clerk["Service"],
    unknown,
    Tenant.Tenant | Scope.Scope
  >
}

/** A clerk whose actions write lines: what was done, and how many items the state had then. */
const hire = (during: (line: string) => Effect.Effect<void> = () => Effect.void): Desk => {
  const lines: Array<string> = []
  const write = (line: string) => Effect.andThen(during(line), Effect.sync(() => void lines.push(line)))
  const services = Layer.mergeAll(Layer.succeed(Post, { send: write }), Layer.succeed(File, { add: write }))
  const actions = Clerk.actionsLayer({
    Post: ({ item }, { items }) => Effect.flatMap(Post, (post) => post.send(`post ${item} ${items.length}`)),
    File: ({ item }, { items }) => Effect.flatMap(File, (file) => file.add(`file ${item} ${items.length}`)),
    Halt: () => Effect.succeed(DgenServer.halt),
    Crash: () => Effect.die(new Error("the post office burned down"))
  }).pipe(Layer.provide(services))
  const locked = Clerk.lockedLayer({
    Work: ({ item }, { items }) =>
      Effect.succeed(DgenServer.reply(items.length + 1, { items: [...items, item] }, actionsOf(item)))
  })
  return {
    lines,
    start: (options) =>
      Clerk.start(clerk, { ...fast, tuid: ["Clerk"], ...options }).pipe(Effect.provide(Layer.merge(actions, locked)))
  }
}

export const actionsSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "actions")

  describe(`${name}: actions`, () => {
    live(
      "of a batch run after its commit, in order, all with the state of its end",
      Effect.gen(function*() {
        const { lines, start } = hire()
        const sender = yield* start({ consume: false })
        yield* sender.castAll(["a", "b", "c"].map((item) => ["DoCast", { item }] as const))
        const server = yield* start({ consumeK: 10 })
        yield* until(Effect.sync(() => lines.length), (length) => length === 6)
        assert.deepStrictEqual(lines, ["post a 3", "file a 3", "post b 3", "file b 3", "post c 3", "file c 3"])
        yield* server.stop()
        assert.strictEqual(lines.length, 6)
      })
    )
    live(
      "of one message a batch have the state of their message",
      Effect.gen(function*() {
        const { lines, start } = hire()
        const server = yield* start()
        yield* server.castAll(["a", "b"].map((item) => ["DoCast", { item }] as const))
        yield* until(Effect.sync(() => lines.length), (length) => length === 4)
        assert.deepStrictEqual(lines, ["post a 1", "file a 1", "post b 2", "file b 2"])
      })
    )
    live(
      "that halt or crash end those of their message and of no other; the crash is logged",
      Effect.gen(function*() {
        const { lines, start } = hire()
        const logs = keptLogs()
        const sender = yield* start({ consume: false })
        const items = ["a", "halt", "b", "crash", "c"]
        yield* sender.castAll(items.map((item) => ["DoCast", { item }] as const))
        const server = yield* start({ consumeK: 10 }).pipe(Effect.provide(logs.layer))
        yield* until(Effect.sync(() => lines.includes("file c 5")), Boolean)
        assert.deepStrictEqual(lines, [
          "post a 5",
          "file a 5",
          "post halt 1 5",
          "post b 5",
          "file b 5",
          "post crash 1 5",
          "post c 5",
          "file c 5"
        ])
        assert.strictEqual(logs.count("burned down"), 1)
        assert.deepStrictEqual((yield* server.state)!.items, items)
        assert.strictEqual(yield* server.call("Do", { item: "crash too" }), 6)
        assert.strictEqual(yield* server.call("Do", { item: "d" }), 7)
      })
    )
    live(
      "of calls, casts and infos past the queue, of locked outcomes and of a stop run too",
      Effect.gen(function*() {
        const { lines, start } = hire()
        const server = yield* start()
        const expect = (line: string) => until(Effect.sync(() => lines.includes(line)), Boolean)
        yield* server.call("Do", { item: "inline" })
        yield* expect("file inline 1")
        yield* server.priorityCall("Do", { item: "priority" })
        yield* expect("file priority 2")
        yield* server.priorityCast("DoCast", { item: "cast" })
        yield* expect("file cast 3")
        yield* server.info("DoInfo", { item: "info" })
        yield* expect("file info 4")
        assert.strictEqual(yield* server.call("Work", { item: "inline lock" }), 5)
        yield* expect("file inline lock 5")
        assert.strictEqual(yield* server.priorityCall("Work", { item: "priority lock" }), 6)
        yield* expect("file priority lock 6")
        const client = yield* Clerk.client()
        assert.strictEqual(yield* client.call("Work", { item: "queued lock" }), 7)
        yield* expect("file queued lock 7")
        yield* Effect.flip(server.call("Stop", { item: "stop" }))
        yield* expect("file stop 8")
        assert.strictEqual(lines.length, 16)
      })
    )
    live(
      "of a message that fails or crashes do not run",
      Effect.gen(function*() {
        const { lines, start } = hire()
        const server = yield* start()
        assert.strictEqual((yield* Effect.flip(server.call("Do", { item: "refused" })))._tag, "Refused")
        assert.strictEqual(
          (yield* Effect.flip(server.priorityCast("DoCast", { item: "poison" })))._tag,
          "HandlerCrashed"
        )
        yield* server.cast("DoCast", { item: "poison" })
        yield* until(Effect.sync(() => lines.length), (length) => length === 2)
        assert.deepStrictEqual(lines, ["post poison 1", "file poison 1"])
      })
    )
    live(
      "of another server are refused: a crash of their message",
      Effect.gen(function*() {
        const { start } = hire()
        const server = yield* start()
        const error = yield* Effect.flip(server.priorityCast("Foreign"))
        assert.strictEqual(error._tag, "HandlerCrashed")
        assert.include(error.message, "Other")
      })
    )
    live(
      "never run before their commit, and once when it had to be tried again",
      Effect.gen(function*() {
        const { head } = yield* keysOf(["Clerk"])
        const order: Array<string> = []
        const refusals = { left: 0 }
        const tenant = yield* tapped({
          before: ({ mutations }) =>
            Effect.suspend(() => {
              if (!mutations.some(touches(head))) return Effect.void
              order.push(refusals.left > 0 ? "refused" : "commit")
              return refusals.left-- > 0 ? Effect.fail(conflict) : Effect.void
            }),
          after: ({ mutations }) => Effect.sync(() => mutations.some(touches(head)) && void order.push("committed"))
        })
        const { lines, start } = hire((line) => Effect.sync(() => void order.push(line)))
        const server = yield* inside(tenant)(start({ consumeK: 2 }))
        order.length = 0
        refusals.left = 3
        assert.strictEqual(yield* server.call("Do", { item: "a" }), 1)
        yield* until(Effect.sync(() => lines.length), (length) => length === 2)
        assert.deepStrictEqual(order, [
          "refused",
          "refused",
          "refused",
          "commit",
          "committed",
          "post a 1",
          "file a 1"
        ])
      })
    )
    for (const operation of ["call", "priorityCall"] as const) {
      live(
        `of a ${operation} run although its caller times out or goes`,
        Effect.gen(function*() {
          const { head } = yield* keysOf(["Clerk"])
          const begun = yield* Ref.make(yield* Deferred.make<void>())
          const go = yield* Ref.make(yield* Deferred.make<void>())
          const tenant = yield* tapped({
            before: ({ mutations }) =>
              mutations.some(touches(head)) && !mutations.some((mutation) => mutation.op === "add")
                ? Effect.gen(function*() {
                  yield* Deferred.succeed(yield* Ref.get(begun), undefined)
                  yield* Deferred.await(yield* Ref.get(go))
                })
                : Effect.void
          })
          const { lines, start } = hire()
          const server = yield* inside(tenant)(start())
          const call = yield* Effect.forkChild(
            (server[operation] as typeof server.call)("Do", { item: "a" }, { timeout: "20 millis" })
          )
          yield* Deferred.await(yield* Ref.get(begun))
          assert.strictEqual((yield* failureOf(call))._tag, "CallTimeout")
          yield* Deferred.succeed(yield* Ref.get(go), undefined)
          yield* until(Effect.sync(() => lines.length), (length) => length === 2)
          yield* Ref.set(begun, yield* Deferred.make<void>())
          yield* Ref.set(go, yield* Deferred.make<void>())
          const gone = yield* Effect.forkChild(server[operation]("Do", { item: "b" }))
          yield* Deferred.await(yield* Ref.get(begun))
          yield* Fiber.interrupt(gone)
          yield* Deferred.succeed(yield* Ref.get(go), undefined)
          yield* until(Effect.sync(() => lines.length), (length) => length === 4)
          assert.deepStrictEqual(lines, ["post a 1", "file a 1", "post b 2", "file b 2"])
        })
      )
    }
    live(
      "that are under way end before the scope has closed; nothing is taken after them",
      Effect.gen(function*() {
        for (const way of ["queued", "inline"] as const) {
          const begun = yield* Deferred.make<void>()
          const go = yield* Deferred.make<void>()
          const { lines, start } = hire(() => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)))
          const scope = yield* Scope.fork(yield* Effect.scope)
          const server = yield* start().pipe(Effect.provideService(Scope.Scope, scope))
          yield* Effect.forkChild(
            way === "inline" ? server.call("Do", { item: way }) : server.cast("DoCast", { item: way })
          )
          yield* Deferred.await(begun)
          const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
          assert.strictEqual((yield* Effect.flip(server.call("Do", { item: "late" })))._tag, "ServerStopped")
          yield* server.cast("DoCast", { item: `after ${way}` })
          assert.deepStrictEqual(lines, [])
          yield* Deferred.succeed(go, undefined)
          yield* Fiber.join(closing)
          assert.deepStrictEqual([way, lines.length], [way, 2])
          assert.include(yield* Effect.map(server.state, (state) => state!.items), way)
          assert.notInclude(yield* Effect.map(server.state, (state) => state!.items), `after ${way}`)
          assert.strictEqual(yield* server.queueLength, 1)
          yield* Effect.scoped(Effect.flatMap(hire().start(), (again) => until(again.queueLength, (n) => n === 0)))
        }
      })
    )
    for (const end of ["stop", "kill"] as const) {
      live(
        `may ${end} their own server`,
        Effect.gen(function*() {
          for (const way of ["inline", "queued"] as const) {
            const handle = yield* Deferred.make<Clerk["Service"]>()
            const { lines, start } = hire(() =>
              Effect.orDie(Effect.flatMap(Deferred.await(handle), (server) => server[end]()))
            )
            const scope = yield* Scope.fork(yield* Effect.scope)
            const server = yield* start(way === "inline" ? {} : { consumeK: 2 }).pipe(
              Effect.provideService(Scope.Scope, scope)
            )
            yield* Deferred.succeed(handle, server)
            yield* Effect.exit(server.call("Do", { item: way }))
            const error = yield* until(
              Effect.flip(server.priorityCall("Do", { item: "refused" })),
              ({ _tag }) => _tag !== "Refused"
            )
            assert.strictEqual(error._tag, end === "stop" ? "ServerStopped" : "ServerKilled")
            yield* Scope.close(scope, Exit.void)
            assert.strictEqual(lines.length, 2)
          }
        })
      )
    }
    live(
      "that stop waits for: those of inline calls too",
      Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const { lines, start } = hire(() => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)))
        const server = yield* start()
        assert.strictEqual(yield* server.call("Do", { item: "a" }), 1)
        yield* Deferred.await(begun)
        const stopping = yield* Effect.forkChild(server.stop(), { startImmediately: true })
        assert.isUndefined(stopping.pollUnsafe())
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(stopping)
        assert.strictEqual(lines.length, 2)
      })
    )
    live(
      "run in the consumer's process, once, whoever called",
      Effect.gen(function*() {
        const here = hire()
        const there = hire()
        const server = yield* here.start()
        const other = yield* Effect.flatMap(elsewhere, (context) => inside(context)(there.start()))
        yield* Effect.forEach(
          Array.from({ length: 20 }, (_, i) => i),
          (i) => (i % 2 ? server : other).call("Do", { item: `${i}` }),
          { concurrency: "unbounded" }
        )
        const all = () => [...here.lines, ...there.lines]
        yield* until(Effect.sync(() => all().length), (length) => length >= 40)
        yield* server.stop()
        yield* other.stop()
        assert.strictEqual(new Set(all().map((line) => line.replace(/ \d+$/, ""))).size, 40)
        assert.strictEqual(all().length, 40)
      })
    )
  })
}

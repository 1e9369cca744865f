/**
 * Looking at a tenant and putting it in order, without the definitions of what lies there. Run on every backend. The
 * servers are the bank's clerks of this file, started and hosted; the jobs are letters.
 */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Layer, Redacted, Schema, Stream } from "effect"
import { DgenServer, Inspect, Jobs, Tenant, type Transaction, Tuple } from "effect-dgen"
import { recordKey } from "../../../src/internal/server/kept/record.ts"
import { processesPrefix } from "../../../src/internal/tenant/layout.ts"
import { elsewhere, fast, inside, overwrite, rowsUnder, scan, type Store, testsOf, until } from "../server/support.ts"

const payload = { text: Schema.String, pin: Schema.optionalKey(Schema.Redacted(Schema.String)) }
const options = {
  state: Schema.Struct({
    lines: Schema.Array(Schema.String),
    pins: Schema.Record(Schema.String, Schema.Redacted(Schema.String))
  }),
  messages: {
    Write: DgenServer.cast({ payload }),
    Read: DgenServer.call({ success: Schema.Array(Schema.String) }),
    Bare: DgenServer.cast(),
    /** Dies until a test mends it. */
    Fail: DgenServer.cast({ payload }),
    Work: DgenServer.cast({ payload, locks: true })
  }
} as const

class Clerk extends DgenServer.Service<Clerk>()("Clerk", options) {}
class HostedClerk extends DgenServer.Service<HostedClerk>()("HostedClerk", { ...options, hosted: true }) {}

type State = typeof options.state.Type

const mended = { is: false }

const wrote = (state: State, text: string, pin?: Redacted.Redacted<string>): State => ({
  lines: [...state.lines, text],
  pins: pin === undefined ? state.pins : { ...state.pins, [text]: pin }
})

const handlers: any = {
  Write: ({ pin, text }: any, state: State) => DgenServer.noReply(wrote(state, text, pin)),
  Read: (_: void, state: State) => DgenServer.reply(state.lines, state),
  Bare: (_: void, state: State) => DgenServer.noReply(wrote(state, "bare")),
  Fail: ({ text }: any, state: State) =>
    mended.is ? Effect.succeed(DgenServer.noReply(wrote(state, text))) : Effect.die(new Error("it fails")),
  Work: (_: any, state: State) => DgenServer.lock(state)
}
const init = Effect.succeed({ lines: [], pins: {} })
const behaviours = {
  started: Clerk.behaviour({ init, handlers }),
  hosted: HostedClerk.behaviour({ init, handlers })
}

const tuid = ["clerk", 7] as const
const text = "[\"clerk\",7]"
const never = { Work: () => Effect.never }

const kinds = {
  started: {
    name: "Clerk",
    run: (options: DgenServer.Options = {}) =>
      Effect.asVoid(Clerk.start(behaviours.started, { ...fast, grace: 0, tuid, ...options })).pipe(
        Effect.provide(Clerk.lockedLayer(never))
      ),
    client: Clerk.client({ tuid })
  },
  hosted: {
    name: "HostedClerk",
    run: (options: DgenServer.Options = {}) => {
      const { consume: _, ...host } = { lockTimeout: "1 hour" as const, grace: 0, ...fast, ...options } as any
      return Effect.asVoid(Layer.build(Layer.fresh(
        HostedClerk.hostLayer(behaviours.hosted, host).pipe(Layer.provide(HostedClerk.lockedLayer(never)))
      )))
    },
    client: HostedClerk.client({ tuid }) as unknown as typeof Clerk.client extends (...args: any) => infer R ? R : never
  }
}

const look = <A, E>(effect: Effect.Effect<A, E, Transaction.Transaction>) => Tenant.transact(effect)
const row = (of: Inspect.ServerOptions = {}) => Effect.map(look(Inspect.servers(of)), ({ servers }) => servers[0])
const json = <A>(value: A): A => {
  assert.deepStrictEqual(JSON.parse(JSON.stringify(value)), JSON.parse(JSON.stringify(value)))
  return value
}

const Letters = Jobs.make("letters", {
  data: Schema.Struct({ to: Schema.String, code: Schema.Redacted(Schema.String) })
})

export const inspectSuite = (store: string, backend: Store): void => {
  const test = testsOf(backend, "inspect")
  for (const [kind, { client, name, run }] of Object.entries(kinds)) {
    describe(`${store}: looking at a ${kind} server`, () => {
      test(
        "shows it in lists and closely, with what is redacted hidden whatever is asked for",
        Effect.gen(function*() {
          yield* run()
          const clerk = yield* client
          yield* clerk.cast("Write", { text: "a", pin: Redacted.make("1234") })
          yield* until(clerk.call("Read"), (lines) => lines.length === 1)
          const listed = yield* row()
          assert.deepInclude(json(listed), {
            tuid: { text, elements: ["clerk", 7] },
            server: name,
            hosted: kind === "hosted",
            hasState: true,
            queueLength: 0,
            lock: undefined,
            deadLetters: 0,
            stuck: [],
            problems: []
          })
          for (const values of [false, true]) {
            const { definition, state } = yield* look(Inspect.server(tuid, { values }))
            assert.deepInclude(json(state), {
              _tag: "Shown",
              value: { lines: ["a"], pins: { a: "<redacted>" } },
              isCut: false
            })
            assert.deepInclude(definition, { name, hosted: kind === "hosted" })
            assert.deepStrictEqual(definition?.messages.map(({ kind, tag }) => `${kind} ${tag}`), [
              "cast Write",
              "call Read",
              "cast Bare",
              "cast Fail",
              "cast Work"
            ])
          }
          assert.deepStrictEqual((yield* look(Inspect.servers({ server: name }))).servers, [listed!])
          assert.deepStrictEqual((yield* look(Inspect.servers({ prefix: ["clerk"] }))).servers, [listed!])
          for (const none of [{ server: "Other" }, { prefix: ["clerk", 8] }, { stuck: true }]) {
            assert.deepStrictEqual((yield* look(Inspect.servers(none))).servers, [])
          }
          const stats = yield* look(Inspect.stats())
          assert.deepInclude(stats.definitions.find((one) => one.name === name), {
            servers: { count: 1, isAtLeast: false },
            hosts: kind === "hosted" ? 1 : 0
          })
        })
      )
      test(
        "hides values where no record of the definition is, unless they are asked for, and wakes nobody",
        Effect.gen(function*() {
          yield* Effect.scoped(run())
          const clerk = yield* client
          yield* clerk.cast("Write", { text: "a" })
          yield* Effect.scoped(Effect.andThen(run(), until(clerk.queueLength, (length) => length === 0)))
          yield* clerk.cast("Write", { text: "b" })
          const { prefix } = yield* Tenant.Tenant
          yield* overwrite([{ op: "clear", key: recordKey(prefix, name) }])
          assert.strictEqual((yield* look(Inspect.server(tuid))).state?._tag, "Hidden")
          const [hidden] = (yield* look(Inspect.queue(tuid))).messages
          assert.strictEqual(hidden?.payload._tag, "Hidden")
          assert.strictEqual(hidden?.tag, "Write")
          const [shown] = (yield* look(Inspect.queue(tuid, { values: true }))).messages
          assert.deepInclude(shown?.payload, { _tag: "Shown", value: { text: "b" } })
          const before = yield* scan(tuid)
          const refused = yield* Effect.flip(look(Inspect.cast(tuid, "Bare")))
          assert.strictEqual(refused._tag, "DefinitionUnknown")
          assert.include(String(refused.message), "start one, and try again")
          assert.deepStrictEqual(yield* scan(tuid), before)
          // who starts or hosts it writes the record anew
          yield* Effect.scoped(inside(yield* elsewhere)(run()))
          assert.strictEqual((yield* look(Inspect.server(tuid))).state?._tag, "Shown")
        })
      )
      test(
        "pages through what waits, and shows each message once",
        Effect.gen(function*() {
          yield* Effect.scoped(run())
          const clerk = yield* client
          const texts = Array.from({ length: 25 }, (_, i) => `${i}`.padEnd(i === 7 ? 250_000 : 1))
          yield* clerk.castAll(texts.map((text) => ["Write", { text }] as const))
          const found: Array<Inspect.MessageRow> = []
          let after: string | undefined
          do {
            const page: Inspect.QueuePage = yield* look(Inspect.queue(tuid, { limit: 4, after }))
            assert.isAtMost(page.messages.length, 4)
            found.push(...page.messages)
            after = page.next
          } while (after !== undefined)
          assert.strictEqual(found.length, 25)
          assert.strictEqual(new Set(found.map(({ id }) => id)).size, 25)
          const long = found[7]!.payload
          assert.isTrue(long._tag === "Shown" && long.isCut && long.bytes > 250_000)
          assert.isBelow(JSON.stringify(long).length, 25_000)
          const listed = yield* row({ olderThan: 0 })
          assert.deepInclude(listed, { queueLength: 25, stuck: ["oldQueue"] })
          assert.isAbove(listed!.oldestAt!, 0)
        })
      )
      test(
        "shows dead letters, puts them back and deletes them",
        Effect.gen(function*() {
          mended.is = false
          yield* Effect.gen(function*() {
            yield* run({ deadLetterThreshold: 1 })
            const clerk = yield* client
            yield* clerk.castAll(
              ["a", "b", "c", "d"].map((text) => ["Fail", { text, pin: Redacted.make("secret") }] as const)
            )
            yield* until(row(), (found) => found?.deadLetters === 4 && found.queueLength === 0)
            assert.deepStrictEqual((yield* row({ stuck: true }))?.stuck, ["deadLetters"])
            const first = yield* look(Inspect.deadLetters(tuid, { limit: 3 }))
            const rest = yield* look(Inspect.deadLetters(tuid, { limit: 3, after: first.next }))
            const letters = [...first.letters, ...rest.letters]
            assert.strictEqual(rest.next, undefined)
            assert.deepStrictEqual(letters.map(({ attempts, tag }) => `${tag} ${attempts}`), Array(4).fill("Fail 1"))
            assert.deepStrictEqual(
              letters.map(({ payload }) => payload._tag === "Shown" && payload.value),
              ["a", "b", "c", "d"].map((text) => ({ text, pin: "<redacted>" }))
            )
            assert.include(letters[0]!.cause, "it fails")
            mended.is = true
            yield* look(Inspect.requeue(tuid, letters[1]!.id))
            yield* until(clerk.call("Read"), (lines) => lines.includes("b"))
            yield* look(Inspect.discard(tuid, letters[0]!.id))
            for (const gone of [letters[0]!.id, letters[1]!.id, "none", "key-00"]) {
              const discarded = yield* Effect.flip(look(Inspect.discard(tuid, gone)))
              const requeued = yield* Effect.flip(look(Inspect.requeue(tuid, gone)))
              assert.deepStrictEqual([discarded._tag, requeued._tag], ["DeadLetterNotFound", "DeadLetterNotFound"])
            }
            assert.strictEqual(yield* Inspect.requeueAll(tuid), 2)
            yield* until(clerk.call("Read"), (lines) => lines.length === 3)
            mended.is = false
            yield* clerk.cast("Fail", { text: "e" })
            yield* until(row(), (found) => found?.deadLetters === 1 && found.queueLength === 0)
            assert.strictEqual(yield* look(Inspect.discardAll(tuid)), 1)
            assert.strictEqual((yield* row())?.deadLetters, 0)
          })
        })
      )
      test(
        "puts dead letters back once that die again",
        Effect.gen(function*() {
          mended.is = false
          yield* run({ deadLetterThreshold: 1 })
          const clerk = yield* client
          yield* clerk.castAll(Array.from({ length: 120 }, () => ["Fail", { text: "a" }] as const))
          yield* until(row(), (found) => found?.deadLetters === 120)
          assert.strictEqual(yield* Inspect.requeueAll(tuid), 120)
          yield* until(row(), (found) => found?.deadLetters === 120 && found.queueLength === 0)
        })
      )
      test(
        "shows a lock with its message, breaks it, and the message runs again",
        Effect.gen(function*() {
          yield* run()
          const clerk = yield* client
          yield* clerk.cast("Work", { text: "w", pin: Redacted.make("1") })
          yield* clerk.cast("Write", { text: "behind" })
          yield* until(row(), (found) => found?.lock !== undefined)
          const detail = yield* look(Inspect.server(tuid))
          assert.deepInclude(detail.lock, { tag: "Work", kind: "cast", attempts: 0 })
          assert.deepInclude(detail.locked?.payload, { value: { text: "w", pin: "<redacted>" } })
          assert.strictEqual(detail.queueLength, 2)
          assert.include((yield* row({ olderThan: 0 }))!.stuck, "longLock")
          assert.isTrue(yield* look(Inspect.unlock(tuid)))
          // it goes to the end of the queue, and is locked again with one more attempt
          yield* until(row(), (found) => found?.lock?.attempts === 1)
          assert.deepStrictEqual(yield* clerk.state.pipe(Effect.map((state) => state?.lines)), ["behind"])
        })
      )
      test(
        "casts, kills, and says what is not there",
        Effect.gen(function*() {
          yield* run()
          const clerk = yield* client
          const other = yield* elsewhere
          if (kind === "started") yield* until(row(), (found) => found !== undefined)
          const from = kind === "hosted" ? { server: name } : {}
          yield* inside(other)(look(Inspect.cast(tuid, "Write", { text: "by hand" }, from)))
          yield* until(clerk.call("Read"), (lines) => lines.includes("by hand"))
          yield* inside(other)(look(Inspect.cast(tuid, "Bare", undefined, { key: "once" })))
          yield* inside(other)(look(Inspect.cast(tuid, "Bare", undefined, { key: "once" })))
          yield* until(row(), (found) => found?.queueLength === 0)
          assert.deepStrictEqual(yield* clerk.call("Read"), ["by hand", "bare"])
          const [key] = (yield* look(Inspect.keys(tuid))).keys
          assert.deepInclude(key, { key: "once", state: "done", tag: "Bare" })
          const refusals: ReadonlyArray<readonly [string, unknown, string]> = [
            ["Read", undefined, "it is a call"],
            ["None", undefined, "there is no such message"],
            ["Bare", 1, "takes no payload"],
            ["Write", undefined, "takes a payload"],
            ["Write", { text: "\ud800" }, "cannot be kept"],
            ["Write", "x".repeat(6_000_000), "at most"]
          ]
          for (const [tag, payload, problem] of refusals) {
            const error = yield* Effect.flip(look(Inspect.cast(tuid, tag, payload)))
            assert.strictEqual(error._tag, "InvalidMessage")
            assert.include(error.message, problem)
          }
          assert.isFalse(yield* look(Inspect.unlock(tuid)))
          yield* inside(other)(Inspect.kill(tuid))
          assert.deepStrictEqual(yield* scan(tuid), [])
          for (const none of [look(Inspect.server(tuid)), look(Inspect.unlock(tuid)), Inspect.kill(tuid)]) {
            assert.strictEqual((yield* Effect.flip(none as Effect.Effect<unknown, any>))._tag, "ServerNotFound")
          }
          assert.deepStrictEqual((yield* look(Inspect.servers({ server: name }))).servers, [])
        })
      )
      test(
        "shows timers, and takes them away",
        Effect.gen(function*() {
          yield* run()
          const clerk = yield* client
          yield* clerk.castLater("Write", { text: "t", pin: Redacted.make("1") }, { after: "1 hour", id: "one" })
          yield* clerk.castLater("Bare", undefined, { every: "2 hours", id: "two" })
          const first = yield* look(Inspect.timers(tuid, { limit: 1 }))
          const second = yield* look(Inspect.timers(tuid, { limit: 1, after: first.next }))
          assert.deepInclude(json(first.timers[0]), { id: "one", tag: "Write", recurrence: undefined })
          assert.deepInclude(first.timers[0]?.payload, { value: { text: "t", pin: "<redacted>" } })
          assert.deepInclude(second.timers[0], { id: "two", tag: "Bare", recurrence: { everyMillis: 7_200_000 } })
          assert.strictEqual(second.next, undefined)
          assert.strictEqual((yield* row())?.timers, 2)
          assert.isTrue(yield* look(Inspect.cancelTimer(tuid, "one")))
          assert.isFalse(yield* look(Inspect.cancelTimer(tuid, "one")))
          assert.strictEqual((yield* clerk.timers).length, 1)
        })
      )
    })
  }

  describe(`${store}: looking at many servers`, () => {
    test(
      "pages through all, says how many it looked at, and misses and repeats none",
      Effect.gen(function*() {
        const clerks = Array.from({ length: 60 }, (_, i) => ["many", i])
        yield* Effect.forEach(
          clerks,
          (tuid) =>
            Effect.scoped(Clerk.start(behaviours.started, { tuid, consume: false })).pipe(
              Effect.provide(Clerk.lockedLayer(never))
            ),
          { concurrency: 8 }
        )
        for (
          const  of of[{}, { server: "Clerk" }, { prefix: ["many"] }] satisfies ReadonlyArray<Inspect.ServerOptions>
        ) {
          let looked = 0
          const found: Array<string> = []
          let after: string | undefined
          do {
            const page: Inspect.ServerPage = yield* look(Inspect.servers({ ...of, limit: 7, after }))
            assert.isAtMost(page.servers.length, 7)
            looked += page.looked
            found.push(...page.servers.map(({ tuid }) => tuid.text))
            after = page.next
          } while (after !== undefined)
          assert.deepStrictEqual(found, clerks.map((tuid) => Inspect.textOfTuid(tuid)))
          assert.strictEqual(looked, 60)
        }
        const all = yield* Stream.runCollect(Inspect.allServers({ limit: 9 }))
        assert.strictEqual(all.length, 60)
        const none = yield* look(Inspect.servers({ stuck: true }))
        assert.deepStrictEqual([none.servers.length, none.looked, none.next], [0, 60, undefined])
      })
    )
    test(
      "refuses what is no option, tuid or cursor, and changes nothing",
      Effect.gen(function*() {
        const refused = (effect: Effect.Effect<unknown, any, any>) =>
          Effect.map(Effect.flip(look(effect as any)), (error: any) => `${error._tag} ${error.option}`)
        const bad: ReadonlyArray<readonly [Effect.Effect<unknown, any, any>, string]> = [
          [Inspect.servers({ limit: 0 }), "limit"],
          [Inspect.servers({ limit: 1_001 }), "limit"],
          [Inspect.servers({ after: "xyz" }), "after"],
          [Inspect.servers({ after: 7 as any }), "after"],
          [Inspect.servers({ server: "" }), "server"],
          [Inspect.servers({ prefix: "clerk" as any }), "prefix"],
          [Inspect.servers({ olderThan: "soon" as any }), "olderThan"],
          [Inspect.servers(7 as any), "options"],
          [Inspect.server([]), "tuid"],
          [Inspect.server("clerk" as any), "tuid"],
          [Inspect.server(["x".repeat(10_000)]), "tuid"],
          [Inspect.queue(tuid, { limit: 201 }), "limit"],
          [Inspect.queue(tuid, { after: "'; DROP TABLE servers; --" }), "after"],
          [Inspect.deadLetters(tuid, { after: "$(reboot)" }), "after"],
          [Inspect.cast(tuid, "Bare", undefined, { key: "" }), "key"],
          [Inspect.cancelTimer(tuid, ""), "id"],
          [Inspect.jobs(undefined as any), "type"],
          [Inspect.jobs("letters", { state: "lost" as any }), "state"],
          [Inspect.jobs("x".repeat(2_000)), "type"]
        ]
        for (const [effect, option] of bad) assert.strictEqual(yield* refused(effect), `InvalidOption ${option}`)
        const { prefix } = yield* Tenant.Tenant
        const processes = Buffer.from(processesPrefix(prefix))
        // what a process keeps for its transactions on a server is no change
        const rows = (yield* rowsUnder(prefix)).filter(({ key }) =>
          !processes.equals(key.subarray(0, processes.length))
        )
        assert.deepStrictEqual(rows, [])
      })
    )
    test(
      "shows damage as damage",
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.provide(
          Clerk.start(behaviours.started, { tuid, consume: false }),
          Clerk.lockedLayer(never)
        ))
        const clerk = yield* Clerk.client({ tuid })
        yield* clerk.castAll([["Bare"], ["Bare"]])
        const { prefix } = yield* Tenant.Tenant
        const server = Tuple.pack(["s", tuid], Tuple.pack([1], prefix))
        const at = (name: string, ...rest: Tuple.Tuple) => Tuple.pack([name, ...rest], server)
        const junk = Uint8Array.from({ length: 40 }, (_, i) => (i * 37) % 256)
        const rows = yield* rowsUnder(at("item"))
        yield* overwrite([
          { op: "set", key: at("head"), value: junk },
          { op: "set", key: rows[0]!.key, value: junk },
          { op: "set", key: at("dead", 7), value: junk },
          { op: "set", key: at("timer", 7), value: junk },
          { op: "set", key: at("key", 7), value: junk },
          { op: "set", key: at("name"), value: Buffer.from("\u001b[31mred\u202e") }
        ])
        const found = yield* row()
        assert.include(found!.stuck, "damaged")
        assert.strictEqual(found?.server, "\\u001b[31mred\\u202e")
        assert.isAtLeast(found!.problems.length, 2)
        const detail = yield* look(Inspect.server(tuid, { values: true }))
        assert.strictEqual(detail.state, undefined)
        const { messages } = yield* look(Inspect.queue(tuid, { values: true }))
        assert.deepStrictEqual(messages.map(({ payload }) => payload._tag), ["Unreadable", "Shown"])
        assert.strictEqual((yield* look(Inspect.deadLetters(tuid))).letters[0]?.payload._tag, "Unreadable")
        assert.isDefined((yield* look(Inspect.timers(tuid))).timers[0]?.problem)
        assert.strictEqual((yield* look(Inspect.keys(tuid))).keys[0]?.state, "damaged")
        const { letters } = yield* look(Inspect.deadLetters(tuid))
        yield* look(Inspect.discard(tuid, letters[0]!.id))
        yield* Inspect.kill(tuid)
        assert.deepStrictEqual(yield* scan(tuid), [])
      })
    )
  })

  describe(`${store}: looking at jobs`, () => {
    const add = (id: Tuple.Element, at?: number) =>
      look(Letters.add(id, { to: `${String(id)}@b`, code: Redacted.make("top") }, { scheduledAt: at }))
    const fail = Letters.workerLayer(() => Effect.die(new Error("no stamp")), { maxAttempts: 1 })
    test(
      "shows types and jobs, with what is redacted hidden",
      Effect.gen(function*() {
        yield* add("a")
        yield* add(["b", 1], Date.parse("2100-01-01"))
        const hidden = yield* look(Inspect.job("letters", "a"))
        assert.strictEqual(hidden.data._tag, "Hidden")
        yield* Effect.scoped(Effect.andThen(
          Layer.build(fail),
          until(look(Inspect.jobs("letters", { state: "dead" })), ({ jobs }) => jobs.length === 1)
        ))
        const [type] = (yield* look(Inspect.jobTypes())).types
        assert.deepInclude(json(type), {
          type: { text: "\"letters\"", json: "letters" },
          counts: { pending: 1, running: 0, finished: 0, dead: 1 },
          isPaused: false,
          hasRecord: true
        })
        const first = yield* look(Inspect.jobs("letters", { limit: 1, values: true }))
        const second = yield* look(Inspect.jobs("letters", { limit: 1, after: first.next, values: true }))
        assert.strictEqual(second.next, undefined)
        const [a, b] = [...first.jobs, ...second.jobs]
        assert.deepInclude(json(a), { state: "dead", attempts: 1, id: { text: "\"a\"", json: "a" } })
        assert.deepInclude(a!.data, { value: { to: "a@b", code: "<redacted>" } })
        assert.include(a!.error, "no stamp")
        assert.deepInclude(b, { state: "pending", id: { text: "[\"b\",1]", json: ["b", 1] } })
        assert.deepStrictEqual(yield* look(Inspect.job("letters", ["b", 1], { values: true })), b)
        assert.strictEqual((yield* Effect.flip(look(Inspect.job("letters", "c"))))._tag, "JobNotFound")
        assert.strictEqual((yield* Stream.runCollect(Inspect.allJobs("letters", { limit: 1 }))).length, 2)
      })
    )
    test(
      "runs them again, removes one and many, pauses their type",
      Effect.gen(function*() {
        yield* Effect.forEach(["a", "b", "c"], (id) => add(id))
        yield* Effect.scoped(Effect.andThen(
          Layer.build(fail),
          until(look(Inspect.jobs("letters", { state: "dead" })), ({ jobs }) => jobs.length === 3)
        ))
        yield* look(Inspect.pause("letters"))
        assert.strictEqual((yield* look(Inspect.jobTypes())).types[0]?.isPaused, true)
        assert.strictEqual(yield* look(Inspect.requeueJob("letters", "a")), "pending")
        const told: Array<number> = []
        assert.strictEqual(yield* Inspect.requeueJobs("letters", { onProgress: (count) => void told.push(count) }), 2)
        assert.deepStrictEqual(told, [2])
        const sent = yield* Deferred.make<string>()
        yield* Layer.build(Letters.workerLayer((job) => Effect.asVoid(Deferred.succeed(sent, String(job.id)))))
        yield* look(Inspect.resume("letters"))
        assert.strictEqual(yield* Deferred.await(sent), "a")
        yield* until(look(Inspect.jobTypes()), ({ types }) => types[0]?.counts.finished === 3)
        yield* look(Inspect.removeJob("letters", "a"))
        assert.strictEqual((yield* Effect.flip(look(Inspect.removeJob("letters", "a"))))._tag, "JobNotFound")
        assert.strictEqual(yield* Inspect.removeJobs("letters", { state: "finished" }), 2)
        assert.deepStrictEqual((yield* look(Inspect.jobs("letters"))).jobs, [])
      })
    )
    test(
      "makes room for who waits when it removes a running job of a limited type",
      Effect.gen(function*() {
        const One = Jobs.make("one", { data: Schema.Int, maxRunning: 1 })
        yield* look(One.add("a", 1))
        const began = yield* Deferred.make<void>()
        const second = yield* Deferred.make<void>()
        yield* Layer.build(One.workerLayer(
          (job) =>
            job.data === 1
              ? Effect.andThen(Deferred.succeed(began, undefined), Effect.never)
              : Effect.asVoid(Deferred.succeed(second, undefined)),
          { concurrency: 2 }
        ))
        yield* Deferred.await(began)
        yield* look(One.add("b", 2))
        const other = yield* elsewhere
        yield* inside(other)(look(Inspect.removeJob("one", "a")))
        yield* Deferred.await(second)
      })
    )
    test(
      "shows schedules, and resets them",
      Effect.gen(function*() {
        yield* Layer.build(Letters.cronLayer("nightly", {
          cron: "0 3 * * *",
          timeZone: "Europe/Berlin",
          data: () => ({ to: "all", code: Redacted.make("top") })
        }))
        const [schedule] = yield* until(look(Inspect.schedules("letters")), (found) => found.length === 1)
        assert.deepInclude(json(schedule), { name: "nightly", cron: "0 3 * * *", timeZone: "Europe/Berlin" })
        yield* look(Inspect.pauseSchedule("letters", "nightly"))
        assert.isTrue((yield* look(Inspect.schedules("letters")))[0]?.isPaused)
        yield* look(Inspect.resumeSchedule("letters", "nightly"))
        yield* look(Inspect.resetSchedule("letters", "nightly"))
        const error = yield* Effect.flip(look(Inspect.resetSchedule("letters", "none")))
        assert.strictEqual(error._tag, "ScheduleNotFound")
      })
    )
  })
}

/** Durable actions: kept until they have run, in order, at least once, whatever dies. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Exit, Scope } from "effect"
import { type DgenServer, Inspect, Tenant } from "effect-dgen"
import { elsewhere, inside, keptLogs, scan, type Store, testsOf, until } from "../server/support.ts"
import { countsOf, kinds, nameOf, newDesk, signOf, tuid, workerOf } from "./support.ts"

const settled = (own: typeof kinds.started.own) =>
  until(countsOf(own), ({ pending, running }) => pending + running === 0)

const itemsOf = ({ runs }: ReturnType<typeof newDesk>) => runs.map(({ item }) => item)

export const durableSuite = (name: string, backend: Store) => {
  for (const kind of ["started", "hosted"] as const) {
    const { client, kill, own, run } = kinds[kind]
    const live = testsOf(backend, `durable-${kind}`)

    describe(`${name}: durable actions, ${kind}`, () => {
      live(
        "run after the commit that asks for them, in its order, each with an id of its own",
        Effect.gen(function*() {
          const desk = newDesk()
          const clerk = yield* run(desk)
          assert.strictEqual(yield* clerk.call("Do", { item: "a+b+c" }), 1)
          yield* clerk.cast("DoCast", { item: "d" })
          yield* clerk.info("DoInfo", { item: "e" })
          yield* clerk.call("Work", { item: "f" })
          yield* clerk.priorityCall("Do", { item: "g" })
          yield* until(Effect.sync(() => desk.runs.length), (length) => length === 7)
          yield* settled(own)
          // what goes past the queue has its place in the order of commits
          assert.deepStrictEqual(itemsOf(desk).slice(0, 3), ["a", "b", "c"])
          assert.deepStrictEqual(itemsOf(desk).toSorted(), ["a", "b", "c", "d", "e", "f", "g"])
          assert.strictEqual(new Set(desk.runs.map(({ id }) => id)).size, 7)
          for (const { attempt, tuid: of } of desk.runs) {
            assert.strictEqual(attempt, 1)
            assert.deepStrictEqual(of, tuid)
          }
          assert.deepStrictEqual(yield* countsOf(own), { pending: 0, running: 0, finished: 7, dead: 0 })
        })
      )
      live(
        "of one server run one after the other, those of others beside them",
        Effect.gen(function*() {
          const gates = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
          const desk = newDesk(({ item }) => item === "a" ? Deferred.await(gates[0]!) : Effect.void)
          const clerk = yield* run(desk)
          yield* clerk.call("Do", { item: "a+b" })
          yield* clerk.call("Do", { item: "c" })
          yield* until(Effect.sync(() => desk.runs.length), (length) => length === 1)
          if (kind === "hosted") {
            yield* (yield* client(["clerk", 2])).call("Do", { item: "other" })
            yield* until(Effect.sync(() => itemsOf(desk).includes("other")), (is) => is)
          }
          assert.isFalse(itemsOf(desk).includes("b"))
          assert.strictEqual((yield* countsOf(own)).pending, 2)
          yield* Deferred.succeed(gates[0]!, undefined)
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(desk).filter((item) => item !== "other"), ["a", "b", "c"])
        })
      )
      live(
        "that fail are tried again in their place, with the same id, and are dead after their last attempt",
        Effect.gen(function*() {
          const desk = newDesk(({ attempt, item }) =>
            item === "bad" || item === "slow" && attempt < 3 ? Effect.fail(new Error(`no ${item}`)) : Effect.void
          )
          const clerk = yield* run(desk)
          yield* clerk.call("Do", { item: "slow+bad+good" })
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(desk), ["slow", "slow", "slow", "bad", "bad", "bad", "good"])
          assert.deepStrictEqual(desk.runs.slice(0, 3).map(({ attempt }) => attempt), [1, 2, 3])
          assert.strictEqual(new Set(desk.runs.slice(0, 3).map(({ id }) => id)).size, 1)
          const { actions } = yield* Tenant.transact(own.durable.list({ state: "dead" }))
          assert.strictEqual(actions.length, 1)
          const [dead] = actions
          assert.strictEqual(dead!.id, desk.runs[3]!.id)
          assert.deepStrictEqual(dead!.tuid, tuid)
          assert.strictEqual(dead!.tag, "Send")
          assert.strictEqual(dead!.attempts, 3)
          assert.include(dead!.error, "no bad")
        })
      )
      live(
        "that are dead go to the end when they are put back, and can be purged",
        Effect.gen(function*() {
          let isMended = false
          const gate = yield* Deferred.make<void>()
          const desk = newDesk(({ item }) =>
            item === "bad" && !isMended
              ? Effect.die(new Error("no"))
              : item === "wait"
              ? Deferred.await(gate)
              : Effect.void
          )
          const clerk = yield* run(desk)
          yield* clerk.call("Do", { item: "bad+bad" })
          yield* settled(own)
          const ids = (yield* Tenant.transact(own.durable.list({ state: "dead" }))).actions.map(({ id }) => id)
          assert.strictEqual(ids.length, 2)
          yield* clerk.call("Do", { item: "wait+last" })
          isMended = true
          desk.runs.length = 0
          assert.isTrue(yield* Tenant.transact(own.durable.requeueDead(ids[0]!)))
          assert.isFalse(yield* Tenant.transact(own.durable.requeueDead(ids[0]!)))
          assert.isFalse(yield* Tenant.transact(own.durable.requeueDead("nobody")))
          assert.strictEqual(yield* Tenant.transact(own.durable.purgeDead()), 1)
          yield* Deferred.succeed(gate, undefined)
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(desk).filter((item) => item !== "wait"), ["last", "bad"])
          assert.strictEqual(desk.runs.at(-1)!.id, ids[0])
          assert.strictEqual(desk.runs.at(-1)!.attempt, 1)
          assert.strictEqual((yield* countsOf(own)).dead, 0)
          // put back where nothing waits, it runs at once
          isMended = false
          yield* clerk.call("Do", { item: "bad" })
          yield* settled(own)
          isMended = true
          const [dead] = (yield* Tenant.transact(own.durable.list({ state: "dead" }))).actions
          assert.isTrue(yield* Tenant.transact(own.durable.requeueDead(dead!.id)))
          yield* settled(own)
          assert.strictEqual((yield* countsOf(own)).dead, 0)
        })
      )
      live(
        "are not stopped by halt, nor asked for by what did not commit",
        Effect.gen(function*() {
          const desk = newDesk()
          const clerk = yield* run(desk)
          yield* clerk.call("Do", { item: "halt" })
          yield* Effect.exit(clerk.call("Do", { item: "no" }))
          yield* clerk.cast("DoCast", { item: "poison" })
          yield* until(Effect.sync(() => desk.runs.length), (length) => length === 2)
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(desk), ["halt", "poison"])
          assert.deepStrictEqual(desk.told, [])
        })
      )
      live(
        "survive the end of their server, by its own will or by a kill",
        Effect.gen(function*() {
          const gate = yield* Deferred.make<void>()
          const desk = newDesk(({ item }) => item === "first" ? Deferred.await(gate) : Effect.void)
          const clerk = yield* run(desk)
          yield* clerk.call("Do", { item: "first" })
          yield* clerk.call("End", { item: "bye" })
          if (kind === "hosted") yield* (yield* client(tuid)).call("Do", { item: "again" })
          yield* kill
          assert.deepStrictEqual(yield* scan(tuid), [])
          yield* Deferred.succeed(gate, undefined)
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(desk), kind === "hosted" ? ["first", "bye", "again"] : ["first", "bye"])
        })
      )
      live(
        "whose process is gone run in another one, and a stop of the handle leaves them",
        Effect.gen(function*() {
          const scope = yield* Scope.fork(yield* Effect.scope)
          const begun = yield* Deferred.make<void>()
          const first = newDesk(() => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
          const clerk = yield* Scope.provide(run(first, { grace: 0 }), scope)
          yield* clerk.call("Do", { item: "a+b" })
          yield* Deferred.await(begun)
          yield* Scope.close(scope, Exit.void)
          // handed back, with no attempt counted
          assert.deepStrictEqual(yield* countsOf(own), { pending: 2, running: 0, finished: 0, dead: 0 })
          const second = newDesk()
          yield* inside(yield* elsewhere)(workerOf(own, second))
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(second), ["a", "b"])
          assert.strictEqual(second.runs[0]!.id, first.runs[0]!.id)
          assert.strictEqual(second.runs[0]!.attempt, 1)
        })
      )
      live(
        "run wherever a worker is, and not where nobody consumes",
        Effect.gen(function*() {
          const here = newDesk()
          if (kind === "started") {
            const sender = yield* run(here, { consume: false })
            yield* sender.priorityCall("Do", { item: "a" })
            assert.strictEqual((yield* countsOf(own)).pending, 1)
            const there = newDesk()
            yield* inside(yield* elsewhere)(workerOf(own, there, { concurrency: 1, grace: "1 second" }))
            yield* settled(own)
            assert.deepStrictEqual([itemsOf(here), itemsOf(there)], [[], ["a"]])
          }
        })
      )
      live(
        "that never end hold up their own server alone, and are handed back at the end",
        Effect.gen(function*() {
          const scope = yield* Scope.fork(yield* Effect.scope)
          const desk = newDesk(({ item }) => item === "stuck" ? Effect.never : Effect.void)
          const clerk = yield* Scope.provide(run(desk, { grace: 0 }), scope)
          yield* clerk.call("Do", { item: "stuck+behind" })
          yield* until(Effect.sync(() => desk.runs.length), (length) => length === 1)
          // its lease is renewed again and again
          for (let beats = 0; beats < 3; beats++) {
            const sign = yield* signOf(own, "Send")
            yield* until(signOf(own, "Send"), (next) => next !== sign)
          }
          assert.deepStrictEqual(itemsOf(desk), ["stuck"])
          yield* Scope.close(scope, Exit.void)
          assert.strictEqual((yield* countsOf(own)).pending, 2)
        })
      )
      live(
        "end beside their server: there is one grace period for the whole end",
        Effect.gen(function*() {
          const scope = yield* Scope.fork(yield* Effect.scope)
          const begun = yield* Deferred.make<void>()
          // ends as soon as the server takes nothing more
          const desk = newDesk(() =>
            Effect.andThen(
              Deferred.succeed(begun, undefined),
              until(Effect.exit(clerk.priorityCall("Do", { item: "none" })), Exit.isFailure)
            )
          )
          const clerk: Effect.Success<ReturnType<typeof run>> = yield* Scope.provide(
            run(desk, { grace: "1 minute" }),
            scope
          )
          yield* clerk.call("Do", { item: "a" })
          yield* Deferred.await(begun)
          yield* Scope.close(scope, Exit.void)
          assert.strictEqual((yield* countsOf(own)).finished, 1)
        })
      )
      live(
        "with payloads that do not fit, or are too long, are a crash of their message",
        Effect.gen(function*() {
          const { layer, lines } = keptLogs()
          const desk = newDesk()
          yield* Effect.gen(function*() {
            const clerk = yield* run(desk, { deadLetterThreshold: 1 })
            const wrong = yield* Effect.flip(clerk.call("Wrong", { item: "a" }))
            assert.strictEqual(wrong._tag, "DeadLettered")
            assert.include(String(wrong.message), "does not fit at \"item\"")
            const long = yield* Effect.flip(clerk.call("Long", { chars: 4_100_000 }))
            assert.strictEqual(long._tag, "DeadLettered")
            assert.include(String(long.message), "PayloadTooLarge")
            yield* clerk.call("Long", { chars: 3_900_000 })
            yield* clerk.call("Long", { chars: 250_000 })
            yield* clerk.call("Do", { item: "after" })
            yield* settled(own)
            assert.deepStrictEqual(desk.runs.map(({ item }) => item.length), [3_900_000, 250_000, 5])
          }).pipe(Effect.provide(layer))
          assert.isTrue(lines.some((line) => line.includes("PayloadTooLarge")))
        })
      )
      live(
        "keep redacted parts for their handlers, and show them nowhere",
        Effect.gen(function*() {
          const { layer, lines } = keptLogs()
          const desk = newDesk(({ item }) => item.startsWith("bill fails") ? Effect.fail("no") : Effect.void)
          yield* Effect.gen(function*() {
            const clerk = yield* run(desk)
            yield* clerk.call("Do", { item: "bill fails" })
            yield* until(Effect.sync(() => desk.runs.length), (length) => length > 0)
            assert.strictEqual(desk.runs[0]!.item, "bill fails hush")
            const { actions } = yield* Tenant.transact(own.durable.list())
            assert.strictEqual(actions.length, 1)
            assert.notInclude(JSON.stringify(actions), "hush")
            assert.notInclude(String(actions.map(({ payload }) => payload)), "hush")
          }).pipe(Effect.provide(layer))
          assert.isFalse(lines.some((line) => line.includes("hush")))
        })
      )
      live(
        "are listed page by page, those that wait behind others too",
        Effect.gen(function*() {
          const desk = newDesk(() => Effect.never)
          const scope = yield* Scope.fork(yield* Effect.scope)
          const clerk = yield* Scope.provide(run(desk, { grace: 0 }), scope)
          yield* clerk.call("Do", { item: "a+b+c+d" })
          yield* clerk.call("Do", { item: "bare" })
          yield* until(Effect.sync(() => desk.runs.length), (length) => length === 1)
          const items: Array<unknown> = []
          let after: string | undefined
          do {
            const page: DgenServer.DurablePage<any> = yield* Tenant.transact(own.durable.list({ limit: 2, after }))
            assert.isAtMost(page.actions.length, 2)
            items.push(
              ...page.actions.map(({ payload, state, tag, tuid }) => [tag, state, payload.success?.item, tuid])
            )
            after = page.next
          } while (after !== undefined)
          assert.deepStrictEqual(items, [
            ["Send", "running", "a", tuid],
            ["Send", "pending", "b", tuid],
            ["Send", "pending", "c", tuid],
            ["Send", "pending", "d", tuid],
            ["Bare", "pending", undefined, tuid]
          ])
          const { actions } = yield* Tenant.transact(own.durable.list({ state: "pending" }))
          assert.strictEqual(actions.length, 4)
          yield* Scope.close(scope, Exit.void)
        })
      )
      live(
        "are jobs for tools without the definition: hidden parts stay hidden, and the order is kept",
        Effect.gen(function*() {
          let isMended = false
          const gate = yield* Deferred.make<void>()
          const desk = newDesk(({ item }) =>
            item === "bad" && !isMended ? Effect.fail("no") : item === "wait" ? Deferred.await(gate) : Effect.void
          )
          const clerk = yield* run(desk)
          const typeOf = (tag: string) => ["effect-dgen/durable", nameOf(own), tag]
          yield* clerk.call("Do", { item: "bill me" })
          yield* settled(own)
          const billed = yield* until(
            Tenant.transact(Inspect.jobs(typeOf("Bill"), { values: true })),
            ({ jobs: [job] }) => job?.data._tag === "Shown"
          )
          assert.notInclude(JSON.stringify(billed), "hush")
          yield* clerk.call("Do", { item: "bad" })
          yield* settled(own)
          const [dead] = (yield* Tenant.transact(own.durable.list({ state: "dead" }))).actions
          yield* clerk.call("Do", { item: "wait+gone+last" })
          yield* until(Effect.sync(() => itemsOf(desk).includes("wait")), (is) => is)
          isMended = true
          assert.strictEqual(yield* Tenant.transact(Inspect.requeueJob(typeOf("Send"), dead!.id)), "pending")
          // the one that runs is taken away: the next one goes on
          const running = (yield* Tenant.transact(own.durable.list({ state: "running" }))).actions
          yield* Tenant.transact(Inspect.removeJob(typeOf("Send"), running[0]!.id))
          yield* settled(own)
          assert.deepStrictEqual(itemsOf(desk).slice(-3), ["gone", "last", "bad"])
          assert.deepStrictEqual(yield* countsOf(own), { pending: 0, running: 0, finished: 4, dead: 0 })
        })
      )
      live(
        "refuse what cannot be asked",
        Effect.gen(function*() {
          const refused = (asked: Effect.Effect<unknown, DgenServer.InvalidOption, any>) =>
            Effect.map(
              Effect.flip(Tenant.transact(asked) as Effect.Effect<unknown, DgenServer.InvalidOption, Tenant.Tenant>),
              ({ _tag, option }) => [_tag, option]
            )
          const durable: any = own.durable
          assert.deepStrictEqual(yield* refused(durable.list({ limit: 0 })), ["InvalidOption", "limit"])
          assert.deepStrictEqual(yield* refused(durable.list({ state: "lost" })), ["InvalidOption", "state"])
          assert.deepStrictEqual(yield* refused(durable.list({ after: "\u0000" })), ["InvalidOption", "after"])
          assert.deepStrictEqual(yield* refused(durable.list(7)), ["InvalidOption", "options"])
          assert.deepStrictEqual(yield* refused(durable.requeueDead(7)), ["InvalidOption", "id"])
          assert.deepStrictEqual(yield* refused(durable.requeueDead("\ud800")), ["InvalidOption", "id"])
          assert.deepStrictEqual(yield* refused(durable.purgeDead({ limit: 1.5 })), ["InvalidOption", "limit"])
          assert.deepStrictEqual(yield* refused(durable.purgeDead(null)), ["InvalidOption", "options"])
          const layer = (options: any) => Effect.flip(Effect.scoped(workerOf(own, newDesk(), options)))
          assert.strictEqual((yield* layer({ concurrency: 0 })).option, "concurrency")
          assert.strictEqual((yield* layer({ grace: "soon" })).option, "grace")
          assert.strictEqual((yield* layer(7)).option, "options")
        })
      )
      live(
        "of many servers and many messages at once run once each, in the order of their server",
        Effect.gen(function*() {
          const desk = newDesk()
          const clerks = kind === "hosted" ? 8 : 1
          yield* run(desk)
          const sends = Array.from({ length: clerks }, (_, clerk) =>
            Effect.gen(function*() {
              const sender = yield* client(["clerk", clerk + 1])
              for (let i = 0; i < 20; i++) {
                yield* i % 2 === 0
                  ? sender.cast("DoCast", { item: `${i}` })
                  : sender.call("Do", { item: `${i}` }, { timeout: "1 minute" })
              }
            }))
          yield* Effect.all(sends, { concurrency: "unbounded" })
          yield* until(Effect.sync(() => desk.runs.length), (length) => length >= clerks * 20)
          yield* settled(own)
          for (let clerk = 1; clerk <= clerks; clerk++) {
            const own = desk.runs.filter(({ tuid }) => tuid[1] === clerk).map(({ item }) => Number(item))
            assert.deepStrictEqual(own, Array.from({ length: 20 }, (_, i) => i))
          }
        })
      )
      live(
        "end with the scope that runs them, also where their handler closes it",
        Effect.gen(function*() {
          const scope = yield* Scope.fork(yield* Effect.scope)
          const closed = yield* Deferred.make<void>()
          const desk = newDesk(() =>
            Effect.andThen(Effect.forkDetach(Scope.close(scope, Exit.void)), Deferred.succeed(closed, undefined))
          )
          const clerk = yield* Scope.provide(run(desk), scope)
          yield* Effect.exit(clerk.call("Do", { item: "a" }))
          yield* Deferred.await(closed)
          yield* Scope.close(scope, Exit.void)
          assert.strictEqual((yield* countsOf(own)).running, 0)
        })
      )
    })
  }
}

/** Dead letters: how messages become some, who is told, and what operators do with them (rule R12). */
import { assert, describe } from "@effect/vitest"
import { Context, DateTime, Effect, Layer } from "effect"
import { type DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { grains, Mill, type Run, startMill } from "./mill.ts"
import { elsewhere, failureOf, inside, keptLogs, scan, type Store, testsOf, until, waitingCalls } from "./support.ts"

const queue = Mill.queue()
const peek = (options?: Parameters<typeof DurableQueue.peekDeadLetters>[1]) =>
  Tenant.transact(DurableQueue.peekDeadLetters(queue, options))
const count = Tenant.transact(DurableQueue.deadLetterCount(queue))
const requeue = (id: string) => Tenant.transact(DurableQueue.requeueDeadLetter(queue, id))
const remove = (id: string) => Tenant.transact(DurableQueue.deleteDeadLetter(queue, id))
const logOf = Effect.map(Effect.flatMap(Mill.client(), (client) => client.state), (state) => state?.log ?? [])

const names = (letters: ReadonlyArray<DurableQueue.DeadLetter>) =>
  letters.map(({ payload }) => (payload as { readonly item: string }).item)

/** Makes dead letters of so many messages, and waits until they are. */
const kill = (items: ReadonlyArray<string>, does = "broken") =>
  Effect.scoped(Effect.gen(function*() {
    const server = yield* startMill({ deadLetterThreshold: 1, consumeK: 5 })
    yield* server.castAll(grains(...items.map((item) => [item, does] as const)))
    yield* until(count, (count) => count === items.length)
  }))

/** Where the handler of dead letters writes: a service that only it has. */
class Desk extends Context.Service<Desk, { readonly put: (letter: DgenServer.DeadLetter) => Effect.Effect<void> }>()(
  "Desk"
) {}

const isNotFound = (error: { readonly _tag: string }) => assert.strictEqual(error._tag, "DeadLetterNotFound")

export const deadLettersSuite = (name: string, backend: Store) => {
  const live = testsOf(backend, "dead letters")

  describe(`${name}: dead letters`, () => {
    for (const threshold of [1, 2, 3]) {
      live(
        `are messages that failed ${threshold} times: queued, inline, and of another tenant layer`,
        Effect.gen(function*() {
          const runs: Array<Run> = []
          const logs = keptLogs()
          const server = yield* startMill({ deadLetterThreshold: threshold }, runs).pipe(Effect.provide(logs.layer))
          const here = yield* Mill.client()
          const there = yield* Effect.flatMap(elsewhere, (context) => inside(context)(Mill.client()))
          for (const [item, caller] of [["inline", server], ["queued", here], ["elsewhere", there]] as const) {
            const error: any = yield* Effect.flip(caller.call("Ask", { item, does: "crash" })).pipe(
              Effect.provide(logs.layer)
            )
            assert.deepStrictEqual([error._tag, error.attempts], ["DeadLettered", threshold])
            assert.include(error.cause, `${item} is poison`)
            assert.include(error.message, "Ask")
            assert.deepStrictEqual(
              runs.filter((run) => run.item === item).map(({ attempt }) => attempt),
              Array.from({ length: threshold }, (_, i) => i + 1)
            )
          }
          assert.strictEqual(logs.lines.filter((line) => /^Warn.*Ask.*dead letter/.test(line)).length, 3)
          const letters = yield* peek()
          assert.deepStrictEqual(names(letters), ["inline", "queued", "elsewhere"])
          assert.isTrue(letters.every((letter) => letter.attempts === threshold && letter.tag === "Ask"))
          assert.strictEqual(yield* server.queueLength, 0)
          assert.deepStrictEqual(yield* waitingCalls(["Mill"]), [])
          assert.deepStrictEqual(yield* server.call("Log"), [])
        })
      )
    }
    live(
      "keep payload, attempts, time and cause, whatever is started and stopped",
      Effect.gen(function*() {
        const before = yield* DateTime.now
        yield* kill(["a"])
        const after = yield* DateTime.now
        yield* Effect.scoped(Effect.flatMap(startMill(), (server) => server.call("Log")))
        const [letter] = yield* peek()
        assert.strictEqual(letter!.tag, "Grind")
        assert.deepStrictEqual(letter!.payload, { item: "a", does: "broken" })
        assert.strictEqual(letter!.attempts, 1)
        assert.include(letter!.cause, "the mill is broken")
        assert.isAtLeast(DateTime.toEpochMillis(letter!.at), DateTime.toEpochMillis(before))
        assert.isAtMost(DateTime.toEpochMillis(letter!.at), DateTime.toEpochMillis(after))
      })
    )

    describe("and their handler", () => {
      const told = (letters: Array<DgenServer.DeadLetter>, crash = false) =>
        Mill.deadLetterLayer((letter) =>
          Effect.flatMap(Desk, (desk) =>
            crash && letters.length === 0
              ? Effect.andThen(desk.put(letter), Effect.die(new Error("the desk is full")))
              : desk.put(letter))
        ).pipe(
          Layer.provide(Layer.succeed(Desk, { put: (letter) => Effect.sync(() => void letters.push(letter)) }))
        )

      live(
        "it is given the message, with what a handler knows of it",
        Effect.gen(function*() {
          const letters: Array<DgenServer.DeadLetter> = []
          const server = yield* startMill({ deadLetterThreshold: 2 }).pipe(Effect.provide(told(letters)))
          yield* server.castAll(grains(["a", "crash"], ["b", "crash"]))
          yield* Effect.flip(server.call("Ask", { item: "c", does: "crash" }))
          yield* until(Effect.sync(() => letters.length), (length) => length === 3)
          assert.deepStrictEqual(
            letters.map(({ attempt, attempts, from, kind, payload, tag, tuid }) => ({
              attempt,
              attempts,
              from: from?.tag,
              item: (payload as any).item,
              kind: kind as string,
              tag: tag as string | undefined,
              tuid
            })) as ReadonlyArray<object>,
            [
              ["a", "Grind", "cast", undefined],
              ["b", "Grind", "cast", undefined],
              ["c", "Ask", "call", "Ask"]
            ].map(([item, tag, kind, from]) => ({ attempt: 2, attempts: 2, from, item, kind, tag, tuid: ["Mill"] }))
          )
          assert.include(letters[0]!.cause, "a is poison")
          assert.strictEqual(new Set(letters.map(({ id }) => id)).size, 3)
        })
      )
      live(
        "it is told of what cannot be read, too",
        Effect.gen(function*() {
          const letters: Array<DgenServer.DeadLetter> = []
          yield* startMill({ deadLetterThreshold: 1 }).pipe(Effect.provide(told(letters)))
          yield* Tenant.transact(DurableQueue.pushAll(queue, [Uint8Array.of(0xc1)]))
          yield* until(Effect.sync(() => letters.length), (length) => length === 1)
          assert.strictEqual(letters[0]!.attempts, 1)
          assert.isUndefined(letters[0]!.payload)
        })
      )
      live(
        "a crash of it is logged; the consumer and the letter live on",
        Effect.gen(function*() {
          const letters: Array<DgenServer.DeadLetter> = []
          const logs = keptLogs()
          const server = yield* startMill({ deadLetterThreshold: 1 }).pipe(
            Effect.provide(Layer.merge(told(letters, true), logs.layer))
          )
          yield* server.castAll(grains(["a", "crash"], ["b", "crash"], "c"))
          yield* until(logOf, (log) => log.length === 1)
          yield* until(Effect.sync(() => letters.length), (length) => length === 2)
          assert.strictEqual(logs.count("the desk is full"), 1)
          assert.strictEqual(yield* count, 2)
        })
      )
    })

    describe("for operators", () => {
      live(
        "are listed in pages, oldest first, and counted",
        Effect.gen(function*() {
          const items = Array.from({ length: 25 }, (_, i) => `${i}`)
          yield* kill(items)
          assert.deepStrictEqual(names(yield* peek()), items)
          const pages: Array<ReadonlyArray<string>> = []
          for (let after: string | undefined;;) {
            const page = yield* peek({ limit: 10, after })
            if (page.length === 0) break
            pages.push(names(page))
            after = page.at(-1)!.id
          }
          assert.deepStrictEqual(pages.map((page) => page.length), [10, 10, 5])
          assert.deepStrictEqual(pages.flat(), items)
          assert.strictEqual(yield* count, 25)
        })
      )
      live(
        "refuse limits that are none",
        Effect.gen(function*() {
          for (const limit of [0, -1, 1.5, 1_001, NaN, "5" as any]) {
            const error = yield* Effect.flip(peek({ limit }))
            assert.strictEqual(error.reason._tag, "InvalidArgument")
          }
        })
      )
      live(
        "refuse to be listed after an id that is none; one that is gone is as good as any",
        Effect.gen(function*() {
          yield* kill(["a", "b", "c"])
          for (const after of ["", "nope", 7 as any]) {
            const error = yield* Effect.flip(peek({ after }))
            assert.strictEqual(error.reason._tag, "InvalidArgument")
          }
          const [, b] = yield* peek()
          yield* remove(b!.id)
          assert.deepStrictEqual(names(yield* peek({ after: b!.id })), ["c"])
        })
      )
      live(
        "go back to the tail of the queue with no attempts behind them, and are handled",
        Effect.gen(function*() {
          yield* kill(["a", "b", "c"])
          const [first] = yield* peek()
          let isBroken = true
          const runs: Array<Run> = []
          const sender = yield* startMill({ consume: false })
          yield* sender.castAll(grains("waits"))
          yield* requeue(first!.id)
          assert.strictEqual(yield* sender.queueLength, 2)
          assert.strictEqual(yield* count, 2)
          isBroken = false
          yield* startMill({}, runs, () => isBroken)
          assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 2), ["waits", "a"])
          assert.deepStrictEqual(runs, [{ item: "waits", attempt: 1 }, { item: "a", attempt: 1 }])
          // a server that waits is woken
          const [second] = yield* peek()
          yield* requeue(second!.id)
          assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 3), ["waits", "a", "b"])
          assert.deepStrictEqual(names(yield* peek()), ["c"])
        })
      )
      live(
        "of calls are handled after a requeue although nobody waits any more",
        Effect.gen(function*() {
          let isBroken = true
          const runs: Array<Run> = []
          const server = yield* startMill({ deadLetterThreshold: 2 }, runs, () => isBroken)
          yield* Effect.flip(server.call("Ask", { item: "a", does: "broken" }))
          isBroken = false
          yield* Effect.flatMap(peek(), ([letter]) => requeue(letter!.id))
          assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 1), ["a"])
          assert.deepStrictEqual(runs.map(({ attempt }) => attempt), [1, 2, 1])
          assert.strictEqual(yield* count, 0)
        })
      )
      live(
        "that fail again die again, at the full threshold",
        Effect.gen(function*() {
          const runs: Array<Run> = []
          const server = yield* startMill({ deadLetterThreshold: 2 }, runs)
          yield* server.castAll(grains(["a", "crash"]))
          const [letter] = yield* until(peek(), (letters) => letters.length === 1)
          yield* requeue(letter!.id)
          const [again] = yield* until(peek(), (letters) => letters.length === 1 && letters[0]!.id !== letter!.id)
          assert.strictEqual(again!.attempts, 2)
          assert.deepStrictEqual(runs.map(({ attempt }) => attempt), [1, 2, 1, 2])
        })
      )
      live(
        "are requeued and deleted with their transaction, or not at all",
        Effect.gen(function*() {
          yield* kill(["a", "b"])
          const [a, b] = yield* peek()
          const both = Effect.andThen(
            DurableQueue.requeueDeadLetter(queue, a!.id),
            DurableQueue.deleteDeadLetter(queue, b!.id)
          )
          yield* Effect.flip(Tenant.transact(Effect.andThen(both, Effect.fail("no"))))
          assert.strictEqual(yield* count, 2)
          yield* Tenant.transact(both)
          assert.deepStrictEqual(yield* peek(), [])
          const client = yield* Mill.client()
          assert.strictEqual(yield* client.queueLength, 1)
        })
      )
      live(
        "are deleted and purged",
        Effect.gen(function*() {
          yield* kill(["a", "b", "c"])
          const [a] = yield* peek()
          yield* remove(a!.id)
          assert.deepStrictEqual(names(yield* peek()), ["b", "c"])
          assert.strictEqual(yield* count, 2)
          yield* Tenant.transact(DurableQueue.purgeDeadLetters(queue))
          assert.deepStrictEqual(yield* peek(), [])
          assert.strictEqual(yield* count, 0)
          assert.isFalse((yield* scan(["Mill"])).some(([kind]) => kind === "dead" || kind === "deads"))
          yield* kill(["d"])
          assert.strictEqual(yield* count, 1)
        })
      )
      live(
        "are not found under ids that are none, or no longer",
        Effect.gen(function*() {
          yield* kill(["a"])
          const [a] = yield* peek()
          const other = `${a!.id.slice(0, -1)}f`
          for (
            const id of ["", "nope", other, "f".repeat(24), a!.id.toUpperCase() + "0", 7, undefined, {}] as Array<any>
          ) {
            isNotFound(yield* Effect.flip(requeue(id)))
            isNotFound(yield* Effect.flip(remove(id)))
          }
          isNotFound(
            yield* Effect.flip(
              Tenant.transact(DurableQueue.requeueDeadLetter(Mill.queue({ tuid: ["other"] }), a!.id))
            )
          )
          assert.deepStrictEqual(yield* scan(["other"]), [])
          yield* remove(a!.id)
          isNotFound(yield* Effect.flip(remove(a!.id)))
          isNotFound(yield* Effect.flip(requeue(a!.id)))
          assert.strictEqual(yield* count, 0)
        })
      )
      live(
        "of 3 MB are kept whole, listed, and handled after a requeue",
        Effect.gen(function*() {
          const item = "é".repeat(1_500_000)
          let isBroken = true
          const server = yield* startMill({ deadLetterThreshold: 2 }, [], () => isBroken)
          const call = yield* Effect.forkChild(
            server.call("Ask", { item, does: "broken" }, { timeout: "20 seconds" })
          )
          assert.strictEqual((yield* failureOf(call))._tag, "DeadLettered")
          const [letter] = yield* peek({ limit: 1 })
          assert.isTrue((letter!.payload as any).item === item)
          isBroken = false
          yield* requeue(letter!.id)
          assert.deepStrictEqual(yield* until(logOf, (log) => log.length === 1), [item.slice(0, 20)])
        })
      )
      live(
        "of a queue that is none are refused",
        Effect.gen(function*() {
          const error = yield* Effect.flip(Tenant.transact(DurableQueue.deadLetterCount({} as any)))
          assert.strictEqual(error.reason._tag, "InvalidArgument")
        })
      )
    })
  })
}

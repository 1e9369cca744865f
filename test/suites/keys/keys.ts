/** Messages with a key: one effect and one answer for each, whatever became of the first. Run on every backend. */
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Scope } from "effect"
import { type DgenServer, DurableQueue, Tenant } from "effect-dgen"
import { elsewhere, failureOf, inside, type Store, testsOf, until } from "../server/support.ts"
import { gate, keyRows, kinds, poison, waitsWith } from "./support.ts"

const key = "order-17"
const pay = { item: "pay" }

/** What a call came to, as its caller can tell. */
const endOf = <A, E>(call: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(call), (exit) => Exit.isSuccess(exit) ? exit.value : (Cause.squash(exit.cause) as any)._tag)

/** The name of what a call failed with. */
const tagOf = <A>(call: Fiber.Fiber<A, { readonly _tag: string }>) => Effect.map(failureOf(call), ({ _tag }) => _tag)

export const keysSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "keys")
  for (const [kind, { castTx, client, hosted, kill, queue, run, unlock }] of Object.entries(kinds)) {
    const done = Effect.flatMap(client, (till) => Effect.map(till.state, (state) => state?.done ?? []))
    for (const consumeK of [1, 5]) {
      describe(`${name}: a key of a ${kind} server (consumeK ${consumeK})`, () => {
        const go = (options: DgenServer.Options = {}, locked?: any) => run({ consumeK, ...options }, locked)
        test(
          "takes effect once for any number of senders at once, and all have its answer",
          Effect.gen(function*() {
            yield* go()
            const other = yield* elsewhere
            const here = yield* client
            const there = yield* inside(other)(client)
            const answers = yield* Effect.all(
              Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? here : there).call("Pay", pay, { key })),
              { concurrency: "unbounded" }
            )
            assert.deepStrictEqual([...new Set(answers)], ["pay 1"])
            assert.deepStrictEqual(yield* done, ["pay"])
            assert.deepStrictEqual(yield* here.result(key), { _tag: "Done", exit: Exit.succeed("pay 1") })
            assert.strictEqual(yield* here.call("Pay", pay), "pay 2")
            assert.strictEqual(yield* here.call("Pay", pay, { key: "order-18" }), "pay 3")
          })
        )
        test(
          "has the answer of its first message: a value, an error, a stop, a long text",
          Effect.gen(function*() {
            yield* go()
            const till = yield* client
            for (const item of ["a", "no", "long"]) {
              const first = yield* endOf(till.call("Pay", { item }, { key: item }))
              assert.strictEqual(yield* endOf(till.call("Pay", { item }, { key: item })), first)
              const kept = yield* till.result(item)
              assert.strictEqual(kept._tag === "Done" ? yield* endOf(kept.exit as any) : kept._tag, first)
            }
            assert.deepStrictEqual(yield* done, ["a", "long"])
          })
        )
        test(
          "is done once for casts, whichever way they come, and a timer",
          Effect.gen(function*() {
            const till = yield* client
            yield* till.cast("Note", { item: "a", times: 1 }, { key })
            yield* castTx("a", key)
            yield* till.castAll([["Note", { item: "a", times: 1 }, { key }], ["Bare", undefined, { key: "bare" }]])
            yield* till.castLater("Note", { item: "a", times: 1 }, { after: 0, key })
            yield* till.cast("Bare", undefined, { key: "bare" })
            yield* go()
            yield* till.cast("Bare")
            yield* until(till.queueLength, (length) => length === 0)
            yield* until(done, (items) => items.filter((item) => item === "bare").length === 2)
            yield* until(till.timers, (timers) => timers.length === 0)
            yield* until(till.queueLength, (length) => length === 0)
            assert.deepStrictEqual((yield* done).filter((item) => item !== "bare"), ["a 1"])
            assert.deepStrictEqual(yield* till.result(key), { _tag: "Done", exit: Exit.void })
          })
        )
        test(
          "is compared by message and payload, with defaults filled in",
          Effect.gen(function*() {
            yield* go()
            const till = yield* client
            yield* till.call("Pay", pay, { key })
            const error = yield* Effect.flip(till.call("Pay", { item: "other" }, { key }))
            assert.deepInclude(error, { _tag: "KeyReused", key, tag: "Pay", tuid: "[\"till\",1]" })
            assert.strictEqual(yield* endOf(till.call("Later", pay, { key })), "KeyReused")
            yield* till.cast("Note", { item: "pay", times: 2 }, { key })
            yield* till.cast("Note", { item: "b", times: 1 }, { key: "b" })
            // an older sender does not know of the default
            yield* till.cast("Note", { item: "b" } as any, { key: "b" }).pipe(Effect.ignore)
            yield* until(till.queueLength, (length) => length === 0)
            assert.strictEqual(yield* till.call("Pay", pay, { key }), "pay 1")
            assert.deepStrictEqual(yield* done, ["pay", "b 1"])
          })
        )
        test(
          "waits while its first message is under the lock, and all hear of its end",
          Effect.gen(function*() {
            const { begun, go: goOn, locked, runs } = yield* gate
            yield* go({}, locked)
            const other = yield* inside(yield* elsewhere)(client)
            const till = yield* client
            const first = yield* Effect.forkChild(till.call("Work", pay, { key }))
            yield* begun
            assert.deepStrictEqual(yield* till.result(key), { _tag: "Waiting" })
            const others = yield* Effect.forEach(
              [till, other, till],
              (who) => Effect.forkChild(who.call("Work", pay, { key }))
            )
            yield* goOn()
            for (const call of [first, ...others]) assert.strictEqual(yield* Fiber.join(call), "worked pay")
            assert.deepStrictEqual(runs, ["pay"])
            assert.deepStrictEqual(yield* done, ["lock pay", "worked pay"])
          })
        )
        test(
          "waits while its first message is left open, until replyTo answers, whoever waits then",
          Effect.gen(function*() {
            yield* go()
            const till = yield* client
            const gone = yield* Effect.forkChild(till.call("Later", pay, { key }))
            yield* until(till.result(key), (result) => result._tag === "Waiting")
            yield* Fiber.interrupt(gone)
            const waiting = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(till.call("Later", pay, { key })))
            yield* until(till.queueLength, (length) => length === 0)
            yield* till.call("Answer", { item: "yes" })
            for (const call of waiting) assert.strictEqual(yield* Fiber.join(call), "yes")
            assert.strictEqual(yield* till.call("Later", pay, { key }), "yes")
            assert.strictEqual(yield* till.call("Later", { item: "at once" }, { key: "b" }), "at once")
            assert.strictEqual(yield* till.call("Later", { item: "at once" }, { key: "b" }), "at once")
            assert.deepStrictEqual(yield* done, ["pay", "at once"])
          })
        )
        test(
          "outlives the process that handled it",
          Effect.gen(function*() {
            const scope = yield* Scope.fork(yield* Effect.scope)
            yield* Effect.provideService(go(), Scope.Scope, scope)
            const till = yield* client
            assert.strictEqual(yield* till.call("Pay", pay, { key }), "pay 1")
            yield* Scope.close(scope, Exit.void)
            yield* inside(yield* elsewhere)(go())
            assert.strictEqual(yield* till.call("Pay", pay, { key }), "pay 1")
            assert.deepStrictEqual(yield* done, ["pay"])
          })
        )
        test(
          "is free when its message becomes a dead letter, which keeps it",
          Effect.gen(function*() {
            poison.isMended = false
            yield* go({ deadLetterThreshold: 2 })
            const till = yield* client
            const poisoned = { item: "die" }
            assert.strictEqual(yield* endOf(till.call("Pay", poisoned, { key })), "DeadLettered")
            assert.deepStrictEqual(yield* till.result(key), { _tag: "Unknown" })
            poison.isMended = true
            assert.strictEqual(yield* till.call("Pay", poisoned, { key }), "die 1")
            // the dead one comes back, and its key is used: it is dropped
            const [letter] = yield* Tenant.transact(DurableQueue.peekDeadLetters(queue))
            yield* Tenant.transact(DurableQueue.requeueDeadLetter(queue, letter!.id))
            yield* until(till.queueLength, (length) => length === 0)
            assert.strictEqual(yield* till.call("Pay", poisoned, { key }), "die 1")
            assert.deepStrictEqual(yield* done, ["die"])
          })
        )
        test(
          "of a requeued dead letter is its own, if nobody used it meanwhile",
          Effect.gen(function*() {
            poison.isMended = false
            yield* go({ deadLetterThreshold: 1 })
            const till = yield* client
            assert.strictEqual(yield* endOf(till.call("Pay", { item: "die" }, { key })), "DeadLettered")
            poison.isMended = true
            const [letter] = yield* Tenant.transact(DurableQueue.peekDeadLetters(queue))
            yield* Tenant.transact(DurableQueue.requeueDeadLetter(queue, letter!.id))
            yield* until(till.result(key), (result) => result._tag === "Done")
            assert.strictEqual(yield* till.call("Pay", { item: "die" }, { key }), "die 1")
            assert.deepStrictEqual(yield* done, ["die"])
          })
        )
        for (const threshold of [Infinity, 1]) {
          test(
            `is free when its locked handler died (threshold ${threshold}), and all who wait hear of that`,
            Effect.gen(function*() {
              const { begun, go: goOn, locked } = yield* gate
              yield* go({ deadLetterThreshold: threshold }, locked)
              const till = yield* client
              const calls = [yield* Effect.forkChild(till.call("Work", pay, { key }))]
              yield* begun
              calls.push(yield* Effect.forkChild(till.call("Work", pay, { key })))
              // the second one is taken when the lock ends, with consumeK 1 it waits at once
              yield* goOn(Effect.die(new Error("the lock's handler dies")))
              const expected = threshold === 1 ? "DeadLettered" : "HandlerCrashed"
              for (const call of calls) assert.strictEqual(yield* tagOf(call), expected)
              assert.notStrictEqual((yield* till.result(key))._tag, "Waiting")
            })
          )
        }
        test(
          "survives a lock that an operator breaks: its message is handled again, once",
          Effect.gen(function*() {
            const { begun, go: goOn, locked, runs } = yield* gate
            yield* go({ deadLetterThreshold: 5 }, locked)
            const till = yield* client
            const other = yield* inside(yield* elsewhere)(client)
            const call = yield* Effect.forkChild(till.call("Work", pay, { key }))
            yield* begun
            const others = yield* Effect.forEach(
              [till, other, till],
              (who) => Effect.forkChild(who.call("Work", pay, { key }))
            )
            yield* until(till.queueLength, (length) => length === 4)
            // the others are taken before the first one, which is put back behind them
            yield* Tenant.transact(unlock)
            yield* goOn()
            for (const each of [call, ...others]) assert.strictEqual(yield* Fiber.join(each), "worked pay")
            assert.strictEqual(yield* till.call("Work", pay, { key }), "worked pay")
            assert.strictEqual(runs.length, 2)
          })
        )
        if (hosted) {
          test(
            "outlives the end of its server, and is free where it was open",
            Effect.gen(function*() {
              yield* go()
              const till = yield* client
              yield* till.call("Pay", pay, { key })
              const open = yield* Effect.forkChild(till.call("Later", pay, { key: "open" }))
              yield* until(till.result("open"), (result) => result._tag === "Waiting")
              const other = yield* waitsWith("open")
              const waits = yield* Effect.forkChild(
                (yield* inside(other.context)(client)).call("Later", pay, { key: "open" })
              )
              yield* other.waiting
              assert.strictEqual(yield* till.call("End", { item: "bye" }, { key: "end" }), "bye")
              for (const call of [open, waits]) assert.strictEqual(yield* tagOf(call), "ServerKilled")
              assert.strictEqual(yield* till.call("Pay", pay, { key }), "pay 1")
              assert.strictEqual(yield* till.call("End", { item: "bye" }, { key: "end" }), "bye")
              assert.isUndefined(yield* till.state)
              assert.deepStrictEqual(yield* till.result("open"), { _tag: "Unknown" })
            })
          )
        }
        test(
          "has its place among maxKeys: a call with one too many fails, a cast becomes a dead letter",
          Effect.gen(function*() {
            yield* go()
            const till = yield* client
            for (const i of [1, 2, 3]) yield* till.call("Pay", pay, { key: `${i}` })
            const error = yield* Effect.flip(till.call("Pay", pay, { key: "4" }))
            assert.deepInclude(error, { _tag: "TooManyKeys", limit: 3, tag: "Pay" })
            yield* till.cast("Note", { item: "a", times: 1 }, { key: "4" })
            yield* till.cast("Note", { item: "b", times: 1 })
            yield* until(till.queueLength, (length) => length === 0)
            yield* until(done, (items) => items.length === 4)
            const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(queue))
            assert.deepStrictEqual(letters.map(({ attempts }) => attempts), [0])
            assert.include(letters[0]!.cause, "3 keys already")
            assert.strictEqual(yield* till.call("Pay", pay, { key: "1" }), "pay 1")
          })
        )
      })
    }
    describe(`${name}: keys of a ${kind} server`, () => {
      test(
        "are texts of 1 to 256 bytes",
        Effect.gen(function*() {
          const till = yield* client
          for (const wrong of ["", "x".repeat(257), "é".repeat(129), 7 as any, "\ud800", null as any]) {
            for (
              const send of [
                till.call("Pay", pay, { key: wrong }),
                till.cast("Note", { item: "a", times: 1 }, { key: wrong }),
                till.castAll([["Note", { item: "a", times: 1 }, { key: wrong }]]),
                till.castLater("Note", { item: "a", times: 1 }, { after: 0, key: wrong }),
                castTx("a", wrong),
                till.result(wrong)
              ]
            ) {
              const error = yield* Effect.flip(send as Effect.Effect<unknown, any, any>)
              assert.deepInclude(error, { _tag: "InvalidOption", option: "key" })
            }
          }
          assert.deepStrictEqual(yield* till.result("x".repeat(256)), { _tag: "Unknown" })
          assert.strictEqual(yield* till.queueLength, 0)
        })
      )
      test(
        "go with a kill, and those who wait with one hear of it",
        Effect.gen(function*() {
          yield* run()
          const till = yield* client
          yield* till.call("Pay", pay, { key })
          const open = yield* Effect.forkChild(till.call("Later", pay, { key: "open" }))
          yield* until(till.result("open"), (result) => result._tag === "Waiting")
          const other = yield* waitsWith("open")
          const waits = yield* Effect.forkChild(
            (yield* inside(other.context)(client)).call("Later", pay, { key: "open" })
          )
          yield* other.waiting
          yield* kill
          for (const call of [open, waits]) assert.strictEqual(yield* tagOf(call), "ServerKilled")
          assert.deepStrictEqual(yield* keyRows, [0, 0, 0, 0, 0])
        })
      )
    })
  }
}

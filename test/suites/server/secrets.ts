/** Payloads with redacted parts: what they hide is handled, and shown nowhere. */
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Logger, Redacted, Schema } from "effect"
import { DgenServer, DurableQueue, Tenant } from "effect-dgen"
import * as util from "node:util"
import { fast, type Store, testsOf, until } from "./support.ts"

const SECRET = "4111-1111-1111"

class Till extends DgenServer.Service<Till>()("Till", {
  state: Schema.Int,
  messages: {
    Pay: DgenServer.call({
      payload: { card: Schema.Redacted(Schema.String), name: Schema.String },
      success: Schema.Int
    }),
    Put: DgenServer.cast({ payload: { card: Schema.Redacted(Schema.String.check(Schema.isMaxLength(5))) } })
  }
}) {}

const till = (isBroken: () => boolean) =>
  Till.behaviour({
    init: Effect.succeed(0),
    handlers: {
      Pay: ({ card }, n) =>
        isBroken() ? Effect.die({ failed: "to pay", with: card }) : DgenServer.reply(Redacted.value(card).length, n),
      Put: ({ card }) => Effect.die(new Error(`cannot put ${card}`, { cause: card }))
    }
  })

const printed = (value: unknown) => util.inspect(value, { depth: 20 }) + JSON.stringify(value) + String(value)

export const secretsSuite = (name: string, backend: Store): void => {
  const live = testsOf(backend, "secrets")
  describe(`${name}: what a payload redacts`, () => {
    live(
      "is shown by no dead letter, log line, error or handler, and is there after a requeue",
      Effect.gen(function*() {
        const lines: Array<string> = []
        const letters: Array<DgenServer.DeadLetter> = []
        const log = Logger.layer([
          Logger.make(({ cause, message }) => void lines.push(printed(message) + printed(cause) + Cause.pretty(cause)))
        ])
        let isBroken = true
        const server = yield* Till.start(till(() => isBroken), { ...fast, tuid: ["Till"], deadLetterThreshold: 2 })
          .pipe(
            Effect.provide([log, Till.deadLetterLayer((letter) => Effect.sync(() => void letters.push(letter)))])
          )
        const error = yield* Effect.flip(
          Effect.provide(server.call("Pay", { card: Redacted.make(SECRET), name: "Ada" }), log)
        )
        const peek = Tenant.transact(DurableQueue.peekDeadLetters(Till.queue()))
        const [kept] = yield* peek
        yield* until(Effect.sync(() => letters.length), (length) => length === 1)
        for (const shown of [kept, error, letters[0], ...lines]) assert.notInclude(printed(shown), SECRET)
        assert.include(printed(kept), "Ada")
        assert.strictEqual(Redacted.value((kept!.payload as any).card), SECRET)
        assert.strictEqual(Redacted.value((letters[0]!.payload as any).card), SECRET)
        isBroken = false
        yield* Tenant.transact(DurableQueue.requeueDeadLetter(Till.queue(), kept!.id))
        yield* until(peek, (all) => all.length === 0)
        assert.strictEqual(yield* server.call("Pay", { card: Redacted.make(SECRET), name: "Ada" }), SECRET.length)
      })
    )
    live(
      "is not told by an error about a payload that does not fit",
      Effect.gen(function*() {
        const server = yield* Till.start(till(() => true), { ...fast, tuid: ["Till"] })
        for (
          const payload of [
            { card: SECRET, name: "Ada" },
            { card: Redacted.make({ number: SECRET }), name: "Ada" },
            { card: Redacted.make(SECRET), name: Redacted.make(SECRET) },
            { name: "Ada", number: SECRET }
          ]
        ) {
          const error: any = yield* Effect.flip(server.call("Pay", payload as any))
          assert.strictEqual(error._tag, "InvalidPayload")
          assert.notInclude(printed(error) + error.message, SECRET)
        }
        const long: any = yield* Effect.flip(server.cast("Put", { card: Redacted.make(SECRET) }))
        assert.strictEqual(long._tag, "InvalidPayload")
        assert.notInclude(printed(long) + long.message, SECRET)
      })
    )
  })
}

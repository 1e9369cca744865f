/**
 * How many messages a call is to the server, counted where they are sent.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { DgenServer, PostgresBackend, Tenant } from "effect-dgen"
import { Client } from "pg"
import { afterAll } from "vitest"
import { freshSchema, server } from "./support.ts"

const sent = { reads: 0, commits: 0 }

const { query } = Client.prototype
const counted = function(this: Client, ...args: ReadonlyArray<unknown>): unknown {
  const [first] = args
  const text = typeof first === "string" ? first : (first as { readonly text: string }).text
  if (text.includes(".read(")) sent.reads++
  if (text.includes(".commit(")) sent.commits++
  return Reflect.apply(query, this, args)
}
Client.prototype.query = counted as typeof query
afterAll(() => {
  Client.prototype.query = query
})

class Counter extends DgenServer.Service<Counter>()("PostgresRoundTrips", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: { Add: DgenServer.call({ payload: Schema.Int, success: Schema.Int }) }
}) {}

const counting = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: { Add: (by, { count }) => DgenServer.reply(count + by, { count: count + by }) }
})

const CALLS = 640
const CALLERS = 64

const calls = (count: number, concurrency: number) =>
  Effect.gen(function*() {
    const counter = yield* Counter.start(counting, { tuid: ["counter"] })
    const add = counter.call("Add", 1, { timeout: "60 seconds" })
    // what is made once is there, and the consumer has nothing more to look for
    yield* Effect.forEach([1, 2, 3], () => add, { concurrency: 3 })
    sent.reads = 0
    sent.commits = 0
    const answers = yield* Effect.forEach(Array.from({ length: count }), () => add, { concurrency })
    return { answers: answers.sort((a, b) => a - b), reads: sent.reads, commits: sent.commits }
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.provide(
      Tenant.layer(["round trips"]),
      PostgresBackend.layer({ url: server.url, schema: freshSchema() })
    ))
  )

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 4)

describe("messages to the server", () => {
  it.live("one call after another is one that reads and one that commits", () =>
    Effect.gen(function*() {
      const { answers, commits, reads } = yield* calls(50, 1)
      assert.deepStrictEqual(answers, numbers(50))
      assert.strictEqual(commits, 50)
      // the consumer may look for timers meanwhile
      assert.isAtMost(reads, 60)
    }))

  it.live("calls of many callers share them", () =>
    Effect.gen(function*() {
      const { answers, commits, reads } = yield* calls(CALLS, CALLERS)
      assert.deepStrictEqual(answers, numbers(CALLS))
      assert.isAtMost(commits, CALLS / 8)
      assert.isAtMost(reads, CALLS / 8)
    }))
})

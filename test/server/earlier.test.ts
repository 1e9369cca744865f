/** A store that version 0.1 made: `fixtures/version-0.1.db` has three servers, a dead letter, messages and a job that wait. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { DgenServer, DurableQueue, Jobs, SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import { until } from "../suites/server/support.ts"
import { temporaryFolder } from "../support/temporary.ts"

class Ledger extends DgenServer.Service<Ledger>()("Ledger", {
  state: Schema.Struct({ total: Schema.Int, names: Schema.Record(Schema.String, Schema.Int) }),
  messages: {
    Add: DgenServer.cast({ payload: { name: Schema.String, by: Schema.Int } }),
    Total: DgenServer.call({ success: Schema.Int }),
    Break: DgenServer.cast()
  }
}) {}

const behaviour = Ledger.behaviour({
  init: Effect.succeed({ total: 0, names: {} }),
  handlers: {
    Add: ({ by, name }, state) =>
      DgenServer.noReply({ total: state.total + by, names: { ...state.names, [name]: by } }),
    Total: (_, state) => DgenServer.reply(state.total, state),
    Break: (_, state) => DgenServer.noReply(state)
  }
})

const Mail = Jobs.make("mail", { data: Schema.Struct({ to: Schema.String }) })

const copied = Layer.unwrap(Effect.sync(() => {
  const filename = path.join(temporaryFolder(), "earlier.db")
  fs.copyFileSync(path.join(import.meta.dirname, "../fixtures/version-0.1.db"), filename)
  return Tenant.layer(["old"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))
}))

it.live("is read whole, and its servers are entered into the list when one is started", () =>
  Effect.gen(function*() {
    const list = Tenant.transact(Ledger.list())
    assert.strictEqual((yield* Effect.flip(list))._tag, "IndexIncomplete")
    const one = yield* Ledger.start(behaviour, { tuid: ["ledger", 1] })
    assert.strictEqual(yield* one.call("Total"), 11)
    const tuids = yield* until(Effect.orElseSucceed(list, () => []), (found) => found.length > 0)
    assert.deepStrictEqual(tuids, [["ledger", 1], ["ledger", 2], ["ledger", 3]])
    const two = yield* Ledger.start(behaviour, { tuid: ["ledger", 2] })
    assert.strictEqual(yield* two.call("Total"), 21)
    assert.deepStrictEqual(yield* two.state, { total: 21, names: { ada: 20, bob: 1 } })
    const letters = yield* Tenant.transact(DurableQueue.peekDeadLetters(Ledger.queue({ tuid: ["ledger", 2] })))
    assert.deepStrictEqual(letters.map(({ attempts, cause, tag }) => [attempts, cause, tag]), [[
      1,
      "Error: broken",
      "Break"
    ]])
    assert.deepStrictEqual(yield* Tenant.transact(Mail.getData("waits")), { to: "ada" })
  }).pipe(Effect.scoped, Effect.provide(copied)))

/** The command line on a store of PostgreSQL that a program uses. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { Inspect, Tenant } from "effect-dgen"
import { run } from "../../src/internal/cli/command.ts"
import { Cart, letters, mended, test, trouble, until } from "../dashboard/support.ts"
import { layer, server } from "./support.ts"

const store = ["--store", server.url, "--tenant", "shop/live"]

const said = (...args: ReadonlyArray<string>) => run([...args, ...store], { write: () => true })

const rows = (...args: ReadonlyArray<string>) =>
  Effect.map(said(...args, "--json"), (text) => text.trim().split("\n").map((line): any => JSON.parse(line)))

const rowOf = (n: number) =>
  Effect.map(Tenant.transact(Inspect.servers({ prefix: ["cart", n] })), ({ servers }) => servers[0])

describe("the program on PostgreSQL", () => {
  test(
    "shows what is there, and puts it in order",
    Effect.gen(function*() {
      yield* trouble()
      yield* letters()
      yield* until(rowOf(1), (row) => row?.deadLetters === 1)
      yield* until(rowOf(2), (row) => row?.lock !== undefined && row.queueLength === 2)
      const stuck = yield* rows("servers", "--stuck")
      assert.deepStrictEqual(stuck.map(({ tuid }) => tuid?.text), ["[\"cart\",1]", undefined])
      assert.deepInclude((yield* rows("server", "[\"cart\",2]"))[0].lock, { tag: "Check", kind: "cast" })
      assert.strictEqual((yield* rows("queue", "[\"cart\",2]")).length, 2)
      assert.include(yield* said("dead", "[\"cart\",1]"), "the gateway refused first")
      assert.include(yield* said("stats"), "1 process hosts servers")
      assert.include(yield* said("jobs"), "letters")
      assert.include(yield* said("check"), "nothing is wrong")
      mended.is = true
      yield* said("requeue", "[\"cart\",1]", "--all")
      yield* said("cast", "[\"cart\",1]", "Add", "{\"note\":\"by hand\"}")
      yield* until(
        Effect.flatMap(Cart.client({ tuid: ["cart", 1] }), (cart) => cart.state),
        (state) => state?.notes.join() === "first,by hand"
      )
      yield* said("unlock", "[\"cart\",2]")
      yield* said("kill", "[\"cart\",2]", "--yes")
      const gone = yield* Effect.flip(said("server", "[\"cart\",2]"))
      assert.strictEqual(gone._tag, "ServerNotFound")
      yield* said("requeue-job", "letters", "--all")
      yield* said("remove-job", "letters", "--state", "finished", "--yes")
      assert.deepStrictEqual((yield* rows("jobs", "letters")).map(({ state }) => state), [
        "pending",
        "pending",
        undefined
      ])
      assert.include(yield* run(["tenants", "--store", server.url], { write: () => true }), "shop/live")
      assert.include(yield* run(["vacuum", "--store", server.url], { write: () => true }), "vacuumed")
      assert.include(yield* said("check"), "nothing is wrong")
    }),
    layer
  )
})

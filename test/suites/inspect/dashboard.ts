/** The dashboard over HTTP: every look, and every change that is asked for, on a store. Run on every backend. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Inspect, Tenant } from "effect-dgen"
import { at, Cart, cast, Letters, letters, mended, opened, test, trouble, until } from "../../dashboard/support.ts"
import type { Store } from "../server/support.ts"

const rowOf = (n: number) =>
  Effect.map(Tenant.transact(Inspect.servers({ prefix: ["cart", n] })), ({ servers }) => servers[0])

export const dashboardSuite = (store: string, backend: Store): void => {
  describe(`${store}: a dashboard`, () => {
    test(
      "shows what is there, page by page, and puts it in order",
      Effect.gen(function*() {
        yield* trouble()
        yield* letters()
        yield* Layer.build(Letters.cronLayer("daily", { cron: "0 3 * * *", data: () => ({ text: "daily" }) }))
        yield* until(rowOf(1), (row) => row?.deadLetters === 1)
        yield* until(rowOf(2), (row) => row?.lock !== undefined && row.queueLength === 2)
        for (let n = 0; n < 40; n++) yield* cast("Add", `more ${n}`, ["cart", 2])
        const { look, mend } = yield* opened()
        const changed = (body: object) =>
          Effect.map(mend(body), ({ json, status }) => assert.strictEqual(status, 200, JSON.stringify([body, json])))

        const overview = (yield* look("overview")).json
        assert.deepInclude(overview.definitions[0], { name: "Cart", hosted: true, dead: 1, locked: 1 })
        assert.deepStrictEqual(overview.troubled.map((row: any) => row.tuid), ["[\"cart\",1]"])
        assert.deepInclude(overview.jobs[0].counts, { pending: 1, finished: 1, dead: 1 })
        const { rows } = (yield* look("servers?prefix=%5B%22cart%22")).json
        assert.deepStrictEqual(rows.map((row: any) => [row.tuid, row.waiting, row.dead]), [
          ["[\"cart\",1]", 0, 1],
          ["[\"cart\",2]", 42, 0]
        ])
        const seen: Array<string> = []
        let next: string | undefined = ""
        do {
          const page: any = (yield* look(`server?tuid=${at("cart", 2)}&queue=${encodeURIComponent(next ?? "")}`)).json
          seen.push(...page.queue.map(({ payload }: any) => JSON.parse(payload).note))
          next = page.next.queue
        } while (next !== undefined)
        assert.deepStrictEqual(seen, ["first", ...Array.from({ length: 40 }, (_, n) => `more ${n}`)])
        const wrong = yield* look(`server?tuid=${at("cart", 2)}&queue=none`)
        assert.strictEqual(wrong.status, 400)
        const { deadLetters } = (yield* look(`server?tuid=${at("cart", 1)}`)).json
        assert.include(deadLetters[0].cause, "the gateway refused first")

        mended.is = true
        yield* changed({ operation: "requeue", tuid: "[\"cart\",1]", id: deadLetters[0].id })
        yield* until(
          Effect.flatMap(Cart.client({ tuid: ["cart", 1] }), (cart) => cart.state),
          (state) => state?.notes.join() === "first"
        )
        yield* changed({ operation: "cast", tuid: "[\"cart\",1]", tag: "Add", payload: { note: "by hand" } })
        yield* until(
          Effect.flatMap(Cart.client({ tuid: ["cart", 1] }), (cart) => cart.state),
          (state) => state?.notes.join() === "first,by hand"
        )
        yield* changed({ operation: "unlock", tuid: "[\"cart\",2]" })
        yield* changed({ operation: "kill", tuid: "[\"cart\",2]" })
        assert.strictEqual((yield* look(`server?tuid=${at("cart", 2)}`)).status, 404)

        const jobs = (yield* look(`jobs?type=${encodeURIComponent("\"letters\"")}&state=dead`)).json
        assert.deepStrictEqual(jobs.jobs.map((job: any) => [job.id, job.state]), [["\"dies\"", "dead"]])
        yield* changed({ operation: "pause", type: "\"letters\"" })
        assert.isTrue(yield* Tenant.transact(Letters.isPaused))
        yield* changed({ operation: "requeue-job", type: "\"letters\"", id: "\"dies\"" })
        yield* changed({ operation: "remove-job", type: "\"letters\"", state: "finished" })
        assert.deepInclude(yield* Tenant.transact(Letters.counts), { pending: 2, finished: 0, dead: 0 })
        yield* changed({ operation: "resume", type: "\"letters\"" })
        for (const operation of ["pause-schedule", "resume-schedule", "reset-schedule", "run-schedule"]) {
          yield* changed({ operation, type: "\"letters\"", name: "daily" })
        }
        const { schedules } = (yield* look("schedules")).json
        assert.deepInclude(schedules[0], { type: "\"letters\"", name: "daily", isPaused: false })
        assert.strictEqual((yield* Tenant.transact(Letters.counts)).pending, 3)
      }),
      backend
    )
  })
}

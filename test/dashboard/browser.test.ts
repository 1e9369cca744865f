/** The dashboard in a real browser: what people see and do there, and what nobody can make it do. */
import { assert, describe } from "@effect/vitest"
import axe from "axe-core"
import { Deferred, Effect, Layer, Schedule, Schema } from "effect"
import { Inspect, Jobs, Tenant } from "effect-dgen"
import * as http from "node:http"
import type { AddressInfo } from "node:net"
import type { Page } from "playwright-core"
import { browse, browserTest, newPage, openPage, useBrowser } from "./browser.ts"
import { at, Cart, cast, hosted, HTML, Letters, letters, mended, serve, trouble, until } from "./support.ts"

useBrowser()

const rowOf = (n: number) =>
  Effect.map(Tenant.transact(Inspect.servers({ prefix: ["cart", n] })), ({ servers }) => servers[0])

/** A cart with a dead letter, one with a lock, jobs in each state. */
const shop = (note?: string) =>
  Effect.gen(function*() {
    yield* trouble(note)
    yield* letters(note)
    yield* until(rowOf(1), (row) => row?.deadLetters === 1)
    yield* until(rowOf(2), (row) => row?.lock !== undefined && row.queueLength === 2)
  })

/** The views, each with something to see. */
const VIEWS = [
  "overview",
  "servers",
  `server?tuid=${at("cart", 1)}`,
  `server?tuid=${at("cart", 2)}`,
  `jobs?type=${encodeURIComponent("\"letters\"")}`,
  "schedules"
]

const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name })

/** What runs in the page is given as a text: tests have no types of a browser. */
const inPage = <A>(page: Page, expression: string) => page.evaluate(expression) as Promise<A>

const settled = async (page: Page) => {
  await page.locator("#main h1").waitFor()
  await page.getByText("Looking …").first().waitFor({ state: "detached" })
}

/** Answers the question that is open. */
const answer = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click()

describe("the dashboard in a browser", () => {
  browserTest(
    "shows what runs, what is dead and what is locked, and asks nobody else for anything",
    Effect.gen(function*() {
      yield* shop()
      const { asked, go, origin, page, said } = yield* openPage()
      yield* browse(async () => {
        const needs = page.getByRole("group", { name: "Servers that need a look" })
        await needs.getByText("dead letters", { exact: true }).waitFor()
        await needs.getByRole("link", { name: "[\"cart\",1]" }).click()
        await page.getByRole("heading", { level: 1, name: "[\"cart\",1]" }).waitFor()
        await page.getByText("the gateway refused first").first().waitFor({ state: "attached" })
        assert.strictEqual(await page.title(), "[\"cart\",1] · effect-dgen")
      })
      for (const view of VIEWS) {
        yield* go(view)
        yield* browse(() => settled(page))
      }
      yield* go(`jobs?type=${encodeURIComponent("\"letters\"")}&state=dead`)
      yield* browse(() => page.getByRole("cell", { name: "dead", exact: true }).waitFor())
      assert.deepStrictEqual(said, [])
      assert.deepStrictEqual(asked.filter((url) => !url.startsWith(`${origin}/`)), [])
    })
  )

  browserTest(
    "pages through 100,000 servers, and finds one among them",
    Effect.gen(function*() {
      const many = 100_000
      const part = 2_000
      for (let from = 0; from < many; from += part) {
        yield* Tenant.transact(
          Effect.forEach(
            Array.from({ length: part }, (_, n) => from + n),
            (n) => Cart.castTx("Add", { note: "n" }, { tuid: ["cart", n] }),
            { discard: true }
          )
        )
      }
      const { page } = yield* openPage()
      yield* browse(async () => {
        await page.getByRole("link", { name: "Servers", exact: true }).first().click()
        const seen: Array<string> = []
        for (let pages = 0; pages < 5; pages++) {
          await page.getByRole("link", { name: `["cart",${pages * 50}]`, exact: true }).waitFor()
          seen.push(...await page.locator("tbody th").allInnerTexts())
          await page.getByRole("link", { name: "Next page" }).click()
        }
        assert.deepStrictEqual(seen, Array.from({ length: 250 }, (_, n) => `["cart",${n}]`))
        await page.goBack()
        await page.getByRole("link", { name: "[\"cart\",249]" }).waitFor()

        await page.getByRole("searchbox").fill("[\"cart\", 99999")
        await button(page, "Search").click()
        await page.getByRole("link", { name: "[\"cart\",99999]" }).waitFor()
        assert.strictEqual(await page.locator("tbody tr").count(), 1)
        await page.getByRole("searchbox").fill("")
        await button(page, "Search").click()
        await page.getByLabel("Definition").selectOption("Cart")
        // none has a state: nobody hosts them
        await page.getByText("There is none.").waitFor()
      })
    })
  )

  browserTest(
    "pages through the queue and the dead letters of one server, by keyboard, and keeps its place",
    Effect.gen(function*() {
      const count = 60
      yield* Layer.build(hosted)
      mended.is = false
      for (let n = 0; n < count; n++) yield* cast("Pay", `dead ${n}`)
      yield* until(rowOf(1), (row) => row?.deadLetters === count)
      yield* cast("Check", "the lock")
      for (let n = 0; n < count; n++) yield* cast("Add", `waits ${n}`)
      yield* until(rowOf(1), (row) => row?.queueLength === count + 1)
      const { go, page } = yield* openPage()
      yield* go(`server?tuid=${at("cart", 1)}`)
      yield* browse(async () => {
        const list = (name: string) => page.getByRole("region", { name, exact: true })
        for (
          const [name, of, text] of [["Queue", "queue", "waits"], ["Dead letters", "dead letters", "dead"]] as const
        ) {
          const pages = page.getByRole("navigation", { name: `Pages of the ${of}` })
          const shows = (n: number) => list(name).getByText(`"${text} ${n}"`).first().waitFor({ state: "attached" })
          await shows(0)
          for (const first of [25, 50]) {
            await pages.getByRole("link", { name: "Next page" }).focus()
            await page.keyboard.press("Enter")
            await shows(first)
            assert.strictEqual(await inPage(page, "document.activeElement.querySelector('h2').textContent"), name)
          }
          assert.strictEqual(await pages.getByRole("link", { name: "Next page" }).count(), 0)
          assert.strictEqual(await list(name).getByText(`"${text} 0"`).count(), 0)
        }
        // the queue's page is still the last one, also after a while
        await list("Queue").getByText("\"waits 59\"").first().waitFor({ state: "attached" })
        await page.waitForResponse(/api\/server/)
        await list("Queue").getByText("\"waits 59\"").first().waitFor({ state: "attached" })
        await page.getByRole("navigation", { name: "Pages of the queue" }).getByRole("link", { name: "First page" })
          .click()
        await list("Queue").getByText("\"waits 0\"").first().waitFor({ state: "attached" })
        await list("Dead letters").getByText("\"dead 59\"").first().waitFor({ state: "attached" })
      })
    })
  )

  browserTest(
    "requeues a dead letter, after a question",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      yield* go(`server?tuid=${at("cart", 1)}`)
      yield* browse(async () => {
        await button(page, "Requeue Pay").click()
        await page.getByRole("dialog").getByText("Requeue this dead letter?").waitFor()
        await answer(page, "Cancel")
        await page.getByRole("dialog").waitFor({ state: "detached" })
      })
      assert.strictEqual((yield* rowOf(1))?.deadLetters, 1)
      mended.is = true
      yield* browse(async () => {
        await button(page, "Requeue Pay").click()
        await answer(page, "Requeue")
        await page.getByText("Requeued a dead letter of [\"cart\",1].").waitFor()
        await page.getByText("There is none.").waitFor()
      })
      yield* until(rowOf(1), (row) => row?.deadLetters === 0 && row.queueLength === 0 && row.hasState)
    })
  )

  browserTest(
    "unlocks a server: its message is queued again",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      const since = (yield* rowOf(2))!.lock!.since
      yield* go(`server?tuid=${at("cart", 2)}`)
      yield* browse(async () => {
        await page.getByText("under the lock").waitFor()
        await button(page, "Unlock").click()
        await answer(page, "Unlock")
        await page.getByText("Unlocked [\"cart\",2].").waitFor()
      })
      // it is taken again, and locks again
      yield* until(rowOf(2), (row) => row?.lock === undefined || row.lock.since > since)
    })
  )

  browserTest(
    "kills a server after its question, and not without",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      yield* go(`server?tuid=${at("cart", 2)}`)
      yield* browse(async () => {
        await button(page, "Kill").click()
        await page.getByRole("dialog").getByText("2 messages that wait").waitFor()
        await page.keyboard.press("Escape")
        await page.getByRole("dialog").waitFor({ state: "detached" })
        await page.getByText("under the lock").waitFor()
      })
      assert.isTrue((yield* rowOf(2))?.hasState)
      yield* browse(async () => {
        await button(page, "Kill").click()
        await answer(page, "Kill it")
        await page.getByText("Killed [\"cart\",2].").waitFor()
        await page.getByText("there is no server [\"cart\",2]").waitFor()
      })
      assert.isUndefined(yield* rowOf(2))
    })
  )

  browserTest(
    "casts a message that somebody wrote, and says what is wrong with one",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      yield* go(`server?tuid=${at("cart", 1)}`)
      yield* browse(async () => {
        await button(page, "Cast").click()
        await page.getByRole("combobox", { name: "Message" }).selectOption("Add")
        await page.getByRole("textbox").fill("{ \"note\": ")
        assert.isTrue(await page.getByRole("dialog").getByRole("button", { name: "Cast" }).isDisabled())
        await page.getByRole("textbox").fill("{ \"note\": \"by hand\" }")
        await answer(page, "Cast")
        await page.getByText("Cast Add to [\"cart\",1].").waitFor()
        await page.getByRole("region", { name: "State" }).getByText("by hand").first().waitFor()
      })
    })
  )

  browserTest(
    "mends jobs: requeues, removes, pauses and resumes",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      yield* go(`jobs?type=${encodeURIComponent("\"letters\"")}`)
      yield* browse(async () => {
        await button(page, "Requeue \"dies\"").click()
        await answer(page, "Requeue")
        await page.getByText("Requeued the job \"dies\".").waitFor()
        await button(page, "Remove \"ends\"").click()
        await answer(page, "Remove")
        await page.getByText("Removed the job \"ends\".").waitFor()
        await button(page, /^Pause/).click()
        await answer(page, "Pause")
        await page.getByRole("cell", { name: "paused" }).waitFor()
      })
      const counts = yield* Tenant.transact(Letters.counts)
      assert.deepStrictEqual({ ...counts }, { pending: 2, running: 0, finished: 0, dead: 0 })
      assert.isTrue(yield* Tenant.transact(Letters.isPaused))
      yield* browse(async () => {
        await button(page, /^Resume/).click()
        await answer(page, "Resume")
        await page.getByRole("cell", { name: "yes" }).waitFor()
      })
      assert.isFalse(yield* Tenant.transact(Letters.isPaused))
    })
  )

  browserTest(
    "shows schedules, and pauses and resets them",
    Effect.gen(function*() {
      yield* Layer.build(Letters.cronLayer("daily", { cron: "0 3 * * *", data: () => ({ text: "daily" }) }))
      const { go, page } = yield* openPage()
      yield* go("schedules")
      yield* browse(async () => {
        await button(page, "Pause daily").click()
        await answer(page, "Pause")
        await page.getByText("Paused the schedule daily.").waitFor()
        await button(page, "Resume daily").click()
        await answer(page, "Resume")
        await button(page, "Reset daily").click()
        await answer(page, "Reset")
        await page.getByText("Reset the schedule daily.").waitFor()
      })
    })
  )

  browserTest(
    "follows what happens by itself, and asks nothing while it is hidden",
    Effect.gen(function*() {
      yield* cast("Add", "one", ["cart", 7])
      const { asked, go, page } = yield* openPage()
      yield* go(`server?tuid=${at("cart", 7)}`)
      const waiting = (count: number) =>
        browse(() =>
          page.locator(".fact", { hasText: "Messages waiting" }).getByText(String(count), { exact: true }).waitFor()
        )
      yield* waiting(1)
      yield* cast("Add", "two", ["cart", 7])
      yield* waiting(2)
      yield* Layer.build(hosted)
      yield* waiting(0)

      yield* browse(async () => {
        await page.clock.install()
        const hide = (hidden: boolean) =>
          inPage(
            page,
            `Object.defineProperty(document, "hidden", { value: ${hidden}, configurable: true })
            document.dispatchEvent(new Event("visibilitychange"))`
          )
        await hide(true)
        const before = asked.length
        await page.clock.fastForward("10:00")
        assert.strictEqual(asked.length, before)
        const again = page.waitForRequest(/api\/server/)
        await hide(false)
        await again
      })
    })
  )

  browserTest(
    "can be used in a narrow window",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      yield* browse(() => page.setViewportSize({ width: 360, height: 740 }))
      for (const view of VIEWS) {
        yield* go(view)
        yield* browse(() => settled(page))
        const width = yield* browse(() => inPage<number>(page, "document.documentElement.scrollWidth"))
        assert.isAtMost(width, 360, view)
      }
      yield* go(`server?tuid=${at("cart", 1)}`)
      yield* browse(async () => {
        await button(page, "Discard Pay").click()
        await answer(page, "Discard")
        await page.getByText("Discarded a dead letter").waitFor()
      })
    })
  )

  browserTest(
    "can be used by keyboard alone",
    Effect.gen(function*() {
      yield* shop()
      const { page } = yield* openPage()
      const focused = () =>
        inPage<string>(
          page,
          "document.activeElement?.getAttribute(\"aria-label\") ?? document.activeElement?.textContent ?? \"\""
        )
      const tabTo = async (wanted: string) => {
        for (let tabs = 0; tabs < 60; tabs++) {
          await page.keyboard.press("Tab")
          if ((await focused()).startsWith(wanted)) return
        }
        assert.fail(`Tab does not lead to ${wanted}`)
      }
      yield* browse(async () => {
        await page.getByRole("link", { name: "[\"cart\",1]" }).waitFor()
        await page.keyboard.press("Tab")
        assert.strictEqual(await focused(), "Skip to the content")
        await page.keyboard.press("Enter")
        await tabTo("[\"cart\",1]")
        await page.keyboard.press("Enter")
        await page.getByRole("heading", { level: 1, name: "[\"cart\",1]" }).waitFor()
        await button(page, "Requeue Pay").waitFor()
        await tabTo("Discard Pay")
        await page.keyboard.press("Enter")
        await page.getByRole("dialog").waitFor()
        // the way back comes first, and the keyboard stays in the question
        assert.strictEqual(await focused(), "Cancel")
        await page.keyboard.press("Tab")
        assert.strictEqual(await focused(), "Discard")
        await page.keyboard.press("Escape")
        await page.getByRole("dialog").waitFor({ state: "detached" })
        assert.strictEqual(await focused(), "Discard Pay")
        await page.keyboard.press("Enter")
        await page.getByRole("dialog").waitFor()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.getByText("Discarded a dead letter").waitFor()
      })
      // nothing is left of it: it had no state
      assert.isUndefined(yield* rowOf(1))
    })
  )

  browserTest(
    "has no fault that axe finds, in light and dark, wide and narrow",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage()
      const check = (what: string) =>
        browse(async () => {
          await settled(page)
          await page.evaluate(axe.source)
          const { violations } = await inPage<axe.AxeResults>(page, "axe.run()")
          const found = violations.map(({ help, nodes }) => `${help}: ${nodes.map(({ html }) => html).join(" ")}`)
          assert.deepStrictEqual(found, [], what)
        })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* browse(() => page.emulateMedia({ colorScheme, reducedMotion: "reduce" }))
        for (const view of VIEWS) {
          yield* go(view)
          yield* check(`${view}, ${colorScheme}`)
        }
        yield* go(`server?tuid=${at("cart", 1)}`)
        yield* browse(() => button(page, "Kill").click())
        yield* check(`a question, ${colorScheme}`)
        yield* browse(() => page.keyboard.press("Escape"))
        yield* browse(() => button(page, "Cast").click())
        yield* check(`a form, ${colorScheme}`)
        yield* browse(() => page.keyboard.press("Escape"))
      }
      yield* browse(() => page.setViewportSize({ width: 360, height: 740 }))
      for (const view of VIEWS) {
        yield* go(view)
        yield* check(`${view}, narrow`)
      }
    })
  )

  browserTest(
    "shows whatever is stored as text",
    Effect.gen(function*() {
      yield* Layer.build(hosted)
      mended.is = false
      const Odd = Jobs.make(HTML, { data: Schema.Struct({ text: Schema.String }) })
      yield* Tenant.transact(Effect.andThen(Odd.add(HTML, { text: HTML }), Letters.add("x", { text: HTML })))
      yield* cast("Add", HTML, ["cart", HTML])
      yield* cast("Pay", HTML, ["cart", HTML])
      yield* cast("Check", HTML, ["cart", HTML])
      yield* cast("Add", HTML, ["cart", HTML])
      const { go, page, said } = yield* openPage()
      const safe = browse(async () => {
        await settled(page)
        for (const details of await page.locator("details").all()) {
          await details.evaluate((element) => element.setAttribute("open", ""))
        }
        assert.isTrue(await inPage<boolean>(page, "window.hurt === undefined"))
        assert.strictEqual(await page.locator("#hurt").count(), 0)
        assert.strictEqual(await page.locator("main script, main img").count(), 0)
      })
      const tuid = JSON.stringify(["cart", HTML])
      const type = JSON.stringify(HTML)
      yield* until(
        Effect.map(Tenant.transact(Inspect.servers()), ({ servers }) => servers[0]),
        (row) => row?.deadLetters === 1 && row.lock !== undefined
      )
      for (const view of ["overview", "servers", "jobs", "schedules"]) {
        yield* go(view)
        yield* safe
      }
      yield* go(`server?tuid=${encodeURIComponent(tuid)}`)
      yield* browse(() => page.getByText("<img src=x onerror=").first().waitFor())
      yield* safe
      yield* browse(async () => {
        await button(page, "Kill").click()
        await page.getByRole("dialog").getByText("<b id=").waitFor()
      })
      yield* safe
      yield* browse(async () => {
        await page.keyboard.press("Escape")
        await button(page, "Requeue Pay").click()
        await answer(page, "Requeue")
        await page.getByRole("status").getByText("<script>").waitFor()
      })
      yield* safe
      yield* go(`jobs?type=${encodeURIComponent(type)}`)
      yield* browse(() => page.getByText("{{constructor}}").first().waitFor())
      yield* safe
      assert.deepStrictEqual(said, [])
    })
  )

  /** A page of another origin, on this machine. */
  const otherOrigin = (html: string) =>
    Effect.acquireRelease(
      Effect.promise(() =>
        new Promise<http.Server>((resolve) => {
          const server = http.createServer((_, response) => response.setHeader("content-type", "text/html").end(html))
          server.listen(0, "127.0.0.1", () => resolve(server))
        })
      ),
      (server) => Effect.sync(() => server.close().closeAllConnections())
    )

  browserTest(
    "gives a page of another origin nothing, and does nothing for it",
    Effect.gen(function*() {
      yield* shop()
      const { origin } = yield* openPage()
      const body = JSON.stringify({ operation: "kill", tuid: "[\"cart\",1]" })
      const html = `<!doctype html><iframe name="frame" src="${origin}/"></iframe>
<form method="post" enctype="text/plain" action="${origin}/api/mend" target="frame"><input name='${
        body.slice(0, -1)
      },"x":"' value='"}'></form>`
      const server = yield* otherOrigin(html)
      const { page } = yield* newPage
      const answered = yield* Deferred.make<number>()
      const results = yield* browse(async () => {
        await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
        page.on("response", (response) => {
          if (response.url().endsWith("/api/mend")) Deferred.doneUnsafe(answered, Effect.succeed(response.status()))
        })
        const fetched = await page.evaluate(
          async ([origin, body]) => {
            const ways: ReadonlyArray<RequestInit> = [
              { credentials: "include" },
              { credentials: "include", mode: "no-cors" },
              { method: "POST", credentials: "include", mode: "no-cors", body: body! },
              {
                method: "POST",
                credentials: "include",
                headers: { "content-type": "application/json", "x-effect-dgen": "dashboard" },
                body: body!
              }
            ]
            const seen: Array<string> = []
            for (const way of ways) {
              const path = way.method === "POST" ? "/api/mend" : "/api/servers"
              try {
                seen.push(await (await fetch(origin + path, way)).text())
              } catch {
                seen.push("refused")
              }
            }
            return seen
          },
          [origin, body]
        )
        await inPage(page, "document.forms[0].submit()")
        return fetched
      })
      assert.strictEqual(yield* Deferred.await(answered), 403)
      assert.deepStrictEqual(results, ["refused", "refused", "refused", "refused"])
      const framed = yield* Effect.retry(
        // while the answer replaces the page there is no content
        Effect.tryPromise(() => page.frame("frame")?.content() ?? Promise.resolve("")),
        { schedule: Schedule.spaced("50 millis"), times: 100 }
      )
      assert.notInclude(framed, "effect-dgen")
      assert.isTrue((yield* rowOf(1))?.deadLetters === 1)
    })
  )

  browserTest(
    "shows nothing for a wrong token, for one that was used, or under another name",
    Effect.gen(function*() {
      yield* shop()
      const { origin, url } = yield* serve()
      const { page } = yield* newPage
      const shown = (address: string) =>
        browse(async () => {
          const response = await page.goto(address)
          return [response!.status(), await page.locator("body").innerText()] as const
        })
      const wrong = yield* shown(`${origin}/?token=wrong`)
      assert.strictEqual(wrong[0], 401)
      assert.notInclude(wrong[1], "cart")
      const rebound = yield* shown(url.replace("127.0.0.1", "rebound.test"))
      assert.strictEqual(rebound[0], 403)
      // the token was not used up by that
      assert.strictEqual((yield* shown(url))[0], 200)
      assert.strictEqual(yield* browse(() => inPage(page, "document.cookie")), "")
      assert.strictEqual((yield* shown(`http://rebound.test:${new URL(origin).port}/`))[0], 403)
    })
  )

  browserTest(
    "with readOnly has nothing to press, and the server refuses what a script asks for all the same",
    Effect.gen(function*() {
      yield* shop()
      const { go, page } = yield* openPage({ readOnly: true })
      for (const view of VIEWS) {
        yield* go(view)
        yield* browse(() => settled(page))
        assert.strictEqual(yield* browse(() => page.getByRole("button", { name: /…/ }).count()), 0, view)
      }
      yield* browse(() => page.getByText("read only").waitFor())
      const status = yield* browse(() =>
        page.evaluate(async () => {
          const response = await fetch("api/mend", {
            method: "POST",
            headers: { "content-type": "application/json", "x-effect-dgen": "dashboard" },
            body: JSON.stringify({ operation: "kill", tuid: "[\"cart\",1]" })
          })
          return response.status
        })
      )
      assert.strictEqual(status, 403)
      assert.isDefined(yield* rowOf(1))
    })
  )
})

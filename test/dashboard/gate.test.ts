/** Who may ask, and what is answered: the dashboard over HTTP, without a browser. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Scope } from "effect"
import { Backend, BackendError, Dashboard, Inspect, MemoryBackend, Tenant } from "effect-dgen"
import { HttpEffect, HttpRouter, HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { setImmediate } from "node:timers/promises"
import { ask, at, cast, letters, opened, serve, test, trouble, until, WRITE } from "./support.ts"

const LOOKS = ["about", "overview", "servers", `server?tuid=${at("cart", 1)}`, "jobs", "schedules"]
const PAGE = ["", "index.html", "app.js", "style.css", "icon.svg"]

/** Every change that can be asked for. */
const CHANGES = [
  { operation: "requeue", tuid: "[\"cart\",1]", id: "00" },
  { operation: "requeue", tuid: "[\"cart\",1]" },
  { operation: "discard", tuid: "[\"cart\",1]", id: "00" },
  { operation: "discard", tuid: "[\"cart\",1]" },
  { operation: "unlock", tuid: "[\"cart\",2]" },
  { operation: "kill", tuid: "[\"cart\",2]" },
  { operation: "cast", tuid: "[\"cart\",2]", tag: "Add", payload: { note: "cast" } },
  { operation: "requeue-job", type: "\"letters\"", id: "\"dies\"" },
  { operation: "requeue-job", type: "\"letters\"", state: "dead" },
  { operation: "remove-job", type: "\"letters\"", id: "\"dies\"" },
  { operation: "remove-job", type: "\"letters\"" },
  { operation: "pause", type: "\"letters\"" },
  { operation: "resume", type: "\"letters\"" },
  { operation: "pause-schedule", type: "\"letters\"", name: "daily" },
  { operation: "resume-schedule", type: "\"letters\"", name: "daily" },
  { operation: "reset-schedule", type: "\"letters\"", name: "daily" },
  { operation: "run-schedule", type: "\"letters\"", name: "daily" }
]

/** All that a tenant holds, as far as the tests look: what no refused request may change. */
const everything = Effect.gen(function*() {
  const tenant = yield* Tenant.Tenant
  const backend = yield* Backend.Backend
  const rows = yield* Effect.acquireUseRelease(
    backend.begin,
    (driver) =>
      driver.getRange(tenant.prefix, new Uint8Array([...tenant.prefix, 255]), { limit: 10_000, reverse: false }),
    (driver) => Effect.sync(() => driver.close())
  )
  return rows.filter(({ value }) => value.length > 0).map(({ key, value }) =>
    `${Buffer.from(key).toString("hex")} ${Buffer.from(value).toString("hex")}`
  )
})

/** Carts that nobody hosts, so that nothing changes but by requests. */
const still = Effect.andThen(
  Effect.forEach([1, 2], (n) => cast("Add", "still", ["cart", n]), { discard: true }),
  letters()
)

describe("the gate of a dashboard", () => {
  test(
    "answers nothing without the cookie, neither looks nor the page",
    Effect.gen(function*() {
      yield* still
      const { origin, url } = yield* serve()
      const before = yield* everything
      const token = new URL(url).searchParams.get("token")!
      const carried = [
        {},
        { cookie: "effect-dgen=x" },
        { cookie: `effect-dgen-${new URL(origin).port}=` },
        // the token opens the page, and is no cookie
        { cookie: `effect-dgen-${new URL(origin).port}=${token}`, authorization: `Bearer ${token}` }
      ]
      for (const headers of carried) {
        for (const path of [...PAGE, ...LOOKS.map((look) => `api/${look}`)]) {
          const { status, text } = yield* ask(origin, `/${path}`, { headers })
          assert.strictEqual(status, 401, path)
          assert.notInclude(text, "cart")
          assert.notInclude(text, "shop")
        }
        for (const body of CHANGES) {
          const { status } = yield* ask(origin, "/api/mend", {
            method: "POST",
            body,
            headers: { ...headers, ...WRITE }
          })
          assert.strictEqual(status, 401, body.operation)
        }
      }
      assert.deepStrictEqual(yield* everything, before)
    })
  )

  test(
    "exchanges the token once, for a cookie that scripts and other sites do not get",
    Effect.gen(function*() {
      const { origin, url } = yield* serve()
      for (const token of ["", "wrong", `${new URL(url).searchParams.get("token")}x`, "%00", "a".repeat(5_000)]) {
        const refused = yield* ask(origin, `/?token=${token}`)
        assert.strictEqual(refused.status, 401)
        assert.isUndefined(refused.headers["set-cookie"])
      }
      const entered = yield* ask(origin, `/${new URL(url).search}`)
      assert.strictEqual(entered.status, 303)
      assert.strictEqual(entered.headers.location, "/")
      const [cookie] = entered.headers["set-cookie"]!
      assert.match(cookie!, /; HttpOnly/)
      assert.match(cookie!, /; SameSite=Strict/)
      assert.notInclude(cookie!, new URL(url).searchParams.get("token")!)
      assert.strictEqual((yield* ask(origin, "/", { headers: { cookie: cookie!.split(";")[0]! } })).status, 200)

      const again = yield* ask(origin, `/${new URL(url).search}`)
      assert.strictEqual(again.status, 401)
      assert.isUndefined(again.headers["set-cookie"])
    })
  )

  test(
    "takes no other Host than what was bound",
    Effect.gen(function*() {
      const { cookie, origin, url } = yield* opened()
      const { port } = new URL(origin)
      const others = [
        "evil.example",
        `evil.example:${port}`,
        `localhost:${port}`,
        "127.0.0.1",
        `127.0.0.1.evil:${port}`
      ]
      for (const host of others) {
        for (const path of ["/", `/${new URL(url).search}`, "/app.js", ...LOOKS.map((look) => `/api/${look}`)]) {
          assert.strictEqual((yield* ask(origin, path, { headers: { cookie, host } })).status, 403, `${host} ${path}`)
        }
        const body = { operation: "kill", tuid: "[\"cart\",1]" }
        const headers = { cookie, host, ...WRITE }
        assert.strictEqual((yield* ask(origin, "/api/mend", { method: "POST", body, headers })).status, 403)
      }
      // as a proxy is asked
      assert.strictEqual((yield* ask(origin, `${origin}/api/about`, { headers: { cookie } })).status, 400)
      assert.strictEqual((yield* ask(origin, "/api/about", { headers: { cookie } })).status, 200)
    })
  )

  test(
    "refuses what a page of another origin asks for, with the cookie too",
    Effect.gen(function*() {
      yield* still
      const { look, mend, origin } = yield* opened()
      const before = yield* everything
      const foreign: ReadonlyArray<Record<string, string>> = [
        { origin: "https://evil.example" },
        { origin: "null" },
        { origin: origin.replace(/\d+$/, "1") },
        { "sec-fetch-site": "cross-site" },
        // another port of this machine
        { "sec-fetch-site": "same-site" },
        { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }
      ]
      for (const headers of foreign) {
        assert.strictEqual((yield* look("servers", headers)).status, 403)
        for (const body of CHANGES) assert.strictEqual((yield* mend(body, headers)).status, 403)
      }
      assert.deepStrictEqual(yield* everything, before)
      assert.strictEqual((yield* look("servers", { origin, "sec-fetch-site": "same-origin" })).status, 200)
    })
  )

  test(
    "changes nothing without the header that no form can send",
    Effect.gen(function*() {
      yield* still
      const { cookie, mend, origin } = yield* opened()
      const before = yield* everything
      for (const body of CHANGES) {
        assert.strictEqual((yield* mend(body, { "x-effect-dgen": "" })).status, 403)
        assert.strictEqual((yield* mend(body, { "content-type": "text/plain" })).status, 415)
        assert.strictEqual((yield* ask(origin, "/api/mend", { method: "POST", body, headers: { cookie } })).status, 403)
      }
      assert.notStrictEqual((yield* ask(origin, "/api/mend", { headers: { cookie, ...WRITE } })).status, 200)
      assert.deepStrictEqual(yield* everything, before)
    })
  )

  test(
    "with readOnly changes nothing, and shows all",
    Effect.gen(function*() {
      yield* still
      const { look, mend } = yield* opened({ readOnly: true })
      const before = yield* everything
      for (const body of CHANGES) {
        const { json, status } = yield* mend(body)
        assert.strictEqual(status, 403, body.operation)
        assert.match(json.message, /read-only/)
      }
      assert.deepStrictEqual(yield* everything, before)
      for (const path of LOOKS) assert.strictEqual((yield* look(path)).status, 200, path)
      assert.isTrue((yield* look("about")).json.readOnly)
    })
  )

  test(
    "lets nobody embed the page, keep an answer, or run what is stored",
    Effect.gen(function*() {
      const { cookie, origin } = yield* opened()
      for (const path of ["/", "/app.js", "/style.css", "/api/about", "/api/server?tuid=x", "/api/servers?after=zz"]) {
        for (const headers of [{ cookie }, {}]) {
          const answer = yield* ask(origin, path, { headers })
          const policy = String(answer.headers["content-security-policy"])
          assert.match(policy, /default-src 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/)
          assert.notMatch(policy, /unsafe|https?:|\*/)
          assert.strictEqual(answer.headers["x-content-type-options"], "nosniff")
          assert.strictEqual(answer.headers["cache-control"], "no-store")
          assert.strictEqual(answer.headers["referrer-policy"], "no-referrer")
          assert.isUndefined(answer.headers["access-control-allow-origin"])
        }
      }
    })
  )

  test(
    "refuses what makes no sense, and says what it is",
    Effect.gen(function*() {
      const { cookie, look, mend, origin } = yield* opened()
      for (
        const path of [
          "server",
          "server?tuid=",
          "server?tuid=cart",
          "server?tuid=%5B%5D",
          "servers?after=zz",
          "jobs?type=%5B"
        ]
      ) {
        const { json, status } = yield* look(path)
        assert.strictEqual(status, 400, path)
        assert.isString(json.message)
      }
      assert.strictEqual((yield* look(`server?tuid=${at("nobody")}`)).status, 404)
      assert.strictEqual((yield* mend({ operation: "kill", tuid: "[\"nobody\"]" })).status, 404)
      const bodies = ["{", "null", "[]", { operation: "drop" }, { operation: "kill" }, { operation: "kill", tuid: 7 }]
      for (const body of bodies) assert.strictEqual((yield* mend(body)).status, 400, JSON.stringify(body))
      const long = { operation: "cast", tuid: "[1]", tag: "x".repeat(8_500_000) }
      assert.strictEqual((yield* mend(long)).status, 400)
      const longest = yield* mend("x".repeat(9_600_000)).pipe(Effect.map(({ status }) => status))
      assert.strictEqual(longest, 413)
      assert.strictEqual((yield* ask(origin, "/nothing", { headers: { cookie } })).status, 404)
    })
  )

  test(
    "shows nothing that is redacted, nor what a store says of itself",
    Effect.gen(function*() {
      yield* trouble()
      const { look } = yield* opened({ values: true })
      const seen = yield* until(look(`server?tuid=${at("cart", 1)}`), ({ json }) => json?.deadLetters?.length === 1)
      assert.include(seen.text, "first")
      const whole = yield* until(look(`server?tuid=${at("cart", 2)}`), ({ json }) => json?.lock !== undefined)
      assert.include(whole.json.state, "<redacted>")
      assert.notInclude(whole.text, "secret")
    })
  )

  test(
    "says that a store fails, and not with which words",
    Effect.gen(function*() {
      const message = "postgres://app:hunter2@db.internal/shop is damaged"
      const failure = new BackendError.BackendError({ reason: new BackendError.Corrupt({ message }) })
      const { cookie, origin } = yield* opened({ begin: Effect.fail(failure) })
      for (const path of LOOKS.filter((look) => look !== "about" && !look.startsWith("server?"))) {
        const { json, status, text } = yield* ask(origin, `/api/${path}`, { headers: { cookie } })
        assert.strictEqual(status, 503, path)
        assert.include(json.message, "Corrupt")
        assert.notInclude(text, "hunter2")
        assert.notInclude(text, "internal/shop")
      }
    })
  )

  it.effect("says that a store does not answer, before a browser gives up", () =>
    Effect.gen(function*() {
      const away = new BackendError.BackendError({ reason: new BackendError.Unavailable({ message: "it is away" }) })
      const { cookie, origin } = yield* opened({ begin: Effect.fail(away) })
      for (const path of LOOKS.filter((look) => look !== "about")) {
        const answer = yield* Effect.forkChild(ask(origin, `/api/${path}`, { headers: { cookie } }))
        yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), Effect.promise(() => setImmediate())), {
          until: () => answer.pollUnsafe() !== undefined
        })
        assert.strictEqual((yield* Fiber.join(answer)).status, 504, path)
      }
    }).pipe(Effect.scoped, Effect.provide(Tenant.layer(["shop"]).pipe(Layer.provide(MemoryBackend.layer)))))

  test(
    "ends with its scope, and says when its port is taken",
    Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope)
      const { origin } = yield* Effect.provideService(serve(), Scope.Scope, scope)
      const port = Number(new URL(origin).port)
      const failure = yield* Effect.flip(serve({ port }))
      assert.strictEqual(failure._tag, "ServeFailed")
      assert.include(failure.message, String(port))
      yield* Scope.close(scope, Exit.void)
      const served = yield* serve({ port })
      assert.strictEqual(served.origin, origin)
    })
  )
})

describe("Dashboard.layer", () => {
  const mounted = <E, R>(options: Dashboard.Options<E, R>) =>
    Effect.gen(function*() {
      const app = yield* HttpRouter.toHttpEffect(Dashboard.layer(options))
      const context = yield* Effect.context<Scope.Scope>()
      const handle = HttpEffect.toWebHandlerWith<Scope.Scope, Scope.Scope | HttpServerRequest.HttpServerRequest>(
        context
      )(
        app as any
      )
      return (path: string, { body, headers = {}, method = "GET" }: Parameters<typeof ask>[2] = {}) =>
        Effect.promise(() =>
          handle(
            new Request(`http://shop.example${path}`, {
              method,
              redirect: "manual",
              headers: { host: "shop.example", ...headers },
              ...(body === undefined ? {} : { body: JSON.stringify(body) })
            })
          )
        )
    })

  test(
    "asks authorize about each request, with tenant, server, jobs and operation",
    Effect.gen(function*() {
      yield* still
      const seen: Array<Dashboard.Access> = []
      const asked = yield* mounted({
        authorize: (access) =>
          Effect.sync(() => {
            seen.push(access)
            return access.operation !== "kill" && access.request.headers["x-who"] === "me"
          })
      })
      const headers = { "x-who": "me" }
      const page = yield* asked("/dgen/", { headers })
      assert.strictEqual(page.status, 200)
      assert.strictEqual((yield* asked("/dgen/")).status, 401)
      assert.strictEqual((yield* asked("/dgen", { headers })).headers.get("location"), "./dgen/")
      assert.strictEqual((yield* asked(`/dgen/api/server?tuid=${at("cart", 1)}`, { headers })).status, 200)
      assert.strictEqual((yield* asked(`/dgen/api/jobs?type=%22letters%22`, { headers })).status, 200)
      const before = yield* everything
      const kill = { operation: "kill", tuid: "[\"cart\",1]" }
      const write = { method: "POST", headers: { ...headers, ...WRITE } }
      assert.strictEqual((yield* asked("/dgen/api/mend", { ...write, body: kill })).status, 401)
      assert.deepStrictEqual(yield* everything, before)
      const remove = { operation: "remove-job", type: "\"letters\"", id: "\"dies\"" }
      assert.strictEqual((yield* asked("/dgen/api/mend", { ...write, body: remove })).status, 200)

      assert.isTrue(seen.every(({ tenant }) => tenant.join("/") === "shop/live"))
      assert.deepStrictEqual(
        seen.map(({ isWrite, job, operation, tuid }) => ({ operation, isWrite, tuid, job })),
        [
          { operation: "page", isWrite: false, tuid: undefined, job: undefined },
          { operation: "page", isWrite: false, tuid: undefined, job: undefined },
          { operation: "page", isWrite: false, tuid: undefined, job: undefined },
          { operation: "server", isWrite: false, tuid: ["cart", 1], job: undefined },
          { operation: "jobs", isWrite: false, tuid: undefined, job: { type: "letters", id: undefined } },
          { operation: "kill", isWrite: true, tuid: ["cart", 1], job: undefined },
          { operation: "remove-job", isWrite: true, tuid: undefined, job: { type: "letters", id: "dies" } }
        ]
      )
    })
  )

  test(
    "takes an authorize that fails, dies, or answers anything else for a no",
    Effect.gen(function*() {
      const answers: ReadonlyArray<() => Effect.Effect<any, unknown>> = [
        () => Effect.fail("no"),
        () => Effect.die(new Error("no")),
        () => {
          throw new Error("no")
        },
        () => Effect.succeed("yes"),
        () => Effect.void,
        () => true as any
      ]
      for (const [index, authorize] of answers.entries()) {
        const asked = yield* mounted({ authorize })
        assert.strictEqual((yield* asked("/dgen/api/about")).status, 401, String(index))
        assert.strictEqual((yield* asked("/dgen/")).status, 401, String(index))
      }
    })
  )

  test(
    "gives authorize what it requires, and the request",
    Effect.gen(function*() {
      const asked = yield* mounted({
        path: "/admin/look/",
        authorize: () =>
          Effect.map(HttpServerRequest.HttpServerRequest, ({ cookies }) => cookies["session"] === "valid")
      })
      assert.strictEqual((yield* asked("/admin/look/", { headers: { cookie: "session=valid" } })).status, 200)
      assert.strictEqual((yield* asked("/admin/look/api/about", { headers: { cookie: "session=old" } })).status, 401)
    })
  )

  test(
    "keeps readOnly, other origins and other hosts out, whatever authorize says",
    Effect.gen(function*() {
      yield* still
      const asked = yield* mounted({ authorize: () => Effect.succeed(true), readOnly: true, hosts: ["Shop.example"] })
      const body = { operation: "kill", tuid: "[\"cart\",1]" }
      const write = (headers: Record<string, string>) =>
        asked("/dgen/api/mend", { method: "POST", body, headers: { ...WRITE, ...headers } })
      const before = yield* everything
      assert.strictEqual((yield* write({})).status, 403)
      assert.strictEqual((yield* write({ origin: "https://evil.example" })).status, 403)
      assert.deepStrictEqual(yield* everything, before)
      const look = (headers: Record<string, string>) => asked("/dgen/api/servers", { headers })
      assert.strictEqual((yield* look({})).status, 200)
      assert.strictEqual((yield* look({ host: "rebound.example" })).status, 403)
      assert.strictEqual((yield* look({ origin: "http://shop.example" })).status, 200)
      // the way in by a link from elsewhere is the page alone
      const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }
      assert.strictEqual((yield* asked("/dgen/", { headers: link })).status, 200)
      assert.strictEqual((yield* look(link)).status, 403)
      assert.strictEqual((yield* Tenant.transact(Inspect.servers())).servers.length, 2)
    })
  )
})

/** The command that serves the dashboard, as a process of its own. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import { type ChildProcess, spawn } from "node:child_process"
import * as path from "node:path"
import { ask, cast, enter } from "../dashboard/support.ts"
import { temporaryFolder } from "../support/temporary.ts"

const filename = path.join(temporaryFolder(), "app.db")
const main = path.join(import.meta.dirname, "../../src/internal/cli/main.ts")
const store = Tenant.layer(["shop"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))

interface Running {
  readonly child: ChildProcess
  readonly out: () => string
  readonly err: () => string
}

/** The program while it serves: it has written its first line. */
const running = (...args: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.callback<Running>((resume) => {
      const child = spawn(process.execPath, [main, "dashboard", ...args], { stdio: ["ignore", "pipe", "pipe"] })
      let out = ""
      let err = ""
      const running = { child, out: () => out, err: () => err }
      child.stdout.on("data", (chunk) => {
        out += chunk
        if (out.includes("\n")) resume(Effect.succeed(running))
      })
      child.stderr.on("data", (chunk) => err += chunk)
      child.on("close", () => resume(Effect.succeed(running)))
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

const ended = ({ child }: Running, signal: NodeJS.Signals) =>
  Effect.callback<number | null>((resume) => {
    child.on("close", (code) => resume(Effect.succeed(code)))
    child.kill(signal)
  })

const place = ["--store", `sqlite:${filename}`, "--tenant", "shop"]

describe("effect-dgen dashboard", () => {
  it.live("serves a tenant on loopback, for whoever has the address that it prints, until it is ended", () =>
    Effect.gen(function*() {
      yield* Effect.provide(cast("Add", "one"), store)
      const program = yield* running(...place, "--read-only")
      const url = program.out().trim()
      assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}$/)
      const { origin } = new URL(url)
      assert.strictEqual((yield* ask(origin, "/api/servers")).status, 401)
      const headers = { cookie: yield* enter(url) }
      const { json } = yield* ask(origin, "/api/servers", { headers })
      assert.deepStrictEqual(json.rows.map(({ tuid }: any) => tuid), ["[\"cart\",1]"])
      const about = (yield* ask(origin, "/api/about", { headers })).json
      assert.deepStrictEqual(about, { tenant: ["shop"], store: `sqlite:${filename}`, readOnly: true })
      assert.strictEqual(yield* ended(program, "SIGINT"), 0)
      assert.notInclude(program.err(), "broken off")
    }).pipe(Effect.scoped, Effect.provide(Logger.layer([]))))

  it.live("says its address to programs, and what is wrong with a port", () =>
    Effect.gen(function*() {
      const program = yield* running(...place, "--json")
      const { origin, url } = JSON.parse(program.out())
      assert.isTrue(url.startsWith(`${origin}/?token=`))
      const taken = yield* running(...place, "--port", new URL(url).port)
      assert.strictEqual(taken.out(), "")
      assert.include(taken.err(), `port ${new URL(url).port} cannot be used`)
      const none = yield* running(...place, "--port", "70000")
      assert.include(none.err(), "--port must be from 0 to 65535")
    }).pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
})

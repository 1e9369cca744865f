/** The program on a store that a running program uses: as a process of its own, its output in a pipe. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Logger, Redacted, Schedule, Schema } from "effect"
import { DgenServer, Inspect, Jobs, SqliteBackend, Tenant, Tuple } from "effect-dgen"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { PassThrough } from "node:stream"
import { runTo } from "../../src/internal/cli/command.ts"
import { oneLine, tableOf } from "../../src/internal/cli/output.ts"
import { until } from "../suites/server/support.ts"
import { temporaryFolder } from "../support/temporary.ts"

const folder = temporaryFolder()
const filename = path.join(folder, "app.db")
const store = `sqlite:${filename}`
const main = path.join(import.meta.dirname, "../../src/internal/cli/main.ts")

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** Runs the program; with `stop` its output is closed after the first bytes. */
const program = (args: ReadonlyArray<string>, options: { env?: Record<string, string>; stop?: boolean } = {}) =>
  Effect.callback<Ended>((resume) => {
    const child = spawn(process.execPath, [main, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...options.env }
    })
    let out = ""
    let err = ""
    child.stdout.on("data", (chunk) => {
      out += chunk
      if (options.stop === true) child.stdout.destroy()
    })
    child.stderr.on("data", (chunk) => err += chunk)
    child.on("close", (code) => resume(Effect.succeed({ code, out, err })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const payload = { text: Schema.String, pin: Schema.optionalKey(Schema.Redacted(Schema.String)) }

class Cart extends DgenServer.Service<Cart>()("Cart", {
  hosted: true,
  state: Schema.Struct({ lines: Schema.Array(Schema.String) }),
  messages: {
    Add: DgenServer.cast({ payload }),
    Fail: DgenServer.cast({ payload }),
    Work: DgenServer.cast({ payload, locks: true })
  }
}) {}

const mended = { is: false }
const behaviour = Cart.behaviour({
  init: Effect.succeed({ lines: [] }),
  handlers: {
    Add: ({ text }, state) => DgenServer.noReply({ lines: [...state.lines, text] }),
    Fail: ({ text }, state) =>
      mended.is
        ? Effect.succeed(DgenServer.noReply({ lines: [...state.lines, text] }))
        : Effect.die(new Error("\u001b[31mred\u0007 \u202e")),
    Work: (_, state) => DgenServer.lock(state)
  }
})

const Mail = Jobs.make("mail", {
  data: Schema.Struct({ to: Schema.String, code: Schema.Redacted(Schema.String) }),
  maxAttempts: 1
})

const tenant = ["shop", "carts"]
const place = ["--store", store, "--tenant", "shop/carts"]
const on = (command: string, ...args: ReadonlyArray<string>) => program([command, ...args, ...place])
const jsonOf = (ended: Ended): ReadonlyArray<any> => {
  assert.strictEqual(ended.code, 0, ended.err)
  return ended.out.trim().split("\n").map((line) => JSON.parse(line))
}

/** What the whole program never writes: what a terminal obeys, and what is redacted. */
const isClean = ({ err, out }: Ended) => {
  // oxlint-disable-next-line no-control-regex
  assert.notMatch(out + err, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/)
  assert.notInclude(out + err, "1234")
}

/** A program that runs on the store meanwhile. */
const running = Effect.gen(function*() {
  const host = Cart.hostLayer(behaviour, {
    deadLetterThreshold: 1,
    lockTimeout: "1 hour",
    grace: 0,
    restart: Schedule.forever
  }).pipe(Layer.provide(Cart.lockedLayer({ Work: () => Effect.never })))
  return yield* Layer.build(Layer.fresh(
    host.pipe(
      Layer.provideMerge(Tenant.layer(tenant)),
      Layer.provideMerge(SqliteBackend.layer({ filename }))
    )
  ))
})

const quiet = Effect.provide(Logger.layer([]))

describe("the program on a store in use", () => {
  it.live("shows what is there, and puts it in order", () =>
    Effect.gen(function*() {
      const context = yield* running
      const inside = Effect.provideContext(context as Context.Context<any>) as <A, E>(
        effect: Effect.Effect<A, E, any>
      ) => Effect.Effect<A, E>
      const cart = (id: number) => inside(Cart.client({ tuid: ["cart", id] }))
      const row = (id: number) =>
        inside(Effect.map(
          Tenant.transact(Inspect.servers({ prefix: ["cart", id] })),
          ({ servers }) => servers[0]
        ))
      const seven = yield* cart(7)
      yield* seven.cast("Add", { text: "\u001b]0;pwned\u0007 'x'; DROP TABLE data; --", pin: Redacted.make("1234") })
      yield* seven.cast("Fail", { text: "y".repeat(200_000), pin: Redacted.make("1234") })
      yield* (yield* cart(8)).cast("Work", { text: "w" })
      yield* until(row(7), (found) => found?.deadLetters === 1 && found.queueLength === 0)
      yield* until(row(8), (found) => found?.lock !== undefined)

      const listed = yield* on("servers")
      isClean(listed)
      assert.match(listed.out, /^TUID +SERVER +QUEUE/)
      assert.match(listed.out, /\["cart",7\] +Cart +0 .* 1 +0 +deadLetters/)
      assert.match(listed.out, /\["cart",8\] +Cart +1 .*Work \d+s/)
      const stuck = jsonOf(yield* on("servers", "--stuck", "--json", "--name", "Cart"))
      assert.deepStrictEqual(stuck.map(({ tuid }) => tuid?.text), ["[\"cart\",7]", undefined])
      assert.deepInclude(stuck.at(-1), { looked: 2, next: null })

      const server = yield* on("server", "[\"cart\",7]")
      isClean(server)
      assert.include(server.out, "server     Cart (hosted)")
      assert.include(server.out, "\\u001b]0;pwned\\u0007 'x'; DROP TABLE data; --")
      assert.include((yield* on("server", "[\"cart\",8]")).out, "lock       Work (cast)")

      const dead = yield* on("dead", "[\"cart\",7]")
      isClean(dead)
      assert.include(dead.out, "Error: \\u001b[31mred")
      assert.isBelow(dead.out.length, 50_000)
      const [letter] = jsonOf(yield* on("dead", "[\"cart\",7]", "--json"))
      assert.deepInclude(letter.payload.value, { pin: "<redacted>" })
      assert.isTrue(letter.payload.isCut)

      mended.is = true
      const requeued = yield* on("requeue", "[\"cart\",7]", letter.id)
      assert.strictEqual(requeued.code, 0, requeued.err)
      yield* until(seven.state, (state) => (state as any)?.lines.length === 2)
      assert.strictEqual((yield* on("requeue", "[\"cart\",7]", letter.id)).code, 3)

      const cast = yield* on("cast", "[\"cart\",9]", "Add", "{\"text\":\"by hand\"}", "--name", "Cart")
      assert.strictEqual(cast.code, 0, cast.err)
      const nine = yield* cart(9)
      yield* until(nine.state, (state) => (state as any)?.lines[0] === "by hand")
      assert.strictEqual((yield* on("cast", "[\"cart\",9]", "Gone", "{}")).code, 2)
      assert.strictEqual((yield* on("cast", "[\"cart\",9]", "Add", "{text}")).code, 2)

      const unlocked = yield* on("unlock", "[\"cart\",8]")
      assert.strictEqual(unlocked.code, 0, unlocked.err)
      yield* until(row(8), (found) => found?.lock?.attempts === 1)

      // nobody can be asked in a pipe
      const refused = yield* on("kill", "[\"cart\",8]")
      assert.deepStrictEqual([refused.code, refused.out], [4, ""])
      assert.include(refused.err, "say --yes")
      assert.isDefined(yield* row(8))
      assert.strictEqual((yield* on("kill", "[\"cart\",8]", "--yes")).code, 0)
      yield* until(row(8), (found) => found === undefined)
      for (const command of ["server", "unlock"]) assert.strictEqual((yield* on(command, "[\"cart\",8]")).code, 3)
      assert.strictEqual((yield* on("kill", "[\"cart\",8]", "--yes")).code, 3)

      const checked = yield* on("check")
      assert.deepStrictEqual([checked.code, checked.out], [0, "nothing is wrong\n"], checked.err)
      assert.include((yield* on("stats")).out, "Cart")
      assert.strictEqual((yield* program(["tenants", "--store", store])).out, "shop/carts\n")
    }).pipe(Effect.scoped, quiet), 240_000)

  it.live("looks at jobs, and puts them in order", () =>
    Effect.gen(function*() {
      const layer = Tenant.layer(["shop", "mail"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))
      const context = yield* Layer.build(Layer.fresh(layer))
      const inside = <A, E>(effect: Effect.Effect<A, E, Tenant.Tenant>) => Effect.provideContext(effect, context)
      const place = ["--store", store, "--tenant", "shop/mail"]
      const on = (command: string, ...args: ReadonlyArray<string>) => program([command, ...args, ...place])
      yield* inside(Effect.forEach(["a", "b", "c"], (id) =>
        Tenant.transact(Mail.add(id, { to: "\u001b[1mx", code: Redacted.make("1234") }))))
      const dies = Mail.workerLayer(() =>
        Effect.die(new Error("no stamp\nbehind"))
      )
      yield* Effect.scoped(inside(
        Effect.andThen(
          Layer.build(dies),
          until(Tenant.transact(Mail.counts), ({ dead }) => dead === 3)
        ) as any
      ))
      const types = yield* on("jobs")
      assert.match(types.out, /"mail" +0 +0 +0 +3/)
      const listed = yield* on("jobs", "mail", "--state", "dead")
      isClean(listed)
      assert.match(listed.out, /"a" +dead +1 .*Error: no stamp +.*<redacted>/)
      const shown = yield* on("job", "mail", "a")
      isClean(shown)
      assert.include(shown.out, "Error: no stamp\\nbehind")
      assert.strictEqual((yield* on("job", "mail", "none")).code, 3)
      assert.strictEqual((yield* on("pause", "mail")).out, "paused\n")
      assert.include((yield* on("jobs")).out, "paused")
      assert.strictEqual((yield* on("requeue-job", "mail", "a")).out, "1 run again\n")
      assert.strictEqual((yield* on("requeue-job", "mail")).code, 2)
      assert.strictEqual((yield* on("requeue-job", "mail", "--all")).out, "2 run again\n")
      assert.strictEqual((yield* on("remove-job", "mail", "a")).code, 4)
      assert.strictEqual((yield* on("remove-job", "mail", "a", "--yes")).out, "1 removed\n")
      assert.strictEqual((yield* on("remove-job", "mail", "--state", "pending", "--yes")).out, "2 removed\n")
      assert.strictEqual((yield* on("resume", "mail")).out, "resumed\n")
      const cron = Mail.cronLayer("nightly", {
        cron: "0 3 * * *",
        data: () => ({ to: "all", code: Redacted.make("1234") })
      })
      const begun = Effect.andThen(
        Layer.build(cron),
        until(Tenant.transact(Inspect.schedules("mail")), (found) => found.length === 1)
      )
      yield* Effect.scoped(inside(begun as any))
      assert.match((yield* on("schedules")).out, /"mail" +nightly +0 3 \* \* \*/)
      assert.strictEqual((yield* on("schedules", "pause", "mail", "nightly")).code, 0)
      assert.include((yield* on("schedules", "list", "mail")).out, "paused")
      assert.strictEqual((yield* on("schedules", "reset", "mail", "nightly")).code, 0)
      assert.strictEqual((yield* on("schedules", "reset", "mail", "none")).code, 3)
      assert.strictEqual((yield* on("schedules", "reset", "mail")).code, 2)
    }).pipe(Effect.scoped, quiet), 240_000)

  it.live("says what a check found, and ends with 5", () =>
    Effect.gen(function*() {
      const context = yield* Layer.build(Layer.fresh(
        Tenant.layer(["damaged"]).pipe(Layer.provideMerge(SqliteBackend.layer({ filename })))
      ))
      const { backend, prefix } = Context.get(context, Tenant.Tenant)
      const key = Tuple.pack(["s", ["lost"], "state", 0, 0], Tuple.pack([1], prefix))
      yield* Effect.acquireUseRelease(
        backend.begin,
        (driver) =>
          driver.commit({
            mutations: [{ op: "set", key, value: Uint8Array.of(1) }],
            readConflicts: [],
            writeConflicts: [{ begin: key, end: Tuple.strinc(key) }],
            watches: []
          }, () => {}),
        (driver) => Effect.sync(() => driver.close())
      )
      const found = yield* program(["check", "--store", store, "--tenant", "damaged"])
      assert.strictEqual(found.code, 5)
      assert.match(found.out, /owner +server +\["lost"\] +rows of a state without a head/)
      assert.include(found.err, "1 things do not belong")
      const [finding, summary] = (yield* program(["check", "--store", store, "--tenant", "damaged", "--json"])).out
        .trim().split("\n").map((line) => JSON.parse(line))
      assert.deepInclude(finding, { kind: "owner", of: "server", subject: "[\"lost\"]" })
      assert.strictEqual(summary.problems, 1)
    }).pipe(Effect.scoped, quiet), 60_000)

  it.live(
    "ends well when its reader has seen enough, and takes store and tenant from the environment",
    () =>
      Effect.gen(function*() {
        const context = yield* Layer.build(Layer.fresh(
          Tenant.layer(["many"]).pipe(Layer.provide(SqliteBackend.layer({ filename })))
        ))
        yield* Effect.provideContext(
          Effect.forEach(Array.from({ length: 20 }, (_, i) => i), (i) =>
            Tenant.transact(Effect.forEach(
              Array.from({ length: 100 }, (_, n) => i * 100 + n),
              (n) => Mail.add(n, { to: "x".repeat(200), code: Redacted.make("1234") })
            ))),
          context
        )
        const env = { EFFECT_DGEN_STORE: store, EFFECT_DGEN_TENANT: "many" }
        const all = yield* program(["jobs", "mail", "--all", "--json", "--values"], { env })
        assert.strictEqual(all.out.trim().split("\n").length, 2_001)
        const some = yield* program(["jobs", "mail", "--all", "--json", "--values"], { env, stop: true })
        assert.deepStrictEqual([some.code, some.err], [0, ""])
        const limited = yield* program(["jobs", "mail", "--limit", "3"], { env })
        assert.strictEqual(limited.out.trim().split("\n").length, 4)
        assert.match(limited.err, /3 shown, 3 looked at\. There may be more: --after [0-9a-f]+/)
      }).pipe(Effect.scoped, quiet),
    60_000
  )
})

describe("the program's arguments", () => {
  const secret = "postgres://me:hunter2@localhost:1/app"
  const cases: ReadonlyArray<readonly [title: string, args: ReadonlyArray<string>, code: number, says: RegExp]> = [
    ["no store", ["servers", "--tenant", "a"], 2, /--store must name the store, or the variable EFFECT_DGEN_STORE/],
    ["no tenant", ["servers", "--store", store], 2, /--tenant must name the tenant's path/],
    ["a tenant that is not there", ["servers", "--store", store, "--tenant", "nobody"], 3, /no tenant nobody/],
    ["a tuid that is none", ["server", "[\"cart\",", ...place], 2, /the tuid/],
    ["an empty tuid", ["server", "[]", ...place], 2, /one or more elements/],
    ["a duration that is none", ["servers", "--older-than", "soon", ...place], 2, /must be a duration/],
    ["a limit that is none", ["servers", "--limit", "many", ...place], 2, /limit/],
    ["a cursor that is none", ["servers", "--after", "$(reboot)", ...place], 2, /must be the "next" of a page/],
    ["a store that says nothing", ["servers", "--store", "me:hunter2@host", "--tenant", "a"], 2, /--store must be/],
    ["a server that does not answer", ["tenants", "--store", secret], 1, /effect-dgen: /]
  ]
  for (const [title, args, code, says] of cases) {
    it.live(`with ${title} it ends with ${code}, and shows no password`, () =>
      Effect.gen(function*() {
        const ended = yield* program(args, { env: { EFFECT_DGEN_STORE: "", EFFECT_DGEN_TENANT: "" } })
        assert.strictEqual(ended.code, code, ended.err)
        assert.match(ended.err, says)
        assert.strictEqual(ended.out, "")
        assert.notInclude(ended.err, "hunter2")
      }), 60_000)
  }

  it.live("help and completions come from the commands", () =>
    Effect.gen(function*() {
      const help = yield* program(["--help"])
      assert.strictEqual(help.code, 0)
      const commands = [
        "tenants",
        "servers",
        "server",
        "queue",
        "dead",
        "requeue",
        "discard",
        "unlock",
        "kill",
        "cast",
        "timers",
        "jobs",
        "job",
        "requeue-job",
        "remove-job",
        "schedules",
        "pause",
        "resume",
        "stats",
        "check",
        "copy",
        "vacuum",
        "sql"
      ]
      for (const command of commands) assert.match(help.out, new RegExp(`^  ${command} `, "m"))
      const own = yield* program(["kill", "--help"])
      assert.include(own.out, "--yes")
      for (const shell of ["bash", "zsh", "fish"]) {
        assert.include((yield* program(["--completions", shell])).out, "requeue-job")
      }
      const vacuumed = yield* program(["vacuum", "--store", store, "--json"])
      assert.deepInclude(jsonOf(vacuumed)[0], { store })
      assert.include((yield* program(["sql"])).out, "CREATE TABLE")
    }), 60_000)
})

describe("what people see", () => {
  /** A terminal of so many columns. */
  const terminal = (columns: number | undefined) => {
    const texts: Array<string> = []
    return {
      texts,
      stream: { isTTY: columns !== undefined, columns, write: (text: string) => texts.push(text) }
    }
  }

  it("fits the terminal, and is whole in a pipe", () => {
    const rows = [{ name: "x".repeat(200), count: 1_234 }, { name: "日本語", count: 5 }]
    const columns = [["NAME", (row: any) => row.name], ["COUNT", (row: any) => row.count]] as const
    assert.deepStrictEqual(tableOf(rows, columns, 30), [
      "NAME                     COUNT",
      `${"x".repeat(22)}…  1,234`,
      `日本語${" ".repeat(23)}5`
    ])
    assert.include(tableOf(rows, columns, undefined)[1], "x".repeat(200))
    assert.strictEqual(oneLine("a\r\n\t\u001b[31m\u202e\u009b\u200b"), "a\\r\\n\\t\\u001b[31m\\u202e\\u009b\\u200b")
  })

  for (const [answer, isKilled] of [["y", true], ["n", false], ["", false]] as const) {
    it.live(
      `asks before it deletes, and takes ${JSON.stringify(answer)} for ${isKilled ? "yes" : "no"}`,
      () =>
        Effect.gen(function*() {
          const path = ["asked", `${answer}.`]
          const context = yield* Layer.build(Layer.fresh(
            Tenant.layer(path).pipe(Layer.provide(SqliteBackend.layer({ filename })))
          ))
          yield* Effect.provideContext(
            Tenant.transact(Mail.add("a", { to: "x", code: Redacted.make("1234") })),
            context
          )
          const { stream, texts } = terminal(40)
          const input = new PassThrough()
          const asked = yield* Deferred.make<void>()
          const write = (text: string) => {
            texts.push(text)
            if (text.includes("[y/N]")) Effect.runSync(Deferred.succeed(asked, undefined))
          }
          const args = ["remove-job", "mail", "a", "--store", store, "--tenant", path.join("/")]
          const ended = Effect.exit(runTo(args, { out: stream, err: { ...stream, write }, input }))
          const answering = Effect.andThen(Deferred.await(asked), Effect.sync(() => input.end(`${answer}\n`)))
          const [exit] = yield* Effect.all([ended, answering], { concurrency: "unbounded" })
          assert.strictEqual(exit._tag, isKilled ? "Success" : "Failure")
          assert.include(texts.join(""), "Remove the job of the type mail for good? [y/N] ")
          const left = yield* Effect.provideContext(Tenant.transact(Mail.counts), context)
          assert.strictEqual(left.pending, isKilled ? 0 : 1)
        }).pipe(Effect.scoped, quiet),
      30_000
    )
  }

  it.live("draws how far it has come over itself on a terminal alone", () =>
    Effect.gen(function*() {
      const args = ["check", "--store", store, "--tenant", "shop/carts"]
      const pipe = terminal(undefined)
      yield* runTo(args, { out: pipe.stream, err: pipe.stream })
      assert.notInclude(pipe.texts.join(""), "\r")
      const screen = terminal(60)
      yield* runTo(args, { out: screen.stream, err: screen.stream })
      assert.include(screen.texts.join(""), "\r")
      assert.isTrue(screen.texts.join("").endsWith("nothing is wrong\n"))
    }).pipe(quiet), 30_000)
})

import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schema, type Scope } from "effect"
import { Backend, type BackendError, DgenServer, MemoryBackend, SqliteBackend, Tenant, Transaction } from "effect-dgen"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { copy, type Place, type Progress } from "../../src/internal/cli/copy.ts"
import * as Bars from "../../src/internal/cli/progress.ts"
import { forEachPart } from "../../src/internal/cli/rows.ts"
import { copyKey } from "../../src/internal/tenant/layout.ts"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"
import { within } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"

const folder = temporaryFolder()

const build = (layer: Layer.Layer<Backend.Backend, BackendError.BackendError>) =>
  Effect.map(Layer.build(Layer.fresh(layer)), (context) => Context.get(context, Backend.Backend))

const place = (backend: Backend.Backend["Service"], name: string, ...names: ReadonlyArray<string>): Place => ({
  backend,
  path: names,
  name
})

/** Runs on a tenant of a backend. */
const inTenant = <A, E>(at: Place, effect: Effect.Effect<A, E, Tenant.Tenant | Scope.Scope>) =>
  Effect.scoped(effect).pipe(
    Effect.provide(Layer.fresh(Tenant.layer(at.path)).pipe(Layer.provide(Layer.succeed(Backend.Backend, at.backend))))
  )

/** Rows with short and long values, more than one part of them. */
const fill = (at: Place, rows: number) =>
  inTenant(
    at,
    Effect.forEach(
      Array.from({ length: Math.ceil(rows / 100) }, (_, i) => i * 100),
      (from) =>
        Tenant.transact(Effect.forEach(
          Array.from({ length: Math.min(100, rows - from) }, (_, i) => from + i),
          (n) => Transaction.set(["row", n], new Uint8Array(n % 50 === 0 ? 20_000 : n % 300).fill(n))
        )),
      { discard: true }
    )
  )

/** All rows of a tenant as hex, without what is the processes' own. */
const rowsOf = (at: Place) =>
  Effect.gen(function*() {
    const rows: Array<readonly [string, string]> = []
    const prefix = yield* at.backend.directory.open(at.path)
    yield* forEachPart(at.backend, prefix, undefined, (part) =>
      Effect.sync(() => {
        for (const row of part) {
          rows.push([Buffer.from(row.key).toString("hex"), Buffer.from(row.value).toString("hex")])
        }
      }))
    return rows
  })

const quiet = { restart: false, progress: () => Effect.void }

const messageOf = <A, R>(effect: Effect.Effect<A, { readonly message: string }, R>) =>
  Effect.map(Effect.flip(effect), (error) => error.message)

describe("copy", () => {
  it.live("gives the target the source's rows, between stores of different kinds, and leaves nothing else", () =>
    Effect.gen(function*() {
      const memory = place(yield* build(MemoryBackend.layer), "memory", "a")
      const file = place(
        yield* build(SqliteBackend.layer({ filename: path.join(folder, "kinds.db") })),
        "file",
        "b",
        "c"
      )
      // another tenant first, so that the prefixes differ
      yield* fill(place(file.backend, "other", "other"), 3)
      yield* fill(memory, 2_500)
      const sum = yield* copy(memory, file, quiet)
      assert.deepStrictEqual(yield* rowsOf(file), yield* rowsOf(memory))
      assert.strictEqual(sum.rows, 2_500)
      const prefix = yield* file.backend.directory.open(file.path)
      assert.strictEqual(yield* within(file.backend, (driver) => driver.get(copyKey(prefix))), undefined)
      // and back
      const back = place(memory.backend, "back", "d")
      assert.deepStrictEqual(yield* copy(file, back, quiet), sum)
    }).pipe(Effect.scoped))

  it.live("goes on where it was broken off", () =>
    Effect.gen(function*() {
      const from = place(yield* build(MemoryBackend.layer), "from", "a")
      const to = place(yield* build(MemoryBackend.layer), "to", "a")
      yield* fill(from, 3_000)
      const breakAt = (rows: number) => (progress: Progress) =>
        progress.phase === "copying" && progress.rows >= rows ? Effect.interrupt : Effect.void
      const seen: Array<number> = []
      for (const rows of [1, 800, 2_000]) {
        const exit = yield* Effect.exit(copy(from, to, { restart: false, progress: breakAt(rows) }))
        assert.isTrue(Exit.isFailure(exit))
        seen.push((yield* rowsOf(to)).length)
      }
      assert.deepStrictEqual(seen, [...new Set(seen)].sort((a, b) => a - b))
      const copied: Array<number> = []
      yield* copy(from, to, {
        restart: false,
        progress: (progress) => Effect.sync(() => progress.phase === "copying" && copied.push(progress.rows))
      })
      assert.isAbove(copied[0]!, seen[2]!)
      assert.deepStrictEqual(yield* rowsOf(to), yield* rowsOf(from))
    }).pipe(Effect.scoped))

  it.live("refuses a target that holds something, and begins anew when it is told to", () =>
    Effect.gen(function*() {
      const from = place(yield* build(MemoryBackend.layer), "from", "a")
      const to = place(yield* build(MemoryBackend.layer), "to", "a")
      yield* fill(from, 10)
      yield* fill(to, 20)
      const before = yield* rowsOf(to)
      assert.match(yield* messageOf(copy(from, to, quiet)), /to is not empty/)
      assert.deepStrictEqual(yield* rowsOf(to), before)
      yield* copy(from, to, { ...quiet, restart: true })
      assert.deepStrictEqual(yield* rowsOf(to), yield* rowsOf(from))
    }).pipe(Effect.scoped))

  it.live("does not go on with the unfinished copy of another source", () =>
    Effect.gen(function*() {
      const from = place(yield* build(MemoryBackend.layer), "from", "a")
      const other = place(from.backend, "other", "b")
      const to = place(yield* build(MemoryBackend.layer), "to", "a")
      yield* fill(from, 500)
      yield* fill(other, 500)
      yield* Effect.exit(copy(from, to, {
        restart: false,
        progress: ({ phase }) => phase === "copying" ? Effect.interrupt : Effect.void
      }))
      assert.match(yield* messageOf(copy(other, to, quiet)), /unfinished copy of from/)
    }).pipe(Effect.scoped))

  it.live("never deletes its own source, whatever the two are called", () =>
    Effect.gen(function*() {
      const filename = path.join(folder, "same.db")
      const from = place(yield* build(SqliteBackend.layer({ filename })), "one name", "a")
      const to = place(yield* build(SqliteBackend.layer({ filename })), "another name", "a")
      yield* fill(from, 10)
      assert.match(yield* messageOf(copy(from, to, { ...quiet, restart: true })), /one tenant of one store/)
      assert.strictEqual((yield* rowsOf(from)).length, 10)
    }).pipe(Effect.scoped))

  it.live("fails when something writes meanwhile, on either side", () =>
    Effect.gen(function*() {
      const from = place(yield* build(MemoryBackend.layer), "from", "a")
      yield* fill(from, 1_000)
      for (const side of ["from", "to"] as const) {
        const to = place(yield* build(MemoryBackend.layer), "to", "a")
        const write = inTenant(
          side === "from" ? from : to,
          Tenant.transact(Transaction.set([side], new Uint8Array(1)))
        )
        let wrote = false
        const progress = ({ phase }: Progress) => {
          if (wrote || phase !== "copying") return Effect.void
          wrote = true
          return Effect.orDie(write)
        }
        assert.match(
          yield* messageOf(copy(from, to, { restart: false, progress })),
          /something wrote to one of them meanwhile/
        )
      }
    }).pipe(Effect.scoped))

  it.live("says that there is nothing to copy", () =>
    Effect.gen(function*() {
      const from = place(yield* build(MemoryBackend.layer), "from", "nowhere")
      const to = place(yield* build(MemoryBackend.layer), "to", "a")
      assert.match(yield* messageOf(copy(from, to, quiet)), /from holds nothing/)
    }).pipe(Effect.scoped))

  it.live("keeps the order of messages that wait, before those of the target", () =>
    Effect.gen(function*() {
      const from = place(yield* build(MemoryBackend.layer), "from", "a")
      const to = place(yield* build(MemoryBackend.layer), "to", "a")
      // versions that the target would not reach by itself
      yield* from.backend.advance!(1_000_000_000_000n)
      const serve = <A, E>(
        at: Place,
        consume: boolean,
        use: (server: Ledger["Service"]) => Effect.Effect<A, E, Scope.Scope>
      ) =>
        inTenant(
          at,
          Effect.flatMap(
            Ledger.start(ledger(), { tuid: ["Ledger"], consume }).pipe(Effect.provide(ledgerActions())),
            (server) => use(server as never)
          )
        )
      const waiting = Array.from({ length: 20 }, (_, i) => `old ${i}`)
      yield* serve(from, false, (server) =>
        Effect.forEach(waiting, (item) =>
          server.cast("Record", { item }), { discard: true }))
      yield* copy(from, to, quiet)
      yield* serve(to, false, (server) =>
        server.cast("Record", { item: "new" }))
      const items = yield* serve(to, true, (server) => server.call("Items"))
      assert.deepStrictEqual(items, [...waiting, "new"])
    }).pipe(Effect.scoped))
})

describe("the progress bar", () => {
  it("is drawn over itself on a terminal, and written in tenths elsewhere", () => {
    const draw = (isTTY: boolean) => {
      let text = ""
      const bar = Bars.make({ isTTY, write: (more) => (text += more) })
      for (let rows = 0; rows <= 1_000; rows += 10) {
        Effect.runSync(bar.show({ phase: "copying", rows, bytes: rows * 1_000, totalRows: 1_000 }))
      }
      Effect.runSync(bar.end)
      return text
    }
    const terminal = draw(true)
    assert.isTrue(terminal.endsWith("\n"))
    assert.strictEqual(terminal.split("\n").length, 2)
    assert.include(terminal, `[${"#".repeat(30)}] 100 %  1,000 rows, 1.0 MB`)
    const lines = draw(false).trim().split("\n")
    assert.strictEqual(lines.length, 11)
    assert.match(lines[5]!, /\[#{15}-{15}\] {2}50 %/)
  })
})

class Note extends DgenServer.Service<Note>()("Note", {
  state: Schema.Struct({ text: Schema.String }),
  messages: { Read: DgenServer.call({ success: Schema.String }) }
}) {}

describe("the program effect-dgen", () => {
  const main = path.join(import.meta.dirname, "../../src/internal/cli/main.ts")

  interface Ended {
    readonly code: number | null
    readonly out: string
    readonly err: string
  }
  /** Runs the program; `kill` is called with what it has shown so far. */
  const program = (args: ReadonlyArray<string>, kill: (shown: string) => boolean = () => false) =>
    Effect.callback<Ended>((resume) => {
      const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "pipe"] })
      let out = ""
      let err = ""
      child.stdout.on("data", (chunk) => out += chunk)
      child.stderr.on("data", (chunk) => {
        err += chunk
        if (kill(err)) child.kill("SIGKILL")
      })
      child.on("close", (code) => resume(Effect.succeed({ code, out, err })))
      return Effect.sync(() => child.kill("SIGKILL"))
    })

  it.live("copies a server between files, killed on the way and run again", () =>
    Effect.gen(function*() {
      const [source, target] = [path.join(folder, "source.db"), path.join(folder, "target.db")]
      const behaviour = Note.behaviour({
        init: Effect.succeed({ text: "kept" }),
        handlers: { Read: (_, state) => DgenServer.reply(state.text, state) }
      })
      const from = yield* build(SqliteBackend.layer({ filename: source }))
      const at = place(from, "source", "my-app", "notes")
      yield* inTenant(at, Note.start(behaviour, { tuid: ["note"] }))
      yield* fill(at, 20_000)
      const args = ["copy", "--from", `sqlite:${source}`, "--to", `sqlite:${target}`, "--tenant", "my-app/notes"]
      const killed = yield* program(args, (shown) => /copying .*\d0 %/.test(shown))
      assert.strictEqual(killed.code, null)
      assert.match(killed.err, /copying/)
      const again = yield* program(args)
      assert.strictEqual(again.code, 0, again.err)
      assert.match(again.out, /^copied and verified 2\d{4} rows, \d+ bytes, sha256 [0-9a-f]{64}\n$/)
      const to = place(yield* build(SqliteBackend.layer({ filename: target })), "target", "my-app", "notes")
      assert.deepStrictEqual(yield* rowsOf(to), yield* rowsOf(at))
      const text = yield* inTenant(
        to,
        Effect.flatMap(Note.start(behaviour, { tuid: ["note"] }), (server) => server.call("Read"))
      )
      assert.strictEqual(text, "kept")
    }).pipe(Effect.scoped), 120_000)

  for (
    const [title, args, says] of [
      ["no command", [], /name a command/],
      ["an unknown command", ["move"], /no command "move"/],
      ["an unknown option", ["copy", "--form", "x"], /--form/],
      ["no source", ["copy", "--to", "sqlite:a.db", "--tenant", "a"], /--from must be sqlite:FILE/],
      ["a source that does not exist", ["copy", "--from", "sqlite:/nowhere.db"], /nowhere\.db does not exist/],
      ["a store of no kind", ["copy", "--from", `sqlite:${main}`, "--to", "redis:1"], /--to must be .*redis/],
      ["no tenant", ["copy", "--from", `sqlite:${main}`, "--to", "foundationdb:"], /--tenant/],
      [
        "an empty name",
        ["copy", "--from", `sqlite:${main}`, "--to", "foundationdb:", "--tenant", "a//b"],
        /--tenant must be one or more names/
      ]
    ] as const
  ) {
    it.live(`with ${title} explains itself and opens nothing`, () =>
      Effect.gen(function*() {
        const { code, err, out } = yield* program(args)
        assert.deepStrictEqual([code, out], [2, ""])
        assert.match(err, says)
        assert.include(err, "--to-tenant")
      }))
  }
})

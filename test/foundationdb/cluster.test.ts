import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Schedule } from "effect"
import { Backend, FoundationDbBackend, MemoryBackend, Tenant, Transaction, Tuple } from "effect-dgen"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { findFoundationDb } from "../../scripts/foundationDb.mjs"
import { copy } from "../../src/internal/cli/copy.ts"
import { importPackage } from "../../src/internal/foundationdb/package.ts"
import { Ledger, ledger, ledgerActions } from "../suites/server/ledger.ts"
import { bytes, commit, get, outcome, put, within, write } from "../support/driver.ts"
import { temporaryFolder } from "../support/temporary.ts"
import { onFoundationDb } from "./support.ts"
import { startCluster } from "./throwawayCluster.ts"

const folder = temporaryFolder()

interface Ended {
  readonly code: number | null
  readonly out: string
}

/** Far more than the callbacks that the client library's thread can hand over while nobody takes them. */
const MANY = 300

/** Runs a process on a cluster file to its own end. */
const child = (clusterFile: string, args: ReadonlyArray<string> = [], env: NodeJS.ProcessEnv = process.env) =>
  Effect.callback<Ended>((resume) => {
    const script = path.join(import.meta.dirname, "child.ts")
    const running = spawn(process.execPath, [script, clusterFile, ...args], {
      stdio: ["ignore", "pipe", "ignore"],
      env
    })
    let out = ""
    running.stdout.on("data", (chunk) => out += chunk)
    running.on("close", (code) => resume(Effect.succeed({ code, out })))
    return Effect.sync(() => running.kill("SIGKILL"))
  })

onFoundationDb(
  "FoundationDbBackend on a cluster",
  (layer, clusterFile) =>
    describe("FoundationDbBackend on a cluster", () => {
      const build = Effect.map(Layer.build(Layer.fresh(layer)), (context) => Context.get(context, Backend.Backend))

      it.live("a process ends by itself when its layer is closed, with a watch that was armed", () =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* child(clusterFile), { code: 0, out: "ready\nclosed\n" })
        }))

      it.live("a process that dies of an error in the middle of some transactions ends as other processes do", () =>
        Effect.gen(function*() {
          for (let i = 0; i < 10; i++) {
            assert.deepStrictEqual(yield* child(clusterFile, ["10 seconds", "5"]), { code: 1, out: "ready\n" })
          }
        }))

      it.live("a process that dies of an error in the middle of many transactions is gone at once", () =>
        Effect.gen(function*() {
          for (let i = 0; i < 4; i++) {
            const { code, out } = yield* child(clusterFile, ["10 seconds", String(MANY)])
            assert.strictEqual(out, "ready\n")
            // a signal gives no code
            assert.include([1, null], code)
          }
        }))

      it.live("where no cluster answers, the layer fails within its time, and the process ends", () =>
        Effect.gen(function*() {
          const dead = path.join(folder, "dead.cluster")
          fs.writeFileSync(dead, "test:test@127.0.0.1:1")
          const started = performance.now()
          const { code, out } = yield* child(dead, ["500 millis"])
          assert.match(out, /^Unavailable: .*no cluster answered within 500 ms.*dead\.cluster/)
          assert.strictEqual(code, 0)
          assert.isBelow(performance.now() - started, 10_000)
        }))

      it.live("a cluster file that is none is refused", () =>
        Effect.gen(function*() {
          const none = path.join(folder, "none.cluster")
          fs.writeFileSync(none, "this is no cluster file\n")
          assert.match((yield* child(none)).out, /^InvalidArgument: .*description:id@/)
        }))

      if (findFoundationDb().library !== undefined) {
        it.live("without the client library the layer says what to install", () =>
          Effect.gen(function*() {
            const env = { ...process.env, LD_LIBRARY_PATH: "", DYLD_LIBRARY_PATH: "" }
            assert.match((yield* child(clusterFile, [], env)).out, /^ClientMissing: .*libfdb_c/)
          }))
      }

      it.live("a tenant is a directory that other bindings find, and a partition is refused", () =>
        Effect.gen(function*() {
          const backend = yield* build
          const fdb: any = yield* Effect.promise(importPackage)
          const db = fdb.open(clusterFile)
          const prefix = yield* backend.directory.open(["interop", "a"])
          assert.deepStrictEqual(yield* backend.directory.open(["interop", "a"]), prefix)
          const roots: ReadonlyArray<Buffer> = yield* Effect.promise((): Promise<any> => fdb.directory.listAll(db, []))
          const found: Array<Uint8Array> = []
          for (const name of roots.map(String)) {
            const at = [name, "interop", "a"]
            if (yield* Effect.promise(() => fdb.directory.exists(db, at))) {
              const opened: any = yield* Effect.promise(() => fdb.directory.open(db, at))
              found.push(new Uint8Array(opened.getSubspace().prefix))
              yield* Effect.promise(() => fdb.directory.create(db, [name, "interop", "p"], "partition"))
            }
          }
          assert.deepStrictEqual(found, [prefix])
          assert.strictEqual(yield* outcome(backend.directory.open(["interop", "p"])), "InvalidArgument")
          assert.isTrue(yield* backend.directory.remove(["interop"]))
          assert.isFalse(yield* backend.directory.remove(["interop"]))
          db.close()
        }).pipe(Effect.scoped))

      it.live("a watch fires for a commit through another connection", () =>
        Effect.gen(function*() {
          const [one, two] = [yield* build, yield* build]
          const prefix = Buffer.from(yield* one.directory.open(["watch"])).toString("latin1")
          const fired = yield* Effect.forkChild(
            Effect.callback<void>((resume) => {
              const watch = {
                key: bytes(`${prefix}w`),
                fire: () => resume(Effect.void),
                fail: () => {},
                onCancel: undefined
              }
              Effect.runFork(Effect.andThen(
                within(one, (driver) => commit(driver, [], { watches: [watch] })),
                write(two, put(`${prefix}w`, "1"))
              ))
            })
          )
          yield* Fiber.join(fired)
        }).pipe(Effect.scoped))

      it.live("a versionstamp is the same in the answer, in a key and in a value, and greater than every read version", () =>
        Effect.gen(function*() {
          const backend = yield* build
          const prefix = yield* backend.directory.open(["stamps"])
          const before = yield* within(backend, (driver) => driver.readVersion)
          const at = (name: string) => Buffer.concat([prefix, Buffer.from(name)])
          const stampedKey = Buffer.concat([at("k"), Buffer.alloc(10, 0xff), Buffer.from("end")])
          const stamp = yield* within(backend, (driver) =>
            commit(driver, [
              { op: "versionstampedKey", key: stampedKey, position: prefix.length + 1, value: bytes("v") },
              { op: "versionstampedValue", key: at("value"), value: new Uint8Array(14), position: 2 }
            ]))
          const [row] = yield* within(
            backend,
            (driver) => driver.getRange(at("k"), at("l"), { limit: 2, reverse: false })
          )
          assert.deepStrictEqual(row!.key.subarray(prefix.length + 1, prefix.length + 11), stamp)
          const value = yield* within(backend, (driver) => driver.get(at("value")))
          assert.deepStrictEqual(value, new Uint8Array(Buffer.concat([Buffer.alloc(2), stamp, Buffer.alloc(2)])))
          assert.isAbove(Number(Buffer.from(stamp).readBigUInt64BE() - before), 0)
        }).pipe(Effect.scoped))

      it.live("takes the largest values, keys and versionstamped values that the limits let through", () =>
        Effect.gen(function*() {
          yield* Tenant.transact(Effect.all([
            Transaction.set(["v"], new Uint8Array(100_000)),
            Transaction.set(["k".repeat(9_933)], new Uint8Array(1)),
            Transaction.setVersionstampedValue(["s"], [
              Tuple.Versionstamp.incomplete(0),
              new Uint8Array(99_981).fill(1)
            ])
          ]))
        }).pipe(Effect.provide(Tenant.layer(["limits"]).pipe(Layer.provide(layer)))))

      it.live("a tenant is copied into the cluster and out of it again, byte for byte", () =>
        Effect.gen(function*() {
          const cluster = yield* build
          const memory = Context.get(yield* Layer.build(Layer.fresh(MemoryBackend.layer)), Backend.Backend)
          yield* Tenant.transact(
            Effect.forEach(Array.from({ length: 1_000 }, (_, i) => i), (i) => Transaction.set([i], new Uint8Array(i)))
          ).pipe(
            Effect.provide(
              Layer.fresh(Tenant.layer(["source"])).pipe(Layer.provide(Layer.succeed(Backend.Backend, memory)))
            )
          )
          const options = { restart: false, progress: () => Effect.void }
          const place = (backend: Backend.Backend["Service"], name: string) => ({ backend, path: [name], name })
          const into = yield* copy(place(memory, "source"), place(cluster, "copied"), options)
          assert.strictEqual(into.rows, 1_000)
          assert.deepStrictEqual(yield* copy(place(cluster, "copied"), place(memory, "back"), options), into)
        }).pipe(Effect.scoped))

      it.live("reads many rows of a range, in both directions", () =>
        Effect.gen(function*() {
          const backend = yield* build
          const prefix = Buffer.from(yield* backend.directory.open(["rows"])).toString("latin1")
          const keys = Array.from({ length: 5_000 }, (_, i) => `${prefix}k${String(i).padStart(5, "0")}`)
          yield* write(backend, ...keys.map((key) => put(key, "v".repeat(300))))
          const read = (limit: number, reverse: boolean) =>
            within(backend, (driver) =>
              Effect.map(
                driver.getRange(bytes(`${prefix}k`), bytes(`${prefix}l`), { limit, reverse }),
                (rows) => rows.map((row) => Buffer.from(row.key).toString("latin1"))
              ))
          assert.deepStrictEqual(yield* read(Infinity, false), keys)
          assert.deepStrictEqual(yield* read(Infinity, true), [...keys].reverse())
          assert.deepStrictEqual(yield* read(3_333, true), [...keys].reverse().slice(0, 3_333))
          assert.strictEqual(yield* within(backend, (driver) => get(driver, keys[17]!)), "v".repeat(300))
        }).pipe(Effect.scoped))

      if (findFoundationDb().fdbserver !== undefined) {
        it.live("a cluster that is killed under its servers, again and again, loses and doubles nothing", () =>
          Effect.gen(function*() {
            const cluster = yield* Effect.acquireRelease(
              Effect.promise(() =>
                startCluster()
              ),
              ({ stop }) => Effect.sync(stop)
            )
            yield* Effect.gen(function*() {
              const server = yield* Ledger.start(ledger(), { tuid: ["Ledger"], restart: Schedule.forever }).pipe(
                Effect.provide(ledgerActions())
              )
              const items = Array.from({ length: 150 }, (_, i) => `item ${i}`)
              let sent = 0
              const sending = yield* Effect.forkChild(Effect.forEach(items, (item, i) =>
                Effect.andThen(
                  i % 2 === 0
                    ? server.cast("Record", { item })
                    : Effect.asVoid(server.call("Append", { item }, { timeout: "2 minutes" })),
                  Effect.sync(() => void sent++)
                ), { concurrency: 8, discard: true }))
              for (const moment of [20, 60, 110]) {
                yield* Effect.repeat(Effect.sleep(5), { while: () => sent < moment })
                yield* Effect.promise(cluster.kill)
                cluster.start()
              }
              yield* Fiber.join(sending)
              const kept = yield* server.call("Items", undefined, { timeout: "2 minutes" })
              assert.deepStrictEqual([...kept].sort(), [...items].sort())
            }).pipe(
              Effect.scoped,
              Effect.provide(
                Tenant.layer(["killed"]).pipe(
                  Layer.provide(FoundationDbBackend.layer({ clusterFile: cluster.clusterFile }))
                )
              )
            )
          }).pipe(Effect.scoped, Effect.provide(Logger.layer([]))), 180_000)
      }
    })
)

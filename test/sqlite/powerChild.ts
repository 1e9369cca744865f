/**
 * Processes whose writes and syncs are recorded: `node powerChild.ts <filename> <commits> <values' bytes>` commits keys in
 * their order, many at a time, and its own child reads them. Both note in `<filename>-told` how many they told somebody of.
 */
import { Context, Effect, Layer } from "effect"
import { Backend, SqliteBackend } from "effect-dgen"
import { fork } from "node:child_process"
import * as fs from "node:fs"
import { put, range, within, write } from "../support/driver.ts"
import { nameOf } from "./support.ts"

/** Commits that are under way at one time. */
const AT_ONCE = 6

/** Long enough for some to come while others are synced. */
const PAUSE_MILLIS = 10

const [filename, commits, bytes, role] = process.argv.slice(2)

const told = fs.openSync(`${filename}-told`, "a")
const tell = (count: number) => fs.writeSync(told, `${count}\n`)

const writing = (backend: Backend.Backend["Service"]) =>
  Effect.gen(function*() {
    let next = 0
    let done = 0
    const one = Effect.suspend(() => {
      const i = next++
      return Effect.map(write(backend, put(nameOf(i), valueOf(i))), () => tell(done = Math.max(done, i + 1)))
    })
    const later = Effect.suspend(() => Effect.delay(one, Math.random() * PAUSE_MILLIS))
    yield* Effect.all(Array.from({ length: Number(commits) }, () => later), { concurrency: AT_ONCE, discard: true })
  })

const valueOf = (i: number) => String(i % 10).repeat(Number(bytes))

/** A read that writes nothing, and is told. */
const reading = (backend: Backend.Backend["Service"]) =>
  Effect.gen(function*() {
    for (let count = 0; count < Number(commits); yield* Effect.sleep(3)) {
      count = yield* within(backend, (driver) =>
        Effect.gen(function*() {
          const rows = yield* range(driver, "k", "l")
          yield* driver.commit({ mutations: [], readConflicts: [], writeConflicts: [], watches: [] }, () => {})
          return rows.length
        })).pipe(Effect.retry({ while: (error) => error.isRetryable }))
      tell(count)
    }
  })

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const backend = Context.get(yield* Layer.build(SqliteBackend.layer({ filename: filename! })), Backend.Backend)
  if (role === "reader") {
    process.send!("ready")
    return yield* reading(backend)
  }
  const reader = fork(process.argv[1]!, [filename!, commits!, bytes!, "reader"])
  yield* Effect.callback<void>((resume) => void reader.once("message", () => resume(Effect.void)))
  yield* writing(backend)
  yield* Effect.callback<void>((resume) => void reader.once("close", () => resume(Effect.void)))
})))

/**
 * Thumbnails: a job a picture, a worker that makes three sizes of each, and a progress bar that follows the jobs.
 *
 *   node --conditions=effect-dgen-source examples/thumbnails.ts [folder for the results]
 */
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Jobs, SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as path from "node:path"
import sharp from "sharp"

const WIDTHS = [64, 128, 256]

const Thumbnails = Jobs.make("thumbnails", {
  data: Schema.Struct({ source: Schema.String, folder: Schema.String, done: Schema.Number }),
  timeout: "30 seconds",
  maxAttempts: 3
})

/** Making a file twice gives the same file: a job can be run again after a crash. */
const resize = (source: string, target: string, width: number) =>
  Effect.tryPromise(() => sharp(source).resize({ width }).toFile(target))

const ThumbnailsWorker = Thumbnails.workerLayer((job, context) =>
  Effect.gen(function*() {
    const { folder, source } = job.data
    for (const [i, width] of WIDTHS.entries()) {
      yield* resize(source, path.join(folder, `${path.parse(source).name}-${width}.png`), width)
      yield* context.updateProgress((data) => ({ ...data, done: (i + 1) / WIDTHS.length }))
    }
  }), { concurrency: 2 })

const bar = (done: number) => `[${"#".repeat(Math.round(done * 20)).padEnd(20, ".")}]`
const line = (name: string, state: string, done: number) =>
  `${name.padEnd(16)} ${bar(done)} ${String(Math.round(done * 100)).padStart(3)} %  ${state}`

/** The lines of all jobs: on a terminal redrawn with each change, elsewhere printed once at the end. */
const makeDisplay = (names: ReadonlyArray<string>) => {
  const lines = names.map((name) => line(name, "pending", 0))
  const draw = () => process.stdout.write(`${lines.join("\n")}\n`)
  if (process.stdout.isTTY) draw()
  return {
    show: (index: number, state: string, done: number) => {
      lines[index] = line(names[index]!, state, done)
      if (!process.stdout.isTTY) return
      process.stdout.write(`\u001b[${lines.length}A`)
      draw()
    },
    end: () => process.stdout.isTTY ? undefined : draw()
  }
}

const program = Effect.gen(function*() {
  const data = path.join(import.meta.dirname, "data")
  const folder = path.resolve(process.argv[2] ?? ".data/thumbnails")
  fs.mkdirSync(folder, { recursive: true })
  const names = fs.readdirSync(data).filter((name) => name.endsWith(".png")).sort()
  yield* Console.log(`${names.length} pictures, ${WIDTHS.length} thumbnails each`)

  // all jobs or none: one commit
  yield* Tenant.transact(
    Effect.forEach(
      names,
      (name) => Thumbnails.add(name, { source: path.join(data, name), folder, done: 0 }, { ifExists: "resubmit" })
    )
  )

  const display = makeDisplay(names)
  const follow = (name: string, index: number) =>
    Thumbnails.changes(name).pipe(
      Stream.takeUntil((change) => change.state === "finished" || change.state === "dead"),
      Stream.runForEach((change) => Effect.sync(() => display.show(index, change.state, change.data?.done ?? 0)))
    )
  yield* Effect.all(names.map(follow), { concurrency: "unbounded" }).pipe(Effect.provide(ThumbnailsWorker))
  display.end()
  const made = fs.readdirSync(folder).filter((name) => name.endsWith(".png"))
  yield* Console.log(`${made.length} thumbnails made`)
})

fs.mkdirSync(".data", { recursive: true })
await Effect.runPromise(program.pipe(Effect.provide(
  Tenant.layer(["demo", "thumbnails"]).pipe(
    Layer.provide(SqliteBackend.layer({ filename: process.argv[3] ?? ".data/thumbnails.db" }))
  )
)))

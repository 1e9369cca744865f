/**
 * Mails that arrive: a process is killed between the commit that places an order and the mail that confirms it, and another
 * process sends the mail, and those that stand behind it, in their order.
 *
 *   node --conditions=effect-dgen-source examples/mails/main.ts
 */
import { Console, Effect, Fiber, Queue } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { Customer, tenantIn } from "./shop.ts"

interface Mail {
  readonly id: string
  readonly to: string
  readonly text: string
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "mails-"))
const filename = path.join(folder, "mails.db")

interface Said {
  readonly ready?: true
  readonly begun?: Mail
  readonly sent?: Mail
}

/** A process, and what it says, in its order. */
const start = (pace: "slow" | "quick") =>
  Effect.map(Queue.unbounded<Said>(), (said) => {
    const child = fork(path.join(import.meta.dirname, "worker.ts"), [filename, pace], {
      execArgv: ["--conditions=effect-dgen-source", "--disable-warning=ExperimentalWarning"]
    })
    child.on("message", (message) => void Queue.offerUnsafe(said, message as Said))
    return { child, said: Queue.take(said) }
  })

const ended = (child: ChildProcess) =>
  Effect.callback<void>((resume) => void child.once("exit", () => resume(Effect.void)))

const ITEMS = ["a pen", "ink", "paper"]

const program = Effect.gen(function*() {
  const first = yield* start("slow")
  yield* first.said
  const ada = yield* Customer.client({ tuid: ["customer", "ada"] })
  for (const item of ITEMS) yield* Console.log(`ada orders ${item}: order ${yield* ada.call("Order", { item })}`)
  const { begun } = yield* first.said
  yield* Console.log(`a process is about to send "${begun!.text}", and is killed`)
  const end = yield* Effect.forkChild(ended(first.child), { startImmediately: true })
  first.child.kill("SIGKILL")
  yield* Fiber.join(end)

  const second = yield* start("quick")
  yield* second.said
  for (const [index] of ITEMS.entries()) {
    const { sent } = yield* second.said
    const note = index > 0 ? "" : sent!.id === begun!.id ? ", with the id that it had before" : ", with another id"
    yield* Console.log(`  to ${sent!.to}: ${sent!.text}${note}`)
  }
  second.child.send("finish")
  yield* ended(second.child)
}).pipe(Effect.provide(tenantIn(filename)))

await Effect.runPromise(program)
fs.rmSync(folder, { recursive: true })

/**
 * One server, three processes that consume and two that publish; again and again one of them is killed at random and
 * started anew. In the end nothing is lost, nothing is doubled, and each publisher's order is kept.
 *
 *   npm run example:cluster                                       on FDB_CLUSTER_FILE's cluster, else on a SQLite file
 *   npm run example:cluster -- foundationdb:/etc/foundationdb/fdb.cluster
 *   npm run example:cluster -- sqlite:/tmp/cluster.db 42          with the seed of the killing
 */
import { Console, Effect, Layer } from "effect"
import { Tenant } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import { join } from "node:path"
import { path, storeOf, Tally } from "./tally.ts"

const MESSAGES = 300
const PUBLISHERS = ["anna", "bert"]
const CONSUMERS = 3
const KILLS = 6
const LOOK_MILLIS = 20

const folder = fs.mkdtempSync(join(os.tmpdir(), "cluster-"))
const store = process.argv[2] ??
  (process.env.FDB_CLUSTER_FILE === undefined
    ? `sqlite:${join(folder, "cluster.db")}`
    : `foundationdb:${process.env.FDB_CLUSTER_FILE}`)
const seed = process.argv[3] === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(process.argv[3])

let state = seed
const random = (below: number): number => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
  return (state >> 8) % below
}

/** A process that is started anew when it is killed. */
interface Slot {
  readonly title: string
  readonly args: ReadonlyArray<string>
  child: ChildProcess
}

const start = (args: ReadonlyArray<string>): ChildProcess => {
  const child = fork(join(import.meta.dirname, "worker.ts"), [store, ...args], {
    execArgv: ["--conditions=effect-dgen-source", "--disable-warning=ExperimentalWarning"]
  })
  // one that nobody killed says why on its own
  child.once("exit", (code) => {
    if (code !== null && code !== 0) process.exit(1)
  })
  return child
}

const slotOf = (title: string, args: ReadonlyArray<string>): Slot => ({ title, args, child: start(args) })

const finish = (slot: Slot): Promise<void> =>
  new Promise((resolve, reject) => {
    slot.child.once("exit", (code) => code === 0 ? resolve() : reject(new Error(`${slot.title} ended with ${code}`)))
    slot.child.send("finish")
  })

const kill = (slot: Slot): Promise<void> =>
  new Promise((resolve) => {
    slot.child.once("exit", () => {
      slot.child = start(slot.args)
      resolve()
    })
    slot.child.kill("SIGKILL")
  })

const program = Effect.gen(function*() {
  const tally = yield* Tally.client()
  yield* Console.log(`${store}, seed ${seed}`)
  const slots = [
    ...Array.from({ length: CONSUMERS }, (_, i) => slotOf(`consumer ${i + 1}`, ["consumer"])),
    ...PUBLISHERS.map((name) => slotOf(`publisher ${name}`, ["publisher", name, String(MESSAGES)]))
  ]
  const total = MESSAGES * PUBLISHERS.length
  const counted = Effect.map(tally.state, (seen) => Object.values(seen?.last ?? {}).reduce((a, b) => a + b, 0))
  // the moments are numbers of counted messages, not times: fast and slow machines kill as often
  for (let i = 1; i <= KILLS; i++) {
    const moment = Math.floor((total * (i - 1)) / KILLS) + random(Math.floor(total / KILLS))
    yield* Effect.repeat(Effect.delay(counted, LOOK_MILLIS), { while: (now) => now < moment })
    const slot = slots[random(slots.length)]!
    yield* Console.log(`  ${slot.title} is killed, ${yield* counted} of ${total} messages are counted`)
    yield* Effect.promise(() => kill(slot))
  }
  yield* Effect.repeat(Effect.delay(counted, LOOK_MILLIS), { while: (now) => now < total })
  yield* Effect.promise(() => Promise.all(slots.map(finish)))
  const end = yield* tally.state
  const left = yield* tally.queueLength
  yield* Console.log(`counted in the end: ${JSON.stringify(end?.last)}, left in the queue: ${left}`)
  const faults = end?.faults ?? []
  yield* Console.log(faults.length === 0 ? "nothing lost, nothing doubled, order kept" : faults.join("\n"))
  return faults.length === 0 && left === 0
}).pipe(Effect.provide(Tenant.layer(path)))

const ok = await Effect.runPromise(
  Effect.ensuring(program, Effect.ignore(Tenant.remove(path))).pipe(
    Effect.provide(Layer.fresh(storeOf(store)))
  )
)
fs.rmSync(folder, { recursive: true })
process.exitCode = ok ? 0 : 1

/**
 * Several processes on one store that are killed with SIGKILL again and again, and what must hold then. The
 * workload and its checks are those of the simulation.
 *
 * Owner: `soak` owns the child processes; whatever way it ends, none is left. It records what they tell, in the order in
 * which each told it.
 *
 * 1. The place of a killed process is taken by another one at once, whose sender has a new name, so that ids stay unique.
 * 2. What counts is what was told before the kill: an acknowledgement that was told must be in the final state.
 * 3. The last life is a quiet one, in this process. Its clock is set forward, past every time after which a caller or a
 *    layer counts as dead, so that all that the dead left must be swept.
 */
import { Clock, Effect, Exit, Result, type Scope, Stream } from "effect"
import { type Backend, Inspect, Tenant, Transaction, Tuple } from "effect-dgen"
import { type ChildProcess, fork } from "node:child_process"
import * as path from "node:path"
import * as Heads from "../../src/internal/server/kept/head.ts"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import { SeededRandom } from "../../src/internal/simulation/random.ts"
import { processPrefix } from "../../src/internal/tenant/layout.ts"
import { type BankTold, checkBank, nudge, serveBank, settleBank } from "./bank.ts"
import { checkForeign } from "./foreign.ts"
import { check, Journal, makeTold, send, serve, type Told } from "./journal.ts"
import { LOCK_TIMEOUT, type News, type Order, type Role } from "./protocol.ts"
import { backendOf } from "./store.ts"

/** Servers of two kinds and senders of the journal, processes that do both, those of the accounts, and one beside them. */
const ROLES: ReadonlyArray<Role> = ["server", "batches", "both", "sender", "bank", "bank", "operator", "foreign"]

/** Processes that are ready to take the place of killed ones: a kill does not wait for a process to load. */
const SPARES = 3

const KILL_LEAST_MILLIS = 100
const KILL_MOST_MILLIS = 500

/** So often a process is not killed but stopped, for longer than its locks live, and goes on as if nothing had been. */
const STOPPED = 0.2
const STOP_LEAST_MILLIS = 500
const STOP_MOST_MILLIS = 2_500

/** So often a process is spared that has done nothing yet; the others are killed while they open the file. */
const SPARED = 0.9

/** What is queued when the last kill comes is handled in seconds. */
const SETTLE_LIMIT = "90 seconds"

const LOOK_MILLIS = 50

/** Longer than a silent process counts as alive, and longer than between two signs of life or two sweeps. */
const LATER_MILLIS = 26 * 60 * 60 * 1_000

/**
 * One look at the dead takes 100 of them, and the first gives some of them time to show that they live. On a server a look
 * may still be under way when the next one would begin.
 */
const sweepsFor = (lives: number): number => 24 + Math.ceil(lives / 50)

export interface Options {
  /** What `backendOf` takes. */
  readonly store: string
  /** Where processes keep what they compiled. */
  readonly folder: string
  readonly millis: number
  readonly seed: number
  readonly progress?: (report: Progress) => void
}

export interface Progress {
  readonly kills: number
  readonly acknowledged: number
}

export interface Report extends Progress {
  /** How many processes were begun. */
  readonly lives: number
  readonly applied: number
  readonly actions: number
  /** How often a process was stopped for a while. */
  readonly stops: number
  /** Fragile messages that the accounts took, and tickets that callers got. */
  readonly fragile: number
  readonly tickets: number
  readonly problems: ReadonlyArray<string>
}

/** A process that works. */
interface Worker {
  readonly child: ChildProcess
  readonly slot: number
  hasWorked: boolean
}

/** The processes, and what they told. */
class Processes {
  readonly told: Told = makeTold()
  readonly problems: Array<string> = []
  readonly bank: BankTold = { taken: new Set(), tickets: [] }
  readonly foreign = new Map<string, number>()
  readonly #workers = new Map<number, Worker>()
  /** Loaded, and waiting to be told what to be. */
  readonly #ready: Array<ChildProcess> = []
  readonly #all = new Set<ChildProcess>()
  readonly #store: string
  readonly #folder: string
  kills = 0
  stops = 0
  lives = 0
  #ended = false

  constructor({ folder, store }: Pick<Options, "folder" | "store">) {
    this.#folder = folder
    this.#store = store
    // the others load what the first one has compiled
    this.#spawn(() => {
      for (let i = 1; i < ROLES.length + SPARES; i++) this.#spawn()
    })
  }

  /** Whether every place was taken once. */
  get isComplete(): boolean {
    return this.lives >= ROLES.length
  }

  #spawn(ready = () => {}): void {
    const child = fork(path.join(import.meta.dirname, "child.ts"), [], {
      env: { ...process.env, NODE_COMPILE_CACHE: path.join(this.#folder, "compiled") },
      stdio: ["ignore", "ignore", "pipe", "ipc"]
    })
    this.#all.add(child)
    let said = ""
    child.stderr!.on("data", (chunk) => said += chunk)
    child.once("message", () => {
      this.#ready.push(child)
      this.#employ()
      ready()
    })
    child.on("close", (code, signal) => {
      this.#all.delete(child)
      if (signal !== "SIGKILL") this.problems.push(`a process ended by itself with ${code}: ${said}`)
      if (!this.#ended && this.problems.length === 0) this.#spawn()
    })
  }

  /** Gives the first free slot to a process that is ready. */
  #employ(): void {
    const slot = ROLES.findIndex((_, at) => !this.#workers.has(at))
    const child = slot === -1 || this.#ended ? undefined : this.#ready.shift()
    if (child === undefined) return
    const name = `${slot}.${this.lives++}`
    const worker: Worker = { child, slot, hasWorked: false }
    this.#workers.set(slot, worker)
    child.on("message", (news: News) => {
      worker.hasWorked = true
      this.#hear(name, news)
    })
    child.send({ store: this.#store, role: ROLES[slot]!, name } satisfies Order)
    // what it told before its end has all been heard by then
    child.on("close", () => {
      this.#workers.delete(slot)
      this.#employ()
    })
  }

  #hear(name: string, news: News): void {
    const { acknowledged, actions, order, refused } = this.told
    switch (news._tag) {
      case "Acknowledged": {
        acknowledged.set(news.id, news.answer)
        const sent = order.get(name)
        if (sent === undefined) order.set(name, [news.id])
        else sent.push(news.id)
        return
      }
      case "Refused":
        return void refused.add(news.id)
      case "Acted":
        return void actions.push(news.id)
      case "Taken":
        return void this.bank.taken.add(news.id)
      case "Ticket":
        return void this.bank.tickets.push(news.ticket)
      case "Counted":
        return void this.foreign.set(name, news.count)
    }
  }

  /** Kills one, if another is ready in its place. */
  kill(random: SeededRandom): void {
    if (this.#ready.length === 0) return
    const likely = [...this.#workers.values()].filter(({ hasWorked }) => hasWorked || !random.happens(SPARED))
    if (likely.length === 0) return
    const { child } = likely[random.between(0, likely.length - 1)]!
    if (random.happens(STOPPED)) return this.#stop(child, random.between(STOP_LEAST_MILLIS, STOP_MOST_MILLIS))
    this.kills++
    child.kill("SIGKILL")
  }

  /** Lets a process stand still for a while. */
  #stop(child: ChildProcess, millis: number): void {
    this.stops++
    child.kill("SIGSTOP")
    const timer = setTimeout(() => child.kill("SIGCONT"), millis)
    child.on("close", () => clearTimeout(timer))
  }

  /** Kills all. Ends when the last of what they told is heard. */
  get end(): Effect.Effect<void> {
    return Effect.callback((resume) => {
      this.#ended = true
      if (this.#all.size === 0) return resume(Effect.void)
      for (const child of this.#all) {
        child.on("close", () => {
          if (this.#all.size === 0) resume(Effect.void)
        })
        child.kill("SIGKILL")
      }
    })
  }
}

/** Kills until the time is over, or something is wrong. */
const havoc = (processes: Processes, { millis, progress, seed }: Options) =>
  Effect.gen(function*() {
    const random = new SeededRandom(seed)
    const isComplete = Effect.sync(() => processes.isComplete || processes.problems.length > 0)
    yield* Effect.repeat(Effect.delay(isComplete, LOOK_MILLIS), { until: (is) => is })
    const until = performance.now() + millis
    while (performance.now() < until && processes.problems.length === 0) {
      yield* Effect.sleep(random.between(KILL_LEAST_MILLIS, KILL_MOST_MILLIS))
      processes.kill(random)
      progress?.({ kills: processes.kills, acknowledged: processes.told.acknowledged.size })
    }
  })

/** This process's clock, which can be set forward. Sleeping takes the time that it takes. */
class Later {
  aheadMillis = 0

  clock(now: Clock.Clock): Clock.Clock {
    const millis = () => now.currentTimeMillisUnsafe() + this.aheadMillis
    const nanos = () => now.currentTimeNanosUnsafe() + BigInt(this.aheadMillis) * 1_000_000n
    return {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: () => now.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: now.monotonicTimeNanos,
      sleep: (duration) => now.sleep(duration)
    }
  }
}

/** All keys of the tenant as tuples after its prefix, but those that this layer has while it is open. */
const scan = Effect.gen(function*() {
  const { backend, instance, prefix } = yield* Tenant.Tenant
  const own = Buffer.from(processPrefix(prefix, instance))
  const rows = yield* Effect.acquireUseRelease(
    backend.begin,
    (driver) => driver.getRange(prefix, Tuple.strinc(prefix), { limit: Infinity, reverse: false }),
    (driver) => Effect.sync(() => driver.close())
  )
  return rows.filter(({ key }) => !own.equals(key.subarray(0, own.length)))
    // slots end with bytes that are no tuple
    .map(({ key }) => Result.getOrElse(Tuple.unpackResult(key, prefix.length), (): Tuple.Tuple => [1, "p", key]))
})

/** What a server that lives and has nothing to do has in the store. */
const BELONGS = new Set(["name", "head", "state", "push", "pop", "deads"])

/** Rows without an owner: all but the user's own key and the server at rest. */
const leftOver = Effect.map(
  scan,
  (keys) =>
    keys.filter(([area, kind, , what]) =>
      // servers stand in the list of their definition, too, and the tenant says that the lists are complete
      area !== 0 &&
      !(area === 1 &&
        (kind === "s" && BELONGS.has(String(what)) || kind === "d" && (what === "list" || what === "record") ||
          kind === "listed"))
    )
)

const shown = (key: Tuple.Tuple): string =>
  key.map((part) => part instanceof Uint8Array ? Buffer.from(part).toString("hex") : String(part)).join(" ")

/** Whether nothing is queued, no lock is held, and no message of a broken lock waits. */
const isAtRest = Effect.gen(function*() {
  const { prefix } = yield* Tenant.Tenant
  const keys = new ServerKeys(prefix, ["Journal"], { name: "", hosted: false })
  return yield* Tenant.transact(Effect.gen(function*() {
    const state = yield* Transaction.Transaction
    const { begin, end } = Tuple.range([], keys.items)
    const [items, bytes] = yield* Effect.all([state.getRange(begin, end, { limit: 1 }), state.get(keys.head)])
    if (items.length > 0 || bytes === undefined) return false
    const head = yield* Effect.fromResult(Heads.decode(bytes)).pipe(Effect.orDie)
    return head.lock === undefined && head.fenced.length === 0
  }))
})

const settle = (told: Told, later: Later, sweeps: number) =>
  Effect.gen(function*() {
    yield* Effect.forkScoped(serve(told, { lockTimeout: LOCK_TIMEOUT, consumeK: 10 }))
    yield* Effect.forkScoped(serveBank({ lockTimeout: LOCK_TIMEOUT, consumeK: 10 }))
    yield* Effect.repeat(Effect.delay(Effect.exit(nudge), LOOK_MILLIS), { until: Exit.isSuccess })
    yield* settleBank
    yield* Effect.repeat(Effect.delay(isAtRest, LOOK_MILLIS), { until: (rest) => rest })
    let left = yield* leftOver
    for (let sweep = 0; sweep < sweeps && (left.length > 0 || sweep === 0); sweep++) {
      later.aheadMillis += LATER_MILLIS
      yield* Effect.scoped(send(told, `last${sweep}`, 1))
      yield* nudge
      yield* Effect.sleep(LOOK_MILLIS)
      left = yield* leftOver
    }
    const journal = yield* Journal.client()
    const state = (yield* journal.state)!
    const length = yield* journal.queueLength
    const applied = yield* Tenant.transact(Transaction.get(["applied"]))
    return {
      state,
      length,
      accounts: yield* settleBank,
      applied: applied === undefined ? 0 : new DataView(applied.buffer, applied.byteOffset).getInt32(0, true)
    }
  }).pipe(Effect.scoped, Effect.provide(Tenant.layer(["journal"])))

/** What does not belong in the tenant. */
const foreign = Stream.runCollect(Inspect.check()).pipe(
  Effect.map((found) => Array.from(found, ({ kind, problem, subject }) => `${subject}, ${kind}: ${problem}`)),
  Effect.provide(Tenant.layer(["journal"]))
)

/** What is left when the last layer has closed too. */
const remains = Effect.provide(leftOver, Tenant.layer(["journal"]))

const inspect = (processes: Processes): Effect.Effect<Report, unknown, Backend.Backend | Scope.Scope> =>
  Effect.gen(function*() {
    const { kills, lives, told } = processes
    // what lies there when all were killed in their work belongs there, too
    const killed = yield* foreign
    const later = new Later()
    const clock = later.clock(yield* Clock.Clock)
    const settled = yield* settle(told, later, sweepsFor(lives)).pipe(
      Effect.timeoutOption(SETTLE_LIMIT),
      Effect.provideService(Clock.Clock, clock)
    )
    const { bank, stops } = processes
    const counts = {
      kills,
      lives,
      stops,
      acknowledged: told.acknowledged.size,
      actions: told.actions.length,
      fragile: bank.taken.size,
      tickets: bank.tickets.length
    }
    if (settled._tag === "None") return { ...counts, applied: 0, problems: ["the last server did not come to rest"] }
    const { accounts, applied, length, state } = settled.value
    const problems = [
      ...check(told, { applied, state }, true),
      ...checkBank(processes.bank, accounts),
      ...(yield* checkForeign(processes.foreign)),
      ...killed,
      ...(yield* foreign)
    ]
    if (counts.acknowledged < kills) {
      problems.push(`${kills} kills, and ${counts.acknowledged} messages: nothing was tested`)
    }
    if (length !== 0) problems.push(`the queue is empty, and its length is ${length}`)
    for (const key of (yield* remains).slice(0, 5)) problems.push(`a key without an owner: ${shown(key)}`)
    return { ...counts, applied: state.entries.length, problems }
  })

/** One run on a new file. */
export const soak = (options: Options): Effect.Effect<Report, unknown> =>
  Effect.gen(function*() {
    const processes = yield* Effect.acquireRelease(
      Effect.sync(() => new Processes(options)),
      (all) => all.end
    )
    yield* havoc(processes, options)
    yield* processes.end
    const report = yield* Effect.provide(inspect(processes), backendOf(options.store))
    return { ...report, problems: [...processes.problems, ...report.problems] }
  }).pipe(Effect.scoped)

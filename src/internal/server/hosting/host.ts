/**
 * A host: runs, in this process, the servers of one definition that have something to do.
 *
 * Owner: the scope of the host's layer. The turns of servers and their locked sections run in fibers of their own, which
 * the end of the scope waits for as long as `grace` allows.
 *
 * 1. A server is known while it has something to do here, or its state is kept. Each is in one place at a time: in the
 *    line, at work, aside (locked, crashed, or without room for its lock), or at rest.
 * 2. At most `concurrency` servers work at a time, a batch each; one that has more to do goes to the end of the line, and
 *    those that come back after a crash stand in a line of their own (rule H5, `line.ts`). One that is aside holds no place.
 * 3. One that is aside remembers its entry, and is taken up again when it hears of another, or when its time has come
 *    (rule H2). What is heard of a server at work is remembered until its batch has ended.
 * 4. The line is bounded: what finds no room stays an entry, and the bells go on with it when there is room.
 * 5. At most `maxLocked` locked sections run at a time; a batch ends before a message that may lock when there is no
 *    place, and its server waits for one.
 * 6. At rest a server keeps nothing but its state, for `idleTimeToLive`, and not more than `maxResident` of them; one with
 *    an action, a call or a lock under way is kept (rule H4).
 * 7. While its locked section runs, and in the pause of the restart schedule after a crash, a server is aside whatever is
 *    heard of it. A schedule that has ended begins anew after `GIVEN_UP_MILLIS`.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { TRANSACTION_LIMIT_MILLIS } from "../../../Backend.ts"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { guarded } from "../../observing/lending.ts"
import { logError, logWarning } from "../../observing/logging.ts"
import { keepRunning, report } from "../../observing/unforeseen.ts"
import type { LocalHost, Ring } from "../../tenant/hosts.ts"
import type { Behaviour, Effects, HostOptions } from "../definition/model.ts"
import { atRest } from "../handling/gauges.ts"
import type { Crash } from "../handling/handlers.ts"
import { endsWithin } from "../handling/outside.ts"
import { isEnded, make, type Server, stop, Unreadable } from "../handling/server.ts"
import { indexesOf, type IndexKeys } from "../kept/indexes.ts"
import { ServerKeys, textOfTuid } from "../kept/layout.ts"
import type { Batch } from "../running/batch.ts"
import { close } from "../running/closing.ts"
import { cancelWatches, defaultRestart, failed, paceOf, turn } from "../running/consumer.ts"
import * as Handles from "../running/handle.ts"
import { type Acquired, runLocked } from "../running/locked.ts"
import { RunsIn, runsWithin, type Within } from "../sending/within.ts"
import { Bells } from "./bells.ts"
import { sendDueTimers } from "./dueTimers.ts"
import { isInUse, type Known, newlyKnown, type Resident } from "./known.ts"
import { Life } from "./life.ts"
import { Line } from "./line.ts"
import { Resting } from "./resting.ts"

/** Servers in the line: enough to keep any `concurrency` busy while the next page is read. */
const LINE_LIMIT = 4_096

/** Whoever waits for a time looks at the clock at least so often: it can be set, and machines sleep. */
const CLOCK_LOOK_MILLIS = 60_000

/** A server whose state cannot be read is looked at again after so long, and twice as long each time. */
const UNREADABLE_FIRST_MILLIS = 1_000

/** A server whose turn ended as nobody foresaw is taken up again after so long. */
const UNFORESEEN_PAUSE_MILLIS = 1_000

/** A server whose restart schedule has ended is left alone for so long. */
const GIVEN_UP_MILLIS = 60_000

const CLOSED = "the host's scope closed"

/** What a host runs of a server: its end waits for it, and the queue waits meanwhile. */
const counted = <A, E>(server: Server, run: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    server.inFlight.enter()
    const within: Within = { place: server, holdsQueue: true, isOver: false }
    return Effect.ensuring(
      Effect.provideService(run, RunsIn, within),
      Effect.sync(() => server.inFlight.leave())
    )
  })

export interface Parts {
  readonly tenant: Tenant["Service"]
  readonly behaviour: Behaviour
  readonly effects: Effects
  readonly options: HostOptions
  readonly context: Context.Context<never>
}

export class Host implements LocalHost {
  readonly #parts: Parts
  readonly #name: string
  readonly #life: Life
  readonly #indexes: IndexKeys
  readonly #bells: Bells
  readonly #known = new Map<string, Known>()
  /** The known servers at rest whose state is kept (6). */
  readonly #resting: Resting
  readonly #line = new Line<Known>()
  /** Those that wait for a place for their lock (5). */
  readonly #unlocked = new Set<Known>()
  readonly #idle = Latch.makeUnsafe(true)
  readonly #closing = Latch.makeUnsafe(false)
  #busy = 0
  #working = 0
  #locked = 0
  #isClosed = false

  constructor(parts: Parts) {
    const { behaviour, tenant } = parts
    this.#parts = { ...parts, context: guarded(parts.context) }
    this.#name = behaviour.definition.name
    this.#resting = new Resting(parts.options, (known) => this.#forget(known))
    this.#life = Life.of(tenant)
    this.#indexes = indexesOf(tenant.prefix, this.#name)
    this.#bells = new Bells({
      tenant,
      indexes: this.#indexes,
      offer: (tuid, entry) => this.#offer(tuid, Keys.toText(entry)),
      due: (keys) => sendDueTimers(behaviour.definition, this.#indexes, keys)
    })
  }

  // --- what it hears ---

  call(
    tuid: Tuple.Tuple,
    tag: string,
    payload: unknown,
    timeoutMillis: number,
    key?: string
  ): Effect.Effect<unknown, unknown> | undefined {
    if (this.#isClosed || !this.#life.isMine(this.#name, Tuple.pack(tuid))) return undefined
    return Effect.suspend(() => {
      const { release, server } = this.hold(tuid)
      return Effect.ensuring(Handles.make(server).call(tag, payload, timeoutMillis, key), Effect.sync(release))
    })
  }

  ringing(bell: number): Ring {
    return this.#bells.ringing(bell)
  }

  wake(packed: Uint8Array, entry: Uint8Array, bell: number): boolean {
    if (this.#isClosed || !this.#life.isMine(this.#name, packed)) return false
    if (!this.#offer(Tuple.unpack(packed), Keys.toText(entry), packed)) this.#bells.missed(bell)
    return true
  }

  /** A server has something to do. Whether there was room for it, or it is not this host's. */
  #offer(tuid: Tuple.Tuple, entry: string, packed = Tuple.pack(tuid)): boolean {
    const text = Keys.toText(packed)
    const known = this.#known.get(text)
    if (known === undefined) {
      if (this.#isClosed || !this.#life.isMine(this.#name, packed)) return true
      if (this.#line.size >= LINE_LIMIT) return false
      this.#enter(newlyKnown(text, tuid, "aside"), entry)
      return true
    }
    const isNew = known.entry !== entry
    known.entry = entry
    if (known.status === "working") known.isCalled ||= isNew
    else if (known.status === "resting" || known.status === "aside" && isNew && !known.isHeld) {
      this.#enter(known, entry)
    }
    return true
  }

  /** Puts a server at the end of the line. */
  #enter(known: Known, entry: string): void {
    if (this.#isClosed) return
    known.entry = entry
    known.status = "lined"
    this.#known.set(known.text, known)
    this.#resting.delete(known)
    this.#unlocked.delete(known)
    this.#line.push(known, known.hasCrashed)
    this.#pump()
  }

  /** The hosts of the definition are others: so is the share of this one. */
  #shareChanged(): void {
    for (const known of this.#resting.servers) {
      if (!isInUse(known) && !this.#life.isMine(this.#name, Tuple.pack(known.tuid))) this.#forget(known)
    }
    this.#bells.lookAgain()
  }

  // --- what it does ---

  /** Lets servers of the line work while there are places (2). */
  #pump(): void {
    while (!this.#isClosed && this.#working < this.#parts.options.concurrency) {
      const known = this.#line.take()
      if (known === undefined) return
      known.status = "working"
      known.isCalled = false
      this.#working++
      this.#run(
        Effect.ensuring(
          Effect.catchCause(this.#work(known), (cause) =>
            Effect.andThen(
              Effect.sync(() => this.#setAside(known, UNFORESEEN_PAUSE_MILLIS)),
              report("hosts", `${this.#name} ${textOfTuid(known.tuid)}: its turn ended unexpectedly`, cause)
            )),
          Effect.sync(() => {
            this.#working--
            this.#pump()
            if (this.#line.size < LINE_LIMIT / 2) this.#bells.call()
          })
        )
      )
    }
  }

  /** Runs in the background; the end of the host waits for it. */
  #run(effect: Effect.Effect<void>): void {
    this.#busy++
    this.#idle.closeUnsafe()
    const run = Effect.ensuring(
      Effect.catchCause(effect, (cause) => report("hosts", `${this.#name}: a host met what nobody foresaw`, cause)),
      Effect.sync(() => {
        if (--this.#busy === 0) this.#idle.openUnsafe()
      })
    )
    Effect.runForkWith(this.#parts.context)(run)
  }

  /** One batch of a server, and where the server goes after it. */
  #work(known: Known): Effect.Effect<void> {
    return Effect.suspend(() => {
      const resident = this.#residentOf(known)
      const { pace, server } = resident
      pace.mayRest = true
      pace.mayLock = this.#locked < this.#parts.options.maxLocked
      return Effect.flatMap(
        Effect.exit(
          counted(server, turn(server, pace, (acquired) => this.#section(known, resident, acquired)))
        ),
        (exit) => Exit.isSuccess(exit) ? this.#settle(known, resident, exit.value) : this.#failed(known, resident, exit)
      )
    })
  }

  #settle(known: Known, resident: Resident, batch: Batch): Effect.Effect<void> {
    return Effect.sync(() => {
      known.hasCrashed = false
      resident.step = undefined
      resident.unreadableMillis = UNREADABLE_FIRST_MILLIS
      if (isEnded(resident.server)) known.resident = undefined
      switch (batch._tag) {
        case "Idle":
          cancelWatches(batch)
          return this.#setAside(known, batch.dueMillis)
        case "Foreign":
          return this.#rest(known)
        case "Full":
          known.status = "aside"
          this.#unlocked.add(known)
          return this.#locked < this.#parts.options.maxLocked ? this.#admit() : undefined
        case "Done":
        case "Empty":
          if (batch._tag === "Done" && batch.acquired !== undefined) return this.#setAside(known, Infinity)
          return batch.rests && !known.isCalled ? this.#rest(known) : this.#enter(known, known.entry)
        default:
          return this.#enter(known, known.entry)
      }
    })
  }

  /** Sets a server aside until its time has come, or it hears of another entry (3). */
  #setAside(known: Known, millis: number): void {
    if (known.isCalled && !known.isHeld) return this.#enter(known, known.entry)
    known.status = "aside"
    if (millis === Infinity) return
    const { entry } = known
    this.#sleep(Math.min(millis, CLOCK_LOOK_MILLIS), () => {
      if (known.status === "aside" && known.entry === entry) this.#enter(known, entry)
    })
  }

  #sleep(millis: number, then: () => void): void {
    Effect.runForkWith(this.#parts.context)(
      Effect.raceFirst(
        Effect.andThen(Effect.sleep(Math.max(1, millis)), Effect.sync(then)),
        this.#closing.await
      )
    )
  }

  #failed(
    known: Known,
    resident: Resident,
    exit: Exit.Failure<unknown, Crash | Unreadable | BackendError>
  ): Effect.Effect<void> {
    const error = exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error
    if (error instanceof Unreadable) {
      const pause = resident.unreadableMillis
      resident.unreadableMillis = Math.min(CLOCK_LOOK_MILLIS, pause * 2)
      return Effect.andThen(
        logError(`${resident.server.name}: its state cannot be read, it is tried again`, error.error),
        Effect.sync(() => this.#setAside(known, pause))
      )
    }
    return Effect.gen({ self: this }, function*() {
      known.isHeld = true
      known.hasCrashed = true
      known.status = "aside"
      yield* counted(resident.server, failed(resident.server, resident.pace, exit.cause))
      // a place is held by who works, and not by who waits
      this.#run(Effect.andThen(this.#pause(resident, "step", exit.cause), Effect.sync(() => this.#letGo(known))))
    })
  }

  /** What held a server is over (7). */
  #letGo(known: Known): void {
    known.isHeld = false
    if (known.status === "aside") this.#enter(known, known.entry)
  }

  /** The locked section of a server: it holds a place for locks, and none of those who work (2, 5). */
  #section(known: Known, resident: Resident, acquired: Acquired): Effect.Effect<void> {
    return Effect.sync(() => {
      const { server } = resident
      known.holds++
      known.isHeld = true
      this.#locked++
      const section = Effect.catchCause(
        counted(server, runLocked(server, acquired)),
        (cause) => Effect.as(logWarning(`${server.name}: the end of a lock could not be written`, cause), undefined)
      )
      this.#run(Effect.flatMap(section, (ended) => {
        known.holds--
        this.#locked--
        this.#admit()
        const pause = ended?._tag === "Crashed" ? this.#pause(resident, "lockStep", ended.cause) : Effect.void
        if (ended?._tag === "Answered") resident.lockStep = undefined
        return Effect.ensuring(pause, Effect.sync(() => this.#letGo(known)))
      }))
    })
  }

  /** The pause after a crash (7). */
  #pause(resident: Resident, of: "step" | "lockStep", cause: Cause.Cause<unknown>): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const step = resident[of] ??= yield* Schedule.toStepWithSleep(this.#parts.options.restart ?? defaultRestart)
      const closing = this.#closing.await
      const exit = yield* Effect.exit(Effect.raceFirst(Effect.exit(step(Cause.squash(cause))), closing))
      const hasEnded = Exit.isFailure(exit) || exit.value !== undefined && Exit.isFailure(exit.value)
      if (!hasEnded || this.#isClosed) return
      resident[of] = undefined
      yield* logError(`${resident.server.name}: the restart schedule has ended, it begins anew in a minute`)
      yield* Effect.raceFirst(Effect.sleep(GIVEN_UP_MILLIS), closing)
    })
  }

  /** Lets one who waits for a place for its lock try again. */
  #admit(): void {
    for (const known of this.#unlocked) {
      if (this.#locked >= this.#parts.options.maxLocked) return
      return this.#enter(known, known.entry)
    }
  }

  // --- what it keeps ---

  #residentOf(known: Known): Resident {
    const { behaviour, context, effects, options, tenant } = this.#parts
    if (known.resident !== undefined && !isEnded(known.resident.server)) return known.resident
    const { definition } = behaviour
    const keys = new ServerKeys(tenant.prefix, known.tuid, definition)
    const server = make({
      definition,
      behaviour,
      effects,
      options: { ...options, tuid: known.tuid },
      tenant,
      tuid: known.tuid,
      keys,
      context,
      isHosted: true
    })
    return known.resident = {
      server,
      pace: paceOf(server, Effect.runSyncWith(context)(Clock.Clock).currentTimeMillisUnsafe()),
      step: undefined,
      lockStep: undefined,
      unreadableMillis: UNREADABLE_FIRST_MILLIS,
      usedMillis: 0
    }
  }

  /** A server has nothing to do: its state stays for a while (6). */
  #rest(known: Known): void {
    known.status = "resting"
    if (known.resident === undefined) return this.#forget(known)
    atRest(known.resident.server)
    this.#resting.add(known, Effect.runSyncWith(this.#parts.context)(Clock.Clock))
  }

  /** Keeps nothing of a server at rest. */
  #forget(known: Known): void {
    this.#resting.delete(known)
    this.#known.delete(known.text)
    if (known.resident !== undefined) stop(known.resident.server, "its state is kept no longer")
  }

  /** A server for what goes past its queue, held until `release`; `undefined` where another host works on it first. */
  hold(tuid: Tuple.Tuple): { readonly server: Server; readonly release: () => void } {
    const packed = Tuple.pack(tuid)
    const text = Keys.toText(packed)
    let known = this.#known.get(text)
    if (known === undefined) {
      known = newlyKnown(text, tuid, "resting")
      this.#known.set(text, known)
    }
    const held = known
    held.holds++
    return {
      server: this.#residentOf(held).server,
      release: () => {
        held.holds--
        if (held.status === "resting") this.#rest(held)
      }
    }
  }

  get definition(): Behaviour["definition"] {
    return this.#parts.behaviour.definition
  }

  get tenant(): Tenant["Service"] {
    return this.#parts.tenant
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  // --- its life ---

  /** Hosts from now on, until it is closed; what listens ends with the scope. */
  get open(): Effect.Effect<void, never, Scope.Scope> {
    return Effect.gen({ self: this }, function*() {
      yield* this.#life.join(this.#name, () => this.#shareChanged())
      yield* Effect.forkScoped(keepRunning("hosts", `${this.#name}: the host's bells`, this.#bells.listen))
      yield* Effect.forkScoped(keepRunning("hosts", `${this.#name}: the host's sweep`, this.#resting.sweep))
    })
  }

  /** Takes nothing more, and waits for what runs: the end of the host. */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#isClosed = true
      this.#closing.openUnsafe()
      const busy: Array<Server> = []
      for (const { resident } of this.#known.values()) {
        if (resident === undefined) continue
        if (resident.server.inFlight.isIdle) stop(resident.server, CLOSED)
        else busy.push(resident.server)
      }
      // what a server of the host runs does not wait for its own end
      const isOwn = Effect.map(Effect.forEach(busy, runsWithin), (own) => own.includes(true))
      return Effect.flatMap(isOwn, (own) =>
        Effect.all([
          // each of them in bounded time; what else runs waits for nothing but a transaction
          Effect.forEach(busy, (server) => close(server, CLOSED), { concurrency: "unbounded", discard: true }),
          own ? Effect.void : endsWithin(this.#idle.await, TRANSACTION_LIMIT_MILLIS),
          this.#life.leave(this.#name)
        ], { discard: true }))
    })
  }
}

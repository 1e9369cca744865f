/**
 * One server as this process runs it: what its parts share.
 *
 * Owner: a start (`running/start.ts`) or a host makes it, and its scope ends it. The consumer fiber, inline calls and
 * priority messages use it.
 *
 * 1. `cache` is the state as a read of the store would give it, under the version that the store had with it. It is
 *    used only where the store still has that version. Versions are unique to the try that wrote them, so an entry
 *    whose commit failed is never met again (rule R17).
 * 2. `inline` has one permit: inline calls of this process go one after another, each from the moment it reads until
 *    later ones read what it wrote.
 * 3. `ended` is done once; from then on no message is taken and no call of this handle waits. `expired` is done when the
 *    grace period after that is over: then nothing of a user's goes on (`running/closing.ts`).
 */
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Semaphore from "effect/Semaphore"
import * as StateCodec from "../../../StateCodec.ts"
import type { Tenant } from "../../../Tenant.ts"
import type { Transaction } from "../../../Transaction.ts"
import type * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { messageOfThrown } from "../../data/thrown.ts"
import { logError } from "../../observing/logging.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { ServerKilled, ServerStopped } from "../definition/errors.ts"
import type { Behaviour, Definition, Effects, Options } from "../definition/model.ts"
import * as Heads from "../kept/head.ts"
import { identityOf, type ServerKeys } from "../kept/layout.ts"
import { Outdated, readState, writeHead, writeName } from "../kept/state.ts"
import { atRest } from "./gauges.ts"
import { metricsOf, type ServerMetrics } from "./metrics.ts"
import type { PureRunner } from "./purity.ts"

type Stored = StateCodec.Stored<unknown>

/** What the parts of a running server share. */
export interface Server {
  readonly definition: Definition
  /** Its definition's name and its tuid, for people to read. */
  readonly name: string
  readonly behaviour: Behaviour
  readonly effects: Effects
  readonly options: Options
  readonly tenant: Tenant["Service"]
  readonly tuid: Tuple.Tuple
  readonly keys: ServerKeys
  readonly codec: StateCodec.StateCodec<unknown>
  readonly inFlight: InFlight
  /** What the server was started in: for its metrics. */
  readonly context: Context.Context<never>
  /** Whether a host runs it: any message makes it, and its entry says that it has something to do. */
  readonly isHosted: boolean
  readonly inline: Semaphore.Semaphore
  readonly metrics: ServerMetrics
  readonly ended: Deferred.Deferred<End>
  readonly expired: Deferred.Deferred<void>
  /** Whether the grace period has begun. */
  isClosing: boolean
  cache: Saved | undefined
  /** When the first key of a started server ends, as far as its consumer knows. */
  keysDueMillis: number
  /** Ends the wait of a consumer that has nothing to do. */
  wakeIdle: (() => void) | undefined
}

/** Why a handle takes no messages any more. */
export interface End {
  readonly reason: string
  readonly killed: boolean
}

/**
 * What runs of a handle: its consumer, and messages past the queue. The scope waits for them itself, because it waits for
 * a bounded time, and a fiber belongs to a scope only when its first step has returned, which can be what closes it.
 */
class InFlight {
  #count = 0
  readonly #idle = Latch.makeUnsafe(true)

  enter(): void {
    if (this.#count++ === 0) this.#idle.closeUnsafe()
  }

  leave(): void {
    if (--this.#count === 0) this.#idle.openUnsafe()
  }

  get isIdle(): boolean {
    return this.#count === 0
  }

  /** Ends when none runs. */
  get idle(): Effect.Effect<void> {
    return this.#idle.await
  }
}

/** A server from its parts. */
export const make = (
  parts: Omit<
    Server,
    | "name"
    | "codec"
    | "inFlight"
    | "inline"
    | "metrics"
    | "ended"
    | "expired"
    | "isClosing"
    | "cache"
    | "keysDueMillis"
    | "wakeIdle"
  >
): Server => ({
  ...parts,
  name: `${parts.definition.name} ${parts.keys.tuidText}`,
  codec: StateCodec.make(parts.definition.state),
  inFlight: new InFlight(),
  inline: Semaphore.makeUnsafe(1),
  metrics: metricsOf(parts.definition.name),
  ended: Deferred.makeUnsafe<End>(),
  expired: Deferred.makeUnsafe<void>(),
  isClosing: false,
  cache: undefined,
  keysDueMillis: Infinity,
  wakeIdle: undefined
})

const end = (server: Server, why: End): void => {
  if (!Deferred.doneUnsafe(server.ended, Exit.succeed(why))) return
  atRest(server)
  server.wakeIdle?.()
}

/** Stops a server's handle, once (3). */
export const stop = (server: Server, reason: string): void => end(server, { reason, killed: false })

/** Ends a server's handle whose state is gone, once (3). */
export const gone = (server: Server): void => end(server, { reason: "the server was killed", killed: true })

/** Stops a server's handle whose state cannot be read: no message is to blame (rule R16). */
export const stopUnreadable = (server: Server, { error }: Unreadable): Effect.Effect<void> =>
  Effect.andThen(
    logError(`${server.name}: stops, because its state cannot be read`, error),
    Effect.sync(() => stop(server, messageOfThrown(error)))
  )

/** Whether a server's handle has ended. */
export const isEnded = (server: Server): boolean => Deferred.isDoneUnsafe(server.ended)

/** The error of whoever meets the end of a handle. */
export const endError = (server: Server, end: End): ServerStopped | ServerKilled =>
  end.killed
    ? new ServerKilled(identityOf(server))
    : new ServerStopped({ ...identityOf(server), reason: end.reason })

/** The state of a server, which stops it when it cannot be read. */
export class Unreadable {
  readonly _tag = "Unreadable"
  readonly error: StateCodec.StateError
  constructor(error: StateCodec.StateError) {
    this.error = error
  }
}

/** The state of a server within a transaction, and its head. */
export interface Loaded {
  readonly head: Heads.Head
  readonly state: unknown
  /** Absent of a server that `init` has just made. */
  readonly stored: Stored | Outdated | undefined
}

/** The name of the other definition that a hosted server's tuid belongs to, if it does: any client may send to any tuid. */
export const otherOwner = (
  { cache, definition, isHosted, keys }: Server,
  transaction: TransactionState,
  head: Heads.Head
): Effect.Effect<string | undefined> =>
  !isHosted || cache?.version === head.version ? Effect.undefined : Effect.map(transaction.get(keys.name), (bytes) => {
    const name = bytes === undefined ? definition.name : Buffer.from(bytes).toString()
    return name === definition.name ? undefined : name
  })

/** The state that belongs to a head, from the cache where its version still holds (1). */
export const loadState = (
  server: Server,
  head: Heads.Head
): Effect.Effect<Loaded, StateCodec.StateError, Transaction> => {
  const cached = server.cache
  if (server.options.cache && cached !== undefined && cached.version === head.version) {
    return Effect.succeed({ head, state: cached.state, stored: cached.stored })
  }
  return Effect.map(readState(server.definition, server.keys, head), (read) => ({ head, ...read }))
}

/** What a transaction changes of the head besides the version. */
export type HeadChange = Partial<Pick<Heads.Head, "lock" | "fenced" | "isKeyed">>

/** A state as the store has it after a commit, and its version. */
export interface Saved {
  readonly version: string
  readonly state: unknown
  readonly stored: Stored | Outdated | undefined
}

/**
 * Writes a changed state with a new version, and caches it when others of this process can read it (1). A server that
 * `init` has just made is written when it is another than that, or when something of it is left (`isNeeded`).
 */
export const save = (
  server: Server,
  transaction: TransactionState,
  loaded: Loaded,
  state: unknown,
  change?: HeadChange,
  isNeeded = change !== undefined
): Effect.Effect<Saved, StateCodec.StateError | Unreadable, Transaction> => {
  if (loaded.state === state && (loaded.stored !== undefined || !isNeeded)) {
    if (change !== undefined) writeHead(transaction, server.keys, { ...loaded.head, ...change })
    return Effect.succeed(
      cacheAt(server, transaction, { version: loaded.head.version, state, stored: loaded.stored })
    )
  }
  const { codec, definition, keys } = server
  const isOutdated = loaded.stored instanceof Outdated
  const written: Effect.Effect<Stored, StateCodec.StateError | Unreadable, Transaction> =
    loaded.stored instanceof Outdated
      ? Effect.flatMap(
        codec.replace(keys.state, state),
        (stored) => stored === undefined ? Effect.fail(tooLarge(loaded.head, definition)) : Effect.succeed(stored)
      )
      : codec.write(keys.state, loaded.stored, state)
  return Effect.map(written, (stored) => {
    const version = Keys.toText(transaction.operationId)
    if (loaded.stored === undefined) writeName(transaction, keys, definition.name)
    const { format, stateVersion } = isOutdated ? Heads.first(definition) : loaded.head
    writeHead(transaction, keys, { ...loaded.head, ...change, version, format, stateVersion })
    return cacheAt(server, transaction, { version, state: stored.value, stored })
  })
}

/** The first write of a state in its newest shape is more than a transaction takes: that is the fault of no message. */
const tooLarge = ({ stateVersion }: Heads.Head, definition: Definition): Unreadable =>
  new Unreadable(
    new StateCodec.StateError({
      operation: "encode",
      field: "",
      problem:
        `it has version ${stateVersion}, and what changes with version ${Heads.newest(definition)} does not fit one ` +
        "transaction: make a version between them that changes less"
    })
  )

/** The state that `init` gives a server that has none: of a hosted one, whose first message makes it. */
export const newborn = (
  server: Server,
  runner: PureRunner
): Effect.Effect<Loaded, never> =>
  Effect.map(
    Effect.orDie(runner.run("init", Effect.suspend(() => server.behaviour.init({ tuid: server.tuid })))),
    ({ state }) => ({ head: Heads.first(server.definition), state, stored: undefined })
  )

const cacheAt = (server: Server, transaction: TransactionState, saved: Saved): Saved => {
  if (server.options.cache && saved.stored !== undefined) {
    transaction.onAccepted.push(() => {
      server.cache = saved
    })
  }
  return saved
}

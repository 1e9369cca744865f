/**
 * What the fibers of one process share about the jobs of one type in one tenant layer: the bells, which candidates
 * somebody here is about to take, how far apart to look for them, and the background fibers.
 *
 * Owner: the tenant layer, whose scope its fibers live in; made at the first use, and released when nobody uses it.
 *
 * 1. There is one hub a type, whatever number of definitions, of workers with options of their own, and of their builds
 *    there are: what these leave behind does not grow with their number.
 * 2. The monitor can follow the options of one definition: those of the worker that was opened last of those that are
 *    open; without one, those of the definition that took jobs last; without one, those of the first that was used.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { Tenant } from "../../../Tenant.ts"
import type * as Tuple from "../../../Tuple.ts"
import { logWarning } from "../../observing/logging.ts"
import { keepRunning } from "../../observing/unforeseen.ts"
import { type InvalidOption, render, unreadable } from "../definition/errors.ts"
import type { JobKeys } from "../definition/layout.ts"
import { elementText, keysOf, type Model } from "../definition/model.ts"
import { Bell } from "./sharedWatch.ts"

/** Processes that meet at the head of the queue spread over so many due jobs at the most. */
const SPREAD_LIMIT = 64

/** So many unreadable jobs are told of: more are one fault, and need no line each. */
const UNREADABLE_LIMIT = 1_000

const MONITOR = "monitor"

export class Hub {
  readonly tenant: Tenant["Service"]
  readonly type: Tuple.Element
  readonly keys: JobKeys
  readonly pending: Bell
  readonly changed: Bell
  readonly revoked: Bell
  /** All bells of the type: they rest when nobody uses the hub. */
  readonly bells: Array<Bell>
  /** Pending keys that a transaction of this process is about to take: others here leave them alone. */
  readonly claims = new Set<string>()
  /** Among so many jobs beyond the first a candidate is chosen: grows with conflicts, shrinks without them. */
  spread = 0
  readonly #unreadable = new Set<string>()
  readonly #background = new Map<string, Fiber.Fiber<unknown, unknown>>()
  /** The open workers, as they were opened: several can have one model. */
  readonly #workers: Array<{ readonly model: Model }> = []
  /** So many use it, besides its monitor (3). */
  #users = 0
  #uses = 0
  /** Opened, and made anew, when nobody uses it any more. */
  #leftAlone = Latch.makeUnsafe(false)
  /** Opened, and made anew, when another definition is followed. */
  #followedOther = Latch.makeUnsafe(false)
  /** What the monitor follows while no worker is open. */
  #definition: Model

  constructor(tenant: Tenant["Service"], model: Model) {
    this.tenant = tenant
    this.type = model.type
    this.#definition = model
    this.keys = keysOf(tenant.prefix, model.type)
    this.pending = new Bell(tenant, tenant.scope, this.keys.pendingBell)
    this.changed = new Bell(tenant, tenant.scope, this.keys.changedBell)
    this.revoked = new Bell(tenant, tenant.scope, this.keys.revokedBell)
    this.bells = [this.pending, this.changed, this.revoked]
  }

  /** Whether somebody uses it besides its monitor (3). */
  get isUsed(): boolean {
    return this.#users > 0
  }

  /**
   * What a look from now on must not miss: the function that it returns tells whether nobody used it since. Who did may
   * have taken a job that the look did not see.
   */
  watchUses(): () => boolean {
    const uses = this.isUsed ? -1 : this.#uses
    return () => this.#uses === uses
  }

  /** Ends when nobody uses it. */
  get leftAlone(): Effect.Effect<void> {
    return Effect.suspend(() => this.isUsed ? this.#leftAlone.await : Effect.void)
  }

  /** Somebody uses it, until `left`. */
  used(): void {
    this.#users++
    this.#uses++
  }

  left(): void {
    this.#users--
    if (this.#users > 0) return
    this.#leftAlone.openUnsafe()
    this.#leftAlone = Latch.makeUnsafe(false)
    if (!this.#background.has(MONITOR)) this.#release()
  }

  /** Whose options the monitor follows (2). */
  get followed(): Model {
    return this.#workers.at(-1)?.model ?? this.#definition
  }

  /** Somebody takes jobs by this definition (2). */
  follow(definition: Model): void {
    this.#following(() => {
      this.#definition = definition
    })
  }

  /** A worker is open from here to the end of the scope (2). */
  followWorker(model: Model): Effect.Effect<void, never, Scope.Scope> {
    const worker = { model }
    return Effect.acquireRelease(
      Effect.sync(() => this.#following(() => void this.#workers.push(worker))),
      () => Effect.sync(() => this.#following(() => void this.#workers.splice(this.#workers.indexOf(worker), 1)))
    )
  }

  /** Ends when another definition is followed: it may not wait for what this one waits for. */
  otherFollowed(model: Model): Effect.Effect<void> {
    return Effect.suspend(() => this.followed === model ? this.#followedOther.await : Effect.void)
  }

  #following(change: () => void): void {
    const before = this.followed
    change()
    if (this.followed === before) return
    this.#followedOther.openUnsafe()
    this.#followedOther = Latch.makeUnsafe(false)
  }

  /** Somebody else took a job that this process wanted. */
  conflicted(): void {
    this.spread = Math.min(SPREAD_LIMIT, Math.max(2, this.spread * 2))
  }

  /** Jobs were taken at the first try. */
  succeeded(): void {
    this.spread = Math.floor(this.spread / 2)
  }

  /** Says once of a job that its row cannot be read and is passed over, or what else cannot be read of it. */
  tellUnreadable(id: Tuple.Element, message = unreadable(this.type, id).message): Effect.Effect<void> {
    return Effect.suspend(() => {
      const text = elementText(id)
      if (this.#unreadable.has(text) || this.#unreadable.size >= UNREADABLE_LIMIT) return Effect.void
      this.#unreadable.add(text)
      return logWarning(message)
    })
  }

  /** Starts the monitor, unless it runs. */
  monitored(monitor: Effect.Effect<void>): Effect.Effect<void> {
    return this.background(MONITOR, monitor)
  }

  /** The monitor is not needed any more: with it all of the hub ends, unless somebody has come to use it. */
  get unneeded(): Effect.Effect<void> {
    return Effect.sync(() => {
      if (!this.isUsed) this.#release()
    })
  }

  /** Nothing of it goes on (3). */
  #release(): void {
    const byType = hubs.get(this.tenant)
    const text = elementText(this.type)
    if (byType?.get(text) === this) byType.delete(text)
    for (const fiber of this.#background.values()) fiber.interruptUnsafe()
    for (const bell of this.bells) bell.rest()
  }

  /** Starts a fiber of this name in the tenant's scope, unless it runs already; `ended` is told of its end. */
  background(name: string, effect: Effect.Effect<unknown>, ended?: () => void): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.#background.has(name)) return Effect.void
      const what = `jobs of type ${render(this.type)}: the ${name}`
      const forked = Effect.forkIn(Effect.interruptible(keepRunning("jobs", what, effect)), this.tenant.scope)
      return Effect.map(forked, (fiber) => {
        this.#background.set(name, fiber)
        // also when the scope ends before the fiber has taken its first step
        fiber.addObserver(() => {
          this.#background.delete(name)
          ended?.()
        })
      })
    })
  }
}

const hubs = new WeakMap<Tenant["Service"], Map<string, Hub>>()

/** The hub of a type in the tenant at hand. */
export const hubOf = (model: Model): Effect.Effect<Hub, InvalidOption, Tenant> =>
  Effect.flatMap(Tenant, (tenant) => {
    if (model.problem !== undefined) return Effect.fail(model.problem)
    let byType = hubs.get(tenant)
    if (byType === undefined) {
      byType = new Map()
      hubs.set(tenant, byType)
    }
    const text = elementText(model.type)
    let hub = byType.get(text)
    if (hub === undefined) {
      hub = new Hub(tenant, model)
      byType.set(text, hub)
    }
    return Effect.succeed(hub)
  })

/** The hub of a type in the tenant at hand, which is used from here to the end of the scope (3). */
export const usedHub = (model: Model): Effect.Effect<Hub, InvalidOption, Tenant | Scope.Scope> =>
  Effect.acquireRelease(
    Effect.tap(hubOf(model), (hub) => Effect.sync(() => hub.used())),
    (hub) => Effect.sync(() => hub.left())
  )

/**
 * The servers of a host that have nothing to do and whose state is kept: for a while, and not more than so many.
 *
 * Owner: the host. One of which something is under way is never let go (rule H4).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type { HostOptions } from "../definition/model.ts"
import { isInUse, type Known } from "./known.ts"

const millisOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)

export class Resting {
  /** The one that rests longest comes first. */
  readonly #servers = new Map<string, Known>()
  readonly #options: Pick<HostOptions, "idleTimeToLiveMillis" | "maxResident">
  readonly #letGo: (known: Known) => void
  readonly #some = Latch.makeUnsafe(false)

  /** `letGo` deletes a server. */
  constructor(options: Pick<HostOptions, "idleTimeToLiveMillis" | "maxResident">, letGo: (known: Known) => void) {
    this.#options = options
    this.#letGo = letGo
  }

  get servers(): Iterable<Known> {
    return this.#servers.values()
  }

  /** A server comes to rest; those that have rested longest make room for it. */
  add(known: Known, clock: Clock.Clock): void {
    known.resident!.usedMillis = millisOf(clock)
    this.#servers.delete(known.text)
    this.#servers.set(known.text, known)
    this.#some.openUnsafe()
    for (const oldest of this.#servers.values()) {
      if (this.#servers.size <= this.#options.maxResident) break
      if (!isInUse(oldest)) this.#letGo(oldest)
    }
  }

  delete(known: Known): void {
    this.#servers.delete(known.text)
  }

  /** Lets go of those who have rested for too long, for ever. */
  get sweep(): Effect.Effect<never> {
    const { idleTimeToLiveMillis } = this.#options
    return Effect.forever(Effect.gen({ self: this }, function*() {
      yield* this.#some.await
      const now = millisOf(yield* Clock.Clock)
      let waitMillis = idleTimeToLiveMillis
      for (const known of this.#servers.values()) {
        if (isInUse(known)) {
          known.resident!.usedMillis = now
          continue
        }
        const left = known.resident!.usedMillis + idleTimeToLiveMillis - now
        if (left > 0) {
          waitMillis = left
          break
        }
        this.#letGo(known)
      }
      if (this.#servers.size === 0) this.#some.closeUnsafe()
      yield* Effect.sleep(Math.max(1, waitMillis))
    }))
  }
}

/**
 * Slots make a transaction idempotent on stores whose commit can end without an answer (rule R1).
 *
 * Owner: a tenant's layer owns a pool of slots; a transaction owns one slot from its first try to its end.
 *
 * 1. A slot exists in the store before the first try of an operation uses it, so that a missing slot means it was
 *    swept as dead. Its making reads it for conflict: one whose answer was lost, and which arrives when the slot is in
 *    use already, must not empty it.
 * 2. Every try reads the slot for conflict and writes its operation and its number to it. So at most one try of an
 *    operation is ever applied, and a later try sees which.
 * 3. Only its owner writes a slot. A slot whose operation ended without an answer is never used again: a late commit
 *    of it may still arrive. While one may, a try that has nothing to write, or fails, writes its slot all the same: what
 *    comes after that is refused (2), and nothing is applied that was said not to be.
 * 4. A slot that was not written for `SLOT_REFRESH_MILLIS` is made anew before it is used, long before a sweep may
 *    take it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { CommitRequest } from "../../Backend.ts"
import { type BackendError, CommitUnknown } from "../../BackendError.ts"
import { equalsBytes } from "../../Tuple.ts"
import * as Keys from "../data/keys.ts"
import type { Place, TransactionState } from "./state.ts"

/** A tenth of the time after which a silent process counts as dead. */
const SLOT_REFRESH_MILLIS = 10 * 60_000

const CREATE_TRIES = 100

/** A store that is away is asked again after so long: with the tries, for ten seconds. */
const CREATE_PAUSE_MILLIS = 100

/** One slot: a key of this process in the tenant. */
export class Slot {
  readonly key: Uint8Array
  writtenMillis = -Infinity
  retired = false
  /** Whether a commit of the operation was not answered, and nothing was written to the slot since (3). */
  isAwaited = false

  constructor(key: Uint8Array) {
    this.key = key
  }

  /** Adds the slot to a try (2). */
  write(state: TransactionState): void {
    state.addReadConflict(Keys.single(this.key))
    state.set(this.key, state.operationId)
  }

  /** A commit that writes to the slot alone, so that no earlier one is applied after it (3). */
  fence(operationId: Uint8Array): CommitRequest {
    const conflicts = [Keys.single(this.key)]
    const mutations = [{ op: "set" as const, key: this.key, value: operationId }]
    return { mutations, readConflicts: conflicts, writeConflicts: conflicts, watches: [] }
  }

  /** The number of the earlier try that was applied, or 0; the try must have none applied to run its body. */
  applied(state: TransactionState, operationId: Uint8Array): Effect.Effect<number, never> {
    return Effect.map(state.get(this.key), (value) => {
      if (value === undefined) {
        state.fail(new CommitUnknown({ message: "the process was taken for dead while its commit was under way" }))
        return 0
      }
      if (value.length !== operationId.length) return 0
      if (!equalsBytes(value.subarray(0, 20), operationId.subarray(0, 20))) return 0
      return new DataView(value.buffer, value.byteOffset).getUint16(20)
    })
  }

  retire(): void {
    this.retired = true
  }
}

/** The owner's sign of life, which stands beside its slots. */
interface Sign {
  readonly key: Uint8Array
  readonly sign: (timeMillis: number) => Uint8Array
  readonly marked: (timeMillis: number) => void
}

/** The slots of one tenant's layer. */
export class Slots {
  readonly #free: Array<Slot> = []
  readonly #prefix: Uint8Array
  readonly #owner: Sign
  #made = 0

  constructor(prefix: Uint8Array, owner: Sign) {
    this.#prefix = prefix
    this.#owner = owner
  }

  withSlot<A, E>(target: Place, use: (slot: Slot) => Effect.Effect<A, E>): Effect.Effect<A, E | BackendError> {
    return Effect.acquireUseRelease(
      this.#acquire(target),
      use,
      (slot) =>
        Effect.sync(() => {
          if (!slot.retired && !slot.isAwaited) this.#free.push(slot)
        })
    )
  }

  #acquire(target: Place): Effect.Effect<Slot, BackendError> {
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const slot = this.#free.pop() ?? new Slot(this.#nextKey())
      if (now - slot.writtenMillis < SLOT_REFRESH_MILLIS) return Effect.succeed(slot)
      return Effect.map(create(target, this.#owner, slot, now), () => {
        slot.writtenMillis = now
        return slot
      })
    })
  }

  #nextKey(): Uint8Array {
    const suffix = new Uint8Array(4)
    new DataView(suffix.buffer).setUint32(0, this.#made++)
    return Keys.concat(this.#prefix, suffix)
  }
}

/** Writes an empty slot, with its owner's sign of life: to do that twice is as good as once, unless one comes late (1). */
const create = (
  { backend }: Place,
  owner: Sign,
  slot: Slot,
  nowMillis: number
): Effect.Effect<void, BackendError> => {
  const rows = [
    { key: slot.key, value: new Uint8Array(0) },
    { key: owner.key, value: owner.sign(nowMillis) }
  ]
  const request = {
    mutations: rows.map(({ key, value }) => ({ op: "set" as const, key, value })),
    readConflicts: [Keys.single(slot.key)],
    writeConflicts: rows.map(({ key }) => Keys.single(key)),
    watches: []
  }
  const attempt = Effect.flatMap(
    backend.begin,
    (driver) =>
      Effect.ensuring(
        // a driver whose commits are durable when they are accepted says only that they are
        Effect.map(driver.commit(request, () => {}), () => owner.marked(nowMillis)),
        Effect.sync(() => driver.close())
      )
  )
  return Effect.retry(
    Effect.tapError(
      attempt,
      (error) => error.reason._tag === "Unavailable" ? Effect.sleep(CREATE_PAUSE_MILLIS) : Effect.void
    ),
    { times: CREATE_TRIES, while: (error) => error.isRetryable || error.isMaybeCommitted }
  )
}

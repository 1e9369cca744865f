/**
 * The calls of one tenant layer that wait for an answer, and how answers reach them: an answer lies in rows of its own, or,
 * where very many calls of a layer get the same one in one commit, in a row together with their numbers.
 *
 * Owner: the tenant's layer. A call is registered before its message is pushed and removed when it ends; its fiber
 * awaits the deferred. The bell fiber belongs to the layer's scope.
 *
 * 1. A call is settled at most once: by a consumer of this process directly, by the bell fiber, or by the layer's end.
 * 2. An answer from another process is written under this layer's prefix together with an addition to the bell; the
 *    bell fiber reads all answers, tells them, and then clears what it told: no caller waits for that commit. What is read
 *    twice is told once.
 * 3. Looking for answers and arming the watch are one transaction, so no answer is missed (rule R9).
 * 4. The bell fiber runs only while calls wait. It survives failures of the store: it tries again after a pause.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { KeyValue } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import { Transaction } from "../../Transaction.ts"
import * as Tuple from "../../Tuple.ts"
import { packValue, unpackValue } from "../data/codec.ts"
import * as Counters from "../data/counters.ts"
import * as Keys from "../data/keys.ts"
import { logWarning } from "../observing/logging.ts"
import { keepRunning } from "../observing/unforeseen.ts"
import { type Target, transact } from "../transactions/loop.ts"
import type { TransactionState } from "../transactions/state.ts"
import { type Armed, awaitWatch, watchKey } from "../transactions/watching.ts"
import { processPrefix } from "./layout.ts"
import { PIECE_BYTES } from "./limits.ts"

/** Rows of answers that one look takes: bounded, more are taken at the next look at once. */
const ANSWERS_LIMIT = 1_000

const PAUSE_MILLIS = 500

/** The bytes of an answer, or that there will be none. */
export type Settled = Exit.Exit<Uint8Array, "stopped">

/** Rows of answers that one commit writes for a layer; what more calls get lies in shared rows. */
const SINGLE_LIMIT = 1_000

/** Calls that share a row: a number has nine bytes at the most, and so the row fits a value. */
const SHARING_LIMIT = 9_000

const SHARED = "shared"

const bellKey = (prefix: Uint8Array, instance: Uint8Array): Uint8Array =>
  Tuple.pack(["bell"], processPrefix(prefix, instance))

const answerPrefix = (prefix: Uint8Array, instance: Uint8Array): Uint8Array =>
  Tuple.pack(["answer"], processPrefix(prefix, instance))

/** Writes an answer for a call of another process, and rings its bell. */
export const writeAnswer = (state: TransactionState, instance: Uint8Array, id: number, answer: Uint8Array): void => {
  const prefix = answerPrefix(state.prefix, instance)
  const chunks = Math.max(1, Math.ceil(answer.length / PIECE_BYTES))
  for (let i = 0; i < chunks; i++) {
    state.set(Tuple.pack([id, i, chunks], prefix), answer.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES))
  }
  state.add(bellKey(state.prefix, instance), Counters.PLUS_ONE)
}

/** Writes one short answer for any number of calls of another process, and rings its bell. */
export const writeAnswers = (
  state: TransactionState,
  instance: Uint8Array,
  ids: ReadonlyArray<number>,
  answer: Uint8Array
): void => {
  for (const id of ids.slice(0, SINGLE_LIMIT)) writeAnswer(state, instance, id, answer)
  const prefix = answerPrefix(state.prefix, instance)
  for (let from = SINGLE_LIMIT; from < ids.length; from += SHARING_LIMIT) {
    const sharing = ids.slice(from, from + SHARING_LIMIT)
    // a call is answered once, so no other row has its number
    state.set(Tuple.pack([SHARED, sharing[0]!], prefix), packValue([answer, sharing]))
  }
}

/** The answers in a shared row; none in one that nobody wrote. */
const sharedAnswers = (value: Uint8Array): ReadonlyArray<readonly [id: number, bytes: Uint8Array]> => {
  const data = Result.getOrUndefined(unpackValue(value))
  if (!Array.isArray(data)) return []
  const [answer, ids] = data as ReadonlyArray<unknown>
  if (!(answer instanceof Uint8Array) || !Array.isArray(ids)) return []
  return ids.filter((id) => typeof id === "number").map((id) => [id, answer] as const)
}

/** The calls of the layer that a transaction runs in. */
export const CallsOf = Context.Reference<Calls | undefined>("effect-dgen/tenant/Calls", {
  defaultValue: () => undefined
})

/** What a look found. */
interface Answers {
  readonly taken: ReadonlyArray<KeyValue>
  readonly complete: ReadonlyArray<readonly [id: number, bytes: Uint8Array]>
}

/** The waiting calls of a tenant's layer. */
export class Calls {
  readonly #waiting = new Map<number, Deferred.Deferred<Uint8Array, "stopped">>()
  readonly #target: Target
  readonly #instance: Uint8Array
  readonly #needed = Latch.makeUnsafe(false)
  #nextId = 1

  private constructor(target: Target, instance: Uint8Array) {
    this.#target = target
    this.#instance = instance
  }

  static make(target: Target, instance: Uint8Array): Effect.Effect<Calls, never, Scope.Scope> {
    return Effect.gen(function*() {
      const calls = new Calls(target, instance)
      yield* Effect.addFinalizer(() => Effect.sync(() => calls.#stopAll()))
      yield* Effect.forkScoped(keepRunning("answers", "looking for answers", calls.#bell))
      return calls
    })
  }

  /** Registers a call: await `answer`, then `end` it. */
  open(): { readonly id: number; readonly answer: Effect.Effect<Uint8Array, "stopped">; readonly end: () => void } {
    const id = this.#nextId++
    const deferred = Deferred.makeUnsafe<Uint8Array, "stopped">()
    this.#waiting.set(id, deferred)
    return {
      id,
      answer: Effect.suspend(() => {
        // an answer of this process comes directly; the bell is for the others
        this.#needed.openUnsafe()
        return Deferred.await(deferred)
      }),
      end: () => {
        this.#waiting.delete(id)
        if (this.#waiting.size === 0) this.#needed.closeUnsafe()
      }
    }
  }

  /** Whether a call of this layer waits under a number. */
  has(instance: Uint8Array, id: number): boolean {
    return this.#waiting.has(id) && Tuple.equalsBytes(instance, this.#instance)
  }

  settle(id: number, settled: Settled): void {
    const deferred = this.#waiting.get(id)
    if (deferred !== undefined) Deferred.doneUnsafe(deferred, settled)
  }

  #stopAll(): void {
    for (const deferred of this.#waiting.values()) Deferred.doneUnsafe(deferred, Exit.fail("stopped"))
  }

  get #bell(): Effect.Effect<never> {
    const step = Effect.flatMap(this.#needed.await, () => this.#look)
    return Effect.forever(
      Effect.catchCause(step, (cause) =>
        Effect.andThen(
          logWarning("looking for answers failed, trying again", cause),
          Effect.sleep(PAUSE_MILLIS)
        ))
    )
  }

  /** One look: takes the answers that are there, or waits for the bell. */
  get #look(): Effect.Effect<void, BackendError> {
    const { begin, end } = Tuple.range([], answerPrefix(this.#target.prefix, this.#instance))
    const key = bellKey(this.#target.prefix, this.#instance)
    let armed: Armed | undefined
    const read = Effect.flatMap(
      Transaction,
      (state) =>
        Effect.map(state.getRange(begin, end, { limit: ANSWERS_LIMIT }), (rows) => {
          armed = undefined
          return rows.length === 0 ? armed = watchKey(state, key) : this.#collect(rows)
        })
    )
    const look = Effect.flatMap(
      transact(this.#target, read),
      (found) => "taken" in found ? this.#take(found) : awaitWatch(this.#target, found)
    )
    // an interruption can come between the commit that arms the watch and the wait
    return Effect.onInterrupt(look, () => Effect.sync(() => armed?.cancel()))
  }

  /** Tells answers, which are durable once their reading is, and then takes them out of the store. */
  #take({ complete, taken }: Answers): Effect.Effect<void, BackendError> {
    for (const [id, bytes] of complete) this.settle(id, Exit.succeed(bytes))
    const clear = Effect.map(Transaction, (state) => {
      for (const row of taken) state.clear(row.key)
    })
    return transact(this.#target, clear)
  }

  /**
   * The answers among rows; the pieces of one that the limit cut are taken at a later look. What is not whole though no
   * rows follow never will be: its call hears what there is. A row whose key is none of ours is taken away.
   */
  #collect(rows: ReadonlyArray<KeyValue>): Answers {
    const offset = answerPrefix(this.#target.prefix, this.#instance).length
    const answers = new Map<number, { readonly chunks: number; readonly pieces: Array<KeyValue> }>()
    const taken: Array<KeyValue> = []
    const complete: Array<readonly [id: number, bytes: Uint8Array]> = []
    let last: number | undefined
    for (const row of rows) {
      const key = Result.getOrUndefined(Tuple.unpackResult(row.key, offset))
      if (key === undefined || typeof key[0] !== "number") {
        taken.push(row)
        if (key?.[0] === SHARED) complete.push(...sharedAnswers(row.value))
        continue
      }
      last = key[0]
      const answer = answers.get(last)
      if (answer === undefined) answers.set(last, { chunks: Number(key[2]), pieces: [row] })
      else answer.pieces.push(row)
    }
    for (const [id, { chunks, pieces }] of answers) {
      const isCut = id === last && rows.length === ANSWERS_LIMIT && pieces.length < Math.min(chunks, ANSWERS_LIMIT)
      if (isCut) continue
      taken.push(...pieces)
      complete.push([id, Keys.concatAll(pieces.map((row) => row.value))])
    }
    return { taken, complete }
  }
}

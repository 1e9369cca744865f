/**
 * States in strict mode: what is handed to handlers, actions and locked handlers is frozen, so that one that is changed in
 * place is found. The cache takes the same object to be unchanged, so such a change would be lost without a word.
 *
 * 1. Plain objects and arrays are frozen, as deep as they go: the line that changes one throws.
 * 2. What cannot be frozen (a map, bytes, an instance of a class) is compared with what it said when it was handed over
 *    first.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { packData, strictCodecOf } from "../../data/codec.ts"
import { StateChanged, StrictMode } from "../../transactions/strictMode.ts"
import { identityOf } from "../kept/layout.ts"
import type { Server } from "./server.ts"

/** Runs what gets a state, and dies with `StateChanged` where it, or somebody before it, changed the state in place. */
export const guarded = <A, E, R>(
  server: Server,
  what: string,
  state: unknown,
  run: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => fiber.getRef(StrictMode) ? watched(server, what, state, run) : run)

const watched = <A, E, R>(
  server: Server,
  what: string,
  state: unknown,
  run: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const changed = (problem: string) => Effect.die(new StateChanged({ ...identityOf(server), what, problem }))
  const before = problemOf(server, state)
  if (before !== undefined) return changed(before)
  return Effect.matchCauseEffect(run, {
    onFailure: (cause) => {
      const problem = thrownBy(cause) ?? problemOf(server, state)
      return problem === undefined ? Effect.failCause(cause) : changed(problem)
    },
    onSuccess: (value) => {
      const problem = problemOf(server, state)
      return problem === undefined ? Effect.succeed(value) : changed(problem)
    }
  })
}

/** What the engine says of a change of what is frozen (1). */
const FROZEN = /read only property|not extensible|Cannot (delete|redefine|define|add) property/

const thrownBy = (cause: Cause.Cause<unknown>): string | undefined => {
  try {
    for (const reason of cause.reasons) {
      const defect = reason._tag === "Die" ? reason.defect : undefined
      if (defect instanceof TypeError && FROZEN.test(defect.message)) return defect.message
    }
  } catch {
    // what was thrown cannot be looked at: it is none of ours
  }
  return undefined
}

/** What states said when they were handed over first (2). */
const said = new WeakMap<object, string>()

/** What is wrong with a state that is, or was, handed over. */
const problemOf = (server: Server, state: unknown): string | undefined => {
  if (typeof state !== "object" || state === null || freeze(state)) return undefined
  const encoded = Result.flatMap(strictCodecOf(server.definition.state).encode(state), packData)
  const text = Result.isSuccess(encoded) ? Buffer.from(encoded.success).toString("latin1") : encoded.failure.problem
  const before = said.get(state)
  if (before === undefined) said.set(state, text)
  return before === undefined || before === text ? undefined : "it does not say what it said when it was handed over"
}

const frozen = new WeakMap<object, boolean>()

/** Freezes plain objects and arrays (1). Gives whether that was all there is. */
const freeze = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return true
  const known = frozen.get(value)
  if (known !== undefined) return known
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = Array.isArray(value) || prototype === Object.prototype || prototype === null
  frozen.set(value, isPlain)
  if (!isPlain) return false
  const isAll = Object.values(Object.freeze(value)).map(freeze).every(Boolean)
  frozen.set(value, isAll)
  return isAll
}

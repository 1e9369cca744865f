/**
 * Small histories of calls against a register and a queue, from several processes and past each other: there must be an
 * order that explains all answers (linearizability).
 */
import { Effect, Exit, Random, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import * as Check from "../../src/testing/Check.ts"
import { again } from "./again.ts"

export class Shelf extends DgenServer.Service<Shelf>()("Shelf", {
  state: Schema.Struct({ register: Schema.Int, queue: Schema.Array(Schema.Int) }),
  messages: {
    /** Answers with what was there before. */
    Write: DgenServer.call({ payload: Schema.Int, success: Schema.Int }),
    Read: DgenServer.call({ success: Schema.Int }),
    Put: DgenServer.call({ payload: Schema.Int, success: Schema.Int }),
    Take: DgenServer.call({ success: Schema.Int })
  }
}) {}

type Register = { readonly write: number | undefined }
type Queue = { readonly put: number | undefined }

const register: Check.Model<number, Register, number> = {
  initial: 0,
  apply: (state, { write }) => ({ state: write ?? state, answer: state })
}

/** Putting answers with the length; taking from an empty queue answers 0. */
const queue: Check.Model<ReadonlyArray<number>, Queue, number> = {
  initial: [],
  apply: (state, { put }) =>
    put === undefined
      ? { state: state.slice(1), answer: state[0] ?? 0 }
      : { state: [...state, put], answer: state.length + 1 }
}

const behaviour = Shelf.behaviour({
  init: Effect.succeed({ register: 0, queue: [] }),
  handlers: {
    Write: (value, state) => DgenServer.reply(state.register, { ...state, register: value }),
    Read: (_, state) => DgenServer.reply(state.register, state),
    Put: (value, state) => DgenServer.reply(state.queue.length + 1, { ...state, queue: [...state.queue, value] }),
    Take: (_, state) => DgenServer.reply(state.queue[0] ?? 0, { ...state, queue: state.queue.slice(1) })
  }
})

export const makeTold = () => ({
  clock: 0,
  register: [] as Array<Check.Operation<Register, number>>,
  queue: [] as Array<Check.Operation<Queue, number>>
})

export type Told = ReturnType<typeof makeTold>

/** An operation that began. */
type Open = { readonly begin: number; end: number; answer: { readonly value: number } | undefined }

type Call = (
  ...call: ["Write" | "Put", number] | ["Read" | "Take"]
) => Effect.Effect<number, unknown>

/** Calls, one after another. What has no answer may have happened, or may still happen. */
const call = (told: Told, run: Call, caller: number, count: number) =>
  Effect.gen(function*() {
    for (let i = 0; i < count; i++) {
      yield* Effect.sleep((yield* Random.next) * 300)
      const value = caller * 100 + i + 1
      const isChange = (yield* Random.next) < 0.5
      const isRegister = i % 2 === 0
      const input = isChange ? value : undefined
      // whoever dies leaves it as one that may have happened
      const operation: Open = { begin: ++told.clock, end: Infinity, answer: undefined }
      if (isRegister) told.register.push(Object.assign(operation, { input: { write: input } }))
      else told.queue.push(Object.assign(operation, { input: { put: input } }))
      const exit = yield* Effect.exit(
        isRegister ? isChange ? run("Write", value) : run("Read") : isChange ? run("Put", value) : run("Take")
      )
      operation.end = ++told.clock
      if (Exit.isSuccess(exit)) operation.answer = { value: exit.value }
    }
  })

/** One life of a server, which also calls itself past its queue. */
export const serve = (told: Told, consumeK: number, caller: number | undefined) =>
  Effect.gen(function*() {
    const shelf = yield* Shelf.start(behaviour, { tuid: ["Shelf"], consumeK })
    if (caller !== undefined) yield* call(told, shelf.call as Call, caller, 10)
    return yield* Effect.never
  }).pipe(
    Effect.scoped,
    Effect.retry(again),
    Effect.provide(Tenant.layer(["shelf"]))
  )

/** One life of a client. */
export const send = (told: Told, caller: number) =>
  Effect.flatMap(Shelf.client(), (shelf) => call(told, shelf.call as Call, caller, 10)).pipe(
    Effect.provide(Tenant.layer(["shelf"]))
  )

/** What does not hold, in words. */
export const check = (told: Told): ReadonlyArray<string> => {
  const problems: Array<string> = []
  if (!Check.linearizable(register, told.register)) {
    problems.push(`no order explains the register: ${JSON.stringify(told.register)}`)
  }
  if (!Check.linearizable(queue, told.queue)) {
    problems.push(`no order explains the queue: ${JSON.stringify(told.queue)}`)
  }
  return problems
}

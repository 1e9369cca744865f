/**
 * Checks of histories: what was sent and answered, against what a server wrote down that it applied. Each gives the
 * problems that it found, in words; none, when all holds.
 *
 * They need a server that keeps what it applied: let the handlers add the message's number to the state, and read the
 * state at the end of the test.
 *
 * @since 0.1.0
 */

/**
 * What senders know of their messages: those that they were told are sent (in each sender's order), and those that they
 * were told were refused.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sent {
  readonly acknowledged: ReadonlyMap<string, ReadonlyArray<string>>
  readonly refused?: Iterable<string> | undefined
}

/**
 * Each message that its sender knows to be sent was applied once, no message was applied twice, none that was refused was
 * applied, and the messages of one sender were applied in the order in which it sent them.
 *
 * **Example** (A message that was lost)
 *
 * ```ts import.meta.vitest
 * import { Check } from "effect-dgen/testing"
 *
 * Check.exactlyOnce({ acknowledged: new Map([["ada", ["1", "2"]]]) }, ["1"])
 * // => ["2 was acknowledged, and is lost"]
 * ```
 *
 * @since 0.1.0
 * @category checks
 */
export const exactlyOnce = (sent: Sent, applied: ReadonlyArray<string>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const places = new Map<string, number>()
  applied.forEach((message, at) => {
    if (places.has(message)) problems.push(`${message} was applied twice, at ${places.get(message)} and ${at}`)
    else places.set(message, at)
  })
  for (const [sender, messages] of sent.acknowledged) {
    let last = -1
    for (const message of messages) {
      const at = places.get(message)
      if (at === undefined) problems.push(`${message} was acknowledged, and is lost`)
      else if (at < last) problems.push(`${message} of ${sender} was applied before a message that was sent earlier`)
      else last = at
    }
  }
  for (const message of sent.refused ?? []) {
    if (places.has(message)) problems.push(`${message} was refused, and was applied`)
  }
  return problems
}

/**
 * Actions ran for messages that were applied, and for none of them twice; with `all`, for each of them. Actions of a
 * process that died between its commit and them do not run, so `all` asks for tests where nobody dies.
 *
 * @since 0.1.0
 * @category checks
 */
export const actions = (
  ran: ReadonlyArray<string>,
  applied: Iterable<string>,
  options: { readonly all: boolean }
): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const known = new Set(applied)
  const seen = new Set<string>()
  for (const message of ran) {
    if (seen.has(message)) problems.push(`the action of ${message} ran twice`)
    if (!known.has(message)) problems.push(`the action of ${message} ran, which was not applied`)
    seen.add(message)
  }
  if (options.all) {
    for (const message of known) if (!seen.has(message)) problems.push(`the action of ${message} did not run`)
  }
  return problems
}

/**
 * What became of messages with keys: `answers` are those that callers got, by key; `effects` are the keys that took effect,
 * once for each time that they did.
 *
 * @since 0.2.0
 * @category models
 */
export interface Keyed {
  readonly answers: ReadonlyMap<string, Iterable<string>>
  readonly effects: Iterable<string>
}

/**
 * Each key took effect at most once, each that was answered did, and all callers of a key got the same answer. It holds
 * within a definition's `keyRetention`.
 *
 * **Example** (A key that was paid twice)
 *
 * ```ts import.meta.vitest
 * import { Check } from "effect-dgen/testing"
 *
 * Check.keys({ answers: new Map([["order-17", ["receipt 1", "receipt 2"]]]), effects: ["order-17", "order-17"] })
 * // => ["order-17 took effect twice", "order-17 was answered receipt 1, and receipt 2"]
 * ```
 *
 * @since 0.2.0
 * @category checks
 */
export const keys = ({ answers, effects }: Keyed): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const seen = new Set<string>()
  for (const key of effects) {
    if (seen.has(key)) problems.push(`${key} took effect twice`)
    seen.add(key)
  }
  for (const [key, given] of answers) {
    const [first, ...others] = new Set(given)
    if (first !== undefined && !seen.has(key)) problems.push(`${key} was answered, and took no effect`)
    for (const other of others) problems.push(`${key} was answered ${first}, and ${other}`)
  }
  return problems
}

/**
 * A run of a durable action: the server that asked for it, and its number among those that this server asked for.
 *
 * @since 0.2.0
 * @category models
 */
export interface DurableRun {
  readonly server: string
  readonly number: number
  readonly id: string
}

/**
 * The durable actions of each server ran, each at least once and always with one id, and the first runs of them came in
 * their order. `asked` says how many each server asked for; their numbers begin at 1.
 *
 * **Example** (An action that did not wait for its turn)
 *
 * ```ts import.meta.vitest
 * import { Check } from "effect-dgen/testing"
 *
 * const runs = [{ server: "cart", number: 2, id: "b" }, { server: "cart", number: 1, id: "a" }]
 * Check.durable(runs, new Map([["cart", 3]]))
 * // => ["action 1 of cart ran first after action 2", "action 3 of cart did not run"]
 * ```
 *
 * @since 0.2.0
 * @category checks
 */
export const durable = (
  runs: ReadonlyArray<DurableRun>,
  asked: ReadonlyMap<string, number>
): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const ids = new Map<string, string>()
  const last = new Map<string, number>()
  for (const { id, number, server } of runs) {
    const name = `action ${number} of ${server}`
    const known = ids.get(name)
    if (known !== undefined && known !== id) problems.push(`${name} ran with two ids`)
    if (known !== undefined) continue
    ids.set(name, id)
    const before = last.get(server) ?? 0
    if (number < before) problems.push(`${name} ran first after action ${before}`)
    if (number > (asked.get(server) ?? 0)) problems.push(`${name} ran, which was not asked for`)
    last.set(server, Math.max(before, number))
  }
  for (const [server, count] of asked) {
    for (let number = 1; number <= count; number++) {
      if (!ids.has(`action ${number} of ${server}`)) problems.push(`action ${number} of ${server} did not run`)
    }
  }
  return problems
}

/**
 * One operation on a shared object, as whoever called it saw it: from when to when, what was asked, and what was
 * answered; `answer` is missing when the caller does not know whether it happened.
 *
 * @since 0.1.0
 * @category models
 */
export interface Operation<Input, Answer> {
  readonly begin: number
  readonly end: number
  readonly input: Input
  readonly answer?: { readonly value: Answer } | undefined
}

/**
 * What an object does: its first state, and its next state and answer for each operation.
 *
 * @since 0.1.0
 * @category models
 */
export interface Model<State, Input, Answer> {
  readonly initial: State
  readonly apply: (state: State, input: Input) => { readonly state: State; readonly answer: Answer }
  /** Tells states, and answers, apart. Default: by their JSON. */
  readonly key?: ((value: State | Answer) => string) | undefined
}

/** More operations than this take too long to try in all orders. */
const OPERATIONS_LIMIT = 24

/**
 * Whether there is an order of the operations, each at some moment between its begin and its end, in which the model gives
 * the answers that were given (linearizability). Operations without an answer may have happened at any time after their
 * begin, or never. All orders are tried, so histories must be small: at most 24 operations.
 *
 * **Example** (A read of what was overwritten before it began)
 *
 * ```ts import.meta.vitest
 * import { Check } from "effect-dgen/testing"
 *
 * const register = {
 *   initial: 0,
 *   apply: (state: number, write: number | undefined) =>
 *     write === undefined ? { state, answer: state } : { state: write, answer: write }
 * }
 *
 * Check.linearizable(register, [
 *   { begin: 0, end: 1, input: 7, answer: { value: 7 } },
 *   { begin: 2, end: 3, input: undefined, answer: { value: 0 } }
 * ])
 * // => false
 * ```
 *
 * @since 0.1.0
 * @category checks
 */
export const linearizable = <State, Input, Answer>(
  model: Model<State, Input, Answer>,
  history: ReadonlyArray<Operation<Input, Answer>>
): boolean => {
  if (history.length > OPERATIONS_LIMIT) {
    throw new RangeError(
      `Check.linearizable: ${history.length} operations are too many, ${OPERATIONS_LIMIT} are allowed`
    )
  }
  const key = model.key ?? JSON.stringify
  const answered = history.reduce((bits, operation, i) => operation.answer === undefined ? bits : bits | (1 << i), 0)
  const failed = new Set<string>()
  const search = (state: State, done: number): boolean => {
    if ((done & answered) === answered) return true
    const name = `${done} ${key(state)}`
    if (failed.has(name)) return false
    // what ended before another one began comes before it
    const firstEnd = Math.min(
      ...history.map((operation, i) => done & (1 << i) || operation.answer === undefined ? Infinity : operation.end)
    )
    for (let i = 0; i < history.length; i++) {
      const operation = history[i]!
      if (done & (1 << i) || operation.begin > firstEnd) continue
      const next = model.apply(state, operation.input)
      const fits = operation.answer === undefined || key(next.answer) === key(operation.answer.value)
      if (fits && search(next.state, done | (1 << i))) return true
    }
    failed.add(name)
    return false
  }
  return search(model.initial, 0)
}

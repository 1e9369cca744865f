/**
 * Strict mode: every body runs twice on one snapshot, and what it wrote is compared. A body that computes gives the same
 * both times; one that looks at the world, or keeps something between its runs, mostly does not.
 *
 * The first run is a rehearsal: nothing of it is written, answered, or logged.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import type { DriverTransaction, Mutation } from "../../Backend.ts"
import * as Tuple from "../../Tuple.ts"
import { Transaction } from "./service.ts"
import { TransactionState } from "./state.ts"

/** Whether bodies run twice; only tests turn it on. */
export const StrictMode = Context.Reference<boolean>("effect-dgen/StrictMode", { defaultValue: () => false })

/**
 * The defect of a transaction body that wrote something else when it ran again on the same snapshot: `first` and `second`
 * say what, key by key.
 *
 * @since 0.1.0
 * @category errors
 */
export class ImpureTransaction extends Schema.TaggedError<ImpureTransaction>("effect-dgen/testing/ImpureTransaction")(
  "ImpureTransaction",
  { first: Schema.Array(Schema.String), second: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return "a transaction body wrote something else when it ran again on the same snapshot. It must only compute and use " +
      `the operations of Transaction.\nFirst:\n  ${this.first.join("\n  ")}\nThen:\n  ${this.second.join("\n  ")}`
  }
}

/**
 * The defect of a handler, an action or a locked handler (`what`) of a server whose state was changed in place: the change
 * would be lost, since the same object is taken to be unchanged.
 *
 * @since 0.1.0
 * @category errors
 */
export class StateChanged extends Schema.TaggedError<StateChanged>("effect-dgen/testing/StateChanged")("StateChanged", {
  server: Schema.String,
  tuid: Schema.String,
  what: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `${this.server} ${this.tuid}: the state that ${this.what} got was changed in place (${this.problem}). The change ` +
      "would be lost: return a new state, such as { ...state, count }"
  }
}

/** What a rehearsal wrote; `undefined` where it did not come to an end that counts. */
export const rehearse = <A, E>(
  driver: DriverTransaction,
  options: ConstructorParameters<typeof TransactionState>[1],
  body: Effect.Effect<A, E, Transaction>
): Effect.Effect<ReadonlyArray<string> | undefined> => {
  const state = new TransactionState(driver, options)
  return Effect.map(
    Effect.exit(Effect.provideService(body, Transaction, state)),
    (exit) => Exit.isSuccess(exit) ? written(state) : undefined
  )
}

/** What a run wrote that counts; `undefined` when it does not. */
export const written = (state: TransactionState): ReadonlyArray<string> | undefined =>
  state.failure === undefined
    ? state.request().mutations.map((mutation) => describe(state.prefix, mutation))
    : undefined

/** What is wrong between a rehearsal and the run that counts. */
export const difference = (
  first: ReadonlyArray<string> | undefined,
  second: ReadonlyArray<string> | undefined
): ImpureTransaction | undefined => {
  if (first === undefined || second === undefined) return undefined
  const [known, again] = [new Set(first), new Set(second)]
  const [left, right] = [first.filter((line) => !again.has(line)), second.filter((line) => !known.has(line))]
  return left.length + right.length > 0 ? new ImpureTransaction({ first: left, second: right }) : undefined
}

/** A mutation for people to read. */
const describe = (prefix: Uint8Array, mutation: Mutation): string => {
  if (mutation.op === "clearRange") {
    return `clearRange ${keyText(prefix, mutation.begin)} ${keyText(prefix, mutation.end)}`
  }
  const value = mutation.op === "clear" ? undefined : mutation.op === "add" ? mutation.operand : mutation.value
  return `${mutation.op} ${keyText(prefix, mutation.key)}${value === undefined ? "" : ` = ${bytesText(value)}`}`
}

const keyText = (prefix: Uint8Array, key: Uint8Array): string => {
  try {
    return Tuple.unpack(key, prefix.length).map(String).join(" / ")
  } catch {
    return bytesText(key)
  }
}

const bytesText = (bytes: Uint8Array): string => JSON.stringify(Buffer.from(bytes).toString("latin1"))

/**
 * A process that commits until it is refused: `node takenChild.ts <filename>` tells its parent when it has begun, waits for
 * a word, writes keys, tells which of them were answered and what the refusal said, and waits to be killed.
 */
import { Effect } from "effect"
import type { BackendError } from "../../src/BackendError.ts"
import { put, range, within, write } from "../support/driver.ts"
import { nameOf, valueOf, withBackend, writeKeys } from "./support.ts"

const BEFORE = 20
const AFTER = 5

const word = Effect.callback<void>((resume) => void process.once("message", () => resume(Effect.void)))

const reasonOf = (error: BackendError) => ({ tag: error.reason._tag, message: error.reason.message })

/** What a child tells at its end. */
export interface Told {
  readonly answered: number
  readonly refusals: ReadonlyArray<{ readonly tag: string; readonly message: string }>
}

if (process.argv[1]?.endsWith("takenChild.ts")) {
  await Effect.runPromise(withBackend(process.argv[2]!, (backend) =>
    Effect.gen(function*() {
      yield* writeKeys(backend, 0, BEFORE)
      process.send!("begun")
      yield* word
      const told = { answered: BEFORE, refusals: [] as Array<unknown> }
      for (let i = BEFORE; i < BEFORE + AFTER; i++) {
        const result = yield* Effect.result(write(backend, put(nameOf(i), valueOf(i))))
        if (result._tag === "Success") told.answered++
        else told.refusals.push(reasonOf(result.failure))
      }
      // reads may be answered for a moment, and then no more
      const read = Effect.flip(Effect.forever(
        Effect.andThen(within(backend, (driver) => range(driver, "k", "l")), Effect.sleep(20))
      ))
      told.refusals.push(reasonOf(yield* read as Effect.Effect<BackendError>))
      process.send!(told)
      process.on("message", () => {})
      return yield* Effect.never
    })))
}

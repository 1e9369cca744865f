/** A process that writes a key whenever it is told its number, and waits for one itself: `node wakesChild.ts <filename>`. */
import { Effect } from "effect"
import { bytes, commit, put, within, write } from "../support/driver.ts"
import { nameOf, withBackend } from "./support.ts"

await Effect.runPromise(withBackend(process.argv[2]!, (backend) =>
  Effect.gen(function*() {
    const watch = { key: bytes("never"), fire: () => {}, fail: () => {}, onCancel: undefined }
    yield* within(backend, (driver) => commit(driver, [], { watches: [watch] }))
    process.on("message", (i) => void Effect.runPromise(write(backend, put(nameOf(Number(i)), "1"))))
    process.once("disconnect", () => process.exit())
    process.send!("ready")
    return yield* Effect.never
  })))

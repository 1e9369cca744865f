/**
 * A process with commits that are only in the log: `node commitsChild.ts <filename> <from> <count>` writes one key after
 * another, tells its parent, and keeps the file open until it is killed.
 */
import { Effect } from "effect"
import { withBackend, writeKeys } from "./support.ts"

const [filename, from, count] = process.argv.slice(2)
await Effect.runPromise(withBackend(filename!, (backend) =>
  Effect.gen(function*() {
    yield* writeKeys(backend, Number(from), Number(count))
    process.send!("written")
    // the channel to the parent keeps the process alive
    process.on("message", () => {})
    return yield* Effect.never
  })))

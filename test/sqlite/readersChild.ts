/** A process with a snapshot at every moment, none of them for long: `node readersChild.ts <filename>`. */
import { DatabaseSync } from "node:sqlite"

const HOLD_MILLIS = 60

const readers = [0, 1].map(() => {
  const db = new DatabaseSync(process.argv[2]!, { readOnly: true, timeout: 1_000 })
  return { begin: db.prepare("BEGIN"), read: db.prepare("SELECT count(*) FROM kv"), end: db.prepare("COMMIT") }
})

let turn = 0
const next = () => {
  const now = readers[turn++ % 2]!
  now.begin.run()
  now.read.get()
  if (turn > 1) readers[turn % 2]!.end.run()
}
next()
setInterval(next, HOLD_MILLIS)
process.once("disconnect", () => process.exit())
process.send!("ready")

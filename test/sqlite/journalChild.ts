/**
 * A process that serves the journal from a SQLite file until it is killed: `node journalChild.ts <filename> <consumeK>`.
 * It tells its parent when a locked handler begins and ends, by the clock that all processes of a machine share.
 */
import { Effect, Logger } from "effect"
import * as SqliteBackend from "../../src/SqliteBackend.ts"
import { makeTold, serve } from "../soak/journal.ts"

/** What a child tells. */
export interface Section {
  readonly id: string
  readonly begins: boolean
  readonly nanos: string
}

class Sections extends Set<string> {
  override add(id: string): this {
    this.#tell(id, true)
    return super.add(id)
  }

  override delete(id: string): boolean {
    this.#tell(id, false)
    return super.delete(id)
  }

  #tell(id: string, begins: boolean): void {
    const section: Section = { id, begins, nanos: String(process.hrtime.bigint()) }
    process.send!(section)
  }
}

const [filename, consumeK] = process.argv.slice(2)
if (process.argv[1]?.endsWith("journalChild.ts")) {
  await Effect.runPromise(
    serve({ ...makeTold(), inside: new Sections() }, { consumeK: Number(consumeK), lockTimeout: "2 seconds" }).pipe(
      Effect.provide(SqliteBackend.layer({ filename: filename! })),
      Effect.provide(Logger.layer([])),
      Effect.scoped
    )
  )
}

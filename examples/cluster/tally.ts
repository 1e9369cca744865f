/** The server of the example: it checks that each publisher's numbers come in order, each once. */
import { Effect, Schema } from "effect"
import { DgenServer, FoundationDbBackend, SqliteBackend } from "effect-dgen"

export class Tally extends DgenServer.Service<Tally>()("Tally", {
  state: Schema.Struct({
    /** The last number of each publisher. */
    last: Schema.Record(Schema.String, Schema.Int),
    /** What came twice, or not after its predecessor. */
    faults: Schema.Array(Schema.String)
  }),
  messages: {
    Count: DgenServer.cast({ payload: { publisher: Schema.String, number: Schema.Int } })
  }
}) {}

export const behaviour = Tally.behaviour({
  init: Effect.succeed({ last: {}, faults: [] }),
  handlers: {
    Count: ({ number, publisher }, state) => {
      const before = state.last[publisher] ?? 0
      const faults = number === before + 1
        ? state.faults
        : [...state.faults, `${publisher}: ${number} came after ${before}`]
      return DgenServer.noReply({ last: { ...state.last, [publisher]: number }, faults })
    }
  }
})

export const path = ["demo", "cluster"]

/** A store as the command line names it: `sqlite:FILE`, or `foundationdb:CLUSTERFILE`. */
export const storeOf = (name: string) => {
  const at = name.indexOf(":")
  const file = name.slice(at + 1)
  return name.slice(0, at) === "sqlite"
    ? SqliteBackend.layer({ filename: file })
    : FoundationDbBackend.layer(file === "" ? {} : { clusterFile: file })
}

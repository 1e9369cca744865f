/** What a call costs by the size of a state that is kept whole, against bare commits of as many bytes. */
import { Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { bareCommits, countOf, head, measure, row, times, timesAsLong } from "./support.ts"

class Blob extends DgenServer.Service<Blob>()("Blob", {
  state: Schema.Tuple([Schema.Int, Schema.String]),
  messages: { Touch: DgenServer.call({ success: Schema.Int }) }
}) {}

const blobOf = (bytes: number) =>
  Blob.behaviour({
    init: Effect.succeed([0, "x".repeat(bytes)] as const),
    handlers: { Touch: (_, [count, text]) => DgenServer.reply(count, [count + 1, text]) }
  })

export const states = Effect.gen(function*() {
  head("State of one term")
  for (const bytes of [1_000, 10_000, 100_000]) {
    const count = countOf(bareCommits(200, bytes).millis)
    const bare = bareCommits(count, bytes)
    row(`${bytes / 1_000} kB: bare SQLite commit`, bare, "")
    const server = yield* Blob.start(blobOf(bytes), { tuid: ["blob", bytes] })
    const touch = server.call("Touch")
    yield* times(100, touch)
    const touched = yield* measure(count, times(count, touch))
    row(`${bytes / 1_000} kB: durable call`, touched, timesAsLong(bare, touched))
  }
})

/**
 * What a call costs by the size of a state that is kept whole, against bare commits of as many bytes, and by the length of
 * a list of which it changes one item.
 */
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

const Item = Schema.Struct({ id: Schema.String, count: Schema.Int })

class Shelf extends DgenServer.Service<Shelf>()("Shelf", {
  state: Schema.Struct({ items: Schema.Array(Item) }),
  messages: { Touch: DgenServer.call({ success: Schema.Int }) }
}) {}

const shelfOf = (length: number) =>
  Shelf.behaviour({
    init: Effect.succeed({ items: Array.from({ length }, (_, i) => ({ id: `item ${i}`, count: 0 })) }),
    handlers: {
      Touch: (_, { items }) => {
        const first = items[0]!
        return DgenServer.reply(first.count, { items: items.with(0, { ...first, count: first.count + 1 }) })
      }
    }
  })

const lists = Effect.gen(function*() {
  head("State with a list, of which one item changes")
  const bare = bareCommits(countOf(bareCommits(200).millis))
  row("bare SQLite commit", bare, "")
  for (const length of [10, 100, 1_000, 10_000]) {
    const server = yield* Shelf.start(shelfOf(length), { tuid: ["shelf", length] })
    const touch = server.call("Touch")
    yield* times(100, touch)
    const count = countOf(bare.millis)
    const touched = yield* measure(count, times(count, touch))
    row(`${length} items: durable call`, touched, timesAsLong(bare, touched))
  }
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
  yield* lists
})

/** The customers of the shop: they come through HTTP, want what the shop has, and ask again until they know. */
import { Effect, Schedule, Schema } from "effect"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"

/** One who orders, and pays with a card, or not at all. */
export interface Customer {
  readonly number: string
  readonly article: string
  readonly pieces: number
  readonly card: string | undefined
}

/** Nobody knows yet what became of a request. */
class NotYet extends Schema.TaggedError<NotYet>()("NotYet", { status: Schema.Int }) {}

interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, string>>
}

/** Asks until there is an answer: the shop does nothing twice. */
const asked = (request: HttpClientRequest.HttpClientRequest): Effect.Effect<Answer, never, HttpClient.HttpClient> =>
  Effect.gen(function*() {
    const response = yield* HttpClient.execute(request)
    if (response.status >= 500) return yield* new NotYet({ status: response.status })
    return { status: response.status, body: (yield* response.json) as Answer["body"] }
  }).pipe(Effect.retry(Schedule.spaced("100 millis")), Effect.orDie)

/** Delivers pieces. Not to be asked twice: a delivery has no number. */
export const deliver = (shop: string, article: string, pieces: number) =>
  Effect.flatMap(
    HttpClient.execute(
      HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post(`${shop}/stock/${article}`), { pieces })
    ),
    HttpClientResponse.filterStatusOk
  )

const post = (url: string, body: unknown) => asked(HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post(url), body))

/** Whether an order will stay as it is. */
const isOver = (status: string) => ["paid", "cancelled", "soldOut"].includes(status)

/** Buys, with a card or without one that is good; succeeds with how the order ended. */
export const buy = Effect.fnUntraced(function*(shop: string, { article, card, number, pieces }: Customer) {
  const url = `${shop}/orders/${number}`
  yield* post(url, { article, pieces, mail: `${number}@example.org` })
  if (card !== undefined) yield* post(`${url}/payment`, { card })
  const status = Effect.map(asked(HttpClientRequest.get(url)), ({ body }) => body["status"]!)
  return yield* Effect.repeat(status, { schedule: Schedule.spaced("50 millis"), until: isOver })
})

/** What the page of the browser test runs: a client of the same group as the server's. */
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as RpcClient from "effect/rpc/RpcClient"
import * as RpcSerialization from "effect/rpc/RpcSerialization"
import { PublicDesk } from "./protocols.ts"

const program = Effect.gen(function*() {
  const client = yield* RpcClient.make(PublicDesk)
  yield* client["Desk.Put"]({ tuid: "browser", payload: { note: "from a page" } })
  const drawn = yield* client["Desk.Draw"]({ tuid: "browser", payload: { amount: 30 } })
  const error = yield* Effect.flip(client["Desk.Draw"]({ tuid: "browser", payload: { amount: 1_000 } }))
  return {
    notes: yield* client["Desk.Notes"]({ tuid: "browser" }),
    balance: drawn.balance,
    error: { tag: error._tag, balance: error._tag === "Overdrawn" ? error.balance : undefined }
  }
}).pipe(
  Effect.scoped,
  Effect.provide(
    RpcClient.layerProtocolHttp({ url: "/public" }).pipe(
      Layer.provide([FetchHttpClient.layer, RpcSerialization.layerNdjson])
    )
  )
)

Object.assign(globalThis, { result: Effect.runPromise(program) })

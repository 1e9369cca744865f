/** Servers behind HTTP, procedures over HTTP and WebSocket, on loopback, and what asks them. */
import { NodeHttpServer } from "@effect/platform-node"
import { Cause, Context, DateTime, Effect, Layer, Logger, Redacted, Schema } from "effect"
import {
  type Backend,
  type BackendError,
  DgenProxy,
  DgenProxyServer,
  DgenServer,
  MemoryBackend,
  Tenant,
  Transaction,
  Tuple
} from "effect-dgen"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiError, HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { RpcMiddleware, RpcSerialization, RpcServer } from "effect/rpc"
import { createServer } from "node:http"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import { deskAddress, DeskProtocol, Frozen, Overdrawn, PublicDesk } from "./protocols.ts"

/** Who asks: a token is the user's name behind "token of ". */
export class CurrentUser extends Context.Service<CurrentUser, string>()("test/CurrentUser") {}

const userOf = (token: string): string | undefined => /^token-of-(\w+)$/.exec(token)?.[1]

export class Bearer extends HttpApiMiddleware.Service<Bearer, { provides: CurrentUser }>()("test/Bearer", {
  error: HttpApiError.UnauthorizedNoContent,
  security: { bearer: HttpApiSecurity.bearer }
}) {}

export const BearerLive = Layer.succeed(Bearer, {
  bearer: (handler, { credential }) => {
    const user = userOf(Redacted.value(credential))
    return user === undefined
      ? Effect.fail(new HttpApiError.Unauthorized())
      : Effect.provideService(handler, CurrentUser, user)
  }
})

export class Denied extends Schema.TaggedError<Denied>()("Denied", {}) {}

export class RpcBearer extends RpcMiddleware.Service<RpcBearer, { provides: CurrentUser }>()("test/RpcBearer", {
  error: Denied
}) {}

export const RpcBearerLive = Layer.succeed(RpcBearer, (handler, { headers }) => {
  const user = userOf((headers["authorization"] ?? "").replace("Bearer ", ""))
  return user === undefined ? Effect.fail(new Denied()) : Effect.provideService(handler, CurrentUser, user)
})

export class Desk extends DgenServer.Service<Desk>()(DeskProtocol, {
  hosted: true,
  state: Schema.Struct({
    notes: Schema.Array(Schema.String),
    balance: Schema.Int,
    frozen: Schema.optionalKey(Schema.DateTimeUtcFromString)
  }),
  maxKeys: 3
}) {}

const SINCE = DateTime.makeUnsafe("2026-01-01T00:00:00Z")

/** How often `Draw` was handled. */
export class Seen extends Context.Service<Seen, { draws: number }>()("test/Seen") {}

/** What waits for an answer: calls of the process, and what is kept of them under a desk. */
export const waiting = Effect.fnUntraced(function*(tuid: Tuple.Tuple) {
  const tenant = yield* Tenant.Tenant
  const keys = new ServerKeys(tenant.prefix, tuid, { name: "Desk", hosted: true } as never)
  const { begin, end } = Tuple.range([], keys.waiting)
  const rows = yield* Tenant.transact(
    Effect.flatMap(Transaction.Transaction, (state) => state.getRange(begin, end, { limit: 100 }))
  )
  const calls = Array.from({ length: 10_000 }, (_, id) => id).filter((id) => tenant.calls.has(tenant.instance, id))
  return { calls: calls.length, rows: rows.length }
})

/** Looks until so many calls wait at a desk. */
export const untilWaiting = (tuid: Tuple.Tuple, count: number) =>
  Effect.repeat(waiting(tuid), { until: ({ calls, rows }) => calls === count && rows === count })

const behaviourOf = (seen: Seen["Service"]) =>
  Desk.behaviour({
    init: Effect.succeed({ notes: [], balance: 100 }),
    handlers: {
      Put: ({ note }, state) => DgenServer.noReply({ ...state, notes: [...state.notes, note] }),
      Notes: (_, state) => DgenServer.reply(state.notes, state),
      Draw: Effect.fnUntraced(function*({ amount }, state) {
        seen.draws++
        if (state.frozen !== undefined) return yield* new Frozen({ since: state.frozen })
        if (amount > state.balance) return yield* new Overdrawn({ balance: state.balance })
        const balance = state.balance - amount
        return DgenServer.reply({ balance, by: "desk" }, { ...state, balance })
      }),
      Freeze: (_, state) => DgenServer.reply(undefined, { ...state, frozen: SINCE }),
      Say: (text, state) => DgenServer.reply(text, state),
      Crash: () => Effect.die(new Error("a secret of the inside")),
      Lie: (_, state) => DgenServer.reply("no number" as never, state),
      Stop: (_, state) => DgenServer.stop("a secret of the inside", state),
      Wait: (_, state) => DgenServer.noReply(state),
      Secret: (_, state) => DgenServer.reply("the secret", state),
      Wipe: () => DgenServer.noReply(DgenServer.gone),
      Tick: (_, state) => DgenServer.noReply(state)
    }
  })

/** A server whose queue is soon full, and that nobody runs. */
export class Full extends DgenServer.Service<Full>()("Full", {
  hosted: true,
  state: Schema.Int,
  messages: { Push: DgenServer.cast(), Ask: DgenServer.call({ payload: { n: Schema.Int } }) },
  maxQueueLength: 1
}) {}

/** A server that comes to a desk's place. */
export class Stranger extends DgenServer.Service<Stranger>()("Stranger", {
  hosted: true,
  state: Schema.Int,
  messages: { Ask: DgenServer.call() }
}) {}

const keyOf = DgenProxy.idempotencyKey(CurrentUser)

export class Api extends HttpApi.make("desks").add(
  DgenProxy.toHttpApiGroup("desks", Desk, {
    messages: ["Put", "Notes", "Draw", "Freeze", "Say", "Crash", "Lie", "Stop", "Wait", "Wipe"],
    tuid: deskAddress,
    authorization: Bearer,
    keyOf,
    timeout: "10 seconds"
  }).prefix("/desks"),
  // in a hurry: small bodies, little time
  DgenProxy.toHttpApiGroup("quick", Desk, {
    messages: ["Say", "Wait", "Put"],
    tuid: { schema: Schema.Int, toTuid: (n) => ["quick", n] },
    authorization: "public",
    timeout: "100 millis",
    maxBodyBytes: 100,
    bodyTimeout: "200 millis"
  }).prefix("/quick"),
  DgenProxy.toHttpApiGroup("full", Full, {
    messages: ["Push", "Ask"],
    tuid: { schema: Schema.String, toTuid: (name) => name === "throws" ? throws() : ["full", name] },
    authorization: "public"
  }).prefix("/full"),
  // a tuid that another definition has
  DgenProxy.toHttpApiGroup("wrong", Stranger, {
    messages: ["Ask"],
    tuid: deskAddress,
    authorization: "public"
  }).prefix("/wrong")
) {}

const throws = (): never => {
  throw new Error("a secret of the inside")
}

export class DeskRpcs extends DgenProxy.toRpcGroup(Desk, {
  messages: ["Put", "Notes", "Draw", "Crash", "Lie", "Wait", "Say"],
  tuid: deskAddress,
  authorization: RpcBearer,
  keyOf,
  timeout: "10 seconds"
}) {}

/** The lines that were logged. */
export class Lines extends Context.Service<Lines, Array<string>>()("test/Lines") {}

/** The address of the server. */
export class Url extends Context.Service<Url, string>()("test/Url") {}

const Handlers = Layer.mergeAll(
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide(DgenProxyServer.layerHttpApi(Api, "desks", Desk)),
    Layer.provide(DgenProxyServer.layerHttpApi(Api, "quick", Desk)),
    Layer.provide(DgenProxyServer.layerHttpApi(Api, "full", Full)),
    Layer.provide(DgenProxyServer.layerHttpApi(Api, "wrong", Stranger))
  ),
  RpcServer.layer(DeskRpcs).pipe(Layer.provide(RpcServer.layerProtocolHttp({ path: "/rpc" }))),
  RpcServer.layer(DeskRpcs).pipe(Layer.provide(RpcServer.layerProtocolWebsocket({ path: "/ws" }))),
  RpcServer.layer(PublicDesk).pipe(Layer.provide(RpcServer.layerProtocolHttp({ path: "/public" })))
).pipe(
  Layer.provide(DgenProxyServer.layerRpcHandlers(Desk)),
  Layer.provide(RpcSerialization.layerNdjson),
  Layer.provide([BearerLive, RpcBearerLive])
)

/** Everything, on a store. */
export const served = (
  backend: Layer.Layer<Backend.Backend, BackendError.BackendError> = MemoryBackend.layer
) => {
  const lines: Array<string> = []
  const seen = { draws: 0 }
  const logger = Logger.make(({ cause, message }) => {
    const parts = Array.isArray(message) ? message : [message]
    lines.push([...parts, cause].map((part) => Cause.isCause(part) ? Cause.pretty(part) : String(part)).join(" "))
  })
  const Host = Layer.merge(
    Desk.hostLayer(behaviourOf(seen), { deadLetterThreshold: 1 }),
    Stranger.hostLayer(Stranger.behaviour({
      init: Effect.succeed(0),
      handlers: { Ask: (_, state) => DgenServer.reply(undefined, state) }
    }))
  )
  const Front = Layer.effect(Url, HttpServer.addressFormattedWith(Effect.succeed)).pipe(
    Layer.merge(HttpRouter.serve(Handlers, {
      disableLogger: true,
      disableListenLog: true,
      // a router takes 100 characters by itself
      routerConfig: { maxParamLength: 3_000 }
    })),
    Layer.provide(
      NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1", gracefulShutdownTimeout: "1 second" })
    )
  )
  return Front.pipe(
    Layer.provide(Host),
    Layer.provideMerge(Tenant.layer(["proxy"]).pipe(Layer.provide(backend))),
    Layer.provideMerge(Layer.mergeAll(Layer.succeed(Lines, lines), Layer.succeed(Seen, seen), Logger.layer([logger])))
  )
}

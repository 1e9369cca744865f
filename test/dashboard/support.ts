/**
 * What the tests of the dashboard share: a shop of carts, with letters as jobs, a dashboard that is served for it, and
 * requests exactly as they are written, `Host` included.
 */
import { it } from "@effect/vitest"
import { DateTime, Effect, Layer, Logger, Redacted, Schedule, Schema, type Scope } from "effect"
import { type Backend, type BackendError, DgenServer, Jobs, MemoryBackend, Tenant } from "effect-dgen"
import * as http from "node:http"
import { serve as serveSource } from "../../src/internal/dashboard/serving.ts"
import * as Source from "../../src/internal/dashboard/source.ts"

const CartState = Schema.Struct({ notes: Schema.Array(Schema.String), pin: Schema.Redacted(Schema.String) })

const payload = { note: Schema.String, pin: Schema.optionalKey(Schema.Redacted(Schema.String)) }

export class Cart extends DgenServer.Service<Cart>()("Cart", {
  hosted: true,
  state: CartState,
  messages: {
    Add: DgenServer.cast({ payload }),
    /** Dies until a test mends it. */
    Pay: DgenServer.cast({ payload }),
    /** Takes the lock, and keeps it. */
    Check: DgenServer.cast({ payload, locks: true })
  }
}) {}

export const mended = { is: false }

const added = (state: typeof CartState.Type, note: string) => ({ ...state, notes: [...state.notes, note] })

const behaviour = Cart.behaviour({
  init: Effect.succeed({ notes: [], pin: Redacted.make("state's secret") }),
  handlers: {
    Add: ({ note }, state) => DgenServer.noReply(added(state, note)),
    Pay: ({ note }, state) =>
      mended.is ? DgenServer.noReply(added(state, note)) : Effect.die(new Error(`the gateway refused ${note}`)),
    Check: (_, state) => DgenServer.lock(state)
  }
})

/** Hosts the carts: three attempts, and a lock that is kept. */
export const hosted = Cart.hostLayer(behaviour, {
  deadLetterThreshold: 2,
  lockTimeout: "1 hour",
  restart: Schedule.forever,
  grace: 0
}).pipe(Layer.provide(Cart.lockedLayer({ Check: () => Effect.never })))

export const Letters = Jobs.make("letters", { data: Schema.Struct({ text: Schema.String }), maxAttempts: 1 })

/** What makes trouble for a page that takes it for markup. */
export const HTML =
  `<img src=x onerror="window.hurt=1"><script>window.hurt=2</script><b id="hurt">"'&lt;\u202e</b>{{constructor}}`

export const cast = (tag: "Add" | "Pay" | "Check", note: string, tuid: ReadonlyArray<string | number> = ["cart", 1]) =>
  Effect.flatMap(Cart.client({ tuid: [...tuid] }), (cart) => cart.cast(tag, { note }))

/** Runs a look again until it is what is wanted. */
export const until = <A, E, R>(effect: Effect.Effect<A, E, R>, wanted: (value: A) => boolean) =>
  Effect.timeout(
    Effect.repeat(effect, { until: wanted, schedule: Schedule.spaced("20 millis") }),
    "20 seconds"
  )

export type Needs = Tenant.Tenant | Backend.Backend | Scope.Scope

/** Makes tests, each on a store of its own. */
export const test = (
  title: string,
  body: Effect.Effect<void, unknown, Needs>,
  backend: Layer.Layer<Backend.Backend, BackendError.BackendError> = MemoryBackend.layer
) =>
  it.live(title, () =>
    body.pipe(
      Effect.scoped,
      Effect.provide(Tenant.layer(["shop", "live"]).pipe(Layer.provideMerge(backend))),
      Effect.provide(Logger.layer([]))
    ))

export interface ServeOptions {
  readonly readOnly?: boolean
  readonly values?: boolean
  readonly port?: number
  /** How its transactions begin, in place of the store's own way. */
  readonly begin?: Backend.Backend["Service"]["begin"]
}

/** Serves the dashboard of the test's tenant. */
export const serve = ({ begin, port = 0, readOnly = false, values = false }: ServeOptions = {}) =>
  Effect.gen(function*() {
    const tenant = yield* Tenant.Tenant
    const backend = begin === undefined ? tenant.backend : { ...tenant.backend, begin }
    const source = yield* Effect.provideService(Source.make({ values, store: "memory:" }), Tenant.Tenant, {
      ...tenant,
      backend
    })
    return yield* serveSource({ port, readOnly, source })
  })

export interface Asking {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}

export interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  readonly json: any
}

/** A request as it is written, whatever a browser would make of it. */
export const ask = (origin: string, path: string, { body, headers, method = "GET" }: Asking = {}) =>
  Effect.promise(() =>
    new Promise<Answer>((resolve, reject) => {
      const { hostname, port } = new URL(origin)
      const request = http.request({ hostname, port, path, method, headers }, (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk) => chunks.push(chunk))
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString()
          let json: unknown
          try {
            json = JSON.parse(text)
          } catch {
            json = undefined
          }
          resolve({ status: response.statusCode!, headers: response.headers, text, json })
        })
      })
      request.on("error", reject)
      request.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body))
    })
  )

/** Opens a dashboard with its token. Succeeds with the cookie. */
export const enter = (url: string) =>
  Effect.map(ask(url, `/${new URL(url).search}`), ({ headers }) => headers["set-cookie"]?.[0]?.split(";")[0] ?? "")

export const WRITE = { "content-type": "application/json", "x-effect-dgen": "dashboard" }

/** A dashboard that somebody has opened. */
export const opened = (options: ServeOptions = {}) =>
  Effect.gen(function*() {
    const { origin, url } = yield* serve(options)
    const cookie = yield* enter(url)
    return {
      origin,
      url,
      cookie,
      look: (path: string, headers: Readonly<Record<string, string>> = {}) =>
        ask(origin, `/api/${path}`, { headers: { cookie, ...headers } }),
      mend: (body: unknown, headers: Readonly<Record<string, string>> = {}) =>
        ask(origin, "/api/mend", { method: "POST", body, headers: { cookie, ...WRITE, ...headers } })
    }
  })

/** A tuid as the page names it. */
export const at = (...tuid: ReadonlyArray<unknown>) => encodeURIComponent(JSON.stringify(tuid))

/** A cart with a dead letter, and one with a lock, each with what hosts it. */
export const trouble = (note = "first") =>
  Effect.gen(function*() {
    mended.is = false
    yield* Layer.build(hosted)
    yield* cast("Pay", note, ["cart", 1])
    yield* cast("Add", note, ["cart", 2])
    yield* cast("Check", note, ["cart", 2])
    yield* cast("Add", note, ["cart", 2])
  })

/** Jobs in each state, and a schedule. */
export const letters = (note = "first") =>
  Effect.gen(function*() {
    yield* Tenant.transact(Effect.gen(function*() {
      yield* Letters.add("dies", { text: note })
      yield* Letters.add("ends", { text: note })
      yield* Letters.add("waits", { text: note }, { scheduledAt: DateTime.makeUnsafe("2100-01-01T00:00:00Z") })
    }))
    for (let taken = 0; taken < 2; taken++) {
      const job = yield* Effect.flatMap(Letters.accept(), Effect.fromOption)
      yield* Tenant.transact(
        job.id === "dies" ? Effect.asVoid(Letters.fail(job, new Error(note))) : Letters.finish(job)
      )
    }
  })

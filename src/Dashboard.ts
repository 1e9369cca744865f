/**
 * A dashboard: a page that shows what a tenant's servers and jobs do, how fast, what is stuck, and mends it. `layer`
 * mounts it in a program's own HTTP server; `npx effect-dgen dashboard` serves the same on loopback.
 *
 * Nothing is answered, the page itself included, but to whom `authorize` says yes. Requests that a page of another origin
 * made are refused, and so are changes without a header that no form can send. Whatever is stored is shown as text.
 * Looking conflicts with nobody, reads a bounded part, and stops when nobody looks.
 *
 * What you owe: an `authorize` that knows who asks, by a cookie that is `HttpOnly` and `SameSite`, or by a header; TLS
 * where the way from the browser is not your own; `hosts`, where `authorize` goes by where a request comes from.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { answered } from "./internal/dashboard/gate.ts"
import type * as GateRules from "./internal/dashboard/gate.ts"
import * as Routes from "./internal/dashboard/routes.ts"
import * as Source from "./internal/dashboard/source.ts"
import type * as Wire from "./internal/dashboard/wire.ts"
import type { Tenant } from "./Tenant.ts"

/**
 * What somebody asks for: a look (`page` is the page itself), or something to mend.
 *
 * @since 0.2.0
 * @category models
 */
export type Operation = Wire.Operation

/**
 * What somebody asks for, as `authorize` sees it: the tenant's path, the operation, whether it changes anything
 * (`isWrite`), the server or the jobs that are meant, where some are, and the request with its headers and cookies. `job`
 * without an `id` is all jobs of a type.
 *
 * @since 0.2.0
 * @category models
 */
export interface Access extends GateRules.Access {}

/**
 * How a dashboard is mounted.
 *
 * @since 0.2.0
 * @category models
 */
export interface Options<E, R> {
  /** Whether somebody may do something. What fails or dies is logged, and refused. */
  readonly authorize: (access: Access) => Effect.Effect<boolean, E, R>
  /** Where the page lies: `/dgen` if absent. */
  readonly path?: `/${string}` | undefined
  /** Whether all changes are refused; `false` if absent. */
  readonly readOnly?: boolean | undefined
  /**
   * Whether values are shown of which nothing in the tenant says what is redacted: states and messages of definitions that
   * no program with this version has started. `false` if absent.
   */
  readonly values?: boolean | undefined
  /** What `Host` may be, such as `admin.example.com`: anything if absent. */
  readonly hosts?: ReadonlyArray<string> | undefined
}

/**
 * The dashboard of a tenant, as routes of the program's own HTTP server. Requires an `HttpRouter`, a `Tenant`, and what
 * `authorize` does.
 *
 * **Example** (Behind a header that a proxy sets)
 *
 * ```ts import.meta.vitest
 * import { Effect, Layer } from "effect"
 * import { HttpRouter, HttpServer } from "effect/http"
 * import { Dashboard, MemoryBackend, Tenant } from "effect-dgen"
 *
 * const dashboard = Dashboard.layer({
 *   path: "/admin/dgen",
 *   authorize: ({ isWrite, request }) =>
 *     Effect.succeed(request.headers["x-role"] === "operator" || (!isWrite && request.headers["x-role"] === "viewer"))
 * }).pipe(
 *   Layer.provide(Tenant.layer(["docs"])),
 *   Layer.provide(MemoryBackend.layer)
 * )
 *
 * // a program would serve it: HttpRouter.serve(dashboard)
 * const { handler, dispose } = HttpRouter.toWebHandler(Layer.provide(dashboard, HttpServer.layerServices))
 * const ask = (role: string) =>
 *   handler(
 *     new Request("http://localhost/admin/dgen/api/about", { headers: { host: "localhost", "x-role": role } })
 *   )
 * const answers = [(await ask("viewer")).status, (await ask("nobody")).status]
 * await dispose()
 * answers
 * // => [200, 401]
 * ```
 *
 * @since 0.2.0
 * @category layers
 */
export const layer = <E = never, R = never>(
  options: Options<E, R>
): Layer.Layer<never, never, HttpRouter.HttpRouter | Tenant | Exclude<R, HttpServerRequest | Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { authorize, hosts, path = "/dgen", readOnly = false, values = false } = options
    const router = yield* HttpRouter.HttpRouter
    const context = yield* Effect.context<Exclude<R, HttpServerRequest | Scope.Scope>>()
    const source = yield* Source.make({ values, store: "" })
    const gate: GateRules.Gate = {
      hosts: hosts === undefined ? undefined : new Set(hosts.map((host) => host.toLowerCase())),
      readOnly,
      admit: (access) =>
        Effect.suspend(() => authorize(access)).pipe(
          answered,
          Effect.scoped,
          Effect.provideContext(
            Context.add(context, HttpServerRequest, access.request) as Context.Context<Exclude<R, Scope.Scope>>
          )
        )
    }
    yield* Routes.add(router, gate, source, { base: path.replace(/\/+$/, ""), enter: () => undefined })
  }))

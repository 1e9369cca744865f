/**
 * The routes of a dashboard: its page, looks, and changes, each behind the gate. Nothing of the store is read before the
 * gate let a request pass.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import type { HttpRouter } from "effect/http/HttpRouter"
import { type HttpServerRequest, MaxBodySize } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { logError } from "../observing/logging.ts"
import * as Answers from "./answers.ts"
import { aboutLook, type Asked, askedOf, type MendJobs, type MendServer, wantedOf } from "./asking.ts"
import * as Assets from "./assets.ts"
import { type Access, checkAccess, checkOrigin, type Gate, Refused } from "./gate.ts"
import type { About, Look } from "./wire.ts"

/** The longest body: a message that is cast, as JSON. */
const BODY_LIMIT = ByteSize.mebibytes(8)

/** A store that is away is asked again and again: whoever looks is told before. */
const LOOK_MILLIS = 10_000

/** What the routes ask of the store; whatever fails there fails with what may be said of it. */
export interface Source {
  readonly tenant: ReadonlyArray<string>
  readonly store: string
  readonly look: (look: Exclude<Look, "page">, asked: Asked) => Effect.Effect<object, Refused>
  readonly mend: (mend: MendServer | MendJobs) => Effect.Effect<string, Refused>
}

/** Where the page and all else lies, without a slash at the end; empty for the root. */
export interface Place {
  readonly base: string
  /** The answer to who opens the page with something else than what `admit` wants: a token. */
  readonly enter: (request: HttpServerRequest) => HttpServerResponse.HttpServerResponse | undefined
}

const LOOKS = ["overview", "servers", "server", "jobs", "schedules"] as const

const UNFORESEEN = new Refused({ status: 500, message: "That failed in a way that nobody foresaw: the log says how." })

const inTime = <A>(look: Effect.Effect<A, Refused>): Effect.Effect<A, Refused> =>
  Effect.timeoutOrElse(look, {
    duration: LOOK_MILLIS,
    orElse: () =>
      Effect.fail(new Refused({ status: 504, message: "The store does not answer: this page goes on asking." }))
  })

/** Answers with what is refused, and with what went wrong. */
const settle = (
  effect: Effect.Effect<HttpServerResponse.HttpServerResponse, Refused>,
  answer: (refused: Refused) => HttpServerResponse.HttpServerResponse
): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  effect.pipe(
    Effect.catchTag("Refused", (refused) => Effect.succeed(answer(refused))),
    Effect.catchDefect((defect) => Effect.as(logError("the dashboard failed", defect), answer(UNFORESEEN)))
  )

/** Adds all routes to a router. */
export const add = Effect.fnUntraced(function*(router: HttpRouter, gate: Gate, source: Source, place: Place) {
  const { base, enter } = place
  const accessOf = (about: Omit<Access, "tenant" | "request">, request: HttpServerRequest): Access => ({
    ...about,
    tenant: source.tenant,
    request
  })
  const page = (request: HttpServerRequest) =>
    checkAccess(gate, accessOf({ operation: "page", isWrite: false, tuid: undefined, job: undefined }, request))

  yield* addPage(router, gate, { base, enter }, page)

  const about: About = { tenant: source.tenant, store: source.store, readOnly: gate.readOnly }
  const read = (request: HttpServerRequest, answer: Effect.Effect<object, Refused>) =>
    settle(Effect.map(Effect.andThen(checkOrigin(gate, request, "read"), answer), Answers.json), Answers.refused)

  yield* router.add("GET", `${base}/api/about` as "/", (request) => read(request, Effect.as(page(request), about)))
  for (const look of LOOKS) {
    yield* router.add("GET", `${base}/api/${look}` as "/", (request) =>
      read(
        request,
        Effect.flatMap(askedOf(request), (asked) =>
          Effect.andThen(
            checkAccess(gate, accessOf(aboutLook(look, asked), request)),
            inTime(Effect.suspend(() => source.look(look, asked)))
          ))
      ))
  }
  yield* router.add("POST", `${base}/api/mend` as "/", (request) => {
    const mended = Effect.gen(function*() {
      yield* checkOrigin(gate, request, "write")
      const body = yield* bodyOf(request)
      const { about, mend } = yield* wantedOf(body)
      yield* checkAccess(gate, accessOf(about, request))
      return Answers.json({ message: yield* source.mend(mend) })
    })
    return settle(mended, Answers.refused)
  })
})

/** The page with its files. */
const addPage = Effect.fnUntraced(function*(
  router: HttpRouter,
  gate: Gate,
  { base, enter }: Place,
  check: (request: HttpServerRequest) => Effect.Effect<void, Refused>
) {
  const assets = yield* Assets.load
  const show = (name: Assets.AssetName, request: HttpServerRequest) =>
    Effect.as(check(request), Answers.asset(assets[name], request.headers["accept-encoding"]))
  const behind = (
    request: HttpServerRequest,
    answer: Effect.Effect<HttpServerResponse.HttpServerResponse, Refused>
  ) => settle(Effect.andThen(checkOrigin(gate, request, "page"), answer), Answers.refusedPage)

  // the page names its files from where it lies: behind a slash
  const away = Answers.safe(HttpServerResponse.redirect(`.${base.slice(base.lastIndexOf("/"))}/`, { status: 308 }))
  yield* router.add("GET", `${base}/` as "/", (request) =>
    behind(
      request,
      Effect.suspend(() => {
        const entered = enter(request)
        if (entered !== undefined) return Effect.succeed(Answers.safe(entered))
        return request.url.split("?", 1)[0]!.endsWith("/")
          ? show("index.html", request)
          : Effect.as(check(request), away)
      })
    ))
  for (const name of Assets.NAMES) {
    yield* router.add("GET", `${base}/${name}` as "/", (request) => behind(request, show(name, request)))
  }
})

const bodyOf = (request: HttpServerRequest): Effect.Effect<unknown, Refused> =>
  /^application\/json\b/i.test(request.headers["content-type"] ?? "")
    ? request.json.pipe(
      Effect.provideService(MaxBodySize, BODY_LIMIT),
      Effect.mapError(() => new Refused({ status: 400, message: "The body is no JSON, or too long." }))
    )
    : Effect.fail(new Refused({ status: 415, message: "A change is asked for as application/json." }))

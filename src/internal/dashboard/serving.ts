/**
 * A server of its own for a dashboard, on loopback alone: Node's, and Effect's routes behind it. Answers are short, so
 * each is written whole.
 *
 * 1. A request whose `Host` is not the address that was bound is refused by the gate; one that names a whole URL, before.
 * 2. With the scope the server ends: connections are cut, requests under way are interrupted.
 */
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpRouter from "effect/http/HttpRouter"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { messageOfThrown } from "../data/thrown.ts"
import type { Gate } from "./gate.ts"
import { add, type Source } from "./routes.ts"
import * as Session from "./session.ts"

const LOOPBACK = "127.0.0.1"

/** The longest body that is read: more than routes take, so that it is they who refuse. */
const BODY_LIMIT_BYTES = 9 * 1024 * 1024

/** The server cannot listen. `message` says why. */
export class ServeFailed extends Schema.TaggedError<ServeFailed>("effect-dgen/Dashboard/ServeFailed")("ServeFailed", {
  message: Schema.String
}) {}

/** A server that listens. */
export interface Served {
  /** What a browser opens, once: it holds the token. */
  readonly url: string
  /** The same without it. */
  readonly origin: string
}

export interface ServeOptions {
  /** 0 for any that is free. */
  readonly port: number
  readonly readOnly: boolean
  readonly source: Source
}

/** Serves a dashboard until the scope closes. */
export const serve = Effect.fnUntraced(function*(
  { port, readOnly, source }: ServeOptions
): Effect.fn.Return<Served, ServeFailed, Scope.Scope> {
  const server = yield* listen(port)
  const bound = (server.address() as AddressInfo).port
  const host = `${LOOPBACK}:${bound}`
  const session = Session.make(bound)
  const gate: Gate = {
    hosts: new Set([host]),
    readOnly,
    admit: ({ request }) => Effect.sync(() => session.isOpen(request.cookies))
  }
  const enter: Parameters<typeof add>[3]["enter"] = (request) => {
    const token = new URL(request.url, `http://${host}`).searchParams.get("token")
    return token === null ? undefined : session.enter(token)
  }
  const routes = HttpRouter.use((router) => add(router, gate, source, { base: "", enter }))
  const app = yield* HttpRouter.toHttpEffect(routes)
  const context = yield* Effect.context<Scope.Scope>()
  const handle = HttpEffect.toWebHandlerWith<Scope.Scope, Scope.Scope | HttpServerRequest>(context)(app)
  server.on("request", (request, response) => pass(request, response, host, handle))
  return { url: `http://${host}/?token=${session.token}`, origin: `http://${host}` }
})

const listen = (port: number): Effect.Effect<Server, ServeFailed, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<Server, ServeFailed>((resume) => {
      const server = createServer()
      server.once("error", (cause) =>
        resume(Effect.fail(new ServeFailed({ message: `port ${port} cannot be used: ${messageOfThrown(cause)}` }))))
      server.listen(port, LOOPBACK, () =>
        resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.callback<void>((resume) => {
        server.close(() =>
          resume(Effect.void)
        )
        server.closeAllConnections()
      })
  )

type Handle = (request: Request) => Promise<Response>

const refuse = (response: ServerResponse, status: number): void => {
  response.writeHead(status, { connection: "close" }).end()
}

/** Takes a request to the routes, and their answer back. */
const pass = (request: IncomingMessage, response: ServerResponse, host: string, handle: Handle): void => {
  const { method = "GET", url = "" } = request
  // a proxy would be asked for a whole URL (1)
  if (!url.startsWith("/") || !URL.canParse(`http://${host}${url}`)) return refuse(response, 400)
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  request.on("data", (chunk: Uint8Array) => {
    bytes += chunk.length
    if (bytes <= BODY_LIMIT_BYTES) chunks.push(chunk)
    else if (!response.headersSent) refuse(response, 413)
  })
  request.on("end", () => {
    if (response.headersSent) return
    const gone = new AbortController()
    response.once("close", () => gone.abort())
    const body = method === "GET" || method === "HEAD" ? null : Buffer.concat(chunks)
    const asked = Result.try(() =>
      new Request(`http://${host}${url}`, { method, headers: headersOf(request), body, signal: gone.signal })
    )
    // a method that requests cannot have
    if (Result.isFailure(asked)) return refuse(response, 400)
    handle(asked.success).then((answer) => write(answer, response)).catch(() => response.destroy())
  })
}

const headersOf = ({ rawHeaders }: IncomingMessage): Headers => {
  const headers = new Headers()
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!)
  return headers
}

const write = (answer: Response, response: ServerResponse): Promise<void> =>
  answer.arrayBuffer().then((body) => {
    response.statusCode = answer.status
    response.setHeaders(answer.headers)
    response.end(Buffer.from(body))
  })

/** What tests ask a server with: `fetch`, and bytes on a socket. */
import { Effect } from "effect"
import * as net from "node:net"
import { Url } from "./support.ts"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; `undefined` where it is none. */
  readonly body: any
}

export interface Asked extends Omit<RequestInit, "body" | "headers"> {
  readonly user?: string
  readonly key?: string
  readonly json?: unknown
  readonly body?: NonNullable<RequestInit["body"]>
  readonly headers?: Record<string, string>
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Posts to the server, as ada if it does not say who. */
export const post = (path: string, { headers, json, key, user = "ada", ...init }: Asked = {}) =>
  Effect.flatMap(Url, (url) =>
    Effect.promise(async (signal): Promise<Answer> => {
      const response = await fetch(`${url}${path}`, {
        method: "POST",
        signal,
        ...init,
        headers: {
          ...(user === "" ? {} : { authorization: `Bearer token-of-${user}` }),
          ...(key === undefined ? {} : { "idempotency-key": key }),
          ...(json === undefined ? {} : { "content-type": "application/json" }),
          ...headers
        },
        ...(json === undefined ? {} : { body: JSON.stringify(json) })
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, text, body: parsed(text) }
    }))

/** Writes to a socket, and reads what comes back until it closes, or until there is a whole head of an answer. */
export const raw = (...parts: ReadonlyArray<string>) =>
  Effect.flatMap(Url, (url) =>
    Effect.callback<string>((resume) => {
      const { hostname, port } = new URL(url)
      const socket = net.connect(Number(port), hostname, () => {
        for (const part of parts) socket.write(part, "latin1")
      })
      let read = ""
      socket.on("data", (chunk) => {
        read += chunk
        if (read.includes("\r\n\r\n")) resume(Effect.succeed(read))
      })
      socket.on("error", () => resume(Effect.succeed(read)))
      socket.on("close", () => resume(Effect.succeed(read)))
      return Effect.sync(() => socket.destroy())
    }).pipe(Effect.scoped))

/** Writes to a socket, and is gone. */
export const writtenAndGone = (...parts: ReadonlyArray<string>) =>
  Effect.flatMap(Url, (url) =>
    Effect.callback<void>((resume) => {
      const { hostname, port } = new URL(url)
      const socket = net.connect(Number(port), hostname, () => socket.write(parts.join(""), () => socket.destroy()))
      socket.on("close", () => resume(Effect.void))
    }))

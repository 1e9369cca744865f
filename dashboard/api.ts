// Asking the server. Reads are repeated while the page is seen, and stop while it is hidden; writes carry a header that no
// form can send.
import { useEffect, useRef, useState } from "preact/hooks"

/** How long an answer may take; a change of very many things is one of many commits. */
const TIMEOUT_MILLIS = 15_000
const MEND_TIMEOUT_MILLIS = 600_000

/** How often a page asks again, and at the most how rarely: while answers are slow, and while there are none. */
const POLL_MILLIS = 2_000
const SLOW_LIMIT_MILLIS = 10_000
const POLL_LIMIT_MILLIS = 30_000

/** After an answer a page waits so many times as long as that took: what is much work is not asked for all the time. */
const PAUSE_FACTOR = 50

/** The server said no, or nothing. */
export class Failed extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const request = async <A>(path: string, init: RequestInit, timeout: number, signal?: AbortSignal): Promise<A> => {
  const signals = [AbortSignal.timeout(timeout), ...(signal === undefined ? [] : [signal])]
  let response: Response
  try {
    response = await fetch(`api/${path}`, { ...init, signal: AbortSignal.any(signals), redirect: "error" })
  } catch (cause) {
    if (signal?.aborted) throw cause
    throw new Failed(0, "The server does not answer. Is the process that serves this page still running?")
  }
  let body: unknown
  try {
    body = await response.json()
  } catch {
    body = undefined
  }
  if (response.ok) return body as A
  const message = (body as { message?: unknown } | undefined)?.message
  throw new Failed(response.status, typeof message === "string" ? message : `The server answered ${response.status}.`)
}

/** The path of a read with its parameters, those that are undefined or empty left out. */
export const pathOf = (path: string, params: Record<string, string | undefined> = {}): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== "") search.set(name, value)
  const text = search.toString()
  return text === "" ? path : `${path}?${text}`
}

/** Changes something. */
export const mend = <A = { readonly message: string }>(body: object): Promise<A> =>
  request("mend", {
    method: "POST",
    headers: { "content-type": "application/json", "x-effect-dgen": "dashboard" },
    body: JSON.stringify(body)
  }, MEND_TIMEOUT_MILLIS)

export interface Polled<A> {
  readonly data: A | undefined
  readonly failed: Failed | undefined
  /** Asks at once. */
  readonly again: () => void
}

/** What a path answers, asked for again and again while the page is seen. */
export const usePolled = <A>(path: string, everyMillis: number = POLL_MILLIS): Polled<A> => {
  const [answer, setAnswer] = useState<{ path: string; data: A | undefined; failed: Failed | undefined }>()
  const again = useRef(() => {})
  useEffect(() => {
    let controller = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let pause = everyMillis
    const ask = async () => {
      clearTimeout(timer)
      controller.abort()
      controller = new AbortController()
      const { signal } = controller
      if (document.hidden) return
      const asked = performance.now()
      try {
        const data = await request<A>(path, {}, TIMEOUT_MILLIS, signal)
        if (signal.aborted) return
        const took = performance.now() - asked
        pause = Math.max(everyMillis, Math.min(SLOW_LIMIT_MILLIS, took * PAUSE_FACTOR))
        setAnswer({ path, data, failed: undefined })
      } catch (cause) {
        if (signal.aborted) return
        pause = Math.min(POLL_LIMIT_MILLIS, Math.max(pause, POLL_MILLIS) * 2)
        const failed = cause instanceof Failed ? cause : new Failed(0, String(cause))
        // what was seen last stays, unless the server says that it is not there or not for us
        setAnswer((last) => ({
          path,
          data: last?.path === path && (failed.status === 0 || failed.status >= 500) ? last.data : undefined,
          failed
        }))
      }
      timer = setTimeout(ask, pause)
    }
    again.current = ask
    document.addEventListener("visibilitychange", ask)
    void ask()
    return () => {
      document.removeEventListener("visibilitychange", ask)
      clearTimeout(timer)
      controller.abort()
    }
  }, [path])
  const current = answer?.path === path ? answer : undefined
  return { data: current?.data, failed: current?.failed, again: () => again.current() }
}

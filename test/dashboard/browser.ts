/**
 * A browser for tests: one of a file, a page of its own for each test. What a page says on its console, and whom it asks,
 * is kept: a page of the dashboard says nothing, and asks nobody but its server.
 */
import { it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { MemoryBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { type BrowserContext, chromium, type Page } from "playwright-core"
import { afterAll, beforeAll } from "vitest"
import { findChromium, whyNoBrowser } from "../../scripts/chromium.mjs"
import { type Needs, serve, type ServeOptions } from "./support.ts"

const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // a name that somebody points at this machine
  "--host-resolver-rules=MAP rebound.test 127.0.0.1"
]

const why = whyNoBrowser()

let context: BrowserContext | undefined

/** Starts the browser before the tests of a file, and ends it after them. */
export const useBrowser = (): void => {
  if (why !== undefined) return
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "effect-dgen-chromium-"))
  beforeAll(async () => {
    const options = { executablePath: findChromium()!, headless: true, args: ARGUMENTS }
    context = await chromium.launchPersistentContext(profile, { ...options, viewport: { width: 1280, height: 900 } })
    context.setDefaultTimeout(20_000)
  })
  afterAll(async () => {
    await context?.close()
    fs.rmSync(profile, { recursive: true, force: true })
  })
}

/** A test that needs a browser; without one it is skipped, and says why. */
export const browserTest = (title: string, body: Effect.Effect<void, unknown, Needs>) =>
  why === undefined
    ? it.live(title, () =>
      body.pipe(
        Effect.scoped,
        Effect.provide(Tenant.layer(["shop", "live"]).pipe(Layer.provideMerge(MemoryBackend.layer))),
        Effect.provide(Logger.layer([]))
      ))
    : it.skip(`${title}: ${why}`, () => {})

/** Does something with the browser. */
export const browse = <A>(use: () => Promise<A>) => Effect.promise(use)

/** A page, with what it has said and whom it has asked. */
export interface Watched {
  readonly page: Page
  readonly said: Array<string>
  readonly asked: Array<string>
}

export const newPage = Effect.acquireRelease(
  browse(async (): Promise<Watched> => {
    const page = await context!.newPage()
    const said: Array<string> = []
    const asked: Array<string> = []
    page.on("console", (message) => said.push(message.text()))
    page.on("pageerror", (error) => said.push(error.message))
    page.on("request", (request) => asked.push(request.url()))
    return { page, said, asked }
  }),
  ({ page }) => browse(() => page.close())
)

/** A dashboard of the test's tenant, open in a page that has exchanged the token. */
export const openPage = (options: ServeOptions = {}) =>
  Effect.gen(function*() {
    const served = yield* serve(options)
    const watched = yield* newPage
    yield* browse(() => watched.page.goto(served.url))
    return {
      ...served,
      ...watched,
      go: (hash: string) =>
        browse(async () => {
          await watched.page.goto(`${served.origin}/#/${hash}`)
          await watched.page.locator("#main h1").waitFor()
        })
    }
  })

/**
 * A browser for tests: the Chromium of this machine (`CHROMIUM`, or one of the usual programs on the PATH), without a window.
 * It is told to fetch nothing of its own, and keeps its profile in a folder that is removed with it.
 */
import { it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { type Browser, chromium } from "playwright-core"
import { afterAll } from "vitest"

const PROGRAMS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync"
]

const found = process.env["CHROMIUM"] ??
  PROGRAMS.flatMap((name) => (process.env["PATH"] ?? "").split(path.delimiter).map((folder) => path.join(folder, name)))
    .find((file) => fs.existsSync(file))

/** Why there is no browser, or `undefined`. */
export const skipped = found === undefined
  ? `no Chromium was found: install one (apt-get install chromium), or name it in CHROMIUM`
  : undefined

/** A browser for the tests of this file. Playwright gives it a new profile, and removes it. */
export const startBrowser = async (): Promise<Browser> => {
  const browser = await chromium.launch({ executablePath: found!, args: FLAGS })
  afterAll(() => browser.close())
  return browser
}

/** Defines tests with a browser, or one skipped test that says why there are none. */
export const inChromium = (title: string, define: () => void): void => {
  if (skipped === undefined) return define()
  process.stdout.write(`${title}: skipped: ${skipped}\n`)
  it.skip(`${title}: ${skipped}`, () => {})
}

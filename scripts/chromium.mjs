// The browser that tests drive: Debian's chromium, or what CHROMIUM names.
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"

const NAMES = ["chromium", "chromium-browser", "google-chrome"]

/** Where the browser is; undefined where there is none. */
export const findChromium = (env = process.env) => {
  if (env.CHROMIUM) return existsSync(env.CHROMIUM) ? env.CHROMIUM : undefined
  const folders = (env.PATH ?? "").split(delimiter)
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path))
}

/** Why tests in a browser do not run; undefined where they do. */
export const whyNoBrowser = () =>
  findChromium() === undefined ? "no chromium was found: apt-get install chromium, or name it in CHROMIUM" : undefined

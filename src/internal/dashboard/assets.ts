/**
 * The page's files, as `npm run build` made them: each is read once and kept, as it is and compressed. Nothing of them
 * says anything of a store.
 */
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { gzipSync } from "node:zlib"

/** A file of the page. */
export interface Asset {
  readonly type: string
  readonly bytes: Uint8Array
  readonly compressed: Uint8Array
}

const TYPES = {
  "index.html": "text/html; charset=utf-8",
  "app.js": "text/javascript; charset=utf-8",
  "style.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml"
} as const

export type AssetName = keyof typeof TYPES

export const NAMES = Object.keys(TYPES) as ReadonlyArray<AssetName>

/** What was built lies in `dist`, also for who runs the sources. */
const FOLDER = new URL(
  import.meta.url.endsWith(".ts") ? "../../../dist/dashboard/" : "../../dashboard/",
  import.meta.url
)

const read = (name: AssetName): Asset => {
  const bytes = new Uint8Array(fs.readFileSync(new URL(name, FOLDER)))
  return { type: TYPES[name], bytes, compressed: new Uint8Array(gzipSync(bytes)) }
}

let kept: Readonly<Record<AssetName, Asset>> | undefined

/** All files of the page. Dies where they were not built: the package has them, a clone does not. */
export const load: Effect.Effect<Readonly<Record<AssetName, Asset>>> = Effect.suspend(() => {
  if (kept !== undefined) return Effect.succeed(kept)
  try {
    kept = Object.fromEntries(NAMES.map((name) => [name, read(name)])) as Record<AssetName, Asset>
    return Effect.succeed(kept)
  } catch (cause) {
    return Effect.die(new Error(`the dashboard's page is not in ${FOLDER.pathname}: run npm run build`, { cause }))
  }
})

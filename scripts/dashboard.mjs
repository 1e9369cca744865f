// Builds the dashboard's page from dashboard/ into dist/dashboard: one script, one style sheet, all that they need in
// them. Nothing is fetched from elsewhere, neither here nor in the browser. `build` is what tests call.
import { build as bundle } from "esbuild"
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const source = join(root, "dashboard")
const target = join(root, "dist", "dashboard")

export const build = async () => {
  const { outputFiles } = await bundle({
    absWorkingDir: root,
    entryPoints: { app: join(source, "main.tsx"), style: join(source, "style.css") },
    outdir: target,
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "eof",
    define: { "process.env.NODE_ENV": "\"production\"" }
  })
  const files = new Map(outputFiles.map(({ contents, path }) => [path, contents]))
  for (const name of ["index.html", "icon.svg"]) files.set(join(target, name), readFileSync(join(source, name)))
  mkdirSync(target, { recursive: true })
  // several processes may build at one time, and one may read meanwhile
  for (const [path, contents] of files) {
    const begun = `${path}.${process.pid}`
    writeFileSync(begun, contents)
    renameSync(begun, path)
  }
  return target
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await build()

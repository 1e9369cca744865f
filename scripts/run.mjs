// Runs a command of this project on a machine that may have only some Node and npm: installs what is missing, then
// starts the command with the project's own Node (the npm package `node`) first on the PATH.
//
//   node scripts/run.mjs vitest run
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, rmSync, statSync, symlinkSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { findFoundationDb, withLibrary } from "./foundationDb.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bin = join(root, "node_modules", ".bin")
const installed = join(root, "node_modules", ".package-lock.json")
const projectNode = join(bin, process.platform === "win32" ? "node.cmd" : "node")

const run = (command, args, env) =>
  spawnSync(command, args, { cwd: root, env, stdio: "inherit", shell: process.platform === "win32" })

const stale = () =>
  !existsSync(installed) || !existsSync(projectNode) ||
  statSync(installed).mtimeMs < statSync(join(root, "package-lock.json")).mtimeMs

// not `npm ci`: that fails where a registry lacks the packages of some other platform
if (stale()) {
  console.log("Installing what is missing ...")
  const result = run("npm", ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], process.env)
  if (result.status !== 0) process.exit(result.status ?? 1)
}

// npm does not install an optional peer dependency here, so the package lies in a folder of its own. Its binary comes
// with it; its install script only looks whether that loads, and would build it if not
const found = findFoundationDb()
if (found.missing === undefined && found.needsPackage) {
  const folder = join(root, "node_modules", ".cache", "foundationdb")
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
  mkdirSync(folder, { recursive: true })
  const result = run("npm", ["install", "--prefix", folder, ...flags, "foundationdb@2"], process.env)
  if (result.status === 0) {
    const link = join(root, "node_modules", "foundationdb")
    // one that leads nowhere
    rmSync(link, { force: true, recursive: true })
    symlinkSync(join(folder, "node_modules", "foundationdb"), link, "junction")
  }
}

const [command, ...args] = process.argv.slice(2)
const result = run(
  command,
  args,
  withLibrary({
    ...process.env,
    PATH: `${bin}${delimiter}${process.env.PATH ?? ""}`,
    // the type tests need a TypeScript that can be called, which 7 cannot: without this one they download another
    TSTYCHE_TYPESCRIPT_MODULE: "typescript-6"
  })
)
if (result.error) console.error(`cannot run ${command}: ${result.error.message}`)
process.exit(result.status ?? 1)

// The package as a user gets it: packed, checked by publint and attw, installed into a project of its own, compiled
// there with every declaration checked, and run.
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

const folder = mkdtempSync(join(tmpdir(), "effect-dgen-pack-"))

const run = (title, command, args, cwd = process.cwd()) => {
  const result = spawnSync(command, args, { cwd, encoding: "utf8" })
  if (result.status === 0) return result.stdout
  console.error(`${title} failed\n${result.stdout}\n${result.stderr}`)
  rmSync(folder, { recursive: true, force: true })
  process.exit(1)
}

run("the build", "npm", ["run", "--silent", "build:all"])
run("npm pack", "npm", ["pack", "--pack-destination", folder, "--loglevel=error"])
const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")))
run("publint", "publint", [tarball, "--strict"])
run("attw", "attw", [tarball, "--profile", "esm-only"])

const consumer = join(folder, "consumer")
mkdirSync(consumer)
writeFileSync(join(consumer, "package.json"), JSON.stringify({ name: "consumer", type: "module", private: true }))
const { devDependencies } = JSON.parse(readFileSync("package.json", "utf8"))
const beside = ["effect", "@types/node"].map((name) => `${name}@${devDependencies[name]}`)
run("npm install", "npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", tarball, ...beside], consumer)
writeFileSync(
  join(consumer, "tsconfig.json"),
  JSON.stringify({
    compilerOptions: {
      target: "ES2024",
      module: "NodeNext",
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
      allowImportingTsExtensions: true,
      types: ["node"]
    },
    include: ["main.ts"]
  })
)
writeFileSync(
  join(consumer, "main.ts"),
  `import { Effect, Layer, Schema } from "effect"
import { DgenServer, MemoryBackend, Tenant } from "effect-dgen"
import * as Tuple from "effect-dgen/Tuple"
import { page } from "./page.ts"

class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: { Add: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int }) }
}) {}

const behaviour = Counter.behaviour({
  init: Effect.succeed({ count: 0 }),
  handlers: { Add: ({ by }, state) => DgenServer.reply(state.count + by, { count: state.count + by }) }
})

const live = Counter.layer(behaviour).pipe(
  Layer.provide(Tenant.layer(["consumer"])),
  Layer.provide(MemoryBackend.layer)
)

const program = Effect.flatMap(Counter, (counter) => counter.call("Add", { by: 41 })).pipe(Effect.provide(live))
console.log(await Effect.runPromise(program), Tuple.unpack(Tuple.pack(["ok"]))[0], page.requests.size)
`
)
// what a browser imports, where there are no types of Node
writeFileSync(
  join(consumer, "page.ts"),
  `import * as DgenProxy from "effect-dgen/DgenProxy"
import * as Protocol from "effect-dgen/Protocol"
import { Schema } from "effect"

export const page = DgenProxy.toRpcGroup(
  Protocol.make("Cart", { messages: { Add: Protocol.cast({ payload: { sku: Schema.String } }) } }),
  { messages: ["Add"], tuid: { schema: Schema.Int, toTuid: (cart) => ["cart", cart] }, authorization: "public" }
)
`
)
writeFileSync(
  join(consumer, "page.json"),
  JSON.stringify({
    extends: "./tsconfig.json",
    compilerOptions: { module: "ESNext", moduleResolution: "Bundler", lib: ["ES2024", "DOM"], types: [] },
    include: ["page.ts"]
  })
)
// by its path: the TypeScript of the type tests has a `tsc` too
const tsc = join(process.cwd(), "node_modules", "typescript", "bin", "tsc")
run("compiling the consumer", "node", [tsc, "-p", "."], consumer)
run("compiling the page of the consumer", "node", [tsc, "-p", "page.json"], consumer)
const printed = run("running the consumer", "node", ["main.ts"], consumer).trim()
if (printed !== "41 ok 1") {
  console.error(`the consumer printed ${JSON.stringify(printed)}`)
  process.exit(1)
}
writeFileSync(
  join(consumer, "dashboard.ts"),
  `import { Effect, Layer } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { Dashboard, MemoryBackend, Tenant } from "effect-dgen"

const dashboard = Dashboard.layer({ authorize: () => Effect.succeed(true) }).pipe(
  Layer.provide(Tenant.layer(["consumer"])),
  Layer.provide(MemoryBackend.layer)
)
const { dispose, handler } = HttpRouter.toWebHandler(Layer.provide(dashboard, HttpServer.layerServices), {
  disableLogger: true
})
for (const path of ["", "app.js", "style.css", "icon.svg", "api/overview"]) {
  const answer = await handler(new Request("http://localhost/dgen/" + path))
  console.log(path, answer.status, (await answer.text()).length > 100)
}
await dispose()
`
)
const shown = run("running the dashboard", "node", ["dashboard.ts"], consumer).trim().split("\n")
if (shown.length !== 5 || !shown.every((line) => line.endsWith("200 true"))) {
  console.error(`the dashboard of the package answered ${shown.join(", ")}`)
  process.exit(1)
}
run("the program effect-dgen", "npx", ["effect-dgen", "--help"], consumer)

// what the documents link to comes with the package, headings included
const installed = join(consumer, "node_modules", "effect-dgen")
const documents = ["README.md", "CHANGELOG.md"].concat(
  readdirSync(join(installed, "docs"), { recursive: true }).filter((name) => name.endsWith(".md")).map((name) =>
    join("docs", name)
  )
)
const anchorsOf = (file) =>
  Array.from(
    readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm),
    ([, heading]) => heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-")
  )
for (const document of documents) {
  for (const [, link] of readFileSync(join(installed, document), "utf8").matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(link)) continue
    const [path, anchor] = link.split("#")
    const target = path === "" ? join(installed, document) : join(installed, dirname(document), path)
    const found = existsSync(target) && (anchor === undefined || anchorsOf(target).includes(anchor))
    if (!found) {
      console.error(`${document} links to ${link}, which the package does not have`)
      process.exit(1)
    }
  }
}

for (const blocked of ["effect-dgen/internal/data/keys", "effect-dgen/index"]) {
  const probe = spawnSync("node", ["--input-type=module", "-e", `await import(${JSON.stringify(blocked)})`], {
    cwd: consumer,
    encoding: "utf8"
  })
  if (!probe.stderr.includes("ERR_PACKAGE_PATH_NOT_EXPORTED")) {
    console.error(`${blocked} can be imported, and must not`)
    process.exit(1)
  }
}
rmSync(folder, { recursive: true, force: true })
console.log("the package installs, compiles and runs")

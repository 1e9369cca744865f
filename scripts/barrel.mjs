// Writes src/index.ts from the modules in src; with --check it only says whether the file is up to date.
import { readdirSync, readFileSync, writeFileSync } from "node:fs"

const modules = readdirSync("src").filter((name) => /^[A-Z]\w*\.ts$/.test(name)).sort()
const docOf = (name) => /^\/\*\*[\s\S]*?\*\/\n/.exec(readFileSync(`src/${name}`, "utf8"))?.[0] ?? ""
const text = "// @barrel: Auto-generated exports. Do not edit manually.\n" +
  modules.map((name) => `\n${docOf(name)}export * as ${name.slice(0, -3)} from "./${name}"\n`).join("")

if (process.argv.includes("--check")) {
  let current = ""
  try {
    current = readFileSync("src/index.ts", "utf8")
  } catch {}
  if (current !== text) {
    console.error("src/index.ts is not what the modules in src make it: run npm run barrel")
    process.exit(1)
  }
} else writeFileSync("src/index.ts", text)

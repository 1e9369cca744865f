import * as path from "node:path"
import { defineConfig } from "vitest/config"
import type { Reporter, TestModule } from "vitest/node"
import { whyNoBrowser } from "./scripts/chromium.mjs"
import { whySkipped, withLibrary } from "./scripts/foundationDb.mjs"

const src = path.join(import.meta.dirname, "src")

/** Where a report for programs goes, besides the one for people. */
const report = process.env.VITEST_JSON

// the workers inherit these, and so does each process that a test starts: it runs the sources, never what was built
Object.assign(process.env, withLibrary(process.env))
process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ""} --conditions=effect-dgen-source`

/** Says last which suites did not run, and why. */
const skipped: Reporter = {
  onTestRunEnd: (modules: ReadonlyArray<TestModule>) => {
    const reasons = [["FoundationDB suites", whySkipped()], ["Tests in a browser", whyNoBrowser()]] as const
    for (const [what, why] of reasons) {
      if (why === undefined) continue
      const tests = modules.flatMap((module) => [...module.children.allTests("skipped")])
      if (tests.some((test) => test.name.endsWith(why))) process.stdout.write(`${what} skipped: ${why}\n`)
    }
  }
}

export default defineConfig({
  resolve: {
    alias: [
      { find: /^effect-dgen$/, replacement: path.join(src, "index.ts") },
      { find: /^effect-dgen\/testing$/, replacement: path.join(src, "testing", "index.ts") },
      { find: /^effect-dgen\/(.*)$/, replacement: path.join(src, "$1.ts") }
    ]
  },
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/page.ts"],
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    retry: 0,
    reporters: report === undefined ? ["default", skipped] : ["default", ["json", { outputFile: report }], skipped]
  }
})

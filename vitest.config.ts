import * as path from "node:path"
import { defineConfig } from "vitest/config"

const src = path.join(import.meta.dirname, "src")

/** Where a report for programs goes, besides the one for people. */
const report = process.env.VITEST_JSON

export default defineConfig({
  resolve: {
    alias: [
      { find: /^effect-dgen$/, replacement: path.join(src, "index.ts") },
      { find: /^effect-dgen\/(.*)$/, replacement: path.join(src, "$1.ts") }
    ]
  },
  test: {
    include: ["test/**/*.test.ts"],
    maxWorkers: 2,
    testTimeout: 30_000,
    retry: 0,
    reporters: report === undefined ? ["default"] : ["default", ["json", { outputFile: report }]]
  }
})

/** The example of background jobs, run as a reader would run it. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import sharp from "sharp"
import { assert, test } from "vitest"
import { temporaryFolder } from "../support/temporary.ts"

const root = path.dirname(path.dirname(import.meta.dirname))
const pictures = ["hills", "mandelbrot", "pond", "tiles"]

test("thumbnails of all pictures are made, and the progress bars end full", { timeout: 60_000 }, async () => {
  const folder = temporaryFolder()
  const run = () =>
    execFileSync(process.execPath, [
      "examples/thumbnails.ts",
      path.join(folder, "out"),
      path.join(folder, "jobs.db")
    ], { cwd: root, encoding: "utf8" })
  const expected = [
    "4 pictures, 3 thumbnails each",
    ...pictures.map((name) => `${`${name}.png`.padEnd(16)} [####################] 100 %  finished`),
    "12 thumbnails made",
    ""
  ].join("\n")
  assert.strictEqual(run(), expected)
  for (const name of pictures) {
    for (const width of [64, 128, 256]) {
      const { format, height, width: found } = await sharp(path.join(folder, "out", `${name}-${width}.png`)).metadata()
      assert.deepStrictEqual([format, found, height], ["png", width, width * 3 / 4])
    }
  }
  // once more, on the same store: the jobs are there, and are run again
  fs.rmSync(path.join(folder, "out"), { recursive: true })
  assert.strictEqual(run(), expected)
})

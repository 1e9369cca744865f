/** Folders for tests, removed when the tests of a file are over. */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll } from "vitest"

export const temporaryFolder = (): string => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "effect-dgen-"))
  afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))
  return folder
}

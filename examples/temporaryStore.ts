/** A store in a temporary file, for examples that begin from nothing. */
import { Effect, Layer } from "effect"
import { SqliteBackend, Tenant } from "effect-dgen"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"

/** A tenant in a file of its own, which goes when the layer does. */
export const temporaryTenant = (name: string) =>
  Layer.unwrap(Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), `${name}-`))),
      (made) => Effect.sync(() => fs.rmSync(made, { recursive: true }))
    )
    return Tenant.layer(["demo", name]).pipe(
      Layer.provide(SqliteBackend.layer({ filename: path.join(folder, `${name}.db`) }))
    )
  }))

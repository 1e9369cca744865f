import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { findFoundationDb, withLibrary } from "../../scripts/foundationDb.mjs"
import { temporaryFolder } from "../support/temporary.ts"

const folder = temporaryFolder()
const library = process.platform === "darwin" ? "libfdb_c.dylib" : "libfdb_c.so"

/** An installation with some of its files. */
const home = (name: string, ...files: ReadonlyArray<string>): string => {
  const root = path.join(folder, name)
  for (const file of files) {
    fs.mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    fs.writeFileSync(path.join(root, file), "")
  }
  return root
}

describe("the search for FoundationDB", () => {
  it("finds a server and a library under FDB_HOME, and tells the loader of the library, once", () => {
    const root = home("whole", "bin/fdbserver", "bin/fdbcli", `lib/${library}`)
    const env = { FDB_HOME: root, PATH: "", LD_LIBRARY_PATH: "/elsewhere", DYLD_LIBRARY_PATH: "/elsewhere" }
    const found = findFoundationDb(env)
    assert.strictEqual(found.missing, undefined)
    assert.strictEqual(found.fdbserver, path.join(root, "bin/fdbserver"))
    const told = withLibrary(env, found)
    const value = process.platform === "darwin" ? told.DYLD_LIBRARY_PATH : told.LD_LIBRARY_PATH
    assert.strictEqual(value, `${path.join(root, "lib")}${path.delimiter}/elsewhere`)
    assert.deepStrictEqual(withLibrary(told, found), told)
  })

  it("takes the cluster that FDB_CLUSTER_FILE names, and starts none", () => {
    const env = { FDB_HOME: home("client", `lib/${library}`), FDB_CLUSTER_FILE: "/some/fdb.cluster", PATH: "" }
    const found = findFoundationDb(env)
    assert.strictEqual(found.clusterFile, "/some/fdb.cluster")
    assert.strictEqual(found.fdbserver, undefined)
  })

  it("says what is missing", () => {
    const found = findFoundationDb({ FDB_HOME: home("empty", "bin/fdbserver"), PATH: "" })
    assert.match(found.missing!, /libfdb_c|fdbcli/)
  })
})

// Looks for FoundationDB on this machine, for the tests, the examples and the benchmarks: a cluster that
// FDB_CLUSTER_FILE names, or fdbserver and fdbcli to start a throwaway one with; and the client library.
//
//   node scripts/foundationDb.mjs      says in one line what was found, or why the suites are skipped
import { existsSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const libraryName = process.platform === "darwin" ? "libfdb_c.dylib" : "libfdb_c.so"
const libraryPath = process.platform === "darwin" ? "DYLD_LIBRARY_PATH" : "LD_LIBRARY_PATH"

/** Where an installation may lie whose folders are not on the paths of the system. */
const HOMES = ["/opt/foundationdb", "/usr/local/foundationdb"]

/** Where the loader looks by itself. */
const SYSTEM_LIBRARIES = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu"]

const first = (folders, name) => folders.map((folder) => join(folder, name)).find((file) => existsSync(file))

const split = (value) => (value ?? "").split(delimiter).filter((folder) => folder !== "")

/**
 * What there is: `clusterFile`, or `fdbserver` and `fdbcli`; `library`, a folder that the loader must be told of;
 * `needsPackage`, when the npm package is not installed; `missing`, why nothing of it can be used.
 */
export const findFoundationDb = (env = process.env) => {
  const homes = env.FDB_HOME === undefined ? HOMES : [env.FDB_HOME]
  const own = first(homes.map((home) => join(home, "lib")), libraryName)
  const known = first([...split(env[libraryPath]), ...SYSTEM_LIBRARIES], libraryName)
  if (own === undefined && known === undefined) return { missing: `no client library ${libraryName} was found` }
  const library = own === undefined ? undefined : dirname(own)
  const needsPackage = !existsSync(join(root, "node_modules", "foundationdb", "package.json"))
  const rest = { needsPackage, ...(library === undefined ? {} : { library }) }
  if (env.FDB_CLUSTER_FILE !== undefined) return { clusterFile: env.FDB_CLUSTER_FILE, ...rest }
  const folders = [...homes.map((home) => join(home, "bin")), ...split(env.PATH), "/usr/sbin", "/usr/local/bin"]
  const fdbserver = first(folders, "fdbserver")
  const fdbcli = first(folders, "fdbcli")
  return fdbserver === undefined || fdbcli === undefined
    ? { missing: "neither FDB_CLUSTER_FILE nor fdbserver and fdbcli (on the PATH or under FDB_HOME/bin) were found" }
    : { fdbserver, fdbcli, ...rest }
}

/** Why the suites cannot run, or `undefined`. */
export const whySkipped = (found = findFoundationDb()) =>
  found.missing ?? (found.needsPackage
    ? "the package foundationdb is not installed: npm test installs it"
    : undefined)

/** The environment in which a process finds the client library: the loader reads it when the process starts. */
export const withLibrary = (env, found = findFoundationDb(env)) =>
  found.library === undefined || split(env[libraryPath]).includes(found.library)
    ? env
    : { ...env, [libraryPath]: [found.library, ...split(env[libraryPath])].join(delimiter) }

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const why = whySkipped()
  console.log(why === undefined ? "FoundationDB was found" : `FoundationDB suites skipped: ${why}`)
}

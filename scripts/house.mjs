// The order of the rooms: what each is, from the lowest up. A module may import from its own room and from those before
// it, types included, and within a room nothing imports in a circle. `npm run check` runs this; docs/decisions/0001-house.md
// says why, and where a new thing goes.
import { readdirSync, readFileSync, statSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"

/** Folders and modules of src, the lowest first. */
const ROOMS = [
  ["internal/tuple", "the tuple encoding: elements, writer, reader, order"],
  ["Tuple.ts", "tuples for users"],
  ["Subspace.ts", "prefixes of tuples for users"],
  ["internal/data", "plain data and bytes: keys, counters, values of schemas, how errors show values"],
  ["internal/schedules", "when things recur: periods, and cron expressions on the wall clock of a zone"],
  [
    "internal/observing",
    "what can be seen from outside: lines, spans and reports, users' loggers and tracers under guard"
  ],
  ["BackendError.ts", "what stores fail with"],
  ["Backend.ts", "the seam between the library and a store"],
  [
    "internal/stores",
    "stores that this library keeps itself: optimistic commits, their log, old and new values, watches, memory"
  ],
  ["internal/simulation", "faults, random numbers and virtual time of simulations"],
  ["internal/sqlite", "the file of SQLite and its store"],
  ["internal/foundationdb", "the driver of FoundationDB"],
  ["internal/postgres", "the driver of PostgreSQL"],
  ["MemoryBackend.ts", "the store in memory, as a layer"],
  ["SqliteBackend.ts", "SQLite, as a layer"],
  ["FoundationDbBackend.ts", "FoundationDB, as a layer"],
  ["internal/transactions", "one transaction: the retry loop, a try's state and overlay, slots, strict mode, watching"],
  ["Transaction.ts", "operations of transactions for users"],
  [
    "internal/tenant",
    "what a tenant's layer keeps: where things lie, open calls, shared pushes, its hosts, its sign of life"
  ],
  ["Tenant.ts", "tenants, as layers"],
  ["internal/joining", "transaction effects within a transaction of the user's own"],
  ["PostgresBackend.ts", "PostgreSQL, as a layer, and within a user's transactions"],
  ["internal/state", "how a state is divided into keys, written as a difference, read, merged"],
  ["StateCodec.ts", "state codecs for users"],
  ["internal/queue", "the durable queue and its dead letters"],
  ["DurableQueue.ts", "queues for operators"],
  ["internal/jobs/definition", "what jobs of a type are: options, keys, errors"],
  [
    "internal/jobs/kept",
    "what is kept of a job: its row, its states and the changes between them, whom it waits for, rates, what is told of it"
  ],
  [
    "internal/jobs/operations",
    "what a program asks of jobs: transaction effects on one, whom it waits for, looks at many"
  ],
  ["internal/jobs/background", "what fibers of a process share for a type: watches, the monitor of leases"],
  ["internal/jobs/watching", "subscriptions, and waiting for a job"],
  ["internal/jobs/working", "taking jobs, running their handlers, renewing their leases"],
  ["internal/jobs/schedules", "jobs that are added at the ticks of a cron expression"],
  ["Jobs.ts", "jobs for users"],
  ["internal/server/definition", "what a server is: its definition, outcomes, errors, and the types that users see"],
  ["Protocol.ts", "what can be said to a server, for browsers too"],
  ["internal/proxy/definition", "what is shown of a server to the outside: options, errors with their statuses"],
  ["DgenProxy.ts", "servers as procedures and as endpoints, for browsers too"],
  [
    "internal/server/kept",
    "what is kept of a server: where it lies, its head, its state, the indexes that it stands in"
  ],
  ["internal/server/sending", "what is sent: messages to a server, answers to callers, clients"],
  [
    "internal/server/handling",
    "how one message is handled: a running server's parts, handlers, purity, actions, metrics"
  ],
  [
    "internal/server/mending",
    "what puts a server in order, or ends it: attempts, requeues, an unlock by hand, sweeps, the list, kill"
  ],
  ["internal/server/timers", "messages that are sent at their time: rows, setting, sending what is due"],
  ["internal/server/keys", "messages with a key: each takes effect once, however often it is sent"],
  ["internal/server/durable", "actions that are not lost with their process: one job after another of each server"],
  ["internal/server/running", "what runs: the consumer and its batches, inline calls, locked handlers, the handle"],
  ["internal/server/hosting", "hosted servers: which process works on which, and what has something to do"],
  ["internal/server", "the service of a definition: options checked, parts put together"],
  ["DgenServer.ts", "servers for users"],
  ["internal/proxy/serving", "requests from outside, passed on to servers"],
  ["DgenProxyServer.ts", "handlers for the procedures and endpoints of servers, as layers"],
  [
    "internal/inspect",
    "looking at what a tenant holds, and mending it, without the definitions of its servers and jobs"
  ],
  [
    "internal/inspect/check",
    "what does not belong in a tenant: parts without a whole, counters that lie, missing entries"
  ],
  ["Inspect.ts", "looking and mending for users"],
  [
    "internal/dashboard",
    "the dashboard's server: who may ask, what is answered, what is measured; its page is in dashboard/"
  ],
  ["Dashboard.ts", "the dashboard for users, as a layer"],
  ["testing", "what users test their programs with"],
  ["internal/cli", "the command line"],
  ["index.ts", "all modules by their names"]
]

const root = "src"
const walk = (folder) =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? walk(path) : path.endsWith(".ts") ? [path] : []
  })

/** The number of the room of a module: a folder's own files alone, not those of folders below it. */
const roomOf = (file) => {
  const path = relative(root, file).split("\\").join("/")
  return ROOMS.findIndex(([room]) => path === room || dirname(path) === room)
}

const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g
/** The package by its own name: an import that goes round the order of the rooms. */
const OWN_NAME = /(?:\bfrom|\bimport)\s*\(?\s*"(effect-dgen(?:\/[^"]*)?)"/g
// what examples in comments import is no import
const withoutComments = (text) => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "")
const importsOf = (file, text) =>
  Array.from(text.matchAll(IMPORT), ([, path]) => relative(".", resolve(dirname(file), path)))

const problems = []
const files = walk(root)
const texts = new Map(files.map((file) => [file, withoutComments(readFileSync(file, "utf8"))]))
const imports = new Map(files.map((file) => [file, importsOf(file, texts.get(file))]))

for (const [name] of ROOMS) {
  if (!files.some((file) => ROOMS[roomOf(file)]?.[0] === name)) {
    problems.push(`${name} is in the list, and there is none`)
  }
}
for (const [file, text] of texts) {
  for (const [, name] of text.matchAll(OWN_NAME)) {
    problems.push(`${file} imports ${name}: import the module by its path`)
  }
}
for (const [file, targets] of imports) {
  const room = roomOf(file)
  if (room < 0) {
    problems.push(`${file} is in no room of the list in scripts/house.mjs`)
    continue
  }
  for (const target of targets) {
    const other = roomOf(target)
    if (!imports.has(target)) problems.push(`${file} imports ${target}, and there is none`)
    else if (other > room) {
      problems.push(`${file} (${ROOMS[room][0]}) imports upward: ${target} (${ROOMS[other][0]})`)
    }
  }
}

const done = new Set()
const path = []
const visit = (file) => {
  if (done.has(file)) return
  const at = path.indexOf(file)
  if (at >= 0) {
    problems.push(`a circle: ${[...path.slice(at), file].join(" -> ")}`)
    return
  }
  path.push(file)
  for (const target of imports.get(file) ?? []) visit(target)
  path.pop()
  done.add(file)
}
for (const file of files) visit(file)

if (process.argv.includes("--draw")) {
  const width = Math.max(...ROOMS.map(([name]) => name.length))
  for (const [name, what] of ROOMS.toReversed()) console.log(`${name.padEnd(width)}  ${what}`)
}
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exit(1)

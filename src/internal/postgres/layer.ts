/**
 * The backend of a schema: what a layer holds, and what it shares with the others of this process.
 *
 * 1. A layer has connections of its own: some read, at least one commits, and one listens when somebody waits. Transactions
 *    keep a reading one while their bodies run, so those that commit are apart: a commit never waits for a body.
 * 2. Wake-ups are shared by all layers of a store, however they are connected.
 * 3. When the scope closes, reads end, commits under way are waited for, watches fail, and then the connections close.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Backend } from "../../Backend.ts"
import type { BackendError } from "../../BackendError.ts"
import * as Keys from "../data/keys.ts"
import * as Directory from "../stores/directory.ts"
import { Signals } from "../stores/signals.ts"
import { Commits } from "./commits.ts"
import { Connection } from "./connection.ts"
import { closedError, toBackendError } from "./errors.ts"
import type { Lane } from "./lanes.ts"
import { Listening } from "./listening.ts"
import * as Literals from "./literals.ts"
import { migrate } from "./migrating.ts"
import { load, type PgConfig, type PgPackage } from "./package.ts"
import { Pool } from "./pool.ts"
import { begin, type Shared } from "./transaction.ts"
import { type Seen, Watching } from "./watching.ts"

/** How a layer connects. */
export interface Settings {
  readonly connection: PgConfig
  readonly listen: PgConfig
  readonly schema: string
  readonly maxConnections: number
  readonly connectLimitMillis: number
  readonly migrate: boolean
}

/** Of so many connections, one commits. */
const CONNECTIONS_PER_COMMITTER = 4

/** The wake-ups of this process by the ids of stores (2). */
const stores = new Map<string, { readonly signals: Signals; layers: number }>()

const signalsOf = (store: string): Effect.Effect<Signals, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const shared = stores.get(store) ?? { signals: new Signals(), layers: 0 }
        shared.layers++
        stores.set(store, shared)
        return shared
      }),
      (shared) => Effect.sync(() => --shared.layers === 0 && stores.delete(store))
    ),
    (shared) => shared.signals
  )

/** What there is behind a backend of this driver. */
export interface Inside {
  readonly shared: Shared
  readonly store: string
}

const insides = new WeakMap<Backend["Service"], Inside>()

/** What is behind a backend; `undefined` for one of another store. */
export const insideOf = (backend: Backend["Service"]): Inside | undefined => insides.get(backend)

/** How long it waits before it asks again a server that did not answer. */
const CONNECT_PAUSE_MILLIS = 100

const prepareOnce = async (pg: PgPackage, settings: Settings): Promise<string> => {
  const connection = await Connection.open(pg, settings.connection)
  try {
    return await migrate(connection, settings.schema, settings.migrate)
  } finally {
    await connection.end()
  }
}

/** Connects for the first time, and sees to the tables. A server that starts is waited for. */
const prepare = async (pg: PgPackage, settings: Settings): Promise<string> => {
  const until = performance.now() + settings.connectLimitMillis
  for (;;) {
    try {
      return await prepareOnce(pg, settings)
    } catch (cause) {
      const error = toBackendError(cause, "connect")
      if (!error.isRetryable || performance.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, CONNECT_PAUSE_MILLIS))
    }
  }
}

interface Parts {
  readonly shared: Shared
  readonly close: () => Promise<void>
}

const look =
  (readers: Pool, schema: string, origin: () => bigint) => async (lane: Lane, since: bigint): Promise<Seen> => {
    const { connection, first } = await readers.take()
    try {
      const answers = await connection.query(
        `${first}SELECT version, whole, keys, begins, ends FROM ` +
          `${schema}.look(${Literals.bytea(Keys.fromText(lane))}, ${since}::bigint, ${origin()}::bigint)`
      )
      const [head, ...rows] = answers[0] as unknown as [[string, boolean], ...Array<Row>]
      return {
        newest: BigInt(head[0]),
        isWhole: head[1],
        events: rows.map(([version, , keys, begins, ends]) => ({
          version: BigInt(version),
          keys: keys.map(Keys.toText),
          ranges: begins.map((begin, i) => ({ begin: Keys.toText(begin), end: Keys.toText(ends[i]!) }))
        }))
      }
    } finally {
      readers.give(connection, false)
    }
  }

type Row = readonly [
  version: string,
  whole: boolean,
  keys: ReadonlyArray<Uint8Array>,
  begins: ReadonlyArray<Uint8Array>,
  ends: ReadonlyArray<Uint8Array>
]

const assemble = (pg: PgPackage, settings: Settings, store: string): Parts => {
  const schema = Literals.identifier(settings.schema)
  const open = () => Connection.open(pg, settings.connection)
  const committers = new Pool(Math.max(1, Math.floor(settings.maxConnections / CONNECTIONS_PER_COMMITTER)), open)
  const readers = new Pool(
    Math.max(1, settings.maxConnections - 1 - Math.floor(settings.maxConnections / CONNECTIONS_PER_COMMITTER)),
    open
  )
  const commits = new Commits(committers, schema, store, {
    committed: (lane, version, effects) => watching.committed(lane, version, effects)
  })
  const listening = new Listening(store, {
    open: () => Connection.open(pg, settings.listen),
    notify: async (channel, payload) => {
      const { connection, first } = await committers.take()
      try {
        await connection.query(`${first}SELECT pg_notify('${channel}', '${payload}')`)
      } finally {
        committers.give(connection, false)
      }
    },
    origin: () => commits.origin,
    heard: (lane) => watching.look(lane),
    changed: () => watching.hearingChanged()
  })
  const watching = new Watching({
    look: look(readers, schema, () => commits.origin),
    hear: (lane) => listening.hear(lane),
    isHearing: (lane) => listening.isHearing(lane)
  })
  const shared: Shared = { schema, readers, commits, watching, isClosed: false }
  return {
    shared,
    close: async () => {
      shared.isClosed = true
      watching.close(closedError())
      readers.abort(closedError())
      await Promise.all([readers.close(), listening.close(), commits.idle()])
      await committers.close()
    }
  }
}

/** Loads the package, connects, sees to the tables, and gives the backend until the scope ends. */
export const make = (
  settings: Settings,
  from: () => Promise<PgPackage>
): Effect.Effect<Backend["Service"], BackendError, Scope.Scope> =>
  Effect.gen(function*() {
    const pg = yield* load(from)
    const store = yield* Effect.tryPromise({
      try: () => prepare(pg, settings),
      catch: (cause) => toBackendError(cause, "connect")
    })
    const { shared } = yield* Effect.acquireRelease(
      Effect.sync(() => assemble(pg, settings, store)),
      ({ close }) => Effect.promise(close)
    )
    const opened = begin(shared)
    const backend = Backend.of({
      name: "postgres",
      processId: globalThis.crypto.getRandomValues(new Uint8Array(16)),
      commitCanBeUnknown: true,
      begin: opened,
      directory: Directory.make(opened),
      signals: yield* signalsOf(store),
      advance: (version) =>
        Effect.orDie(
          Effect.tryPromise(async () => {
            const { connection, first } = await shared.readers.take()
            const sequence = `${shared.schema}.version`
            try {
              await connection.query(
                `${first}SELECT setval('${
                  sequence.replaceAll("'", "''")
                }', GREATEST(last_value, ${version}::bigint)) ` +
                  `FROM ${sequence}`
              )
            } finally {
              shared.readers.give(connection, false)
            }
          })
        )
    })
    insides.set(backend, { shared, store })
    return backend
  })

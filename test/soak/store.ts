/** The store of a soak, by its name: the URL of a PostgreSQL server, or a SQLite file. */
import { PostgresBackend, SqliteBackend } from "effect-dgen"

/** A dozen processes share a server. */
const CONNECTIONS = 4

export const backendOf = (store: string) =>
  store.startsWith("postgres:")
    ? PostgresBackend.layer({ url: store, maxConnections: CONNECTIONS })
    : SqliteBackend.layer({ filename: store })

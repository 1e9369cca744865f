/**
 * The store's tables and functions: whether they are there, of which format, and how they are made or brought to this one.
 *
 * 1. They are made in one transaction, under a lock that every layer takes for it, so two that start together make them once.
 * 2. A store of a newer format is not touched.
 */
import { BackendError, InvalidArgument, NewerFormat, ReadOnly } from "../../BackendError.ts"
import type { Connection } from "./connection.ts"
import * as Literals from "./literals.ts"
import { FORMAT, statements } from "./statements.ts"

/** PostgreSQL 14, as `server_version_num` has it. */
const SERVER_VERSION = 140_000

/** The number of the lock under which tables are made: any that is always the same. */
const MIGRATION_LOCK = 0x6566_6667_656e_0001n

const refuse = (message: string): never => {
  throw new BackendError({ reason: new InvalidArgument({ message: `PostgresBackend.layer: ${message}` }) })
}

interface Server {
  readonly isReadOnly: boolean
  readonly exists: boolean
}

const look = async (connection: Connection, schema: string): Promise<Server> => {
  // by a query, since what a session remembers of names may be older than the lock
  const [answer] = await connection.query(
    `SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), EXISTS (` +
      "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace " +
      `WHERE n.nspname = ${Literals.text(schema)} AND c.relname = 'meta')`
  )
  const [number, version, isReadOnly, exists] = answer![0] as [number, string, boolean, boolean]
  if (number < SERVER_VERSION) return refuse(`the server is PostgreSQL ${version}: 14 or newer is needed`)
  return { isReadOnly, exists }
}

interface Store {
  readonly id: string
  readonly format: number
}

const storeOf = async (connection: Connection, schema: string): Promise<Store> => {
  const [answer] = await connection.query(`SELECT format, store::text FROM ${Literals.identifier(schema)}.meta`)
  const row = answer![0] as [number, string] | undefined
  if (row === undefined) {
    return refuse(`the schema ${schema} has a table "meta" that is not this library's: name another`)
  }
  const [format, id] = row
  if (format > FORMAT) {
    throw new BackendError({
      reason: new NewerFormat({
        message:
          `PostgresBackend.layer: the store in schema ${schema} has format ${format}, and this version of effect-dgen ` +
          `knows ${FORMAT}: upgrade effect-dgen`
      })
    })
  }
  return { id, format }
}

const make = async (connection: Connection, schema: string): Promise<void> => {
  await connection.query(`BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`)
  try {
    const { exists } = await look(connection, schema)
    if (!exists || (await storeOf(connection, schema)).format < FORMAT) {
      const [answer] = await connection.query(
        `SELECT count(*)::int FROM pg_namespace WHERE nspname = ${Literals.text(schema)}`
      )
      const all = statements(schema)
      // whoever may not make a schema may have been given one
      await connection.query((answer![0]![0] === 0 ? all : all.slice(1)).join("; "))
    }
    await connection.query("COMMIT")
  } catch (cause) {
    await connection.query("ROLLBACK").catch(() => {})
    throw cause
  }
}

/** Sees to the tables of a schema, and succeeds with the id of its store. */
export const migrate = async (connection: Connection, schema: string, mayMake: boolean): Promise<string> => {
  const { exists, isReadOnly } = await look(connection, schema)
  if (isReadOnly) {
    throw new BackendError({
      reason: new ReadOnly({
        message: "PostgresBackend.layer: the server is a standby, which only reads: connect to its primary"
      })
    })
  }
  const found = exists ? await storeOf(connection, schema) : undefined
  if (found?.format === FORMAT) return found.id
  if (!mayMake) {
    return refuse(
      `${found === undefined ? "there is no store" : `the store is of the earlier format ${found.format}`} in schema ` +
        `${schema}, and migrate is false: run what npx effect-dgen sql prints, as a role that may make tables`
    )
  }
  await make(connection, schema)
  return (await storeOf(connection, schema)).id
}

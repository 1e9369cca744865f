/** One server a test file, that ends with it; each layer of a suite has its own schema. */
import { PostgresBackend } from "effect-dgen"
import { afterAll } from "vitest"
import { startServer } from "./throwawayServer.ts"

export const server = await startServer()
afterAll(() => server.stop())

let schemas = 0

/** A store of its own. */
export const freshSchema = (): string => `store_${++schemas}`

/** The layer of a store of its own. */
export const layer = PostgresBackend.layer({ url: server.url })

/**
 * A counter of Effect Cluster whose messages are persisted on a PostgreSQL server, and whose state is a row on it: what its
 * users would write. One process does all the work, and nothing goes over a network but its statements.
 */
import { NodeCrypto } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted, Schema } from "effect"
import { ClusterSchema, Entity, SingleRunner } from "effect/cluster"
import { Rpc } from "effect/rpc"
import { SqlClient } from "effect/sql"

const Counter = Entity.make("Counter", [
  Rpc.make("Add", { payload: { by: Schema.Int }, success: Schema.Int }).annotate(ClusterSchema.Persisted, true)
])

const entity = Counter.toLayer(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return Counter.of({
    Add: ({ payload }) =>
      Effect.map(
        Effect.orDie(sql<{ count: number }>`UPDATE cluster_counter SET count = count + ${payload.by} RETURNING count`),
        ([row]) => row!.count
      )
  })
}))

const table = Layer.effectDiscard(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE cluster_counter (count int NOT NULL)`
  yield* sql`INSERT INTO cluster_counter VALUES (0)`
}))

/** The cluster on a server, with its counter. */
export const clusterLayer = (url: string) =>
  entity.pipe(
    Layer.provideMerge(SingleRunner.layer()),
    Layer.provide(table),
    Layer.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 10 })),
    Layer.provide(NodeCrypto.layerDigest)
  )

/** A call of the counter. */
export const clusterAdd = Effect.map(Counter.client, (clientFor) => clientFor("one").Add({ by: 1 }))

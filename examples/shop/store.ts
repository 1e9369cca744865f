/**
 * What all processes of the shop share: a store, as `SHOP_STORE` names it (`postgres://USER:PASSWORD@HOST/DATABASE`,
 * `foundationdb:CLUSTERFILE`, else a SQLite file in the shop's folder), and the folder of the world outside, `SHOP_FOLDER`.
 */
import { Layer } from "effect"
import { FoundationDbBackend, PostgresBackend, SqliteBackend, Tenant } from "effect-dgen"
import { join } from "node:path"

const FOUNDATIONDB = "foundationdb:"

export const folder = process.env["SHOP_FOLDER"] ?? ".data"

export const tenantPath = ["demo", "shop"]

export const backendIn = (folder: string) => {
  const store = process.env["SHOP_STORE"] ?? ""
  if (store.startsWith("postgres:")) return PostgresBackend.layer({ url: store })
  return store.startsWith(FOUNDATIONDB)
    ? FoundationDbBackend.layer({ clusterFile: store.slice(FOUNDATIONDB.length) })
    : SqliteBackend.layer({ filename: join(folder, "shop.db") })
}

export const storeIn = (folder: string) => Tenant.layer(tenantPath).pipe(Layer.provide(backendIn(folder)))

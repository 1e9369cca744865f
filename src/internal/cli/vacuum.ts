/**
 * Giving room back to the disk, while programs run: SQLite's file some pages at a time, so that its lock is held for
 * milliseconds; PostgreSQL's tables by its own `VACUUM`. FoundationDB does it by itself.
 */
import * as Effect from "effect/Effect"
import { DatabaseSync } from "node:sqlite"
import type { BackendError } from "../../BackendError.ts"
import * as PostgresBackend from "../../PostgresBackend.ts"
import { messageOfThrown } from "../data/thrown.ts"
import { VacuumFailed } from "./errors.ts"
import type { Store } from "./stores.ts"

/** 4 MB: less at a time keeps the lock for less long. */
const PAGES = 1_000

/** Between two parts others get the lock. */
const PAUSE_MILLIS = 10

/** Who writes holds the file's lock for no longer. */
const BUSY_MILLIS = 10_000

/** What was given back. */
export interface Vacuumed {
  readonly store: string
  readonly freedBytes: number | undefined
  readonly note: string
}

const failed = (store: Store, thrown: unknown) =>
  new VacuumFailed({ message: `${store.name}: ${messageOfThrown(thrown)}` })

const number = (database: DatabaseSync, pragma: string): number =>
  Number(Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? { none: 0 })[0])

const NOT_MADE_FOR_IT = "the file was made without auto_vacuum: see docs/OPERATING.md, \"How long they get\""

const sqlite = (store: Store, show: (text: string) => void): Effect.Effect<Vacuumed, VacuumFailed> => {
  const open = Effect.try({
    try: () => {
      const database = new DatabaseSync(store.filename!, { timeout: BUSY_MILLIS })
      return database
    },
    catch: (thrown) => failed(store, thrown)
  })
  const step = (database: DatabaseSync, whole: number) =>
    Effect.try({
      try: () => {
        database.exec(`PRAGMA incremental_vacuum(${PAGES})`)
        const left = number(database, "freelist_count")
        show(`${whole - left} of ${whole} free pages given back`)
        return left
      },
      catch: (thrown) => failed(store, thrown)
    })
  return Effect.acquireUseRelease(
    open,
    (database) =>
      Effect.gen(function*() {
        const page = number(database, "page_size")
        const whole = number(database, "freelist_count")
        if (number(database, "auto_vacuum") !== 2) return { store: store.name, freedBytes: 0, note: NOT_MADE_FOR_IT }
        let left = whole
        for (let before = Infinity; left > 0 && left < before;) {
          before = left
          left = yield* step(database, whole)
          yield* Effect.sleep(PAUSE_MILLIS)
        }
        yield* Effect.try({
          try: () => database.exec("PRAGMA wal_checkpoint(PASSIVE)"),
          catch: (thrown) => failed(store, thrown)
        })
        const note = "the file becomes shorter with its next checkpoint"
        return { store: store.name, freedBytes: (whole - left) * page, note }
      }),
    (database) => Effect.sync(() => database.close())
  )
}

/** Gives room back. */
export const vacuum = (
  store: Store,
  show: (text: string) => void
): Effect.Effect<Vacuumed, VacuumFailed | BackendError> => {
  switch (store.kind) {
    case "sqlite":
      return sqlite(store, show)
    case "postgres":
      return Effect.as(PostgresBackend.vacuum(store.postgres!), {
        store: store.name,
        freedBytes: undefined,
        note: "its tables were vacuumed"
      })
    case "foundationdb":
      return Effect.succeed({
        store: store.name,
        freedBytes: undefined,
        note: "FoundationDB gives room back by itself"
      })
  }
}

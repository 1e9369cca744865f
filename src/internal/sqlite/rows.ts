/**
 * The rows of a file, and ranges of them that were cleared but whose rows are not deleted yet: deleting a million rows takes
 * seconds, and a commit that clears them must not.
 *
 * Owner: `file.ts`. All of this is in the file itself, so other processes, and the next ones, see it and go on.
 *
 * 1. `cleared` holds ranges, disjoint. Rows of `kv` in them are dead. What is written into such a range after the clear lies
 *    in `fresh`, and nothing else does.
 * 2. A pass takes the first keys of a range: it deletes their rows from `kv`, moves there what `fresh` has for them, and
 *    moves the range's begin behind them, in one commit. So what is read is the same before and after it, and a pass that
 *    never came leaves nothing but room that is taken.
 * 3. While there are such ranges the file says so: its version is negative and its format is `FORMAT_CLEARED`, so that a
 *    version of this library that does not know them opens nothing and commits nothing, rather than reading dead rows. With
 *    the last range the file is as it was.
 * 4. What is known of the ranges is of one state of the file: `seen` is called with each look at the version, `forget`
 *    when a transaction of SQLite is taken back.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite"
import { holds, type Range, without } from "../stores/acceptedCommit.ts"

/** The layout of the tables; a file with a greater one was written by a newer version of the library. */
export const FORMAT = 1

/** The same, with ranges that are cleared and not yet deleted: no later layout has this number. */
export const FORMAT_CLEARED = 1_001

/** So many rows are deleted with the commit that clears them, in a few milliseconds. */
const DELETE_AT_ONCE_ROWS = 500

interface Table {
  readonly get: StatementSync
  readonly forward: StatementSync
  readonly backward: StatementSync
  readonly set: StatementSync
  readonly delete: StatementSync
  readonly deleteRange: StatementSync
  /** The key that so many others of a range come before. */
  readonly nth: StatementSync
}

const prepare = (db: DatabaseSync, table: string): Table => ({
  get: db.prepare(`SELECT v FROM ${table} WHERE k = ?`),
  forward: db.prepare(`SELECT k, v FROM ${table} WHERE k >= ? AND k < ? ORDER BY k LIMIT ?`),
  backward: db.prepare(`SELECT k, v FROM ${table} WHERE k >= ? AND k < ? ORDER BY k DESC LIMIT ?`),
  set: db.prepare(`INSERT INTO ${table} (k, v) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v`),
  delete: db.prepare(`DELETE FROM ${table} WHERE k = ?`),
  deleteRange: db.prepare(`DELETE FROM ${table} WHERE k >= ? AND k < ?`),
  nth: db.prepare(`SELECT k FROM ${table} WHERE k >= ? AND k < ? ORDER BY k LIMIT 1 OFFSET ?`)
})

const bytes = (key: string): Buffer => Buffer.from(key, "latin1")
const text = (key: unknown): string => Buffer.from(key as Uint8Array).toString("latin1")

/** A row as SQLite gives it: its columns hold values of any type, whoever writes them. */
export type Raw = readonly [key: string, value: unknown]

export class Rows {
  readonly #db: DatabaseSync
  readonly #kv: Table
  #fresh: Table | undefined
  /** In order; `undefined` when nobody knows (4). */
  #cleared: ReadonlyArray<Range> | undefined

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#kv = prepare(db, "kv")
  }

  /** Whether there are cleared ranges, as of the last look at the version. */
  get hasCleared(): boolean {
    return this.#cleared === undefined || this.#cleared.length > 0
  }

  /** The file's version was looked at, and says whether there are cleared ranges. */
  seen(some: boolean): void {
    this.#cleared = some ? this.#load() : []
  }

  forget(): void {
    this.#cleared = undefined
  }

  get(key: string): Uint8Array | undefined {
    return this.#tableOf(key).get.get(bytes(key))?.v as Uint8Array | undefined
  }

  range(begin: string, end: string, limit: number, reverse: boolean): Array<Raw> {
    const parts = this.#parts({ begin, end })
    if (reverse) parts.reverse()
    const found: Array<Raw> = []
    for (const [table, part] of parts) {
      const left = limit === Infinity ? -1 : limit - found.length
      if (left === 0) break
      const statement = reverse ? table.backward : table.forward
      for (const { k, v } of statement.all(bytes(part.begin), bytes(part.end), left)) found.push([text(k), v])
    }
    return found
  }

  write(key: string, value: Uint8Array | undefined): void {
    const table = this.#tableOf(key)
    if (value === undefined) table.delete.run(bytes(key))
    else table.set.run(bytes(key), value)
  }

  /** Clears a range, within a transaction of SQLite: few rows are deleted, many are left to passes (2). */
  clear(range: Range): void {
    const cleared = this.#ranges()
    if (cleared.some((other) => other.begin < range.end && range.begin < other.end)) {
      this.#freshTable().deleteRange.run(bytes(range.begin), bytes(range.end))
    }
    const added: Array<Range> = []
    for (const part of without(range, cleared)) {
      const [begin, end] = [bytes(part.begin), bytes(part.end)]
      if (this.#kv.nth.get(begin, end, DELETE_AT_ONCE_ROWS) === undefined) this.#kv.deleteRange.run(begin, end)
      else added.push(part)
    }
    if (added.length > 0) this.#add(added)
  }

  /** Deletes so many dead rows at the most, within a transaction of SQLite (2). */
  pass(rows: number): void {
    const first = this.#ranges()[0]
    if (first === undefined) return
    const fresh = this.#freshTable()
    const [begin, end] = [bytes(first.begin), bytes(first.end)]
    const ends = [this.#kv, fresh].map((table) => table.nth.get(begin, end, rows)?.k)
      .flatMap((key) => key === undefined ? [] : [text(key)])
    const to = ends.reduce((least, key) => key < least ? key : least, first.end)
    this.#kv.deleteRange.run(begin, bytes(to))
    this.#db.prepare("INSERT INTO kv SELECT k, v FROM fresh WHERE k >= ? AND k < ?").run(begin, bytes(to))
    fresh.deleteRange.run(begin, bytes(to))
    if (to === first.end) this.#db.prepare("DELETE FROM cleared WHERE b = ?").run(begin)
    else this.#db.prepare("UPDATE cleared SET b = ? WHERE b = ?").run(bytes(to), begin)
    this.#cleared = this.#load()
    if (this.#cleared.length === 0) this.#db.exec(`PRAGMA user_version = ${FORMAT}`)
  }

  #add(ranges: ReadonlyArray<Range>): void {
    this.#db.exec("CREATE TABLE IF NOT EXISTS cleared (b BLOB PRIMARY KEY, e BLOB NOT NULL) WITHOUT ROWID")
    this.#db.exec("CREATE TABLE IF NOT EXISTS fresh (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
    this.#db.exec(`PRAGMA user_version = ${FORMAT_CLEARED}`)
    const insert = this.#db.prepare("INSERT INTO cleared VALUES (?, ?)")
    for (const { begin, end } of ranges) insert.run(bytes(begin), bytes(end))
    this.#cleared = this.#load()
  }

  #load(): ReadonlyArray<Range> {
    const rows = this.#db.prepare("SELECT b, e FROM cleared ORDER BY b").all()
    return rows.map(({ b, e }) => ({ begin: text(b), end: text(e) }))
  }

  #ranges(): ReadonlyArray<Range> {
    if (this.#cleared !== undefined) return this.#cleared
    const version = Number(this.#db.prepare("SELECT value FROM meta WHERE name = 'version'").get()?.value)
    return this.#cleared = version < 0 ? this.#load() : []
  }

  #freshTable(): Table {
    return this.#fresh ??= prepare(this.#db, "fresh")
  }

  #tableOf(key: string): Table {
    const ranges = this.#ranges()
    return ranges.some((range) => holds(range, key)) ? this.#freshTable() : this.#kv
  }

  /** The parts of a range in order, each with where its living rows are (1). */
  #parts(range: Range): Array<readonly [Table, Range]> {
    const cleared = this.#ranges().filter((other) => other.begin < range.end && range.begin < other.end)
    if (cleared.length === 0) return [[this.#kv, range]]
    const parts = without(range, cleared).map((part) => [this.#kv, part] as const)
    for (const other of cleared) {
      const begin = other.begin < range.begin ? range.begin : other.begin
      const end = other.end < range.end ? other.end : range.end
      parts.push([this.#freshTable(), { begin, end }])
    }
    return parts.sort((a, b) => (a[1].begin < b[1].begin ? -1 : 1))
  }
}

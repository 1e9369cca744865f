/**
 * The open files of a thread: one connection each, whatever names a file is opened by, and however many copies of this
 * module the program has loaded.
 *
 * Owner: `SqliteBackend.ts`. The map belongs to the thread (`globalThis`), by device and inode, which all names of a file
 * have in common. Its key holds the number of this layout: copies of other versions do not share what they could not use.
 *
 * They, and worker threads, have connections of their own, as other processes do. That is safe, because the one SQLite
 * that a process has with `node:sqlite` knows of all its connections, and nobody opens the files beside it (see
 * `opening.ts`).
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { statOf } from "./opening.ts"
import type { SqliteStore } from "./store.ts"

/** To be raised whenever what lies in the map, or what can be called on it, changes. */
const LAYOUT = 2

const KEY = Symbol.for(`effect-dgen/SqliteBackend/files/${LAYOUT}`)

/** More links in a row are a circle. */
const LINKS_LIMIT = 40

export interface Shared {
  readonly id: string
  readonly store: SqliteStore
  layers: number
}

const global = globalThis as { [KEY]?: Map<string, Shared> }

export const files: Map<string, Shared> = global[KEY] ??= new Map()

/** What all names of a file have in common; `undefined` where there is none. */
export const idOf = (filename: string): string | undefined => {
  const stat = statOf(filename)
  return stat === undefined ? undefined : `${stat.dev}:${stat.ino}`
}

/** The path of a file without links, also of one that is still to be made. */
export const realPath = (filename: string, links = LINKS_LIMIT): string => {
  const absolute = path.resolve(filename)
  try {
    return fs.realpathSync(absolute)
  } catch {
    const folder = path.dirname(absolute)
    if (!fs.existsSync(folder)) return absolute
    const place = path.join(fs.realpathSync(folder), path.basename(absolute))
    const target = targetOf(place)
    return target === undefined || links === 0 ? place : realPath(path.resolve(path.dirname(place), target), links - 1)
  }
}

const targetOf = (file: string): string | undefined => {
  try {
    return fs.readlinkSync(file)
  } catch {
    return undefined
  }
}

/**
 * Notices commits of other processes, while somebody in this one waits for them.
 *
 * Owner: `store.ts`. The file system tells at once that a file was written; which one, matters:
 *
 * 1. `app.db-version` is written by each process after each of its commits, when others can see it (see
 *    `versionFile.ts`). One look finds it.
 * 2. Where that file cannot be made, the log is watched. It is written before the commit can be seen, and the sync of the
 *    disk lies between. So a look that finds nothing is followed by others, after pauses that double, for as long as a
 *    sync may take.
 * 3. Behind both there is a timer, for a process that died between its commit and the word of it, for file systems that
 *    tell nothing, and for files that come and go. While nothing happens nothing else runs.
 * 4. The file system tells of this process's own commits too. After some of them in a row a timer looks instead, until this
 *    process pauses.
 */
import * as fs from "node:fs"
import type { SqliteFile } from "./file.ts"

/** How late a commit of another process is seen where the file system does not tell. */
const POLL_MILLIS = 250

/** After so many looks that found nothing of others, the file system is asked less often. */
const OWN_EVENTS_LIMIT = 8

/** How late a commit of another process is seen while this one commits again and again. */
const BUSY_POLL_MILLIS = 5

/** The pauses between looks after a write to the log: the first one, and the one after which the timer is soon enough. */
const LOG_PAUSE_FIRST_MILLIS = 1
const LOG_PAUSE_LIMIT_MILLIS = 64

export class Noticing {
  readonly #file: SqliteFile
  readonly #look: () => boolean
  readonly #known: () => number
  #watcher: fs.FSWatcher | undefined
  #isLog = false
  #poll: NodeJS.Timeout | undefined
  #busyPoll: NodeJS.Timeout | undefined
  #again: NodeJS.Timeout | undefined
  #soon = false
  #ownEvents = 0

  /** `look` finds out whether others committed, and says so; `known` is the newest version that this process knows. */
  constructor(file: SqliteFile, look: () => boolean, known: () => number) {
    this.#file = file
    this.#look = look
    this.#known = known
  }

  start(): void {
    this.#poll ??= setInterval(() => {
      if (this.#watcher === undefined) this.#watch()
      this.#look()
    }, POLL_MILLIS)
    this.#watch()
  }

  stop(): void {
    for (const timer of [this.#poll, this.#busyPoll, this.#again]) clearTimeout(timer)
    this.#poll = this.#busyPoll = this.#again = undefined
    this.#forget()
  }

  #watch(): void {
    if (this.#watcher !== undefined || this.#busyPoll !== undefined) return
    this.#file.keepVersionsAgain()
    const file = this.#file.versionFile
    this.#isLog = file === undefined
    try {
      this.#watcher = fs.watch(file ?? `${this.#file.filename}-wal`, { persistent: false }, (event) => {
        if (event === "rename") this.#forget()
        this.#lookSoon()
      })
      this.#watcher.on("error", () => this.#forget())
    } catch {
      // none that can be watched: the timer notices (3)
    }
  }

  #watchAnew(): void {
    this.#forget()
    this.#watch()
  }

  #forget(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }

  /** One look for all events of a macrotask. */
  #lookSoon(): void {
    if (this.#soon) return
    this.#soon = true
    setImmediate(() => {
      this.#soon = false
      if (this.#poll === undefined) return
      // an event may tell that the file was deleted, while this process has it open
      if (this.#watcher === undefined || this.#file.lostVersions) this.#watchAnew()
      if (this.#look()) this.#ownEvents = 0
      else if (++this.#ownEvents >= OWN_EVENTS_LIMIT) this.#pollWhileBusy()
      else if (this.#isLog) this.#lookAgain(LOG_PAUSE_FIRST_MILLIS)
    })
  }

  /** Looks until the commit can be seen that was being written (2). */
  #lookAgain(millis: number): void {
    clearTimeout(this.#again)
    if (millis > LOG_PAUSE_LIMIT_MILLIS) return
    this.#again = setTimeout(() => {
      if (this.#look()) this.#ownEvents = 0
      else this.#lookAgain(2 * millis)
    }, millis)
  }

  /** An event a commit costs more than the commit (4). */
  #pollWhileBusy(): void {
    this.#ownEvents = 0
    this.#forget()
    let known = this.#known()
    this.#busyPoll = setInterval(() => {
      const now = this.#known()
      if (known === now) {
        clearInterval(this.#busyPoll)
        this.#busyPoll = undefined
        this.#watch()
      }
      known = now
      this.#look()
    }, BUSY_POLL_MILLIS)
  }
}

/**
 * Keeps the log of a file short: copies it into the database when it is long, and has it begun anew, on another thread (see
 * `checkpointer.ts`). A reader that holds a snapshot keeps SQLite from that, and then the log grows with each commit.
 *
 * Owner: `store.ts`. Nothing runs while the log is short.
 *
 * 1. Most of a log is copied while commits go on. They wait only for the rest, and for the log to be begun anew, which cuts
 *    one that was too long (`journal_size_limit`).
 * 2. What could not be done is tried again from a timer, as long as the log is long; the pauses between the tries double.
 * 3. Readers that take turns would keep a log for ever. So when it is far too long, commits wait for a moment: readers that
 *    come meanwhile need nothing of it, once all of it is in the database, and those before them end.
 * 4. Where there is no such thread, or there can be none, SQLite copies the log in commits.
 */
import { Checkpointer, isUnsynced, type Outcome } from "./checkpointer.ts"
import { LOG_LIMIT_BYTES, type SqliteFile } from "./file.ts"

/** While commits go on a little is always left; more means that a reader holds a snapshot. */
const LEFT_FRAMES = 500

/** How long commits wait at the most for whoever happens to read or write, beside the syncs. */
const RENEW_MILLIS = 10

/** So often the length is looked up, which costs two reads of the log, while the file is short. */
const LOOK_COMMITS = 16

const AGAIN_FIRST_MILLIS = 100
const AGAIN_LIMIT_MILLIS = 10_000

/** From this length on commits wait for readers (3). */
const HOLD_BYTES = 67_108_864

/** How long; as a short backup reads, and less than a caller notices. */
const HOLD_LIMIT_MILLIS = 500

const HOLD_AGAIN_FIRST_MILLIS = 10_000
const HOLD_AGAIN_LIMIT_MILLIS = 600_000

/** What the store does about the log. */
export interface Owner {
  /** Commits may go on. */
  readonly released: () => void
  /** The log was begun anew by a commit that changed nothing. */
  readonly renewed: () => void
  /** A sync failed. */
  readonly failed: (cause: unknown) => void
}

export class LogLength {
  readonly #file: SqliteFile
  readonly #owner: Owner
  #thread: Checkpointer | undefined
  #isWorking = false
  #isHeld = false
  #isStopped = false
  #commits = 0
  #again: NodeJS.Timeout | undefined
  #againMillis = AGAIN_FIRST_MILLIS
  #holdAgainAt = 0
  #holdAgainMillis = HOLD_AGAIN_FIRST_MILLIS
  #idle: Array<() => void> = []

  constructor(file: SqliteFile, owner: Owner) {
    this.#file = file
    this.#owner = owner
  }

  /** Whether commits must wait, until `released` is called (1, 3). */
  get isHeld(): boolean {
    return this.#isHeld
  }

  /** Whether no other thread has the file open. */
  get isAtRest(): boolean {
    return !this.#isWorking && this.#thread === undefined
  }

  /** Looks after a log that is too long. */
  tend(): void {
    if (this.#isWorking || this.#isStopped || !this.#file.syncsBeside) return
    if (this.#file.logBytes >= HOLD_BYTES && performance.now() >= this.#holdAgainAt) this.#start(true)
    else if (this.#again === undefined && this.#isLong) this.#start(false)
  }

  get #isLong(): boolean {
    if (this.#file.logBytes > LOG_LIMIT_BYTES) return true
    return this.#commits++ % LOOK_COMMITS === 0 && this.#file.isLogLong
  }

  /** Ends the thread, when it has done what it does; calls back then. Another one is started at the next need. */
  rest(ended: () => void): void {
    if (this.#isWorking) return void this.#idle.push(() => this.rest(ended))
    const thread = this.#thread
    this.#thread = undefined
    if (thread === undefined) ended()
    else thread.end(ended)
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#again)
  }

  #start(isPatient: boolean): void {
    clearTimeout(this.#again)
    this.#again = undefined
    this.#isWorking = true
    this.#isHeld = isPatient
    try {
      this.#thread ??= new Checkpointer(this.#file.filename, this.#file.identity, LOG_LIMIT_BYTES)
      this.#thread.run({ _tag: "Copy" }, (outcome) => {
        const isDone = outcome === undefined || outcome.error !== undefined
        if (isDone || (!isPatient && outcome.leftFrames > LEFT_FRAMES)) return this.#ended(outcome, isPatient)
        this.#isHeld = true
        const waitMillis = isPatient ? HOLD_LIMIT_MILLIS : RENEW_MILLIS
        this.#thread!.run({ _tag: "Renew", waitMillis }, (renewed) => this.#ended(renewed, isPatient))
      })
    } catch {
      this.#ended(undefined, isPatient)
    }
  }

  #ended(outcome: Outcome | undefined, wasPatient: boolean): void {
    this.#isWorking = this.#isHeld = false
    if (outcome === undefined) this.#withoutThread()
    else if (isUnsynced(outcome)) this.#owner.failed(outcome.error)
    else if (outcome.isNew) this.#renewed()
    else this.#later(wasPatient)
    this.#owner.released()
    for (const callback of this.#idle.splice(0)) callback()
  }

  #renewed(): void {
    this.#againMillis = AGAIN_FIRST_MILLIS
    this.#holdAgainMillis = HOLD_AGAIN_FIRST_MILLIS
    this.#lookAtLength()
    this.#owner.renewed()
  }

  #lookAtLength(): void {
    try {
      this.#file.checkPresence(0)
    } catch {
      // the next commit meets what is wrong
    }
  }

  #later(wasPatient: boolean): void {
    if (wasPatient) {
      this.#holdAgainAt = performance.now() + this.#holdAgainMillis
      this.#holdAgainMillis = Math.min(2 * this.#holdAgainMillis, HOLD_AGAIN_LIMIT_MILLIS)
    }
    if (this.#isStopped) return
    this.#again = setTimeout(() => {
      this.#again = undefined
      this.#commits = 0
      this.#lookAtLength()
      this.tend()
    }, this.#againMillis)
    this.#again.unref()
    this.#againMillis = Math.min(2 * this.#againMillis, AGAIN_LIMIT_MILLIS)
  }

  #withoutThread(): void {
    this.#thread = undefined
    this.#isStopped = true
    try {
      this.#file.copyLogInCommits()
    } catch {
      // the next commit meets what is wrong
    }
  }
}

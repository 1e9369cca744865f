/**
 * Syncs of the log, on a thread of Node's pool: SQLite writes commits without one, and whoever tells of a commit waits for
 * it here.
 *
 * Owner: `store.ts`, one a store.
 *
 * 1. One sync runs at a time. It covers what was in the log when it began; who comes for something later waits for the next
 *    one.
 * 2. Commits that come one after another share a sync: while there are more to come (`isWorthWaiting`), neither the flush nor
 *    the sync begins, but they are put off for no longer than `PATIENCE_SYNCS` times what the last sync took.
 * 3. After a sync that failed nobody knows what is on the disk, and asking again would not tell: the system says so once. All
 *    who wait fail, whoever comes later fails, and nothing is synced any more.
 * 4. Who waited is told in the order in which he came, in slices of `TELL_MILLIS`, between which the event loop goes round:
 *    who is told runs at once, and often has the next commit to make.
 * 5. Where a sync takes less than the way to another thread and back, it is done on this one: after `SHORT_SYNCS` in a row
 *    that took no longer than `SHORT_MILLIS`, until one takes longer.
 */
import type { BackendError } from "../../BackendError.ts"

/** What waits for a sync. */
type Done = (failure: BackendError | undefined) => void

/** Well below what anybody notices, and many times what telling one takes. */
const TELL_MILLIS = 1

/** Two half-empty syncs cost more than one that begins later, until it begins later by one. */
const PATIENCE_SYNCS = 3

/** A flush costs as much as some commits, however fast the disk is. */
const PATIENCE_LEAST_MILLIS = 10

/** No disk is so slow that callers should notice. */
const PATIENCE_MOST_MILLIS = 50

/** Less than one handler takes, and some times what it takes to wake a thread. */
const SHORT_MILLIS = 0.3
const SHORT_SYNCS = 16

/** A sync that runs, or has run. */
interface Running {
  readonly version: number
  readonly waiting: Array<Done>
}

/** What a syncing does with the file. */
export interface Synced {
  /** Starts a sync of the log on another thread. */
  readonly start: (done: (failure: Error | null) => void) => void
  /** Syncs the log on this one, or throws. */
  readonly now: () => void
  /** The version up to which the log was written, as far as this process saw. */
  readonly seen: () => number
  /** A sync ended that began when `seen` was this: gives what must be told instead of success. */
  readonly ended: (version: number) => BackendError | undefined
  /** The first sync failed: gives what everything fails with. */
  readonly failed: (failure: unknown) => BackendError
}

export class Syncing {
  readonly #file: Synced
  /** Who is served by the sync that runs, and up to which version. */
  #running: Running | undefined
  /** Who is served by the next one. */
  #next: Array<Done> = []
  /** Who is told what, first things first (4). */
  readonly #telling: Array<{ readonly waiting: ReadonlyArray<Done>; readonly failure: BackendError | undefined }> = []
  #told = 0
  #isPlanned = false
  #patienceMillis = 0
  #shortSyncs = 0
  #failure: BackendError | undefined
  #idle: Array<() => void> = []

  constructor(file: Synced) {
    this.#file = file
  }

  /** Whether a sync has failed (3). */
  get hasFailed(): boolean {
    return this.#failure !== undefined
  }

  /** Calls back, all of them, when what was written up to a version is on the disk, or never will be known to be. */
  wait(version: number, waiting: ReadonlyArray<Done>): void {
    if (this.#failure !== undefined) return this.#tell(waiting, this.#failure)
    const isCovered = this.#running !== undefined && version <= this.#running.version
    for (const done of waiting) (isCovered ? this.#running!.waiting : this.#next).push(done)
    this.#plan()
  }

  /** Something failed that leaves nobody knowing what is on the disk (3). */
  fail(failure: unknown): void {
    if (this.#failure !== undefined) return
    const error = this.#failure = this.#file.failed(failure)
    const waiting = [...this.#running?.waiting.splice(0) ?? [], ...this.#next.splice(0)]
    this.#tell(waiting, error)
  }

  get isIdle(): boolean {
    return this.#running === undefined && this.#next.length === 0 && this.#telling.length === 0
  }

  /** Calls back when nothing waits. */
  onIdle(callback: () => void): void {
    this.#idle.push(callback)
    this.#tellIdle()
  }

  /** Whether what has waited since then does well to wait for more: some just came, or who was told makes some (2). */
  isWorthWaiting(sinceMillis: number, cameMore: boolean): boolean {
    return (cameMore || this.#telling.length > 0) && performance.now() - sinceMillis < this.#patienceMillis
  }

  /** Begins a sync, if none runs, as soon as it is not worth waiting any more. */
  #plan(since = performance.now()): void {
    if (this.#isPlanned || this.#running !== undefined || this.#next.length === 0) return
    if (!this.isWorthWaiting(since, false)) return this.#start()
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      this.#plan(since)
    })
  }

  #start(): void {
    const running: Running = { version: this.#file.seen(), waiting: this.#next }
    this.#next = []
    this.#running = running
    const start = performance.now()
    const ended = (failure: unknown) => {
      this.#took(performance.now() - start)
      this.#ended(running, failure)
    }
    try {
      if (this.#shortSyncs < SHORT_SYNCS) return this.#file.start(ended)
      this.#file.now()
    } catch (failure) {
      return ended(failure)
    }
    ended(null)
  }

  #took(millis: number): void {
    this.#shortSyncs = millis <= SHORT_MILLIS ? this.#shortSyncs + 1 : 0
    this.#patienceMillis = Math.min(PATIENCE_MOST_MILLIS, Math.max(PATIENCE_LEAST_MILLIS, PATIENCE_SYNCS * millis))
  }

  #ended(running: Running, failure: unknown): void {
    if (failure !== null) this.fail(failure)
    this.#running = undefined
    this.#tell(running.waiting, this.#failure ?? this.#file.ended(running.version))
    this.#plan()
  }

  #tell(waiting: ReadonlyArray<Done>, failure: BackendError | undefined): void {
    this.#telling.push({ waiting, failure })
    if (this.#telling.length === 1) this.#tellSlice()
  }

  #tellSlice(): void {
    const end = performance.now() + TELL_MILLIS
    for (let first = this.#telling[0]; first !== undefined; first = this.#telling[0]) {
      while (this.#told < first.waiting.length) {
        if (performance.now() > end) return void setImmediate(() => this.#tellSlice())
        first.waiting[this.#told++]!(first.failure)
      }
      this.#told = 0
      this.#telling.shift()
    }
    this.#tellIdle()
  }

  #tellIdle(): void {
    if (!this.isIdle) return
    for (const callback of this.#idle.splice(0)) callback()
  }
}

/**
 * Keeps the log of a file short. SQLite begins it anew when all of it is in the database and nobody reads from it; a reader
 * in another process that holds a snapshot keeps it from that, and then it grows with each commit.
 *
 * Owner: `store.ts`. Nothing runs while the log is short.
 *
 * 1. A log that is too long is cut when nobody needs it: by the next commit that begins it anew (`journal_size_limit`), and
 *    from a timer where no commit comes.
 * 2. Readers that take turns would keep it for ever. So when it is far too long, commits wait for a moment: readers that
 *    come meanwhile need nothing of it, once all of it is in the database, and those before them end.
 * 3. Neither waits for a reader that does not end: the pauses between the tries double.
 */
import { LOG_LIMIT_BYTES, type SqliteFile } from "./file.ts"

const CUT_FIRST_MILLIS = 1_000
const CUT_LIMIT_MILLIS = 60_000

/** From this length on commits wait (2). */
const HOLD_BYTES = 67_108_864

/** How long they wait, in steps; as a short backup reads, and less than a caller notices. */
const HOLD_LIMIT_MILLIS = 500
const HOLD_STEP_MILLIS = 10

const HOLD_AGAIN_FIRST_MILLIS = 10_000
const HOLD_AGAIN_LIMIT_MILLIS = 600_000

export class LogLength {
  readonly #file: SqliteFile
  #cut: NodeJS.Timeout | undefined
  #cutMillis = CUT_FIRST_MILLIS
  #heldSince: number | undefined
  #holdAgainAt = 0
  #holdAgainMillis = HOLD_AGAIN_FIRST_MILLIS

  constructor(file: SqliteFile) {
    this.#file = file
  }

  /** Looks after a log that is too long (1). */
  tend(): void {
    if (this.#cut !== undefined || this.#file.logBytes <= LOG_LIMIT_BYTES) return
    this.#cut = setTimeout(() => {
      this.#cut = undefined
      this.#cutMillis = this.#tryCut() ? CUT_FIRST_MILLIS : Math.min(2 * this.#cutMillis, CUT_LIMIT_MILLIS)
      this.tend()
    }, this.#cutMillis)
    this.#cut.unref()
  }

  /** After how many milliseconds a commit may try again; `undefined` when it need not wait (2). */
  wait(): number | undefined {
    const now = performance.now()
    if (this.#file.logBytes < HOLD_BYTES || now < this.#holdAgainAt) return undefined
    this.#heldSince ??= now
    if (this.#tryCut()) {
      this.#holdAgainMillis = HOLD_AGAIN_FIRST_MILLIS
    } else if (now - this.#heldSince < HOLD_LIMIT_MILLIS) {
      return HOLD_STEP_MILLIS
    } else {
      this.#holdAgainAt = now + this.#holdAgainMillis
      this.#holdAgainMillis = Math.min(2 * this.#holdAgainMillis, HOLD_AGAIN_LIMIT_MILLIS)
    }
    this.#heldSince = undefined
    return undefined
  }

  stop(): void {
    clearTimeout(this.#cut)
  }

  /** Whether the log is short now. */
  #tryCut(): boolean {
    try {
      if (!this.#file.emptyLog()) return false
      this.#file.checkPresence(0)
      return this.#file.logBytes <= LOG_LIMIT_BYTES
    } catch {
      // the next commit meets what is wrong
      return false
    }
  }
}

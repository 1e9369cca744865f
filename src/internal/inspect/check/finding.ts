/** What a check finds, in words and for programs. */

/**
 * What kind of damage it is:
 *
 * - `unreadable`: bytes that this version did not write, or cannot read;
 * - `pieces`: a part of something whose other parts are missing;
 * - `counter`: a counter that says something else than there is;
 * - `owner`: a row whose owner is gone, such as the message of a lock that nobody holds;
 * - `missing`: a row that should be there, such as a server's place in the list of its definition;
 * - `unknown`: a key that nothing of this version has;
 * - `skipped`: no damage, but something that was too long to be looked at as a whole.
 *
 * @since 0.2.0
 * @category models
 */
export type FindingKind = "unreadable" | "pieces" | "counter" | "owner" | "missing" | "unknown" | "skipped"

/**
 * Something that does not belong. `subject` is the text of a server's tuid, the name of a definition, or the text of a type
 * of jobs.
 *
 * @since 0.2.0
 * @category models
 */
export interface Finding {
  readonly kind: FindingKind
  readonly of: "server" | "definition" | "jobs" | "tenant"
  readonly subject: string
  readonly problem: string
}

/**
 * How far a check has come.
 *
 * @since 0.2.0
 * @category models
 */
export interface CheckProgress {
  readonly servers: number
  readonly definitions: number
  readonly jobs: number
}

/** Collects what is found of one subject; of very much damage the first findings tell enough. */
export class Findings {
  readonly all: Array<Finding> = []
  #left = FINDINGS_LIMIT
  readonly #of: Finding["of"]
  readonly #subject: string

  constructor(of: Finding["of"], subject: string) {
    this.#of = of
    this.#subject = subject
  }

  add(kind: FindingKind, problem: string): void {
    if (this.#left-- > 0) this.all.push({ kind, of: this.#of, subject: this.#subject, problem })
    else if (this.#left === -1) {
      this.all.push({ kind: "skipped", of: this.#of, subject: this.#subject, problem: "there is more of the kind" })
    }
  }
}

/** Findings of one subject, or of one page. */
const FINDINGS_LIMIT = 100

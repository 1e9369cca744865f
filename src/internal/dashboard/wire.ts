/**
 * What the dashboard's server and its page say to each other: plain JSON, of bounded size. The page is built from these
 * types alone. Times are milliseconds since 1970; what something is ago is counted from the answer's `now`. Tuids, types
 * and ids are texts that name them exactly, in the form of `Inspect.parseTuid`.
 */

/** What can be asked for. `page` is the page itself, with its script. */
export type Look = "page" | "overview" | "servers" | "server" | "jobs" | "schedules"

/** What can be mended. */
export type Mend =
  | "requeue"
  | "discard"
  | "unlock"
  | "kill"
  | "cast"
  | "requeue-job"
  | "remove-job"
  | "pause"
  | "resume"
  | "reset-schedule"
  | "pause-schedule"
  | "resume-schedule"
  | "run-schedule"

export type Operation = Look | Mend

/** Whom the page looks at, and what it may do. */
export interface About {
  readonly tenant: ReadonlyArray<string>
  /** The store as the command line names it, without what is secret; empty where a program serves the page. */
  readonly store: string
  readonly readOnly: boolean
}

export interface ServerRow {
  readonly tuid: string
  readonly definition: string
  readonly waiting: number
  /** When the oldest message that waits was sent, if that is known. */
  readonly oldestAt: number | undefined
  /** How often the first message has failed. */
  readonly attempts: number
  readonly lockedAt: number | undefined
  readonly dead: number
  readonly timers: number
  /** What somebody should look at, in words; empty for a server that is well. */
  readonly problems: ReadonlyArray<string>
}

export interface ServersPage {
  readonly now: number
  readonly rows: ReadonlyArray<ServerRow>
  /** Where the following page begins; absent after the last one. */
  readonly next: string | undefined
  /** How many servers were looked at for this page. */
  readonly looked: number
  readonly definitions: ReadonlyArray<string>
}

/** A value as text: what is stored is never anything else. */
export interface Message {
  readonly id: string
  readonly tag: string | undefined
  readonly attempts: number
  readonly at: number | undefined
  readonly payload: string
}

export interface DeadLetter extends Message {
  readonly cause: string
}

export interface Timer {
  readonly id: string | undefined
  readonly tag: string | undefined
  readonly at: number
  /** How it comes again; empty for one that comes once. */
  readonly again: string
}

/** What is paged of a server: each by a parameter of its name, the `next` of the page before. */
export type ServerList = "queue" | "dead" | "timers"

export interface ServerPage {
  readonly now: number
  readonly server: ServerRow
  /** What of it cannot be read. */
  readonly problems: ReadonlyArray<string>
  /** Whether it has a state. */
  readonly exists: boolean
  readonly hosted: boolean | undefined
  /** What cannot be shown or done, and why. */
  readonly hint: string | undefined
  readonly state: string | undefined
  readonly stateVersion: number | undefined
  readonly lock:
    | { readonly at: number; readonly tag: string; readonly kind: string; readonly message: Message | undefined }
    | undefined
  readonly keys: number
  /** Calls that wait for an answer. */
  readonly waitingCalls: number
  readonly wakeAt: number | undefined
  readonly queue: ReadonlyArray<Message>
  readonly deadLetters: ReadonlyArray<DeadLetter>
  readonly timers: ReadonlyArray<Timer>
  /** Where each of the lists goes on; absent after its last page. */
  readonly next: { readonly [L in ServerList]: string | undefined }
  /** The messages that can be cast; empty where the definition is not known. */
  readonly casts: ReadonlyArray<string>
}

export type JobState = "pending" | "running" | "finished" | "dead"

export interface JobTypeRow {
  readonly type: string
  readonly counts: { readonly [S in JobState]: number }
  readonly isPaused: boolean
  /** When the first of those that wait was due. */
  readonly oldestDueAt: number | undefined
}

export interface JobRow {
  readonly id: string
  readonly state: JobState
  readonly data: string
  readonly attempts: number
  readonly priority: number
  readonly scheduledAt: number
  readonly addedAt: number
  readonly endedAt: number | undefined
  readonly error: string
  readonly waitsFor: number
}

export interface JobsPage {
  readonly now: number
  readonly types: ReadonlyArray<JobTypeRow>
  /** The jobs of the type that was asked for. */
  readonly jobs: ReadonlyArray<JobRow>
  readonly next: string | undefined
}

export interface ScheduleRow {
  readonly type: string
  readonly name: string
  readonly cron: string
  readonly timeZone: string
  readonly isPaused: boolean
  readonly lastAt: number | undefined
  readonly nextAt: number | undefined
}

export interface SchedulesPage {
  readonly now: number
  readonly schedules: ReadonlyArray<ScheduleRow>
}

/** How many there are; with `isAtLeast` there may be more. */
export interface Count {
  readonly count: number
  readonly isAtLeast: boolean
}

export interface DefinitionRow {
  readonly name: string
  readonly hosted: boolean | undefined
  readonly servers: Count
  /** Hosted servers that have something to do. */
  readonly working: Count
  readonly hosts: number
  /** How often a second hosted servers were given something to do, lately; absent for others. */
  readonly givenPerSecond: number | undefined
  /** Of the servers that were looked at. */
  readonly looked: number
  readonly waiting: number
  readonly locked: number
  readonly dead: number
  readonly oldestAt: number | undefined
}

/** What was measured over the last minutes; `null` where nothing was. */
export interface History {
  readonly at: ReadonlyArray<number>
  /** Messages taken off queues, and how often hosted servers were given something to do. */
  readonly perSecond: ReadonlyArray<number | null>
  readonly waiting: ReadonlyArray<number | null>
  readonly oldestMillis: ReadonlyArray<number | null>
  readonly jobsPerSecond: ReadonlyArray<number | null>
}

export interface Overview {
  readonly now: number
  readonly definitions: ReadonlyArray<DefinitionRow>
  /** How many servers were looked at, and whether those are all. */
  readonly looked: number
  readonly isWhole: boolean
  /** How many servers should be looked at, and the first of them. */
  readonly troubledCount: number
  readonly troubled: ReadonlyArray<ServerRow>
  readonly jobs: ReadonlyArray<JobTypeRow>
  readonly history: History
}

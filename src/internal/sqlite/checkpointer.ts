/**
 * A thread that copies the log of a file into the database and begins the log anew: both sync, and take milliseconds.
 *
 * Owner: `logLength.ts`, one a store, started at the first need. Its connection is one like that of another process.
 *
 * 1. What is copied is SQLite's to order: it syncs the log before it copies, and the database before the log is begun anew.
 * 2. The log is begun anew by a commit of the thread itself, which counts the logs and changes nothing else (SQLite writes no
 *    page that stays as it was). So its header, which must be on the disk
 *    before anything comes after it, is synced here and not by the next commit of the store.
 * 3. The thread opens no other file than the one that the store has open, and makes none.
 * 4. It does not keep the process running while it has nothing to do, and is ended before the store's connection is closed,
 *    so that the last connection is the store's.
 */
import { pathToFileURL } from "node:url"
import { Worker } from "node:worker_threads"

/** What is done with the log. */
export type Task =
  /** Copies what can be copied while others read and write. */
  | { readonly _tag: "Copy" }
  /** Copies the rest and begins the log anew; waits for so long for those who read or write. */
  | { readonly _tag: "Renew"; readonly waitMillis: number }

/** What became of it. */
export interface Outcome {
  /** The frames of the log that are not in the database yet; 0 when it was begun anew. */
  readonly leftFrames: number
  /** Whether the log was begun anew. */
  readonly isNew: boolean
  readonly error?: { readonly message: string; readonly errcode: number } | undefined
}

/** As text, because a bundle has no file of this name to start a thread with. */
const PROGRAM = `
const { statSync } = require("node:fs")
const { DatabaseSync } = require("node:sqlite")
const { parentPort, workerData } = require("node:worker_threads")

let db
const open = () => {
  const opened = new DatabaseSync(workerData.url)
  const { dev, ino } = statSync(workerData.filename, { bigint: true })
  if (dev + ":" + ino !== workerData.identity) {
    opened.close()
    throw new Error("the file was replaced")
  }
  opened.exec("PRAGMA synchronous = NORMAL")
  opened.exec("PRAGMA wal_autocheckpoint = 0")
  opened.exec("PRAGMA journal_size_limit = " + workerData.limitBytes)
  db = opened
}

const checkpoint = (mode) => db.prepare("PRAGMA wal_checkpoint(" + mode + ")").get()

const run = (task) => {
  if (db === undefined) open()
  if (task._tag === "Copy") {
    const { log, checkpointed } = checkpoint("PASSIVE")
    return { leftFrames: log - checkpointed, isNew: false }
  }
  db.exec("PRAGMA busy_timeout = " + task.waitMillis)
  const { busy, log, checkpointed } = checkpoint("RESTART")
  if (busy !== 0) return { leftFrames: log - checkpointed, isNew: false }
  db.exec("INSERT INTO meta VALUES ('logs', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1")
  return { leftFrames: 0, isNew: true }
}

parentPort.on("message", (task) => {
  if (task._tag === "End") {
    db?.close()
    return parentPort.close()
  }
  let outcome
  try {
    outcome = run(task)
  } catch (cause) {
    outcome = { leftFrames: 0, isNew: false, error: { message: cause.message, errcode: cause.errcode ?? 0 } }
  }
  parentPort.postMessage(outcome)
})
`

/** SQLite's codes for a sync of a file that failed, and of its folder. */
const SYNC_ERRCODES: ReadonlySet<number | undefined> = new Set([1_034, 1_290])

/** Whether an outcome leaves nobody knowing what is on the disk. */
export const isUnsynced = ({ error }: Outcome): boolean => SYNC_ERRCODES.has(error?.errcode)

/** A thread for one file. */
export class Checkpointer {
  readonly #worker: Worker
  #isOver = false
  #told: ((outcome: Outcome | undefined) => void) | undefined

  constructor(filename: string, identity: string, limitBytes: number) {
    const url = `${pathToFileURL(filename).href}?mode=rw`
    this.#worker = new Worker(PROGRAM, {
      eval: true,
      // the program has been told already (Node 22)
      execArgv: ["--disable-warning=ExperimentalWarning"],
      name: "effect-dgen checkpoints",
      workerData: { filename, identity, limitBytes, url }
    })
    this.#worker.unref()
    this.#worker.on("message", (outcome: Outcome) => this.#tell(outcome))
    this.#worker.on("error", () => this.#tell(undefined))
    this.#worker.on("exit", () => {
      this.#isOver = true
      this.#tell(undefined)
    })
  }

  /** Runs one task at a time; tells `undefined` when the thread is no more. */
  run(task: Task, told: (outcome: Outcome | undefined) => void): void {
    if (this.#isOver) return told(undefined)
    this.#told = told
    this.#send(task)
  }

  /** Ends the thread; tells when its connection is closed. */
  end(ended: () => void): void {
    if (this.#isOver) return ended()
    this.#worker.once("exit", ended)
    this.#send({ _tag: "End" })
  }

  #send(task: Task | { readonly _tag: "End" }): void {
    // whoever waits for it must live to hear of it
    this.#worker.ref()
    this.#worker.postMessage(task, [])
  }

  #tell(outcome: Outcome | undefined): void {
    const told = this.#told
    this.#told = undefined
    this.#worker.unref()
    told?.(outcome)
  }
}

/**
 * What a disk may hold after a loss of power, from a record of the writes and syncs of some processes (`strace`).
 *
 * 1. What was written before a sync began is on the disk once the sync has ended. Of everything else each sector may be there
 *    or not, whatever came before or after it.
 * 2. Names of files count as kept: a file that was deleted is one that was emptied, or was not.
 */

const SECTOR_BYTES = 512

/** What happened to a file, in the order in which it happened. */
export type Event =
  | { readonly _tag: "Write"; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly _tag: "Truncate"; readonly file: string; readonly size: number }
  | { readonly _tag: "SyncBegins" | "SyncEnds"; readonly file: string; readonly id: string }
  | { readonly _tag: "Told"; readonly text: string }

const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", v: "\v", f: "\f", "\"": "\"", "\\": "\\" }

const unescape = (text: string): Buffer =>
  Buffer.from(
    text.replace(/\\([0-7]{1,3}|.)/gs, (_, code: string) => ESCAPES[code] ?? String.fromCharCode(parseInt(code, 8))),
    "latin1"
  )

const CALL = /^(\d+) +(\w+)\(\d+<([^>]*)>(?:, (.*?))?(?:\) += (-?\d+).*| <unfinished \.\.\.>)$/s
const UNLINK = /^\d+ +unlink\("([^"]*)"\) += 0/
const RESUMED = /^(\d+) +<\.\.\. (\w+) resumed>.*\) += (-?\d+)/
const WRITE = /^"(.*)", (\d+), (\d+)$/s

/** The events of a record, those of the given files, and what was told through another one. */
export const eventsOf = (trace: string, files: ReadonlyArray<string>, told: string): ReadonlyArray<Event> => {
  const events: Array<Event> = []
  const unfinished = new Map<string, { readonly file: string; readonly id: string }>()
  trace.split("\n").forEach((line, id) => {
    const resumed = RESUMED.exec(line)
    const sync = resumed === null ? undefined : unfinished.get(resumed[1]!)
    if (sync !== undefined && resumed![2]!.endsWith("sync")) {
      unfinished.delete(resumed![1]!)
      if (resumed![3] === "0") events.push({ _tag: "SyncEnds", ...sync })
    }
    const unlinked = UNLINK.exec(line)?.[1]
    if (unlinked !== undefined && files.includes(unlinked)) events.push({ _tag: "Truncate", file: unlinked, size: 0 })
    const call = CALL.exec(line)
    if (call === null) return
    const [, thread, name, file, rest, result] = call as unknown as [string, string, string, string, string?, string?]
    if (file === told && name === "write") events.push({ _tag: "Told", text: /"(.*?)\\n"/.exec(rest!)![1]! })
    if (!files.includes(file)) return
    if (name === "pwrite64") {
      const [, bytes, length, at] = WRITE.exec(rest!)!
      const written = unescape(bytes!)
      if (written.length !== Number(length)) throw new Error(`a write was not recorded whole: ${line.slice(0, 100)}`)
      events.push({ _tag: "Write", file, at: Number(at), bytes: written })
    } else if (name === "ftruncate") events.push({ _tag: "Truncate", file, size: Number(rest) })
    else if (name.endsWith("sync")) {
      events.push({ _tag: "SyncBegins", file, id: `${id}` })
      if (result === undefined) unfinished.set(thread, { file, id: `${id}` })
      else if (result === "0") events.push({ _tag: "SyncEnds", file, id: `${id}` })
    } else throw new Error(`an unknown call: ${line.slice(0, 100)}`)
  })
  return events
}

type Change = Extract<Event, { readonly _tag: "Write" | "Truncate" }>

/** Bytes that grow and are cut. */
class Content {
  #bytes: Buffer
  #length: number

  constructor(bytes: Buffer, capacity = bytes.length) {
    this.#bytes = Buffer.alloc(Math.max(bytes.length, capacity))
    bytes.copy(this.#bytes)
    this.#length = bytes.length
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Makes a change, as far as it is kept: sector by sector. */
  change(change: Change, isKept: () => boolean): void {
    if (change._tag === "Truncate") {
      if (isKept()) this.#truncate(change.size)
      return
    }
    for (let from = 0; from < change.bytes.length;) {
      const at = change.at + from
      const to = Math.min(change.bytes.length, from + SECTOR_BYTES - at % SECTOR_BYTES)
      if (isKept()) {
        if (change.at + to > this.#length) this.#truncate(change.at + to)
        change.bytes.copy(this.#bytes, at, from, to)
      }
      from = to
    }
  }

  #truncate(size: number): void {
    if (size > this.#bytes.length) {
      const longer = Buffer.alloc(2 * size)
      this.bytes.copy(longer)
      this.#bytes = longer
    }
    this.#bytes.fill(0, size, Math.max(size, this.#length))
    this.#length = size
  }
}

interface Recorded {
  readonly kept: Content
  /** What was changed since, oldest first. */
  changes: Array<Change>
  /** What each running sync covers. */
  readonly syncs: Map<string, ReadonlySet<Change>>
}

/** Files as the events leave them. */
export class RecordedDisk {
  readonly #files = new Map<string, Recorded>()

  #file(name: string): Recorded {
    let file = this.#files.get(name)
    if (file === undefined) {
      this.#files.set(name, file = { kept: new Content(Buffer.alloc(0)), changes: [], syncs: new Map() })
    }
    return file
  }

  /** How much is not known to be on the disk. */
  get pending(): number {
    return [...this.#files.values()].reduce((sum, { changes }) => sum + changes.length, 0)
  }

  apply(event: Event): void {
    if (event._tag === "Told") return
    const file = this.#file(event.file)
    if (event._tag === "SyncBegins") file.syncs.set(event.id, new Set(file.changes))
    else if (event._tag === "SyncEnds") {
      const covered = file.syncs.get(event.id)!
      file.syncs.delete(event.id)
      for (const change of file.changes) if (covered.has(change)) file.kept.change(change, () => true)
      file.changes = file.changes.filter((change) => !covered.has(change))
    } else file.changes.push(event as Change)
  }

  /** What may be there if the power goes now: `isKept` says of each sector that was not synced whether it is. */
  afterLoss(name: string, isKept: (change: number, changes: number, isCut: boolean) => boolean): Buffer {
    const { changes, kept } = this.#file(name)
    const ends = changes.map((change) => change._tag === "Write" ? change.at + change.bytes.length : change.size)
    const content = new Content(kept.bytes, Math.max(0, ...ends))
    changes.forEach((change, i) => content.change(change, () => isKept(i, changes.length, change._tag === "Truncate")))
    return content.bytes
  }
}

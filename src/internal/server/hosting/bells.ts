/**
 * What a host hears from other processes: the bells of its definition, and the entries that they ring for.
 *
 * Owner: one a host; its fiber lives in the host's scope and ends with it. It survives failures of the store: it tries again
 * after a pause.
 *
 * 1. All bells are read, and watched, in one transaction that writes nothing (rule R8). One that shows more than this
 *    process's own rings explain leads to a look at its entries, a page at a time. Own rings that may or may not be among
 *    what a bell shows explain it for `UNSURE_MILLIS` at the most. One that was seen and is dropped explains nothing.
 * 2. A look goes on where the last one stopped when the host had no room, and goes round: no entry stands before others
 *    for ever (rule H5). What is missed while a look is on its way may lie before the place where it is: the look begins
 *    again after its end.
 * 3. Nothing polls: the timer behind the watches is for one that was lost, and differs from host to host.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type { BackendError } from "../../../BackendError.ts"
import type { Tenant } from "../../../Tenant.ts"
import { Transaction } from "../../../Transaction.ts"
import * as Tuple from "../../../Tuple.ts"
import * as Counters from "../../data/counters.ts"
import * as Keys from "../../data/keys.ts"
import { logWarning } from "../../observing/logging.ts"
import type { Ring } from "../../tenant/hosts.ts"
import { transact } from "../../transactions/loop.ts"
import { type Armed, watchKey } from "../../transactions/watching.ts"
import { BELLS, type IndexKeys, tuidOfKey } from "../kept/indexes.ts"

/** Entries that one transaction reads. */
const PAGE_ROWS = 256

/** A lost watch costs this much waiting, and up to half as much again. */
const WATCH_LIMIT_MILLIS = 30_000

/** Between two looks at the bells: those who ring meanwhile share one. */
const PAUSE_MILLIS = 5

/** So long a bell that rings by commits of this process, which have not all ended, is taken to ring by them alone. */
const UNSURE_MILLIS = 50

/** After a failure of the store. */
const AWAY_MILLIS = 500

/** Due wake-ups that one look reads. */
const WAKES_ROWS = 1_000

/** So many of them one transaction is for, and so many transactions are under way: one waits for the disk, others read. */
const WAKES_AT_ONCE = 50
const WAKES_UNDER_WAY = 8

/** What bells lead to. */
export interface Listening {
  readonly tenant: Tenant["Service"]
  readonly indexes: IndexKeys
  /** A server has something to do. Whether there was room for it. */
  readonly offer: (tuid: Tuple.Tuple, entry: Uint8Array) => boolean
  /** Does what wake-ups are due for. */
  readonly due: (keys: ReadonlyArray<Uint8Array>) => Effect.Effect<void, never, Transaction>
}

/** What is known of the rings of one bell. */
interface Count {
  /** This process's own that were accepted, and those of tries that have not ended. */
  own: number
  open: number
  /** Not more than there were of others at the last look; `undefined` before it. */
  others: bigint | undefined
  /** Since when the bell has shown what may be an own ring or not. */
  unsureMillis: number | undefined
}

/** A look at the entries of one bell that has not ended. */
interface Look {
  /** Where its next page begins; `undefined` at its begin. */
  readonly from: Uint8Array | undefined
  /** Whether it begins again after its end (2). */
  readonly isAgain: boolean
}

const WHOLE: Look = { from: undefined, isAgain: false }

/** What a transaction saw of the bells. */
interface Shown {
  readonly values: ReadonlyArray<bigint>
  /** How many own rings were accepted before it began to read. */
  readonly own: ReadonlyArray<number>
}

export class Bells {
  readonly #host: Listening
  readonly #counts: Array<Count> = Array.from(
    { length: BELLS },
    () => ({ own: 0, open: 0, others: undefined, unsureMillis: undefined })
  )
  /** The bells with entries that nobody has looked at, the one whose turn it is first. */
  readonly #unseen = new Map<number, Look>()
  #called: Deferred.Deferred<void> = Deferred.makeUnsafe()

  constructor(host: Listening) {
    this.#host = host
  }

  /** A try of this process is about to ring. */
  ringing(bell: number): Ring {
    const count = this.#counts[bell]!
    count.open++
    let isOver = false
    let isCounted = false
    let stays = false
    const rang = () => {
      if (isCounted) return
      isCounted = true
      count.own++
      // its commit was unknown, and it has been taken for another's
      if (isOver && count.others !== undefined) count.others--
    }
    return {
      rang,
      stayed: () => {
        stays = true
        rang()
      },
      ended: () => {
        isOver = true
        count.open--
        if (!isCounted || stays) return
        // it was dropped: a look that took it for an own ring may have missed one of others
        isCounted = false
        count.own--
        this.call()
      }
    }
  }

  /** Looks at all entries again: the host's share is another. */
  lookAgain(): void {
    for (let bell = 0; bell < BELLS; bell++) this.#unseen.set(bell, WHOLE)
    this.call()
  }

  /** Looks again at the entries of one bell. */
  missed(bell: number): void {
    const from = this.#unseen.get(bell)?.from
    this.#unseen.set(bell, { from, isAgain: from !== undefined })
  }

  /** The host has room again. */
  call(): void {
    Deferred.doneUnsafe(this.#called, Exit.void)
  }

  /** Listens for ever. */
  get listen(): Effect.Effect<never> {
    return Effect.forever(
      Effect.catchCause(
        Effect.suspend(() => {
          this.#called = Deferred.makeUnsafe()
          return Effect.andThen(this.#looks(), this.#wait)
        }),
        (cause) =>
          Effect.andThen(
            logWarning("a host could not look for servers that have something to do, it tries again", cause),
            Effect.sleep(AWAY_MILLIS)
          )
      )
    )
  }

  /** Looks at the entries of the bells that rang, as long as there is room (2). */
  #looks(): Effect.Effect<void, BackendError> {
    return Effect.suspend(() => {
      const next = this.#unseen.entries().next()
      if (next.done === true) return Effect.void
      const [bell, look] = next.value
      // to the end of the line: the others' turn comes before its next page
      this.#unseen.delete(bell)
      /** What the look comes to; what was missed during the page has begun another (2). */
      const goesOn = (from: Uint8Array | undefined) =>
        this.#unseen.set(bell, { from, isAgain: from !== undefined && (look.isAgain || this.#unseen.has(bell)) })
      return Effect.flatMap(
        Effect.onError(this.#page(bell, look.from), () => Effect.sync(() => goesOn(look.from))),
        (rest) => {
          if (rest !== undefined) goesOn(rest.from)
          else if (look.isAgain) goesOn(undefined)
          return rest?.isFull === true ? Effect.void : this.#looks()
        }
      )
    })
  }

  /** One page of entries. Succeeds with where the next one begins, if there may be one. */
  #page(bell: number, cursor: Uint8Array | undefined) {
    const prefix = this.#host.indexes.entries(bell)
    const { begin, end } = Tuple.range([], prefix)
    const read = Effect.flatMap(
      Transaction,
      (state) => state.getRange(cursor ?? begin, end, { limit: PAGE_ROWS, snapshot: true })
    )
    return Effect.map(transact(this.#host.tenant, read), (rows) => {
      for (const { key, value } of rows) {
        const tuid = tuidOfKey(key, prefix, 0)
        if (tuid !== undefined && !this.#host.offer(tuid, value)) return { from: key, isFull: true }
      }
      return rows.length < PAGE_ROWS ? undefined : { from: Keys.next(rows.at(-1)!.key), isFull: false }
    })
  }

  /** Reads and watches all bells, and waits for one to ring, for a wake-up, or for the host (1, 3). */
  get #wait(): Effect.Effect<void, BackendError> {
    return Effect.flatMap(
      transact(this.#host.tenant, this.#arm),
      ({ armed, dueMillis, shown }) =>
        Effect.flatMap(Clock.monotonicTimeNanos, (nanos) => {
          const ended = Effect.sync(() => {
            for (const watch of armed) watch.cancel()
          })
          const { rang, sureMillis } = this.#learn(shown, Number(nanos / 1_000_000n))
          if (dueMillis === 0) return Effect.andThen(ended, this.#wakeDue)
          if (rang) return ended
          return Effect.flatMap(Random.nextBetween(WATCH_LIMIT_MILLIS, 1.5 * WATCH_LIMIT_MILLIS), (limitMillis) => {
            const ring = Effect.raceAllFirst([
              Deferred.await(this.#called),
              this.#signalled,
              Effect.sleep(Math.min(limitMillis, dueMillis, sureMillis)),
              ...armed.map((watch) => Deferred.await(watch.deferred))
            ])
            return Effect.andThen(Effect.ensuring(ring, ended), Effect.sleep(PAUSE_MILLIS))
          })
        })
    )
  }

  /** Whether others rang, and when a bell that may have been rung by others has to be looked at. */
  #learn(shown: Shown, nowMillis: number): { readonly rang: boolean; readonly sureMillis: number } {
    let rang = false
    let sureMillis = Infinity
    for (const [bell, count] of this.#counts.entries()) {
      const value = shown.values[bell]!
      const atMost = value - BigInt(shown.own[bell]!)
      const atLeast = value - BigInt(count.own + count.open)
      const { others } = count
      if (others !== undefined && atMost <= others) {
        count.unsureMillis = undefined
        continue
      }
      const isSure = others === undefined || atLeast > others
      count.unsureMillis ??= nowMillis
      const leftMillis = count.unsureMillis + UNSURE_MILLIS - nowMillis
      if (!isSure && leftMillis > 0) {
        sureMillis = Math.min(sureMillis, leftMillis)
        continue
      }
      rang = true
      count.unsureMillis = undefined
      count.others = others === undefined || atLeast > others ? atLeast : others
      this.missed(bell)
    }
    return { rang, sureMillis }
  }

  /** Ends when a commit of this process rings a bell. */
  get #signalled(): Effect.Effect<void> {
    const { indexes, tenant } = this.#host
    return Effect.callback<void>((resume) => {
      const stops = Array.from(
        { length: BELLS },
        (_, bell) =>
          tenant.backend.signals.listen(Keys.toText(indexes.bell(bell)), () => {
            for (const stop of stops) stop()
            resume(Effect.void)
          })
      )
      return Effect.sync(() => {
        for (const stop of stops) stop()
      })
    })
  }

  /** The transaction that reads and watches. */
  get #arm() {
    const { indexes } = this.#host
    return Effect.gen({ self: this }, function*() {
      const state = yield* Transaction
      const bells = Tuple.range([], indexes.bells)
      const wakes = Tuple.range([], indexes.wakes)
      const own = this.#counts.map((count) => count.own)
      const [rows, first] = yield* Effect.all([
        state.getRange(bells.begin, bells.end, { limit: BELLS, snapshot: true }),
        state.getRange(wakes.begin, wakes.end, { limit: 1, snapshot: true })
      ], { concurrency: "unbounded" })
      const found = new Map(rows.map((row) => [Keys.toText(row.key), Counters.readBigint(row.value)]))
      const keys = Array.from({ length: BELLS }, (_, bell) => indexes.bell(bell))
      const values = keys.map((key) => found.get(Keys.toText(key)) ?? 0n)
      const armed: ReadonlyArray<Armed> = keys.map((key) => watchKey(state, key))
      const due = first.length === 0 ? Infinity : dueOf(first[0]!.key, indexes)
      return { armed, shown: { values, own }, dueMillis: Math.max(0, due - state.timeMillis) }
    })
  }

  /** Does what wake-ups are due for: whoever works on their servers hears of it like of any other message. */
  get #wakeDue(): Effect.Effect<void, BackendError> {
    const { due, indexes, tenant } = this.#host
    const { begin, end } = Tuple.range([], indexes.wakes)
    const look = Effect.flatMap(Transaction, (state) =>
      Effect.map(
        state.getRange(begin, end, { limit: WAKES_ROWS, snapshot: true }),
        (rows) => rows.map((row) => row.key).filter((key) => dueOf(key, indexes) <= state.timeMillis)
      ))
    return Effect.flatMap(
      transact(tenant, look),
      (keys) =>
        Effect.forEach(partsOf(keys), (part) => transact(tenant, due(part)), {
          concurrency: WAKES_UNDER_WAY,
          discard: true
        })
    )
  }
}

const partsOf = (keys: ReadonlyArray<Uint8Array>): ReadonlyArray<ReadonlyArray<Uint8Array>> =>
  Array.from(
    { length: Math.ceil(keys.length / WAKES_AT_ONCE) },
    (_, part) => keys.slice(part * WAKES_AT_ONCE, (part + 1) * WAKES_AT_ONCE)
  )

/** When a wake-up is due: at once, where its key says nothing, so that it goes. */
const dueOf = (key: Uint8Array, indexes: IndexKeys): number => {
  try {
    const [millis] = Tuple.unpack(key, indexes.wakes.length)
    return typeof millis === "number" ? millis : 0
  } catch {
    return 0
  }
}

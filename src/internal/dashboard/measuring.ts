/**
 * What the overview shows, measured in rounds by a fiber of the dashboard, however many look at it.
 *
 * The fiber alone writes what is measured; looks read it.
 *
 * 1. A round reads a bounded part: the tenant at a glance, the types of jobs, a page of servers. Rounds pause long enough
 *    to take a fiftieth of the time at the most, whatever store and machine they run on.
 * 2. Nobody looks, nothing is read: rounds end some time after the last look, and begin anew with the next one, which
 *    waits for a fresh one.
 * 3. Figures of servers are those of the last pass over all of them; until the first one is whole, of those that it has
 *    looked at so far.
 * 4. A round that fails is told to who looks, and the next one tries again.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import * as Inspect from "../../Inspect.ts"
import { type Tenant, transact } from "../../Tenant.ts"
import { Pace } from "../inspect/walking.ts"
import { keepRunning } from "../observing/unforeseen.ts"
import type { Failure } from "./failing.ts"
import * as Figures from "./figures.ts"
import { serversIn, TOGETHER, typeOf } from "./looking.ts"
import type { DefinitionRow, Overview } from "./wire.ts"

const ROUND_MILLIS = 2_000

/** A round is followed by a pause that is so many times as long (1). */
const PAUSE_FACTOR = 50

/** What a round looks at of the servers (1). */
const PAGE = { limit: 1_000, look: 1_000, millis: 30 }

/** Rounds go on for so long after the last look: the page asks every two seconds, and every 30 while it has trouble. */
const WATCHED_MILLIS = 60_000

const TYPES_LIMIT = 200

/** What a look gets of the rounds. */
export interface Measuring {
  readonly overview: Effect.Effect<Overview, Failure>
  /** The names of the definitions, as far as a round has seen them. */
  readonly names: Effect.Effect<ReadonlyArray<string>>
}

/** What the rounds have found. */
class Found {
  stats: Inspect.Stats | undefined
  types: ReadonlyArray<Inspect.JobTypeRow> = []
  failure: Failure | undefined
  lookAt = -Infinity
  /** The pass that is under way, where it goes on, and the last one that is whole (3). */
  pass = new Figures.Pass()
  after: string | undefined
  readonly pace = new Pace(TOGETHER)
  whole: Figures.Pass | undefined
  takenPerSecond: number | undefined
  readonly points = new Figures.Points()
  readonly taken = new Figures.Speed()
  readonly runs = new Figures.Speed()
  readonly given = new Map<string, Figures.Speed>()
  readonly givenPerSecond = new Map<string, number | undefined>()

  /** Forgets what would be old for the next one who looks (2). */
  rest(now: number): void {
    this.pass = new Figures.Pass()
    this.after = undefined
    this.whole = undefined
    this.takenPerSecond = undefined
    this.taken.forget()
    this.runs.forget()
    this.given.clear()
    this.points.add(Figures.gapAt(now))
  }

  /** What is shown of the servers. */
  get shown(): Figures.Pass {
    return this.whole ?? this.pass
  }
}

/** One round. */
const round = Effect.fnUntraced(function*(found: Found) {
  const began = yield* Clock.currentTimeMillis
  found.stats = yield* transact(Inspect.stats())
  found.types = (yield* transact(Inspect.jobTypes({ limit: TYPES_LIMIT }))).types
  const page = yield* serversIn({ after: found.after }, PAGE, found.pace)
  const now = yield* Clock.currentTimeMillis
  found.pass.add(page.rows)
  found.after = page.next
  if (page.next === undefined) {
    found.whole = found.pass
    found.pass = new Figures.Pass()
    found.takenPerSecond = found.taken.perSecond(found.whole.taken, now)
  }
  measure(found, now)
  return now - began
})

const measure = (found: Found, now: number): void => {
  let perSecond = found.takenPerSecond
  for (const { name, rings } of found.stats?.definitions ?? []) {
    let speed = found.given.get(name)
    if (speed === undefined) found.given.set(name, speed = new Figures.Speed())
    const given = speed.perSecond(rings, now)
    found.givenPerSecond.set(name, given)
    if (given !== undefined) perSecond = (perSecond ?? 0) + given
  }
  const { oldestAt, waiting } = found.shown
  found.points.add({
    at: now,
    perSecond,
    waiting,
    oldestMillis: oldestAt === undefined ? 0 : Math.max(0, now - oldestAt),
    jobsPerSecond: found.runs.perSecond(found.types.reduce((sum, { runs }) => sum + runs, 0), now)
  })
  found.failure = undefined
}

const rowOf = (found: Found, row: Inspect.DefinitionRow): DefinitionRow => {
  const { definition, hosts, name, servers, working } = row
  const hosted = definition?.hosted
  return {
    name,
    hosted,
    servers,
    working,
    hosts,
    givenPerSecond: hosted === true ? found.givenPerSecond.get(name) : undefined,
    ...(found.shown.tallies.get(name) ?? Figures.NOTHING)
  }
}

const overviewOf = (found: Found, now: number): Overview => ({
  now,
  definitions: found.stats?.definitions.map((row) => rowOf(found, row)) ?? [],
  looked: found.shown.looked,
  isWhole: found.whole !== undefined,
  troubledCount: found.shown.troubledCount,
  troubled: found.shown.troubled,
  jobs: found.types.map(typeOf),
  history: found.points.history
})

/** Measures while somebody looks, until the scope closes. */
export const make: Effect.Effect<Measuring, never, Tenant | Scope.Scope> = Effect.gen(function*() {
  const found = new Found()
  const watched = yield* Latch.make(false)
  const measured = yield* Latch.make(false)

  const loop = Effect.gen(function*() {
    for (;;) {
      yield* watched.await
      const took = yield* Effect.catch(round(found), (failure) =>
        Effect.sync(() => {
          found.failure = failure
          return 0
        }))
      yield* measured.open
      yield* Effect.sleep(Math.max(ROUND_MILLIS, took * PAUSE_FACTOR))
      const now = yield* Clock.currentTimeMillis
      // nobody looks between these
      if (now - found.lookAt <= WATCHED_MILLIS) continue
      watched.closeUnsafe()
      measured.closeUnsafe()
      found.rest(now)
    }
  })
  yield* Effect.forkScoped(keepRunning("dashboard", "the measuring of the dashboard", loop))

  const look = Effect.gen(function*() {
    found.lookAt = yield* Clock.currentTimeMillis
    yield* watched.open
  })
  return {
    overview: Effect.gen(function*() {
      yield* look
      yield* measured.await
      if (found.failure !== undefined) return yield* found.failure
      return overviewOf(found, yield* Clock.currentTimeMillis)
    }),
    names: Effect.map(look, () => found.stats?.definitions.map(({ name }) => name) ?? [])
  }
})

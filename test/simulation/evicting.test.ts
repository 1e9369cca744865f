/** How long hosts keep states: for a while, not too many of them, and as long as something of their servers is under way. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer, Logger, Schema } from "effect"
import { Backend, DgenServer, Tenant } from "effect-dgen"
import { ServerKeys } from "../../src/internal/server/kept/layout.ts"
import { run } from "../../src/testing/Simulation.ts"

class Cell extends DgenServer.Service<Cell>()("Cell", {
  state: Schema.Int,
  hosted: true,
  messages: { Add: DgenServer.cast(), Work: DgenServer.cast() },
  actions: { Wait: Schema.Duration }
}) {}

const behaviour = Cell.behaviour({
  init: Effect.succeed(0),
  handlers: {
    Add: (_, state) => DgenServer.noReply(state + 1),
    Work: (_, state) => DgenServer.noReply(state + 1, [Cell.action("Wait", Duration.minutes(10))])
  }
})

/** A store that tells which ranges are read. */
const listening = (reads: Array<string>) =>
  Effect.map(Backend.Backend, (backend) =>
    Backend.Backend.of({
      ...backend,
      begin: Effect.map(backend.begin, (driver) => ({
        readVersion: driver.readVersion,
        get: (key) => driver.get(key),
        getRange: (begin, end, options) => {
          reads.push(Buffer.from(begin).toString("hex"))
          return driver.getRange(begin, end, options)
        },
        commit: (request, accepted) => driver.commit(request, accepted),
        close: () => driver.close()
      }))
    }))

const tuidOf = (cell: number) => ["cell", cell]

/** Runs messages to cells, with pauses, and tells how often their states were read from the store. */
const stateReads = (options: DgenServer.HostOptions, cells: ReadonlyArray<number>, first: "Add" | "Work" = "Add") =>
  run({ seed: 1 }, () =>
    Effect.gen(function*() {
      const reads: Array<string> = []
      const backend = yield* listening(reads)
      return yield* Effect.gen(function*() {
        const { prefix } = yield* Tenant.Tenant
        yield* Layer.build(Cell.hostLayer(behaviour, options))
        const count = (cell: number) => {
          const { state } = new ServerKeys(prefix, tuidOf(cell), { name: "Cell", hosted: true })
          return reads.filter((read) => read.startsWith(Buffer.from(state).toString("hex"))).length
        }
        for (const [i, cell] of cells.entries()) {
          const client = yield* Cell.client({ tuid: tuidOf(cell) })
          yield* client.cast(i === 0 ? first : "Add")
          yield* Effect.sleep("1 minute")
        }
        return count(cells[0]!)
      }).pipe(
        Effect.provide(Cell.actionsLayer({ Wait: (duration) => Effect.sleep(duration) })),
        Effect.provide(Tenant.layer(["cells"])),
        Effect.provideService(Backend.Backend, backend)
      )
    })).pipe(Effect.map(({ value }) => value), Effect.provide(Logger.layer([])))

it.live("a state is kept while its server is used again within the time", () =>
  Effect.map(stateReads({ idleTimeToLive: "2 minutes" }, [1, 1, 1, 1]), (reads) => assert.strictEqual(reads, 0)))

it.live("a state is read again when its server was not used for longer", () =>
  Effect.map(stateReads({ idleTimeToLive: "30 seconds" }, [1, 1, 1, 1]), (reads) => assert.strictEqual(reads, 3)))

it.live("a state makes room for others when there are too many", () =>
  Effect.map(stateReads({ maxResident: 2 }, [1, 2, 3, 1, 2, 3, 1]), (reads) => assert.strictEqual(reads, 2)))

it.live("a state is kept while an action of its server runs", () =>
  Effect.map(
    stateReads({ idleTimeToLive: "1 second", maxResident: 1 }, [1, 2, 3, 1], "Work"),
    (reads) => assert.strictEqual(reads, 0)
  ))

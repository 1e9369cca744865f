/** Timers: sent at their time, once, by whoever runs the server. Run on every backend, for started and hosted servers. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Layer, Schema } from "effect"
import { DgenServer, Tenant } from "effect-dgen"
import { ServerKeys } from "../../../src/internal/server/kept/layout.ts"
import { elsewhere, inside, rowsUnder, type Store, tapped, testsOf, until } from "../server/support.ts"

const definition = {
  state: Schema.Struct({ heard: Schema.Array(Schema.String) }),
  messages: {
    Hear: DgenServer.cast({ payload: { word: Schema.String } }),
    Ring: DgenServer.cast(),
    Postpone: DgenServer.cast(),
    Heard: DgenServer.call({ success: Schema.Array(Schema.String) })
  }
}

class Started extends DgenServer.Service<Started>()("Started", { ...definition, maxTimers: 3 }) {}
class Hosted extends DgenServer.Service<Hosted>()("Hosted", { ...definition, hosted: true, maxTimers: 3 }) {}

type Ear = { readonly heard: ReadonlyArray<string> }
const hear = (state: Ear, word: string) => DgenServer.noReply({ heard: [...state.heard, word] })

const behaviours = {
  started: Started.behaviour({
    init: Effect.succeed({ heard: [] }),
    handlers: {
      Hear: ({ word }, state, { timer }) => hear(state, timer === undefined ? word : `${word} by ${timer.id}`),
      Ring: (_, state) => hear(state, "ring"),
      Postpone: (_, state) =>
        Effect.as(
          Effect.orDie(Started.castLaterSelfTx("Ring", { after: "1 hour", id: "ring" })),
          hear(state, "postponed")
        ),
      Heard: (_, state) => DgenServer.reply(state.heard, state)
    }
  }),
  hosted: Hosted.behaviour({
    init: Effect.succeed({ heard: [] }),
    handlers: {
      Hear: ({ word }, state, { timer }) => hear(state, timer === undefined ? word : `${word} by ${timer.id}`),
      Ring: (_, state) => hear(state, "ring"),
      Postpone: (_, state) =>
        Effect.as(
          Effect.orDie(Hosted.castLaterSelfTx("Ring", { after: "1 hour", id: "ring" })),
          hear(state, "postponed")
        ),
      Heard: (_, state) => DgenServer.reply(state.heard, state)
    }
  })
}

const tuid = ["ear", 1]
const kinds = {
  started: {
    run: Effect.asVoid(Started.start(behaviours.started, { tuid })),
    client: Started.client({ tuid }),
    hosted: false
  },
  hosted: {
    run: Effect.asVoid(Layer.build(Layer.fresh(Hosted.hostLayer(behaviours.hosted)))),
    client: Hosted.client({ tuid }),
    hosted: true
  }
}

const timerRows = (hosted: boolean) =>
  Effect.flatMap(Tenant.Tenant, ({ prefix }) => {
    const keys = new ServerKeys(prefix, tuid, { name: hosted ? "Hosted" : "Started", hosted })
    return Effect.all([rowsUnder(keys.timers), rowsUnder(keys.timerIds), rowsUnder(keys.place.indexes.wakes)])
  })

export const timersSuite = (name: string, backend: Store): void => {
  const test = testsOf(backend, "timers")
  for (const [kind, { client, hosted, run }] of Object.entries(kinds)) {
    describe(`${name}: timers of ${kind} servers`, () => {
      test(
        "are sent at their time, in the order of their times, and leave nothing",
        Effect.gen(function*() {
          const ear = yield* client
          const soon = Date.now() + 100
          yield* ear.castLater("Hear", { word: "second" }, { at: soon + 30, id: "b" })
          yield* ear.castLater("Hear", { word: "first" }, { at: soon, id: "a" })
          yield* ear.castLater("Hear", { word: "third" }, { at: soon + 30, id: "c" })
          yield* run
          yield* until(ear.state, (state) => state?.heard.length === 3)
          assert.deepStrictEqual(yield* ear.call("Heard"), ["first by a", "second by b", "third by c"])
          yield* until(timerRows(hosted), (rows) => rows.every((of) => of.length === 0))
          assert.deepStrictEqual(yield* ear.timers, [])
        })
      )

      test(
        "that were set before anybody ran the server are sent when somebody does",
        Effect.gen(function*() {
          const ear = yield* client
          yield* ear.castLater("Ring", { at: DateTime.makeUnsafe(1_000) })
          yield* ear.castLater("Ring", undefined, { at: new Date(2_000) })
          yield* run
          yield* until(ear.state, (state) => state?.heard.length === 2)
        })
      )

      test(
        "are set again by their id: the earlier one is not sent",
        Effect.gen(function*() {
          const ear = yield* client
          yield* ear.castLater("Hear", { word: "old" }, { after: 0, id: "one" })
          yield* ear.castLater("Hear", { word: "new" }, { after: 0, id: "one" })
          yield* run
          yield* until(ear.state, (state) => state?.heard.length === 1)
          assert.deepStrictEqual(yield* ear.call("Heard"), ["new by one"])
        })
      )

      test(
        "that are set again void what they have sent and nobody has handled",
        Effect.gen(function*() {
          const ear = yield* client
          // the messages wait in the queue in this order: the first one postpones the second
          yield* ear.castLater("Postpone", { at: 1_000 })
          yield* ear.castLater("Ring", { at: 2_000, id: "ring" })
          yield* run
          yield* until(ear.state, (state) => state?.heard.length === 1)
          yield* ear.cast("Hear", { word: "end" })
          yield* until(ear.state, (state) => state?.heard.includes("end") === true)
          assert.deepStrictEqual(yield* ear.call("Heard"), ["postponed", "end"])
          assert.deepStrictEqual((yield* ear.timers).map(({ id, tag }) => [id, tag]), [["ring", "Ring"]])
        })
      )

      test(
        "that are cancelled are not sent",
        Effect.gen(function*() {
          const ear = yield* client
          const id = yield* ear.castLater("Ring", { after: 0 })
          assert.isTrue(yield* ear.cancelTimer(id))
          assert.isFalse(yield* ear.cancelTimer(id))
          yield* run
          yield* ear.cast("Hear", { word: "end" })
          yield* until(ear.state, (state) => state?.heard.length === 1)
          assert.deepStrictEqual(yield* ear.call("Heard"), ["end"])
        })
      )

      test(
        "wake who waits for a later one, in another process too",
        Effect.gen(function*() {
          yield* run
          const ear = yield* client
          yield* ear.castLater("Ring", { after: "1 hour" })
          yield* inside(yield* elsewhere)(Effect.flatMap(client, (other) => other.castLater("Ring", { after: 10 })))
          yield* until(ear.state, (state) => state?.heard.length === 1)
          assert.lengthOf(yield* ear.timers, 1)
        })
      )

      test(
        "that come again keep to their grid and make up for the latest tick alone",
        Effect.gen(function*() {
          const ear = yield* client
          const now = Date.now()
          const first = now - 10 * 3_600_000 - 1_000
          yield* ear.castLater("Hear", { word: "hour" }, { every: "1 hour", first, id: "hour" })
          const [before] = yield* ear.timers
          assert.strictEqual((DateTime.toEpochMillis(before!.due) - first) % 3_600_000, 0)
          assert.isAbove(DateTime.toEpochMillis(before!.due), now)
          yield* ear.cancelTimer("hour")
          yield* ear.castLater("Ring", { every: "1 second", first: now, id: "second" })
          yield* run
          yield* until(ear.state, (state) => (state?.heard.length ?? 0) >= 2)
          const [after] = yield* ear.timers
          assert.strictEqual((DateTime.toEpochMillis(after!.due) - now) % 1_000, 0)
          assert.isTrue(yield* ear.cancelTimer("second"))
          assert.deepStrictEqual(yield* ear.timers, [])
        })
      )

      test(
        "are refused where they cannot be, and nothing is written",
        Effect.gen(function*() {
          const ear = yield* client
          const set = (options: unknown) => Effect.flip(ear.castLater("Ring", options as never))
          const cases: ReadonlyArray<readonly [string, unknown]> = [
            ["options", undefined],
            ["options", "soon"],
            ["after", {}],
            ["after", { after: -1 }],
            ["after", { after: "soon" }],
            ["after", { after: Infinity }],
            ["at", { at: "no time" }],
            ["at", { after: 1, at: 1 }],
            ["every", { every: 0 }],
            ["every", { every: 999 }],
            ["every", { every: Number.NaN }],
            ["first", { every: 1_000, first: "never" }],
            ["missed", { every: 1_000, missed: "all" }],
            ["cron", { cron: "no cron" }],
            ["cron", { cron: "0 0 31 2 *" }],
            ["cron", { cron: "0 0 * * *", timeZone: "Mars/Olympus" }],
            ["id", { after: 1, id: "" }],
            ["id", { after: 1, id: "x".repeat(257) }],
            ["id", { after: 1, id: "\ud800" }],
            ["id", { after: 1, id: 7 }],
            ["first", { after: 1, first: 0 }]
          ]
          for (const [option, options] of cases) {
            const error = yield* set(options)
            assert.deepInclude({ ...error }, { _tag: "InvalidOption", option }, JSON.stringify(options))
          }
          const call = yield* Effect.flip(ear.castLater("Heard" as never, { after: 1 } as never))
          assert.strictEqual(call._tag, "UnknownMessage")
          assert.deepStrictEqual((yield* timerRows(hosted)).map((rows) => rows.length), [0, 0, 0])
        })
      )

      test(
        "that many set at one moment for one time are all sent",
        Effect.gen(function*() {
          const ear = yield* client
          const at = Date.now() - 1_000
          // the earlier one: who sets another one for a later time writes nothing that all write
          yield* ear.castLater("Ring", { at: at - 1 })
          let isFirst = true
          const overtaken = yield* tapped({
            before: () => {
              if (!isFirst) return Effect.void
              isFirst = false
              return Effect.orDie(Effect.asVoid(ear.castLater("Ring", { at })))
            }
          })
          yield* inside(overtaken)(Effect.flatMap(client, (other) => other.castLater("Ring", { at })))
          assert.lengthOf(yield* ear.timers, 3)
          yield* run
          yield* until(ear.state, (state) => state?.heard.length === 3)
        })
      )

      test(
        "are as many as the definition allows",
        Effect.gen(function*() {
          const ear = yield* client
          for (const id of ["a", "b", "c"]) yield* ear.castLater("Ring", { after: "1 hour", id })
          const error = yield* Effect.flip(ear.castLater("Ring", { after: "1 hour" }))
          assert.strictEqual(error._tag, "TooManyTimers")
          yield* ear.castLater("Ring", { after: "2 hours", id: "c" })
          yield* ear.cancelTimer("a")
          yield* ear.castLater("Ring", { after: "1 hour" })
        })
      )
    })
  }
}

/** The server that the suites of hostile errors and of throwing observers run: it dies of what a test puts under a name. */
import { Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { hostileValues } from "../../support/hostileValues.ts"
import { fast } from "./support.ts"

const named = { payload: Schema.String }

export class Bomb extends DgenServer.Service<Bomb>()("Bomb", {
  state: Schema.Struct({ handled: Schema.Int }),
  messages: {
    Boom: DgenServer.call(named),
    Drop: DgenServer.cast(named),
    Hint: DgenServer.info(named),
    Hold: DgenServer.call({ ...named, locks: true }),
    Act: DgenServer.call(named),
    Leave: DgenServer.call(named),
    Ping: DgenServer.call({ success: Schema.Int })
  },
  actions: { Burst: Schema.String, Done: Schema.String }
}) {}

const explode = (name: string): never => {
  throw hostileValues[name]!()
}

export const bomb = Bomb.behaviour({
  init: Effect.succeed({ handled: 0 }),
  handlers: {
    Boom: explode,
    Drop: explode,
    Hint: explode,
    Hold: (_, state) => DgenServer.lock(state),
    Act: (name, { handled }) =>
      DgenServer.reply(undefined, { handled: handled + 1 }, [Bomb.action("Done", name), Bomb.action("Burst", name)]),
    Leave: (name, state) => DgenServer.stop(hostileValues[name]!(), state),
    Ping: (_, { handled }) => DgenServer.reply(handled + 1, { handled: handled + 1 })
  }
})

/** Starts the server; `done` hears of actions, `buried` of dead letters before their handler dies. */
export const startBomb = (
  options: DgenServer.Options = {},
  { buried = () => {}, done = () => {} }: {
    readonly done?: (name: string) => void
    readonly buried?: (letter: DgenServer.DeadLetter) => void
  } = {}
) =>
  Bomb.start(bomb, { ...fast, tuid: ["Bomb"], ...options }).pipe(
    Effect.provide([
      Bomb.actionsLayer({
        Burst: (name) => Effect.sync(() => explode(name)),
        Done: (name) => Effect.sync(() => done(name))
      }),
      Bomb.lockedLayer({ Hold: (name) => Effect.sync(() => explode(name)) }),
      Bomb.deadLetterLayer((letter) =>
        Effect.sync(() => {
          buried(letter)
          explode(String(letter.payload))
        })
      )
    ])
  )

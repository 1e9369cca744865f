/** The servers and the services that the type tests work with. */
import { Context, Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"

export class Overflow extends Schema.TaggedError<Overflow>()("Overflow", { max: Schema.Int }) {}

/** A server with every kind of message. */
export class Counter extends DgenServer.Service<Counter>()("Counter", {
  state: Schema.Struct({ count: Schema.Int }),
  messages: {
    Increment: DgenServer.call({ payload: { by: Schema.Int }, success: Schema.Int, error: Overflow }),
    Value: DgenServer.call({ success: Schema.Int }),
    Reset: DgenServer.call(),
    Import: DgenServer.call({ payload: { url: Schema.String }, success: Schema.Int, error: Overflow, locks: true }),
    Add: DgenServer.cast({ payload: { by: Schema.Int } }),
    Clear: DgenServer.cast(),
    Sync: DgenServer.cast({ payload: Schema.String, locks: true }),
    Tick: DgenServer.info(),
    Note: DgenServer.info({ payload: { text: Schema.String } })
  },
  actions: { Announce: { total: Schema.Int }, Beep: Schema.Void }
}) {}

export type State = { readonly count: number }

export type Handlers = Parameters<typeof Counter.behaviour>[0]["handlers"]

/** All handlers but those that a test writes. */
export declare const handlers: Handlers

/** Takes some of the handlers, for tests of one. */
export declare const handle: (some: Partial<Handlers>) => void

export const init = Effect.succeed({ count: 0 })

export const behaviour = Counter.behaviour({ init, handlers })

/** Another server, whose actions and service are not the counter's. */
export class Other extends DgenServer.Service<Other>()("Other", {
  state: Schema.Int,
  messages: { Ping: DgenServer.call() },
  actions: { Shout: { text: Schema.String } }
}) {}

/** A service that touches the world. */
export class HttpClient extends Context.Service<HttpClient, {
  readonly get: (url: string) => Effect.Effect<number>
}>()("test/HttpClient") {}

/** Another one. */
export class Mailer extends Context.Service<Mailer, {
  readonly send: (text: string) => Effect.Effect<void>
}>()("test/Mailer") {}

export const download = Effect.flatMap(HttpClient, (http) => http.get("https://example.org"))

export const mail = Effect.flatMap(Mailer, (mailer) => mailer.send("hello"))

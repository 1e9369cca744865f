/**
 * A chat room: its messages are a list of structs with an `id`, so that each is a key of its own in the store, and a new
 * one costs the same whether the room has ten or ten thousand.
 */
import { Console, Effect, Schema } from "effect"
import { DgenServer } from "effect-dgen"
import { temporaryTenant } from "./temporaryStore.ts"

const Message = Schema.Struct({ id: Schema.String, author: Schema.String, text: Schema.String })

class NotYours extends Schema.TaggedError<NotYours>()("NotYours", { id: Schema.String }) {}

class Room extends DgenServer.Service<Room>()("Room", {
  state: Schema.Struct({ topic: Schema.String, messages: Schema.Array(Message) }),
  messages: {
    Say: DgenServer.call({ payload: { author: Schema.String, text: Schema.String }, success: Schema.String }),
    Edit: DgenServer.call({
      payload: { id: Schema.String, author: Schema.String, text: Schema.String },
      error: NotYours
    }),
    Pin: DgenServer.cast({ payload: { id: Schema.String } }),
    Read: DgenServer.call({ success: Schema.Array(Message) })
  },
  actions: { Notify: { text: Schema.String } }
}) {}

const behaviour = Room.behaviour({
  init: Effect.succeed({ topic: "lunch", messages: [] }),
  handlers: {
    Say: ({ author, text }, state) => {
      const id = `m${state.messages.length + 1}`
      const messages = [...state.messages, { id, author, text }]
      return DgenServer.reply(id, { ...state, messages }, [Room.action("Notify", { text: `${author}: ${text}` })])
    },
    Edit: Effect.fnUntraced(function*({ author, id, text }, state) {
      const found = state.messages.find((message) => message.id === id)
      if (found?.author !== author) return yield* new NotYours({ id })
      const messages = state.messages.map((message) => message === found ? { ...found, text } : message)
      return DgenServer.reply(undefined, { ...state, messages })
    }),
    // moving one item to the front writes that item's place, and nothing else
    Pin: ({ id }, state) => {
      const pinned = state.messages.filter((message) => message.id === id)
      return DgenServer.noReply({
        ...state,
        messages: [...pinned, ...state.messages.filter((message) => message.id !== id)]
      })
    },
    Read: (_, state) => DgenServer.reply(state.messages, state)
  }
})

const RoomActions = Room.actionsLayer({ Notify: ({ text }) => Console.log(`  everybody is told: ${text}`) })

const visit = Effect.gen(function*() {
  // one of many rooms: each has a state and a queue of its own
  const room = yield* Room.start(behaviour, { tuid: ["room", "lunch"] })
  const first = yield* room.call("Say", { author: "ada", text: "soup?" })
  const second = yield* room.call("Say", { author: "bob", text: "pizza!" })
  yield* room.call("Edit", { id: first, author: "ada", text: "soup or salad?" })
  const refused = yield* Effect.flip(room.call("Edit", { id: second, author: "ada", text: "salad!" }))
  yield* Console.log(`ada edits what bob said: ${refused._tag}`)
  yield* room.cast("Pin", { id: second })
  for (const { author, id, text } of yield* room.call("Read")) yield* Console.log(`${id} ${author}: ${text}`)
})

await Effect.runPromise(visit.pipe(
  Effect.scoped,
  Effect.provide(RoomActions),
  Effect.provide(temporaryTenant("chat"))
))

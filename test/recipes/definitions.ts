/** The recipes of docs/CHANGING.md: of each the program before and after, as hosts of one definition. */
import { Effect, Layer, Schema } from "effect"
import { DgenServer } from "effect-dgen"

const String = Schema.String
const text = { payload: { text: String } }
const Read = DgenServer.call({ success: Schema.Json })

/** What the processes of a program do with messages, and with durable actions. */
type Handlers = { readonly [tag: string]: (payload: any, state: any) => unknown }

/** What durable actions did, told to the test by the process that ran them. */
const acted = (what: object) => Effect.sync(() => void process.send?.({ acted: what }))

interface Program {
  readonly own: any
  readonly host: Layer.Layer<never, unknown, any>
}

const program = (
  state: any,
  messages: any,
  handlers: Handlers,
  init: unknown,
  actions: { readonly [tag: string]: any } = {}
): Program => {
  const own: any = class extends DgenServer.Service<any>()("Recipe", { hosted: true, state, messages, actions }) {}
  const behaviour = own.behaviour({ init: Effect.succeed(init), handlers })
  const runs = Object.fromEntries(
    Object.keys(actions).map((tag) => [tag, (payload: unknown) => acted({ tag, payload })])
  )
  const host: Layer.Layer<never, unknown, any> = own.hostLayer(behaviour)
  return { own, host: Object.keys(actions).length === 0 ? host : host.pipe(Layer.provide(own.actionsLayer(runs))) }
}

const keep = (_: unknown, state: unknown) => DgenServer.reply(state, state)
const add = ({ text }: { readonly text: string }, state: any) =>
  DgenServer.noReply({ ...state, lines: [...state.lines, text] })

const Lines = Schema.Struct({ name: String, lines: Schema.Array(String) })
const first = { name: "Ada Lovelace", lines: [] }

/** Before: a state with a name and lines, of which each message adds one. */
const lines = (): Program => program(Lines, { Add: DgenServer.cast(text), Read }, { Add: add, Read: keep }, first)

/** The same with a message more. */
const clearing = (): Program =>
  program(
    Lines,
    { Add: DgenServer.cast(text), Read, Clear: DgenServer.cast() },
    { Add: add, Read: keep, Clear: (_, state) => DgenServer.noReply({ ...state, lines: [] }) },
    first
  )

/** The same with a durable action, which is asked for with each line. */
const telling = (): Program =>
  program(
    Lines,
    { Add: DgenServer.cast(text), Read },
    {
      Add: ({ text }, state) =>
        DgenServer.noReply({ ...state, lines: [...state.lines, text] }, [
          { server: "Recipe", tag: "Tell", payload: { text } }
        ]),
      Read: keep
    },
    first,
    { Tell: DgenServer.durable({ payload: text.payload }) }
  )

/** After: another shape of the same, made by a step. */
const shaped = <S extends Schema.Codec<any, any, never, never>>(
  schema: S,
  step: (old: typeof Lines.Type) => S["Type"],
  addTo: (text: string, state: any) => unknown
): Program =>
  program(
    DgenServer.versions(Lines).to(schema, step),
    { Add: DgenServer.cast(text), Read },
    { Add: ({ text }, state) => DgenServer.noReply(addTo(text, state) as object), Read: keep },
    step(first)
  )

export const recipes: { readonly [name: string]: { readonly old: () => Program; readonly new: () => Program } } = {
  "an optional field of the state": {
    old: lines,
    new: () =>
      program(
        Schema.Struct({ ...Lines.fields, note: Schema.optional(String) }),
        { Add: DgenServer.cast(text), Read },
        {
          Add: ({ text }, state) => DgenServer.noReply({ ...state, lines: [...state.lines, text], note: text }),
          Read: keep
        },
        first
      )
  },
  "a field that is added": {
    old: lines,
    new: () =>
      shaped(
        Schema.Struct({ ...Lines.fields, currency: String }),
        (old) => ({ ...old, currency: "EUR" }),
        (text, state) => ({ ...state, lines: [...state.lines, text] })
      )
  },
  "a field that is removed": {
    old: lines,
    new: () =>
      shaped(
        Schema.Struct({ lines: Schema.Array(String) }),
        (old) => old,
        (text, state) => ({ lines: [...state.lines, text] })
      )
  },
  "a field that is renamed": {
    old: lines,
    new: () =>
      shaped(
        Schema.Struct({ name: String, items: Schema.Array(String) }),
        (old) => ({ ...old, items: old.lines }),
        (text, state) => ({ ...state, items: [...state.items, text] })
      )
  },
  "a field that is split": {
    old: lines,
    new: () =>
      shaped(
        Schema.Struct({ first: String, last: String, lines: Schema.Array(String) }),
        (old) => {
          const [first = "", ...rest] = old.name.split(" ")
          return { ...old, first, last: rest.join(" ") }
        },
        (text, state) => ({ ...state, lines: [...state.lines, text] })
      )
  },
  "a field of another type": {
    old: lines,
    new: () =>
      shaped(
        Schema.Struct({ name: String, lines: Schema.Record(String, Schema.Int) }),
        (old) => ({ ...old, lines: Object.fromEntries(old.lines.map((line) => [line, 1])) }),
        (text, state) => ({ ...state, lines: { ...state.lines, [text]: (state.lines[text] ?? 0) + 1 } })
      )
  },
  "a new kind of message": {
    old: lines,
    new: clearing
  },
  "a kind of message that goes": { old: clearing, new: lines },
  "a new field of a payload": {
    old: lines,
    new: () =>
      program(
        Lines,
        { Add: DgenServer.cast({ payload: { text: String, times: Schema.optional(Schema.Int) } }), Read },
        {
          Add: ({ text, times = 1 }, state) =>
            DgenServer.noReply({ ...state, lines: [...state.lines, ...Array.from({ length: times }, () => text)] }),
          Read: keep
        },
        first
      )
  },
  "a renamed field of a payload": {
    old: lines,
    // both are sent, both are read
    new: () =>
      program(
        Lines,
        { Add: DgenServer.cast({ payload: { text: String, line: Schema.optional(String) } }), Read },
        { Add: ({ line, text }, state) => add({ text: line ?? text }, state), Read: keep },
        first
      )
  },
  "more in an answer": {
    old: () =>
      program(
        Lines,
        { Add: DgenServer.cast(text), Read, Count: DgenServer.call({ success: Schema.Struct({ lines: Schema.Int }) }) },
        { Add: add, Read: keep, Count: (_, state) => DgenServer.reply({ lines: state.lines.length }, state) },
        first
      ),
    new: () =>
      program(
        Lines,
        {
          Add: DgenServer.cast(text),
          Read,
          Count: DgenServer.call({ success: Schema.Struct({ lines: Schema.Int, last: Schema.optional(String) }) })
        },
        {
          Add: add,
          Read: keep,
          Count: (_, state) => DgenServer.reply({ lines: state.lines.length, last: state.lines.at(-1) }, state)
        },
        first
      )
  },
  "a new durable action": {
    old: lines,
    new: telling
  },
  "a durable action that goes": { old: telling, new: lines }
}

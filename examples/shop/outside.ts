/**
 * The world outside of the shop, for an example: a bank and a post office that keep what they did as files in a folder. Both
 * are asked at least once, and sometimes twice, for the same thing; so both take a key, and do it once for each.
 */
import { Context, Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { Declined } from "./protocols.ts"

export class Bank extends Context.Service<Bank, {
  /** Takes money once for each key. Succeeds with a receipt. */
  readonly charge: (key: string, cents: number, card: string) => Effect.Effect<string, Declined>
}>()("examples/shop/Bank") {}

export class Post extends Context.Service<Post, {
  /** Sends a mail once for each key. */
  readonly send: (key: string, to: string, text: string) => Effect.Effect<void>
}>()("examples/shop/Post") {}

/** How long the bank thinks: long enough to be interrupted. */
const THINKING = "20 millis"

/** Keeps a text under a name, unless there is one already: another process may be at it at the same time. */
const keepOnce = (folder: string, name: string, text: string) =>
  Effect.sync(() => {
    fs.mkdirSync(folder, { recursive: true })
    const draft = path.join(folder, `.${name}.${process.pid}`)
    fs.writeFileSync(draft, text)
    try {
      fs.linkSync(draft, path.join(folder, name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
    fs.unlinkSync(draft)
  })

/** What is kept in a folder, by name. */
const kept = (folder: string): ReadonlyMap<string, string> =>
  new Map(
    fs.existsSync(folder)
      ? fs.readdirSync(folder).filter((name) => !name.startsWith("."))
        .map((name) => [name, fs.readFileSync(path.join(folder, name), "utf8")])
      : []
  )

export const bankIn = (folder: string) =>
  Layer.succeed(Bank, {
    charge: Effect.fnUntraced(function*(key, cents, card) {
      yield* Effect.sleep(THINKING)
      const isNew = !takenIn(folder).has(key)
      if (isNew && card === "stolen") return yield* new Declined({ reason: "the card is stolen" })
      yield* keepOnce(path.join(folder, "bank"), key, String(cents))
      return `receipt ${key} over ${cents} cents`
    })
  })

export const postIn = (folder: string) =>
  Layer.succeed(Post, { send: (key, to, text) => keepOnce(path.join(folder, "post"), key, `${to}: ${text}`) })

/** What the bank took, in cents by key, and the mails that were sent, by key. */
export const takenIn = (folder: string): ReadonlyMap<string, number> =>
  new Map([...kept(path.join(folder, "bank"))].map(([key, cents]) => [key, Number(cents)]))
export const mailsIn = (folder: string): ReadonlyMap<string, string> => kept(path.join(folder, "post"))

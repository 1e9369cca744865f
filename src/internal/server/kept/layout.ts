/**
 * Where a server lies in its tenant. The tuid is packed as one nested tuple, so that no server's prefix contains
 * another's (rule R6).
 *
 * ```
 * <library> "s" (<tuid>) "name"                              the definition's name
 *                        "head"                              version of the state, and the lock, see kept/head.ts
 *                        "state" ...                         the state, see StateCodec
 *                        "item" <versionstamp> <i> <n>       queued messages
 *                        "push" / "pop"                      counters of messages pushed and taken
 *                        "wait" <millis> <caller> <id>       calls that wait for an answer
 *                        "lock" <token> <i>                  the message of a lock, until it is handled or requeued
 *                        "dead" <versionstamp> <i> <n>       dead letters
 *                        "deads"                             the counter of them
 *                        "key" / "keyRest" / "keyEnd" / "keyOpen" / "keys"   keys of messages, see kept/keyed.ts
 *                        "timer" / "timerId" / "timers" / "wake"   timers, see timers/rows.ts
 * ```
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Tuple from "../../../Tuple.ts"
import * as Keys from "../../data/keys.ts"
import { hiderOf } from "../../data/redaction.ts"
import { show } from "../../data/show.ts"
import { printable } from "../../data/text.ts"
import { locate, type Located, type QueueKeys } from "../../queue/layout.ts"
import { libraryPrefix } from "../../tenant/layout.ts"
import * as Listed from "../../tenant/listed.ts"
import type { TransactionState } from "../../transactions/state.ts"
import { signalKey } from "../../transactions/watching.ts"
import * as Heads from "./head.ts"
import { giveWork, indexesOf, moveWake, Place, readWake } from "./indexes.ts"

/** What the keys of a server say of its definition. */
interface Owner {
  readonly name: string
  readonly hosted: boolean
}

/** A tuid for people to read; long ones are cut. */
export const textOfTuid = (tuid: Tuple.Tuple): string => printable(elementText(tuid), TUID_SHOWN_CHARS)

const TUID_SHOWN_CHARS = 500

const elementText = (element: Tuple.Element): string => {
  if (typeof element === "string") return JSON.stringify(element)
  if (Array.isArray(element)) return `[${element.map(elementText).join(",")}]`
  // one key with the number
  if (typeof element === "bigint") return `${element}`
  return element instanceof Uint8Array ? `0x${Buffer.from(element).toString("hex")}` : show(element)
}

/** A server by its definition and where it lies. */
export interface Addressed {
  readonly definition: { readonly name: string }
  readonly keys: { readonly tuid: Tuple.Tuple; readonly tuidText?: string }
}

/** How errors name a server. */
export const identityOf = ({ definition, keys }: Addressed) => ({
  server: definition.name,
  tuid: keys.tuidText ?? textOfTuid(keys.tuid)
})

/** Where the keys of a server's messages lie. */
interface KeyedKeys {
  readonly rows: Uint8Array
  readonly rests: Uint8Array
  readonly ends: Uint8Array
  readonly open: Uint8Array
  readonly count: Uint8Array
}

/** The keys of one server, each made when it is first asked for: very many servers use few of them. */
export class ServerKeys implements QueueKeys {
  readonly tuid: Tuple.Tuple
  readonly prefix: Uint8Array
  #name: Uint8Array | undefined
  #head: Uint8Array | undefined
  #state: Uint8Array | undefined
  #items: Uint8Array | undefined
  #push: Uint8Array | undefined
  #pop: Uint8Array | undefined
  #waiting: Uint8Array | undefined
  #lock: Uint8Array | undefined
  #dead: Uint8Array | undefined
  #deadCount: Uint8Array | undefined
  #timers: Uint8Array | undefined
  #timerIds: Uint8Array | undefined
  #timerCount: Uint8Array | undefined
  #wake: Uint8Array | undefined
  #keyed: KeyedKeys | undefined
  readonly #tenantPrefix: Uint8Array
  readonly #definition: Owner
  #place: Place | undefined
  #text: string | undefined
  #tuidText: string | undefined

  /** Throws a `TupleError` when the tuid has an element that a key cannot hold. */
  constructor(tenantPrefix: Uint8Array, tuid: Tuple.Tuple, definition: Owner) {
    this.#tenantPrefix = tenantPrefix
    this.tuid = tuid
    this.#definition = definition
    this.prefix = Tuple.pack(["s", tuid], libraryPrefix(tenantPrefix))
  }

  /** Whether any message makes and wakes the server. */
  get isHosted(): boolean {
    return this.#definition.hosted
  }

  get name(): Uint8Array {
    return this.#name ??= this.#at("name")
  }

  get head(): Uint8Array {
    return this.#head ??= this.#at("head")
  }

  get state(): Uint8Array {
    return this.#state ??= this.#at("state")
  }

  get items(): Uint8Array {
    return this.#items ??= this.#at("item")
  }

  get push(): Uint8Array {
    return this.#push ??= this.#at("push")
  }

  get pop(): Uint8Array {
    return this.#pop ??= this.#at("pop")
  }

  get waiting(): Uint8Array {
    return this.#waiting ??= this.#at("wait")
  }

  get lock(): Uint8Array {
    return this.#lock ??= this.#at("lock")
  }

  get dead(): Uint8Array {
    return this.#dead ??= this.#at("dead")
  }

  get deadCount(): Uint8Array {
    return this.#deadCount ??= this.#at("deads")
  }

  get timers(): Uint8Array {
    return this.#timers ??= this.#at("timer")
  }

  get timerIds(): Uint8Array {
    return this.#timerIds ??= this.#at("timerId")
  }

  get timerCount(): Uint8Array {
    return this.#timerCount ??= this.#at("timers")
  }

  get wake(): Uint8Array {
    return this.#wake ??= this.#at("wake")
  }

  /** Where the keys of messages lie; few servers have any. */
  get keyed(): KeyedKeys {
    return this.#keyed ??= {
      rows: this.#at("key"),
      rests: this.#at("keyRest"),
      ends: this.#at("keyEnd"),
      open: this.#at("keyOpen"),
      count: this.#at("keys")
    }
  }

  #at(name: string): Uint8Array {
    return Tuple.pack([name], this.prefix)
  }

  /** Where the server stands in the indexes of its definition. */
  get place(): Place {
    const { name } = this.#definition
    return this.#place ??= new Place(indexesOf(this.#tenantPrefix, name), name, this.tuid)
  }

  /** Wakes who runs the server: it has something to do. */
  ring(state: TransactionState): void {
    Listed.begin(state)
    signalKey(state.target, state, this.push)
    if (this.#definition.hosted) giveWork(state, this.place)
  }

  /** Where the server lies in its store, as a text. */
  get text(): string {
    return this.#text ??= Keys.toText(this.prefix)
  }

  /** The tuid for people to read. */
  get tuidText(): string {
    return this.#tuidText ??= textOfTuid(this.tuid)
  }

  /** Takes the wake-up of a hosted server away. */
  forgetWake(state: TransactionState): Effect.Effect<void> {
    return Effect.map(state.get(this.wake), (bytes) => moveWake(state, this, readWake(bytes), undefined))
  }

  waitingKey(millis: number, caller: Uint8Array, id: number): Uint8Array {
    return Tuple.pack([millis, caller, id], this.waiting)
  }

  /** The messages that are under a lock, or were when it was broken. */
  countBeside(state: TransactionState): Effect.Effect<number> {
    return Effect.map(
      state.get(this.head, true),
      (bytes) =>
        bytes === undefined ? 0 : Result.match(Heads.decode(bytes), { onFailure: () => 0, onSuccess: Heads.kept })
    )
  }

  /** Where the message of a lock lies. */
  lockMessage(token: Uint8Array): Uint8Array {
    return Tuple.pack([token], this.lock)
  }
}

/** The longest packed tuid: it leaves room in a key for the names of a state's entries. */
const TUID_LIMIT_BYTES = 9_000

/** The same for a hosted server: it stands in keys of its definition, too. */
const HOSTED_TUID_LIMIT_BYTES = 2_000

/** What is wrong with a tuid, if it is none. */
export const problemOfTuid = (tuid: unknown, hosted = false): string | undefined => {
  if (!Array.isArray(tuid) || tuid.length === 0) {
    return "a tuid is an array of one or more tuple elements, such as [\"cart\", 7]"
  }
  const packed = Tuple.packResult(tuid)
  if (Result.isFailure(packed)) return packed.failure.message
  const bytes = packed.success.length
  const limit = hosted ? HOSTED_TUID_LIMIT_BYTES : TUID_LIMIT_BYTES
  return bytes > limit ? `it has ${bytes} bytes, and at most ${limit} fit` : undefined
}

/** What a definition says of the payloads of its messages. */
interface Shows {
  readonly messages: ReadonlyMap<string, { readonly payload: Schema.Codec<any, any, never, never> | undefined }>
}

/** The payload of a message as it may be shown; of one that the definition does not know, nothing may if it hides any. */
export const shownPayload = ({ messages }: Shows, tag: string | undefined, payload: unknown): unknown => {
  const message = messages.get(tag ?? "")
  if (message !== undefined) {
    const hide = message.payload && hiderOf(message.payload)
    return hide === undefined ? payload : hide(payload)
  }
  const hidesSome = Array.from(messages.values()).some((known) => known.payload && hiderOf(known.payload))
  return hidesSome && payload !== undefined ? Redacted.make(payload) : payload
}

/** The queue of a server, wherever its tenant lies; throws where its tuid is none. */
export const queueOf = (definition: Owner & Shows, tuid: Tuple.Tuple): Located =>
  locate((tenantPrefix) => {
    const problem = problemOfTuid(tuid, definition.hosted)
    if (problem !== undefined) throw new TypeError(`the tuid cannot be used: ${problem}`)
    return new ServerKeys(tenantPrefix, tuid, definition)
  }, (tag, payload) => shownPayload(definition, tag, payload))

/** What strangers do with a WebSocket: nothing of it is handled, nothing goes on waiting, and the others are answered. */
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as crypto from "node:crypto"
import * as net from "node:net"
import { Desk, Lines, served, untilWaiting, Url, waiting } from "./support.ts"

const bearer = [["authorization", "Bearer token-of-ada"]]

const request = (id: string, tag: string, payload: object, headers: unknown = bearer) =>
  JSON.stringify({ _tag: "Request", id, tag, payload, headers })

/** A frame as a client masks it. */
const frame = (data: Buffer, opcode: number): Buffer => {
  const head = data.length < 126
    ? Buffer.from([0x80 | opcode, 0x80 | data.length])
    : Buffer.from([0x80 | opcode, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 0])
  if (data.length >= 126) head.writeUInt32BE(data.length, 6)
  const mask = crypto.randomBytes(4)
  return Buffer.concat([head, mask, data.map((byte, at) => byte ^ mask[at % 4]!)])
}

const text = (data: string) => frame(Buffer.from(data), 1)

interface Opened {
  readonly socket: net.Socket
  readonly said: () => string
}

/** A socket that has become a WebSocket. With `reads: false` it takes nothing that comes after. */
const open = (reads = true) =>
  Effect.acquireRelease(
    Effect.flatMap(Url, (url) =>
      Effect.callback<Opened>((resume) => {
        const { hostname, port } = new URL(url)
        const socket = net.connect(Number(port), hostname, () =>
          socket.write(
            "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
              "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
          ))
        let said = ""
        socket.on("error", () => {})
        socket.on("data", (chunk) => {
          said += chunk.toString("latin1")
          if (!said.includes("\r\n\r\n")) return
          if (!reads) socket.pause()
          resume(Effect.succeed({ socket, said: () => said }))
        })
      })),
    ({ socket }) => Effect.sync(() => socket.destroy())
  )

/** Waits until what was said has a text, or the socket has closed. */
const until = ({ said, socket }: Opened, wanted: string) =>
  Effect.repeat(Effect.delay(Effect.sync(() => said().includes(wanted) || socket.closed), 5), { until: (is) => is })

/** Somebody else, who asks for something and gets it. */
const isServed = Effect.scoped(Effect.gen(function*() {
  const other = yield* open()
  other.socket.write(text(`${request("1", "Desk.Say", { tuid: "other", payload: "it lives" })}\n`))
  yield* Effect.timeout(until(other, "it lives"), "5 seconds")
  assert.include(other.said(), "\"Success\"")
}))

const GARBAGE: ReadonlyArray<readonly [string, Buffer]> = [
  ["nothing", text("")],
  ["no JSON", text("{\n")],
  ["null", text("null\n")],
  ["an array", text("[]\n")],
  ["a number", text("1\n")],
  ["an object", text("{}\n")],
  ["half a pair", text("\"\\ud800\"\n")],
  ["bytes", frame(crypto.randomBytes(1_000), 2)],
  ["bytes that are no text", frame(Buffer.from([0xff, 0xfe, 0xfd, 0x0a]), 1)],
  ["a frame of no kind", frame(Buffer.from("x"), 7)],
  ["a frame without a mask", Buffer.from([0x81, 0x01, 0x78])],
  ["a close that is none", frame(Buffer.from([1]), 8)],
  ["a stack of arrays", text(`${"[".repeat(100_000)}\n`)],
  [
    "an id that is none",
    text(`${JSON.stringify({ _tag: "Request", id: {}, tag: "Desk.Notes", payload: {}, headers: [] })}\n`)
  ],
  ["a tag of an object's own", text(`${request("1", "__proto__", {})}\n`)],
  ["a message that is not shown", text(`${request("1", "Desk.Secret", { tuid: "a" })}\n`)],
  ["headers that are none", text(`${request("1", "Desk.Notes", { tuid: "a" }, null)}\n`)],
  ["headers of no texts", text(`${request("1", "Desk.Notes", { tuid: "a" }, [["authorization", {}], [], 7])}\n`)],
  [
    "a payload with __proto__",
    text(
      `${
        request("1", "Desk.Put", {}).replace("{}", "{\"__proto__\":{\"tuid\":\"ws\",\"payload\":{\"note\":\"a\"}}}")
      }\n`
    )
  ],
  ["an interrupt of nobody", text("{\"_tag\":\"Interrupt\",\"requestId\":\"9\",\"interruptors\":[]}\n")],
  ["an end", text("{\"_tag\":\"Eof\"}\n")]
]

layer(served(), { excludeTestServices: true, timeout: 60_000 })("a WebSocket", (it) => {
  describe("on which comes what is no request", () => {
    for (const [name, bytes] of GARBAGE) {
      it.effect(`${name}: the others are answered`, () =>
        Effect.gen(function*() {
          const stranger = yield* open()
          stranger.socket.write(bytes)
          yield* isServed
          stranger.socket.write(bytes)
          yield* isServed
          assert.notInclude(stranger.said(), "secret")
          assert.notInclude(stranger.said(), "node_modules")
          assert.notInclude(stranger.said(), "/src/")
        }).pipe(Effect.scoped))
    }
    it.effect("nothing was handled", () =>
      Effect.gen(function*() {
        const desk = yield* Desk.client({ tuid: ["desk", "ws"] })
        assert.isUndefined(yield* desk.state)
        assert.isUndefined(({} as Record<string, unknown>)["tuid"])
      }))
  })

  describe("that is never read", () => {
    it.effect("holds up nobody else, and leaves nothing when it goes", () =>
      Effect.gen(function*() {
        const tuid = ["desk", "deaf"]
        const long = "x".repeat(100_000)
        const deaf = yield* Effect.forkChild(Effect.scoped(Effect.gen(function*() {
          const { socket } = yield* open(false)
          // more answers than any buffer between the two takes
          for (let n = 0; n < 100; n++) {
            socket.write(text(`${request(`${n}`, "Desk.Say", { tuid: "deaf", payload: long })}\n`))
          }
          for (let n = 0; n < 5; n++) socket.write(text(`${request(`w${n}`, "Desk.Wait", { tuid: "deaf" })}\n`))
          return yield* Effect.never
        })))
        yield* untilWaiting(tuid, 5)
        yield* isServed
        yield* Fiber.interrupt(deaf)
        yield* untilWaiting(tuid, 0)
        assert.deepStrictEqual(yield* waiting(tuid), { calls: 0, rows: 0 })
      }))
  })

  describe("that closes in the middle of a frame", () => {
    it.effect("has sent nothing", () =>
      Effect.gen(function*() {
        const whole = text(`${request("1", "Desk.Put", { tuid: "cut", payload: { note: "a" } })}\n`)
        yield* Effect.scoped(Effect.flatMap(open(), ({ socket }) =>
          Effect.callback<void>((resume) =>
            void socket.write(whole.subarray(0, whole.length - 5), () =>
              resume(Effect.void))
          )))
        yield* isServed
        const desk = yield* Desk.client({ tuid: ["desk", "cut"] })
        assert.isUndefined(yield* desk.state)
      }))
  })

  it.effect("has seen nothing of the inside", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* Lines).filter((line) => line.includes("went wrong")), [])
    }))
})

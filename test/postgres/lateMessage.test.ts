/** A commit's message that arrives after its connection was given up, and after its transaction was run again. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { PostgresBackend, Tenant, Transaction } from "effect-dgen"
import * as net from "node:net"
import { freshSchema, server } from "./support.ts"

/** A way to the server that holds back the next commit: its client sees the connection end, the server nothing of it yet. */
const startProxy = () =>
  new Promise<
    { readonly port: number; readonly holdNext: () => void; readonly deliver: () => Promise<void>; stop(): void }
  >(
    (resolve) => {
      let isHolding = false
      let deliver: () => Promise<void> = () => Promise.resolve()
      const sockets = new Set<net.Socket>()
      const proxy = net.createServer((client) => {
        const toServer = net.connect(server.port, "127.0.0.1")
        for (const socket of [client, toServer]) {
          sockets.add(socket)
          socket.on("error", () => {})
        }
        let isCut = false
        client.on("data", (chunk) => {
          if (!isHolding || !chunk.includes(".commit(")) return void toServer.write(chunk)
          isHolding = false
          isCut = true
          deliver = () =>
            new Promise((delivered) => {
              toServer.once("data", () => delivered())
              toServer.write(chunk)
            })
          client.destroy()
        })
        client.on("close", () => {
          if (!isCut) toServer.destroy()
        })
        toServer.on("data", (chunk) => {
          if (!isCut) client.write(chunk)
        })
        toServer.on("close", () => client.destroy())
      })
      proxy.listen(0, "127.0.0.1", () =>
        resolve({
          port: (proxy.address() as net.AddressInfo).port,
          holdNext: () => {
            isHolding = true
          },
          deliver: () => deliver(),
          stop: () => {
            for (const socket of sockets) socket.destroy()
            proxy.close()
          }
        }))
    }
  )

describe("a commit whose message comes late", () => {
  for (const reads of [false, true]) {
    it.live(`is not applied a second time by a transaction that ${reads ? "reads" : "reads nothing"}`, () =>
      Effect.gen(function*() {
        const proxy = yield* Effect.acquireRelease(Effect.promise(startProxy), ({ stop }) => Effect.sync(stop))
        const schema = freshSchema()
        const url = server.url.replace(String(server.port), String(proxy.port))
        const read = Tenant.transact(Transaction.get(["n"]))
        const add = Tenant.transact(
          reads ? Effect.andThen(Transaction.get(["other"]), Transaction.add(["n"], 1)) : Transaction.add(["n"], 1)
        )
        yield* Effect.gen(function*() {
          yield* add
          proxy.holdNext()
          yield* add
          yield* Effect.promise(proxy.deliver)
          const value = yield* read
          assert.strictEqual(new DataView(value!.buffer, value!.byteOffset).getUint8(0), 2)
        }).pipe(Effect.provide(Layer.provide(Tenant.layer(["late"]), PostgresBackend.layer({ url, schema }))))
      }).pipe(Effect.scoped))
  }
})

/** A way to a server that can lead elsewhere, as a name does that follows the primary. */
import * as net from "node:net"

export interface Proxy {
  readonly port: number
  /** From now on it leads to another port, and who is connected is cut off. */
  readonly lead: (port: number) => void
  readonly stop: () => void
}

export const startProxy = (to: number): Promise<Proxy> =>
  new Promise((resolve) => {
    let target = to
    const sockets = new Set<net.Socket>()
    const cut = () => {
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    }
    const proxy = net.createServer((client) => {
      const server = net.connect(target, "127.0.0.1")
      for (const [from, other] of [[client, server], [server, client]] as const) {
        sockets.add(from)
        from.on("error", () => {})
        from.on("close", () => other.destroy())
        from.pipe(other)
      }
    })
    proxy.listen(0, "127.0.0.1", () =>
      resolve({
        port: (proxy.address() as net.AddressInfo).port,
        lead: (port) => {
          target = port
          cut()
        },
        stop: () => {
          cut()
          proxy.close()
        }
      }))
  })

/** What is open in a process: fibers, watches of the store, listeners for signals. And the memory that it holds. */
import { Effect, Metric } from "effect"
import type { Backend } from "effect-dgen"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import type { WatchRequest } from "../../src/Backend.ts"
import { Signals } from "../../src/internal/stores/signals.ts"

/** What is open now. */
export interface Open {
  fibers: number
  watches: number
  listeners: number
}

class CountedSignals extends Signals {
  readonly #open: Open

  constructor(open: Open) {
    super()
    this.#open = open
  }

  override listen(key: string, listener: () => void): () => void {
    const stop = super.listen(key, listener)
    let isOpen = true
    this.#open.listeners++
    return () => {
      if (isOpen) this.#open.listeners--
      isOpen = false
      stop()
    }
  }
}

/** A watch that counts until it has fired, failed or been cancelled. */
const counted = (open: Open, watch: WatchRequest): WatchRequest => {
  let isOpen = true
  open.watches++
  const close = () => {
    if (isOpen) open.watches--
    isOpen = false
  }
  const inner: WatchRequest = {
    key: watch.key,
    fire: () => {
      close()
      watch.fire()
    },
    fail: (error) => {
      close()
      watch.fail(error)
    },
    onCancel: undefined
  }
  watch.onCancel = () => {
    close()
    inner.onCancel?.()
  }
  return inner
}

/** Counts the watches and listeners of a backend. */
export const countedBackend = (open: Open, backend: Backend.Backend["Service"]): Backend.Backend["Service"] => ({
  ...backend,
  signals: new CountedSignals(open),
  begin: Effect.map(backend.begin, (driver): Backend.DriverTransaction => ({
    readVersion: driver.readVersion,
    get: (key) => driver.get(key),
    getRange: (begin, end, options) => driver.getRange(begin, end, options),
    commit: (request, accepted) =>
      driver.commit(
        request.watches.length === 0
          ? request
          : { ...request, watches: request.watches.map((watch) => counted(open, watch)) },
        accepted
      ),
    close: () => driver.close()
  }))
})

/** Counts the fibers that run in it, and begin while it does. */
export const countingFibers = (open: Open) =>
  Effect.provideService(Metric.FiberRuntimeMetrics, {
    recordFiberStart: () => void open.fibers++,
    recordFiberEnd: () => void open.fibers--
  })

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void

/** The bytes that are held when all that can be is given back. */
export const heldBytes: Effect.Effect<number> = Effect.promise(async () => {
  for (let i = 0; i < 3; i++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return process.memoryUsage().heapUsed
})

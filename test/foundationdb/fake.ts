/**
 * The npm package `foundationdb` as far as the driver uses it, on a store in memory. It answers with FoundationDB's
 * error codes, asynchronously, and a test can stand between an operation and its answer.
 */
import { Effect } from "effect"
import type { Backend, BackendError } from "effect-dgen"
import * as Keys from "../../src/internal/data/keys.ts"
import type { FdbPackage, FdbTransaction, FdbWatch } from "../../src/internal/foundationdb/package.ts"
import * as Directory from "../../src/internal/stores/directory.ts"
import { makeStore } from "../../src/internal/stores/memory.ts"

export const fdbError = (code: number, message = "an error of the cluster") =>
  Object.assign(new Error(message), { code })

const codes: Partial<Record<BackendError.Reason["_tag"], number>> = {
  Conflict: 1020,
  TransactionTooOld: 1007,
  Closed: 1025
}

const ofStore = <A>(effect: Effect.Effect<A, BackendError.BackendError>): Promise<A> =>
  Effect.runPromise(
    Effect.mapError(effect, (error) => fdbError(codes[error.reason._tag] ?? 4100, error.reason.message))
  )

export interface Fake {
  readonly fdb: FdbPackage
  /** The names of the calls of all transactions, in order. */
  readonly calls: Array<string>
  /** Stands between a commit and its answer. */
  onCommit: (commit: () => Promise<void>) => Promise<void>
  /** Stands between a read and its answer. */
  onRead: <A>(read: () => Promise<A>) => Promise<A>
  /** How many rows a part of a range has. */
  partRows: number
  closed: number
}

/** A cluster of its own. */
export const makeFake = (): Fake => {
  const store = makeStore()
  const { begin } = store.open()
  const directories = Directory.make(begin)

  const transaction = (): FdbTransaction => {
    const driver = Effect.runSync(begin)
    const mutations: Array<Backend.Mutation> = []
    const reads: Array<Backend.KeyRange> = []
    const watches: Array<Backend.WatchRequest> = []
    let cancel: () => void = () => {}
    const cancelled = new Promise<never>((_, reject) => {
      cancel = () => reject(fdbError(1025))
    })
    cancelled.catch(() => {})
    let stamp: (bytes: Uint8Array) => void = () => {}
    let noStamp: (cause: unknown) => void = () => {}
    const read = <A>(name: string, effect: Effect.Effect<A, BackendError.BackendError>) => {
      fake.calls.push(name)
      return Promise.race([cancelled, fake.onRead(() => ofStore(effect))])
    }
    const position = (bytes: Uint8Array) =>
      new DataView(bytes.buffer, bytes.byteOffset).getUint32(bytes.length - 4, true)
    const write = (mutation: Backend.Mutation) => {
      fake.calls.push(mutation.op)
      mutations.push(mutation)
    }
    const conflictOf = (mutation: Backend.Mutation): ReadonlyArray<Backend.KeyRange> =>
      mutation.op === "clearRange"
        ? [{ begin: mutation.begin, end: mutation.end }]
        : mutation.op === "versionstampedKey"
        ? []
        : [Keys.single(mutation.key)]
    const commit = () =>
      ofStore(driver.commit(
        { mutations, readConflicts: reads, writeConflicts: mutations.flatMap(conflictOf), watches },
        () => {}
      )).then(stamp)
    const self: FdbTransaction = {
      // its own reads would be conflicts: the driver must not use them
      get: () => Promise.reject(fdbError(4100, "a read that is no snapshot read")),
      getRangeNative: () => Promise.reject(fdbError(4100, "a read that is no snapshot read")),
      snapshot: () => ({
        ...self,
        get: (key) => read("get", driver.get(key)).then((value) => value && Buffer.from(value)),
        getRangeNative: (from, to, limit, _bytes, _mode, _part, reverse) => {
          const wanted = Math.min(fake.partRows, limit === 0 ? Infinity : limit)
          return read("getRange", driver.getRange(from.key, to.key, { limit: wanted, reverse })).then((rows) => ({
            results: rows.map((row) => [Buffer.from(row.key), Buffer.from(row.value)] as const),
            more: rows.length === wanted
          }))
        }
      }),
      getReadVersion: () =>
        read("getReadVersion", driver.readVersion).then((version) => {
          const bytes = Buffer.alloc(8)
          bytes.writeBigUInt64BE(version)
          return bytes
        }),
      getVersionstamp: () => {
        const promise = new Promise<Uint8Array>((resolve, reject) => {
          stamp = resolve
          noStamp = reject
        })
        promise.catch(() => {})
        return { promise }
      },
      set: (key, value) => write({ op: "set", key, value }),
      clear: (key) => write({ op: "clear", key }),
      clearRange: (from, to) => write({ op: "clearRange", begin: from, end: to }),
      atomicOpNative: (type, key, operand) => {
        if (type === 1) write({ op: "add", key, operand })
        else if (type === 2) {
          write({ op: "versionstampedKey", key: key.slice(0, -4), position: position(key), value: operand })
        } else {
          write({ op: "versionstampedValue", key, value: operand.slice(0, -4), position: position(operand) })
        }
      },
      addReadConflictRange: (from, to) => {
        fake.calls.push("readConflict")
        // the client would forget those that lie under what was written before
        if (mutations.length === 0) reads.push({ begin: from, end: to })
      },
      watch: (key): FdbWatch => {
        fake.calls.push("watch")
        const request: Backend.WatchRequest = { key, fire: () => {}, fail: () => {}, onCancel: undefined }
        let end: () => void = () => {}
        const promise = new Promise<boolean>((resolve, reject) => {
          end = () => reject(fdbError(1101))
          watches.push(Object.assign(request, {
            fire: () => resolve(true),
            fail: (error: BackendError.BackendError) => reject(fdbError(codes[error.reason._tag] ?? 4100))
          }))
          cancelled.catch(reject)
        })
        promise.catch(() => {})
        return {
          promise,
          cancel: () => {
            fake.calls.push("cancelWatch")
            request.onCancel?.()
            end()
          }
        }
      },
      rawCommit: () => {
        fake.calls.push("commit")
        return fake.onCommit(commit).catch((cause) => {
          noStamp(fdbError(2020, "Transaction does not have a valid commit version"))
          throw cause
        })
      },
      rawCancel: () => {
        fake.calls.push("cancel")
        cancel()
        driver.close()
      }
    }
    return self
  }

  const fake: Fake = {
    calls: [],
    onCommit: (commit) => commit(),
    onRead: (read) => read(),
    partRows: 3,
    closed: 0,
    fdb: {
      setAPIVersion: () => {},
      open: () => ({ rawCreateTransaction: transaction, close: () => void fake.closed++ }),
      directory: {
        createOrOpen: (_, path) =>
          ofStore(directories.open(path)).then((prefix) => ({ getSubspace: () => ({ prefix }) })),
        removeIfExists: (_, path) => ofStore(directories.remove(path)),
        exists: (_, path) => ofStore(directories.exists!(path)),
        listAll: (_, path) => ofStore(directories.list!(path)).then((names) => names.map((name) => Buffer.from(name)))
      },
      keySelector: {
        firstGreaterOrEqual: (key) => ({ key, orEqual: false, offset: 1, _isKeySelector: true })
      },
      MutationType: { Add: 1, SetVersionstampedKey: 2, SetVersionstampedValue: 3 },
      StreamingMode: { WantAll: 0 }
    }
  }
  return fake
}

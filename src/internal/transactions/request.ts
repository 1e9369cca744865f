/**
 * What a try asks its driver to commit. Owner: the try; the driver reads it, once.
 */
import type { CommitRequest, KeyRange, Mutation, WatchRequest } from "../../Backend.ts"
import * as Keys from "../data/keys.ts"

/** What a try asks its driver to commit; not every driver has to be told the write conflicts. */
export class TryRequest implements CommitRequest {
  readonly mutations: ReadonlyArray<Mutation>
  readonly readConflicts: ReadonlyArray<KeyRange>
  readonly watches: ReadonlyArray<WatchRequest>

  constructor(
    mutations: ReadonlyArray<Mutation>,
    readConflicts: ReadonlyArray<KeyRange>,
    watches: ReadonlyArray<WatchRequest>
  ) {
    this.mutations = mutations
    this.readConflicts = readConflicts
    this.watches = watches
  }

  get writeConflicts(): ReadonlyArray<KeyRange> {
    return this.mutations.flatMap(writeConflict)
  }
}

/** What a mutation writes; of a versionstamped key only the driver knows it. */
const writeConflict = (mutation: Mutation): ReadonlyArray<KeyRange> => {
  if (mutation.op === "clearRange") return [{ begin: mutation.begin, end: mutation.end }]
  return mutation.op === "versionstampedKey" ? [] : [Keys.single(mutation.key)]
}

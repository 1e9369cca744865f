/**
 * What a transaction of the user's own holds of this store until it commits: a row of what it relies on and writes.
 *
 * 1. A transaction has one row a lane, that each call writes anew, so a savepoint that is rolled back takes what came after
 *    it along. What the calls rely on stays apart, each with the version of its own snapshot; what they write is one.
 * 2. The row is committed by a deferred trigger, within the user's COMMIT: only there the lanes' locks are taken, all of
 *    them in their order, before the first is committed. The trigger is deferred whatever the user's constraints are, and
 *    who makes them immediate afterwards has made the store's part final: no call comes after it.
 * 3. A conflict is a serialization failure, so is a snapshot that is too old: the user's transaction is to be run again.
 * 4. The trigger tells of the commit within it, since nobody else would know of it.
 * 5. A row is no one else's to see: it comes and goes within one transaction.
 */
import * as Keys from "../data/keys.ts"
import type { Lane } from "./lanes.ts"
import { lockOf } from "./lanes.ts"
import { CHANNEL_PREFIX, CHANNELS } from "./listening.ts"
import * as Literals from "./literals.ts"
import { type Asked, requestArguments } from "./steps.ts"

/** What a row has of its requests, as the function `commit` takes it. */
const COLUMNS = [
  ["versions", "bigint[]"],
  ["read_of", "int[]"],
  ["reads", "bytea[]"],
  ["range_of", "int[]"],
  ["begins", "bytea[]"],
  ["ends", "bytea[]"],
  ["clear_of", "int[]"],
  ["clear_begins", "bytea[]"],
  ["clear_ends", "bytea[]"],
  ["write_of", "int[]"],
  ["write_keys", "bytea[]"],
  ["write_values", "bytea[]"],
  ["add_of", "int[]"],
  ["add_keys", "bytea[]"],
  ["operands", "bytea[]"],
  ["stamp_of", "int[]"],
  ["stamp_keys", "bytea[]"],
  ["stamp_values", "bytea[]"],
  ["key_places", "int[]"],
  ["value_places", "int[]"]
] as const

const names = COLUMNS.map(([name]) => name)

const table = (s: string): string =>
  `CREATE TABLE IF NOT EXISTS ${s}.held (xact xid8 NOT NULL, lane bytea NOT NULL, lock bigint NOT NULL, ` +
  `stamps int NOT NULL, ${
    COLUMNS.map(([name, type]) => `${name} ${type} NOT NULL`).join(", ")
  }, PRIMARY KEY (xact, lane))`

/** Of a transaction: how it runs, which it is, and what it holds. */
const joined = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.joined() RETURNS text LANGUAGE plpgsql VOLATILE SET bytea_output = 'hex' AS $$
BEGIN
  RETURN jsonb_build_object(
    'isolation', current_setting('transaction_isolation'),
    'readOnly', current_setting('transaction_read_only') = 'on',
    'store', (SELECT store FROM ${s}.meta),
    'backend', pg_backend_pid(),
    'begun', extract(epoch FROM transaction_timestamp())::text,
    'isSettled', COALESCE(current_setting('effect_dgen.settled', true) = pg_current_xact_id_if_assigned()::text, false),
    'held', COALESCE((SELECT jsonb_agg(to_jsonb(h) || jsonb_build_object('versions', h.versions::text[]))
      FROM ${s}.held h WHERE h.xact = pg_current_xact_id_if_assigned()), '[]'))::text;
END $$`

/** Holds what a transaction's calls ask for so far, in the place of what they asked for before. */
const hold = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.hold(a_backend int, a_begun text, a_before int, a_lock bigint, a_lane bytea, a_stamps int,
  ${COLUMNS.map(([name, type]) => `a_${name} ${type}`).join(", ")}) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  before int;
BEGIN
  IF pg_backend_pid() <> a_backend OR extract(epoch FROM transaction_timestamp())::text <> a_begun THEN
    RAISE EXCEPTION 'effect-dgen: no transaction is open on this client, or another one than before' USING ERRCODE = '25P01';
  END IF;
  DELETE FROM ${s}.held h WHERE h.xact = pg_current_xact_id() AND h.lane = a_lane RETURNING cardinality(h.versions) INTO before;
  IF COALESCE(before, 0) <> a_before THEN
    RAISE EXCEPTION 'effect-dgen: one transaction has had two calls at a time' USING ERRCODE = '55000';
  END IF;
  SET CONSTRAINTS ${s}.commit_held DEFERRED;
  INSERT INTO ${s}.held (xact, lane, lock, stamps, ${names.join(", ")})
    VALUES (pg_current_xact_id(), a_lane, a_lock, a_stamps, ${names.map((name) => `a_${name}`).join(", ")});
  RETURN '';
END $$`

const commitHeld = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.commit_held() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  h ${s}.held;
  l bigint;
  answer bigint[];
BEGIN
  FOR l IN SELECT r.lock FROM ${s}.held r WHERE r.xact = pg_current_xact_id() ORDER BY r.lock LOOP
    PERFORM pg_advisory_xact_lock(l);
  END LOOP;
  FOR h IN SELECT * FROM ${s}.held r WHERE r.xact = pg_current_xact_id() ORDER BY r.lock LOOP
    answer := ${s}.commit(ARRAY[h.lock], ARRAY[h.lane], 0, NULL, ${names.map((name) => `h.${name}`).join(", ")});
    IF 0 <> ANY (answer[2:]) THEN
      RAISE EXCEPTION 'effect-dgen: another commit wrote what this transaction read, or may have: run it again'
        USING ERRCODE = '40001';
    END IF;
    PERFORM pg_notify('${CHANNEL_PREFIX}' || ((h.lock % ${CHANNELS} + ${CHANNELS}) % ${CHANNELS}), h.lock || ' 0');
  END LOOP;
  DELETE FROM ${s}.held r WHERE r.xact = pg_current_xact_id();
  PERFORM set_config('effect_dgen.settled', pg_current_xact_id()::text, true);
  RETURN NULL;
END $$`

/** The statements that make it. */
export const heldStatements = (s: string): ReadonlyArray<string> => [
  table(s),
  joined(s),
  hold(s),
  commitHeld(s),
  `DROP TRIGGER IF EXISTS commit_held ON ${s}.held`,
  `CREATE CONSTRAINT TRIGGER commit_held AFTER INSERT ON ${s}.held DEFERRABLE INITIALLY DEFERRED ` +
  `FOR EACH ROW EXECUTE FUNCTION ${s}.commit_held()`
]

/** What the calls of a transaction have asked for so far. */
export interface Held {
  /** What they rely on, each with the version of its snapshot; they write nothing. */
  readonly reads: ReadonlyArray<Asked>
  readonly clears: ReadonlyArray<{ readonly begin: Uint8Array; readonly end: Uint8Array }>
  /** Without a value: cleared. */
  readonly writes: ReadonlyArray<{ readonly key: Uint8Array; readonly value: Uint8Array | undefined }>
  readonly adds: ReadonlyArray<{ readonly key: Uint8Array; readonly operand: Uint8Array }>
  /** Where the place in the key is below 0, there is one in the value. */
  readonly stamped: ReadonlyArray<
    { readonly key: Uint8Array; readonly value: Uint8Array; readonly keyPlace: number; readonly valuePlace: number }
  >
  /** So many numbers beside versionstamps are given away. */
  readonly stamps: number
}

/** A transaction that is open on a user's client. */
export interface Joined {
  readonly isolation: string
  readonly readOnly: boolean
  readonly store: string
  readonly backend: number
  readonly begun: string
  readonly isSettled: boolean
  readonly held: ReadonlyArray<Row>
}

type Row =
  & { readonly lane: string; readonly stamps: number; readonly versions: ReadonlyArray<string | null> }
  & {
    readonly [Name in Exclude<typeof names[number], "versions">]: ReadonlyArray<any>
  }

const NOTHING: Held = { reads: [], clears: [], writes: [], adds: [], stamped: [], stamps: 0 }

const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex.slice(2), "hex"))

/** What asks of a transaction. */
export const joinedText = (schema: string): string => `SELECT ${schema}.joined()`

/** Its answer. */
export const readJoined = (answer: string): Joined => JSON.parse(answer)

/** What a transaction holds of a lane. */
export const heldOf = ({ held }: Joined, lane: Lane): Held => {
  const row = held.find((one) => Keys.toText(bytesOf(one.lane)) === lane)
  if (row === undefined) return NOTHING
  const reads = row.versions.map((version, at): Asked => {
    const mine = <A>(of: ReadonlyArray<number>, values: ReadonlyArray<A>) => values.filter((_, i) => of[i] === at + 1)
    const ends = mine(row.range_of, row.ends)
    return {
      effects: {
        clears: [],
        points: new Map(),
        stamped: [],
        readKeys: mine(row.read_of, row.reads).map((key) => Keys.toText(bytesOf(key))),
        readRanges: mine(row.range_of, row.begins).map((begin, i) => ({
          begin: bytesOf(begin),
          end: bytesOf(ends[i])
        })),
        lanes: [lane],
        size: 0
      },
      readVersion: version === null ? undefined : BigInt(version)
    }
  })
  return {
    reads,
    clears: row.clear_begins.map((begin, i) => ({ begin: bytesOf(begin), end: bytesOf(row.clear_ends[i]) })),
    writes: row.write_keys.map((key, i) => ({
      key: bytesOf(key),
      value: row.write_values[i] === null ? undefined : bytesOf(row.write_values[i])
    })),
    adds: row.add_keys.map((key, i) => ({ key: bytesOf(key), operand: bytesOf(row.operands[i]) })),
    stamped: row.stamp_keys.map((key, i) => ({
      key: bytesOf(key),
      value: bytesOf(row.stamp_values[i]),
      keyPlace: row.key_places[i],
      valuePlace: row.value_places[i]
    })),
    stamps: row.stamps
  }
}

/** What holds the requests of a transaction so far, the last of which has all the writes. */
export const holdText = (
  { schema, store }: { readonly schema: string; readonly store: string },
  { backend, begun }: Joined,
  lane: Lane,
  stamps: number,
  requests: ReadonlyArray<Asked>
): string => {
  const args = [
    backend,
    Literals.text(begun),
    requests.length - 1,
    `${lockOf(store, lane)}::bigint`,
    Literals.bytea(Keys.fromText(lane)),
    stamps,
    ...requestArguments(requests)
  ]
  return `SELECT ${schema}.hold(${args.join(",")})`
}

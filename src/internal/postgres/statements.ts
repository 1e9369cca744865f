/**
 * What the store is made of in PostgreSQL: its tables and its functions, of one format. All of it can be run again, on a store
 * of an earlier format, too.
 *
 * 1. A commit holds its lanes' locks from its first statement to its end. PostgreSQL shows a transaction to others before
 *    it releases its locks, and each statement of a volatile function under READ COMMITTED has a snapshot of its own: so
 *    what follows the lock sees every commit of the lane before it, and versions grow in the order in which commits can be
 *    seen. Whoever sees a version sees all that came before it in its lane.
 * 2. The newest row of a lane's log that a snapshot sees is the snapshot's version. That row stays for as long as all later
 *    ones do: rows are removed from the oldest on, under the lock. A read version whose row is gone is too old.
 * 3. A step is requests of which none reads or writes what an earlier one writes, additions apart. It has one version, and its
 *    requests are told apart by their place in it.
 * 4. An index takes no row above 2,704 bytes. Keys above `KEY_BYTES` lie in a table of their own, under an index of their
 *    first bytes.
 * 5. Plans are made once a session, and must be good for tables of any size: whatever would read a table whole is off.
 */
import { heldStatements } from "./held.ts"
import * as Literals from "./literals.ts"

/** The format of the tables and functions; a higher one belongs to a later version of this library. */
export const FORMAT = 2

/** So long a log row is kept at least, in seconds: twice the life of a transaction. */
const LOG_SECONDS = 10

/** Longer keys do not fit an index (4). */
export const KEY_BYTES = 2_000

const PLANS = "SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan"

const tables = (s: string): ReadonlyArray<string> => [
  `CREATE TABLE IF NOT EXISTS ${s}.meta (format int NOT NULL, store uuid NOT NULL)`,
  `CREATE SEQUENCE IF NOT EXISTS ${s}.version`,
  `CREATE TABLE IF NOT EXISTS ${s}.data (key bytea PRIMARY KEY, value bytea NOT NULL) WITH (fillfactor = 80, ` +
  `autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)`,
  `CREATE TABLE IF NOT EXISTS ${s}.long (head bytea NOT NULL, key bytea NOT NULL, value bytea NOT NULL)`,
  `CREATE INDEX IF NOT EXISTS long_head ON ${s}.long (head)`,
  `CREATE TABLE IF NOT EXISTS ${s}.log (lane bytea NOT NULL, version bigint NOT NULL, origin bigint NOT NULL, at timestamptz NOT NULL, ` +
  `keys bytea[] NOT NULL, begins bytea[] NOT NULL, ends bytea[] NOT NULL, PRIMARY KEY (lane, version)) WITH (` +
  `autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)`
]

const read = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.read(a_lane bytea, a_keys bytea[], a_begins bytea[], a_ends bytea[], a_limits bigint[],
  a_reverse boolean[]) RETURNS TABLE (i int, k bytea, v bytea) LANGUAGE plpgsql STABLE ${PLANS}
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  some_long boolean := EXISTS (SELECT FROM ${s}.long);
BEGIN
  IF a_lane IS NOT NULL THEN
    RETURN QUERY SELECT -1, NULL::bytea, int8send(COALESCE(
      (SELECT l.version FROM ${s}.log l WHERE l.lane = a_lane ORDER BY l.version DESC LIMIT 1), 0));
  END IF;
  IF cardinality(a_keys) > 0 THEN
    RETURN QUERY SELECT q.n::int, NULL::bytea, d.value FROM unnest(a_keys) WITH ORDINALITY q(key, n)
      JOIN ${s}.data d ON d.key = q.key WHERE length(q.key) <= ${KEY_BYTES};
    IF some_long THEN
      RETURN QUERY SELECT q.n::int, NULL::bytea, d.value FROM unnest(a_keys) WITH ORDINALITY q(key, n)
        JOIN ${s}.long d ON d.head = substring(q.key FOR ${KEY_BYTES}) AND d.key = q.key;
    END IF;
  END IF;
  FOR n IN 1..cardinality(a_begins) LOOP
    IF a_reverse[n] AND some_long THEN
      RETURN QUERY SELECT n + cardinality(a_keys), u.key, u.value FROM (
        (SELECT d.key, d.value FROM ${s}.data d WHERE d.key >= a_begins[n] AND d.key < a_ends[n]
          ORDER BY d.key DESC LIMIT a_limits[n])
        UNION ALL
        (SELECT d.key, d.value FROM ${s}.long d WHERE d.head >= substring(a_begins[n] FOR ${KEY_BYTES})
          AND d.head <= substring(a_ends[n] FOR ${KEY_BYTES}) AND d.key >= a_begins[n] AND d.key < a_ends[n]
          ORDER BY d.key DESC LIMIT a_limits[n])
      ) u ORDER BY u.key DESC LIMIT a_limits[n];
    ELSIF a_reverse[n] THEN
      RETURN QUERY SELECT n + cardinality(a_keys), d.key, d.value FROM ${s}.data d
        WHERE d.key >= a_begins[n] AND d.key < a_ends[n] ORDER BY d.key DESC LIMIT a_limits[n];
    ELSIF some_long THEN
      RETURN QUERY SELECT n + cardinality(a_keys), u.key, u.value FROM (
        (SELECT d.key, d.value FROM ${s}.data d WHERE d.key >= a_begins[n] AND d.key < a_ends[n]
          ORDER BY d.key LIMIT a_limits[n])
        UNION ALL
        (SELECT d.key, d.value FROM ${s}.long d WHERE d.head >= substring(a_begins[n] FOR ${KEY_BYTES})
          AND d.head <= substring(a_ends[n] FOR ${KEY_BYTES}) AND d.key >= a_begins[n] AND d.key < a_ends[n]
          ORDER BY d.key LIMIT a_limits[n])
      ) u ORDER BY u.key LIMIT a_limits[n];
    ELSE
      RETURN QUERY SELECT n + cardinality(a_keys), d.key, d.value FROM ${s}.data d
        WHERE d.key >= a_begins[n] AND d.key < a_ends[n] ORDER BY d.key LIMIT a_limits[n];
    END IF;
  END LOOP;
END $$`

/** One key, wherever it lies (4). */
const writeOne = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.write_one(a_key bytea, a_value bytea) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF length(a_key) <= ${KEY_BYTES} THEN
    IF a_value IS NULL THEN DELETE FROM ${s}.data WHERE key = a_key;
    ELSE
      INSERT INTO ${s}.data (key, value) VALUES (a_key, a_value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    END IF;
  ELSE
    DELETE FROM ${s}.long WHERE head = substring(a_key FOR ${KEY_BYTES}) AND key = a_key;
    IF a_value IS NOT NULL THEN
      INSERT INTO ${s}.long (head, key, value) VALUES (substring(a_key FOR ${KEY_BYTES}), a_key, a_value);
    END IF;
  END IF;
END $$`

/** A little-endian addition that wraps, in the operand's length. */
const addOne = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.add_one(a_key bytea, a_operand bytea) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  old bytea;
  sum int;
  carry int := 0;
BEGIN
  IF length(a_key) <= ${KEY_BYTES} THEN SELECT value INTO old FROM ${s}.data WHERE key = a_key;
  ELSE SELECT value INTO old FROM ${s}.long WHERE head = substring(a_key FOR ${KEY_BYTES}) AND key = a_key;
  END IF;
  FOR n IN 0..length(a_operand) - 1 LOOP
    sum := get_byte(a_operand, n) + carry + CASE WHEN n < COALESCE(length(old), 0) THEN get_byte(old, n) ELSE 0 END;
    a_operand := set_byte(a_operand, n, sum & 255);
    carry := sum >> 8;
  END LOOP;
  PERFORM ${s}.write_one(a_key, a_operand);
END $$`

/** Which requests of a step have read what was written since: their numbers. */
const conflicts = (s: string): string => {
  const since = `FROM ${s}.log l WHERE l.lane = a_lane AND l.version > a_since`
  const keys = `(SELECT l.version, w.k FROM (SELECT l.version, l.keys ${since}) l, unnest(l.keys) w(k))`
  const ranges =
    `(SELECT l.version, w.b, w.e FROM (SELECT l.version, l.begins, l.ends ${since}) l, unnest(l.begins, l.ends) w(b, e))`
  return `
CREATE OR REPLACE FUNCTION ${s}.conflicts(a_lane bytea, a_since bigint, a_versions bigint[], a_key_of int[],
  a_keys bytea[], a_range_of int[], a_begins bytea[], a_ends bytea[]) RETURNS int[] LANGUAGE plpgsql VOLATILE ${PLANS} AS $$
BEGIN
  RETURN ARRAY(
    SELECT r.i FROM unnest(a_key_of, a_keys) r(i, k) JOIN ${keys} w ON w.k = r.k WHERE w.version > a_versions[r.i]
    UNION ALL
    SELECT r.i FROM unnest(a_key_of, a_keys) r(i, k), ${ranges} w
      WHERE w.b <= r.k AND r.k < w.e AND w.version > a_versions[r.i]
    UNION ALL
    SELECT r.i FROM unnest(a_range_of, a_begins, a_ends) r(i, b, e), ${keys} w
      WHERE r.b <= w.k AND w.k < r.e AND w.version > a_versions[r.i]
    UNION ALL
    SELECT r.i FROM unnest(a_range_of, a_begins, a_ends) r(i, b, e), ${ranges} w
      WHERE w.b < r.e AND r.b < w.e AND w.version > a_versions[r.i]
  );
END $$`
}

/**
 * One step (3). Succeeds with its version, and for each request with 0 when it was applied, 1 for a conflict, 2 when its
 * snapshot is too old.
 */
const commit = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.commit(a_locks bigint[], a_lanes bytea[], a_origin bigint, a_trim_from bigint,
  a_versions bigint[], a_read_of int[], a_reads bytea[], a_range_of int[], a_begins bytea[], a_ends bytea[],
  a_clear_of int[], a_clear_begins bytea[], a_clear_ends bytea[], a_write_of int[], a_keys bytea[], a_values bytea[],
  a_add_of int[], a_add_keys bytea[], a_operands bytea[],
  a_stamp_of int[], a_stamp_keys bytea[], a_stamp_values bytea[], a_key_places int[], a_value_places int[]
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE ${PLANS} AS $$
DECLARE
  l bigint;
  lane bytea := a_lanes[1];
  newest bigint;
  own bigint;
  since bigint;
  stamp bigint;
  fates int[];
  n int;
  writes bytea[];
  begins bytea[];
  ends bytea[];
  cut bigint;
BEGIN
  FOREACH l IN ARRAY a_locks LOOP PERFORM pg_advisory_xact_lock(l); END LOOP;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'effect-dgen: a commit must run under READ COMMITTED' USING ERRCODE = '25001';
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;
  FOR n IN 1..cardinality(a_lanes) LOOP
    since := (SELECT g.version FROM ${s}.log g WHERE g.lane = a_lanes[n] ORDER BY g.version DESC LIMIT 1);
    IF since IS NULL THEN
      INSERT INTO ${s}.log (lane, version, origin, at, keys, begins, ends)
        VALUES (a_lanes[n], 0, a_origin, clock_timestamp(), '{}', '{}', '{}');
      since := 0;
    END IF;
    newest := GREATEST(newest, since);
    IF n = 1 THEN own := since; END IF;
  END LOOP;
  fates := array_fill(0, ARRAY[cardinality(a_versions)]);
  since := (SELECT min(v) FROM unnest(a_versions) v WHERE v <> own);
  IF since IS NOT NULL THEN
    FOREACH n IN ARRAY ${s}.conflicts(lane, since, a_versions, a_read_of, a_reads, a_range_of, a_begins, a_ends) LOOP
      fates[n] := 1;
    END LOOP;
    FOR n IN SELECT r.i FROM unnest(a_versions) WITH ORDINALITY r(v, i) WHERE r.v IS NOT NULL
      AND NOT EXISTS (SELECT FROM ${s}.log g WHERE g.lane = a_lanes[1] AND g.version = r.v) LOOP
      fates[n] := 2;
    END LOOP;
  END IF;
  IF 0 <> ALL (fates) THEN RETURN ARRAY[0::bigint] || fates::bigint[]; END IF;
  stamp := nextval('${s.replaceAll("'", "''")}.version');
  IF stamp <= newest THEN stamp := setval('${s.replaceAll("'", "''")}.version', newest + 1); END IF;
  FOR n IN 1..cardinality(a_clear_of) LOOP
    CONTINUE WHEN fates[a_clear_of[n]] <> 0;
    DELETE FROM ${s}.data d WHERE d.key >= a_clear_begins[n] AND d.key < a_clear_ends[n];
    DELETE FROM ${s}.long d WHERE d.head >= substring(a_clear_begins[n] FOR ${KEY_BYTES})
      AND d.head <= substring(a_clear_ends[n] FOR ${KEY_BYTES}) AND d.key >= a_clear_begins[n] AND d.key < a_clear_ends[n];
  END LOOP;
  IF cardinality(a_keys) > 0 THEN
    IF array_position(a_values, NULL) IS NOT NULL THEN
      DELETE FROM ${s}.data d WHERE d.key = ANY (
        ARRAY(SELECT w.k FROM unnest(a_write_of, a_keys, a_values) w(i, k, v) WHERE w.v IS NULL AND fates[w.i] = 0));
    END IF;
    INSERT INTO ${s}.data (key, value)
      SELECT w.k, w.v FROM unnest(a_write_of, a_keys, a_values) w(i, k, v)
        WHERE w.v IS NOT NULL AND fates[w.i] = 0 AND length(w.k) <= ${KEY_BYTES}
      ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    PERFORM ${s}.write_one(w.k, w.v) FROM unnest(a_write_of, a_keys, a_values) w(i, k, v)
      WHERE fates[w.i] = 0 AND length(w.k) > ${KEY_BYTES};
  END IF;
  FOR n IN 1..cardinality(a_add_of) LOOP
    IF fates[a_add_of[n]] = 0 THEN PERFORM ${s}.add_one(a_add_keys[n], a_operands[n]); END IF;
  END LOOP;
  FOR n IN 1..cardinality(a_stamp_of) LOOP
    CONTINUE WHEN fates[a_stamp_of[n]] <> 0;
    IF a_key_places[n] >= 0 THEN
      a_stamp_keys[n] := overlay(a_stamp_keys[n] PLACING int8send(stamp) || int2send((a_stamp_of[n] - 1)::int2)
        FROM a_key_places[n] + 1 FOR 10);
    END IF;
    IF a_value_places[n] >= 0 THEN
      a_stamp_values[n] := overlay(a_stamp_values[n] PLACING int8send(stamp) || int2send((a_stamp_of[n] - 1)::int2)
        FROM a_value_places[n] + 1 FOR 10);
    END IF;
    PERFORM ${s}.write_one(a_stamp_keys[n], a_stamp_values[n]);
  END LOOP;
  writes := a_keys || a_add_keys || a_stamp_keys;
  begins := a_clear_begins;
  ends := a_clear_ends;
  IF 0 <> ANY (fates) THEN
    writes := ARRAY(SELECT w.k FROM unnest(a_write_of || a_add_of || a_stamp_of, writes) w(i, k) WHERE fates[w.i] = 0);
    begins := ARRAY(SELECT w.b FROM unnest(a_clear_of, a_clear_begins) WITH ORDINALITY w(i, b, o)
      WHERE fates[w.i] = 0 ORDER BY w.o);
    ends := ARRAY(SELECT w.e FROM unnest(a_clear_of, a_clear_ends) WITH ORDINALITY w(i, e, o)
      WHERE fates[w.i] = 0 ORDER BY w.o);
  END IF;
  FOR n IN 1..cardinality(a_lanes) LOOP
    INSERT INTO ${s}.log (lane, version, origin, at, keys, begins, ends)
      VALUES (a_lanes[n], stamp, a_origin, clock_timestamp(), writes, begins, ends);
  END LOOP;
  IF a_trim_from IS NOT NULL THEN
    cut := (SELECT max(t.version) FROM (SELECT g.version, g.at FROM ${s}.log g
      WHERE g.lane = a_lanes[1] AND g.version >= a_trim_from ORDER BY g.version LIMIT 100000) t
      WHERE t.at < clock_timestamp() - interval '${LOG_SECONDS} seconds');
    DELETE FROM ${s}.log g WHERE g.lane = a_lanes[1] AND g.version >= a_trim_from AND g.version < cut;
  END IF;
  RETURN ARRAY[stamp] || fates::bigint[];
END $$`

/**
 * What others committed in a lane after a version: first the newest version and whether all since is known, then a row for
 * each step.
 */
const look = (s: string): string => `
CREATE OR REPLACE FUNCTION ${s}.look(a_lane bytea, a_since bigint, a_origin bigint)
RETURNS TABLE (version bigint, whole boolean, keys bytea[], begins bytea[], ends bytea[]) LANGUAGE plpgsql STABLE ${PLANS}
AS $$
BEGIN
  RETURN QUERY SELECT COALESCE((SELECT g.version FROM ${s}.log g WHERE g.lane = a_lane ORDER BY g.version DESC LIMIT 1), 0),
    EXISTS (SELECT FROM ${s}.log g WHERE g.lane = a_lane AND g.version = a_since)
      OR NOT EXISTS (SELECT FROM ${s}.log g WHERE g.lane = a_lane), NULL::bytea[], NULL::bytea[], NULL::bytea[];
  RETURN QUERY SELECT g.version, true, g.keys, g.begins, g.ends FROM ${s}.log g
    WHERE g.lane = a_lane AND g.version > a_since AND g.origin <> a_origin ORDER BY g.version;
END $$`

/** All statements that make the store in a schema, or bring it to this format, in order. */
export const statements = (schema: string): ReadonlyArray<string> => {
  const s = Literals.identifier(schema)
  return [
    `CREATE SCHEMA IF NOT EXISTS ${s}`,
    ...tables(s),
    read(s),
    writeOne(s),
    addOne(s),
    conflicts(s),
    commit(s),
    look(s),
    ...heldStatements(s),
    `INSERT INTO ${s}.meta (format, store) SELECT ${FORMAT}, gen_random_uuid() WHERE NOT EXISTS (SELECT FROM ${s}.meta)`,
    `UPDATE ${s}.meta SET format = ${FORMAT} WHERE format < ${FORMAT}`
  ].map((statement) => statement.trim())
}

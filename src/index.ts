// @barrel: Auto-generated exports. Do not edit manually.

/**
 * The seam between this library and a store.
 *
 * A backend is an ordered key-value store with optimistic transactions: every read sees one snapshot, a commit is
 * refused when another transaction wrote what this one read, and a commit that succeeded is durable. A driver gives
 * only that: snapshots, reads, commits with their conflict ranges, and watches. Everything a program sees above it is
 * written once for all stores: reading one's own writes, limits, the retry loop, idempotence (`Transaction`, `Tenant`).
 *
 * Programs do not call a backend; they provide one of the layers `SqliteBackend.layer`, `MemoryBackend.layer` or
 * `FoundationDbBackend.layer`. Whoever writes another driver owes what each of its operations says here.
 *
 * @since 0.1.0
 */
export * as Backend from "./Backend.ts"

/**
 * The one error of the stores: `BackendError`, with a `reason` that says what happened, whether running the
 * transaction again can help (`isRetryable`), and whether the transaction may have been applied all the same
 * (`isMaybeCommitted`).
 *
 * `Tenant.transact` retries what is retryable by itself, so what reaches a program is final for that call: each
 * reason's `message` says what to do about it. Handle one reason with `Effect.catchReason("BackendError", ...)`.
 *
 * @since 0.1.0
 */
export * as BackendError from "./BackendError.ts"

/**
 * A dashboard: a page that shows what a tenant's servers and jobs do, how fast, what is stuck, and mends it. `layer`
 * mounts it in a program's own HTTP server; `npx effect-dgen dashboard` serves the same on loopback.
 *
 * Nothing is answered, the page itself included, but to whom `authorize` says yes. Requests that a page of another origin
 * made are refused, and so are changes without a header that no form can send. Whatever is stored is shown as text.
 * Looking conflicts with nobody, reads a bounded part, and stops when nobody looks.
 *
 * What you owe: an `authorize` that knows who asks, by a cookie that is `HttpOnly` and `SameSite`, or by a header; TLS
 * where the way from the browser is not your own; `hosts`, where `authorize` goes by where a request comes from.
 *
 * @since 0.2.0
 */
export * as Dashboard from "./Dashboard.ts"

/**
 * Servers for browsers and other services: makes of a definition a group of procedures (`effect/rpc`) or of HTTP endpoints
 * (`effect/http-api`), with the payloads, answers and errors of its messages. `DgenProxyServer` serves them. Like `Protocol`,
 * this module uses nothing of Node: a browser makes its client of the same group.
 *
 * A message is shown if its tag is in `messages`, and to whom `authorization` lets through: what is not said is closed. What
 * goes wrong inside of the server, or in its store, leaves the process as an id, and lies with it in the log.
 *
 * What you owe: an `authorization` that also looks at the address, where not everybody may reach every server (or a `toTuid`
 * that makes the tuid of who asks), and a `keyOf` for what must not happen twice: a request whose answer got lost is sent again.
 *
 * @since 0.2.0
 */
export * as DgenProxy from "./DgenProxy.ts"

/**
 * Serves the groups that `DgenProxy` makes: each request from outside becomes a call or a cast to the server that it names,
 * through the tenant of the layer, wherever that server runs. What is said of keys, durability and order of messages holds
 * for these.
 *
 * Who goes away before the answer takes the waiting along, but not the message: it may still be handled. What you owe is
 * what `DgenProxy` says, and a limit of how many requests a process takes at a time.
 *
 * @since 0.2.0
 */
export * as DgenProxyServer from "./DgenProxyServer.ts"

/**
 * Durable, distributed servers in the `gen_server` model. A server is state plus a queue of messages in the store of a
 * tenant. It exists as long as they do: processes that run it come and go. Any number of processes can send to it, and
 * any number can consume.
 *
 * Handlers are pure: a transaction effect can require `Transaction` and nothing else, so that a batch of messages
 * commits its new state, its answers and the messages it took as one transaction. Side effects are actions: they run
 * after the commit that asked for them, in the process that committed, and are gone with it. Durable ones are kept in the
 * store until they have run.
 *
 * Messages that a client was told are sent are durable, and each is handled exactly once, in the order they were
 * committed. Info and priority messages are handled at once, past the queue. What you owe: handlers compute and use the
 * operations of `Transaction`, and nothing else; they can run many times before one run counts. A message that needs the
 * world before it can be answered asks for the lock: its locked handler runs between two commits, and may run twice.
 *
 * @since 0.1.0
 */
export * as DgenServer from "./DgenServer.ts"

/**
 * A durable first-in-first-out queue with its dead letters: what a server's messages lie in. All operations are
 * transaction effects, so that a push or a take commits with whatever else its transaction writes.
 *
 * Items are ordered by the commits that pushed them, and within one commit by the order of the pushes. Pushes never
 * conflict with each other, nor with a consumer; two consumers that take the same item conflict, and one of them runs
 * again. A server's queue is named by the server's `queue`; what you push there yourself must be messages of that
 * server, so for sending use `cast` and `castTx`, and this module for looking and for its dead letters.
 *
 * @since 0.1.0
 */
export * as DurableQueue from "./DurableQueue.ts"

/**
 * The distributed backend: a FoundationDB cluster, shared by any number of processes of any number of machines. A commit
 * that was reported survives the loss of as many machines as the cluster's redundancy says.
 *
 * It uses the npm package `foundationdb`, an optional peer dependency that this module alone imports, when its layer is
 * built, and FoundationDB's client library (`libfdb_c`), 7.1 or newer. Where one of them is missing or nothing answers,
 * the layer fails with an error that says what to install or to check; nothing waits for ever.
 *
 * What you owe: the two installations, a cluster file that the process may read and write (the client keeps it up to
 * date), and Node's main thread (the package cannot be used in a worker). `docs/OPERATING.md` says more.
 *
 * @since 0.1.0
 */
export * as FoundationDbBackend from "./FoundationDbBackend.ts"

/**
 * Looking at what a tenant holds, and putting it in order, without the definitions of its servers and jobs: what the
 * command line and the dashboard stand on, and what a program can use that is an operator's.
 *
 * All looks are transaction effects by snapshot: run them with `Tenant.transact`, beside whatever else runs on the store.
 * They conflict with nobody, read a bounded part, and give plain data that JSON can say. Lists come in pages, whose `next`
 * is the `after` of the following one; `allServers`, `allJobs` and the like are streams over them. Times are milliseconds
 * since 1970. Texts come from the store: whoever shows them escapes them.
 *
 * Programs that start or host servers, or work on jobs, keep a record of their definition in the tenant: which messages
 * there are, whether servers are hosted, what of states, payloads and data is redacted (`Schema.Redacted`). With it values
 * are shown without what is redacted, and servers can be woken. Without it values are hidden, unless `values` asks for
 * them, and what must wake a server fails with `DefinitionUnknown`.
 *
 * What is changed here is changed in one transaction with all that belongs to it, as the server or its host would do it. It
 * counts at once for the processes that run.
 *
 * @since 0.2.0
 */
export * as Inspect from "./Inspect.ts"

/**
 * Background jobs: durable, scheduled, leased work. A job has a type, an id and data. Its creator adds it, in the same
 * commit as whatever else the creator writes. A worker, in any process, takes it, shows signs of life while it works,
 * and finishes it, in the same commit as the result.
 *
 * A job runs at least once: when its holder dies, or is silent for the type's timeout, it is pending again and another
 * worker takes it. At most one holder's writes count: each run has a lock, and every `update`, `finish` and
 * `resubmitJob` of a holder that lost it fails with `Halt`, and then nothing of its transaction is written. Of the due
 * jobs the one with the highest priority is taken first, then the one that was due first; a job that is due later is
 * taken at its time. A job can wait for the end of others.
 *
 * What you owe: a handler's side effects outside the store can happen twice, so make them idempotent; what a holder
 * writes to the store belongs in a transaction with `update` or `finish`, so that only the holder's writes count.
 *
 * @since 0.1.0
 */
export * as Jobs from "./Jobs.ts"

/**
 * A backend in memory, for tests: the same optimistic transactions, limits, watches and errors as the durable ones,
 * and gone with its scope. Two transactions that conflict on FoundationDB conflict here, and two that do not, do not.
 *
 * @since 0.1.0
 */
export * as MemoryBackend from "./MemoryBackend.ts"

/**
 * The backend for a PostgreSQL server, 14 or newer, shared by any number of processes. A commit that was reported is in the
 * server's log on the disk, and on its synchronous standbys where there are some.
 *
 * It uses the npm package `pg`, an optional peer dependency that this module alone imports, when its layer is built. The
 * layer makes the tables it needs, in a schema of its own, unless it is told not to.
 *
 * What you owe: the package, a role that may use the schema, and connections that the server has room for. Between the program
 * and the server there may be a pooler in transaction mode; commits of other processes are then heard at once only through
 * `listen`, a connection around the pooler, and seen every 250 ms without it.
 *
 * @since 0.1.0
 */
export * as PostgresBackend from "./PostgresBackend.ts"

/**
 * What can be said to a server, and nothing of what it is made of: its name, and its messages with their schemas. This module
 * uses `effect` and nothing of Node, so that a browser and a server can share a file of definitions. What the server does
 * not show, its state and its actions, is added by `DgenServer.Service`, in a file that only servers read.
 *
 * What you owe: the file of definitions imports `effect` and this module (and `effect-dgen/DgenProxy`, for clients), each by
 * its own path: `effect-dgen` itself brings the stores along.
 *
 * @since 0.2.0
 */
export * as Protocol from "./Protocol.ts"

/**
 * The embedded backend: one SQLite file, used by any number of processes of one machine, with nothing to install. A
 * commit that was reported survives a crash and a loss of power, and concurrent commits of a process share a disk sync. On
 * Linux the sync runs on another thread, and so does the copying of the log into the database: the event loop waits for neither.
 *
 * What you owe: the file lies on a local disk (not on a network file system), in a folder that exists. Nobody in the
 * process opens it but Node's own SQLite, not even to copy it: closing any descriptor drops the locks of the process. Beside
 * it lie its log (`-wal`), which may hold the newest commits alone, what processes share (`-shm`), and the version that it
 * must reach (`-version`): a file that lost commits is refused with `Corrupt`, so whoever restores an older one deletes its
 * `-version`. Files that are removed, replaced or cut while they are open are noticed before the next commit is answered. When a
 * sync fails, the commits that waited for it fail with `CommitUnknown`, and all else with `Corrupt`, until the file is opened again.
 *
 * @since 0.1.0
 */
export * as SqliteBackend from "./SqliteBackend.ts"

/**
 * How a server's state lies in the store. A codec reads and writes one value under a prefix, as part of a transaction,
 * and an update writes only what changed.
 *
 * The schema of a state says how it is split:
 *
 * - *assigns*: a `Struct`, a `Class`, or a `Record` with string keys. A key an entry.
 * - *components*: an array of structs (or classes, or unions of them) with a string `id`. A key an item, and one for its
 *   place in the list, so that moving an item writes its place alone.
 * - *term*: all else. The value as a whole, in pieces that fit a value of the store.
 *
 * These nest: a list in a struct has its items in keys of their own. A struct that is one of many, a record's entry or
 * a list's item, is kept whole, unless a record or a list is somewhere in it. A schema with a transformation of the
 * whole, and the inner levels of a recursive schema, are terms. `term`, `assigns` and `components` annotate a schema to
 * choose otherwise.
 *
 * What is guaranteed: how a part is stored is written with it, so a state is read as it was written, also after its
 * schema became another kind; the part takes its new form when it next changes. Checks of a whole struct or list run
 * whenever a part of it changed, and on every read. State that does not fit its schema is refused with its path, and
 * nothing is written.
 *
 * What the schema at hand does not know, a newer version's entry, item field or record entry, stays as it is: entries as
 * they lie, and fields inside of other parts with what is written in their place, as deep as the schema has structs. In a
 * list whose items have no `id`, they go with the item of the same content, or at the same place.
 *
 * What the user owes: a state is never changed in place. Parts that are the same objects as before are taken to be
 * unchanged; so a handler that wants little written changes little, and keeps the other objects.
 *
 * @since 0.1.0
 */
export * as StateCodec from "./StateCodec.ts"

/**
 * A subspace: all keys that begin with one prefix, and the tuples behind it.
 *
 * Keys of one subspace never lie in another one, unless one prefix begins with the other. A subspace is a value: it
 * holds its prefix, touches no store, and never changes.
 *
 * @since 0.1.0
 */
export * as Subspace from "./Subspace.ts"

/**
 * A tenant: a backend and a directory path, whose keys no other tenant sees. All transactions run in one.
 *
 * `Tenant.transact` runs a transaction effect atomically: its reads see one snapshot, its writes appear at once and
 * are durable when it succeeds, and when it fails nothing of it was written. It runs the effect again when the store
 * says so (a conflict, a snapshot that is too old), for at most 30 seconds. It is applied once, also on stores whose
 * commit can end without an answer.
 *
 * @since 0.1.0
 */
export * as Tenant from "./Tenant.ts"

/**
 * Transaction effects: what may read and write a tenant's keys. A transaction effect is an `Effect<A, E, Transaction>`;
 * such effects compose, and `Tenant.transact` makes one atomic, durable commit of any composition.
 *
 * A transaction effect sees one snapshot with its own writes over it. It commits as a whole or leaves nothing. It may
 * run more than once before it commits, so it must do nothing but compute and use the operations of this module:
 * because its requirement is `Transaction` and nothing else, no other service gets into one. A failure of the store is
 * no failure of an operation here: it ends the try, beyond any catch in the body, and appears in the error of
 * `Tenant.transact`.
 *
 * Keys are tuples under the tenant (see `Tuple`); values are bytes.
 *
 * @since 0.1.0
 */
export * as Transaction from "./Transaction.ts"

/**
 * Tuples as keys: FoundationDB's tuple encoding, byte for byte the same as in its other bindings.
 *
 * A tuple is an array of elements. Packed, tuples sort as their elements do: element by element, a tuple before every
 * longer tuple that begins with it. So the keys of one subject lie together, and a range of keys is a prefix.
 *
 * The encoding is canonical. Equal tuples give equal bytes, and `unpack` accepts only bytes that `pack` makes, so two
 * different keys are never one tuple. `1` and `1n` are the same element. Unpacking gives back what was packed, with
 * three exceptions: an integer comes back as a `number` where it is a safe integer and as a `bigint` where it is not;
 * a `Double` comes back as a plain `number` where that would be packed the same; and a `Buffer` comes back as a plain
 * `Uint8Array`.
 *
 * What the user owes: strings without lone surrogates, numbers whose kind does not change. A `number` that is a safe
 * integer is packed as an integer, any other as a double (also `-0`, `NaN`, the infinities and integers beyond
 * `Number.MAX_SAFE_INTEGER`), and all integers sort before all doubles: `[2]` sorts before `[0.5]`. Where integers
 * and fractions must sort among each other, wrap them all in `Double`.
 *
 * @since 0.1.0
 */
export * as Tuple from "./Tuple.ts"

/* SPDX-License-Identifier: Apache-2.0
 *
 * The command log: brings the state up to the log's end, proposes, and applies in order. A proposal's
 * callback runs after it was applied here. One proposal (row) of a session is in flight; commands
 * that come meanwhile share the next row, up to 256.
 *
 * An UNKNOWN outcome needs no lookup: read to the end of the log; not applied -> propose again under
 * the same number; a second copy is skipped by apply.
 */
#ifndef STORAGED_META_META_H
#define STORAGED_META_META_H

#include "storaged/meta/state.h"
#include "storaged/objstore/objstore.h"

struct meta;

struct meta_config {
	uint32_t node;
	uint8_t boot_id[16];            /* random, of this process */
	uint8_t instance[16];           /* of the data directory */
	const char *host;               /* borrowed strings: copied */
	const char *cluster_id;
	uint32_t slots;
	const char *http_address;       /* advertised; "" when none */
	const char *kafka_address;      /* host:port; NULL or "" when none */
	uint64_t snapshot_rows;         /* a snapshot every so many rows; 0: 1,024 */
	uint64_t rows_kept;             /* rows kept below a snapshot; 0: 10,000 */
	uint64_t export_ms;             /* between two exports, at least; 0: 60,000 */
};

struct meta_events {
	/* After every applied command, in order. */
	void (*on_applied)(void *arg, const Meta__Command *command, const Meta__Result__One *result, uint64_t idx);
	/* Our own session was ended by somebody else: the process must leave. */
	void (*on_session_ended)(void *arg);
	/* Refused for good; code is the exit code (1), text says what to do: cluster objects that do not agree, a
	 * broken chain, a newer FORMAT, a node id in use. */
	void (*on_refused)(void *arg, const char *text);
	/* Registered: the state is complete, `session` is ours, ended sessions of ours wait to be recovered. */
	void (*on_registered)(void *arg, uint64_t session);
};

/* stores: where <prefix>/cluster is kept (the data store, and the WAL's own when it has another URL; NULL else).
 * All borrowed. */
int meta_new(struct env *env, struct sql_log *sql, struct objstore *store, struct objstore *wal_store,
	     const struct meta_config *config, const struct meta_events *events, void *arg, struct meta **ret_meta);
/* Reads the log, InitCluster, cluster object, RegisterNode; tries again for ever while the database or the store is
 * away (meta_fault() says so). */
void meta_start(struct meta *m);
/* Callbacks outstanding do not run any more. The SQL log and the stores are freed before the loop turns again: what they have
 * outstanding for this would run into freed memory. Not from inside a callback of this. */
void meta_free(struct meta *m);

/*
 * Proposes one command (copied; node and session fields are filled in). The callback gets the result after apply;
 * NULL when the session ended or meta stops: the outcome is unknown. Pending commands: at most 65,536; then -ENOBUFS
 * and nothing was taken.
 */
typedef void meta_result_cb(void *arg, const Meta__Result__One *result);
int meta_propose(struct meta *m, Meta__Command *command, meta_result_cb *cb, void *arg);

/*
 * The node serves, so the database is not an older one than the storage: from now on the state is exported to
 * `meta/<idx>` in the data store, ten seconds from now and then whenever it moved and the last one is old enough.
 */
void meta_export_start(struct meta *m);
/* One now. 0, and cb gets its row and bytes, or why there is none; -EBUSY while one is being made, or before start. */
typedef void meta_export_cb(void *arg, uint64_t idx, uint64_t bytes, const char *fault);
int meta_export_now(struct meta *m, meta_export_cb *cb, void *arg);
/* Who waits for one is not told any more. */
void meta_export_forget(struct meta *m);
/* One before an ordered stop, if the state moved and it is a matter of a moment. done is called at once, or within 5 s. */
void meta_export_last(struct meta *m, void (*done)(void *arg), void *arg);

const struct state *meta_state(const struct meta *m);
/* The state's clock before this process registered; 0 before that. */
int64_t meta_clock_before_ms(const struct meta *m);
uint64_t meta_session(const struct meta *m);        /* 0 before it is registered */
/* NULL while the database answers; else path or URL and what it said, for /ready. */
const char *meta_fault(const struct meta *m);

#endif

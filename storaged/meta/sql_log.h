/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQL database under the command log, as the only four statements the log needs. sqlite.c runs
 * them on a thread of its own; t/sim/ simulates them. Callbacks run on the loop, never inside the call.
 *
 *   pico_log(idx bigint primary key, node, session, proposal, chain, payload)
 *   pico_entity(key primary key, idx, payload)        pico_snapshot(idx)
 */
#ifndef STORAGED_META_SQL_LOG_H
#define STORAGED_META_SQL_LOG_H

#include "common/env.h"
#include "common/slice.h"

struct sql_row {
	uint64_t idx;
	uint32_t node;
	uint64_t session;               /* 0: InitCluster, RegisterNode */
	uint64_t proposal;
	uint64_t chain;
	struct slice payload;           /* meta.Row */
};

struct sql_entity {
	struct slice key;
	uint64_t idx;                   /* of its last change */
	struct slice payload;           /* p == NULL in a snapshot write: delete it */
};

/* err: 0 or negative errno; text: the database's words, valid in the callback. */
struct sql_result {
	enum outcome outcome;
	int err;                        /* -EEXIST: somebody else's row has that idx, or last is not the end */
	const char *text;
};

typedef void sql_done_cb(void *arg, struct sql_result result);
/* last_idx: max(idx) of the table at the moment of the read, 0 when empty. first_idx: min(idx). */
typedef void sql_rows_cb(void *arg, struct sql_result result, const struct sql_row *rows, size_t n,
			 uint64_t first_idx, uint64_t last_idx);
typedef void sql_snapshot_cb(void *arg, struct sql_result result, uint64_t idx, const struct sql_entity *entities,
			     size_t n);

struct sql_log;

struct sql_log_ops {
	/* INSERT at row->idx where max(idx) (0 if none) is row->idx - 1, atomically. Copies the row. */
	void (*append)(struct sql_log *, const struct sql_row *row, sql_done_cb *, void *arg);
	/* Rows with idx > after in order, at most max_rows. */
	void (*fetch)(struct sql_log *, uint64_t after, size_t max_rows, sql_rows_cb *, void *arg);
	/* The whole snapshot in one transaction; idx 0 when there is none. */
	void (*snapshot_read)(struct sql_log *, sql_snapshot_cb *, void *arg);
	/* In one transaction: the stored idx must be base (-EEXIST otherwise); changes are applied, idx set, log
	 * rows with idx < keep_from deleted, never the last one. Copies its input. */
	void (*snapshot_write)(struct sql_log *, uint64_t base, uint64_t idx, const struct sql_entity *changes,
			       size_t n, uint64_t keep_from, sql_done_cb *, void *arg);
	void (*free)(struct sql_log *);
};

struct sql_log {
	const struct sql_log_ops *ops;
	const char *url;                /* for messages, without secrets */
};

/*
 * `sqlite:PATH`, `sqlite://PATH`, `sqlite::memory:`. synchronous=FULL, WAL journal, one connection on its own
 * thread; the parent directory is made. -ENOTSUP for postgres:// until it is built, -EINVAL for the rest.
 */
int sql_log_open(struct env *env, const char *url, struct sql_log **ret_sql, char *fault, size_t fault_size);

#endif

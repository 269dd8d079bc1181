/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. The connection is read-only and takes no lock that a node would notice.
 */
#include "storaged/offline/db_read.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/must.h"
#include "storaged/meta/snapshot.h"

struct reading {
	sqlite3 *db;
	const char *path;
	char *fault;
	size_t fault_size;
	struct sql_entity *entity;      /* each key and payload one heap block */
	size_t n;
	struct state *state;
};

static int fail(struct reading *r, int err, const char *what)
{
	snprintf(r->fault, r->fault_size, "%s: %s", r->path, what);
	return err;
}

static int sqlite_fail(struct reading *r)
{
	return fail(r, -EIO, sqlite3_errmsg(r->db));
}

static int prepare(struct reading *r, const char *sql, sqlite3_stmt **ret)
{
	return sqlite3_prepare_v2(r->db, sql, -1, ret, NULL) == SQLITE_OK ? 0 : sqlite_fail(r);
}

static struct slice column(sqlite3_stmt *s, int i)
{
	const void *p = sqlite3_column_blob(s, i);
	return slice_of(p == NULL ? "" : p, (size_t)sqlite3_column_bytes(s, i));
}

static int read_idx(struct reading *r, uint64_t *ret_idx)
{
	sqlite3_stmt *s;
	int err = prepare(r, "SELECT idx FROM pico_snapshot", &s);
	if (err == 0 && sqlite3_step(s) == SQLITE_ROW)
		*ret_idx = (uint64_t)sqlite3_column_int64(s, 0);
	else if (err == 0)
		err = sqlite_fail(r);
	sqlite3_finalize(s);
	return err;
}

static int read_entities(struct reading *r)
{
	sqlite3_stmt *s;
	int err = prepare(r, "SELECT key, idx, payload FROM pico_entity", &s), code = SQLITE_DONE;
	while (err == 0 && (code = sqlite3_step(s)) == SQLITE_ROW) {
		struct slice key = column(s, 0), payload = column(s, 2);
		uint8_t *p = must_calloc(1, key.n + payload.n + 1);
		memcpy(p, key.p, key.n);
		memcpy(p + key.n, payload.p, payload.n);
		if ((r->n & (r->n - 1)) == 0)
			r->entity = must_realloc(r->entity, (r->n == 0 ? 1 : 2 * r->n) * sizeof(*r->entity));
		r->entity[r->n++] = (struct sql_entity){
			.key = slice_of(p, key.n), .idx = (uint64_t)sqlite3_column_int64(s, 1),
			.payload = slice_of(p + key.n, payload.n),
		};
	}
	if (err == 0 && code != SQLITE_DONE)
		err = sqlite_fail(r);
	sqlite3_finalize(s);
	return err;
}

static int apply(struct reading *r, sqlite3_stmt *s)
{
	struct sql_row row = {
		.idx = (uint64_t)sqlite3_column_int64(s, 0), .node = (uint32_t)sqlite3_column_int64(s, 1),
		.session = (uint64_t)sqlite3_column_int64(s, 2), .proposal = (uint64_t)sqlite3_column_int64(s, 3),
		.chain = (uint64_t)sqlite3_column_int64(s, 4), .payload = column(s, 5),
	};
	char text[160];
	Meta__Result *results = NULL;
	if (row.idx == state_idx(r->state) + 1 && row.chain == state_chain_next(state_chain(r->state), row.payload)) {
		int err = state_apply(r->state, &row, &results);
		if (err == 0)
			meta__result__free_unpacked(results, NULL);
		if (err != -EBADMSG)
			return 0;
	}
	snprintf(text, sizeof(text), "row %" PRIu64 " of the command log does not continue the one before it, or cannot be "
		 "read", row.idx);
	return fail(r, -EBADMSG, text);
}

static int read_rows(struct reading *r)
{
	sqlite3_stmt *s;
	int err = prepare(r, "SELECT idx, node, session, proposal, chain, payload FROM pico_log WHERE idx > ?1 ORDER BY idx", &s);
	int code = SQLITE_DONE;
	if (err == 0)
		sqlite3_bind_int64(s, 1, (sqlite3_int64)state_idx(r->state));
	while (err == 0 && (code = sqlite3_step(s)) == SQLITE_ROW)
		err = apply(r, s);
	if (err == 0 && code != SQLITE_DONE)
		err = sqlite_fail(r);
	sqlite3_finalize(s);
	return err;
}

static int read_all(struct reading *r)
{
	uint64_t idx = 0;
	if (sqlite3_open_v2(r->path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
	    sqlite3_busy_timeout(r->db, 5000) != SQLITE_OK ||
	    sqlite3_exec(r->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
		return sqlite_fail(r);
	int err = read_idx(r, &idx);
	if (err == 0)
		err = read_entities(r);
	if (err == 0 && idx > 0 && state_load(r->state, idx, r->entity, r->n) != 0)
		err = fail(r, -EBADMSG, "its snapshot is not readable by this release");
	if (err == 0)
		err = read_rows(r);
	if (err == 0 && state_cluster_uuid(r->state) == NULL)
		err = fail(r, -ENOENT, "it holds no cluster");
	return err;
}

int db_read(const char *path, struct state **ret_state, char *fault, size_t fault_size)
{
	struct reading r = { .path = path, .fault = fault, .fault_size = fault_size };
	if (access(path, F_OK) != 0)
		return fail(&r, -errno, strerror(errno));
	r.state = state_new();
	int err = read_all(&r);
	sqlite3_close(r.db);
	for (size_t i = 0; i < r.n; i++)
		free((void *)r.entity[i].key.p);
	free(r.entity);
	if (err != 0)
		state_free(r.state);
	else
		*ret_state = r.state;
	return err;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See the headers: the order of steps, what they share, and the new database.
 */
#include "storaged/offline/restore_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/must.h"
#include "storaged/meta/sqlite_db.h"

#define REPORT_MAX (16u << 20)

bool restore_fail(struct restoring *r, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(r->out->fault, sizeof(r->out->fault), fmt, args);
	va_end(args);
	return false;
}

void restore_say(struct restoring *r, const char *fmt, ...)
{
	char line[2048];
	va_list args;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	buf_printf(&r->out->report, "%s\n", line);
}

struct r_log *restore_log(const struct restoring *r, uint64_t id)
{
	size_t low = 0, high = r->n_logs;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (r->log[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->n_logs && r->log[low].id == id ? &r->log[low] : NULL;
}

/* ----------------------------------------------------------------------- life */

static void restoring_done(struct restoring *r)
{
	if (r->cluster != NULL)
		meta__cluster_entity__free_unpacked(r->cluster, NULL);
	for (size_t i = 0; i < r->n_nodes; i++)
		meta__node_entity__free_unpacked(r->node[i], NULL);
	for (size_t i = 0; i < r->n_session_entities; i++)
		meta__session_entity__free_unpacked(r->session_entity[i], NULL);
	for (size_t i = 0; i < r->n_kv; i++)
		meta__kv_entity__free_unpacked(r->kv[i], NULL);
	for (size_t i = 0; i < r->n_topics; i++)
		meta__topic_entity__free_unpacked(r->topic[i].e, NULL);
	for (size_t i = 0; i < r->n_cards; i++)
		meta__log_card__free_unpacked(r->card[i].card, NULL);
	for (size_t i = 0; i < r->n_objects; i++)
		object_file_done(&r->object[i].file);
	for (size_t i = 0; i < r->n_sessions; i++)
		free(r->session[i].wal);
	state_free(r->state);
	state_free(r->topics_now);
	free(r->card);
	free(r->node);
	free(r->session_entity);
	free(r->topic);
	free(r->kv);
	free(r->object);
	free(r->session);
	free(r->frame);
	free(r->log);
	free(r->span);
}

int restore(struct shelf *data, struct shelf *wal, struct slice export, struct restored *ret)
{
	struct restoring r = { .data = data, .wal = wal != NULL ? wal : data, .out = ret, .producer_id_max = -1 };
	*ret = (struct restored){ 0 };
	buf_init(&ret->report, REPORT_MAX);
	bool ok = restore_export(&r, export) && restore_read(&r);
	if (ok) {
		restore_place(&r);
		restore_logs(&r);
		ok = restore_build(&r);
	}
	restoring_done(&r);
	return ok ? 0 : -1;
}

void restored_forget(struct restored *r)
{
	for (size_t i = 0; i < r->n_entities; i++) {
		free((void *)r->entity[i].key.p);
		free((void *)r->entity[i].payload.p);
	}
	free(r->entity);
	r->entity = NULL;
	r->n_entities = 0;
}

void restored_done(struct restored *r)
{
	restored_forget(r);
	free((void *)r->row.payload.p);
	buf_done(&r->report);
	*r = (struct restored){ 0 };
}

/* --------------------------------------------------------------- the database */

static int write_fail(struct restored *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int write_fail(struct restored *r, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(r->fault, sizeof(r->fault), fmt, args);
	va_end(args);
	return -1;
}

/* Nothing but what a start leaves that was refused may be there: InitCluster, the first row, and no node. */
static bool is_empty(struct restored *r, const char *path)
{
	struct sqlite_db d;
	struct sqlite_rows rows = { 0 };
	struct sqlite_entities entities = { 0 };
	if (access(path, F_OK) != 0)
		return true;
	sqlite_db_init(&d, path);
	sqlite_db_fetch(&d, 0, 1, &rows);
	bool ok = d.outcome == OUTCOME_OK;
	if (ok) {
		sqlite_db_snapshot_read(&d, &entities);
		ok = d.outcome == OUTCOME_OK;
	}
	if (!ok)
		write_fail(r, "%s", d.text);
	else if (rows.last_idx > 1 || entities.idx > 0 || entities.n > 0)
		write_fail(r, "%s is a database with content, up to row %" PRIu64 ": it is not overwritten. Start the node on "
			   "it, or move it away", path, rows.last_idx > entities.idx ? rows.last_idx : entities.idx);
	sqlite_rows_done(&rows);
	sqlite_entities_done(&entities);
	sqlite_db_done(&d);
	return r->fault[0] == '\0';
}

static int row_insert(struct restored *r, struct sqlite_db *d)
{
	static const char insert[] = "INSERT INTO pico_log VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
	sqlite3_stmt *s = NULL;
	int code = sqlite3_prepare_v2(d->db, insert, -1, &s, NULL);
	if (code == SQLITE_OK) {
		const uint64_t v[] = { r->row.idx, r->row.node, r->row.session, r->row.proposal, r->row.chain };
		for (int i = 0; i < 5; i++)
			sqlite3_bind_int64(s, i + 1, (sqlite3_int64)v[i]);
		sqlite3_bind_blob64(s, 6, r->row.payload.p, r->row.payload.n, SQLITE_STATIC);
		code = sqlite3_step(s);
	}
	sqlite3_finalize(s);
	return code == SQLITE_DONE ? 0 : write_fail(r, "%s: %s", d->path, sqlite3_errmsg(d->db));
}

static int fill(struct restored *r, const char *path)
{
	struct sqlite_db d;
	sqlite_db_init(&d, path);
	sqlite_db_snapshot_write(&d, 0, r->row.idx, r->entity, r->n_entities, 0);
	int rc = d.outcome == OUTCOME_OK ? row_insert(r, &d) : write_fail(r, "%s", d.text);
	if (rc == 0 && sqlite3_exec(d.db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) != SQLITE_OK)
		rc = write_fail(r, "%s: %s", path, sqlite3_errmsg(d.db));
	sqlite_db_done(&d);
	return rc;
}

static int sync_of(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);
	int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Under its name at once and whole. */
static int publish(struct restored *r, const char *from, const char *path)
{
	char directory[4096], side[4200];
	const char *slash = strrchr(path, '/');
	snprintf(directory, sizeof(directory), "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
	static const char *const suffix[] = { "-wal", "-shm" };
	for (size_t i = 0; i < 2; i++) {
		snprintf(side, sizeof(side), "%s%s", path, suffix[i]);
		unlink(side);           /* of the empty one that was there */
		snprintf(side, sizeof(side), "%s%s", from, suffix[i]);
		unlink(side);
	}
	int err = sync_of(from, O_RDONLY);
	if (err == 0 && rename(from, path) != 0)
		err = -errno;
	if (err == 0)
		err = sync_of(directory[0] == '\0' ? "/" : directory, O_RDONLY | O_DIRECTORY);
	return err == 0 ? 0 : write_fail(r, "%s: %s", path, strerror(-err));
}

int restored_write(struct restored *r, const char *path)
{
	char making[4096];
	r->fault[0] = '\0';
	if (snprintf(making, sizeof(making), "%s.restoring", path) >= (int)sizeof(making))
		return write_fail(r, "%s: %s", path, strerror(ENAMETOOLONG));
	if (!is_empty(r, path))
		return -1;
	unlink(making);
	int rc = fill(r, making);
	if (rc == 0)
		rc = publish(r, making, path);
	if (rc != 0)
		unlink(making);
	return rc;
}

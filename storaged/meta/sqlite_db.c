/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. What fails before COMMIT is certainly not applied; what fails in it is UNKNOWN: the
 * WAL file may hold the whole commit frame, and the next opening may bring it to light. After an I/O
 * error the connection is closed, so that nothing it has cached is believed.
 */
#include "storaged/meta/sqlite_db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/must.h"

static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE IF NOT EXISTS pico_log (idx INTEGER PRIMARY KEY, node INTEGER NOT NULL, session INTEGER NOT NULL,"
	" proposal INTEGER NOT NULL, chain INTEGER NOT NULL, payload BLOB NOT NULL);"
	"CREATE TABLE IF NOT EXISTS pico_entity (key TEXT PRIMARY KEY, idx INTEGER NOT NULL, payload BLOB NOT NULL)"
	" WITHOUT ROWID;"
	"CREATE TABLE IF NOT EXISTS pico_snapshot (idx INTEGER NOT NULL);"
	"INSERT INTO pico_snapshot SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM pico_snapshot);"
	"COMMIT";

static const char *const statement_text[N_STATEMENTS] = {
	[STATEMENT_APPEND] = "INSERT INTO pico_log SELECT ?1, ?2, ?3, ?4, ?5, ?6"
			     " WHERE coalesce((SELECT max(idx) FROM pico_log), 0) = ?1 - 1",
	[STATEMENT_FETCH] = "SELECT idx, node, session, proposal, chain, payload FROM pico_log WHERE idx > ?1"
			    " ORDER BY idx LIMIT ?2",
	[STATEMENT_BOUNDS] = "SELECT (SELECT min(idx) FROM pico_log), (SELECT max(idx) FROM pico_log)",
	[STATEMENT_SNAPSHOT_IDX] = "SELECT idx FROM pico_snapshot",
	[STATEMENT_ENTITIES] = "SELECT key, idx, payload FROM pico_entity",
	[STATEMENT_ENTITY_PUT] = "INSERT INTO pico_entity VALUES (?1, ?2, ?3)"
				 " ON CONFLICT (key) DO UPDATE SET idx = excluded.idx, payload = excluded.payload",
	[STATEMENT_ENTITY_DELETE] = "DELETE FROM pico_entity WHERE key = ?1",
	[STATEMENT_SNAPSHOT_SET] = "UPDATE pico_snapshot SET idx = ?1",
	[STATEMENT_TRUNCATE] = "DELETE FROM pico_log WHERE idx < ?1 AND idx < (SELECT max(idx) FROM pico_log)",
};

void sqlite_db_init(struct sqlite_db *d, const char *path)
{
	*d = (struct sqlite_db){ .path = must_strdup(path), .lock_fd = -1 };
}

static void close_connection(struct sqlite_db *d)
{
	for (int i = 0; i < N_STATEMENTS; i++) {
		sqlite3_finalize(d->statement[i]);
		d->statement[i] = NULL;
	}
	sqlite3_close(d->db);
	d->db = NULL;
}

void sqlite_db_done(struct sqlite_db *d)
{
	close_connection(d);
	/* Only now: closing any descriptor of the file drops SQLite's own locks on it. */
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	free(d->path);
}

/* ---------------------------------------------------------------- what went wrong */

static void set_fault(struct sqlite_db *d, enum outcome outcome, int err, const char *what)
{
	d->outcome = outcome;
	d->err = err;
	snprintf(d->text, sizeof(d->text), "%s: %s", d->path, what);
}

static int errno_of(struct sqlite_db *d, int code)
{
	int system_errno = d->db == NULL ? 0 : sqlite3_system_errno(d->db);
	switch (code & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		return system_errno != 0 ? -system_errno : -EIO;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return -EBUSY;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	default:
		return -EBADMSG;        /* not a database, malformed, a wrong schema */
	}
}

/* Takes the fault from the connection, ends the transaction; false for the caller to return. */
static bool fail(struct sqlite_db *d, enum outcome outcome)
{
	int code = sqlite3_extended_errcode(d->db), err = errno_of(d, code);
	char what[256];
	snprintf(what, sizeof(what), "%s (%s)", sqlite3_errmsg(d->db), strerror(-err));
	set_fault(d, outcome, err, what);
	for (int i = 0; i < N_STATEMENTS; i++)
		sqlite3_reset(d->statement[i]);
	bool in_memory = strcmp(d->path, ":memory:") == 0;
	if (d->db == NULL)
		return false;
	if (!sqlite3_get_autocommit(d->db) && sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK &&
	    !in_memory)
		close_connection(d);
	else if (err != -EEXIST && err != -EBUSY && err != -ENOSPC && !in_memory)
		close_connection(d);
	return false;
}

/* ---------------------------------------------------------------- open */

static int sync_parent(const char *path)
{
	char parent[4096];
	const char *slash = strrchr(path, '/');
	if (slash == NULL || slash == path)
		snprintf(parent, sizeof(parent), "%s", slash == NULL ? "." : "/");
	else
		snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int err = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return err;
}

/* Makes the directories above path, each fsynced into its parent. */
static int make_directories(const char *path)
{
	char part[4096];
	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	for (const char *p = strchr(path + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
		if (mkdir(part, 0750) == 0) {
			int err = sync_parent(part);
			if (err != 0)
				return err;
		} else if (errno != EEXIST && access(part, F_OK) != 0) {
			return -errno;
		}
	}
	return 0;
}

static int lock_file(struct sqlite_db *d, const char **ret_what)
{
	*ret_what = "cannot be made";
	int err = make_directories(d->path);
	if (err != 0)
		return err;
	int fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
		close(fd);
		*ret_what = "is in use by another process";
		return err;
	}
	d->lock_fd = fd;
	return 0;
}

static bool open_connection(struct sqlite_db *d)
{
	if (sqlite3_open_v2(d->path, &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
		    SQLITE_OK ||
	    sqlite3_busy_timeout(d->db, 1000) != SQLITE_OK ||
	    sqlite3_exec(d->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_exec(d->db, schema, NULL, NULL, NULL) != SQLITE_OK)
		return false;
	for (int i = 0; i < N_STATEMENTS; i++)
		if (sqlite3_prepare_v3(d->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT, &d->statement[i],
				       NULL) != SQLITE_OK)
			return false;
	return true;
}

/* Whether an operation may go on; it begins as OK. */
static bool ready(struct sqlite_db *d)
{
	set_fault(d, OUTCOME_OK, 0, "ok");
	if (d->db != NULL)
		return true;
	if (d->lock_fd < 0 && strcmp(d->path, ":memory:") != 0) {
		const char *what;
		int err = lock_file(d, &what);
		if (err != 0) {
			char text[256];
			snprintf(text, sizeof(text), "%s (%s)", what, strerror(-err));
			set_fault(d, OUTCOME_NOT_APPLIED, err, text);
			return false;
		}
	}
	if (open_connection(d))
		return true;
	fail(d, OUTCOME_NOT_APPLIED);
	close_connection(d);
	return false;
}

/* ---------------------------------------------------------------- statements */

static bool execute(struct sqlite_db *d, const char *sql)
{
	return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK || fail(d, OUTCOME_NOT_APPLIED);
}

static bool commit(struct sqlite_db *d)
{
	int code = sqlite3_exec(d->db, "COMMIT", NULL, NULL, NULL);
	return code == SQLITE_OK || fail(d, code == SQLITE_BUSY ? OUTCOME_NOT_APPLIED : OUTCOME_UNKNOWN);
}

/* Runs one that gives no rows. */
static bool step(struct sqlite_db *d, enum sqlite_statement which)
{
	if (sqlite3_step(d->statement[which]) != SQLITE_DONE)
		return fail(d, OUTCOME_NOT_APPLIED);
	sqlite3_reset(d->statement[which]);
	return true;
}

static void bind_u64(struct sqlite_db *d, enum sqlite_statement which, int column, uint64_t v)
{
	sqlite3_bind_int64(d->statement[which], column, (sqlite3_int64)v);
}

static void bind_bytes(struct sqlite_db *d, enum sqlite_statement which, int column, struct slice bytes)
{
	/* A zero-length blob, not NULL, where there are no bytes. */
	sqlite3_bind_blob64(d->statement[which], column, bytes.n == 0 ? (const void *)"" : bytes.p, bytes.n,
			    SQLITE_STATIC);
}

static void bind_key(struct sqlite_db *d, enum sqlite_statement which, struct slice key)
{
	sqlite3_bind_text64(d->statement[which], 1, (const char *)key.p, key.n, SQLITE_STATIC, SQLITE_UTF8);
}

static struct slice column_copy(sqlite3_stmt *statement, int column)
{
	const void *p = sqlite3_column_blob(statement, column);
	size_t n = (size_t)sqlite3_column_bytes(statement, column);
	return slice_of(must_memdup(n == 0 ? "" : p, n), n);
}

static uint64_t column_u64(sqlite3_stmt *statement, int column)
{
	return (uint64_t)sqlite3_column_int64(statement, column);
}

/* ---------------------------------------------------------------- the log */

void sqlite_db_append(struct sqlite_db *d, const struct sql_row *row)
{
	if (!ready(d) || !execute(d, "BEGIN IMMEDIATE"))
		return;
	bind_u64(d, STATEMENT_APPEND, 1, row->idx);
	bind_u64(d, STATEMENT_APPEND, 2, row->node);
	bind_u64(d, STATEMENT_APPEND, 3, row->session);
	bind_u64(d, STATEMENT_APPEND, 4, row->proposal);
	bind_u64(d, STATEMENT_APPEND, 5, row->chain);
	bind_bytes(d, STATEMENT_APPEND, 6, row->payload);
	if (!step(d, STATEMENT_APPEND))
		return;
	if (sqlite3_changes(d->db) == 1) {
		commit(d);
	} else if (execute(d, "ROLLBACK")) {
		set_fault(d, OUTCOME_NOT_APPLIED, -EEXIST, "another row was first");
	}
}

static bool read_rows(struct sqlite_db *d, uint64_t after, size_t max_rows, struct sqlite_rows *ret)
{
	sqlite3_stmt *fetch = d->statement[STATEMENT_FETCH];
	bind_u64(d, STATEMENT_FETCH, 1, after);
	bind_u64(d, STATEMENT_FETCH, 2, max_rows);
	ret->row = must_calloc(max_rows, sizeof(ret->row[0]));
	int code;
	while ((code = sqlite3_step(fetch)) == SQLITE_ROW && ret->n < max_rows) {
		ret->row[ret->n++] = (struct sql_row){
			.idx = column_u64(fetch, 0), .node = (uint32_t)column_u64(fetch, 1),
			.session = column_u64(fetch, 2), .proposal = column_u64(fetch, 3),
			.chain = column_u64(fetch, 4), .payload = column_copy(fetch, 5),
		};
	}
	if (code != SQLITE_DONE && code != SQLITE_ROW)
		return fail(d, OUTCOME_NOT_APPLIED);
	sqlite3_reset(fetch);
	return true;
}

void sqlite_db_fetch(struct sqlite_db *d, uint64_t after, size_t max_rows, struct sqlite_rows *ret)
{
	if (!ready(d) || !execute(d, "BEGIN"))
		return;
	if (sqlite3_step(d->statement[STATEMENT_BOUNDS]) != SQLITE_ROW) {
		fail(d, OUTCOME_NOT_APPLIED);
		return;
	}
	ret->first_idx = column_u64(d->statement[STATEMENT_BOUNDS], 0);
	ret->last_idx = column_u64(d->statement[STATEMENT_BOUNDS], 1);
	sqlite3_reset(d->statement[STATEMENT_BOUNDS]);
	if (read_rows(d, after, max_rows, ret))
		execute(d, "COMMIT");
}

/* ---------------------------------------------------------------- the snapshot */

static bool read_snapshot_idx(struct sqlite_db *d, uint64_t *ret_idx)
{
	sqlite3_stmt *statement = d->statement[STATEMENT_SNAPSHOT_IDX];
	if (sqlite3_step(statement) != SQLITE_ROW)
		return fail(d, OUTCOME_NOT_APPLIED);
	*ret_idx = column_u64(statement, 0);
	sqlite3_reset(statement);
	return true;
}

/* Key and payload in one block. */
static struct sql_entity read_entity(sqlite3_stmt *statement)
{
	size_t n_key = (size_t)sqlite3_column_bytes(statement, 0), n = (size_t)sqlite3_column_bytes(statement, 2);
	uint8_t *p = must_calloc(1, n_key + n + 1);
	memcpy(p, sqlite3_column_text(statement, 0), n_key);
	if (n > 0)
		memcpy(p + n_key, sqlite3_column_blob(statement, 2), n);
	return (struct sql_entity){
		.key = slice_of(p, n_key), .idx = column_u64(statement, 1), .payload = slice_of(p + n_key, n),
	};
}

void sqlite_db_snapshot_read(struct sqlite_db *d, struct sqlite_entities *ret)
{
	if (!ready(d) || !execute(d, "BEGIN") || !read_snapshot_idx(d, &ret->idx))
		return;
	sqlite3_stmt *statement = d->statement[STATEMENT_ENTITIES];
	size_t capacity = 0;
	int code;
	while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
		if (ret->n == capacity) {
			capacity = capacity == 0 ? 64 : 2 * capacity;
			ret->entity = must_realloc(ret->entity, capacity * sizeof(ret->entity[0]));
		}
		ret->entity[ret->n++] = read_entity(statement);
	}
	if (code != SQLITE_DONE) {
		fail(d, OUTCOME_NOT_APPLIED);
		return;
	}
	sqlite3_reset(statement);
	execute(d, "COMMIT");
}

static bool write_entity(struct sqlite_db *d, const struct sql_entity *e)
{
	enum sqlite_statement which = e->payload.p == NULL ? STATEMENT_ENTITY_DELETE : STATEMENT_ENTITY_PUT;
	bind_key(d, which, e->key);
	if (which == STATEMENT_ENTITY_PUT) {
		bind_u64(d, which, 2, e->idx);
		bind_bytes(d, which, 3, e->payload);
	}
	return step(d, which);
}

void sqlite_db_snapshot_write(struct sqlite_db *d, uint64_t base, uint64_t idx, const struct sql_entity *changes,
			      size_t n, uint64_t keep_from)
{
	uint64_t stored = 0;
	if (!ready(d) || !execute(d, "BEGIN IMMEDIATE") || !read_snapshot_idx(d, &stored))
		return;
	if (stored != base || idx < base) {
		if (execute(d, "ROLLBACK"))
			set_fault(d, OUTCOME_NOT_APPLIED, -EEXIST, "the snapshot stands at another row");
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (!write_entity(d, &changes[i]))
			return;
	bind_u64(d, STATEMENT_SNAPSHOT_SET, 1, idx);
	bind_u64(d, STATEMENT_TRUNCATE, 1, keep_from);
	if (step(d, STATEMENT_SNAPSHOT_SET) && step(d, STATEMENT_TRUNCATE))
		commit(d);
}

void sqlite_rows_done(struct sqlite_rows *r)
{
	for (size_t i = 0; i < r->n; i++)
		free((void *)r->row[i].payload.p);
	free(r->row);
	*r = (struct sqlite_rows){ 0 };
}

void sqlite_entities_done(struct sqlite_entities *e)
{
	for (size_t i = 0; i < e->n; i++)
		free((void *)e->entity[i].key.p);
	free(e->entity);
	*e = (struct sqlite_entities){ 0 };
}

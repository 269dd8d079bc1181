/* SPDX-License-Identifier: Apache-2.0
 *
 * One SQLite connection and the four operations of sql_log.h, synchronous; for the SQL thread of
 * sqlite.c alone. It is opened at its first operation and again after an I/O error.
 *
 * The file is locked with flock() for the life of the connection's owner: a second process on the same
 * database is refused by that, whatever data directory it has.
 */
#ifndef STORAGED_META_SQLITE_DB_H
#define STORAGED_META_SQLITE_DB_H

#include <sqlite3.h>

#include "storaged/meta/sql_log.h"

#define SQLITE_DB_TEXT_MAX 512

enum sqlite_statement {
	STATEMENT_APPEND, STATEMENT_FETCH, STATEMENT_BOUNDS, STATEMENT_SNAPSHOT_IDX, STATEMENT_ENTITIES,
	STATEMENT_ENTITY_PUT, STATEMENT_ENTITY_DELETE, STATEMENT_SNAPSHOT_SET, STATEMENT_TRUNCATE, N_STATEMENTS,
};

struct sqlite_db {
	char *path;                     /* owned; ":memory:" for none */
	int lock_fd;                    /* -1: not locked yet */
	sqlite3 *db;                    /* NULL: not open */
	sqlite3_stmt *statement[N_STATEMENTS];
	enum outcome outcome;           /* of the last operation, with err and text */
	int err;
	char text[SQLITE_DB_TEXT_MAX];
};

/* What a read found; owned by whoever called. */
struct sqlite_rows {
	struct sql_row *row;            /* payloads are heap of their own */
	size_t n;
	uint64_t first_idx, last_idx;
};
struct sqlite_entities {
	struct sql_entity *entity;      /* key and payload are one heap block at key.p */
	size_t n;
	uint64_t idx;
};

void sqlite_db_init(struct sqlite_db *d, const char *path);
void sqlite_db_done(struct sqlite_db *d);

/* The outcome of each is in d->outcome, err, text. */
void sqlite_db_append(struct sqlite_db *d, const struct sql_row *row);
void sqlite_db_fetch(struct sqlite_db *d, uint64_t after, size_t max_rows, struct sqlite_rows *ret);
void sqlite_db_snapshot_read(struct sqlite_db *d, struct sqlite_entities *ret);
void sqlite_db_snapshot_write(struct sqlite_db *d, uint64_t base, uint64_t idx, const struct sql_entity *changes,
			      size_t n, uint64_t keep_from);

void sqlite_rows_done(struct sqlite_rows *r);
void sqlite_entities_done(struct sqlite_entities *e);

#endif

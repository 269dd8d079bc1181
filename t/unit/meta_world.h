/* SPDX-License-Identifier: Apache-2.0
 *
 * A command log under test: a libuv environment, a real SQLite file in a directory of its own, a store
 * in memory for the cluster object, and between meta and SQLite a wrapper that can lose answers, refuse, or slip in
 * what somebody else wrote.
 */
#ifndef T_UNIT_META_WORLD_H
#define T_UNIT_META_WORLD_H

#include "common/env_uv.h"
#include "storaged/meta/meta.h"

enum sql_fault {
	FAULT_NONE,
	FAULT_UNKNOWN_APPLIED,          /* the statement runs, its answer is lost */
	FAULT_UNKNOWN_LOST,             /* it never runs, and nobody says so */
	FAULT_UNKNOWN_LATE,             /* it runs after the next fetch */
	FAULT_AWAY,                     /* certainly not done: the database does not answer */
};

struct faulty_sql {
	struct sql_log base;
	struct sql_log *real;           /* owned */
	enum sql_fault append, write;   /* of the next append / snapshot write, once (AWAY: until it is taken back) */
	bool fetch_away;
	unsigned n_append, n_fetch, n_write, n_read;
	struct faulty_op *late;
};

struct mem_object {
	uint8_t bytes[256];
	size_t n;
	bool there;
};

/* Holds one object, "cluster". */
struct mem_store {
	struct objstore base;
	struct env *env;
	struct mem_object cluster;
	enum outcome put_outcome;       /* of the next put; UNKNOWN: it is stored */
	int put_err, get_err;           /* of every one while not 0 */
	unsigned n_put, n_get;
	uint64_t export_idx;            /* an export of that row is there; 0: none */
	const char *wal_object;         /* one is there; NULL: none */
	struct mem_op *ops;
};

struct world {
	uv_loop_t loop;
	struct env *env;
	char dir[64], url[128];
	struct faulty_sql *sql;
	struct mem_store store, wal_store;
	bool two_stores;
	struct meta_config config;
	struct meta *meta;
	bool registered, refused, ended;        /* events */
	uint64_t session;
	char text[2048];                /* of the refusal */
	unsigned n_applied;
	enum sql_fault first_append;    /* fault of the first append after a start */
	bool first_fetch_away;
};

void world_init(struct world *w);
void world_done(struct world *w);
/* A process: opens the database, makes and starts a meta with a fresh boot id. */
void world_start(struct world *w);
/* It is gone: everything that hangs in memory is freed. */
void world_stop(struct world *w);
/* Runs the loop until *flag; false after 5 s. */
bool world_run(struct world *w, const bool *flag);
/* The same until meta_fault() says that text. */
bool world_run_fault(struct world *w, const char *text);
/* Runs it for so long. */
void world_run_ms(struct world *w, uint64_t ms);

/* On the database file itself, by a connection of the test. */
void world_sql(struct world *w, const char *sql);
int64_t world_query(struct world *w, const char *sql);
/* A row that somebody else writes behind the last one, past the wrapper. spoil: its chain is wrong. */
void world_row(struct world *w, Meta__Command *c, uint32_t node, uint64_t session, uint64_t proposal, bool spoil);
/* As one more process of that node would. */
void world_register(struct world *w, uint32_t node);

struct create {
	const char *name, *content_type;
	uint32_t partitions;
	uint8_t topic_id[16];           /* result, with the rest */
	bool done, created, lost;       /* lost: answered NULL */
	uint32_t error;
	char message[512];
};
/* Proposes; must be taken. */
void world_create(struct world *w, struct create *c);

#endif

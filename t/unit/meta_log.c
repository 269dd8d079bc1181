/* SPDX-License-Identifier: Apache-2.0
 *
 * The command log on real SQLite files: start, proposals, restart, and everything that can come between a
 * proposal and its answer. Storage is a little store in memory; a wrapper around the database plays its faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/must.h"
#include "storaged/meta/meta.h"
#include "storaged/meta/snapshot.h"
#include "storaged/planted.h"
#include "t/unit/meta_world.h"

static void test_start_empty(void **arg)
{
	struct world w;
	world_init(&w);
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_int_equal(w.session, 1);
	assert_null(meta_fault(w.meta));
	assert_int_equal(state_idx(meta_state(w.meta)), 2);
	struct create c = { .name = "/orders/eu" };
	world_create(&w, &c);
	assert_true(world_run(&w, &c.done));
	assert_int_equal(c.error, PICO_OK);
	assert_true(c.created);
	const struct state_topic *t = state_topic_find(meta_state(w.meta), slice_str("orders.eu"));
	assert_non_null(t);
	assert_string_equal(t->name, "/orders/eu");
	assert_string_equal(t->kafka_topic, "orders.eu");
	assert_int_equal(t->partition[0].owner, 1);
	world_stop(&w);

	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_int_equal(w.session, 2);
	t = state_topic_by_name(meta_state(w.meta), slice_str("/orders/eu"));
	assert_non_null(t);
	const struct state_session *s = state_session_next(meta_state(w.meta), 1, 0);
	assert_int_equal(s->session, 1);
	assert_int_equal(s->state, SESSION_ENDED);
	assert_int_equal(s->recoverer, 1);
	world_stop(&w);
	world_done(&w);
}


/* Started, with topic "/first"; the row count so far is 3. */
static void world_begin(struct world *w)
{
	world_init(w);
	world_start(w);
	assert_true(world_run(w, &w->registered));
	struct create c = { .name = "/first" };
	world_create(w, &c);
	assert_true(world_run(w, &c.done));
	assert_int_equal(state_idx(meta_state(w->meta)), 3);
}

static void world_restart(struct world *w)
{
	world_stop(w);
	world_start(w);
	assert_true(world_run(w, &w->registered));
}

static const struct state_topic *topic(struct world *w, const char *name)
{
	return state_topic_by_name(meta_state(w->meta), slice_str(name));
}

/* Whatever becomes of the append: one row, one topic, one answer, and the number goes on. */
static void check_append_fault(enum sql_fault fault, unsigned appends)
{
	struct world w;
	world_begin(&w);
	struct create c = { .name = "/a" }, d = { .name = "/b" };
	w.sql->append = fault;
	w.sql->n_append = 0;
	world_create(&w, &c);
	assert_true(world_run(&w, &c.done));
	assert_false(c.lost);
	assert_int_equal(c.error, PICO_OK);
	assert_true(c.created);
	assert_int_equal(w.sql->n_append, appends);
	assert_int_equal(state_idx(meta_state(w.meta)), 4);
	assert_null(meta_fault(w.meta));
	world_create(&w, &d);
	assert_true(world_run(&w, &d.done));
	assert_true(d.created);
	assert_int_equal(world_query(&w, "SELECT count(*) FROM pico_log"), 5);
	assert_int_equal(world_query(&w, "SELECT max(proposal) FROM pico_log"), 3);
	world_restart(&w);
	assert_int_equal(state_n_topics(meta_state(w.meta)), 3);
	assert_memory_equal(topic(&w, "/a")->id, c.topic_id, 16);
	world_stop(&w);
	world_done(&w);
}

static void test_unknown_applied(void **arg)
{
	check_append_fault(FAULT_UNKNOWN_APPLIED, 1);
}

static void test_unknown_lost(void **arg)
{
	check_append_fault(FAULT_UNKNOWN_LOST, 2);
}

static void test_unknown_late(void **arg)
{
	check_append_fault(FAULT_UNKNOWN_LATE, 2);
}

static void test_somebody_first(void **arg)
{
	struct world w;
	world_begin(&w);
	world_register(&w, 2);
	unsigned applied = w.n_applied;
	struct create c = { .name = "/a" };
	world_create(&w, &c);
	assert_true(world_run(&w, &c.done));
	assert_true(c.created);
	assert_int_equal(w.n_applied, applied + 2);
	assert_non_null(state_node(meta_state(w.meta), 2));
	assert_int_equal(state_idx(meta_state(w.meta)), 5);
	world_stop(&w);
	world_done(&w);
}

static Meta__Command *delete_command(Meta__Command *c, Meta__DeleteTopic *d, const uint8_t *id, uint64_t session)
{
	meta__command__init(c);
	meta__delete_topic__init(d);
	c->kind_case = META__COMMAND__KIND_DELETE_TOPIC;
	c->delete_topic = d;
	d->topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	d->node = 1;
	d->session = session;
	return c;
}

/* A row with a number that was applied already is skipped, whatever is in it. */
static void test_second_copy(void **arg)
{
	struct world w;
	world_begin(&w);
	Meta__Command command;
	Meta__DeleteTopic delete;
	world_row(&w, delete_command(&command, &delete, topic(&w, "/first")->id, 1), 1, 1, 1, false);
	unsigned applied = w.n_applied;
	struct create c = { .name = "/a" };
	world_create(&w, &c);
	assert_true(world_run(&w, &c.done));
	assert_true(c.created);
	assert_int_equal(w.n_applied, applied + 1);
	assert_int_equal(state_idx(meta_state(w.meta)), 5);
	assert_non_null(topic(&w, "/first"));
	world_stop(&w);
	world_done(&w);
}

static void test_away_and_back(void **arg)
{
	struct world w;
	world_begin(&w);
	w.sql->append = FAULT_AWAY;
	struct create c = { .name = "/a" }, d = { .name = "/b" };
	world_create(&w, &c);
	world_create(&w, &d);
	w.sql->n_append = 0;
	assert_true(world_run_fault(&w, "/meta.db: disk I/O error"));
	for (int i = 0; i < 40; i++) {          /* red all the time, though the log can be read */
		world_run_ms(&w, 5);
		assert_non_null(meta_fault(w.meta));
		assert_non_null(strstr(meta_fault(w.meta), "/meta.db: disk I/O error"));
	}
	assert_false(c.done);
	assert_in_range(w.sql->n_append, 2, 5); /* 20, 40, 80, 160 ms */
	assert_true(w.sql->n_fetch >= 2);
	w.sql->append = FAULT_NONE;
	w.sql->fetch_away = true;
	world_run_ms(&w, 50);
	assert_false(c.done);
	w.sql->fetch_away = false;
	assert_true(world_run(&w, &d.done));
	assert_true(c.done && c.created && d.created);
	assert_null(meta_fault(w.meta));
	world_stop(&w);
	/* At the start, too. */
	w.first_fetch_away = true;
	world_start(&w);
	assert_true(world_run_fault(&w, ""));
	assert_false(w.registered);
	w.sql->fetch_away = false;
	assert_true(world_run(&w, &w.registered));
	world_stop(&w);
	world_done(&w);
}

static void test_chain_broken(void **arg)
{
	struct world w;
	world_begin(&w);
	Meta__Command command;
	Meta__DeleteTopic delete;
	uint8_t id[16];
	memcpy(id, topic(&w, "/first")->id, 16);
	world_row(&w, delete_command(&command, &delete, id, 1), 1, 1, 2, true);
	struct create c = { .name = "/a" };
	world_create(&w, &c);
	assert_true(world_run(&w, &w.refused));
	assert_false(c.done);
	assert_non_null(topic(&w, "/first"));
	assert_non_null(strstr(w.text, w.url));
	assert_non_null(strstr(w.text, "row 4"));
	assert_non_null(strstr(w.text, "Restore"));
	assert_string_equal(meta_fault(w.meta), w.text);
	w.sql->n_append = 0;
	Meta__Command noop = META__COMMAND__INIT;
	assert_int_equal(meta_propose(w.meta, &noop, NULL, NULL), -ENOBUFS);
	world_run_ms(&w, 30);
	assert_int_equal(w.sql->n_append, 0);   /* nothing is proposed any more */
	world_stop(&w);
	world_start(&w);
	assert_true(world_run(&w, &w.refused));
	assert_false(w.registered);
	world_stop(&w);
	world_done(&w);
}

static void test_back_in_time(void **arg)
{
	struct world w;
	world_begin(&w);
	world_sql(&w, "DELETE FROM pico_log WHERE idx = 3");
	w.sql->append = FAULT_UNKNOWN_LOST;
	struct create c = { .name = "/a" };
	world_create(&w, &c);
	assert_true(world_run(&w, &w.refused));
	assert_false(c.done);
	assert_non_null(strstr(w.text, "ends at row 2, but row 3 was applied"));
	world_stop(&w);
	world_done(&w);
}

static void test_row_missing(void **arg)
{
	struct world w;
	world_begin(&w);
	world_stop(&w);
	world_sql(&w, "DELETE FROM pico_log WHERE idx = 2");
	world_start(&w);
	assert_true(world_run(&w, &w.refused));
	assert_non_null(strstr(w.text, "row 2 of the command log is missing"));
	world_stop(&w);
	world_done(&w);
}

static void test_not_a_row(void **arg)
{
	struct world w;
	world_begin(&w);
	world_stop(&w);
	world_sql(&w, "UPDATE pico_log SET payload = x'ff' WHERE idx = 3");
	world_start(&w);
	assert_true(world_run(&w, &w.refused));
	assert_non_null(strstr(w.text, "row 3"));
	world_stop(&w);
	world_done(&w);
}

static void test_session_ended(void **arg)
{
	struct world w;
	world_begin(&w);
	world_register(&w, 1);
	struct create c = { .name = "/a" }, d = { .name = "/b" };
	world_create(&w, &c);
	world_create(&w, &d);
	assert_true(world_run(&w, &w.ended));
	assert_true(c.done && c.lost && d.done && d.lost);
	assert_false(w.refused);
	world_run_ms(&w, 30);
	assert_int_equal(world_query(&w, "SELECT count(*) FROM pico_log"), 4);
	world_stop(&w);
	world_done(&w);
}

static void create_many(struct world *w, struct create *c, char (*name)[16], int from, int to)
{
	for (int i = from; i < to; i++) {
		snprintf(name[i], sizeof(name[i]), "/t%05d", i);
		c[i].name = name[i];
		world_create(w, &c[i]);
	}
	assert_true(world_run(w, &c[to - 1].done));
	for (int i = from; i < to; i++)
		assert_true(c[i].created);
}

static void test_batches(void **arg)
{
	struct world w;
	world_begin(&w);
	static struct create c[600];
	static char name[600][16];
	memset(c, 0, sizeof(c));
	create_many(&w, c, name, 0, 600);
	assert_int_equal(state_idx(meta_state(w.meta)), 6);     /* 256, 256, 88 */
	assert_int_equal(world_query(&w, "SELECT max(proposal) FROM pico_log"), 4);
	world_restart(&w);
	assert_int_equal(state_n_topics(meta_state(w.meta)), 601);
	world_stop(&w);
	world_done(&w);
}

/* ---------------------------------------------------------------- snapshots */

#define MANY 10000

static void test_ten_thousand(void **arg)
{
	struct world w;
	world_begin(&w);
	static struct create c[MANY + 500];
	static char name[MANY + 500][16];
	memset(c, 0, sizeof(c));
	create_many(&w, c, name, 0, MANY);
	for (int i = 0; i < 100 && world_query(&w, "SELECT idx FROM pico_snapshot") == 0; i++)
		world_run_ms(&w, 20);
	int64_t idx = world_query(&w, "SELECT idx FROM pico_snapshot");
	assert_true(idx > 30);
	assert_true(world_query(&w, "SELECT count(*) FROM pico_entity WHERE key LIKE 'topic/%'") > 9000);
	create_many(&w, c, name, MANY, MANY + 500);
	assert_true((int64_t)state_idx(meta_state(w.meta)) > idx);
	uint64_t began = env_now_ms(w.env);
	world_restart(&w);
	assert_true(env_now_ms(w.env) - began < 3000);
	assert_int_equal(state_n_topics(meta_state(w.meta)), MANY + 501);
	assert_true(w.n_applied < 2 * MANY);
	for (int i = 0; i < MANY + 500; i += 97)
		assert_memory_equal(topic(&w, c[i].name)->id, c[i].topic_id, 16);
	/* The rows that the snapshot holds may go. */
	world_stop(&w);
	world_sql(&w, "DELETE FROM pico_log WHERE idx <= (SELECT idx FROM pico_snapshot)");
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_int_equal(state_n_topics(meta_state(w.meta)), MANY + 501);
	world_stop(&w);
	world_done(&w);
}

static void delete_topic(struct world *w, const char *name)
{
	Meta__Command command;
	Meta__DeleteTopic delete;
	struct create c = { 0 };
	assert_int_equal(meta_propose(w->meta, delete_command(&command, &delete, topic(w, name)->id, 0), NULL, NULL), 0);
	c.name = "/after";
	world_create(w, &c);
	assert_true(world_run(w, &c.done));
}

/* Small snapshots all the time, with lost answers; and what the database holds is always the state. */
static void test_snapshot_faults(void **arg)
{
	struct world w;
	world_init(&w);
	w.config.snapshot_rows = 4;
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	static const enum sql_fault faults[] = { FAULT_NONE, FAULT_UNKNOWN_APPLIED, FAULT_UNKNOWN_LOST, FAULT_NONE };
	for (size_t k = 0; k < 4; k++) {
		w.sql->write = faults[k];
		char name[6][16];
		for (int i = 0; i < 6; i++) {
			snprintf(name[i], sizeof(name[i]), "/k%zu-%d", k, i);
			struct create c = { .name = name[i] };
			world_create(&w, &c);
			assert_true(world_run(&w, &c.done));
		}
		delete_topic(&w, name[2]);
		for (int i = 0; i < 50 && (int64_t)state_idx(meta_state(w.meta)) -
					  world_query(&w, "SELECT idx FROM pico_snapshot") >= 4; i++)
			world_run_ms(&w, 10);
		assert_true((int64_t)state_idx(meta_state(w.meta)) - world_query(&w, "SELECT idx FROM pico_snapshot") < 4);
		assert_int_equal(w.sql->write, FAULT_NONE);
		size_t topics = state_n_topics(meta_state(w.meta));
		assert_int_equal(topics, 5 * (k + 1) + 1);
		world_stop(&w);
		world_sql(&w, "DELETE FROM pico_log WHERE idx <= (SELECT idx FROM pico_snapshot) AND idx < "
			      "(SELECT max(idx) FROM pico_log)");
		world_start(&w);
		assert_true(world_run(&w, &w.registered));
		assert_int_equal(state_n_topics(meta_state(w.meta)), topics);
		assert_null(topic(&w, name[2]));
	}
	world_stop(&w);
	world_done(&w);
}

struct kept_write {
	struct sql_entity e[64];
	size_t n;
};

static void keep_entity(void *arg, const struct sql_entity *e)
{
	struct kept_write *k = arg;
	must(k->n < 64);
	k->e[k->n] = *e;
	k->e[k->n].key.p = must_memdup(e->key.p, e->key.n);
	k->e[k->n++].payload.p = must_memdup(e->payload.p, e->payload.n);
}

struct replay {
	struct state *s;
	bool done;
};

static void on_replay(void *arg, struct sql_result result, const struct sql_row *rows, size_t n, uint64_t first,
		      uint64_t last)
{
	struct replay *r = arg;
	for (size_t i = 0; i < n; i++) {
		Meta__Result *results;
		must(state_apply(r->s, &rows[i], &results) == 0);
		meta__result__free_unpacked(results, NULL);
	}
	r->done = true;
}

static void on_done(void *arg, struct sql_result result)
{
	must(result.outcome == OUTCOME_OK);
	*(bool *)arg = true;
}

/* Another node's snapshot of all rows, after which they go. */
static void snapshot_by_another(struct world *w)
{
	struct replay r = { .s = state_new() };
	w->sql->real->ops->fetch(w->sql->real, 0, 100, on_replay, &r);
	assert_true(world_run(w, &r.done));
	struct kept_write k = { .n = 0 };
	state_snapshot_begin(r.s, 0, keep_entity, &k);
	while (state_snapshot_step(r.s, 10))
		;
	state_snapshot_end(r.s);
	bool done = false;
	w->sql->real->ops->snapshot_write(w->sql->real, 0, state_idx(r.s), k.e, k.n, state_idx(r.s), on_done, &done);
	assert_true(world_run(w, &done));
	for (size_t i = 0; i < k.n; i++) {
		free((void *)k.e[i].key.p);
		free((void *)k.e[i].payload.p);
	}
	state_free(r.s);
	assert_int_equal(world_query(w, "SELECT count(*) FROM pico_log"), 1);
}

/* The answer of a proposal is lost, and so is its row: a snapshot has both. */
static void test_answer_from_state(void **arg)
{
	struct world w;
	world_begin(&w);
	w.sql->append = FAULT_UNKNOWN_APPLIED;
	w.sql->fetch_away = true;
	struct create c = { .name = "/a" };
	world_create(&w, &c);
	world_run_ms(&w, 30);
	assert_false(c.done);
	world_register(&w, 2);
	snapshot_by_another(&w);
	w.sql->fetch_away = false;
	w.sql->n_append = 0;
	assert_true(world_run(&w, &c.done));
	assert_true(c.created);
	assert_int_equal(w.sql->n_append, 0);
	assert_memory_equal(topic(&w, "/a")->id, c.topic_id, 16);
	assert_int_equal(w.sql->n_read, 2);
	struct create d = { .name = "/b" };
	world_create(&w, &d);
	assert_true(world_run(&w, &d.done));
	assert_true(d.created);
	world_stop(&w);
	world_done(&w);
}

/* ---------------------------------------------------------------- cluster objects */

static void test_start_faults(void **arg)
{
	static const enum sql_fault faults[] = { FAULT_UNKNOWN_APPLIED, FAULT_UNKNOWN_LOST, FAULT_UNKNOWN_LATE };
	for (size_t i = 0; i < 3; i++) {
		struct world w;
		world_init(&w);
		w.first_append = faults[i];             /* InitCluster */
		w.store.put_outcome = OUTCOME_UNKNOWN;  /* stored, the answer lost */
		world_start(&w);
		assert_true(world_run(&w, &w.registered));
		assert_int_equal(w.session, 1);
		assert_int_equal(w.store.n_put, 2);
		assert_int_equal(w.store.n_get, 1);
		assert_int_equal(world_query(&w, "SELECT count(*) FROM pico_log"), 2);
		world_stop(&w);
		w.first_append = faults[i];             /* RegisterNode */
		world_start(&w);
		assert_true(world_run(&w, &w.registered));
		assert_int_equal(w.session, 2);
		assert_int_equal(w.store.n_put, 2);
		assert_int_equal(w.store.n_get, 2);
		assert_int_equal(world_query(&w, "SELECT count(*) FROM pico_log"), 3);
		world_stop(&w);
		world_done(&w);
	}
}

/* A crash between InitCluster and RegisterNode: the object is put again. */
static void test_cluster_put_again(void **arg)
{
	struct world w;
	world_init(&w);
	w.store.put_err = -EIO;
	world_start(&w);
	assert_true(world_run_fault(&w, "mem://data"));
	assert_false(w.registered || w.refused);
	assert_non_null(strstr(meta_fault(w.meta), "Input/output error"));
	assert_int_equal(world_query(&w, "SELECT count(*) FROM pico_log"), 1);
	world_stop(&w);
	w.store.put_err = 0;
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_true(w.store.cluster.there);
	world_stop(&w);
	world_done(&w);
}

static void check_refused(struct world *w, const char *word, const char *other)
{
	world_start(w);
	assert_true(world_run(w, &w->refused));
	assert_false(w->registered);
	if (strstr(w->text, word) == NULL || strstr(w->text, other) == NULL || strstr(w->text, w->url) == NULL)
		fail_msg("%s", w->text);
	world_stop(w);
}

static void test_cluster_refusals(void **arg)
{
	struct world w;
	world_begin(&w);
	world_stop(&w);
	struct mem_object ours = w.store.cluster;
	/* The database was used, the bucket is empty. */
	w.store.cluster.there = false;
	check_refused(&w, "no cluster object", "mem://data");
	/* Another cluster's bucket. */
	w.store.cluster = ours;
	w.store.cluster.bytes[5] ^= 0xff;
	check_refused(&w, "do not belong together", "mem://data");
	/* Rubbish; a newer FORMAT (field 2 of the object is its last byte). */
	w.store.cluster = ours;
	w.store.cluster.n--;
	check_refused(&w, "not readable", "mem://data");
	w.store.cluster = ours;
	w.store.cluster.bytes[ours.n - 1] = 9;
	check_refused(&w, "FORMAT 9", "mem://data");
	/* A WAL store of its own that was never seen. */
	w.store.cluster = ours;
	w.two_stores = true;
	check_refused(&w, "no cluster object", "mem://wal");
	w.wal_store.cluster = ours;
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	world_stop(&w);
	/* A new database on the old bucket, at every start. */
	world_sql(&w, "DELETE FROM pico_log");
	check_refused(&w, "is new, but storage", "mem://data");
	check_refused(&w, "is new, but storage", "mem://data");
	assert_memory_equal(w.store.cluster.bytes, ours.bytes, ours.n);
	world_done(&w);
}

/* An export says how far the database once was. */
static void test_older_copy(void **arg)
{
	struct world w;
	world_begin(&w);
	world_stop(&w);
	uint64_t last = (uint64_t)world_query(&w, "SELECT max(idx) FROM pico_log");
	w.store.export_idx = last + 1;
	check_refused(&w, "is an older copy", "restore-metadata");
	assert_int_equal(world_query(&w, "SELECT max(idx) FROM pico_log"), last);
	w.store.export_idx = last;
	/* A session that it does not know has written. */
	w.store.wal_object = "wal/1/0000000000000002/0000000000000007";
	check_refused(&w, "is an older copy", "0000000000000007");
	w.store.wal_object = NULL;
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	world_stop(&w);
	world_done(&w);
}

static void test_two_stores(void **arg)
{
	struct world w;
	world_init(&w);
	w.two_stores = true;
	w.wal_store.get_err = -EIO;
	world_start(&w);
	assert_true(world_run(&w, &w.registered));
	assert_true(w.store.cluster.there && w.wal_store.cluster.there);
	assert_int_equal(w.store.cluster.n, w.wal_store.cluster.n);
	assert_memory_equal(w.store.cluster.bytes, w.wal_store.cluster.bytes, w.store.cluster.n);
	world_stop(&w);
	world_start(&w);
	assert_true(world_run_fault(&w, "mem://wal"));
	assert_false(w.registered);
	w.wal_store.get_err = 0;                        /* it is back */
	assert_true(world_run(&w, &w.registered));
	world_stop(&w);
	world_done(&w);
}

#ifdef PICO_PLANTED_BUGS
/* The switches do what they say. */
static void test_planted(void **arg)
{
	struct world w;
	world_begin(&w);
	planted_bug = PLANTED_UNKNOWN_AS_FAILURE;
	w.sql->append = FAULT_UNKNOWN_APPLIED;
	struct create c = { .name = "/a" }, d = { .name = "/b" };
	world_create(&w, &c);
	assert_true(world_run(&w, &c.done));
	assert_int_equal(c.error, PICO_UNAVAILABLE);
	planted_bug = PLANTED_UNKNOWN_AS_SUCCESS;
	world_run_ms(&w, 100);
	w.sql->append = FAULT_UNKNOWN_LOST;
	world_create(&w, &d);
	assert_true(world_run(&w, &d.done));
	planted_bug = PLANTED_NONE;
	world_stop(&w);
	world_done(&w);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_empty), cmocka_unit_test(test_unknown_applied),
		cmocka_unit_test(test_unknown_lost), cmocka_unit_test(test_unknown_late),
		cmocka_unit_test(test_somebody_first), cmocka_unit_test(test_second_copy),
		cmocka_unit_test(test_away_and_back), cmocka_unit_test(test_chain_broken),
		cmocka_unit_test(test_back_in_time), cmocka_unit_test(test_row_missing),
		cmocka_unit_test(test_not_a_row), cmocka_unit_test(test_session_ended),
		cmocka_unit_test(test_batches), cmocka_unit_test(test_ten_thousand),
		cmocka_unit_test(test_snapshot_faults), cmocka_unit_test(test_answer_from_state),
		cmocka_unit_test(test_start_faults), cmocka_unit_test(test_cluster_put_again),
		cmocka_unit_test(test_cluster_refusals), cmocka_unit_test(test_older_copy),
		cmocka_unit_test(test_two_stores),
#ifdef PICO_PLANTED_BUGS
		cmocka_unit_test(test_planted),
#endif
	};
	return cmocka_run_group_tests_name("meta_log", tests, NULL, NULL);
}
